//! A whole worker over a simulated network. A seed determines the bytes, times and pieces that clients and servers send,
//! and the failures.
//!
//! A *scenario* (one file in `scenarios/`, with a list of them there) is a configuration and scripts for clients and servers. A
//! *course* is a seed's variant of it: every second one is faultless, and there everything must work, however bytes are cut and
//! delayed; in the others anything may fail at any time. After each run the same checks apply (`check.rs`): one log line for each
//! stream, counters that add up, complete bodies for the right requests, nothing held, nothing waiting.
//!
//! Failures found by such runs have cases of their own in `cases.rs`, with a script instead of a seed.
//!
//! `SEEDS=n` runs n seeds, `FROM=n` starts at another one, `SCENARIO=name` keeps only those of scenarios with names that begin
//! so; `SEED=n ... one_seed -- --nocapture` runs one and prints its events.

mod agent;
mod application;
mod cases;
mod check;
mod client;
mod course;
mod engines;
#[allow(dead_code, reason = "other tests log to descriptors")]
#[path = "../support/instance.rs"]
mod instance;
mod multiplexed;
mod pieces;
mod plan;
mod reader;
mod scenarios;
mod sending;
mod server;
mod stage;
mod wire;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once};

use course::Course;
use instance::datagrams::pattern;
use rustix::process::{Resource, Rlimit};
use scenarios::{SCENARIOS, Scenario};
use stage::Stage;
use weir_sched::simulate::network;

/// Runs a seed. Returns a digest of all events.
fn run(seed: u64, trace: bool) -> Result<u64, String> {
    let scenario = scenario_of(seed);
    let mut course = Course::of(seed);
    course.conditions.trace = trace;
    let text = [scenario.defaults, scenario.text].concat();
    if trace {
        eprintln!("scenario {}: {course:#?}\n{text}", scenario.name);
    }
    let outcome = run_course(seed, course, text, scenario.play);
    outcome.map_err(|why| format!("{why}, in {}", scenario.name))
}

fn scenario_of(seed: u64) -> &'static Scenario {
    &SCENARIOS[seed as usize % SCENARIOS.len()]
}

/// Runs in a thread of its own, because a worker keeps state in its thread.
fn run_course(
    seed: u64,
    course: Course,
    text: String,
    play: impl FnOnce(Rc<Stage>) + Send + 'static,
) -> Result<u64, String> {
    WITHOUT_TIMERS.call_once(refuse_timers);
    let thread = std::thread::Builder::new().name(format!("seed {seed}")).spawn(move || {
        let conditions = course.conditions.clone();
        let run = network::run(seed, conditions, |network| async move {
            let stage = Stage::start(network, &text, &course);
            if let Some(after_ms) = course.stop_after_ms {
                let stage = Rc::clone(&stage);
                weir_sched::spawn(&STOP, weir_sched::Class::Normal, async move {
                    weir_sched::sleep_until(weir_sched::now().after(after_ms)).await;
                    stage.stop();
                });
            }
            play(Rc::clone(&stage));
            stage.played().await;
            check::check(&stage).await;
        });
        let run = run.expect("a worker");
        match (run.outcome, PANICS.get()) {
            (Ok(()), 0) => Ok(run.digest),
            (outcome, panics) => Err(format!("{outcome:?}, {panics} panics")),
        }
    });
    thread.expect("a thread").join().unwrap_or_else(|_| Err("panicked".to_owned()))
}

/// Slices of scripts end after CPU time, which differs from run to run. Where the kernel refuses timers, they end after instructions.
fn refuse_timers() {
    let limit = rustix::process::getrlimit(Resource::Sigpending);
    rustix::process::setrlimit(Resource::Sigpending, Rlimit { current: Some(0), ..limit })
        .expect("limits may be lowered");
}

static WITHOUT_TIMERS: Once = Once::new();
static STOP: weir_sched::WorkKind = weir_sched::WorkKind::new("soft stop");

thread_local! {
    /// The worker catches panics of tasks, so they are counted here.
    static PANICS: Cell<u32> = const { Cell::new(0) };
}

fn count_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANICS.set(PANICS.get() + 1);
        eprintln!("{}: {panic}", std::thread::current().name().unwrap_or_default());
    }));
}

fn seeds(from: u64, count: u64) {
    count_panics();
    let next = AtomicU64::new(0);
    let failed = Mutex::new(Vec::new());
    let only = std::env::var("SCENARIO").unwrap_or_default();
    let threads = std::thread::available_parallelism().map_or(2, |threads| threads.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = from + next.fetch_add(1, Relaxed);
                    // A few failures are enough. More only take time.
                    if seed >= from + count || failed.lock().expect("pushing does not panic").len() >= 5 {
                        break;
                    }
                    if !scenario_of(seed).name.starts_with(&only) {
                        continue;
                    }
                    if let Err(why) = run(seed, false) {
                        eprintln!(
                            "{why}: SEED={seed} cargo test -p weir-stream --test simulated one_seed -- --nocapture"
                        );
                        failed.lock().expect("pushing does not panic").push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("pushing does not panic");
    assert!(failed.is_empty(), "seeds {failed:?}");
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Ten thousand in optimized builds (the step `optimized`), fewer elsewhere.
///
/// An instance lives as long as its process, and the memory that each seed leaks fragments the heap. So each process
/// runs [`BATCH`] seeds. Up to that number, this process runs them itself.
#[test]
fn simulations_of_many_seeds_keep_the_invariants() {
    let default = if cfg!(debug_assertions) { 500 } else { 10_000 };
    let from = from_environment("FROM").unwrap_or(0);
    let count = from_environment("SEEDS").unwrap_or(default);
    if count <= BATCH {
        return seeds(from, count);
    }
    let end = from + count;
    for first in (from..end).step_by(BATCH as usize) {
        let batch = std::process::Command::new(std::env::current_exe().expect("it runs"))
            .args(["simulations_of_many_seeds_keep_the_invariants", "--exact", "--nocapture"])
            .env("FROM", first.to_string())
            .env("SEEDS", BATCH.min(end - first).to_string())
            .output()
            .expect("it is there");
        let said = [batch.stdout, batch.stderr].concat();
        assert!(batch.status.success(), "from {first} on:\n{}", String::from_utf8_lossy(&said));
    }
}

const BATCH: u64 = 250;

#[test]
fn a_simulation_of_one_seed_keeps_the_invariants() {
    count_panics();
    let seed = from_environment("SEED");
    let outcome = run(seed.unwrap_or(4711), seed.is_some());
    assert!(outcome.is_ok(), "{outcome:?}");
}

/// D12: the same seed gives the same run, byte for byte.
#[test]
fn the_same_seed_gives_an_identical_simulation() {
    let digests = || (0..60).map(|seed| run(seed, false)).collect::<Vec<_>>();
    let first = digests();
    assert_eq!(first, digests());
    let mut different = first.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), first.len(), "and another seed is another run");
}
