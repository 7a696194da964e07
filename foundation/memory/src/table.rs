//! The figures: one entry for each stack, way of asking and kind of work; bounded, with "other" for what does not fit.
//!
//! Any thread claims an entry by a compare-and-swap of its key and then counts with atomic additions: this is only used
//! while somebody looks for a leak. A stack of which nothing is known never becomes a key: it counts as "other", so that
//! nobody else can take its entry over (R80, R177).

use crate::names;
use crate::stack::Stack;
use std::backtrace::Backtrace;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// How memory was asked for or given back, by the names that operators know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Method {
    /// For anything.
    Alloc,
    /// For zeroes.
    AllocZeroed,
    /// For another size.
    Realloc,
    /// Given back.
    Free,
}

impl Method {
    /// `malloc`, `calloc`, `realloc`, `free`.
    pub fn name(self) -> &'static str {
        ["malloc", "calloc", "realloc", "free"][self as usize]
    }
}

/// Who asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// `function@file:line`.
    Caller(String),
    /// A stack that cannot be decoded, or one too many.
    Other,
}

/// What one caller did in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Who.
    pub place: Place,
    /// What kind of work it was part of.
    pub work: Option<&'static str>,
    /// How.
    pub method: Method,
    /// How often it was given memory.
    pub allocations: u64,
    /// How often it gave some back.
    pub frees: u64,
    /// How much it was given.
    pub allocated_bytes: u64,
    /// How much it gave back.
    pub freed_bytes: u64,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// When counting began, in nanoseconds of the monotonic clock; 0 when it never did.
    pub since_ns: u64,
    /// When it ended, or now.
    pub until_ns: u64,
    /// Now.
    pub now_ns: u64,
    /// Each caller, method and kind of work once, in no order.
    pub lines: Vec<Figures>,
}

pub(crate) static TABLE: Table = Table::new();

pub(crate) struct Table {
    entries: [Entry; ENTRIES],
    /// By method.
    other: [Entry; METHODS],
    naming: AtomicBool,
}

struct Entry {
    /// 0 while it is free.
    key: AtomicU64,
    origin: OnceLock<Origin>,
    allocations: AtomicU64,
    frees: AtomicU64,
    allocated_bytes: AtomicU64,
    freed_bytes: AtomicU64,
}

struct Origin {
    method: Method,
    work: Option<&'static str>,
    /// Its addresses are given names when somebody asks for the first time.
    trace: Backtrace,
    place: OnceLock<Place>,
}

impl Table {
    const fn new() -> Self {
        Self {
            entries: [const { Entry::new() }; ENTRIES],
            other: [const { Entry::new() }; METHODS],
            naming: AtomicBool::new(false),
        }
    }

    /// Counts a request; `bytes` are those given and those taken back.
    pub(crate) fn add(&self, stack: &Stack, method: Method, bytes: [u64; 2]) {
        let work = crate::WORK.get().and_then(|name| name());
        let entry = self.entry(stack, method, work).unwrap_or(&self.other[method as usize]);
        entry.add(method, bytes);
    }

    fn entry(&self, stack: &Stack, method: Method, work: Option<&'static str>) -> Option<&Entry> {
        if stack.is_empty() {
            return None;
        }
        let work_address = work.map_or(0, |name| name.as_ptr().addr() as u64);
        let key = (stack.hash() ^ work_address.rotate_left(17) ^ method as u64).max(1);
        let first = key as usize % ENTRIES;
        for entry in self.entries.iter().cycle().skip(first).take(PROBES) {
            let known = match entry.key.load(Relaxed) {
                // Naming places and printing a panic take the lock that taking a trace takes, too.
                0 if self.naming.load(Relaxed) || std::thread::panicking() => return None,
                0 => entry.key.compare_exchange(0, key, Relaxed, Relaxed).err(),
                known => Some(known),
            };
            match known {
                None => {
                    // The addresses only: what they mean takes long to find out.
                    let trace = Backtrace::force_capture();
                    let _ = entry.origin.set(Origin { method, work, trace, place: OnceLock::new() });
                    return Some(entry);
                }
                Some(known) if known == key => return Some(entry),
                Some(_) => {}
            }
        }
        None
    }

    /// Forgets the figures; the places stay known.
    pub(crate) fn clear(&self) {
        self.all().for_each(Entry::clear);
    }

