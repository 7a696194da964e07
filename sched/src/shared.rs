//! The part of a worker that other threads access: its inboxes, its bell and its counters.

use crate::current_work::CurrentWork;
use crate::driver::WorkerBell;
use crate::key::{TaskKey, WORKER_BITS};
use crate::profile::{ProfileMode, ProfileSettings, Recorder};
use crate::task::Task;
use arc_swap::{ArcSwapOption, Guard};
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use weir_containers::Arena;
use weir_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use weir_sync::{CachePadded, Counter, Doorbell, Gauge, Inbox, WakeList, WakeStamp};

/// The side of a worker that every thread may touch. Fields written by the worker and fields written by others lie on
/// different cache lines (R84).
pub(crate) struct SharedSide {
    /// The worker's number in the process.
    pub(crate) id: u16,
    pub(crate) activity: CachePadded<Activity>,
    pub(crate) wake_side: CachePadded<WakeSide>,
    pub(crate) inbox: CachePadded<Inbox<WorkerRequest>>,
    pub(crate) load: CachePadded<AtomicU32>,
    pub(crate) stop: AtomicBool,
    pub(crate) bell: WorkerBell,
    /// The current work of the worker, for a watchdog.
    pub(crate) current: CachePadded<CurrentWork>,
    /// Profiling settings and counters.
    pub(crate) profile: CachePadded<Recorder>,
    pub(crate) profiled_since_ns: AtomicU64,
    pub(crate) profiled_until_ns: AtomicU64,
}

// R84, R86: each field written by other threads (wakes, messages, the bell, the load) has cache lines of its own; two
// lines, because processors fetch them in pairs.
const _: () = {
    use std::mem::offset_of;
    let parts = [
        offset_of!(SharedSide, activity),
        offset_of!(SharedSide, wake_side),
        offset_of!(SharedSide, inbox),
        offset_of!(SharedSide, load),
        offset_of!(SharedSide, current),
        offset_of!(SharedSide, profile),
    ];
    // The distance that keeps two parts from disturbing each other.
    let apart = if cfg!(target_arch = "x86_64") { 128 } else { align_of::<CachePadded<u8>>() };
    let mut part = 0;
    while part < parts.len() {
        assert!(parts[part] % apart == 0);
        let mut other = 0;
        while other < part {
            assert!(parts[part].abs_diff(parts[other]) >= apart);
            other += 1;
        }
        part += 1;
    }
    assert!(align_of::<SharedSide>() >= apart && size_of::<WakeSide>() <= 64);
};

/// The fields that a waker on another worker touches, on one cache line: each further line would also travel between
/// processors.
pub(crate) struct WakeSide {
    pub(crate) wakes: WakeList,
    pub(crate) doorbell: Doorbell,
}

/// A request of one worker to another.
pub(crate) enum WorkerRequest {
    Run(Box<dyn FnOnce() + Send>),
}

/// Counters of a worker since it started; the worker writes, any thread reads.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Activity {
    /// Iterations of the event loop.
    pub loops: Counter,
    /// Events that the poller reported.
    pub events: Counter,
    /// Tasks run, by class.
    pub runs: [Counter; 4],
    /// Timer queue entries handled, expired or postponed.
    pub timers: Counter,
    /// Wakes that came from other threads.
    pub remote_wakes: Counter,
    /// Messages that came from other threads.
    pub messages: Counter,
    /// Tasks that were spawned.
    pub spawned: Counter,
    /// Tasks that ended, for any reason.
    pub ended: Counter,
    /// Tasks, or parts of them, that ended in a panic.
    pub panics: Counter,
    /// Tasks that were refused because no slot was free.
    pub refused: Counter,
    /// Nanoseconds spent waiting for events.
    pub idle_ns: Counter,
    /// Scheduling rounds with nothing to run.
    pub empty_turns: Counter,
    /// Scheduling rounds with more queued tasks than the budget.
    pub long_turns: Counter,
    /// Polls without waiting, because tasks were runnable.
    pub busy_polls: Counter,
    /// Queued tasks by class, at the start of the last scheduling round.
    pub(crate) waiting: [AtomicU32; 4],
    /// Entries in the timer queue, at the start of the last scheduling round.
    pub(crate) armed: AtomicU32,
    /// Busy time of a loop iteration in nanoseconds, averaged over about the last thousand.
    pub loop_ns: Gauge,
    /// Tasks in the run queues, as of the last scheduling round (R4).
    pub queued: Gauge,
}

/// The message was not delivered: the worker has ended, or its inbox is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotDelivered;

impl std::fmt::Display for NotDelivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the worker is gone or its inbox is full")
    }
}

impl std::error::Error for NotDelivered {}

