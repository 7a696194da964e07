//! A table that all workers share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::quality::RandomState;

use crate::due::DueTime;
use crate::key::Key;
use crate::layout::{EntryLayout, header};
use crate::names::NumberedNames;
use crate::row::LockedEntry;
use crate::shard::{Shard, ShardRules};
use weir_expr::table::Declaration;

/// A stick-table.
///
/// Times are milliseconds of one monotonic clock. A closure that accesses an entry gets a [`LockedEntry`] and runs under the
/// shard's lock. It must be short and must not access the same table.
pub struct Table {
    declaration: Declaration,
    layout: EntryLayout,
    shards: Box<[PaddedShard]>,
    hasher: RandomState,
    /// The number of entries in all shards. An entry is counted before it is added, so the number may briefly be too high.
    used: AtomicU64,
    /// Entries that were refused because the table was full or memory was short.
    refused: AtomicU64,
    /// Entries that were purged because the table was full.
    evicted: AtomicU64,
    names: NumberedNames,
    /// Called at the first change since an audience last read the changes.
    on_change: OnceLock<OnChange>,
    /// When an entry expires or memory can be freed.
    due: Arc<DueTime>,
}

/// Called when there are changes to send, with a shard locked.
type OnChange = Box<dyn Fn() + Send + Sync>;

/// A shard on cache lines of its own.
#[repr(align(128))]
struct PaddedShard(Mutex<Shard>);

/// Identifies an entry while it exists. The key of a removed entry finds nothing, even if its slot is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryKey {
    slot: u32,
    generation: u32,
    shard: u16,
}

/// The result of an attempt to remove an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The entry was removed.
    Gone,
    /// The entry is tracked and was not removed.
    InUse,
    /// The entry does not exist.
    Missing,
}

/// A slot of the table, regardless of its current entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryPosition {
    shard: u16,
    slot: u32,
}

/// The progress of a dump.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableCursor {
    shard: u16,
    slot: u32,
}

/// The limit of a table's shards.
const MAX_SHARDS: usize = 64;
/// Smaller tables have one shard per this many entries. With a single shard, a full table purges its oldest entry.
const ENTRIES_PER_SHARD: usize = 1024;
/// Maximum number of expired entries removed with each new entry.
const EXPIRED_PER_ENTRY: u32 = 2;
/// Loops over many entries hold a shard's lock for at most this many entries, which bounds the wait of a request.
const HELD_ENTRIES: u32 = 64;
/// Maximum number of blocks of memory freed in one step. A block of 45 kB takes the kernel a few microseconds.
const GIVEN_AT_ONCE: usize = 32;

impl Table {
    /// An empty table.
    pub fn new(declaration: Declaration) -> Table {
        Table::of_shards(declaration, Shard::new)
    }

    /// An empty table that records changes for this many audiences.
    pub fn shared(declaration: Declaration, audiences: usize) -> Table {
        Table::of_shards(declaration, |due| Shard::shared(due, audiences))
    }

    /// An empty aggregated table: counts and rates are sums over this instance and `audiences` others.
    pub fn aggregate(declaration: Declaration, audiences: usize) -> Table {
        let layout = EntryLayout::with_shares(&declaration, audiences + 1);
        Table { layout, ..Table::shared(declaration, audiences) }
    }

    fn of_shards(declaration: Declaration, shard: impl Fn(&Arc<DueTime>) -> Shard) -> Table {
        let due = Arc::new(DueTime::default());
        let layout = EntryLayout::of(&declaration);
        let shards = (declaration.size as usize / ENTRIES_PER_SHARD).clamp(1, MAX_SHARDS);
        // A power of two, so that a few bits of the hash select one.
        let shards = 1 << shards.ilog2();
        Table {
            layout,
            shards: (0..shards).map(|_| PaddedShard(Mutex::new(shard(&due)))).collect(),
            hasher: RandomState::default(),
            used: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            names: NumberedNames::default(),
            on_change: OnceLock::new(),
            due,
            declaration,
        }
    }

