//! Lock statistics: per label with the feature `lock-statistics`, and per thread during profiling.
//!
//! Every lock of this crate has a label. With the feature `lock-statistics` each label counts locks, unlocks and wait time
//! by mode (R82). In all builds a thread can measure its own wait and hold times ([`measure_locks`]). The scheduler does
//! this around a task. Otherwise a lock costs one additional load of a thread-local flag.

use crate::atomic::{note_locked, note_unlocked};
use crate::primitives::{Mutex, MutexGuard, lock};
use std::cell::Cell;
use std::ops::{Deref, DerefMut};
// Not the counted atomics of `crate::atomic`, because a build with statistics would count its own statistics.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use weir_sys::time::monotonic_ns;

/// The name and the counters of a group of locks. Declare it as a `static` next to the locks.
#[derive(Debug)]
pub struct LockLabel {
    name: &'static str,
    modes: [ModeCounters; MODES],
    listed: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum LockMode {
    Write,
    /// One holder, concurrent with readers ([`SeekLock`](crate::SeekLock)).
    Seek,
    Read,
}

impl LockMode {
    #[inline]
    fn note_acquired(self) {
        if self == Self::Write {
            note_locked();
        }
    }

    #[inline]
    fn note_released(self) {
        if self == Self::Write {
            note_unlocked();
        }
    }
}

#[derive(Debug)]
struct ModeCounters {
    locks: AtomicU64,
    unlocks: AtomicU64,
    waited_ns: AtomicU64,
}

/// The counters of one label, for a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockCounters {
    pub name: &'static str,
    pub modes: [ModeReport; MODES],
}

/// The counters of one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeReport {
    /// Number of locks.
    pub locks: u64,
    /// Number of unlocks.
    pub unlocks: u64,
    /// Total wait time of all callers.
    pub waited_ns: u64,
}

impl LockLabel {
    /// A label with zeroed counters.
    pub const fn new(name: &'static str) -> Self {
        Self { name, modes: [const { ModeCounters::new() }; MODES], listed: AtomicBool::new(false) }
    }

    /// Locks with `acquire`, which may block.
    #[inline]
    pub(crate) fn acquire<R>(&'static self, mode: LockMode, acquire: impl FnOnce() -> R) -> R {
        if !is_watched() {
            let result = acquire();
            mode.note_acquired();
            return result;
        }
        let began_ns = monotonic_ns();
        let result = acquire();
        self.acquired(mode, began_ns, true);
        mode.note_acquired();
        result
    }

    /// Counts a lock acquired without waiting.
    #[inline]
    pub(crate) fn acquired_at_once(&'static self, mode: LockMode) {
        if is_watched() {
            self.acquired(mode, monotonic_ns(), true);
        }
    }

    /// Counts an unlock.
    #[inline]
    pub(crate) fn released(&'static self, mode: LockMode) {
        mode.note_released();
        if is_watched() {
            self.modes[mode as usize].unlocks.fetch_add(1, Relaxed);
            release();
        }
    }

    /// The holder changes the mode with `change`, which may block.
    #[inline]
    pub(crate) fn change<R>(&'static self, from: LockMode, to: LockMode, change: impl FnOnce() -> R) -> R {
        from.note_released();
        if !is_watched() {
            let result = change();
            to.note_acquired();
            return result;
        }
        let began_ns = monotonic_ns();
        let result = change();
        to.note_acquired();
        self.modes[from as usize].unlocks.fetch_add(1, Relaxed);
        self.acquired(to, began_ns, false);
        result
    }

    #[cold]
    fn acquired(&'static self, mode: LockMode, began_ns: u64, newly_held: bool) {
        let now_ns = monotonic_ns();
        let waited_ns = now_ns.saturating_sub(began_ns);
        let counters = &self.modes[mode as usize];
        counters.locks.fetch_add(1, Relaxed);
        counters.waited_ns.fetch_add(waited_ns, Relaxed);
        if !self.listed.swap(true, Relaxed) {
            LABELS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(self);
        }
        if MEASURING.get() {
            WAITED_NS.set(WAITED_NS.get().wrapping_add(waited_ns));
            if newly_held && HELD.replace(HELD.get() + 1) == 0 {
                HELD_SINCE_NS.set(now_ns);
            }
        }
    }

