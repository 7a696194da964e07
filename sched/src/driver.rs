//! Interfaces to the outside: events, simulated sockets and the time. Each can be replaced by a simulation.

use std::os::fd::{BorrowedFd, OwnedFd};
use weir_sync::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sys::poll::{Epoll, Readiness, Wakener};
use weir_sys::{Address, Result, time};

/// The source of a worker's descriptor events.
pub trait Poller {
    /// Begins to report on `descriptor`, edge-triggered, with `token`.
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()>;

    /// Begins to report on a listening socket that other workers watch too: each connection wakes one of them.
    fn watch_shared(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.watch(descriptor, token)
    }

    /// Reports `descriptor` while it is readable (level-triggered).
    fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()>;

    /// Reports no more on `descriptor`.
    fn forget(&mut self, descriptor: BorrowedFd<'_>) -> Result<()>;

    /// Waits at most `timeout_ms` (`None`: for ever) and reports the events; returns their number.
    fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize>;
}

/// A simulated network, which carries the bytes of a worker's sockets instead of the kernel.
///
/// Such a socket still has a descriptor of the kernel, as a placeholder: unconnected, with a number and options like
/// any other. Results are those of the system calls of the same names; a token is the one that the descriptor was
/// registered with.
pub(crate) trait Network {
    /// Whether the process may open another descriptor.
    fn may_open(&self) -> Result<()>;

    /// Starts to connect a socket that is not registered yet; true when the connection is already established.
    fn connect(&self, socket: BorrowedFd<'_>, address: &Address) -> Result<bool>;

    /// Reports on `socket` with `token` from now on, if it is one of this network.
    fn adopt(&self, socket: BorrowedFd<'_>, token: u64) -> bool;

    /// Unregisters the socket and leaves it open.
    fn release(&self, token: u64);

    /// The socket is about to be closed.
    fn close(&self, token: u64);

    /// Receives into `space`; 0 at the end.
    fn receive(&self, token: u64, space: &mut [u8]) -> Result<usize>;

    /// Copies the bytes that [`Network::receive`] would return, without removing them.
    fn peek(&self, token: u64, space: &mut [u8]) -> Result<usize>;

    /// Sends as many bytes as fit.
    fn send(&self, token: u64, bytes: &[u8]) -> Result<usize>;

    /// How much sends take now, one after the other: at least one byte.
    fn room(&self, token: u64) -> Result<usize>;

    /// Sends no more.
    fn shutdown_write(&self, token: u64) -> Result<()>;

    /// Takes the pending error of a socket and clears it.
    fn take_error(&self, token: u64) -> Result<()>;

    /// A connection that waits at a listening socket.
    fn accept(&self, token: u64) -> Result<(OwnedFd, Address)>;
}

/// The source of a worker's time.
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

/// The wake-up of a worker that waits in its poller.
pub(crate) enum WorkerBell {
    /// An event counter that its poller watches.
    Kernel(Wakener),
    /// A mark that a simulation looks at.
    Simulated(AtomicBool),
}

impl WorkerBell {
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
