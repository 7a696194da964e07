//! Signals between the peers' tasks, as small as a waker allows, so that the executor is measured.

use atomic_waker::AtomicWaker;
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

#[derive(Default)]
struct LocalSignal {
    raised: bool,
    waker: Option<Waker>,
}

thread_local! {
    static LOCAL: RefCell<[LocalSignal; 2]> = RefCell::default();
}

/// Wakes the task that waits for signal `which` of this thread.
pub fn raise(which: usize) {
    LOCAL.with_borrow_mut(|signals| {
        let signal = &mut signals[which];
        signal.raised = true;
        if let Some(waker) = &signal.waker {
            waker.wake_by_ref();
        }
    });
}

/// Waits for signal `which` of this thread.
pub async fn raised(which: usize) {
    poll_fn(|context| {
        LOCAL.with_borrow_mut(|signals| {
            let signal = &mut signals[which];
            if std::mem::take(&mut signal.raised) {
                return Poll::Ready(());
            }
            if !signal.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                signal.waker = Some(context.waker().clone());
            }
            Poll::Pending
        })
    })
    .await;
}

/// One task of a pair that wake each other: waits for its turn, gives it back, without end.
pub async fn answer() {
    loop {
        raised(1).await;
        raise(0);
    }
}

/// The other one: gives the turn away and waits for it, `rounds` times.
pub async fn request(rounds: u64) {
    for _ in 0..rounds {
        raise(1);
        raised(0).await;
    }
}

/// Forgets the wakers of an executor that ended.
pub fn forget() {
    LOCAL.with_borrow_mut(|signals| *signals = Default::default());
}

/// A signal between two threads.
#[derive(Default)]
pub struct ThreadSignal {
    raised: AtomicBool,
    waker: AtomicWaker,
}

impl ThreadSignal {
    pub fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub async fn raised(&self) {
        poll_fn(|context| {
            if self.raised.swap(false, Ordering::Acquire) {
                return Poll::Ready(());
            }
            self.waker.register(context.waker());
            if self.raised.swap(false, Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// A pair of tasks on two threads that wake each other in turn.
pub type TaskPair = Arc<[ThreadSignal; 2]>;

/// Makes `count` pairs.
pub fn pairs(count: usize) -> Vec<TaskPair> {
    (0..count).map(|_| TaskPair::default()).collect()
}

/// Runs the task of one side of a pair. Side 0 begins.
pub async fn play(pair: TaskPair, side: usize, rounds: u64) {
    for _ in 0..rounds {
        if side == 0 {
            pair[1].raise();
        }
        pair[side].raised().await;
        if side == 1 {
            pair[0].raise();
        }
    }
}