    fn counters(&self) -> LockCounters {
        let report = |counters: &ModeCounters| ModeReport {
            locks: counters.locks.load(Relaxed),
            unlocks: counters.unlocks.load(Relaxed),
            waited_ns: counters.waited_ns.load(Relaxed),
        };
        LockCounters { name: self.name, modes: self.modes.each_ref().map(report) }
    }
}

impl ModeCounters {
    const fn new() -> Self {
        Self { locks: AtomicU64::new(0), unlocks: AtomicU64::new(0), waited_ns: AtomicU64::new(0) }
    }
}

/// A mutex with a label. Ignores poisoning, because holders keep the value consistent at each step.
#[derive(Debug)]
pub struct Lock<T> {
    mutex: Mutex<T>,
    label: &'static LockLabel,
}

impl<T> Lock<T> {
    /// An unlocked mutex, counted under `label`.
    pub fn new(value: T, label: &'static LockLabel) -> Self {
        Self { mutex: Mutex::new(value), label }
    }

    /// Locks the mutex. Blocks until it is free.
    #[inline]
    pub fn lock(&self) -> LockGuard<'_, T> {
        LockGuard {
            guard: Some(self.label.acquire(LockMode::Write, || lock(&self.mutex))),
            label: self.label,
        }
    }
}

/// Access to the value. Dropping it unlocks the mutex.
#[derive(Debug)]
#[must_use = "a guard that is dropped guards nothing"]
pub struct LockGuard<'a, T> {
    /// `Some` until the guard is dropped.
    guard: Option<MutexGuard<'a, T>>,
    label: &'static LockLabel,
}

impl<T> Deref for LockGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("there until it is dropped")
    }
}

impl<T> DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("there until it is dropped")
    }
}

impl<T> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.label.released(LockMode::Write);
    }
}

/// Decrements the number of locks held by this thread. The last release ends the hold time.
#[cold]
fn release() {
    let held = HELD.get();
    if held == 1 {
        HELD_NS.set(HELD_NS.get().wrapping_add(monotonic_ns().saturating_sub(HELD_SINCE_NS.get())));
    }
    HELD.set(held.saturating_sub(1));
}

#[inline]
fn is_watched() -> bool {
    cfg!(feature = "lock-statistics") || MEASURING.get()
}

/// Turns measuring of lock wait and hold times of the current thread on or off.
pub fn measure_locks(on: bool) {
    MEASURING.set(on);
    if !on {
        HELD.set(0);
    }
}

/// Lock wait time and hold time of the current thread while measuring was on, in nanoseconds.
#[inline]
pub fn lock_times_ns() -> (u64, u64) {
    (WAITED_NS.get(), HELD_NS.get())
}

/// The counters of all labels, sorted by name. Without `lock-statistics`, only of threads and times with measuring on.
pub fn lock_counters() -> Vec<LockCounters> {
    let labels = LABELS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut counters: Vec<LockCounters> = labels.iter().map(|label| label.counters()).collect();
    counters.sort_by_key(|label| label.name);
    counters
}

impl std::fmt::Display for LockCounters {
    /// The report in the format of HAProxy's debug builds (R82).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "Stats about Lock {}:", self.name)?;
        for (name, mode) in ["write", "seek", "read"].iter().zip(&self.modes) {
            if mode.locks == 0 && mode.unlocks == 0 && *name == "seek" {
                continue;
            }
            let difference = mode.locks as i64 - mode.unlocks as i64;
            let milliseconds = mode.waited_ns as f64 / 1e6;
            let each_ns = mode.waited_ns as f64 / mode.locks.max(1) as f64;
            writeln!(f, "\t{name} lock : {}", mode.locks)?;
            writeln!(f, "\t{name} unlock: {} ({difference})", mode.unlocks)?;
            writeln!(f, "\twait time for {name} : {milliseconds:.3} msec")?;
            writeln!(f, "\twait time for {name}/lock: {each_ns:.3} nsec")?;
        }
        Ok(())
    }
}

