//! Signals read from a descriptor (signalfd) instead of handled asynchronously.

use crate::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A signal number (`libc::SIGTERM`, ...).
pub type Signal = libc::c_int;

pub use libc::{
    SIGABRT, SIGBUS, SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGSEGV, SIGTERM, SIGTTIN, SIGTTOU, SIGUSR1,
    SIGUSR2, SIGWINCH, SIGXCPU,
};

/// A signalfd.
#[derive(Debug)]
pub struct SignalReader {
    descriptor: OwnedFd,
}

impl SignalReader {
    /// Blocks `signals` in the calling thread and the threads it starts later, and receives them here. Call it in the
    /// main thread before other threads exist. Otherwise a thread that does not block a signal would handle it.
    pub fn new(signals: &[Signal]) -> Result<Self> {
        let set = block(signals)?;
        // SAFETY: the set is initialised, and -1 requests a new descriptor.
        let descriptor = unsafe { libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC) };
        let descriptor = crate::process::status(descriptor)?;
        // SAFETY: the kernel just made this descriptor for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok(Self { descriptor })
    }

    /// The next pending signal, `None` without one. Of several pending signals the lowest number comes first, because the kernel
    /// does not record their order.
    pub fn next(&self) -> Result<Option<Signal>> {
        next_signal(&self.descriptor)
    }
}

/// The next pending signal of a descriptor that belonged to a [`SignalReader`].
pub fn next_signal(descriptor: impl AsFd) -> Result<Option<Signal>> {
    let mut record = [0_u8; size_of::<libc::signalfd_siginfo>()];
    match rustix::io::read(descriptor, &mut record) {
        // The record begins with `ssi_signo`, a 32-bit number.
        Ok(length) if length == record.len() => {
            let number = record[..4].try_into().expect("the range has four bytes");
            Ok(Some(u32::from_ne_bytes(number) as Signal))
        }
        Ok(_) => Err(Errno::IO),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(error) => Err(error),
    }
}

impl AsFd for SignalReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl From<SignalReader> for OwnedFd {
    fn from(reader: SignalReader) -> Self {
        reader.descriptor
    }
}

/// Unblocks all signals, before executing another program.
pub fn unblock_all() -> Result<()> {
    change_mask(libc::SIG_SETMASK, &[]).map(drop)
}

/// Ignores `signal`, process-wide.
pub fn ignore(signal: Signal) -> Result<()> {
    // SAFETY: `SIG_IGN` runs no code of ours.
    let former = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if former == libc::SIG_ERR { Err(last_error()) } else { Ok(()) }
}

/// Restores the kernel's default action for `signal`, process-wide.
pub fn restore_default(signal: Signal) -> Result<()> {
    // SAFETY: `SIG_DFL` runs no code of ours.
    let former = unsafe { libc::signal(signal, libc::SIG_DFL) };
    if former == libc::SIG_ERR { Err(last_error()) } else { Ok(()) }
}

