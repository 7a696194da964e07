//! Futures with which a task waits.

use crate::task::WOKEN;
use crate::tick::Tick;
use crate::worker::Worker;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Why [`wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeup {
    /// A descriptor has an event, or the task was woken. May be spurious.
    Event,
    /// The deadline passed, and nothing else happened.
    Deadline,
}

/// Waits until one of the task's descriptors has an event, the task is woken, or `deadline` passes.
///
/// If `deadline` has already passed, returns at once without yielding to other tasks.
#[inline]
pub fn wait(deadline: Tick) -> Wait {
    Wait { deadline, waiting: false }
}

/// The future of [`wait`].
#[derive(Debug)]
#[must_use = "nothing waits until it is awaited"]
pub struct Wait {
    deadline: Tick,
    waiting: bool,
}

impl Wait {
    /// The deadline of this wait.
    #[inline]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }
}

impl Future for Wait {
    type Output = Wakeup;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Wakeup> {
        let worker = Worker::current();
        let task = worker.running();
        if self.waiting {
            task.deadline.set(Tick::NEVER);
            let deadline_passed = !worker.woken_by_event() && self.deadline <= worker.now();
            return Poll::Ready(if deadline_passed { Wakeup::Deadline } else { Wakeup::Event });
        }
        if self.deadline <= worker.now() {
            return Poll::Ready(Wakeup::Deadline);
        }
        worker.set_deadline(task, self.deadline);
        self.waiting = true;
        Poll::Pending
    }
}

/// Waits until `deadline`, ignoring all other events.
pub async fn sleep_until(deadline: Tick) {
    while wait(deadline).await != Wakeup::Deadline {}
}

/// Yields to all other tasks. The task continues in the next scheduling round, as bulk work.
#[inline]
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "nothing yields until it is awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        let task = Worker::current().running();
        task.state.set(task.state.get() | WOKEN);
        Poll::Pending
    }
}
