//! The border to the outside: where events and the time come from. Everything behind it can be simulated.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sys::poll::{Epoll, Readiness, Wakener};
use weir_sys::{Result, time};

/// Where a worker learns what its descriptors have to say.
pub trait Poller {
    /// Begins to report on `descriptor`, edge by edge, with `token`.
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()>;

    /// Begins to report on a listening socket that other workers watch too: one of them is told of a connection.
    fn watch_shared(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.watch(descriptor, token)
    }

    /// Reports `descriptor` as long as it can be read.
    fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()>;

    /// Reports no more on `descriptor`.
    fn forget(&mut self, descriptor: BorrowedFd<'_>) -> Result<()>;

    /// Waits at most `timeout_ms` (`None`: for ever) and reports what happened; returns how much it was.
    fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize>;
}

/// Where a worker learns what time it is.
pub trait Clock {
    /// Nanoseconds of a clock that never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Nanoseconds since 1970.
    fn wall_ns(&self) -> u64;
}

impl Poller for Epoll {
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        Epoll::watch(self, descriptor, token)
    }

    fn watch_shared(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        Epoll::watch_shared(self, descriptor, token)
    }

    fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        Epoll::watch_level(self, descriptor, token)
    }

    fn forget(&mut self, descriptor: BorrowedFd<'_>) -> Result<()> {
        Epoll::forget(self, descriptor)
    }

    fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize> {
        Epoll::wait(self, timeout_ms, report)
    }
}

/// What makes a worker that waits in its poller return.
pub(crate) enum Bell {
    /// An event counter that its poller watches.
    Kernel(Wakener),
    /// A mark that a simulation looks at.
    Simulated(AtomicBool),
}

impl Bell {
    #[inline]
    pub(crate) fn ring(&self) {
        match self {
            Self::Kernel(wakener) => wakener.wake(),
            Self::Simulated(rung) => rung.store(true, Relaxed),
        }
    }
}

/// The clocks of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn monotonic_ns(&self) -> u64 {
        time::monotonic_ns()
    }

    #[inline]
    fn wall_ns(&self) -> u64 {
        time::wall_ns()
    }
}
