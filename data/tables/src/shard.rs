//! A shard of a table: its entries, their index and their ages. All methods are called under the shard's lock.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use foldhash::quality::RandomState;
use weir_memory::Pages;

use crate::ages::Ages;
use crate::changes::Changes;
use crate::due::DueTime;
use crate::index::{BucketIndex, IndexLink};
use crate::layout::{EntryLayout, header};
use crate::slots::Slots;

/// The entries of one shard.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    pub slots: Slots,
    index: BucketIndex,
    ages: Ages,
    /// The number of entries.
    count: u32,
    /// The generation of the last added entry. No two entries of a shard have the same generation.
    generation: u32,
    /// Changes to send to other instances. `None` if the table is not shared.
    changes: Option<Box<Changes>>,
    /// The time of the table's next work.
    due: Arc<DueTime>,
}

/// Maximum number of buckets removed with each entry, so there are never more than twice as many buckets as entries.
const MERGED_PER_ENTRY: u32 = 2;

/// A shard's parameters from its table.
#[derive(Clone, Copy)]
pub(crate) struct ShardRules<'t> {
    pub layout: &'t EntryLayout,
    /// Lifetime of an entry after its last use, in milliseconds. 0 if entries do not expire.
    pub expire_ms: u32,
    pub hasher: &'t RandomState,
}

impl ShardRules<'_> {
    /// The hash of a key's words. The shard uses the lower half.
    pub(crate) fn hash(self, words: &[u32]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        words.iter().for_each(|word| hasher.write_u32(*word));
        hasher.finish()
    }
}

impl Shard {
    /// An empty shard of a table.
    pub(crate) fn new(due: &Arc<DueTime>) -> Shard {
        Shard { due: Arc::clone(due), ..Shard::default() }
    }

    /// An empty shard that records changes for this many audiences.
    pub(crate) fn shared(due: &Arc<DueTime>, audiences: usize) -> Shard {
        Shard { changes: Some(Box::new(Changes::new(audiences))), ..Shard::new(due) }
    }

    /// Milliseconds until the oldest untracked entry expires. `None` without such an entry.
    pub(crate) fn expires_in(&self, now: u32, rules: ShardRules<'_>) -> Option<u32> {
        let words = self.slots.get(self.ages.oldest()?, rules.layout.stride);
        Some((words[header::EXPIRES].wrapping_sub(now) as i32).max(0) as u32)
    }

    /// Records a change of an entry. True if audiences may have to be notified now.
    #[inline]
    pub(crate) fn mark(&mut self, slot: u32) -> bool {
        self.changes.as_mut().is_some_and(|changes| changes.mark(slot))
    }

    /// The recorded changes.
    pub(crate) fn changes(&mut self) -> Option<&mut Changes> {
        self.changes.as_deref_mut()
    }

    /// Sets when an entry expires, without counting as a use.
    pub(crate) fn expire_at(&mut self, slot: u32, at: u32, rules: ShardRules<'_>) {
        self.slots.get_mut(slot, rules.layout.stride)[header::EXPIRES] = at;
    }

