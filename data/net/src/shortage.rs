//! The queue for buffers. Tasks that find none wait in FIFO order, each until its own deadline.
//!
//! ```text
//!   no buffer ──► a turn ──► one comes back on this worker ──► it goes to the oldest turn, and wakes its task
//!                   └─────── every 20 ms, while tasks wait: buffers from other workers, or memory
//! ```
//! A later task never gets a buffer before an earlier one. A returned buffer is handed over directly, and other free
//! ones are reserved for the waiters. A turn is dropped with its connection, and its buffer goes to the next turn.
//!
//! Buffers are a budget of the process (`tune.buffers.limit`): a worker takes a few at a time from the rest of the
//! budget and gives spare ones back, so lending one writes to no shared memory. Without that limit only memory can run
//! short.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_containers::{Allowance, Buffer, BufferPool};
use weir_sched::{Class, TaskKey, WorkKind, current, now, sleep_until, spawn, wake};

pub use weir_memory::shortage::{count_refusal, is_exhausted, is_short, is_short_still};

/// Reserves memory for `count` more bytes. False if memory is short, unless there is room already.
pub fn make_room(bytes: &mut Vec<u8>, count: usize) -> bool {
    bytes.capacity() - bytes.len() >= count || (!is_short() && bytes.try_reserve(count).is_ok())
}

/// The limits of a worker's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// `tune.bufsize`, in bytes.
    pub size: usize,
    /// Maximum number of buffers in use by all workers. `None` for no limit.
    pub most: Option<usize>,
    /// Maximum number of free buffers that a worker keeps.
    pub kept: usize,
    /// Buffers that a worker reserves for server responses, for when all others are used (`tune.buffers.reserve`).
    pub reserve: usize,
}

impl BufferLimits {
    /// Sets the limits of the process. Call it once, before workers are [set up](Self::set_up).
    pub fn publish(&self) {
        LEFT.store(self.most.unwrap_or(0), Relaxed);
    }

    /// Sets up the current worker, one of `workers`.
    pub fn set_up(&self, workers: usize) {
        // The keeper of a former worker on this thread ended with that worker.
        KEEPER_RUNS.set(false);
        BufferPool::configure(self.size, usize::MAX, self.kept);
        BufferPool::grow_unless(is_for_others);
        BufferPool::set_aside(self.reserve);
        if let Some(most) = self.most {
            let batch = (most / (8 * workers.max(1))).clamp(1, LARGEST_BATCH);
            BufferPool::share(Allowance { batch, take: take_from_all, give: give_to_all });
        }
    }
}

fn take_from_all(count: usize) -> usize {
    if !may_take() {
        return 0;
    }
    let taken = LEFT.fetch_update(Relaxed, Relaxed, |left| (left > 0).then(|| left - left.min(count)));
    taken.map_or(0, |before| before.min(count))
}

fn give_to_all(count: usize) {
    LEFT.fetch_add(count, Relaxed);
}

/// A position in the queue. `None` while the connection does not wait.
#[derive(Debug, Default)]
pub(crate) struct WaiterTurn(Option<NonZeroU32>);

/// The buffers that a waiter may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BufferRight {
    /// Only common buffers.
    Common,
    /// Common and reserved buffers.
    Aside,
}

impl WaiterTurn {
    /// Whether the connection waits.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// The buffer that was handed to this waiter. `None` while it waits. The current task is then woken when one is handed over.
    #[cold]
    pub(crate) fn wait_on(&mut self, right: BufferRight) -> Option<Buffer> {
        let Some(number) = self.0 else {
            self.0 = Some(WAITING.with_borrow_mut(|waiting| waiting.enter(right, current())));
            BufferPool::notify_of_next(serve);
            if !KEEPER_RUNS.replace(true) {
                spawn(&KEEPER, Class::Normal, look_after_them());
            }
            return None;
        };
        let handed = WAITING.with_borrow_mut(|waiting| waiting.handed.remove(&number));
        if handed.is_some() {
            self.0 = None;
        }
        handed
    }

    /// Stops waiting.
    #[inline]
    pub(crate) fn end(&mut self) {
        if let Some(number) = self.0.take() {
            leave(number);
        }
    }
}

