//! Targets that run a process for each input: their corpora, and random bytes.
//!
//! `FROM=n` starts at another seed, `SEEDS=n` runs n of them.

use std::fs;
use std::path::Path;

use weir_fuzz::PROCESS_TARGETS;
use weir_sched::simulate::SeededRandom;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Bytes of a seed: few or many, with a few values or all of them.
fn bytes(seed: u64) -> Vec<u8> {
    let mut random = SeededRandom::new(seed);
    let length = [20, 200, 1_000, 4_000][random.below(4) as usize];
    (0..=random.below(length)).map(|_| random.next() as u8).collect()
}

#[test]
fn random_inputs_leave_nothing_behind() {
    let (from, count) = (number("FROM").unwrap_or(0), number("SEEDS").unwrap_or(SEEDS));
    for (name, target) in PROCESS_TARGETS {
        for seed in from..from + count {
            eprintln!("{name}, seed {seed}");
            target(&bytes(seed));
        }
    }
}

#[test]
fn corpora_of_processes_replay_without_a_panic() {
    for (name, target) in PROCESS_TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        let entries = fs::read_dir(&folder).expect("each target has a corpus");
        for entry in entries {
            let path = entry.expect("a corpus can be listed").path();
            eprintln!("{}", path.display());
            target(&fs::read(path).expect("a corpus can be read"));
        }
    }
}

/// Random inputs of a test run.
const SEEDS: u64 = 100;
