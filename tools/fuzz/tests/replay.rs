//! Runs every corpus through its function: unchanged, truncated everywhere, with each byte changed, and with each value
//! of the first byte, which selects the cut in several functions.

use std::fs;
use std::path::Path;

use weir_fuzz::{FuzzTarget, TARGETS};

/// How much of an entry is truncated and changed; the rest is only run unchanged.
const REACH: usize = 400;

fn replay(name: &str, target: FuzzTarget) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let mut bytes =
            fs::read(entry.expect("a corpus can be listed").path()).expect("a corpus can be read");
        count += 1;
        target(&bytes);
        for at in 0..bytes.len().min(REACH) {
            target(&bytes[..at]);
            let before = bytes[at];
            for change in [before ^ 0x20, 0, b'\n', b'"', 0xff] {
                bytes[at] = change;
                target(&bytes);
            }
            bytes[at] = before;
        }
        for first in 0..=u8::MAX {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            target(&bytes);
        }
    }
    count
}

#[test]
fn every_fuzz_corpus_replays_without_a_panic() {
    for (name, target) in TARGETS {
        assert!(replay(name, *target) > 0, "{name} has no corpus");
    }
}
