//! Who needs a buffer and finds none waits for one: in turn, each for as long as its own deadline says.
//!
//! ```text
//!   no buffer ──► on the list ──► one comes back on this worker ──► the first of the list is woken, tries again
//!                     └────────── every 20 ms, while somebody waits: what came back elsewhere, or memory
//! ```
//! Buffers are a budget of the process (`tune.buffers.limit`): a worker takes a few at a time from what is left and gives back
//! what it does not need, so lending one touches nothing that others write to. Without that limit it is memory that runs short.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_containers::{Allowance, BufferPool};
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
        BufferPool::configure(self.size, usize::MAX, self.kept);
        BufferPool::grow_unless(is_short_still);
        BufferPool::set_aside(self.reserve);
        if let Some(most) = self.most {
            let batch = (most / (8 * workers.max(1))).clamp(1, LARGEST_BATCH);
            BufferPool::share(Allowance { batch, take: take_from_all, give: give_to_all });
        }
    }
}

fn take_from_all(count: usize) -> usize {
    let taken = LEFT.fetch_update(Relaxed, Relaxed, |left| (left > 0).then(|| left - left.min(count)));
    taken.map_or(0, |before| before.min(count))
}

fn give_to_all(count: usize) {
    LEFT.fetch_add(count, Relaxed);
}

/// The current task is woken when there may be a buffer for it.
#[cold]
pub(crate) fn await_buffer() {
    let task = current();
    WAITING.with_borrow_mut(|waiting| {
        if !waiting.contains(&task) {
            waiting.push_back(task);
        }
    });
    BufferPool::tell_of_next(wake_next);
    if !KEEPER_RUNS.replace(true) {
        spawn(&KEEPER, Class::Normal, look_after_them());
    }
}

fn wake_next() {
    let (next, more) = WAITING.with_borrow_mut(|waiting| (waiting.pop_front(), !waiting.is_empty()));
    if more {
        BufferPool::tell_of_next(wake_next);
    }
    if let Some(task) = next {
        wake(task);
    }
}

async fn look_after_them() {
    while WAITING.with_borrow(|waiting| !waiting.is_empty()) {
        sleep_until(now().after(PERIOD_MS)).await;
        is_short_still();
        let some = WAITING.with_borrow_mut(|waiting| {
            let count = waiting.len().min(IN_A_PERIOD);
            waiting.drain(..count).collect::<Vec<_>>()
        });
        some.into_iter().for_each(wake);
    }
    KEEPER_RUNS.set(false);
}

static LEFT: AtomicUsize = AtomicUsize::new(0);
static KEEPER: Kind = Kind::new("waiting for buffers");
/// How many buffers a worker takes from what is left at once: few may lie unused.
const LARGEST_BATCH: usize = 16;
/// How often it is looked whether memory or buffers of other workers are there again.
const PERIOD_MS: u64 = 20;
/// How many of those who wait may try then.
const IN_A_PERIOD: usize = 32;

thread_local! {
    static WAITING: RefCell<VecDeque<TaskKey>> = const { RefCell::new(VecDeque::new()) };
    static KEEPER_RUNS: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connection, Received};
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;
    use weir_containers::Buffer;
    use weir_sched::{Descriptor, Tick, wait};

    /// A connection at which a byte waits to be received.
    fn readable() -> (Connection, UnixStream) {
        let (own, mut peer) = UnixStream::pair().expect("a pair");
        own.set_nonblocking(true).expect("a socket");
        peer.write_all(b"x").expect("the kernel takes it");
        (Connection::new(Descriptor::register(own.into()).expect("a place")), peer)
    }

    #[test]
    fn who_finds_no_buffer_is_served_in_turn() {
        static SERVED: AtomicUsize = AtomicUsize::new(0);
        let all = weir_sched::run(async {
            let limits = BufferLimits { size: 1024, most: Some(2), kept: 2, reserve: 0 };
            limits.publish();
            limits.set_up(1);
            let mut held = vec![Buffer::take().expect("the first"), Buffer::take().expect("the second")];
            assert!(Buffer::take().is_err());
            for number in 0..3 {
                spawn(&KEEPER, Class::Normal, async move {
                    let (mut connection, _peer) = readable();
                    while connection.receive(100) == Received::Nothing {
                        assert!(connection.is_starved());
                        wait(Tick::NEVER).await;
                    }
                    assert_eq!((connection.input(), connection.is_starved()), (&b"x"[..], false));
                    assert_eq!(SERVED.fetch_add(1, Relaxed), number, "out of turn");
                });
            }
            weir_sched::yield_now().await;
            weir_sched::yield_now().await;
            assert_eq!(SERVED.load(Relaxed), 0);
            held.clear();
            while SERVED.load(Relaxed) < 3 {
                weir_sched::yield_now().await;
            }
            true
        });
        assert_eq!(all.expect("a worker"), Some(true));
    }

    #[test]
    fn what_is_left_is_shared() {
        LEFT.store(10, Relaxed);
        assert_eq!([take_from_all(4), take_from_all(4), take_from_all(4), take_from_all(4)], [4, 4, 2, 0]);
        give_to_all(3);
        assert_eq!(take_from_all(4), 3);
    }
}
