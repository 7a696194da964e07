//! Who needs a buffer and finds none waits for one: in turn, each for as long as its own deadline says.
//!
//! ```text
//!   no buffer ──► a turn ──► one comes back on this worker ──► it is handed to the oldest turn, whose task is woken
//!                   └─────── every 20 ms, while somebody waits: what came back elsewhere, or memory
//! ```
//! Who comes later never gets what somebody waits for: what comes back is handed over, not put down, and what else there is
//! is for those who wait. A turn ends with its connection, and then the next one has what was handed to it.
//!
//! Buffers are a budget of the process (`tune.buffers.limit`): a worker takes a few at a time from what is left and gives back
//! what it does not need, so lending one touches nothing that others write to. Without that limit it is memory that runs short.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_containers::{Allowance, Buffer, BufferPool};
use weir_sched::{Class, Kind, TaskKey, current, now, sleep_until, spawn, wake};

pub use weir_memory::shortage::{is_short, is_short_still};

/// What the buffers of a worker are bounded by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferLimits {
    /// `tune.bufsize`, in bytes.
    pub size: usize,
    /// The most that all workers use at once; none for no limit.
    pub most: Option<usize>,
    /// How many free ones a worker keeps.
    pub kept: usize,
    /// How many a worker keeps for answers of servers when there are none left (`tune.buffers.reserve`).
    pub reserve: usize,
}

impl BufferLimits {
    /// Has the process obey. To be called once, before workers are [set up](Self::set_up).
    pub fn publish(&self) {
        LEFT.store(self.most.unwrap_or(0), Relaxed);
    }