impl Drop for WaiterTurn {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

#[cold]
fn leave(number: NonZeroU32) {
    // While the thread ends the lists may already be gone.
    let handed = WAITING.try_with(|waiting| waiting.borrow_mut().leave(number));
    // An unused buffer is dropped outside of the borrow, because the drop hands it to the next waiter.
    drop(handed);
}

/// The waiters of this worker, by the ascending numbers of their turns.
struct WorkerWaiters {
    common: BTreeMap<NonZeroU32, TaskKey>,
    aside: BTreeMap<NonZeroU32, TaskKey>,
    /// Buffers for waiters that were woken and have not run yet.
    handed: BTreeMap<NonZeroU32, Buffer>,
    /// Last ticket issued. Restarts at 1 when the queue is empty, so it cannot overflow.
    last: u32,
}

impl WorkerWaiters {
    const fn new() -> Self {
        WorkerWaiters { common: BTreeMap::new(), aside: BTreeMap::new(), handed: BTreeMap::new(), last: 0 }
    }

    fn is_empty(&self) -> bool {
        self.common.is_empty() && self.aside.is_empty()
    }

    fn enter(&mut self, right: BufferRight, task: TaskKey) -> NonZeroU32 {
        if self.is_empty() && self.handed.is_empty() {
            self.last = 0;
        }
        self.last = self.last.saturating_add(1);
        let number = NonZeroU32::new(self.last).unwrap_or(NonZeroU32::MIN);
        match right {
            BufferRight::Common => self.common.insert(number, task),
            BufferRight::Aside => self.aside.insert(number, task),
        };
        number
    }

    fn leave(&mut self, number: NonZeroU32) -> Option<Buffer> {
        if self.common.remove(&number).or_else(|| self.aside.remove(&number)).is_some() {
            return None;
        }
        self.handed.remove(&number)
    }

    /// Hands a buffer to the oldest waiter that may have it. Returns the task to wake, or the buffer if no waiter may.
    fn hand(&mut self, buffer: Buffer, right: BufferRight) -> Result<TaskKey, Buffer> {
        let first = |list: &BTreeMap<NonZeroU32, TaskKey>| list.keys().next().copied();
        let common = first(&self.common).filter(|_| right == BufferRight::Common);
        let list = match (common, first(&self.aside)) {
            (Some(common), Some(aside)) if common < aside => &mut self.common,
            (Some(_), None) => &mut self.common,
            _ => &mut self.aside,
        };
        let Some((number, task)) = list.pop_first() else { return Err(buffer) };
        self.handed.insert(number, buffer);
        Ok(task)
    }
}

/// Hands free buffers to at most [`IN_A_PERIOD`] waiters. Runs when a buffer is returned, and periodically.
fn serve() {
    for _ in 0..IN_A_PERIOD {
        if WAITING.with_borrow(|waiting| waiting.is_empty()) {
            return;
        }
        SERVING.set(true);
        let found = match Buffer::take() {
            Ok(buffer) => Some((buffer, BufferRight::Common)),
            Err(_) if WAITING.with_borrow(|waiting| !waiting.aside.is_empty()) => {
                Buffer::take_aside().ok().map(|buffer| (buffer, BufferRight::Aside))
            }
            Err(_) => None,
        };
        SERVING.set(false);
        let Some((buffer, right)) = found else { break };
        match WAITING.with_borrow_mut(|waiting| waiting.hand(buffer, right)) {
            Ok(task) => wake(task),
            Err(unwanted) => return drop(unwanted),
        }
    }
    BufferPool::notify_of_next(serve);
}

async fn look_after_them() {
    while !WAITING.with_borrow(|waiting| waiting.is_empty()) {
        sleep_until(now().after(PERIOD_MS)).await;
        serve();
    }
    KEEPER_RUNS.set(false);
}

/// Whether no buffer may be taken from the allocator now.
fn is_for_others() -> bool {
    is_short_still() || !may_take()
}

/// Whether the budget may be used now. A new task may not use it while others wait.
fn may_take() -> bool {
    SERVING.get() || WAITING.with_borrow(|waiting| waiting.is_empty())
}

static LEFT: AtomicUsize = AtomicUsize::new(0);
static KEEPER: WorkKind = WorkKind::new("waiting for buffers");
/// Maximum buffers that a worker takes from the budget at once. Small, so that few stay unused.
const LARGEST_BATCH: usize = 16;
/// How often the keeper checks for memory or for buffers of other workers.
const PERIOD_MS: u64 = 20;
/// How many waiters are served per period.
const IN_A_PERIOD: usize = 32;

thread_local! {
    static WAITING: RefCell<ManuallyDrop<WorkerWaiters>> = const { RefCell::new(ManuallyDrop::new(WorkerWaiters::new())) };
    /// Whether buffers are being taken for waiters.
    static SERVING: Cell<bool> = const { Cell::new(false) };
    static KEEPER_RUNS: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, ReceiveOutcome};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use weir_sched::{Descriptor, Tick, wait};

