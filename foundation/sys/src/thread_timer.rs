//! A timer of the calling thread's CPU time, which interrupts the thread by a signal.
//!
//! The time of a thread that waits does not pass, so the signal comes while the thread computes: it does not wake a thread from `epoll_wait`.
//! The kernel looks at such timers at its ticks, every 1 to 10 ms.

use std::time::Duration;

use crate::process::{forks, status, thread_id};
use crate::signal::{self, Signal};
use crate::{Errno, Result};

/// A timer of the thread that made it. It fires once after each [`ThreadTimer::set`].
#[derive(Debug)]
pub struct ThreadTimer {
    timer: libc::timer_t,
    /// The forks of the process at its creation: a child lacks the timer.
    forks: u32,
}

impl ThreadTimer {
    /// A timer that calls `fire` in the calling thread. All timers of a process have the same `fire`. Fails if the kernel lacks such timers.
    ///
    /// # Safety
    /// `fire` is called in a signal handler: it calls only functions that are safe there (`man 7 signal-safety`), and does not panic.
    pub unsafe fn new(fire: extern "C" fn(Signal)) -> Result<Self> {
        let forks = forks();
        // SAFETY: the caller vouches for the handler.
        unsafe { signal::handle(timer_signal(), fire) }?;
        // SAFETY: all zeros is a valid event.
        let mut event = unsafe { std::mem::zeroed::<libc::sigevent>() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = timer_signal();
        event.sigev_notify_thread_id = thread_id() as i32;
        let mut timer = std::ptr::null_mut();
        // SAFETY: the event is complete, and the place for the result is ours.
        status(unsafe { libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) })?;
        Ok(ThreadTimer { timer, forks })
    }

    /// Whether the timer belongs to this process: a fork leaves it behind.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.forks == forks()
    }

    /// Fires once after `time`, measured by the CPU time of the thread. Replaces an earlier time.
    pub fn set(&self, time: Duration) -> Result<()> {
        if !self.is_here() {
            return Err(Errno::INVAL);
        }
        let value = libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            // 0 would stop the timer.
            tv_nsec: time.subsec_nanos().max(1).into(),
        };
        let once =
            libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: the timer is one of this process, as checked above, and the earlier time is not requested.
        status(unsafe { libc::timer_settime(self.timer, 0, &once, std::ptr::null_mut()) }).map(drop)
    }
}

impl Drop for ThreadTimer {
    fn drop(&mut self) {
        if self.is_here() {
            // SAFETY: the timer is one of this process, and nothing uses it later.
            unsafe { libc::timer_delete(self.timer) };
        }
    }
}

/// The signal of timers: the first one that the C library leaves to programs.
fn timer_signal() -> Signal {
    libc::SIGRTMIN()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    thread_local! {
        static FIRED: AtomicU32 = const { AtomicU32::new(0) };
    }

    extern "C" fn count(_: Signal) {
        FIRED.with(|fired| fired.fetch_add(1, Ordering::Relaxed));
    }

    fn fired() -> u32 {
        FIRED.with(|fired| fired.load(Ordering::Relaxed))
    }

    fn timer() -> ThreadTimer {
        // SAFETY: the handler only changes an atomic number.
        unsafe { ThreadTimer::new(count) }.expect("the kernel has timers")
    }

    fn compute_until(done: impl Fn() -> bool) {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < Duration::from_secs(60), "the timer fires");
        }
    }

    #[test]
    fn a_timer_fires_once_in_its_thread() {
        let timer = timer();
        let other = std::thread::spawn(|| {
            let _timer = self::timer();
            compute_until({
                let began = crate::time::thread_cpu_ns();
                move || crate::time::thread_cpu_ns() - began > 50_000_000
            });
            fired()
        });
        timer.set(Duration::from_millis(1)).expect("it is ours");
        compute_until(|| fired() == 1);
        let cpu = crate::time::thread_cpu_ns();
        compute_until(|| crate::time::thread_cpu_ns() - cpu > 50_000_000);
        assert_eq!((fired(), other.join().expect("no panic")), (1, 0));
        timer.set(Duration::from_millis(1)).expect("it is ours");
        compute_until(|| fired() == 2);
    }

    #[test]
    fn a_thread_that_waits_is_not_interrupted() {
        let timer = timer();
        let limit = Duration::from_millis(5);
        let mut epoll = crate::poll::Epoll::new(1).expect("an instance");
        for _ in 0..100 {
            let (before, spent) = (fired(), crate::time::thread_cpu_ns());
            timer.set(limit).expect("it is ours");
            let waited = epoll.wait(Some(50), |_, _| ());
            // A virtual machine that stole the processor meanwhile may charge it to this thread.
            if u128::from(crate::time::thread_cpu_ns() - spent) < limit.as_nanos() {
                assert_eq!((waited, fired() - before), (Ok(0), 0));
                return;
            }
        }
        panic!("the thread never gets less than 5 ms of a processor in a wait of 50 ms");
    }
}
