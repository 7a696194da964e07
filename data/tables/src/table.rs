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
/// Times are milliseconds of one monotonic clock. A closure that accesses an entry gets a [`LockedEntry`] while its shard is locked: it
/// must be short, and must not access the same table again.
pub struct Table {
    declaration: Declaration,
    layout: EntryLayout,
    shards: Box<[PaddedShard]>,
    hasher: RandomState,
    /// The number of entries in all shards. An entry is counted before it is added, so the number is too high for a
    /// moment.
    used: AtomicU64,
    /// Entries that were refused because the table was full or memory was short.
    refused: AtomicU64,
    /// Entries that were purged because the table was full.
    evicted: AtomicU64,
    names: NumberedNames,
    /// Called at the first change since an audience looked.
    on_change: OnceLock<OnChange>,
    /// When something expires, or memory can be given back.
    due: Arc<DueTime>,
}

/// Called when there are changes to send, with a shard locked.
type OnChange = Box<dyn Fn() + Send + Sync>;

/// A shard on cache lines of its own.
#[repr(align(128))]
struct PaddedShard(Mutex<Shard>);

/// Identifies an entry for as long as it exists. The key of a removed entry finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryKey {
    slot: u32,
    generation: u32,
    shard: u16,
}

/// The result of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// The entry was removed.
    Gone,
    /// The entry is tracked, and stays.
    InUse,
    /// The entry does not exist.
    Missing,
}

