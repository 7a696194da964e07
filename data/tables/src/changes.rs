//! For each audience (a peer), the set of changed slots of a shard that were not sent to it yet.
//!
//! ```text
//!  an entry changes ──► fresh ──(an audience reads)─► a set for each audience ──► sent ──► acknowledged
//!                                                              ▲                  │
//!                                                              └──────────────────┘ the connection broke
//! ```
//!
//! A change costs one bit, regardless of the number of audiences and of earlier unsent changes of the entry. A slot without
//! an entry is skipped. If the slot was reused, its new entry changed too. Memory for the bits is allocated before an
//! entry and freed after it, so a change itself never allocates.

/// The changes of a shard.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    fresh: Slots,
    /// The unsent slots of each audience.
    unsent: Vec<Slots>,
}

/// A set of slots.
#[derive(Debug, Default)]
struct Slots {
    words: Vec<u64>,
    /// The number of words that may have bits set. All later words are 0.
    used: usize,
}

impl Changes {
    /// Empty sets for `audiences` audiences.
    pub(crate) fn new(audiences: usize) -> Changes {
        Changes { fresh: Slots::default(), unsent: (0..audiences).map(|_| Slots::default()).collect() }
    }

    /// Allocates room for the changes of `slots` slots. False if memory is short.
    pub(crate) fn make_room(&mut self, slots: u32) -> bool {
        let words = words_of(slots);
        self.fresh.make_room(words) && self.unsent.iter_mut().all(|unsent| unsent.make_room(words))
    }

    /// Frees memory beyond twice the need of the remaining `slots` slots.
    pub(crate) fn shrink(&mut self, slots: u32) {
        let words = words_of(slots);
        self.fresh.shrink(words);
        self.unsent.iter_mut().for_each(|unsent| unsent.shrink(words));
    }

    /// The number of changes that fit into the allocated memory, over all audiences.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.unsent.iter().chain([&self.fresh]).map(|slots| slots.words.capacity() * 64).sum()
    }

    /// Marks the slot of a changed entry. True for the first change since an audience last read the changes.
    #[inline]
    pub(crate) fn mark(&mut self, slot: u32) -> bool {
        let is_first = self.fresh.used == 0;
        self.fresh.insert(slot);
        is_first
    }

    /// Calls `then` with at most `budget` unsent slots of an audience and removes them from its set. Returns whether more
    /// remain.
    pub(crate) fn take(&mut self, audience: usize, budget: usize, mut then: impl FnMut(u32)) -> bool {
        self.distribute();
        let Some(unsent) = self.unsent.get_mut(audience) else { return false };
        for _ in 0..budget {
            let Some(slot) = unsent.pop() else { return false };
            then(slot);
        }
        unsent.used > 0
    }

    /// Marks a slot as unsent for an audience again.
    pub(crate) fn give_back(&mut self, audience: usize, slot: u32) {
        if let Some(unsent) = self.unsent.get_mut(audience) {
            unsent.insert(slot);
        }
    }

    /// Marks the first `slots` slots as unsent for an audience.
    pub(crate) fn give_back_all(&mut self, audience: usize, slots: u32) {
        if let Some(unsent) = self.unsent.get_mut(audience) {
            unsent.insert_all(slots);
        }
    }

    /// Discards the unsent changes of an audience.
    pub(crate) fn forget(&mut self, audience: usize) {
        self.distribute();
        if let Some(unsent) = self.unsent.get_mut(audience) {
            unsent.words[..unsent.used].fill(0);
            unsent.used = 0;
        }
    }

    /// Adds the fresh changes to every audience.
    fn distribute(&mut self) {
        if self.fresh.used == 0 {
            return;
        }
        for unsent in &mut self.unsent {
            unsent.add(&self.fresh);
        }
        self.fresh.words[..self.fresh.used].fill(0);
        self.fresh.used = 0;
    }
}

/// The number of words with a bit for each of `slots` slots.
fn words_of(slots: u32) -> usize {
    slots.div_ceil(64) as usize
}

impl Slots {
    fn make_room(&mut self, words: usize) -> bool {
        let more = words.saturating_sub(self.words.len());
        if more > 0 {
            if self.words.try_reserve(more).is_err() {
                return false;
            }
            self.words.resize(words, 0);
        }
        true
    }

    fn shrink(&mut self, words: usize) {
        if self.words.len() > words * 2 {
            self.words.truncate(words);
            self.words.shrink_to_fit();
            self.used = self.used.min(words);
        }
    }

    /// Adds a slot. Ignores a slot beyond the allocated words: it was freed together with its entry.
    #[inline]
    fn insert(&mut self, slot: u32) {
        let index = (slot / 64) as usize;
        if let Some(word) = self.words.get_mut(index) {
            *word |= 1 << (slot % 64);
            self.used = self.used.max(index + 1);
        }
    }