    /// The table as configured (`stick-table`, `table`).
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The layout of the table's entries.
    pub fn layout(&self) -> &EntryLayout {
        &self.layout
    }

    /// The number of entries, including expired ones that were not removed yet.
    pub fn used(&self) -> u32 {
        u32::try_from(self.used.load(Relaxed)).unwrap_or(u32::MAX)
    }

    /// How many entries were refused because the table was full or memory was short.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// How many entries were purged because the table was full or memory was short.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Calls `then` with the entry of a key. The entry's expiry does not change.
    #[inline]
    pub fn look<R>(&self, key: &Key, now_ms: u64, then: impl FnOnce(&mut LockedEntry<'_>) -> R) -> Option<R> {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules)?;
            Some(table.show(shard, slot, now_ms, rules, then))
        })
    }

    /// The number of a key's entry ([`EntryKey::number`]). 0 if the key does not have an entry.
    pub fn number_of(&self, key: &Key, now_ms: u64) -> u64 {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules);
            slot.map_or(0, |slot| {
                let generation = shard.generation(slot, rules);
                EntryKey { slot, generation, shard: table.shard_of(hash) }.number()
            })
        })
    }

    /// Calls `then` with the entry of a key and refreshes its expiry.
    pub fn refresh<R>(
        &self,
        key: &Key,
        now_ms: u64,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules)?;
            shard.touch(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            Some(then(&mut table.row(shard, slot, now_ms, rules)))
        })
    }

    /// Calls `then` with the entry of a key and refreshes its expiry. Creates a missing entry. `None` if the table is full.
    pub fn store<R>(
        &self,
        key: &Key,
        now_ms: u64,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_entry(key, now_ms, |table, shard, EntryPosition { slot, .. }, rules| {
            shard.touch(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            then(&mut table.row(shard, slot, now_ms, rules))
        })
    }

    /// Tracks the entry of a key until [`Table::untrack`]: it neither expires nor is purged. Creates a missing entry. `None`
    /// if the table is full.
    #[inline]
    pub fn track<R>(
        &self,
        key: &Key,
        now_ms: u64,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<(EntryKey, R)> {
        self.with_entry(key, now_ms, |table, shard, EntryPosition { shard: number, slot }, rules| {
            shard.track(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            let generation = shard.generation(slot, rules);
            let shown = then(&mut table.row(shard, slot, now_ms, rules));
            (EntryKey { slot, generation, shard: number }, shown)
        })
    }

    /// Calls `then` with a tracked entry and ends the tracking.
    pub fn untrack(&self, entry: EntryKey, now_ms: u64, then: impl FnOnce(&mut LockedEntry<'_>)) {
        self.with_tracked(entry, |table, shard, slot, rules| {
            then(&mut table.row(shard, slot, now_ms, rules));
            shard.untrack(slot, now_ms as u32, rules);
            table.mark(shard, slot);
        });
    }

    /// Calls `then` with a tracked entry. `None` if the entry does not exist.
    #[inline]
    pub fn at<R>(
        &self,
        entry: EntryKey,
        now_ms: u64,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_tracked(entry, |table, shard, slot, rules| table.show(shard, slot, now_ms, rules, then))
    }

    /// Like [`Table::at`], and refreshes the entry's expiry.
    pub fn touch<R>(
        &self,
        entry: EntryKey,
        now_ms: u64,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_tracked(entry, |table, shard, slot, rules| {
            shard.touch(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            then(&mut table.row(shard, slot, now_ms, rules))
        })
    }

    /// Removes the entry of a key, unless a stream tracks it.
    pub fn remove(&self, key: &Key, now_ms: u64) -> Removal {
        self.with_shard(key, |table, shard, hash, rules| match table.found(shard, key, hash, now_ms, rules) {
            Some(slot) => table.remove_slot(shard, slot, rules),
            None => Removal::Missing,
        })
    }

    /// Removes an entry, unless a stream tracks it.
    pub fn remove_entry(&self, entry: EntryKey) -> Removal {
        self.with_tracked(entry, |table, shard, slot, rules| table.remove_slot(shard, slot, rules))
            .unwrap_or(Removal::Missing)
    }

    fn remove_slot(&self, shard: &mut Shard, slot: u32, rules: ShardRules<'_>) -> Removal {
        if shard.words(slot, rules)[header::TRACKERS] > 0 {
            return Removal::InUse;
        }
        shard.remove(slot, rules);
        self.used.fetch_sub(1, Relaxed);
        Removal::Gone
    }

    /// Removes at most `budget` expired entries and frees a few blocks of memory. Returns whether more is left to do.
    pub fn expire(&self, now_ms: u64, mut budget: u32) -> bool {
        self.sweep(now_ms, &mut budget).is_none()
    }

    /// Like [`Table::expire`] if something is due. Otherwise takes no lock. Returns the earliest time of the next call, `None`
    /// for at once. Subtracts removed entries from the budget, which several tables may share. Call it from only one task.
    pub fn expire_due(&self, now_ms: u64, budget: &mut u32) -> Option<u64> {
        if self.due_at() > now_ms {
            return Some(self.due_at());
        }
        self.due.begin();
        let next = self.sweep(now_ms, budget);
        self.due.end(next.unwrap_or(0));
        next.map(|_| self.due_at())
    }

    /// The earliest time at which [`Table::expire_due`] has work.
    pub fn due_at(&self) -> u64 {
        self.due.at()
    }

    /// Sets a callback for when work becomes due earlier than [`Table::due_at`]. Only the first call has an effect.
    pub fn on_due(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.due.on_earlier(wake);
    }

    /// Expires entries in all shards. Returns the earliest next expiry, or `None` if the budget was not enough.
    fn sweep(&self, now_ms: u64, budget: &mut u32) -> Option<u64> {
        let mut blocks = GIVEN_AT_ONCE;
        loop {
            // A shard with many expired entries continues after the other shards, so requests can take its lock meanwhile.
            let (mut next, mut more) = (u64::MAX, false);
            for slot in &self.shards {
                let mut shard = slot.lock();
                if self.declaration.expire_ms != 0 {
                    let held = HELD_ENTRIES.min(*budget);
                    let gone = shard.expire(now_ms as u32, held, self.rules());
                    self.used.fetch_sub(gone.into(), Relaxed);
                    *budget -= gone;
                    more |= gone == held;
                    // An entry that is added or untracked from now on lives for the full lifetime.
                    let first = shard.expires_in(now_ms as u32, self.rules());
                    next = next.min(now_ms + u64::from(first.unwrap_or(self.declaration.expire_ms)));
                }
                let spare = shard.spare(blocks);
                blocks -= spare.len();
                drop(shard);
                drop(spare);
                if *budget == 0 || blocks == 0 {
                    return None;
                }
            }
            if !more {
                return Some(next);
            }
        }
    }

    /// Calls `then` with the entries from `cursor` on, in at most `budget` slots. Returns the new cursor, or `None` at the
    /// end. Entries that are added or removed during the walk may be included or not.
    pub fn walk(
        &self,
        cursor: TableCursor,
        budget: u32,
        now_ms: u64,
        mut then: impl FnMut(EntryKey, &mut LockedEntry<'_>),
    ) -> Option<TableCursor> {
        let TableCursor { shard: number, slot: from } = cursor;
        let mut shard = self.shards.get(usize::from(number))?.lock();
        let to = shard.slots().min(from.saturating_add(budget));
        for slot in from..to {
            let generation = shard.generation(slot, self.rules());
            if generation != 0 {
                let entry = EntryKey { slot, generation, shard: number };
                then(entry, &mut self.row(&mut shard, slot, now_ms, self.rules()));
            }
        }
        let ended = to == shard.slots();
        let next = if ended {
            TableCursor { shard: number + 1, slot: 0 }
        } else {
            TableCursor { shard: number, slot: to }
        };
        (usize::from(next.shard) < self.shards.len()).then_some(next)
    }

    /// Sets a callback for when changes must be sent. It runs at most once until an audience reads the changes. Call it once,
    /// before the table is used.
    pub fn on_change(&self, then: impl Fn() + Send + Sync + 'static) {
        // A second callback would never run. One callback serves all audiences.
        let is_first = self.on_change.set(Box::new(then)).is_ok();
        debug_assert!(is_first, "one callback serves all audiences");
    }

    /// Calls `then` with the unsent changed entries of an audience and marks them as sent. Visits at most `budget` entries or
    /// slots of removed entries, from shard `from` on. Returns the shard to continue at, `None` after the last change.
    pub fn send_changes(
        &self,
        audience: usize,
        from: u16,
        budget: usize,
        now_ms: u64,
        mut then: impl FnMut(EntryPosition, &mut LockedEntry<'_>),
    ) -> Option<u16> {
        let mut left = budget;
        for (number, shard) in (0..).zip(&self.shards).skip(from.into()) {
            loop {
                let mut shard = shard.lock();
                let mut slots = Vec::new();
                let held = left.min(HELD_ENTRIES as usize);
                let more = shard.changes()?.take(audience, held, |slot| slots.push(slot));
                left -= slots.len();
                for slot in slots {
                    if shard.generation(slot, self.rules()) != 0 {
                        let mut row = self.row(&mut shard, slot, now_ms, self.rules());
                        then(EntryPosition { shard: number, slot }, &mut row);
                    }
                }
                if left == 0 {
                    return Some(number);
                }
                if !more {
                    break;
                }
            }
        }
        None
    }

    /// Marks these positions as unsent for an audience.
    pub fn mark_unsent(&self, audience: usize, positions: impl IntoIterator<Item = EntryPosition>) {
        for EntryPosition { shard, slot } in positions {
            let Some(shard) = self.shards.get(usize::from(shard)) else { continue };
            if let Some(changes) = shard.lock().changes() {
                changes.give_back(audience, slot);
            }
        }
    }

    /// Marks every entry as unsent, for an audience without any of this instance's data.
    pub fn mark_all_unsent(&self, audience: usize) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            let slots = shard.slots();
            if let Some(changes) = shard.changes() {
                changes.give_back_all(audience, slots);
            }
        }
    }

    /// Discards the recorded changes of an audience, because it gets all entries anyway.
    pub fn forget_changes(&self, audience: usize) {
        for shard in &self.shards {
            if let Some(changes) = shard.lock().changes() {
                changes.forget(audience);
            }
        }
    }

    /// Calls `then` with the entry of a key, to store another instance's data. Creates a missing entry. The change is not sent
    /// to audiences. The entry expires after `expires_in_ms`, at most after the table's own lifetime. `None` if the table is
    /// full.
    ///
    /// Entries are removed in the order of their last use in this instance. An entry that expires before less recently used
    /// ones is not found any more, but its memory is only freed after theirs.
    pub fn learn<R>(
        &self,
        key: &Key,
        now_ms: u64,
        expires_in_ms: Option<u32>,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_entry(key, now_ms, |table, shard, EntryPosition { slot, .. }, rules| {
            shard.touch(slot, now_ms as u32, rules);
            if let Some(left) = expires_in_ms.filter(|left| *left < rules.expire_ms) {
                shard.expire_at(slot, (now_ms as u32).wrapping_add(left), rules);
                table.due.by(now_ms + u64::from(left));
            }
            then(&mut table.row(shard, slot, now_ms, rules))
        })
    }

    /// Calls `then` with an entry. If `then` changed the entry, marks it for the audiences.
    #[inline]
    fn show<R>(
        &self,
        shard: &mut Shard,
        slot: u32,
        now_ms: u64,
        rules: ShardRules<'_>,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> R {
        let mut row = self.row(shard, slot, now_ms, rules);
        let shown = then(&mut row);
        if row.is_changed {
            self.mark(shard, slot);
        }
        shown
    }

    #[inline]
    fn mark(&self, shard: &mut Shard, slot: u32) {
        if shard.mark(slot)
            && let Some(on_change) = self.on_change.get()
        {
            on_change();
        }
    }

    #[inline]
    fn row<'s>(
        &'s self,
        shard: &'s mut Shard,
        slot: u32,
        now_ms: u64,
        rules: ShardRules<'_>,
    ) -> LockedEntry<'s> {
        LockedEntry {
            words: shard.words(slot, rules),
            layout: &self.layout,
            names: &self.names,
            key: self.declaration.key,
            now: now_ms as u32,
            expire_ms: self.declaration.expire_ms,
            is_changed: false,
        }
    }

    /// The high half selects the shard, the low half the bucket.
    fn shard_of(&self, hash: u64) -> u16 {
        ((hash >> 32) as usize & (self.shards.len() - 1)) as u16
    }

    #[inline]
    fn rules(&self) -> ShardRules<'_> {
        ShardRules { layout: &self.layout, expire_ms: self.declaration.expire_ms, hasher: &self.hasher }
    }

    #[inline]
    fn with_shard<R>(&self, key: &Key, then: impl FnOnce(&Self, &mut Shard, u64, ShardRules<'_>) -> R) -> R {
        let rules = self.rules();
        let hash = rules.hash(key.words());
        let mut shard = self.shards[usize::from(self.shard_of(hash))].lock();
        then(self, &mut shard, hash, rules)
    }

    #[inline]
    fn with_tracked<R>(
        &self,
        entry: EntryKey,
        then: impl FnOnce(&Self, &mut Shard, u32, ShardRules<'_>) -> R,
    ) -> Option<R> {
        let mut shard = self.shards.get(usize::from(entry.shard))?.lock();
        let rules = self.rules();
        let there = entry.generation != 0 && shard.generation(entry.slot, rules) == entry.generation;
        there.then(|| then(self, &mut shard, entry.slot, rules))
    }

    /// The entry of a key. An expired one is removed.
    #[inline]
    fn found(
        &self,
        shard: &mut Shard,
        key: &Key,
        hash: u64,
        now_ms: u64,
        rules: ShardRules<'_>,
    ) -> Option<u32> {
        let before = shard.count();
        let slot = shard.find(key.words(), hash as u32, now_ms as u32, rules);
        let gone = before - shard.count();
        if gone > 0 {
            self.used.fetch_sub(gone.into(), Relaxed);
        }
        slot
    }

    /// The entry of a key, or a new one. `None` if the table is full.
    fn with_entry<R>(
        &self,
        key: &Key,
        now_ms: u64,
        then: impl FnOnce(&Self, &mut Shard, EntryPosition, ShardRules<'_>) -> R,
    ) -> Option<R> {
        let rules = self.rules();
        let hash = rules.hash(key.words());
        let own = self.shard_of(hash);
        let mut shard = self.shards[usize::from(own)].lock();
        if let Some(slot) = self.found(&mut shard, key, hash, now_ms, rules) {
            return Some(then(self, &mut shard, EntryPosition { shard: own, slot }, rules));
        }
        let gone = shard.expire(now_ms as u32, EXPIRED_PER_ENTRY, rules);
        self.used.fetch_sub(gone.into(), Relaxed);
        if !self.reserve() {
            let purges = !self.declaration.no_purge;
            if purges && shard.evict(rules) {
                self.evicted.fetch_add(1, Relaxed);
            } else {
                // Two shards are never locked at once. An entry that another worker adds meanwhile is found below.
                drop(shard);
                let made_room = self.make_room(usize::from(own), now_ms, purges, rules);
                shard = self.shards[usize::from(own)].lock();
                if !made_room {
                    self.refused.fetch_add(1, Relaxed);
                    return None;
                }
                if let Some(slot) = self.found(&mut shard, key, hash, now_ms, rules) {
                    self.used.fetch_sub(1, Relaxed);
                    return Some(then(self, &mut shard, EntryPosition { shard: own, slot }, rules));
                }
            }
        }
        let slot = self.insert(&mut shard, key, hash, now_ms, rules)?;
        Some(then(self, &mut shard, EntryPosition { shard: own, slot }, rules))
    }

    /// Adds an entry that was already counted. If memory is short, the entry replaces the oldest one of its shard, because
    /// another shard's memory would have to be freed first. If that fails, uncounts the entry and returns `None`.
    fn insert(
        &self,
        shard: &mut Shard,
        key: &Key,
        hash: u64,
        now_ms: u64,
        rules: ShardRules<'_>,
    ) -> Option<u32> {
        let mut slot = shard.insert(key.words(), hash as u32, now_ms as u32, rules);
        if slot.is_none() && !self.declaration.no_purge && shard.evict(rules) {
            self.evicted.fetch_add(1, Relaxed);
            self.used.fetch_sub(1, Relaxed);
            slot = shard.insert(key.words(), hash as u32, now_ms as u32, rules);
        }
        if slot.is_none() {
            self.refused.fetch_add(1, Relaxed);
            self.used.fetch_sub(1, Relaxed);
        }
        slot
    }

    /// Counts one more entry, if there is room.
    fn reserve(&self) -> bool {
        if self.used.fetch_add(1, Relaxed) < self.declaration.size.into() {
            return true;
        }
        self.used.fetch_sub(1, Relaxed);
        false
    }

    /// Removes an entry from a shard other than `own` and counts the new entry. Tries each shard once.
    fn make_room(&self, own: usize, now_ms: u64, purges: bool, rules: ShardRules<'_>) -> bool {
        for step in 1..=self.shards.len() {
            let mut shard = self.shards[(own + step) % self.shards.len()].lock();
            let expired = shard.expire(now_ms as u32, 1, rules);
            if expired == 0 && !(purges && shard.evict(rules)) {
                continue;
            }
            self.evicted.fetch_add(u64::from(expired == 0), Relaxed);
            return true;
        }
        false
    }

    /// The most entry accesses during one lock of a shard.
    #[cfg(test)]
    pub(crate) fn longest_hold(&self) -> u32 {
        self.shards.iter().map(|slot| slot.lock().slots.looks.longest()).max().unwrap_or(0)
    }

    /// The number of entries with allocated memory, used or not.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shards.iter().map(|slot| slot.lock().slots.with_memory()).sum()
    }

    /// The number of changes that fit into the allocated memory, over all shards and audiences.
    #[cfg(test)]
    pub(crate) fn room_for_changes(&self) -> usize {
        self.shards.iter().filter_map(|slot| Some(slot.lock().changes()?.room())).sum()
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let mut count = 0;
        for slot in &self.shards {
            let mut shard = slot.lock();
            shard.check_invariants(self.rules());
            count += shard.count();
        }
        assert_eq!(count, self.used());
    }
}

impl PaddedShard {
    /// Ignores poisoning: entries are changed word by word, and nothing panics in between.
    fn lock(&self) -> MutexGuard<'_, Shard> {
        let shard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(test)]
        shard.slots.looks.begin();
        shard
    }
}

impl EntryKey {
    /// The number that the runtime API shows for the entry and accepts.
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot) << 6 | u64::from(self.shard)
    }

    /// The key from [`EntryKey::number`]. The entry may not exist.
    pub fn from_number(number: u64) -> EntryKey {
        let low = number as u32;
        EntryKey {
            slot: low >> 6,
            generation: (number >> 32) as u32,
            shard: (low & (MAX_SHARDS as u32 - 1)) as u16,
        }
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Table({}, {} of {})", self.declaration.name, self.used(), self.declaration.size)
    }
}

#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;
