//! Reading the system's clocks.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds of the monotonic clock, from an arbitrary start.
#[inline]
pub fn monotonic_ns() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// The monotonic clock at the last kernel tick, at most 1 to 10 ms ago. Cheap to read.
#[inline]
pub fn coarse_monotonic_ns() -> u64 {
    nanoseconds(ClockId::MonotonicCoarse)
}

/// Wall clock, in nanoseconds since 1970.
#[inline]
pub fn wall_ns() -> u64 {
    nanoseconds(ClockId::Realtime)
}

/// CPU time of the calling thread in nanoseconds. A system call, by the C library: rustix looks for the vDSO first, which fails under valgrind.
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place for the result is ours. Every kernel has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// CPU time clock of a thread, readable from any thread (for a watchdog).
#[derive(Debug, Clone, Copy)]
pub struct ThreadClock(libc::clockid_t);

impl ThreadClock {
    /// The clock of the calling thread; `None` on a system without such clocks.
    pub fn of_this_thread() -> Option<Self> {
        let mut clock = 0;
        // SAFETY: touches no memory.
        let thread = unsafe { libc::pthread_self() };
        // SAFETY: the thread is the calling one, so it lives, and the place for the result is ours.
        let error = unsafe { libc::pthread_getcpuclockid(thread, &mut clock) };
        (error == 0).then_some(Self(clock))
    }

    /// CPU time of the thread in nanoseconds. `None` after the thread ended.
    pub fn ns(self) -> Option<u64> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place for the result is ours; the kernel refuses the clock of a thread that ended.
        let status = unsafe { libc::clock_gettime(self.0, &mut time) };
        (status == 0)
            .then(|| (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64))
    }
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
    fn monotonic_and_thread_clocks_advance() {
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
        let coarse = coarse_monotonic_ns();
        assert!(coarse <= monotonic_ns() && coarse + 100_000_000 > first);
        while coarse_monotonic_ns() == coarse {}
        assert!(wall_ns() > 1_600_000_000_000_000_000, "later than 2020");
        assert!(thread_cpu_ns() > 0);
    }

    #[test]
    fn the_cpu_clock_of_another_thread_is_readable_while_it_exists() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            sender.send(ThreadClock::of_this_thread().expect("Linux has them")).expect("the receiver waits");
            let _ = wait.recv();
        });
        let clock = receiver.recv().expect("sent");
        assert!(clock.ns().is_some());
        drop(release);
        other.join().expect("it ends");
        // A join may return shortly before the thread's clock is removed.
        let began = std::time::Instant::now();
        while clock.ns().is_some() {
            assert!(began.elapsed().as_secs() < 5, "the clock of a thread that is gone");
            std::thread::yield_now();
        }
        let own = ThreadClock::of_this_thread().expect("Linux has them");
        assert!(own.ns().expect("we live") > 0);
    }
}
