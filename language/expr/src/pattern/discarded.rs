//! Entries that are out of use, freed a few at a time.
//!
//! Freeing a list of a million entries takes some tenths of a second, which would delay a worker's traffic. So a large list that is
//! cleared or replaced is queued here, and the process calls [`free_some`] repeatedly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::entries::EntryList;
use super::entry::PatternEntry;
use super::parsed::ComparablePattern;
use super::segment::Segment;

/// A list to free.
enum Garbage {
    /// The previously published list of an index. Readers may still use it.
    Published(Arc<Vec<Arc<Segment>>>),
    Entries(Vec<Arc<PatternEntry>>),
    Parsed(Vec<ComparablePattern>),
}

/// Whether a list is left to free.
pub fn any_discarded() -> bool {
    ANY.load(Ordering::Acquire)
}

/// Frees about `most` entries. False if none is left.
pub fn free_some(most: usize) -> bool {
    let mut list = lock();
    let mut freed = 0;
    // Skip once each list that a reader still uses.
    let mut turns = list.len();
    while freed < most && turns > 0 {
        let Some(next) = list.pop() else { break };
        match next {
            Garbage::Published(segments) => match Arc::try_unwrap(segments) {
                Ok(segments) => {
                    for (entries, parsed) in
                        segments.into_iter().filter_map(Arc::into_inner).map(Segment::into_parts)
                    {
                        list.push(Garbage::Entries(entries));
                        list.push(Garbage::Parsed(parsed));
                        turns += 2;
                    }
                }
                Err(held) => list.insert(0, Garbage::Published(held)),
            },
            Garbage::Entries(mut entries) => {
                if truncate(&mut entries, most, &mut freed) {
                    list.push(Garbage::Entries(entries));
                    turns += 1;
                }
            }
            Garbage::Parsed(mut parsed) => {
                if truncate(&mut parsed, most, &mut freed) {
                    list.push(Garbage::Parsed(parsed));
                    turns += 1;
                }
            }
        }
        turns -= 1;
    }
    ANY.store(!list.is_empty(), Ordering::Release);
    !list.is_empty()
}

/// Drops as many elements as the budget allows. True if some are left.
fn truncate<T>(list: &mut Vec<T>, most: usize, freed: &mut usize) -> bool {
    let now = (most - *freed).min(list.len());
    list.truncate(list.len() - now);
    *freed += now;
    !list.is_empty()
}

/// Queues the previously published list of an index.
pub(super) fn discard_published(segments: Arc<Vec<Arc<Segment>>>) {
    if segments.iter().map(|segment| segment.len()).sum::<usize>() > SMALL {
        put(Garbage::Published(segments));
    }
}

/// Queues a list of entries.
pub(super) fn discard_entries(entries: EntryList) {
    if entries.len() > SMALL {
        entries.into_chunks().into_iter().map(Garbage::Entries).for_each(put);
    }
}

fn put(discarded: Garbage) {
    lock().push(discarded);
    ANY.store(true, Ordering::Release);
}

fn lock() -> MutexGuard<'static, Vec<Garbage>> {
    DISCARDED.lock().unwrap_or_else(PoisonError::into_inner)
}

static DISCARDED: Mutex<Vec<Garbage>> = Mutex::new(Vec::new());
static ANY: AtomicBool = AtomicBool::new(false);
/// The number of entries that are freed at once, which takes less than a millisecond. Callers do the work on sets up to this size
/// themselves.
pub(super) const SMALL: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{MatchMethod, PatternStore};
    use crate::sample::Value;

    #[test]
    fn cleared_pattern_entries_are_freed_in_pieces() {
        let set = PatternStore::new().named("virt@m", true, &weir_syntax::NoFiles).unwrap();
        let index = set.index(MatchMethod::Str, false, &crate::Location::new("t.cfg".into(), 1)).unwrap();
        let all = 3 * SMALL;
        for number in 0..all {
            set.add(None, number.to_string().as_bytes(), Some(b"v")).unwrap();
        }
        let witness = Arc::downgrade(&set.entries(None).unwrap()[all / 2]);
        set.clear(None).unwrap();
        assert!(!index.matches(&Value::str(b"5")));
        assert!(any_discarded() && witness.upgrade().is_some(), "not freed by the call that cleared it");
        // Each entry is in two lists. Other tests may also queue and free some.
        let mut pieces = 0;
        while free_some(SMALL) {
            pieces += 1;
        }
        assert!(pieces >= 3, "{pieces}");
        assert!(witness.upgrade().is_none());
    }
}
