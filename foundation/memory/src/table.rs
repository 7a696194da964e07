//! A bounded table of counters, one entry for each stack, method and kind of work. Further ones count as "other".
//!
//! A thread claims an entry by compare-and-swap of its key, and counts with atomic additions. The cost is acceptable,
//! since counting is on only while an operator searches for a leak. A stack that cannot be walked counts as "other", so
//! that two callers never share an entry (R80, R177).

use crate::names;
use crate::stack::Stack;
use std::backtrace::Backtrace;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

/// The method of an allocation or a release, with the names of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum AllocationMethod {
    /// `malloc`.
    Alloc,
    /// `calloc`.
    AllocZeroed,
    /// `realloc`.
    Realloc,
    /// `free`.
    Free,
}

impl AllocationMethod {
    /// `malloc`, `calloc`, `realloc`, `free`.
    pub fn name(self) -> &'static str {
        ["malloc", "calloc", "realloc", "free"][self as usize]
    }
}

/// The code that allocated or freed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallSite {
    /// `function@file:line`.
    Caller(String),
    /// A stack that cannot be decoded, is not decoded yet, or did not fit into the table.
    Other,
}

/// The allocations of one caller with one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSiteCounters {
    pub place: CallSite,
    /// Kind of work during the allocation, if known.
    pub work: Option<&'static str>,
    pub method: AllocationMethod,
    /// Number of allocations.
    pub allocations: u64,
    /// Number of frees.
    pub frees: u64,
    pub allocated_bytes: u64,
    pub freed_bytes: u64,
}

/// A report of all counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    /// Start of counting, in nanoseconds of the monotonic clock. 0 if counting was never on.
    pub since_ns: u64,
    /// End of counting, or the current time while counting is on.
    pub until_ns: u64,
    pub now_ns: u64,
    /// One line for each caller, method and kind of work, in arbitrary order.
    pub lines: Vec<CallSiteCounters>,
}

pub(crate) static TABLE: CallSiteTable = CallSiteTable::new();

pub(crate) struct CallSiteTable {
    entries: [CallSiteSlot; ENTRIES],
    other: [CallSiteSlot; METHODS],
    /// Number of threads resolving names of call sites.
    naming: AtomicU32,
    /// Number of threads recording a new call site.
    noting: AtomicU32,
}

struct CallSiteSlot {
    /// Hash of stack, work and method. 0 for a free entry.
    key: AtomicU64,
    origin: OnceLock<AllocationOrigin>,
    allocations: AtomicU64,
    frees: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
}

struct AllocationOrigin {
    method: AllocationMethod,
    work: Option<&'static str>,
    /// Symbol names are resolved only for a report.
    trace: Backtrace,
    place: OnceLock<CallSite>,
}

impl CallSiteTable {
    const fn new() -> Self {
        Self {
            entries: [const { CallSiteSlot::new() }; ENTRIES],
            other: [const { CallSiteSlot::new() }; METHODS],
            naming: AtomicU32::new(0),
            noting: AtomicU32::new(0),
        }
    }

    /// Counts a request. `bytes` are the bytes allocated and the bytes freed.
    pub(crate) fn add(&self, stack: &Stack, method: AllocationMethod, bytes: [u64; 2]) {
        let work = crate::WORK.get().and_then(|name| name());
        let entry = self.entry(stack, method, work).unwrap_or(&self.other[method as usize]);
        entry.add(method, bytes);
    }

    fn entry(
        &self,
        stack: &Stack,
        method: AllocationMethod,
        work: Option<&'static str>,
    ) -> Option<&CallSiteSlot> {
        if stack.is_empty() {
            return None;
        }
        let work_address = work.map_or(0, |name| name.as_ptr().addr() as u64);
        let key = (stack.hash() ^ work_address.rotate_left(17) ^ method as u64).max(1);
        let first = key as usize % ENTRIES;
        for entry in self.entries.iter().cycle().skip(first).take(PROBES) {
            match entry.key.load(Relaxed) {
                0 => {
                    let _noting = RecordingGuard::begin(self)?;
                    match entry.key.compare_exchange(0, key, Relaxed, Relaxed) {
                        Ok(_) => {
                            // Captures addresses only, because resolving symbol names is slow.
                            let trace = Backtrace::force_capture();
                            let _ = entry.origin.set(AllocationOrigin {
                                method,
                                work,
                                trace,
                                place: OnceLock::new(),
                            });
                            return Some(entry);
                        }
                        Err(known) if known == key => return Some(entry),
                        Err(_) => {}
                    }
                }
                known if known == key => return Some(entry),
                _ => {}
            }
        }
        None
    }