impl SharedSide {
    /// Makes the shared side of a new worker and registers it in the process. EAGAIN if [`MOST_WORKERS`] are alive.
    pub(crate) fn new(bell: WorkerBell) -> weir_sys::Result<Arc<Self>> {
        let id = take_number().ok_or(weir_sys::Errno::AGAIN)?;
        let shared = Arc::new(Self {
            id: id as u16,
            activity: CachePadded::default(),
            wake_side: CachePadded::new(WakeSide {
                wakes: WakeList::new(Arena::<Task>::LIMIT),
                doorbell: Doorbell::new(),
            }),
            inbox: CachePadded::new(Inbox::new(INBOX_LIMIT)),
            load: CachePadded::default(),
            stop: AtomicBool::new(false),
            bell,
            current: CachePadded::default(),
            profile: CachePadded::new(Recorder::new()),
            profiled_since_ns: AtomicU64::new(0),
            profiled_until_ns: AtomicU64::new(0),
        });
        REGISTRY[id].store(Some(shared.clone()));
        Ok(shared)
    }

    /// Unregisters the worker from the process. Its task keys become invalid.
    pub(crate) fn retire(&self) {
        REGISTRY[usize::from(self.id)].store(None);
        give_number_back(usize::from(self.id));
    }

    pub(crate) fn send(&self, message: WorkerRequest) -> Result<(), NotDelivered> {
        self.inbox.push(message).map_err(|_| NotDelivered)?;
        self.ring();
        Ok(())
    }

    #[track_caller]
    pub(crate) fn wake(&self, key: TaskKey) {
        // Not inside the closure: there, `caller()` would return this function.
        let place = Location::caller();
        // Before the mark is set, so that the latency is never shorter than it was (R81).
        let stamp = self.profile.is_on().then(|| WakeStamp { date_ns: crate::worker::precise_ns(), place });
        // If the slot was reused meanwhile, the new task gets a spurious wake, which is harmless.
        if self.wake_side.wakes.wake_stamped(key.slot(), stamp) {
            self.ring();
        }
    }

    /// Sets the profiling settings from now on. A new `number` resets the counters.
    pub(crate) fn set_profiling(&self, settings: ProfileSettings, number: u32, now_ns: u64) {
        if number != self.profile.number() {
            let date = match settings.mode {
                ProfileMode::Off => &self.profiled_until_ns,
                _ => &self.profiled_since_ns,
            };
            date.store(now_ns, Relaxed);
        }
        self.profile.set_wish(settings, number);
        // Wakes a sleeping worker, which then adopts the settings without waiting for an event.
        self.ring();
    }

    /// Kills a task. The request uses the wake list, so a full inbox cannot refuse it (R67, R70).
    pub(crate) fn kill(&self, key: TaskKey) {
        if self.wake_side.wakes.doom(key.slot(), key.generation()) {
            self.ring();
        }
    }

    pub(crate) fn request_stop(&self) {
        self.stop.store(true, Relaxed);
        self.ring();
    }

    pub(crate) fn ring(&self) {
        if self.wake_side.doorbell.must_ring() {
            self.bell.ring();
        }
    }
}

/// Reserves an unused worker number. `None` if all are taken. Goes round before reusing one, so that a stale task key is
/// unlikely to match a new worker.
pub(crate) fn take_number() -> Option<usize> {
    let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    let next = numbers.next;
    let number = (next..MOST_WORKERS).chain(0..next).find(|&number| !numbers.taken[number])?;
    numbers.taken[number] = true;
    numbers.next = (number + 1) % MOST_WORKERS;
    Some(number)
}

pub(crate) fn give_number_back(number: usize) {
    NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).taken[number] = false;
}

struct WorkerNumbers {
    taken: [bool; MOST_WORKERS],
    next: usize,
}

/// The worker that `key` belongs to. `None` if it has ended.
///
/// Returns a guard instead of an `Arc`, so that many threads that wake tasks of one worker do not all write its reference count.
pub(crate) fn owner_of(key: TaskKey) -> Option<Guard<Option<Arc<SharedSide>>>> {
    Some(REGISTRY.get(usize::from(key.worker()))?.load()).filter(|shared| shared.is_some())
}

/// Maximum number of workers in one process, in all its runtimes together.
pub const MOST_WORKERS: usize = 1 << WORKER_BITS;
/// Maximum number of queued messages of one worker.
const INBOX_LIMIT: usize = 65_536;

static REGISTRY: [ArcSwapOption<SharedSide>; MOST_WORKERS] =
    [const { ArcSwapOption::const_empty() }; MOST_WORKERS];
static NUMBERS: Mutex<WorkerNumbers> = Mutex::new(WorkerNumbers { taken: [false; MOST_WORKERS], next: 0 });
