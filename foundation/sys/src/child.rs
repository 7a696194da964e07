//! Reaping child processes, and executing another program.

use crate::{Errno, Result};
use rustix::process::WaitOptions;
use std::ffi::CString;
use std::fmt;
use std::os::fd::OwnedFd;

/// The exit of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Exited with this status.
    Code(i32),
    Signal(i32),
}

impl Exit {
    /// The status as in a shell: 128 plus the signal number for a signal.
    pub fn status(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => 128 + signal,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Exit::Code(_) => f.write_str("Exit"),
            Exit::Signal(signal) => match SIGNALS.iter().find(|(number, _)| *number == signal) {
                Some((_, name)) => f.write_str(name),
                None => write!(f, "Signal {signal}"),
            },
        }
    }
}

/// Reaps one ended child. Returns its process ID and exit. `None` if no child has ended.
pub fn reap() -> Result<Option<(u32, Exit)>> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((child, status))) => {
                let exit = match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Exit::Code(code),
                    (None, Some(signal)) => Exit::Signal(signal),
                    // Stopped or continued: the child still lives.
                    (None, None) => continue,
                };
                return Ok(Some((child.as_raw_nonzero().get() as u32, exit)));
            }
            Ok(None) | Err(Errno::CHILD) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Executes another program, found in `PATH` like by a shell, with these arguments (the first is its name) and this
/// environment (`NAME=value` each). Descriptors without close-on-exec stay open. Blocked and pending signals are
/// preserved. Returns only on failure.
pub fn execute(program: &[u8], words: &[Vec<u8>], environment: &[Vec<u8>]) -> Errno {
    let Ok(program) = CString::new(program) else { return Errno::INVAL };
    let (Some(words), Some(environment)) = (strings(words), strings(environment)) else {
        return Errno::INVAL;
    };
    let (words, environment) = (pointers(&words), pointers(&environment));
    // SAFETY: the name is a C string, and both lists are C strings that end in a null pointer; all outlive the call.
    unsafe { libc::execvpe(program.as_ptr(), words.as_ptr(), environment.as_ptr()) };
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// The strings as C strings. `None` if one contains a zero byte.
pub(crate) fn strings(texts: &[Vec<u8>]) -> Option<Vec<CString>> {
    texts.iter().map(|text| CString::new(text.as_slice()).ok()).collect()
}

/// A null-terminated list of pointers into `texts`.
pub(crate) fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

/// An anonymous file in memory (memfd), freed with its last descriptor.
pub fn memory_file(name: &str) -> Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, rustix::fs::MemfdFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::APPEND)?;
    Ok(file)
}

/// The C library's descriptions of signals that end processes.
const SIGNALS: [(i32, &str); 15] = [
    (libc::SIGHUP, "Hangup"),
    (libc::SIGINT, "Interrupt"),
    (libc::SIGQUIT, "Quit"),
    (libc::SIGILL, "Illegal instruction"),
    (libc::SIGTRAP, "Trace/breakpoint trap"),
    (libc::SIGABRT, "Aborted"),
    (libc::SIGBUS, "Bus error"),
    (libc::SIGFPE, "Floating point exception"),
    (libc::SIGKILL, "Killed"),
    (libc::SIGUSR1, "User defined signal 1"),
    (libc::SIGSEGV, "Segmentation fault"),
    (libc::SIGUSR2, "User defined signal 2"),
    (libc::SIGPIPE, "Broken pipe"),
    (libc::SIGALRM, "Alarm clock"),
    (libc::SIGTERM, "Terminated"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_status_is_numbered_as_by_a_shell() {
        assert_eq!((Exit::Code(3).status(), Exit::Code(3).to_string()), (3, "Exit".into()));
        let crash = Exit::Signal(libc::SIGSEGV);
        assert_eq!((crash.status(), crash.to_string()), (139, "Segmentation fault".into()));
        assert_eq!(Exit::Signal(60).to_string(), "Signal 60");
    }

    #[test]
    fn executing_a_missing_program_returns_enoent() {
        let nowhere = b"/nonexistent/program".as_slice();
        assert_eq!(execute(nowhere, &[nowhere.to_vec()], &[]), Errno::NOENT);
        assert_eq!(execute(b"a\0b", &[], &[]), Errno::INVAL);
        assert_eq!(execute(nowhere, &[b"a\0".to_vec()], &[]), Errno::INVAL);
    }

    #[test]
    fn writes_to_a_memory_file_append() {
        use std::io::Write;
        use std::os::unix::fs::FileExt;
        let mut file = std::fs::File::from(memory_file("test").expect("memory"));
        let mut other = file.try_clone().expect("a descriptor");
        file.write_all(b"one ").expect("memory");
        other.write_all(b"two").expect("memory");
        let mut text = [0; 7];
        file.read_exact_at(&mut text, 0).expect("both are there");
        assert_eq!(&text, b"one two");
    }
}