    /// Resets the counters; the call sites stay known.
    pub(crate) fn clear(&self) {
        self.all().for_each(CallSiteSlot::clear);
    }

    /// Whether a call site is not resolved yet.
    pub(crate) fn has_unnamed(&self) -> bool {
        self.entries.iter().filter_map(|entry| entry.origin.get()).any(|origin| origin.place.get().is_none())
    }

    /// Resolves the names of all call sites. The first call takes some hundred milliseconds to read debug information.
    pub(crate) fn name(&self) {
        let _naming = NamingGuard::begin(self);
        for origin in self.entries.iter().filter_map(|entry| entry.origin.get()) {
            origin.place.get_or_init(|| names::caller(&format!("{:#}", origin.trace)));
        }
    }

    /// The counters, summed up by caller. Unresolved call sites are "other".
    pub(crate) fn lines(&self) -> Vec<CallSiteCounters> {
        let mut lines: HashMap<_, CallSiteCounters> = HashMap::new();
        let of_places = self.entries.iter().filter_map(|entry| {
            let origin = entry.origin.get()?;
            let place = origin.place.get().cloned().unwrap_or(CallSite::Other);
            entry.counters(place, origin.work, origin.method)
        });
        let methods = [
            AllocationMethod::Alloc,
            AllocationMethod::AllocZeroed,
            AllocationMethod::Realloc,
            AllocationMethod::Free,
        ];
        let others = self.other.iter().zip(methods);
        let of_others = others.filter_map(|(entry, method)| entry.counters(CallSite::Other, None, method));
        for counters in of_places.chain(of_others) {
            lines
                .entry((counters.place.clone(), counters.work, counters.method))
                .and_modify(|known| known.merge(&counters))
                .or_insert(counters);
        }
        lines.into_values().collect()
    }

    fn all(&self) -> impl Iterator<Item = &CallSiteSlot> {
        self.entries.iter().chain(&self.other)
    }
}

impl CallSiteSlot {
    const fn new() -> Self {
        Self {
            key: AtomicU64::new(0),
            origin: OnceLock::new(),
            allocations: AtomicU64::new(0),
            frees: AtomicU64::new(0),
            allocated_bytes: AtomicU64::new(0),
            freed_bytes: AtomicU64::new(0),
        }
    }

    fn add(&self, method: AllocationMethod, [given, taken]: [u64; 2]) {
        if method != AllocationMethod::Free {
            self.allocations.fetch_add(1, Relaxed);
            self.allocated_bytes.fetch_add(given, Relaxed);
        }
        if matches!(method, AllocationMethod::Free | AllocationMethod::Realloc) {
            self.frees.fetch_add(1, Relaxed);
            self.freed_bytes.fetch_add(taken, Relaxed);
        }
    }

    fn clear(&self) {
        for counter in [&self.allocations, &self.frees, &self.allocated_bytes, &self.freed_bytes] {
            counter.store(0, Relaxed);
        }
    }

    /// The counters of a slot. `None` if it was unused since the last reset.
    fn counters(
        &self,
        place: CallSite,
        work: Option<&'static str>,
        method: AllocationMethod,
    ) -> Option<CallSiteCounters> {
        let counters = CallSiteCounters {
            place,
            work,
            method,
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            allocated_bytes: self.allocated_bytes.load(Relaxed),
            freed_bytes: self.freed_bytes.load(Relaxed),
        };
        (counters.allocations + counters.frees > 0).then_some(counters)
    }
}

impl CallSiteCounters {
    fn merge(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.allocated_bytes += other.allocated_bytes;
        self.freed_bytes += other.freed_bytes;
    }
}

/// Guard while names are resolved. Resolving holds the backtrace lock of the standard library for long, and capturing a trace
/// needs the same lock. Meanwhile an allocation from a new call site counts as "other" instead of waiting.
struct NamingGuard<'t>(&'t AtomicU32);

impl<'t> NamingGuard<'t> {
    fn begin(table: &'t CallSiteTable) -> Self {
        table.naming.fetch_add(1, SeqCst);
        // A thread that already began to record a call site holds the lock briefly, or is about to take it.
        while table.noting.load(SeqCst) > 0 {
            std::thread::yield_now();
        }
        Self(&table.naming)
    }
}