    /// What was counted, callers summed up.
    pub(crate) fn lines(&self) -> Vec<Figures> {
        let _naming = Naming::begin(&self.naming);
        let mut lines: Vec<Figures> = Vec::new();
        let of_places = self.entries.iter().filter_map(|entry| {
            let origin = entry.origin.get()?;
            let place = origin.place.get_or_init(|| names::caller(&format!("{:#}", origin.trace)));
            entry.figures(place.clone(), origin.work, origin.method)
        });
        let methods = [Method::Alloc, Method::AllocZeroed, Method::Realloc, Method::Free];
        let others = self.other.iter().zip(methods);
        let of_others = others.filter_map(|(entry, method)| entry.figures(Place::Other, None, method));
        for figures in of_places.chain(of_others) {
            let same = |known: &&mut Figures| {
                known.place == figures.place && known.work == figures.work && known.method == figures.method
            };
            match lines.iter_mut().find(same) {
                Some(known) => known.merge(&figures),
                None => lines.push(figures),
            }
        }
        lines
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().chain(&self.other)
    }
}

impl Entry {
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

    fn add(&self, method: Method, [given, taken]: [u64; 2]) {
        if method != Method::Free {
            self.allocations.fetch_add(1, Relaxed);
            self.allocated_bytes.fetch_add(given, Relaxed);
        }
        if matches!(method, Method::Free | Method::Realloc) {
            self.frees.fetch_add(1, Relaxed);
            self.freed_bytes.fetch_add(taken, Relaxed);
        }
    }

    fn clear(&self) {
        for figure in [&self.allocations, &self.frees, &self.allocated_bytes, &self.freed_bytes] {
            figure.store(0, Relaxed);
        }
    }

    /// None when it did nothing since the figures were forgotten.
    fn figures(&self, place: Place, work: Option<&'static str>, method: Method) -> Option<Figures> {
        let figures = Figures {
            place,
            work,
            method,
            allocations: self.allocations.load(Relaxed),
            frees: self.frees.load(Relaxed),
            allocated_bytes: self.allocated_bytes.load(Relaxed),
            freed_bytes: self.freed_bytes.load(Relaxed),
        };
        (figures.allocations + figures.frees > 0).then_some(figures)
    }
}

impl Figures {
    fn merge(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.allocated_bytes += other.allocated_bytes;
        self.freed_bytes += other.freed_bytes;
    }
}

/// Places are being named: whoever asks for memory from a new one meanwhile does not wait for that, and counts as "other".
struct Naming<'a>(&'a AtomicBool);

impl<'a> Naming<'a> {
    fn begin(naming: &'a AtomicBool) -> Self {
        naming.store(true, Relaxed);
        Self(naming)
    }
}

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}

/// How many stacks are told apart; what comes later counts as "other".
const ENTRIES: usize = 2048;
/// How many entries are looked at for one stack.
const PROBES: usize = 64;
const METHODS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn of_other(table: &Table) -> Vec<u64> {
        let calls = |entry: &Entry| entry.allocations.load(Relaxed) + entry.frees.load(Relaxed);
        table.other.iter().map(calls).collect()
    }

    /// R80, R177: stacks that cannot be decoded share the "other" bin, never an entry with an address of nothing; so two
    /// callers of different kinds never share one entry.
    #[test]
    fn an_undecodable_caller_is_other() {
        let table = Box::new(Table::new());
        table.add(&Stack::of(&[]), Method::Alloc, [10, 0]);
        table.add(&Stack::of(&[0]), Method::Free, [0, 10]);
        table.add(&Stack::of(&[0, 0]), Method::Alloc, [20, 0]);
        assert_eq!(of_other(&table), [2, 0, 0, 1]);
        assert!(table.entries.iter().all(|entry| entry.key.load(Relaxed) == 0));
        let lines = table.lines();
        let sums: Vec<_> = lines.iter().map(|line| (line.allocated_bytes, line.freed_bytes)).collect();
        assert_eq!(sums, [(30, 0), (0, 10)]);
        // Nothing that comes later is counted among them, nor they among it.
        table.add(&Stack::here(), Method::Alloc, [5, 0]);
        assert_eq!(of_other(&table), [2, 0, 0, 1]);
        assert_eq!(table.entries.iter().filter(|entry| entry.key.load(Relaxed) != 0).count(), 1);
        table.clear();
        assert!(table.lines().is_empty());
    }

    /// R178: the table is bounded, and what does not fit is counted all the same.
    #[test]
    fn what_does_not_fit_is_other() {
        let table = Box::new(Table::new());
        // Without a trace each: taking thousands of them is slow.
        table.entries.iter().for_each(|entry| entry.key.store(u64::MAX, Relaxed));
        for address in 1..100 {
            table.add(&Stack::of(&[address]), Method::Realloc, [2, 1]);
        }
        let lines = table.lines();
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].allocations, lines[0].frees), (99, 99));
        assert_eq!((lines[0].allocated_bytes, lines[0].freed_bytes), (198, 99));
    }
}
