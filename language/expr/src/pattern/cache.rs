//! Results of previous regular expression lookups (`tune.pattern.cache-size`), one cache per thread.
//!
//! HAProxy compares 64-bit hashes, so that a subject may get the result of another one. Here, no result depends on a hash: each lookup
//! compares the whole subject with the cached one, and the cached subject has a number that is never reused. The key of a result is that
//! number and the number of an immutable list. The runtime API either creates new lists with new numbers or marks an entry as deleted,
//! which the caller checks. So no result has to be invalidated.
//!
//! The other methods have indexes that do not slow down as lists grow, so they need no cache.

use std::cell::RefCell;
use std::hash::BuildHasher as _;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::{DefaultHashBuilder, HashTable};

/// Sets the number of results and subjects that each thread caches, 0 for none. An existing cache keeps its size.
pub fn set_cache_size(entries: usize) {
    ENTRIES.store(entries.min(MAX_CACHE_SIZE), Ordering::Relaxed);
}

/// The number of an immutable list of regular expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ListId(u64);

impl ListId {
    /// A number that no other list of the process has or had.
    pub(super) fn new() -> ListId {
        ListId(LAST_LIST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The number of a subject in the cache of this thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SubjectId(u64);

/// Caches a subject. `None` without a cache, and for a subject longer than [`MAX_SUBJECT`].
pub(super) fn subject(text: &[u8]) -> Option<SubjectId> {
    let entries = ENTRIES.load(Ordering::Relaxed);
    if entries == 0 || text.len() > MAX_SUBJECT {
        return None;
    }
    CACHE.with_borrow_mut(|cache| {
        Some(cache.get_or_insert_with(|| Box::new(LookupCache::new(entries))).subjects.keep(text))
    })
}

/// The cached result of a lookup: an entry of the list, or `Some(None)` if nothing matched. `None` without a cached result.
pub(super) fn recall(list: ListId, subject: SubjectId) -> Option<Option<u32>> {
    CACHE.with_borrow_mut(|cache| cache.as_mut()?.recall(list, subject))
}

/// Caches the result of a lookup.
pub(super) fn remember(list: ListId, subject: SubjectId, entry: Option<u32>) {
    CACHE.with_borrow_mut(|cache| {
        if let Some(cache) = cache.as_mut() {
            cache.remember(list, subject, entry);
        }
    });
}

struct LookupCache {
    subjects: Subjects,
    /// Sets of [`WAYS`] results each, most recently used first.
    results: Box<[[CachedLookup; WAYS]]>,
}

#[derive(Clone, Copy)]
struct CachedLookup {
    /// 0 in an unused slot.
    list: ListId,
    subject: SubjectId,
    entry: Option<u32>,
}

impl LookupCache {
    fn new(entries: usize) -> LookupCache {
        let sets = entries.div_ceil(WAYS).next_power_of_two();
        let none = CachedLookup { list: ListId(0), subject: SubjectId(0), entry: None };
        LookupCache { subjects: Subjects::new(entries), results: vec![[none; WAYS]; sets].into() }
    }

    /// The set for a result. Clients choose neither number, so a simple mixture spreads them.
    fn set(&mut self, list: ListId, subject: SubjectId) -> &mut [CachedLookup; WAYS] {
        let mixed = (list.0 ^ subject.0.rotate_left(32)).wrapping_mul(GOLDEN_RATIO);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(GOLDEN_RATIO);
        let last = self.results.len() - 1;
        &mut self.results[(mixed >> 32) as usize & last]
    }

    fn recall(&mut self, list: ListId, subject: SubjectId) -> Option<Option<u32>> {
        let set = self.set(list, subject);
        let at = set.iter().position(|kept| kept.list == list && kept.subject == subject)?;
        set[..=at].rotate_right(1);
        Some(set[0].entry)
    }

    fn remember(&mut self, list: ListId, subject: SubjectId, entry: Option<u32>) {
        let set = self.set(list, subject);
        set.rotate_right(1);
        set[0] = CachedLookup { list, subject, entry };
    }
}

/// The subjects of recent lookups. A full cache replaces the next subject that was not used since the hand last passed it (CLOCK).
struct Subjects {
    most: usize,
    hasher: DefaultHashBuilder,
    by_text: HashTable<u32>,
    kept: Vec<KeptSubject>,
    hand: usize,
    last_id: u64,
}

struct KeptSubject {
    id: SubjectId,
    text: Vec<u8>,
    /// Whether the subject was used since the hand passed it.
    is_used: bool,
}

impl Subjects {
    fn new(most: usize) -> Subjects {
        Subjects {
            most,
            // The hash has a random key: clients cannot choose subjects that collide.
            hasher: DefaultHashBuilder::default(),
            by_text: HashTable::new(),
            kept: Vec::new(),
            hand: 0,
            last_id: 0,
        }
    }

    fn keep(&mut self, text: &[u8]) -> SubjectId {
        let hash = self.hasher.hash_one(text);
        if let Some(at) = self.by_text.find(hash, |at| self.kept[*at as usize].text == text) {
            let subject = &mut self.kept[*at as usize];
            subject.is_used = true;
            return subject.id;
        }
        self.last_id += 1;
        let id = SubjectId(self.last_id);
        let at = self.free_place();
        let subject = &mut self.kept[at];
        subject.id = id;
        subject.text.extend_from_slice(text);
        let (kept, hasher) = (&self.kept, &self.hasher);
        self.by_text.insert_unique(hash, at as u32, |at| hasher.hash_one(&*kept[*at as usize].text));
        id
    }

    /// A slot without text.
    fn free_place(&mut self) -> usize {
        if self.kept.len() < self.most {
            self.kept.push(KeptSubject { id: SubjectId(0), text: Vec::new(), is_used: false });
            return self.kept.len() - 1;
        }
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.most;
            if !std::mem::take(&mut self.kept[at].is_used) {
                let hash = self.hasher.hash_one(&*self.kept[at].text);
                if let Ok(place) = self.by_text.find_entry(hash, |other| *other == at as u32) {
                    place.remove();
                }
                self.kept[at].text.clear();
                return at;
            }
        }
    }
}

/// The largest cache. The results of a thread then take 25 MB, its subjects up to 600 MB.
pub const MAX_CACHE_SIZE: usize = 1 << 20;
/// The longest cached subject. Longer ones are rare, and each slot keeps its memory.
const MAX_SUBJECT: usize = 512;
/// The number of slots that a result can be in.
const WAYS: usize = 4;
/// 2^64 divided by the golden ratio, a usual hash multiplier.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

static ENTRIES: AtomicUsize = AtomicUsize::new(0);
static LAST_LIST: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CACHE: RefCell<ManuallyDrop<Option<Box<LookupCache>>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_results_belong_to_a_subject_and_a_pattern_list() {
        let mut cache = LookupCache::new(100);
        let (a, b) = (cache.subjects.keep(b"a"), cache.subjects.keep(b"b"));
        cache.remember(ListId(1), a, Some(7));
        cache.remember(ListId(2), a, None);
        assert_eq!(cache.recall(ListId(1), a), Some(Some(7)));
        assert_eq!(cache.recall(ListId(2), a), Some(None));
        assert_eq!((cache.recall(ListId(1), b), cache.recall(ListId(3), a)), (None, None));
        assert_eq!((cache.subjects.keep(b"a"), cache.subjects.keep(b"b")), (a, b));
    }

    #[test]
    fn the_least_recently_used_result_is_evicted() {
        let mut cache = LookupCache::new(WAYS);
        let subject = cache.subjects.keep(b"a");
        for list in 1..=WAYS as u64 {
            cache.remember(ListId(list), subject, None);
        }
        assert_eq!(cache.recall(ListId(1), subject), Some(None));
        cache.remember(ListId(9), subject, None);
        assert_eq!((cache.recall(ListId(1), subject), cache.recall(ListId(2), subject)), (Some(None), None));
    }

    #[test]
    fn cached_subjects_are_limited_and_used_ones_stay() {
        let mut subjects = Subjects::new(10);
        let used = subjects.keep(b"used");
        for number in 0..1_000 {
            let text = number.to_string();
            assert_ne!(subjects.keep(text.as_bytes()), used);
            assert_eq!(subjects.keep(b"used"), used);
        }
        assert_eq!((subjects.kept.len(), subjects.by_text.len()), (10, 10));
        let before = subjects.last_id;
        assert!(subjects.keep(b"0").0 > before, "a subject that returns has another number");
        assert_eq!(subjects.keep(b""), subjects.keep(b""));
    }
}