/// The position of an entry, whichever is there.
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
/// Smaller tables have one shard per this many entries: with a single shard, the very oldest entry is purged.
const ENTRIES_PER_SHARD: usize = 1024;
/// How many expired entries are removed at most with each new one.
const EXPIRED_PER_ENTRY: u32 = 2;
/// Loops over many entries hold the lock of a shard for so many at a time, which bounds the wait of a request.
const HELD_ENTRIES: u32 = 64;
/// So many blocks of memory are given back in one step: of blocks of 45 kB each takes the kernel a few microseconds.
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

    /// An empty table with counts and rates that are sums of this instance's and of those of `audiences` others.
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

    /// Its declaration.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// The layout of its entries.
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

    /// How many entries were purged because the table was full, or because memory for another one was short.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Calls `then` with the entry of a key, without using it: its expiry does not change.
    #[inline]
    pub fn look<R>(&self, key: &Key, now_ms: u64, then: impl FnOnce(&mut LockedEntry<'_>) -> R) -> Option<R> {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules)?;
            Some(table.show(shard, slot, now_ms, rules, then))
        })
    }

    /// The number of a key's entry ([`EntryKey::number`]); 0 for none.
    pub fn number_of(&self, key: &Key, now_ms: u64) -> u64 {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules);
            slot.map_or(0, |slot| {
                let generation = shard.generation(slot, rules);
                EntryKey { slot, generation, shard: table.shard_of(hash) }.number()
            })
        })
    }

    /// Calls `then` with the entry of a key, and counts as a use.
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

    /// Calls `then` with the entry of a key, which is created if necessary, and counts as a use. `None` if the table is
    /// full.
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

    /// Tracks the entry of a key, which is created if necessary: it stays until [`Table::untrack`]. `None` if the table
    /// is full.
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

    /// Calls `then` with a tracked entry, and ends the tracking.
    pub fn untrack(&self, entry: EntryKey, now_ms: u64, then: impl FnOnce(&mut LockedEntry<'_>)) {
        self.with_tracked(entry, |table, shard, slot, rules| {
            then(&mut table.row(shard, slot, now_ms, rules));
            shard.untrack(slot, now_ms as u32, rules);
            table.mark(shard, slot);
        });
    }

    /// Calls `then` with a tracked entry; `None` if it does not exist.
    #[inline]
    pub fn at<R>(
        &self,
        entry: EntryKey,
        now_ms: u64,
        then: impl FnOnce(&mut LockedEntry<'_>) -> R,
    ) -> Option<R> {
        self.with_tracked(entry, |table, shard, slot, rules| table.show(shard, slot, now_ms, rules, then))
    }

    /// The same, and counts as a use.
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

    /// Removes the entry of a key.
    pub fn remove(&self, key: &Key, now_ms: u64) -> Removal {
        self.with_shard(key, |table, shard, hash, rules| match table.found(shard, key, hash, now_ms, rules) {
            Some(slot) => table.remove_slot(shard, slot, rules),
            None => Removal::Missing,
        })
    }

    /// Removes an entry.
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

    /// The same if something is due, else nothing, and without a lock. Returns the earliest time to call it again;
    /// `None` means at once. Removed entries are taken from the budget, which several tables may share. Only one task
    /// calls it.
    pub fn expire_due(&self, now_ms: u64, budget: &mut u32) -> Option<u64> {
        if self.due_at() > now_ms {
            return Some(self.due_at());
        }
        self.due.begin();
        let next = self.sweep(now_ms, budget);
        self.due.end(next.unwrap_or(0));
        next.map(|_| self.due_at())
    }

    /// When [`Table::expire_due`] has something to do, at the earliest.
    pub fn due_at(&self) -> u64 {
        self.due.at()
    }

    /// Calls `wake` when it has something to do earlier than was known. Only the first call has an effect.
    pub fn on_due(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.due.on_earlier(wake);
    }

    /// Looks at all shards: when something expires next, at the earliest. `None` if the budget was not enough.
    fn sweep(&self, now_ms: u64, budget: &mut u32) -> Option<u64> {
        let mut blocks = GIVEN_AT_ONCE;
        loop {
            // Where much has expired, the other shards come before the rest: meanwhile a request may take the lock.
            let (mut next, mut more) = (u64::MAX, false);
            for slot in &self.shards {
                let mut shard = slot.lock();
                if self.declaration.expire_ms != 0 {
                    let held = HELD_ENTRIES.min(*budget);
                    let gone = shard.expire(now_ms as u32, held, self.rules());
                    self.used.fetch_sub(gone.into(), Relaxed);
                    *budget -= gone;
                    more |= gone == held;
                    // An entry that is first used or untracked from now on lives for the whole time.
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

    /// Calls `then` with the entries from `cursor` on, visiting at most `budget` slots. `None` at the end, else the new
    /// cursor.
    /// Entries that are added or removed meanwhile may be included or not.
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

    /// Calls `then` when there are changes to send: at most once until an audience looks. Call it once, before the
    /// table is used.
    pub fn on_change(&self, then: impl Fn() + Send + Sync + 'static) {
        // A second callback would never be called: one callback serves all audiences.
        let is_first = self.on_change.set(Box::new(then)).is_ok();
        debug_assert!(is_first, "one callback serves all audiences");
    }

    /// Calls `then` with the unsent changed entries of an audience, and marks them as sent: at most `budget` of them,
    /// or of slots of removed entries. Begins at shard `from`. Returns where to continue, `None` after the last change.
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

    /// Marks every entry as unsent, for an audience without any of our data.
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

    /// Calls `then` with the entry of a key, to store another instance's data: it is created if necessary, and
    /// audiences do not get the change. It expires after `expires_in_ms`, at the latest after the table's own time.
    /// `None` if the table is full.
    ///
    /// Entries are removed in the order of their last use here. One that expires before entries that were used earlier is not
    /// found any more from then on, but its memory is freed with theirs.
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

    /// Calls `then` with an entry. If that changed it, marks it for the audiences.
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

    /// The entry of a key, or a new one; `None` if the table is full.
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
                // Two shards are never locked at once: an entry that is added meanwhile is found below.
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

    /// Adds an entry that was counted. Without memory it takes the place of the oldest one of its shard: another
    /// shard's memory would have to go back to the system first. If that fails, returns `None` and uncounts the entry.
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

    /// Makes room for an entry in other shards than `own`, and counts it. Each shard is tried once.
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

    /// How often entries were looked at, at most, while a shard was locked once.
    #[cfg(test)]
    pub(crate) fn longest_hold(&self) -> u32 {
        self.shards.iter().map(|slot| slot.lock().slots.looks.longest()).max().unwrap_or(0)
    }

    /// How many entries have memory, whether they are there or not.
    #[cfg(test)]
    pub(crate) fn room(&self) -> usize {
        self.shards.iter().map(|slot| slot.lock().slots.with_memory()).sum()
    }

    /// How many changes there is room for, of all shards and audiences.
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
    /// A poisoned lock is used all the same: entries are changed word by word, and nothing panics in between.
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

    /// The key of such a number; the entry may not exist.
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
