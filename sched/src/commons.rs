//! Work that several workers may run: `Send` futures in a global run queue and a global wait queue.
//!
//! ```text
//!   any thread: wake, kill ──► run queue (in order, for a set of workers) ──► first free worker of the set
//!   any worker: deadline ────► wait queue (one scans, others go on) ─────────┘
//! ```
//! A worker checks for shared tasks once per scheduling round. It reads two words that only shared tasks change. Only
//! shared tasks take the locks. They run within the budget of the class normal. A run costs a few hundred nanoseconds,
//! against twenty for a task bound to a worker. Share a task if its work must not wait for one busy worker.

use crate::key::TaskKey;
use crate::shared::{MOST_WORKERS, SharedSide, give_number_back, take_number};
use crate::task::WorkKind;
use crate::tick::Tick;
use arc_swap::ArcSwapOption;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use weir_containers::TimerQueue;
use weir_sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use weir_sync::{
    Begin, CachePadded, Expiry, LazyDeadline, LockLabel, RunState, SeekLock, SharedQueue, ThreadMask,
    WakeStamp, WriteGuard,
};

/// The name of the global wait queue's lock in profiles.
static WAIT_QUEUE: LockLabel = LockLabel::new("TASK_WQ");

/// The shared work of one runtime. Fields written by several workers have cache lines of their own (R84).
pub(crate) struct Commons {
    id: u16,
    peers: Arc<[Arc<SharedSide>]>,
    /// Number of workers that have not shut down yet.
    members: AtomicUsize,
    /// Queue positions by which a `nice` of 1024 delays a task.
    depth: u32,
    chunks: Box<[OnceLock<Box<[SharedTask]>>]>,
    free: CachePadded<Mutex<Free>>,
    live: CachePadded<AtomicU32>,
    queue: CachePadded<SharedQueue>,
    timers: CachePadded<SeekLock<TimerQueue>>,
    /// The first deadline of the wait queue in milliseconds; changes under its write lock.
    next_due: CachePadded<AtomicU64>,
}

// R84: every worker reads two words in each scheduling round, the queue's length and the first deadline. The deadline has cache lines of
// its own, apart from the lock of the wait queue. The length is next to the lock of the run queue: each insertion and removal takes the
// lock and writes the length, so padding between the two would save little.
const _: () = {
    use std::mem::offset_of;
    let apart = align_of::<CachePadded<u8>>();
    assert!(offset_of!(Commons, next_due) % apart == 0 && offset_of!(Commons, queue) % apart == 0);
    assert!(offset_of!(Commons, timers) % apart == 0 && offset_of!(Commons, live) % apart == 0);
};

pub(crate) type SharedFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A slot for a shared task.
#[derive(Default)]
pub(crate) struct SharedTask {
    pub(crate) state: RunState,
    /// `None` while the task runs. Only the worker that may run the task takes this lock, so it is never contended.
    future: Mutex<Option<SharedFuture>>,
    order: Mutex<SpawnOrder>,
    pub(crate) deadline: LazyDeadline,
    pub(crate) nice: AtomicI32,
}

/// Properties fixed when the task was spawned.
#[derive(Default, Clone, Copy)]
struct SpawnOrder {
    kind: Option<&'static WorkKind>,
    workers: ThreadMask,
    /// When and where the task was woken, if profiling is on.
    stamp: Option<WakeStamp>,
}

#[derive(Default)]
struct Free {
    slots: Vec<u32>,
    used: u32,
}

/// A worker's reference to the commons. Dropping the last one ends the remaining tasks.
pub(crate) struct Membership(Arc<Commons>);