    /// Has the current worker obey, one of so many.
    pub fn set_up(&self, workers: usize) {
        // The keeper of a worker that this thread was before ended with it.
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

/// A place among those who wait for a buffer; none while its connection waits for nothing.
#[derive(Debug, Default)]
pub(crate) struct Turn(Option<NonZeroU64>);

/// Which buffers one may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// The common ones.
    Common,
    /// Those that were set aside as well.
    Aside,
}

impl Turn {
    /// Whether it waits.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// The buffer that was handed to it; none while it still waits, and the current task is woken once there is one.
    #[cold]
    pub(crate) fn wait_on(&mut self, right: Right) -> Option<Buffer> {
        let Some(number) = self.0 else {
            self.0 = Some(WAITING.with_borrow_mut(|waiting| waiting.enter(right, current())));
            BufferPool::tell_of_next(serve);
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

    /// It waits no more.
    #[inline]
    pub(crate) fn end(&mut self) {
        if let Some(number) = self.0.take() {
            leave(number);
        }
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}

#[cold]
fn leave(number: NonZeroU64) {
    // While the thread ends the lists may be gone already.
    let handed = WAITING.try_with(|waiting| waiting.borrow_mut().leave(number));
    // What it did not use is dropped here, outside of the borrow: the next one is handed it.
    drop(handed);
}

/// Those who wait on this worker, by the numbers of their turns, which ascend.
struct Waiting {
    common: BTreeMap<NonZeroU64, TaskKey>,
    aside: BTreeMap<NonZeroU64, TaskKey>,
    /// What is for those who were woken and did not look yet.
    handed: BTreeMap<NonZeroU64, Buffer>,
    last: u64,
}

impl Waiting {
    const fn new() -> Self {
        Waiting { common: BTreeMap::new(), aside: BTreeMap::new(), handed: BTreeMap::new(), last: 0 }
    }

    fn is_empty(&self) -> bool {
        self.common.is_empty() && self.aside.is_empty()
    }

    fn enter(&mut self, right: Right, task: TaskKey) -> NonZeroU64 {
        self.last += 1;
        let number = NonZeroU64::new(self.last).unwrap_or(NonZeroU64::MIN);
        match right {
            Right::Common => self.common.insert(number, task),
            Right::Aside => self.aside.insert(number, task),
        };
        number
    }

    fn leave(&mut self, number: NonZeroU64) -> Option<Buffer> {
        if self.common.remove(&number).or_else(|| self.aside.remove(&number)).is_some() {
            return None;
        }
        self.handed.remove(&number)
    }

    /// Hands a buffer to the turn that came first of those that may have it; whose task to wake, or what is left over.
    fn hand(&mut self, buffer: Buffer, right: Right) -> Result<TaskKey, Buffer> {
        let first = |list: &BTreeMap<NonZeroU64, TaskKey>| list.keys().next().copied();
        let common = first(&self.common).filter(|_| right == Right::Common);
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

/// Hands what there is to those who wait for it, some at most; a buffer that came back calls it.
fn serve() {
    for _ in 0..IN_A_PERIOD {
        if WAITING.with_borrow(|waiting| waiting.is_empty()) {
            return;
        }
        SERVING.set(true);
        let found = match Buffer::take() {
            Ok(buffer) => Some((buffer, Right::Common)),
            Err(_) if WAITING.with_borrow(|waiting| !waiting.aside.is_empty()) => {
                Buffer::take_aside().ok().map(|buffer| (buffer, Right::Aside))
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
    BufferPool::tell_of_next(serve);
}

async fn look_after_them() {
    while !WAITING.with_borrow(|waiting| waiting.is_empty()) {
        sleep_until(now().after(PERIOD_MS)).await;
        serve();
    }
    KEEPER_RUNS.set(false);
}

/// Whether the allocator is not to be asked for a buffer.
fn is_for_others() -> bool {
    is_short_still() || !may_take()
}

/// Whether what is left may be taken now: by nobody who comes while others wait.
fn may_take() -> bool {
    SERVING.get() || WAITING.with_borrow(|waiting| waiting.is_empty())
}

static LEFT: AtomicUsize = AtomicUsize::new(0);
static KEEPER: Kind = Kind::new("waiting for buffers");
/// How many buffers a worker takes from what is left at once: few may lie unused.
const LARGEST_BATCH: usize = 16;
/// How often it is looked whether memory or buffers of other workers are there again.
const PERIOD_MS: u64 = 20;
/// How many of those who wait are served at once.
const IN_A_PERIOD: usize = 32;

thread_local! {
    static WAITING: RefCell<ManuallyDrop<Waiting>> = const { RefCell::new(ManuallyDrop::new(Waiting::new())) };
    /// What is taken is for those who wait.
    static SERVING: Cell<bool> = const { Cell::new(false) };
    static KEEPER_RUNS: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, Received};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use weir_sched::{Descriptor, Tick, wait};

    /// What is left is the process's: one test at a time looks at it.
    static ALONE: Mutex<()> = Mutex::new(());

    fn alone() -> MutexGuard<'static, ()> {
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection at which a byte waits to be received.
    fn readable() -> (Connection, UnixStream) {
        let (own, mut peer) = UnixStream::pair().expect("a pair");
        own.set_nonblocking(true).expect("a socket");
        peer.write_all(b"x").expect("the kernel takes it");
        (Connection::new(Descriptor::register(own.into()).expect("a place")), peer)
    }

    /// A worker with so many buffers, all of them held.
    fn all_held(most: usize) -> Vec<Buffer> {
        let limits = BufferLimits { size: 1024, most: Some(most), kept: most, reserve: 0 };
        limits.publish();
        limits.set_up(1);
        let held = (0..most).map(|_| Buffer::take().expect("one of them")).collect();
        assert!(Buffer::take().is_err());
        held
    }

    /// Waits for a buffer; in which place of all it was served.
    async fn receive_in_turn(served: &'static AtomicUsize) -> usize {
        let (mut connection, _peer) = readable();
        while connection.receive(100) == Received::Nothing {
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
    fn who_finds_no_buffer_is_served_in_turn() {
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

    /// Nobody waits longer because the keeper looked and found nothing, and a newcomer passes nobody.
    #[test]
    fn a_turn_is_kept_while_there_is_nothing() {
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
            // Several looks of the keeper.
            sleep_until(now().after(4 * PERIOD_MS)).await;
            held.pop();
            assert!(Buffer::take().is_err(), "it is the first one's");
            // What another worker gave back is for those who wait, too.
            give_to_all(1);
            assert!(Buffer::take().is_err(), "a newcomer passes those who wait");
            drop(held);
            until(&SERVED, COUNT).await;
            assert!(Buffer::take().is_ok());
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    /// Who left before it was served takes nobody's turn, nor the buffer that it was handed.
    #[test]
    fn who_leaves_takes_nothing_along() {
        static SERVED: AtomicUsize = AtomicUsize::new(0);
        let _alone = alone();
        let all = weir_sched::run(async {
            let mut held = all_held(2);
            let (mut first, mut second) = (readable(), readable());
            for leaver in [&mut first, &mut second] {
                assert_eq!(leaver.0.receive(100), Received::Nothing);
                assert_eq!(leaver.0.receive(100), Received::Nothing, "and still");
            }
            spawn(&KEEPER, Class::Normal, async {
                receive_in_turn(&SERVED).await;
            });
            weir_sched::yield_now().await;
            drop(first);
            held.pop();
            // It is the second one's now, who leaves with it.
            assert_eq!(WAITING.with_borrow(|waiting| (waiting.common.len(), waiting.handed.len())), (1, 1));
            drop(second);
            // At once, without the keeper's help.
            weir_sched::yield_now().await;
            weir_sched::yield_now().await;
            assert_eq!(SERVED.load(Relaxed), 1);
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    /// Who may have what was set aside gets it before others come, but of the rest no more than its turn.
    #[test]
    fn what_was_set_aside_is_for_who_may_have_it() {
        let mut waiting = Waiting::new();
        let buffer = || Buffer::with_capacity(8);
        let task = |number: u64| TaskKey::from_bits(number);
        waiting.enter(Right::Common, task(1));
        waiting.enter(Right::Aside, task(2));
        waiting.enter(Right::Aside, task(3));
        assert_eq!(waiting.hand(buffer(), Right::Aside).ok(), Some(task(2)));
        assert_eq!(waiting.hand(buffer(), Right::Common).ok(), Some(task(1)));
        assert_eq!(waiting.hand(buffer(), Right::Common).ok(), Some(task(3)));
        assert!(waiting.is_empty() && waiting.hand(buffer(), Right::Common).is_err());
        waiting.enter(Right::Common, task(4));
        assert!(waiting.hand(buffer(), Right::Aside).is_err());
    }

    #[test]
    fn what_is_left_is_shared() {
        let _alone = alone();
        LEFT.store(10, Relaxed);
        assert_eq!([take_from_all(4), take_from_all(4), take_from_all(4), take_from_all(4)], [4, 4, 2, 0]);
        give_to_all(3);
        assert_eq!(take_from_all(4), 3);
    }
}
