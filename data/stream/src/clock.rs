//! Moments and deadlines on the worker's clock.

use std::time::Duration;

use weir_sched::Tick;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The worker's monotonic clock, in microseconds.
    pub monotonic_us: u64,
    /// The wall clock, in microseconds since the epoch.
    pub wall_us: u64,
}

impl Moment {
    /// Now, as the worker's current turn knows it.
    pub fn now() -> Self {
        Moment { monotonic_us: weir_sched::now_us(), wall_us: weir_sched::wall_us() }
    }
}

/// A moment of the wall clock, as expressions know it.
pub fn wall_time(micros: u64) -> weir_expr::WallTime {
    weir_expr::WallTime { seconds: (micros / 1_000_000) as i64, micros: (micros % 1_000_000) as u32 }
}

/// The moment this long from now.
#[inline]
pub fn after(duration: Duration) -> Tick {
    later(weir_sched::now(), duration)
}

/// The moment this long after another one.
#[inline]
pub fn later(from: Tick, duration: Duration) -> Tick {
    // Not `as_millis`: that is 128 bits wide.
    let milliseconds = duration.as_secs().saturating_mul(1000);
    from.after(milliseconds.saturating_add(u64::from(duration.subsec_millis())))
}

/// The moment this long from now; never without a duration.
#[inline]
pub fn after_some(duration: Option<Duration>) -> Tick {
    duration.map_or(Tick::NEVER, after)
}

/// Whether a deadline is over.
#[inline]
pub fn passed(deadline: Tick) -> bool {
    deadline <= weir_sched::now()
}

/// The tick that a moment of the monotonic clock lies in.
pub fn tick_of_us(monotonic_us: u64) -> Tick {
    Tick::from_ms(monotonic_us / 1000)
}