/// Sends `signal` to a process. `false` if it does not exist, and for process 0, which would mean the caller's process group.
pub fn send(process: u32, signal: Signal) -> Result<bool> {
    let Ok(process @ 1..) = libc::pid_t::try_from(process) else { return Ok(false) };
    // SAFETY: `kill` touches no memory.
    let status = unsafe { libc::kill(process, signal) };
    match crate::process::status(status) {
        Ok(_) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Sends `signal` to a thread of this process, by the ID from [`crate::process::thread_id`]. `false` if the thread does not exist.
pub fn send_to_thread(thread: u32, signal: Signal) -> Result<bool> {
    let Ok(thread) = libc::pid_t::try_from(thread) else { return Ok(false) };
    // SAFETY: touches no memory.
    let process = unsafe { libc::getpid() };
    // SAFETY: touches no memory; a thread of another process is refused.
    let status = unsafe { libc::syscall(libc::SYS_tgkill, process, thread, signal) };
    match crate::process::status(status as libc::c_int) {
        Ok(_) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Installs a handler for `signal`, process-wide, and unblocks the signal in the calling thread. System calls that it interrupts go on, where
/// the kernel can (`man 7 signal`).
///
/// # Safety
/// The handler calls only functions that are safe in signals, and does not panic.
pub(crate) unsafe fn handle(signal: Signal, handler: extern "C" fn(Signal)) -> Result<()> {
    // SAFETY: all zeros is an action without flags and with an empty mask.
    let mut action = unsafe { std::mem::zeroed::<libc::sigaction>() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the action is complete, and the former one is not requested. The caller vouches for the handler.
    crate::process::status(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) })?;
    change_mask(libc::SIG_UNBLOCK, &[signal]).map(drop)
}

/// Installs a handler for `signal`. The thread that receives it prints its stack trace to stderr and ends the process. For a
/// watchdog that detected a stuck thread.
pub fn die_with_a_trace_on(signal: Signal) -> Result<()> {
    let handler: extern "C" fn(Signal) = last_words;
    // SAFETY: the handler never returns to the interrupted code, so inconsistent state stays unseen.
    let former = unsafe { libc::signal(signal, handler as *const () as libc::sighandler_t) };
    if former == libc::SIG_ERR { Err(last_error()) } else { Ok(()) }
}

/// A stack trace needs memory and locks that the interrupted code may hold. The handler then deadlocks, and the sender of
/// the signal ends the process.
extern "C" fn last_words(_: Signal) {
    use std::io::Write;
    let trace = std::backtrace::Backtrace::force_capture();
    let _ = writeln!(std::io::stderr(), "Where it is stuck:\n{trace}");
    std::process::abort();
}

fn block(signals: &[Signal]) -> Result<libc::sigset_t> {
    change_mask(libc::SIG_BLOCK, signals)
}

fn change_mask(how: libc::c_int, signals: &[Signal]) -> Result<libc::sigset_t> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigemptyset` initialises the whole set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    let mut set = unsafe { set.assume_init() };
    for &signal in signals {
        // SAFETY: the set is initialised; an unknown number is refused.
        crate::process::status(unsafe { libc::sigaddset(&mut set, signal) })?;
    }
    // SAFETY: the set is initialised, and the former mask is not requested.
    let error = unsafe { libc::pthread_sigmask(how, &set, std::ptr::null_mut()) };
    if error == 0 { Ok(set) } else { Err(Errno::from_raw_os_error(error)) }
}

fn last_error() -> Errno {
    Errno::from_raw_os_error(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

/// The raw descriptor, for a master that passes it on.
impl AsRawFd for SignalReader {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.descriptor.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_signal_is_read_from_the_signal_reader() {
        let reader = SignalReader::new(&[SIGWINCH]).expect("a reader");
        assert_eq!(reader.next(), Ok(None));
        // SAFETY: `raise` sends to the calling thread, which blocks this signal.
        unsafe { libc::raise(SIGWINCH) };
        assert_eq!(reader.next(), Ok(Some(SIGWINCH)));
        assert_eq!(reader.next(), Ok(None));
    }

    #[test]
    fn a_signal_can_be_sent_to_one_thread() {
        let reader = SignalReader::new(&[SIGWINCH]).expect("a reader");
        assert_eq!(send_to_thread(crate::process::thread_id(), SIGWINCH), Ok(true));
        assert_eq!(reader.next(), Ok(Some(SIGWINCH)));
        // Numbers of threads are below 2^22.
        assert_eq!(send_to_thread(1 << 30, SIGWINCH), Ok(false));
    }

    #[test]
    fn signals_to_process_groups_and_unknown_processes_are_not_sent() {
        // The first would be this test's whole group, the last is not a number of the kernel's.
        for nobody in [0, 1 << 30, u32::MAX] {
            assert_eq!(send(nobody, SIGWINCH), Ok(false), "{nobody}");
        }
        assert_eq!(send(crate::process::id(), 0), Ok(true));
    }

    #[test]
    fn an_unknown_signal_is_refused() {
        assert_eq!(SignalReader::new(&[4000]).err(), Some(Errno::INVAL));
    }
}
