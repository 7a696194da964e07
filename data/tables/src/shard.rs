//! One part of a table: its entries, the way to them, and their ages. Everything here happens under the shard's lock.

use crate::ages::Ages;
use crate::changes::Changes;
use crate::index::Index;
use crate::layout::{Layout, header};
use crate::slots::Slots;

/// The entries whose keys fall into one shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    slots: Slots,
    index: Index,
    ages: Ages,
    /// How many there are.
    count: u32,
    /// The generation of the entry that came last: no two entries of a shard have the same.
    generation: u32,
    /// What others are to be told; none if nobody is.
    changes: Option<Box<Changes>>,
}

/// What a shard needs to know of its table.
#[derive(Clone, Copy)]
pub(crate) struct Rules<'t> {
    pub layout: &'t Layout,
    /// How long an entry lives; 0 for as long as there is room.
    pub expire_ms: u32,
    /// The hash of a key's words.
    pub hash: &'t dyn Fn(&[u32]) -> u32,
}

impl Shard {
    /// An empty shard whose changes so many audiences are told.
    pub fn shared(audiences: usize) -> Shard {
        Shard { changes: Some(Box::new(Changes::new(audiences))), ..Shard::default() }
    }

    /// Notes that an entry changed here; true if somebody may have to be told now.
    #[inline]
    pub fn mark(&mut self, slot: u32) -> bool {
        self.changes.as_mut().is_some_and(|changes| changes.mark(slot))
    }

    /// What others are to be told.
    pub fn changes(&mut self) -> Option<&mut Changes> {
        self.changes.as_deref_mut()
    }

    /// Sets when an entry expires, which is no use of it.
    pub fn expire_at(&mut self, slot: u32, at: u32, rules: Rules<'_>) {
        self.slots.get_mut(slot, rules.layout.stride)[header::EXPIRES] = at;
    }

    /// How many entries there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// How many slots a dump has to look at.
    pub fn slots(&self) -> u32 {
        self.slots.len()
    }

    /// The generation of the entry in a slot; 0 for none.
    #[inline]
    pub fn generation(&self, slot: u32, rules: Rules<'_>) -> u32 {
        self.slots.generation(slot, rules.layout.stride)
    }

    /// The words of an entry.
    #[inline]
    pub fn words(&mut self, slot: u32, rules: Rules<'_>) -> &mut [u32] {
        self.slots.get_mut(slot, rules.layout.stride)
    }

    /// The entry of a key that has not expired. One that has is removed.
    #[inline]
    pub fn find(&mut self, key: &[u32], hash: u32, now: u32, rules: Rules<'_>) -> Option<u32> {
        let stride = rules.layout.stride;
        let mut next = self.index.first(self.index_bucket(hash)?);
        while let Some(slot) = next.checked_sub(1) {
            let words = self.slots.get(slot, stride);
            if words[header::WORDS..].starts_with(key) {
                if !is_expired(words, now, rules) {
                    return Some(slot);
                }
                self.remove(slot, rules);
                return None;
            }
            next = words[header::NEXT];
        }
        None
    }

    fn index_bucket(&self, hash: u32) -> Option<u32> {
        (self.count > 0).then(|| self.index.bucket(hash))
    }

    /// Adds an entry for a key that has none.
    pub fn insert(&mut self, key: &[u32], hash: u32, now: u32, rules: Rules<'_>) -> u32 {
        if self.index.is_full(self.count) {
            self.divide_a_bucket(rules);
        }
        let stride = rules.layout.stride;
        let slot = self.slots.take(stride);
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        let bucket = self.index.bucket(hash);
        let next = self.index.first(bucket);
        self.index.set_first(bucket, slot + 1);
        let words = self.slots.get_mut(slot, stride);
        words[header::GENERATION] = self.generation;
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        words[header::NEXT] = next;
        words[header::WORDS..header::WORDS + key.len()].copy_from_slice(key);
        self.ages.append(&mut self.slots, stride, slot);
        self.count += 1;
        slot
    }

    /// Removes an entry that nobody tracks.
    pub fn remove(&mut self, slot: u32, rules: Rules<'_>) {
        let stride = rules.layout.stride;
        debug_assert_eq!(self.slots.get(slot, stride)[header::TRACKERS], 0, "a tracked entry stays");
        self.ages.remove(&mut self.slots, stride, slot);
        let hash = self.hash_of(slot, rules);
        self.unlink(slot, self.index.bucket(hash), stride);
        self.slots.give(slot, stride);
        self.count -= 1;
        if self.count == 0 {
            self.slots.clear();
            self.index.clear();
            self.ages = Ages::default();
        }
    }

