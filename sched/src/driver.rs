//! Interfaces to the system: events, sockets and clocks. A simulation can replace each.

use std::os::fd::{BorrowedFd, OwnedFd};
use weir_sync::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sys::poll::{Epoll, Readiness, Wakener};
use weir_sys::{Address, Result, time};

/// The source of a worker's descriptor events.
pub trait Poller {
    /// Registers `descriptor`, edge-triggered. Its events are reported with `token`.
    fn watch(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()>;

    /// Registers a listening socket that other workers watch too. Each connection wakes one of them.
    fn watch_shared(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()> {
        self.watch(descriptor, token)
    }

    /// Registers `descriptor`, level-triggered: it is reported while it is readable.
    fn watch_level(&mut self, descriptor: BorrowedFd<'_>, token: u64) -> Result<()>;

    /// Unregisters `descriptor`.
    fn forget(&mut self, descriptor: BorrowedFd<'_>) -> Result<()>;

    /// Waits at most `timeout_ms` (`None`: for ever) and reports the events; returns their number.
    fn wait(&mut self, timeout_ms: Option<u64>, report: &mut dyn FnMut(u64, Readiness)) -> Result<usize>;
}

/// A simulated network, which carries the bytes of a worker's sockets instead of the kernel.
///
/// A simulated socket still has a kernel descriptor as a placeholder: unconnected, with a number and options. Results
/// equal the results of the system calls with the same names. `token` is the token with which the descriptor was
/// registered.
pub(crate) trait Network {
    /// Whether the process may open another descriptor.
    fn may_open(&self) -> Result<()>;

    /// Starts to connect a socket that is not registered yet; true when the connection is already established.
    fn connect(&self, socket: BorrowedFd<'_>, address: &Address) -> Result<bool>;

    /// Registers `socket` with `token`. False if it is not a socket of this network.
    fn adopt(&self, socket: BorrowedFd<'_>, token: u64) -> bool;

    /// Unregisters the socket and leaves it open.
    fn release(&self, token: u64);

    /// Closes the simulated socket, before its descriptor is closed.
    fn close(&self, token: u64);

    /// Receives into `space`. Returns 0 at end of file.
    fn receive(&self, token: u64, space: &mut [u8]) -> Result<usize>;

    /// Copies the bytes that [`Network::receive`] would return, without removing them.
    fn peek(&self, token: u64, space: &mut [u8]) -> Result<usize>;

    /// Sends as many bytes as fit.
    fn send(&self, token: u64, bytes: &[u8]) -> Result<usize>;

    /// Bytes that consecutive sends accept now, at least one.
    fn room(&self, token: u64) -> Result<usize>;

    /// Shuts down the sending direction.
    fn shutdown_write(&self, token: u64) -> Result<()>;

    /// Takes the pending error of a socket and clears it.
    fn take_error(&self, token: u64) -> Result<()>;

    /// Accepts a connection from a listening socket.
    fn accept(&self, token: u64) -> Result<(OwnedFd, Address)>;
}

/// The source of a worker's time.
pub trait Clock {
    /// Nanoseconds of a monotonic clock.
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
    /// An eventfd that the worker's poller watches.
    Kernel(Wakener),
    /// A flag that the simulation checks.
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
