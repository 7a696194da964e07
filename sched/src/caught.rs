//! Runs a part of a task so that its panic does not end the task.

use crate::worker::count_panic;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};
use weir_containers::PooledFuture;

/// A part of a task panicked, and was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPanic;

/// Runs a part of the current task so that its panic does not end the task. The panic is counted like a panic of a task, the
/// part is dropped, and the task goes on. For tasks that run as long as the process. Data that the part shares with the rest
/// must be consistent at any time.
///
/// # Errors
/// When it panicked.
pub fn caught<'f, F: Future + 'f>(part: F) -> impl Future<Output = Result<F::Output, PartPanic>> + 'f
where
    F::Output: 'f,
{
    // Made here and not in the async block below: otherwise the caller's future would have room for the part for its whole life.
    let mut part = PooledFuture::new(part);
    async move {
        let poll = |context: &mut Context<'_>| match catch_unwind(AssertUnwindSafe(|| {
            Pin::new(&mut part).poll(context)
        })) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(_) => Poll::Ready(Err(PartPanic)),
        };
        let outcome = poll_fn(poll).await;
        if outcome.is_err() {
            count_panic();
        }
        crate::worker::dispose(Some(part));
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{activity, simulate, worker_index, yield_now};
    use std::cell::Cell;
    use std::rc::Rc;

    /// Counts that it was dropped.
    struct DropCounter(Rc<Cell<u32>>);

    impl Drop for DropCounter {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_caught_panic_ends_the_part_but_not_its_task() {
        let outcome = simulate::run(1, async {
            let dropped = Rc::new(Cell::new(0));
            let panics = || activity(worker_index(), |activity| activity.panics.value());
            assert_eq!(caught(async { yield_now().await }).await, Ok(()));
            assert_eq!(panics(), Some(0));
            let held = DropCounter(dropped.clone());
            let fails = std::hint::black_box(true);
            let part = async move {
                yield_now().await;
                assert!(!fails, "on purpose");
                drop(held);
            };
            assert_eq!(caught(part).await, Err(PartPanic));
            yield_now().await;
            (panics(), dropped.get())
        });
        assert_eq!(outcome, Ok(Some((Some(1), 1))));
    }
}