impl Commons {
    /// Makes the commons of a runtime, and a membership for each of its workers.
    pub(crate) fn found(
        peers: &Arc<[Arc<SharedSide>]>,
        depth: u32,
    ) -> weir_sys::Result<(Arc<Self>, Vec<Membership>)> {
        let id = take_number().ok_or(weir_sys::Errno::AGAIN)?;
        let commons = Arc::new(Self {
            id: id as u16,
            peers: peers.clone(),
            members: AtomicUsize::new(peers.len()),
            depth,
            chunks: (0..LIMIT.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect(),
            free: CachePadded::default(),
            live: CachePadded::default(),
            queue: CachePadded::default(),
            timers: CachePadded::new(SeekLock::labelled(TimerQueue::new(), &WAIT_QUEUE)),
            next_due: CachePadded::new(AtomicU64::new(u64::MAX)),
        });
        REGISTRY[id].store(Some(commons.clone()));
        let memberships = peers.iter().map(|_| Membership(commons.clone())).collect();
        Ok((commons, memberships))
    }

    #[track_caller]
    /// Accepts a task for `workers`; for all workers if none of those exists.
    pub(crate) fn spawn(
        &self,
        kind: &'static WorkKind,
        workers: &ThreadMask,
        future: SharedFuture,
    ) -> TaskKey {
        let Some(slot) = self.take_slot() else { return TaskKey::NONE };
        let task = self.task(slot);
        let known: ThreadMask = workers.iter().filter(|&worker| worker < self.peers.len()).collect();
        let workers = if known.is_empty() { ThreadMask::all(self.peers.len()) } else { known };
        *lock(&task.order) = SpawnOrder { kind: Some(kind), workers, stamp: None };
        *lock(&task.future) = Some(future);
        task.nice.store(0, Relaxed);
        let generation = task.state.occupy();
        self.live.fetch_add(1, Relaxed);
        self.enqueue(slot);
        TaskKey::new(self.id, slot, generation)
    }

    #[track_caller]
    pub(crate) fn wake(&self, key: TaskKey) {
        if let Some(task) = self.find(key)
            && task.state.wake(key.generation(), true)
        {
            self.enqueue(key.slot());
        }
    }

    /// Kills a task. A waiting task goes to the front of its first worker's queue and ends there (R67).
    pub(crate) fn kill(&self, key: TaskKey) {
        if let Some(task) = self.find(key)
            && task.state.kill(key.generation())
        {
            let workers = lock(&task.order).workers;
            self.queue.push_first(&workers, key.slot());
            self.ring(&workers);
        }
    }

    /// Queues a runnable task, and rings one of its workers if all of them sleep.
    #[track_caller]
    pub(crate) fn enqueue(&self, slot: u32) {
        let (task, place) = (self.task(slot), Location::caller());
        let workers = {
            let mut order = lock(&task.order);
            let measured = self.peers.iter().any(|peer| peer.profile.is_on());
            order.stamp = measured.then(|| WakeStamp { date_ns: crate::worker::precise_ns(), place });
            order.workers
        };
        let later = i64::from(task.nice.load(Relaxed)) * i64::from(self.depth) / 1024;
        self.queue.push(&workers, slot, later);
        self.ring(&workers);
    }

    /// A worker that is awake checks the queue before it sleeps, so a worker is rung only when all of them sleep (R14).
    fn ring(&self, workers: &ThreadMask) {
        if workers.iter().all(|worker| self.peers[worker].wake_side.doorbell.is_asleep())
            && let Some(first) = workers.iter().next()
        {
            self.peers[first].ring();
        }
    }

    /// How many tasks wait to run, for any worker.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.queue.len() as u32
    }

    /// Whether a queued shared task may run on `worker`.
    #[inline]
    pub(crate) fn has_for(&self, worker: usize) -> bool {
        self.queue.has_for(worker)
    }

    /// Hands at most `room` tasks that wait for `worker` to `run`, in order; returns how many.
    pub(crate) fn pick(&self, worker: usize, room: u32, run: impl FnMut(u32)) -> u32 {
        self.queue.pick(worker, room as usize, run) as u32
    }

