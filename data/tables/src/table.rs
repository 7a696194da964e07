//! A table that all workers share.

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::quality::RandomState;

use crate::key::Key;
use crate::layout::{Layout, header};
use crate::names::Names;
use crate::row::Row;
use crate::shard::{Rules, Shard};
use weir_expr::table::Declaration;

/// A stick-table.
///
/// Times are milliseconds of one clock that never goes back. Whoever looks at an entry gets a [`Row`] while its shard is locked: the
/// look must be short, and must not ask the same table again.
pub struct Table {
    declaration: Declaration,
    layout: Layout,
    shards: Box<[Slot]>,
    hasher: RandomState,
    /// How many entries all shards have.
    used: AtomicU32,
    /// Entries that were refused because the table was full.
    refused: AtomicU64,
    /// Entries that went because the table was full.
    evicted: AtomicU64,
    names: Names,
    /// Hears of the first change since an audience looked.
    on_change: OnceLock<OnChange>,
}

/// What is called when there is something to tell, with a shard locked.
type OnChange = Box<dyn Fn() + Send + Sync>;

/// A shard on cache lines of its own.
#[repr(align(128))]
struct Slot(Mutex<Shard>);

/// Which entry is meant, for as long as it is there. A key of an entry that is gone finds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryKey {
    slot: u32,
    generation: u32,
    shard: u16,
}

/// What became of an entry that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// It is gone.
    Gone,
    /// It is tracked, and stays.
    InUse,
    /// There is none.
    Missing,
}

/// Where an entry lies, whichever that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    shard: u16,
    slot: u32,
}

/// How far a dump is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    shard: u16,
    slot: u32,
}

/// No table has more shards.
const MAX_SHARDS: usize = 64;
/// Smaller tables have one shard for so many entries: with one alone, the very oldest entry gives way.
const ENTRIES_PER_SHARD: usize = 1024;
/// With each new entry at most so many go that have expired.
const EXPIRED_PER_ENTRY: u32 = 2;

impl Table {
    /// An empty table.
    pub fn new(declaration: Declaration) -> Table {
        Table::of_shards(declaration, Shard::default)
    }

    /// An empty table whose changes so many audiences are told.
    pub fn shared(declaration: Declaration, audiences: usize) -> Table {
        Table::of_shards(declaration, || Shard::shared(audiences))
    }

    fn of_shards(declaration: Declaration, shard: impl Fn() -> Shard) -> Table {
        let layout = Layout::of(&declaration);
        let shards = (declaration.size as usize / ENTRIES_PER_SHARD).clamp(1, MAX_SHARDS);
        // A power of two, so that a few bits of the hash choose one.
        let shards = 1 << shards.ilog2();
        Table {
            layout,
            shards: (0..shards).map(|_| Slot(Mutex::new(shard()))).collect(),
            hasher: RandomState::default(),
            used: AtomicU32::new(0),
            refused: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
            names: Names::default(),
            on_change: OnceLock::new(),
            declaration,
        }
    }