    /// The budget is global to the process, so tests that use it run one at a time.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection with a byte to receive.
    fn readable() -> (Connection, UnixStream) {
        readable_as(Connection::new)
    }

    fn readable_as(kind: fn(Descriptor) -> Connection) -> (Connection, UnixStream) {
        let (own, mut peer) = UnixStream::pair().expect("a pair");
        own.set_nonblocking(true).expect("a socket");
        peer.write_all(b"x").expect("the kernel takes it");
        (kind(Descriptor::register(own.into()).expect("a place")), peer)
    }

    #[test]
    fn waiter_tickets_ascend_and_restart_when_the_queue_is_empty() {
        let mut waiting = WorkerWaiters::new();
        let enter = |waiting: &mut WorkerWaiters| waiting.enter(BufferRight::Common, TaskKey::NONE).get();
        assert_eq!([enter(&mut waiting), enter(&mut waiting)], [1, 2]);
        let buffer = Buffer::with_capacity(1);
        assert!(waiting.hand(buffer, BufferRight::Common).is_ok());
        waiting.leave(NonZeroU32::new(2).expect("not zero"));
        assert_eq!(enter(&mut waiting), 3, "the first one has its buffer and has not run yet");
        waiting.leave(NonZeroU32::MIN);
        waiting.leave(NonZeroU32::new(3).expect("not zero"));
        assert_eq!(enter(&mut waiting), 1);
    }

    /// Sets a budget of `most` buffers and takes all of them on one worker.
    fn all_held(most: usize) -> Vec<Buffer> {
        let limits = BufferLimits { size: 1024, most: Some(most), kept: most, reserve: 0 };
        limits.publish();
        limits.set_up(1);
        let held = (0..most).map(|_| Buffer::take().expect("one of them")).collect();
        assert!(Buffer::take().is_err());
        held
    }

    /// Waits for a buffer. Returns the position in the order of service.
    async fn receive_in_turn(served: &'static AtomicUsize) -> usize {
        let (mut connection, _peer) = readable();
        while connection.receive(100) == ReceiveOutcome::Nothing {
            assert!(connection.is_starved());
            wait(Tick::NEVER).await;
        }
        assert_eq!((connection.input(), connection.is_starved()), (&b"x"[..], false));
        served.fetch_add(1, Relaxed)
    }

    async fn until(served: &AtomicUsize, count: usize) {
        while served.load(Relaxed) < count {
            weir_sched::yield_now().await;
        }
    }