    /// The first deadline in milliseconds. `None` without one.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<u64> {
        Some(self.next_due.load(Relaxed)).filter(|due| *due != u64::MAX)
    }

    /// Wakes at most `budget` tasks past their deadline; returns the number of queue entries handled. Returns at once
    /// while another worker scans (R54, R56).
    pub(crate) fn expire(&self, now: Tick, budget: u32) -> u32 {
        if self.next_due.load(Relaxed) > now.as_ms() {
            return 0;
        }
        let Some(mut seeking) = self.timers.try_seek() else { return 0 };
        for handled in 0..budget {
            let due = seeking.first().filter(|(due, _)| *due <= now.as_ms());
            let Some((_, slot)) = due else { return handled };
            let task = self.task(slot);
            let mut writing = seeking.upgrade();
            let expiry = task.deadline.expire(now.as_ms());
            match expiry {
                // The deadline was postponed meanwhile, so it stays in the queue (R58).
                Expiry::Later(deadline) => writing.set(slot, deadline),
                Expiry::Due | Expiry::Gone => drop(writing.remove(slot)),
            }
            self.publish_next(&writing);
            seeking = writing.downgrade();
            if expiry == Expiry::Due {
                let woken = task.state.occupant().is_some_and(|occupant| task.state.wake(occupant, false));
                if woken {
                    self.enqueue(slot);
                }
            }
        }
        budget
    }

    /// Sets the deadline that wakes the running task in `slot` at the latest.
    pub(crate) fn set_deadline(&self, slot: u32, deadline: Tick) {
        let task = self.task(slot);
        if task.deadline.set(deadline.as_ms()) {
            let mut writing = self.timers.write();
            if let Some(due) = task.deadline.arm() {
                writing.set(slot, due);
                self.publish_next(&writing);
            }
        }
    }

    fn publish_next(&self, timers: &WriteGuard<'_, TimerQueue>) {
        self.next_due.store(timers.first().map_or(u64::MAX, |(due, _)| due), Relaxed);
    }

    /// Takes the future of a task that the caller has begun.
    pub(crate) fn take_future(&self, slot: u32) -> Option<SharedFuture> {
        lock(&self.task(slot).future).take()
    }

    /// Puts the future back, before the run is finished.
    pub(crate) fn give_future_back(&self, slot: u32, future: SharedFuture) {
        *lock(&self.task(slot).future) = Some(future);
    }

    /// Frees the slot of a task that the caller has begun, after its future is dropped.
    pub(crate) fn end(&self, slot: u32) {
        let task = self.task(slot);
        // `u64::MAX` clears the deadline, which needs no entry.
        let _ = task.deadline.set(u64::MAX);
        if task.deadline.is_armed() {
            // Locked, because other workers scan this queue (R59).
            let mut writing = self.timers.write();
            task.deadline.disarm();
            writing.remove(slot);
            self.publish_next(&writing);
        }
        task.state.end();
        self.live.fetch_sub(1, Relaxed);
        lock(&self.free).slots.push(slot);
    }

    pub(crate) fn key(&self, slot: u32) -> TaskKey {
        let occupant = self.task(slot).state.occupant();
        occupant.map_or(TaskKey::NONE, |generation| TaskKey::new(self.id, slot, generation))
    }

    /// When and where the wake was sent that made the task run.
    pub(crate) fn take_stamp(&self, slot: u32) -> Option<WakeStamp> {
        lock(&self.task(slot).order).stamp.take()
    }

    pub(crate) fn kind(&self, slot: u32) -> Option<&'static WorkKind> {
        lock(&self.task(slot).order).kind
    }

    /// How many shared tasks live.
    pub(crate) fn live(&self) -> u32 {
        self.live.load(Relaxed)
    }

    fn find(&self, key: TaskKey) -> Option<&SharedTask> {
        let chunk = self.chunks.get((key.slot() / CHUNK) as usize)?.get()?;
        chunk.get((key.slot() % CHUNK) as usize)
    }

    /// The slot `slot`, which [`Commons::take_slot`] once handed out.
    pub(crate) fn task(&self, slot: u32) -> &SharedTask {
        let chunk = self.chunks[(slot / CHUNK) as usize]
            .get_or_init(|| (0..CHUNK).map(|_| SharedTask::default()).collect());
        &chunk[(slot % CHUNK) as usize]
    }

    fn take_slot(&self) -> Option<u32> {
        let mut free = lock(&self.free);
        if let Some(slot) = free.slots.pop() {
            return Some(slot);
        }
        let slot = free.used;
        (slot < LIMIT).then(|| {
            free.used += 1;
            slot
        })
    }

    /// Ends every task, when no worker is left that could run one.
    fn close(&self) {
        // A destructor may spawn tasks: the next round drops them.
        for _ in 0..CLOSING_ROUNDS {
            let used = lock(&self.free).used;
            for slot in 0..used {
                let task = self.task(slot);
                if task.state.occupant().is_some_and(|occupant| task.state.kill(occupant)) {
                    self.enqueue(slot);
                }
            }
            for worker in 0..self.peers.len() {
                self.pick(worker, u32::MAX, |slot| {
                    // Tasks that were already queued are marked by now, too.
                    let begin = self.task(slot).state.begin();
                    debug_assert_eq!(begin, Begin::End);
                    crate::worker::dispose(self.take_future(slot));
                    self.end(slot);
                });
            }
            if self.live() == 0 {
                break;
            }
        }
        REGISTRY[usize::from(self.id)].store(None);
        give_number_back(usize::from(self.id));
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        // AcqRel: the last member sees the writes of the others.
        if self.0.members.fetch_sub(1, weir_sync::atomic::Ordering::AcqRel) == 1 {
            self.0.close();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The commons that `key` belongs to. `None` if its runtime has ended.
pub(crate) fn commons_of(key: TaskKey) -> Option<Arc<Commons>> {
    REGISTRY.get(usize::from(key.worker()))?.load_full()
}

/// The most shared tasks of one runtime.
pub const MOST_SHARED_TASKS: usize = LIMIT as usize;
const LIMIT: u32 = 1 << 16;
/// Slots per allocation.
const CHUNK: u32 = 64;
/// How often destructors may spawn more shared tasks while the last worker ends.
const CLOSING_ROUNDS: u32 = 8;

static REGISTRY: [ArcSwapOption<Commons>; MOST_WORKERS] =
    [const { ArcSwapOption::const_empty() }; MOST_WORKERS];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::WorkerBell;
    use weir_sync::atomic::AtomicBool;

    static KIND: WorkKind = WorkKind::new("shared");

    /// R14: an awake worker looks by itself, so no bell rings; when all sleep, one bell rings.
    #[test]
    fn one_worker_is_woken_for_shared_work_only_if_all_sleep() {
        let bell = || Ok(WorkerBell::Simulated(AtomicBool::new(false)));
        let tuning = crate::SchedulerTuning::default();
        let (peers, commons, memberships) =
            crate::runtime::shared_sides(3, tuning, bell).expect("three sides");
        let rung = || -> Vec<bool> {
            let is_rung = |peer: &Arc<SharedSide>| match &peer.bell {
                WorkerBell::Simulated(rung) => rung.swap(false, Relaxed),
                WorkerBell::Kernel(_) => unreachable!("made above"),
            };
            peers.iter().map(is_rung).collect()
        };
        let for_two: ThreadMask = [1, 2].into_iter().collect();
        let spawn = || commons.spawn(&KIND, &for_two, Box::pin(async {}));
        // The first one is not checked, so it may be awake.
        for (asleep, expected) in [
            (vec![], [false; 3]),
            (vec![2], [false; 3]),
            (vec![1], [false; 3]),
            (vec![1, 2], [false, true, false]),
        ] {
            peers.iter().for_each(|peer| peer.wake_side.doorbell.mark_awake());
            asleep.iter().for_each(|&peer: &usize| peers[peer].wake_side.doorbell.mark_asleep());
            spawn();
            assert_eq!(rung(), expected, "asleep: {asleep:?}");
        }
        drop(memberships);
        peers.iter().for_each(|peer| peer.retire());
    }

    /// R55: a worker without a due deadline reads one word, which a scan leaves right behind; the queue, which has something due here, is not looked at.
    #[test]
    fn without_a_due_deadline_expire_reads_one_word() {
        let bell = || Ok(WorkerBell::Simulated(AtomicBool::new(false)));
        let (peers, commons, memberships) =
            crate::runtime::shared_sides(1, crate::SchedulerTuning::default(), bell).expect("one side");
        for due in [5, 9, 12] {
            let key = commons.spawn(&KIND, &ThreadMask::all(1), Box::pin(async {}));
            commons.set_deadline(key.slot(), Tick::from_ms(due));
        }
        assert_eq!((commons.expire(Tick::from_ms(5), 100), commons.next_due()), (1, Some(9)));
        commons.next_due.store(11, Relaxed);
        assert_eq!(commons.expire(Tick::from_ms(10), 100), 0, "the word is all that is read");
        commons.next_due.store(9, Relaxed);
        assert_eq!((commons.expire(Tick::from_ms(10), 100), commons.next_due()), (1, Some(12)));
        drop(memberships);
        peers.iter().for_each(|peer| peer.retire());
    }

    /// R54: a scan holds the write lock for the removal of one element: each of a hundred takes it anew, and no task is woken and
    /// no queue is touched under it.
    #[cfg(debug_assertions)]
    #[test]
    fn a_deadline_scan_takes_the_write_lock_for_one_element_at_a_time() {
        const TASKS: u64 = 100;
        let bell = || Ok(WorkerBell::Simulated(AtomicBool::new(false)));
        let (peers, commons, memberships) =
            crate::runtime::shared_sides(1, crate::SchedulerTuning::default(), bell).expect("one side");
        for _ in 0..TASKS {
            let key = commons.spawn(&KIND, &ThreadMask::all(1), Box::pin(async {}));
            commons.set_deadline(key.slot(), Tick::from_ms(5));
        }
        // They ran once, and wait.
        commons.pick(0, u32::MAX, |slot| {
            let state = &commons.task(slot).state;
            assert!(matches!(state.begin(), Begin::Run { .. }));
            assert_eq!(state.finish(false, false), weir_sync::Finish::Wait);
        });
        let before = weir_sync::atomic::operations();
        assert_eq!(commons.expire(Tick::from_ms(5), 1000), TASKS as u32);
        let during = weir_sync::atomic::operations() - before;
        // Two locks per task: the wait queue's and the run queue's.
        assert_eq!((during.locks, during.under_lock), (2 * TASKS, 0));
        assert_eq!(commons.waiting(), TASKS as u32, "all of them were woken");
        drop(memberships);
        peers.iter().for_each(|peer| peer.retire());
    }

    /// R54, R55: a worker that finds another one scanning returns at once, and reading the next deadline
    /// takes no lock.
    #[test]
    fn expire_returns_at_once_while_another_worker_scans() {
        let bell = || Ok(WorkerBell::Simulated(AtomicBool::new(false)));
        let (peers, commons, memberships) =
            crate::runtime::shared_sides(1, crate::SchedulerTuning::default(), bell).expect("one side");
        let key = commons.spawn(&KIND, &ThreadMask::all(1), Box::pin(async {}));
        commons.set_deadline(key.slot(), Tick::from_ms(5));
        let (sender, receiver) = std::sync::mpsc::channel();
        let soon = std::time::Duration::from_secs(20);
        std::thread::scope(|scope| {
            let expire = |sender: std::sync::mpsc::Sender<(Option<u64>, u32)>| {
                let commons = &commons;
                scope.spawn(move || {
                    let next = commons.next_due();
                    let _ = sender.send((next, commons.expire(Tick::from_ms(10), 100)));
                });
            };
            let seeking = commons.timers.try_seek().expect("nobody else");
            expire(sender.clone());
            let beside_a_scan = receiver.recv_timeout(soon);
            let writing = seeking.upgrade();
            expire(sender.clone());
            let beside_a_writer = receiver.recv_timeout(soon);
            drop(writing);
            assert_eq!((beside_a_scan, beside_a_writer), (Ok((Some(5), 0)), Ok((Some(5), 0))));
        });
        assert_eq!(commons.expire(Tick::from_ms(4), 100), 0, "it is not due");
        assert_eq!(commons.expire(Tick::from_ms(5), 100), 1);
        assert_eq!((commons.next_due(), commons.expire(Tick::from_ms(5), 100)), (None, 0));
        drop(memberships);
        peers.iter().for_each(|peer| peer.retire());
    }
}