    /// What was said of it.
    pub fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    /// What its entries store.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many entries there are, those that have expired and are still to go among them.
    pub fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    /// How many entries were refused because the table was full.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// How many entries went because the table was full.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Relaxed)
    }

    /// Shows `then` the entry of a key, without using it: it expires as if nobody had looked.
    #[inline]
    pub fn look<R>(&self, key: &Key, now_ms: u64, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules)?;
            Some(table.show(shard, slot, now_ms, rules, then))
        })
    }

    /// The number of a key's entry ([`EntryKey::number`]); 0 for none.
    pub fn number_of(&self, key: &Key, now_ms: u64) -> u64 {
        let shard_number = self.shard_of(self.hash(key.words()));
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules);
            slot.map_or(0, |slot| {
                EntryKey { slot, generation: shard.generation(slot, rules), shard: shard_number }.number()
            })
        })
    }

    /// Shows `then` the entry of a key, which is used thereby.
    pub fn refresh<R>(&self, key: &Key, now_ms: u64, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.with_shard(key, |table, shard, hash, rules| {
            let slot = table.found(shard, key, hash, now_ms, rules)?;
            shard.touch(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            Some(then(&mut table.row(shard, slot, now_ms, rules)))
        })
    }

    /// Shows `then` the entry of a key, which is made if there is none, and used thereby. None if there is no room.
    pub fn store<R>(&self, key: &Key, now_ms: u64, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.with_entry(key, now_ms, |table, shard, slot, rules| {
            shard.touch(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            then(&mut table.row(shard, slot, now_ms, rules))
        })
    }

    /// Tracks the entry of a key, which is made if there is none: it stays until [`Table::untrack`]. None if there is no room.
    #[inline]
    pub fn track<R>(
        &self,
        key: &Key,
        now_ms: u64,
        then: impl FnOnce(&mut Row<'_>) -> R,
    ) -> Option<(EntryKey, R)> {
        self.with_entry(key, now_ms, |table, shard, slot, rules| {
            shard.track(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            let generation = shard.generation(slot, rules);
            let shown = then(&mut table.row(shard, slot, now_ms, rules));
            (EntryKey { slot, generation, shard: table.shard_of(table.hash(key.words())) }, shown)
        })
    }

    /// Shows `then` an entry for the last time, and no longer tracks it.
    pub fn untrack(&self, entry: EntryKey, now_ms: u64, then: impl FnOnce(&mut Row<'_>)) {
        self.with_tracked(entry, |table, shard, slot, rules| {
            then(&mut table.row(shard, slot, now_ms, rules));
            shard.untrack(slot, now_ms as u32, rules);
            table.mark(shard, slot);
        });
    }

    /// Shows `then` an entry that is tracked; none if it is gone.
    #[inline]
    pub fn at<R>(&self, entry: EntryKey, now_ms: u64, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.with_tracked(entry, |table, shard, slot, rules| table.show(shard, slot, now_ms, rules, then))
    }

    /// The same, and the entry is used thereby.
    pub fn touch<R>(&self, entry: EntryKey, now_ms: u64, then: impl FnOnce(&mut Row<'_>) -> R) -> Option<R> {
        self.with_tracked(entry, |table, shard, slot, rules| {
            shard.touch(slot, now_ms as u32, rules);
            table.mark(shard, slot);
            then(&mut table.row(shard, slot, now_ms, rules))
        })
    }

    /// Removes the entry of a key.
    pub fn remove(&self, key: &Key, now_ms: u64) -> Removed {
        self.with_shard(key, |table, shard, hash, rules| match table.found(shard, key, hash, now_ms, rules) {
            Some(slot) => table.remove_slot(shard, slot, rules),
            None => Removed::Missing,
        })
    }

    /// Removes an entry.
    pub fn remove_entry(&self, entry: EntryKey) -> Removed {
        self.with_tracked(entry, |table, shard, slot, rules| table.remove_slot(shard, slot, rules))
            .unwrap_or(Removed::Missing)
    }

    fn remove_slot(&self, shard: &mut Shard, slot: u32, rules: Rules<'_>) -> Removed {
        if shard.words(slot, rules)[header::TRACKERS] > 0 {
            return Removed::InUse;
        }
        shard.remove(slot, rules);
        self.used.fetch_sub(1, Relaxed);
        Removed::Gone
    }

    /// Removes what has expired, at most `budget` entries; whether that was not enough.
    pub fn expire(&self, now_ms: u64, budget: u32) -> bool {
        if self.declaration.expire_ms == 0 || self.used() == 0 {
            return false;
        }
        let mut left = budget;
        for slot in &self.shards {
            let gone = self.with_rules(|rules| slot.lock().expire(now_ms as u32, left, rules));
            self.used.fetch_sub(gone, Relaxed);
            left -= gone;
            if left == 0 {
                return true;
            }
        }
        false
    }

    /// Shows `then` entries from where `cursor` stands, looking at no more than `budget` of them or of their empty places. None when
    /// all were shown, else where to go on. What comes or goes meanwhile may be shown or not.
    pub fn walk(
        &self,
        cursor: Cursor,
        budget: u32,
        now_ms: u64,
        mut then: impl FnMut(EntryKey, &mut Row<'_>),
    ) -> Option<Cursor> {
        let Cursor { shard: number, slot: from } = cursor;
        let mut shard = self.shards.get(usize::from(number))?.lock();
        let to = shard.slots().min(from.saturating_add(budget));
        self.with_rules(|rules| {
            for slot in from..to {
                let generation = shard.generation(slot, rules);
                if generation != 0 {
                    let entry = EntryKey { slot, generation, shard: number };
                    then(entry, &mut self.row(&mut shard, slot, now_ms, rules));
                }
            }
        });
        let ended = to == shard.slots();
        let next =
            if ended { Cursor { shard: number + 1, slot: 0 } } else { Cursor { shard: number, slot: to } };
        (usize::from(next.shard) < self.shards.len()).then_some(next)
    }

    /// Calls `then` when there is something to tell: at most once until an audience looks. To be called once, before the table is used.
    pub fn on_change(&self, then: impl Fn() + Send + Sync + 'static) {
        // A second caller would hear nothing: there is one who tells everybody.
        let is_first = self.on_change.set(Box::new(then)).is_ok();
        debug_assert!(is_first, "one tells all audiences");
    }

    /// Shows `then` entries that changed here since an audience was told, which counts as told thereby: at most `budget` of them, or of
    /// places that have none any more. Looks at shards from `from` on; none when there is nothing more, else where to go on.
    pub fn tell(
        &self,
        audience: usize,
        from: u16,
        budget: usize,
        now_ms: u64,
        mut then: impl FnMut(Position, &mut Row<'_>),
    ) -> Option<u16> {
        let mut left = budget;
        for (number, shard) in (0..).zip(&self.shards).skip(from.into()) {
            let mut shard = shard.lock();
            let mut slots = Vec::new();
            let more = shard.changes()?.take(audience, left, |slot| slots.push(slot));
            left -= slots.len();
            self.with_rules(|rules| {
                for slot in slots {
                    if shard.generation(slot, rules) != 0 {
                        let mut row = self.row(&mut shard, slot, now_ms, rules);
                        then(Position { shard: number, slot }, &mut row);
                    }
                }
            });
            if more || left == 0 {
                return Some(number);
            }
        }
        None
    }

    /// Tells an audience again of what lies there.
    pub fn tell_again(&self, audience: usize, positions: impl IntoIterator<Item = Position>) {
        for Position { shard, slot } in positions {
            let Some(shard) = self.shards.get(usize::from(shard)) else { continue };
            if let Some(changes) = shard.lock().changes() {
                changes.give_back(audience, slot);
            }
        }
    }

    /// An audience that is told everything needs no changes of before.
    pub fn forget_changes(&self, audience: usize) {
        for shard in &self.shards {
            if let Some(changes) = shard.lock().changes() {
                changes.forget(audience);
            }
        }
    }

    /// Shows `then` the entry of a key, as another instance has it: it is made if there is none, and nobody is told. It expires after
    /// `expires_in_ms`, at the latest after the table's own time. None if there is no room.
    ///
    /// Entries are removed in the order in which they were used here. One that expires before the ones that were used before it
    /// is found no more from then on, and its room is given back with theirs.
    pub fn learn<R>(
        &self,
        key: &Key,
        now_ms: u64,
        expires_in_ms: Option<u32>,
        then: impl FnOnce(&mut Row<'_>) -> R,
    ) -> Option<R> {
        self.with_entry(key, now_ms, |table, shard, slot, rules| {
            shard.touch(slot, now_ms as u32, rules);
            if let Some(left) = expires_in_ms.filter(|left| *left < rules.expire_ms) {
                shard.expire_at(slot, (now_ms as u32).wrapping_add(left), rules);
            }
            then(&mut table.row(shard, slot, now_ms, rules))
        })
    }

    /// Shows `then` an entry. If it was changed by that, others are to be told.
    #[inline]
    fn show<R>(
        &self,
        shard: &mut Shard,
        slot: u32,
        now_ms: u64,
        rules: Rules<'_>,
        then: impl FnOnce(&mut Row<'_>) -> R,
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

    fn row<'s>(&'s self, shard: &'s mut Shard, slot: u32, now_ms: u64, rules: Rules<'_>) -> Row<'s> {
        Row {
            words: shard.words(slot, rules),
            layout: &self.layout,
            names: &self.names,
            key: self.declaration.key,
            now: now_ms as u32,
            expire_ms: self.declaration.expire_ms,
            is_changed: false,
        }
    }

    fn hash(&self, words: &[u32]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        words.iter().for_each(|word| hasher.write_u32(*word));
        hasher.finish()
    }

    /// The high half chooses the shard, the low half the bucket.
    fn shard_of(&self, hash: u64) -> u16 {
        ((hash >> 32) as usize & (self.shards.len() - 1)) as u16
    }

    fn with_rules<R>(&self, then: impl FnOnce(Rules<'_>) -> R) -> R {
        let hash = |words: &[u32]| self.hash(words) as u32;
        then(Rules { layout: &self.layout, expire_ms: self.declaration.expire_ms, hash: &hash })
    }

    #[inline]
    fn with_shard<R>(&self, key: &Key, then: impl FnOnce(&Self, &mut Shard, u32, Rules<'_>) -> R) -> R {
        let hash = self.hash(key.words());
        let mut shard = self.shards[usize::from(self.shard_of(hash))].lock();
        self.with_rules(|rules| then(self, &mut shard, hash as u32, rules))
    }

    #[inline]
    fn with_tracked<R>(
        &self,
        entry: EntryKey,
        then: impl FnOnce(&Self, &mut Shard, u32, Rules<'_>) -> R,
    ) -> Option<R> {
        let mut shard = self.shards.get(usize::from(entry.shard))?.lock();
        self.with_rules(|rules| {
            let there = entry.generation != 0 && shard.generation(entry.slot, rules) == entry.generation;
            there.then(|| then(self, &mut shard, entry.slot, rules))
        })
    }

    /// The entry of a key. One that has just expired is gone thereby.
    #[inline]
    fn found(&self, shard: &mut Shard, key: &Key, hash: u32, now_ms: u64, rules: Rules<'_>) -> Option<u32> {
        let before = shard.count();
        let slot = shard.find(key.words(), hash, now_ms as u32, rules);
        let gone = before - shard.count();
        if gone > 0 {
            self.used.fetch_sub(gone, Relaxed);
        }
        slot
    }

    /// The entry of a key, or a new one; none if there is no room.
    fn with_entry<R>(
        &self,
        key: &Key,
        now_ms: u64,
        then: impl FnOnce(&Self, &mut Shard, u32, Rules<'_>) -> R,
    ) -> Option<R> {
        let hash = self.hash(key.words());
        let own = usize::from(self.shard_of(hash));
        let mut shard = self.shards[own].lock();
        self.with_rules(|rules| {
            if let Some(slot) = self.found(&mut shard, key, hash as u32, now_ms, rules) {
                return Some(then(self, &mut shard, slot, rules));
            }
            let gone = shard.expire(now_ms as u32, EXPIRED_PER_ENTRY, rules);
            self.used.fetch_sub(gone, Relaxed);
            if !self.reserve() {
                let purges = !self.declaration.no_purge;
                if purges && shard.evict(rules) {
                    self.evicted.fetch_add(1, Relaxed);
                } else {
                    // No two shards are locked at once: what comes meanwhile is found below.
                    drop(shard);
                    let made_room = self.make_room(own, now_ms, purges, rules);
                    shard = self.shards[own].lock();
                    if !made_room {
                        self.refused.fetch_add(1, Relaxed);
                        return None;
                    }
                    if let Some(slot) = self.found(&mut shard, key, hash as u32, now_ms, rules) {
                        self.used.fetch_sub(1, Relaxed);
                        return Some(then(self, &mut shard, slot, rules));
                    }
                }
            }
            let slot = shard.insert(key.words(), hash as u32, now_ms as u32, rules);
            Some(then(self, &mut shard, slot, rules))
        })
    }

    /// Counts one more entry, if there is room for it.
    fn reserve(&self) -> bool {
        if self.used.fetch_add(1, Relaxed) < self.declaration.size {
            return true;
        }
        self.used.fetch_sub(1, Relaxed);
        false
    }

    /// Makes room for an entry in other shards than `own`, and counts it. Each shard is looked at once.
    fn make_room(&self, own: usize, now_ms: u64, purges: bool, rules: Rules<'_>) -> bool {
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

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        let mut count = 0;
        for slot in &self.shards {
            let mut shard = slot.lock();
            self.with_rules(|rules| shard.check_invariants(rules));
            count += shard.count();
        }
        assert_eq!(count, self.used());
    }
}

impl Slot {
    /// What a panicking holder left behind is whole: entries are changed word by word, and nothing panics in between.
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EntryKey {
    /// A number that the runtime API shows for the entry, and takes to name it.
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot) << 6 | u64::from(self.shard)
    }

    /// The entry of such a number, which may not be there.
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
