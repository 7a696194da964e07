//! What time it is.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of a clock that only goes forward and starts anywhere.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Nanoseconds since 1970, in the time of the wall.
#[inline]
pub fn wall_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// Nanoseconds of processor time that the calling thread used.
pub fn thread_cpu_ns() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

#[inline]
fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
        assert!(wall_ns() > 1_600_000_000_000_000_000, "later than 2020");
        assert!(thread_cpu_ns() > 0);
    }
}