    /// Notes that an entry is used now.
    #[inline]
    pub fn touch(&mut self, slot: u32, now: u32, rules: Rules<'_>) {
        let stride = rules.layout.stride;
        let words = self.slots.get_mut(slot, stride);
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        if words[header::TRACKERS] == 0 && words[header::NEWER] != 0 {
            self.ages.remove(&mut self.slots, stride, slot);
            self.ages.append(&mut self.slots, stride, slot);
        }
    }

    /// Somebody tracks the entry from now on.
    #[inline]
    pub fn track(&mut self, slot: u32, now: u32, rules: Rules<'_>) {
        let stride = rules.layout.stride;
        let words = self.slots.get_mut(slot, stride);
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        words[header::TRACKERS] += 1;
        if words[header::TRACKERS] == 1 {
            self.ages.remove(&mut self.slots, stride, slot);
        }
    }

    /// Somebody tracks the entry no more.
    #[inline]
    pub fn untrack(&mut self, slot: u32, now: u32, rules: Rules<'_>) {
        let stride = rules.layout.stride;
        let words = self.slots.get_mut(slot, stride);
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        words[header::TRACKERS] = words[header::TRACKERS].saturating_sub(1);
        if words[header::TRACKERS] == 0 {
            self.ages.append(&mut self.slots, stride, slot);
        }
    }

    /// Removes the oldest entry that nobody tracks; false if there is none.
    pub fn evict(&mut self, rules: Rules<'_>) -> bool {
        let Some(oldest) = self.ages.oldest() else { return false };
        self.remove(oldest, rules);
        true
    }

    /// Removes what has expired, at most `budget` entries; how many those were.
    pub fn expire(&mut self, now: u32, budget: u32, rules: Rules<'_>) -> u32 {
        let mut gone = 0;
        while gone < budget
            && let Some(oldest) = self.ages.oldest()
            && is_expired(self.slots.get(oldest, rules.layout.stride), now, rules)
        {
            self.remove(oldest, rules);
            gone += 1;
        }
        gone
    }

    fn hash_of(&self, slot: u32, rules: Rules<'_>) -> u32 {
        let words = self.slots.get(slot, rules.layout.stride);
        (rules.hash)(&words[header::WORDS..header::WORDS + rules.layout.key_words])
    }

    /// Takes an entry out of its bucket's chain.
    fn unlink(&mut self, slot: u32, bucket: u32, stride: usize) {
        let after = self.slots.get(slot, stride)[header::NEXT];
        let mut at = self.index.first(bucket);
        if at == slot + 1 {
            self.index.set_first(bucket, after);
            return;
        }
        while let Some(other) = at.checked_sub(1) {
            let words = self.slots.get_mut(other, stride);
            if words[header::NEXT] == slot + 1 {
                words[header::NEXT] = after;
                return;
            }
            at = words[header::NEXT];
        }
    }

    /// The index grows by one bucket, and one chain is divided.
    fn divide_a_bucket(&mut self, rules: Rules<'_>) {
        let Some(divided) = self.index.grow() else { return };
        let stride = rules.layout.stride;
        let mut next = self.index.first(divided);
        self.index.set_first(divided, 0);
        while let Some(slot) = next.checked_sub(1) {
            let bucket = self.index.bucket(self.hash_of(slot, rules));
            let first = self.index.first(bucket);
            let words = self.slots.get_mut(slot, stride);
            next = std::mem::replace(&mut words[header::NEXT], first);
            self.index.set_first(bucket, slot + 1);
        }
    }

    /// Every entry is found by its key, is counted once, and lies in the list of ages unless it is tracked.
    #[cfg(test)]
    pub fn check_invariants(&mut self, rules: Rules<'_>) {
        let stride = rules.layout.stride;
        let (mut used, mut untracked) = (0, 0);
        for slot in 0..self.slots.len() {
            let words = self.slots.get(slot, stride).to_vec();
            if words[header::GENERATION] == 0 {
                continue;
            }
            used += 1;
            untracked += u32::from(words[header::TRACKERS] == 0);
            let key = &words[header::WORDS..header::WORDS + rules.layout.key_words];
            let bucket = self.index.bucket((rules.hash)(key));
            let mut next = self.index.first(bucket);
            while next != slot + 1 {
                assert_ne!(next, 0, "slot {slot} is in its bucket");
                next = self.slots.get(next - 1, stride)[header::NEXT];
            }
        }
        assert_eq!(used, self.count);
        let mut listed = 0;
        let mut next = self.ages.oldest().map_or(0, |oldest| oldest + 1);
        while let Some(slot) = next.checked_sub(1) {
            listed += 1;
            next = self.slots.get(slot, stride)[header::NEWER];
        }
        assert_eq!(listed, untracked);
    }
}

/// Whether an entry's time is over. Who is tracked stays.
#[inline]
fn is_expired(words: &[u32], now: u32, rules: Rules<'_>) -> bool {
    rules.expire_ms != 0
        && words[header::TRACKERS] == 0
        && words[header::EXPIRES].wrapping_sub(now) as i32 <= 0
}