impl Drop for NamingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Guard while a new call site is being recorded.
struct RecordingGuard<'t>(&'t AtomicU32);

impl<'t> RecordingGuard<'t> {
    /// `None` if recording would wait for name resolution, or for the message of a panic. This function and
    /// [`NamingGuard::begin`] each increment their own counter before they read the other's, so at least one sees the
    /// other.
    fn begin(table: &'t CallSiteTable) -> Option<Self> {
        table.noting.fetch_add(1, SeqCst);
        let noting = Self(&table.noting);
        (table.naming.load(SeqCst) == 0 && !std::thread::panicking()).then_some(noting)
    }
}

impl Drop for RecordingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Maximum number of entries. Further stacks count as "other".
const ENTRIES: usize = 2048;
/// Maximum number of entries probed for one stack.
const PROBES: usize = 64;
const METHODS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_other(table: &CallSiteTable) -> Vec<u64> {
        let calls = |entry: &CallSiteSlot| entry.allocations.load(Relaxed) + entry.frees.load(Relaxed);
        table.other.iter().map(calls).collect()
    }

    /// R80, R177: stacks that cannot be decoded share the "other" bin, never an entry with a null address; so two
    /// callers of different kinds never share one entry.
    #[test]
    fn allocations_with_an_undecodable_stack_count_as_other() {
        let table = Box::new(CallSiteTable::new());
        table.add(&Stack::of(&[]), AllocationMethod::Alloc, [10, 0]);
        table.add(&Stack::of(&[0]), AllocationMethod::Free, [0, 10]);
        table.add(&Stack::of(&[0, 0]), AllocationMethod::Alloc, [20, 0]);
        assert_eq!(of_other(&table), [2, 0, 0, 1]);
        assert!(table.entries.iter().all(|entry| entry.key.load(Relaxed) == 0));
        let lines = table.lines();
        let mut sums: Vec<_> = lines.iter().map(|line| (line.allocated_bytes, line.freed_bytes)).collect();
        sums.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(sums, [(30, 0), (0, 10)]);
        // A decodable stack gets an entry of its own, separate from "other".
        table.add(&Stack::here(), AllocationMethod::Alloc, [5, 0]);
        assert_eq!(of_other(&table), [2, 0, 0, 1]);
        assert_eq!(table.entries.iter().filter(|entry| entry.key.load(Relaxed) != 0).count(), 1);
        table.clear();
        assert!(table.lines().is_empty());
    }

    /// R178: the table is bounded, and entries beyond its size are counted all the same.
    #[test]
    fn call_sites_beyond_the_table_size_count_as_other() {
        let table = Box::new(CallSiteTable::new());
        // Without a trace per entry, because capturing thousands of traces is slow.
        table.entries.iter().for_each(|entry| entry.key.store(u64::MAX, Relaxed));
        for address in 1..100 {
            table.add(&Stack::of(&[address]), AllocationMethod::Realloc, [2, 1]);
        }
        let lines = table.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].allocations, lines[0].frees), (99, 99));
        assert_eq!((lines[0].allocated_bytes, lines[0].freed_bytes), (198, 99));
    }

    /// An allocation never waits for name resolution, whether by a thread that reads the counters or from a new call site.
    #[test]
    fn allocations_never_wait_for_symbol_resolution() {
        let table = Box::new(CallSiteTable::new());
        table.add(&Stack::here(), AllocationMethod::Alloc, [5, 0]);
        assert!(table.has_unnamed());
        assert_eq!(table.lines().iter().map(|line| &line.place).collect::<Vec<_>>(), [&CallSite::Other]);
        assert!(table.has_unnamed(), "a reader of the counters names nothing");
        let naming = NamingGuard::begin(&table);
        table.add(&Stack::here(), AllocationMethod::Free, [0, 5]);
        assert_eq!(of_other(&table), [0, 0, 0, 1]);
        drop(naming);
        table.add(&Stack::here(), AllocationMethod::Free, [0, 5]);
        assert_eq!(of_other(&table), [0, 0, 0, 1]);
        table.name();
        assert!(!table.has_unnamed());
        assert_eq!((table.naming.load(Relaxed), table.noting.load(Relaxed)), (0, 0));
    }
}
