//! Moments and deadlines on the worker's clock.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_expr::WallTime;
use weir_sched::{Tick, wait};

/// The same moment on the monotonic and the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// The worker's monotonic clock, in microseconds.
    pub monotonic_us: u64,
    /// The wall clock, in microseconds since the epoch.
    pub wall_us: u64,
}

impl ClockReading {
    /// The time of the worker's current scheduling round.
    pub fn now() -> Self {
        ClockReading { monotonic_us: weir_sched::now_us(), wall_us: weir_sched::wall_us() }
    }
}

/// Converts microseconds since the epoch to a calendar time.
pub(crate) fn wall_time(micros: u64) -> WallTime {
    WallTime::from_micros(micros.cast_signed())
}

/// The tick this long after now.
#[inline]
pub(crate) fn after(duration: Duration) -> Tick {
    later(weir_sched::now(), duration)
}

/// The tick so many milliseconds after now.
pub(crate) fn after_ms(milliseconds: u64) -> Tick {
    weir_sched::now().after(milliseconds)
}

/// The tick `duration` after `from`.
#[inline]
pub(crate) fn later(from: Tick, duration: Duration) -> Tick {
    from.after(milliseconds(duration))
}

/// Whole milliseconds of a duration.
#[inline]
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    // `as_millis` would compute with 128 bits.
    duration.as_secs().saturating_mul(1000).saturating_add(u64::from(duration.subsec_millis()))
}

/// The tick this long after now. [`Tick::NEVER`] without a duration.
#[inline]
pub(crate) fn after_some(duration: Option<Duration>) -> Tick {
    duration.map_or(Tick::NEVER, after)
}

/// Whether a deadline has passed.
#[inline]
pub(crate) fn passed(deadline: Tick) -> bool {
    deadline <= weir_sched::now()
}

/// The tick of a time of the monotonic clock.
pub(crate) fn tick_of_us(monotonic_us: u64) -> Tick {
    Tick::from_ms(monotonic_us / 1000)
}

/// Runs a future of the current task at most until `deadline`. `None` if it was late. The future may wait with deadlines of its own.
pub(crate) async fn within<T>(deadline: Tick, mut future: impl Future<Output = T> + Unpin) -> Option<T> {
    poll_fn(|context| {
        let outcome =
            if passed(deadline) { Poll::Ready(None) } else { Pin::new(&mut future).poll(context).map(Some) };
        if outcome.is_pending() {
            // The task has one deadline, which the future has just set for its own wait.
            let own = weir_sched::deadline(weir_sched::current()).unwrap_or(Tick::NEVER);
            let _ = Pin::new(&mut wait(own.min(deadline))).poll(context);
        } else {
            clear_deadline(context);
        }
        outcome
    })
    .await
}

/// Clears the deadline that a wait set and that was not polled again. The task's next wait would not set a later one.
fn clear_deadline(context: &mut Context<'_>) {
    let mut endless = wait(Tick::NEVER);
    // The first poll begins the wait, and the second one ends it with any deadline.
    for _ in 0..2 {
        let _ = Pin::new(&mut endless).poll(context);
    }
}

#[cfg(test)]
mod tests {
    use weir_sched::{Wakeup, now, simulate};

    use super::*;

    /// Checks that waits have their own deadlines after a future that was given up, after the deadline or before.
    #[test]
    fn a_wait_after_a_future_that_was_late_ends_in_time() {
        let outcome = simulate::run(1, async {
            let began = now();
            let late = within(began.after(10), Box::pin(wait(Tick::NEVER))).await;
            assert_eq!((late, now().since(began)), (None, 10));
            assert_eq!(wait(now().after(20)).await, Wakeup::Deadline);
            assert_eq!(now().since(began), 30);
            let mut waiting = wait(now().after(10));
            let mut is_first = true;
            let given_up = poll_fn(|context| match std::mem::take(&mut is_first) {
                true => Pin::new(&mut waiting).poll(context).map(|_| ()),
                false => Poll::Ready(()),
            });
            assert_eq!(within(now().after(50), given_up).await, Some(()));
            assert_eq!(now().since(began), 40);
            assert_eq!(wait(now().after(20)).await, Wakeup::Deadline);
            assert_eq!(now().since(began), 60);
        });
        outcome.expect("a worker").expect("it ends");
    }
}