    /// Adds the first `count` slots.
    fn insert_all(&mut self, count: u32) {
        let whole = (count / 64) as usize;
        if let Some(last) = count.checked_sub(1) {
            self.insert(last);
        }
        if let Some(words) = self.words.get_mut(..whole) {
            words.fill(u64::MAX);
        }
        if let Some(word) = self.words.get_mut(whole) {
            *word |= (1 << (count % 64)) - 1;
        }
    }

    /// Adds another set. It must not have more words than this one.
    fn add(&mut self, other: &Slots) {
        self.used = self.used.max(other.used);
        for (word, more) in self.words.iter_mut().zip(&other.words[..other.used]) {
            *word |= more;
        }
    }

    /// Removes one slot and returns it.
    fn pop(&mut self) -> Option<u32> {
        while let Some(last) = self.used.checked_sub(1) {
            let word = &mut self.words[last];
            if *word != 0 {
                let bit = word.trailing_zeros();
                *word &= *word - 1;
                return Some(last as u32 * 64 + bit);
            }
            self.used = last;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(changes: &mut Changes, audience: usize, budget: usize) -> (Vec<u32>, bool) {
        let mut slots = Vec::new();
        let more = changes.take(audience, budget, |slot| slots.push(slot));
        slots.sort_unstable();
        (slots, more)
    }

    fn changes(audiences: usize) -> Changes {
        let mut changes = Changes::new(audiences);
        assert!(changes.make_room(1000));
        changes
    }

    #[test]
    fn a_changed_entry_is_sent_once_to_each_peer() {
        let mut changes = changes(2);
        let firsts = [3, 200, 3, 64].map(|slot| changes.mark(slot));
        assert_eq!(firsts, [true, false, false, false]);
        assert_eq!(sent(&mut changes, 0, 10), (vec![3, 64, 200], false));
        assert_eq!(sent(&mut changes, 0, 10), (vec![], false));
        assert!(changes.mark(3), "somebody looked");
        assert_eq!(sent(&mut changes, 1, 10), (vec![3, 64, 200], false));
        assert_eq!(sent(&mut changes, 0, 10), (vec![3], false));
    }

    #[test]
    fn taking_changes_respects_the_budget() {
        let mut changes = changes(1);
        for slot in 0..100 {
            changes.mark(slot);
        }
        let (first, more) = sent(&mut changes, 0, 60);
        assert_eq!((first.len(), more), (60, true));
        let (rest, more) = sent(&mut changes, 0, 60);
        assert_eq!((rest.len(), more), (40, false));
    }

    #[test]
    fn give_back_all_resends_every_slot() {
        for slots in [0, 1, 63, 64, 65, 200] {
            let mut changes = changes(2);
            changes.mark(3);
            sent(&mut changes, 0, 1);
            changes.give_back_all(0, slots);
            assert_eq!(sent(&mut changes, 0, 1000).0, (0..slots).collect::<Vec<_>>());
            assert_eq!(sent(&mut changes, 1, 1000).0, [3]);
        }
    }

    #[test]
    fn give_back_resends_one_slot() {
        let mut changes = changes(2);
        changes.mark(7);
        sent(&mut changes, 0, 1);
        changes.give_back(0, 7);
        assert_eq!(sent(&mut changes, 0, 1).0, [7]);
        changes.forget(1);
        assert_eq!(sent(&mut changes, 1, 1).0, [0; 0]);
    }

    #[test]
    fn the_change_bitmap_shrinks_with_the_number_of_slots() {
        let mut changes = changes(1);
        for slot in [5, 700] {
            changes.mark(slot);
        }
        changes.shrink(501);
        assert_eq!(sent(&mut changes, 0, 10).0, [5, 700], "as much as half is kept");
        for slot in [5, 700] {
            changes.mark(slot);
        }
        changes.shrink(63);
        assert_eq!((changes.fresh.words.capacity(), changes.unsent[0].words.capacity()), (1, 1));
        changes.give_back(0, 700);
        assert_eq!(sent(&mut changes, 0, 10), (vec![5], false), "no entry is there");
        changes.shrink(0);
        assert_eq!((changes.fresh.words.capacity(), changes.unsent[0].words.capacity()), (0, 0));
        changes.give_back(0, 5);
        changes.give_back_all(0, 0);
        assert_eq!(sent(&mut changes, 0, 10), (vec![], false));
        assert!(changes.make_room(65) && changes.mark(64));
        assert_eq!(sent(&mut changes, 0, 10).0, [64]);
    }
}