impl LockCounters {
    /// Wait time for this lock as a percentage of `elapsed_ns` times `threads` (R83).
    pub fn share_of_run_time(&self, threads: usize, elapsed_ns: u64) -> f64 {
        let waited_ns: u64 = self.modes.iter().map(|mode| mode.waited_ns).sum();
        waited_ns as f64 * 100.0 / (threads.max(1) as f64 * elapsed_ns.max(1) as f64)
    }
}

const MODES: usize = 3;
/// All labels locked at least once while counted.
static LABELS: std::sync::Mutex<Vec<&'static LockLabel>> = std::sync::Mutex::new(Vec::new());

thread_local! {
    static MEASURING: Cell<bool> = const { Cell::new(false) };
    static WAITED_NS: Cell<u64> = const { Cell::new(0) };
    /// Number of locks held by this thread and acquired while measuring was on.
    static HELD: Cell<u32> = const { Cell::new(0) };
    static HELD_SINCE_NS: Cell<u64> = const { Cell::new(0) };
    static HELD_NS: Cell<u64> = const { Cell::new(0) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::SeekLock;

    /// R82: the lines, their words and their units are those of the founding documents' report.
    #[test]
    fn the_lock_report_has_haproxys_lines() {
        let write = ModeReport { locks: 9_872_564, unlocks: 9_872_564, waited_ns: 9_208_409_000 };
        let read = ModeReport { locks: 240_367, unlocks: 240_366, waited_ns: 149_025_000 };
        let counters = LockCounters { name: "TASK_WQ", modes: [write, ModeReport::default(), read] };
        let expected = "Stats about Lock TASK_WQ:
\twrite lock : 9872564
\twrite unlock: 9872564 (0)
\twait time for write : 9208.409 msec
\twait time for write/lock: 932.727 nsec
\tread lock : 240367
\tread unlock: 240366 (1)
\twait time for read : 149.025 msec
\twait time for read/lock : 619.989 nsec
"
        .replace("read/lock :", "read/lock:");
        assert_eq!(counters.to_string(), expected);
        // R83: the founding documents' numbers: about 5 per cent of 8 threads over 23 seconds.
        let share = counters.share_of_run_time(8, 23_000_000_000);
        assert!((5.0..5.2).contains(&share), "{share}");
    }

    /// R82: locks and unlocks match in each mode, also after a change of mode; waiting is measured.
    #[test]
    fn lock_and_unlock_counts_match_in_each_mode() {
        static LABEL: LockLabel = LockLabel::new("TEST_MATCH");
        measure_locks(true);
        let lock = SeekLock::labelled(1, &LABEL);
        drop(lock.read());
        let seeking = lock.read().try_seek().expect("nobody else");
        let writing = seeking.upgrade();
        let seeking = writing.downgrade();
        drop(seeking);
        drop(lock.write());
        drop(lock.try_seek());
        let (_, held) = lock_times_ns();
        measure_locks(false);
        drop(lock.read());
        assert_eq!(lock_times_ns().1, held);
        let counters =
            lock_counters().into_iter().find(|counters| counters.name == "TEST_MATCH").expect("it was used");
        let counts = counters.modes.map(|mode| (mode.locks, mode.unlocks));
        let read = if cfg!(feature = "lock-statistics") { 3 } else { 2 };
        assert_eq!(counts, [(2, 2), (3, 3), (read, read)]);
        assert!(held > 0);
    }

    /// R82: a lock that is held when measuring ends does not count as held in later reports.
    #[test]
    fn stopping_lock_measurement_forgets_held_locks() {
        static LABEL: LockLabel = LockLabel::new("TEST_FORGOTTEN");
        let lock = Lock::new(1, &LABEL);
        measure_locks(true);
        let guard = lock.lock();
        measure_locks(true);
        assert_eq!(HELD.get(), 1, "it goes on");
        measure_locks(false);
        assert_eq!(HELD.get(), 0);
        drop(guard);
    }

    /// R82: a lock of one mode counts as written to, and is released once.
    #[test]
    fn a_lock_is_counted_under_its_label() {
        static LABEL: LockLabel = LockLabel::new("TEST_LOCK");
        measure_locks(true);
        let lock = Lock::new(1, &LABEL);
        *lock.lock() += 1;
        assert_eq!(*lock.lock(), 2);
        measure_locks(false);
        let counters: Vec<_> =
            lock_counters().into_iter().filter(|counters| counters.name == "TEST_LOCK").collect();
        assert_eq!(counters.len(), 1, "however often it is locked");
        assert_eq!((counters[0].modes[0].locks, counters[0].modes[0].unlocks), (2, 2));
        // Write and read are always printed, also before their first unlock; seek only if it was used.
        let text = counters[0].to_string();
        assert!(text.contains("write lock : 2") && text.contains("read lock : 0") && !text.contains("seek"));
        let seeks = ModeReport { locks: 1, ..ModeReport::default() };
        let modes = [ModeReport::default(), seeks, ModeReport::default()];
        assert!(
            LockCounters { name: "X", modes }.to_string().contains("seek lock : 1\n\tseek unlock: 0 (1)")
        );
    }

    /// Labels in the report are sorted by name, independent of their first use.
    #[test]
    fn lock_counters_are_sorted_by_label_name() {
        static LABELS: [LockLabel; 3] =
            [LockLabel::new("TEST_ORDER_B"), LockLabel::new("TEST_ORDER_C"), LockLabel::new("TEST_ORDER_A")];
        measure_locks(true);
        for label in &LABELS {
            drop(Lock::new((), label).lock());
        }
        measure_locks(false);
        let names: Vec<_> = lock_counters().into_iter().map(|counters| counters.name).collect();
        let ours: Vec<_> = names.iter().filter(|name| name.starts_with("TEST_ORDER_")).collect();
        assert_eq!(ours, [&"TEST_ORDER_A", &"TEST_ORDER_B", &"TEST_ORDER_C"]);
    }

    /// The hold time of a thread is the time from its first lock to its last release.
    #[test]
    fn lock_hold_time_runs_from_the_first_lock_to_the_last_release() {
        static LABEL: LockLabel = LockLabel::new("TEST_HELD");
        let (outer, inner) = (Lock::new((), &LABEL), Lock::new((), &LABEL));
        let pass = |nanoseconds: u64| {
            let end = monotonic_ns() + nanoseconds;
            while monotonic_ns() < end {}
        };
        let held = || lock_times_ns().1;
        measure_locks(true);
        let (before, began_ns) = (held(), monotonic_ns());
        let first = outer.lock();
        pass(1_000_000);
        let second = inner.lock();
        pass(1_000_000);
        drop(second);
        assert_eq!(held(), before, "one is held on");
        pass(1_000_000);
        drop(first);
        let (measured, elapsed) = (held() - before, monotonic_ns() - began_ns);
        assert!((3_000_000..=elapsed).contains(&measured), "{measured} of {elapsed}");
        // A lock acquired without measuring is not counted, even if released while measuring.
        let kept = outer.lock();
        measure_locks(false);
        let before = held();
        drop(kept);
        measure_locks(true);
        drop(inner.lock());
        measure_locks(false);
        assert!(held() - before < elapsed);
    }

    /// Operations under an exclusive lock are counted separately, for all kinds of locks.
    #[cfg(debug_assertions)]
    #[test]
    fn atomic_operations_under_a_lock_are_counted_separately() {
        use crate::atomic::{AtomicU32, operations};
        static LABEL: LockLabel = LockLabel::new("TEST_UNDER_LOCK");
        let (lock, word) = (Lock::new((), &LABEL), AtomicU32::new(0));
        let under = |hold: &dyn Fn(&dyn Fn())| {
            let before = operations();
            hold(&|| _ = word.fetch_add(1, Relaxed));
            word.fetch_add(1, Relaxed);
            let during = operations() - before;
            (during.locks, during.under_lock)
        };
        let holds_lock = |add: &dyn Fn()| {
            let held = lock.lock();
            add();
            drop(held);
        };
        assert_eq!(under(&holds_lock), (1, 1));
        let seeking = SeekLock::labelled((), &LABEL);
        let seeks = |add: &dyn Fn()| {
            let held = seeking.try_seek().expect("nobody else");
            add();
            let held = held.upgrade().downgrade();
            add();
            drop(held);
        };
        assert_eq!(under(&seeks), (1, 0));
        let writes = |add: &dyn Fn()| {
            let held = seeking.try_seek().expect("nobody else").upgrade();
            add();
            drop(held.downgrade());
        };
        assert_eq!(under(&writes), (1, 1));
        assert_eq!(under(&|add| (add(), drop(seeking.read())).0), (0, 0));
    }

    /// R82: a writer's wait is in the counters, whether it waits for the whole lock or, from seeking, for readers.
    #[test]
    fn waiting_times_of_writers_are_counted() {
        static WRITE: LockLabel = LockLabel::new("TEST_WAIT_WRITE");
        static UPGRADE: LockLabel = LockLabel::new("TEST_WAIT_UPGRADE");
        let (write, upgrade) = (SeekLock::labelled((), &WRITE), SeekLock::labelled((), &UPGRADE));
        check_writer(&WRITE, || write.write(), || drop(write.write()));
        check_writer(
            &UPGRADE,
            || upgrade.read(),
            || drop(upgrade.try_seek().expect("nobody else").upgrade()),
        );
    }

    /// One thread holds a lock with `hold` while another waits in `wait`. On a busy machine the second may start late, so one of
    /// several tries must succeed.
    fn check_writer<G>(label: &LockLabel, hold: impl Fn() -> G, wait: impl Fn() + Sync) {
        const HELD_NS: u64 = 2_000_000;
        let one = || {
            let holding = hold();
            let (sender, receiver) = std::sync::mpsc::channel();
            let wait = &wait;
            std::thread::scope(|scope| {
                let waiter = scope.spawn(move || {
                    measure_locks(true);
                    sender.send(monotonic_ns()).expect("somebody listens");
                    wait();
                    lock_times_ns().0
                });
                let began_ns = receiver.recv().expect("it begins");
                while monotonic_ns() < began_ns + HELD_NS {
                    std::thread::yield_now();
                }
                drop(holding);
                waiter.join().expect("it ends")
            })
        };
        let all: Vec<u64> = (0..20).map(|_| one()).collect();
        assert!(all.iter().any(|waited_ns| *waited_ns >= HELD_NS / 2), "{all:?}");
        // The label contains the sum of all threads, in the mode of the waiting threads.
        let counters = lock_counters().into_iter().find(|counters| counters.name == label.name);
        let [write, seek, read] = counters.expect("it was used").modes;
        let others = seek.waited_ns + if cfg!(feature = "lock-statistics") { read.waited_ns } else { 0 };
        // The holders' own locks are counted only with `lock-statistics`.
        let most = if cfg!(feature = "lock-statistics") { u64::MAX } else { all.iter().sum() };
        assert!(write.waited_ns <= most && others < write.waited_ns, "{write:?} {seek:?} {read:?}");
        assert!(write.waited_ns >= HELD_NS / 2, "{write:?}");
    }

    #[test]
    fn the_wait_for_a_lock_holder_is_measured() {
        static LABEL: LockLabel = LockLabel::new("TEST_WAIT");
        let lock = SeekLock::labelled((), &LABEL);
        let holding = lock.write();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                measure_locks(true);
                sender.send(monotonic_ns()).expect("somebody listens");
                drop(lock.read());
                (monotonic_ns(), lock_times_ns().0)
            });
            let began_ns = receiver.recv().expect("it begins");
            // Long enough to be measurable.
            while monotonic_ns() < began_ns + 2_000_000 {
                std::thread::yield_now();
            }
            drop(holding);
            let (ended_ns, waited_ns) = waiter.join().expect("it ends");
            assert!(waited_ns > 0 && waited_ns <= ended_ns - began_ns);
            // R82: the label has the same wait time, in the mode of the waiting thread.
            let counters = lock_counters().into_iter().find(|counters| counters.name == "TEST_WAIT");
            let [write, seek, read] = counters.expect("it was used").modes;
            assert_eq!((read.locks, read.unlocks, read.waited_ns), (1, 1, waited_ns));
            assert_eq!(seek.waited_ns, 0);
            // The holder's own lock is counted only with `lock-statistics`.
            assert_eq!(write.locks, u64::from(cfg!(feature = "lock-statistics")));
        });
    }
}
