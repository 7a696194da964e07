//! One entry of a list: its pattern, its value, and whether it was deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use weir_fingerprint::{Canonical, FormEncoder};

/// One entry: a pattern, and a value if the set is a map.
#[derive(Debug)]
pub struct PatternEntry {
    id: u64,
    /// The line in the file. 0 without a file.
    line: u32,
    /// The length of the pattern at the beginning of `text`.
    pattern_length: u32,
    /// The pattern, followed by the initial value.
    text: Box<[u8]>,
    /// The value that a runtime API command or a rule set later.
    newer_value: ArcSwapOption<Box<[u8]>>,
    has_value: bool,
    dead: AtomicBool,
}

impl PatternEntry {
    /// One allocation for the entry and one for its text: a list may have millions of entries.
    pub(super) fn new(line: usize, pattern: &[u8], value: Option<&[u8]>) -> Arc<PatternEntry> {
        // The runtime API shows identifiers. They are never reused.
        Arc::new(PatternEntry {
            id: ADDED.fetch_add(1, Ordering::Relaxed) + 1,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            pattern_length: pattern.len() as u32,
            text: [pattern, value.unwrap_or_default()].concat().into(),
            newer_value: ArcSwapOption::empty(),
            has_value: value.is_some(),
            dead: AtomicBool::new(false),
        })
    }

    /// The entry's identifier in the runtime API (`#0x...`).
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The pattern as written.
    pub fn pattern(&self) -> &[u8] {
        &self.text[..self.pattern_length as usize]
    }

    /// Passes the value to `then`. None if the set is not a map.
    pub fn with_value<R>(&self, then: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let newer = self.newer_value.load();
        let first = &self.text[self.pattern_length as usize..];
        self.has_value.then(|| then(newer.as_ref().map_or(first, |value| value)))
    }

    /// A copy of the value.
    pub fn value(&self) -> Option<Vec<u8>> {
        self.with_value(<[u8]>::to_vec)
    }

    /// A message about the entry, with its line.
    pub(super) fn located(&self, message: String) -> String {
        if self.line == 0 { message } else { format!("{message} at line {}", self.line) }
    }

    /// Replaces the value, for lookups that begin from now on.
    pub(super) fn set_value(&self, value: &[u8]) {
        self.newer_value.store(Some(Arc::new(value.into())));
    }

    /// Marks the entry as deleted. Lookups no longer find it, also before it is swept from the indexes.
    pub(super) fn delete(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::Relaxed)
    }
}

impl Drop for PatternEntry {
    fn drop(&mut self) {
        FREED.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of entries created by the process so far, and the number of freed ones.
pub fn counts() -> (u64, u64) {
    (ADDED.load(Ordering::Relaxed), FREED.load(Ordering::Relaxed))
}

static ADDED: AtomicU64 = AtomicU64::new(0);
static FREED: AtomicU64 = AtomicU64::new(0);

/// Encodes entries. With values, the first matching entry wins, so the order is part of the form, unless keys are compared as a whole.
/// Without values, the entries are a set.
pub(super) fn encode_entries<'e>(
    entries: impl Iterator<Item = &'e Arc<PatternEntry>>,
    is_by_key: bool,
    out: &mut FormEncoder<'_>,
) {
    let mut entries = Vec::from_iter(entries.filter(|entry| entry.is_alive()));
    let has_values = entries.iter().any(|entry| entry.has_value);
    if is_by_key || !has_values {
        entries.sort_by(|a, b| a.pattern().cmp(b.pattern()));
        // Of equal keys, the first one wins.
        entries.dedup_by(|later, first| later.pattern() == first.pattern());
    }
    out.count(entries.len());
    for entry in entries {
        out.bytes(entry.pattern());
        entry.has_value.encode(out);
        entry.with_value(|value| out.bytes(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_value_replaces_the_first_one() {
        let entry = PatternEntry::new(3, b"key", Some(b"first"));
        assert_eq!((entry.pattern(), entry.value().as_deref()), (&b"key"[..], Some(&b"first"[..])));
        entry.set_value(b"");
        assert_eq!((entry.pattern(), entry.value().as_deref()), (&b"key"[..], Some(&b""[..])));
        assert_eq!(entry.located("wrong".to_owned()), "wrong at line 3");
        let without = PatternEntry::new(0, b"key", None);
        assert_eq!((without.value(), without.located("wrong".to_owned()).as_str()), (None, "wrong"));
        assert!(without.id() > entry.id());
    }

    #[test]
    fn a_deleted_entry_is_not_alive() {
        let entry = PatternEntry::new(0, b"key", None);
        assert!(entry.is_alive());
        entry.delete();
        assert!(!entry.is_alive());
    }
}