    #[test]
    fn tasks_waiting_for_a_buffer_are_served_in_order() {
        static SERVED: AtomicUsize = AtomicUsize::new(0);
        let _alone = alone();
        let all = weir_sched::run(async {
            let mut held = all_held(2);
            for number in 0..3 {
                spawn(&KEEPER, Class::Normal, async move {
                    assert_eq!(receive_in_turn(&SERVED).await, number, "out of turn");
                });
            }
            weir_sched::yield_now().await;
            weir_sched::yield_now().await;
            assert_eq!(SERVED.load(Relaxed), 0);
            held.clear();
            until(&SERVED, 3).await;
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    /// A waiter keeps its position when the keeper finds no buffer, and a newcomer does not overtake it.
    #[test]
    fn a_buffer_waiter_keeps_its_position_while_the_pool_is_empty() {
        static SERVED: AtomicUsize = AtomicUsize::new(0);
        const COUNT: usize = IN_A_PERIOD + 8;
        let _alone = alone();
        let all = weir_sched::run(async {
            let mut held = all_held(2);
            for number in 0..COUNT {
                spawn(&KEEPER, Class::Normal, async move {
                    assert_eq!(receive_in_turn(&SERVED).await, number, "out of turn");
                });
            }
            // The keeper checks several times.
            sleep_until(now().after(4 * PERIOD_MS)).await;
            held.pop();
            assert!(Buffer::take().is_err(), "it is the first one's");
            // A buffer that another worker gave back goes to the waiters too.
            give_to_all(1);
            assert!(Buffer::take().is_err(), "a newcomer passes those who wait");
            drop(held);
            until(&SERVED, COUNT).await;
            assert!(Buffer::take().is_ok());
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    /// A waiter that is dropped does not affect the order of the others, and gives back the buffer that was handed to it.
    #[test]
    fn a_dropped_buffer_waiter_returns_its_buffer() {
        static SERVED: AtomicUsize = AtomicUsize::new(0);
        let _alone = alone();
        let all = weir_sched::run(async {
            let mut held = all_held(2);
            let (mut first, mut second) = (readable(), readable());
            for leaver in [&mut first, &mut second] {
                assert_eq!(leaver.0.receive(100), ReceiveOutcome::Nothing);
                assert_eq!(leaver.0.receive(100), ReceiveOutcome::Nothing, "and still");
            }
            spawn(&KEEPER, Class::Normal, async {
                receive_in_turn(&SERVED).await;
            });
            weir_sched::yield_now().await;
            drop(first);
            held.pop();
            // The buffer was handed to the second waiter, which is dropped with it.
            assert_eq!(WAITING.with_borrow(|waiting| (waiting.common.len(), waiting.handed.len())), (1, 1));
            drop(second);
            // At once, without the keeper.
            weir_sched::yield_now().await;
            weir_sched::yield_now().await;
            assert_eq!(SERVED.load(Relaxed), 1);
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    #[test]
    fn the_cli_gets_a_reserved_buffer_while_clients_hold_all_others() {
        let _alone = alone();
        let all = weir_sched::run(async {
            let held = all_held(2);
            let (mut operator, mut client) = (readable_as(Connection::of_operator), readable());
            assert_eq!(client.0.receive(100), ReceiveOutcome::Nothing);
            assert_eq!(operator.0.receive(100), ReceiveOutcome::Bytes(1));
            assert!(!operator.0.is_starved() && client.0.is_starved());
            operator.0.consume(1);
            drop(operator);
            assert_eq!(BufferPool::statistics().used, held.len(), "it was never one of the pool's");
            assert!(client.0.is_starved(), "what was apart is not handed on");
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    /// A waiter that may use reserved buffers gets them before others, but common ones only in FIFO order.
    #[test]
    fn reserved_buffers_go_only_to_privileged_waiters() {
        let mut waiting = WorkerWaiters::new();
        let buffer = || Buffer::with_capacity(8);
        let task = |number: u64| TaskKey::from_bits(number);
        waiting.enter(BufferRight::Common, task(1));
        waiting.enter(BufferRight::Aside, task(2));
        waiting.enter(BufferRight::Aside, task(3));
        assert_eq!(waiting.hand(buffer(), BufferRight::Aside).ok(), Some(task(2)));
        assert_eq!(waiting.hand(buffer(), BufferRight::Common).ok(), Some(task(1)));
        assert_eq!(waiting.hand(buffer(), BufferRight::Common).ok(), Some(task(3)));
        assert!(waiting.is_empty() && waiting.hand(buffer(), BufferRight::Common).is_err());
        waiting.enter(BufferRight::Common, task(4));
        assert!(waiting.hand(buffer(), BufferRight::Aside).is_err());
    }

    #[test]
    fn workers_take_from_the_shared_buffer_budget_until_it_is_empty() {
        let _alone = alone();
        LEFT.store(10, Relaxed);
        assert_eq!([take_from_all(4), take_from_all(4), take_from_all(4), take_from_all(4)], [4, 4, 2, 0]);
        give_to_all(3);
        assert_eq!(take_from_all(4), 3);
    }
}