    /// The number of entries.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The number of slots that a dump must visit.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len()
    }

    /// The generation of the entry in a slot. 0 for none.
    #[inline]
    pub(crate) fn generation(&self, slot: u32, rules: ShardRules<'_>) -> u32 {
        self.slots.generation(slot, rules.layout.stride)
    }

    /// The words of an entry.
    #[inline]
    pub(crate) fn words(&mut self, slot: u32, rules: ShardRules<'_>) -> &mut [u32] {
        self.slots.get_mut(slot, rules.layout.stride)
    }

    /// The entry of a key, unless it has expired. An expired one is removed.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u32], hash: u32, now: u32, rules: ShardRules<'_>) -> Option<u32> {
        let stride = rules.layout.stride;
        let mut link = self.index.first(self.index_bucket(hash)?);
        while let Some(slot) = link.slot() {
            if link.may_be(hash) {
                let words = self.slots.get(slot, stride);
                if words[header::WORDS..].starts_with(key) {
                    if !is_expired(words, now, rules) {
                        return Some(slot);
                    }
                    self.remove(slot, rules);
                    return None;
                }
            }
            if !link.leads_on() {
                return None;
            }
            link = self.slots.next(slot, stride);
        }
        None
    }

    fn index_bucket(&self, hash: u32) -> Option<u32> {
        (self.count > 0).then(|| self.index.bucket(hash))
    }

    /// Adds an entry for a new key. `None` if memory is short. Succeeds right after the removal of an entry.
    pub(crate) fn insert(&mut self, key: &[u32], hash: u32, now: u32, rules: ShardRules<'_>) -> Option<u32> {
        if self.index.is_full(self.count) {
            self.divide_a_bucket(rules);
        }
        if !self.index.has_buckets() {
            return None;
        }
        let stride = rules.layout.stride;
        let slot = self.slots.take(stride)?;
        if let Some(changes) = &mut self.changes
            && !changes.make_room(self.slots.len())
        {
            self.slots.give(slot, stride);
            return None;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        let bucket = self.index.bucket(hash);
        let next = self.index.first(bucket);
        self.index.set_first(bucket, IndexLink::to(slot, hash, next));
        self.slots.set_next(slot, stride, next);
        let words = self.slots.get_mut(slot, stride);
        words[header::GENERATION] = self.generation;
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        words[header::WORDS..header::WORDS + key.len()].copy_from_slice(key);
        self.ages.append(&mut self.slots, stride, slot);
        self.count += 1;
        Some(slot)
    }

    /// Removes an untracked entry.
    pub(crate) fn remove(&mut self, slot: u32, rules: ShardRules<'_>) {
        let stride = rules.layout.stride;
        debug_assert_eq!(self.slots.get(slot, stride)[header::TRACKERS], 0, "a tracked entry stays");
        self.ages.remove(&mut self.slots, stride, slot);
        let hash = self.hash_of(slot, rules);
        self.unlink(slot, self.index.bucket(hash), stride);
        let mut is_spare = self.slots.give(slot, stride);
        self.count -= 1;
        if self.count == 0 {
            self.index.clear();
        }
        for _ in 0..MERGED_PER_ENTRY {
            if self.index.is_large(self.count) {
                self.merge_a_bucket(stride);
            }
        }
        is_spare |= self.index.has_spare();
        if is_spare {
            // Memory can be freed now.
            self.due.by(0);
        }
    }

    /// Removes a bucket from the index and prepends its chain to another one.
    fn merge_a_bucket(&mut self, stride: usize) {
        let (into, mut link) = self.index.shrink();
        while let Some(slot) = link.slot() {
            let next = if link.leads_on() { self.slots.next(slot, stride) } else { IndexLink::default() };
            let first = self.index.first(into);
            if link.leads_on() || first.slot().is_some() {
                self.slots.set_next(slot, stride, first);
            }
            self.index.set_first(into, IndexLink::to(slot, link.hash, first));
            link = next;
        }
    }

    /// Records a use of an entry: renews its expiry.
    #[inline]
    pub(crate) fn touch(&mut self, slot: u32, now: u32, rules: ShardRules<'_>) {
        let stride = rules.layout.stride;
        let words = self.slots.get_mut(slot, stride);
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        if words[header::TRACKERS] == 0 && words[header::NEWER] != 0 {
            self.ages.remove(&mut self.slots, stride, slot);
            self.ages.append(&mut self.slots, stride, slot);
        }
    }

    /// Adds a tracking reference to the entry.
    #[inline]
    pub(crate) fn track(&mut self, slot: u32, now: u32, rules: ShardRules<'_>) {
        let stride = rules.layout.stride;
        let words = self.slots.get_mut(slot, stride);
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        words[header::TRACKERS] += 1;
        if words[header::TRACKERS] == 1 {
            self.ages.remove(&mut self.slots, stride, slot);
        }
    }

    /// Removes a tracking reference.
    #[inline]
    pub(crate) fn untrack(&mut self, slot: u32, now: u32, rules: ShardRules<'_>) {
        let stride = rules.layout.stride;
        let words = self.slots.get_mut(slot, stride);
        words[header::EXPIRES] = now.wrapping_add(rules.expire_ms);
        words[header::TRACKERS] = words[header::TRACKERS].saturating_sub(1);
        if words[header::TRACKERS] == 0 {
            self.ages.append(&mut self.slots, stride, slot);
        }
    }

    /// Removes the oldest untracked entry. False if all entries are tracked.
    pub(crate) fn evict(&mut self, rules: ShardRules<'_>) -> bool {
        let Some(oldest) = self.ages.oldest() else { return false };
        self.remove(oldest, rules);
        true
    }

    /// Removes at most `budget` expired entries. Returns their number.
    pub(crate) fn expire(&mut self, now: u32, budget: u32, rules: ShardRules<'_>) -> u32 {
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

    /// Takes at most `blocks` blocks of unused memory. The caller frees them by dropping them after it releases the lock.
    pub(crate) fn spare(&mut self, blocks: usize) -> Vec<Pages> {
        if let Some(changes) = &mut self.changes {
            changes.shrink(self.slots.len());
        }
        let mut spare = self.slots.spare(blocks);
        spare.append(&mut self.index.spare(blocks - spare.len()));
        spare
    }

    fn hash_of(&self, slot: u32, rules: ShardRules<'_>) -> u32 {
        let words = self.slots.get(slot, rules.layout.stride);
        rules.hash(&words[header::WORDS..header::WORDS + rules.layout.key_words]) as u32
    }

    /// Removes an entry from its bucket's chain.
    fn unlink(&mut self, slot: u32, bucket: u32, stride: usize) {
        let after = self.slots.next(slot, stride);
        let mut link = self.index.first(bucket);
        if link.entry == slot + 1 {
            self.index.set_first(bucket, after);
            return;
        }
        while let Some(other) = link.slot() {
            link = self.slots.next(other, stride);
            if link.entry == slot + 1 {
                // The link to `other` may keep the bit `LEADS_ON` although `other` is now the last entry.
                self.slots.set_next(other, stride, after);
                return;
            }
        }
    }

    /// Adds a bucket to the index and splits one chain.
    fn divide_a_bucket(&mut self, rules: ShardRules<'_>) {
        let Some(divided) = self.index.grow() else { return };
        let stride = rules.layout.stride;
        let mut link = self.index.first(divided);
        self.index.set_first(divided, IndexLink::default());
        while let Some(slot) = link.slot() {
            let hash = link.hash;
            let bucket = self.index.bucket(hash & IndexLink::HASH);
            let first = self.index.first(bucket);
            let next = if link.leads_on() { self.slots.next(slot, stride) } else { IndexLink::default() };
            if link.leads_on() || first.slot().is_some() {
                self.slots.set_next(slot, stride, first);
            }
            self.index.set_first(bucket, IndexLink::to(slot, hash, first));
            link = next;
        }
    }

    /// Checks that every entry is found by its key, is counted once, and is in the list of ages unless it is tracked.
    #[cfg(test)]
    pub(crate) fn check_invariants(&mut self, rules: ShardRules<'_>) {
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
            let bucket = self.index.bucket(rules.hash(key) as u32);
            let mut link = self.index.first(bucket);
            while link.entry != slot + 1 {
                assert_ne!(link.entry, 0, "slot {slot} is in its bucket");
                assert!(link.leads_on(), "a link knows what comes behind");
                link = self.slots.next(link.entry - 1, stride);
            }
            assert!(link.may_be(rules.hash(key) as u32), "slot {slot} has its hash");
        }
        assert_eq!(used, self.count);
        assert!(!self.index.is_large(self.count), "buckets go with entries");
        let mut listed = 0;
        let mut next = self.ages.oldest().map_or(0, |oldest| oldest + 1);
        while let Some(slot) = next.checked_sub(1) {
            listed += 1;
            next = self.slots.get(slot, stride)[header::NEWER];
        }
        assert_eq!(listed, untracked);
    }
}

/// Whether an entry has expired. Tracked entries do not expire.
#[inline]
fn is_expired(words: &[u32], now: u32, rules: ShardRules<'_>) -> bool {
    rules.expire_ms != 0
        && words[header::TRACKERS] == 0
        && words[header::EXPIRES].wrapping_sub(now) as i32 <= 0
}
