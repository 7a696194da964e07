//! Child programs: started with `posix_spawn`, awaited through a pidfd, killed with their process group.
//!
//! ```text
//!   start ──► runs ──► ended: its descriptor is readable ──► exit
//!              │
//!              └─ dropped ──► killed, with its group; the next start reaps it
//! ```
//! A program starts in a process group of its own, with all signals unblocked and at their defaults, and with
//! `/dev/null` as its standard streams. It does not inherit other descriptors, because all are close-on-exec.
//! [`output`] runs a program and reads its output.

use crate::child::{Exit, pointers, strings};
use crate::process::NullDevice;
use crate::{Errno, Result};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A program to run: the file, its arguments (the first is its name), and its environment (`NAME=value` each).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Invocation {
    /// Path of the file. `PATH` is not searched.
    pub file: Vec<u8>,
    pub words: Vec<Vec<u8>>,
    pub environment: Vec<Vec<u8>>,
}

/// A started program. Dropping it kills the program.
#[derive(Debug)]
pub struct Program {
    process: Pid,
    /// A pidfd, which is readable once the process has ended.
    end: OwnedFd,
    /// Whether the process was reaped.
    buried: bool,
}

/// Programs killed and not reaped yet.
static LEFT: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
/// Maximum number of killed programs that have not ended. Beyond it, starts fail.
const MOST_LEFT: usize = 64;

impl Program {
    /// Starts a program. Blocks the calling thread until the program is executed or has failed to.
    ///
    /// # Errors
    /// The kernel's error for the file or the new process. [`Errno::AGAIN`] while too many killed programs have not ended.
    pub fn start(invocation: &Invocation, streams: &NullDevice) -> Result<Program> {
        if bury() >= MOST_LEFT {
            return Err(Errno::AGAIN);
        }
        Program::start_with(invocation, [streams.as_fd(); 3])
    }

    /// Starts a program with these standard streams: stdin, stdout, stderr.
    fn start_with(invocation: &Invocation, streams: [BorrowedFd<'_>; 3]) -> Result<Program> {
        let process = spawn(invocation, streams)?;
        match rustix::process::pidfd_open(process, PidfdFlags::NONBLOCK) {
            Ok(end) => Ok(Program { process, end, buried: false }),
            Err(error) => {
                end(process);
                Err(error)
            }
        }
    }

    /// Exit status, reaping the process. `None` while it runs.
    pub fn exit(&mut self) -> Result<Option<Exit>> {
        let exit = take_note(self.process)?;
        self.buried |= exit.is_some();
        Ok(exit)
    }

    /// A descriptor that becomes readable when the program ends.
    pub fn end_descriptor(&self) -> Result<OwnedFd> {
        crate::process::duplicate(&self.end)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if !self.buried {
            end(self.process);
        }
    }
}

/// The reason why the output of a program is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputError {
    /// The start or the read failed.
    System(Errno),
    /// The time limit was exceeded. The program was killed.
    TooLate,
    /// The size limit was exceeded. The program was killed.
    TooMuch,
    /// The program ended with an error or by a signal.
    Failed(Exit),
}

impl From<Errno> for OutputError {
    fn from(errno: Errno) -> Self {
        OutputError::System(errno)
    }
}

/// Runs a program and returns its stdout, at most `most` bytes, within `time`. Its stdin is `/dev/null`, its stderr is
/// ours. Only for threads that may block.
///
/// Does not wait for EOF on stdout, which background processes of the program may keep open. Only its own exit counts.
///
/// # Errors
/// See [`OutputError`].
pub fn output(
    invocation: &Invocation,
    most: usize,
    time: Duration,
) -> std::result::Result<Vec<u8>, OutputError> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let deadline = Instant::now() + time;
    let nothing = NullDevice::open()?;
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::NONBLOCK)?;
    let errors = std::io::stderr();
    let streams = [nothing.as_fd(), writer.as_fd(), errors.as_fd()];
    let mut program = Program::start_with(invocation, streams)?;
    drop(writer);
    let end = program.end_descriptor()?;
    let mut printed = Vec::new();
    let mut is_open = true;
    loop {
        // Check for the exit before reading, so that all output printed before it is read.
        let exit = program.exit()?;
        while is_open {
            let mut part = [0; 512];
            match rustix::io::read(&reader, &mut part) {
                Ok(0) => is_open = false,
                Ok(read) => printed.extend_from_slice(&part[..read]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno.into()),
            }
            if printed.len() > most {
                return Err(OutputError::TooMuch);
            }
        }
        match exit {
            Some(Exit::Code(0)) => return Ok(printed),
            Some(exit) => return Err(OutputError::Failed(exit)),
            None => {}
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(OutputError::TooLate);
        }
        let limit = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut waited = vec![PollFd::new(&end, PollFlags::IN)];
        if is_open {
            waited.push(PollFd::new(&reader, PollFlags::IN));
        }
        match poll(&mut waited, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Kills a process and its group. The process ID is not reused until it is reaped.
fn end(process: Pid) {
    // Fails if the program has left its group (ESRCH) or runs as another user (EPERM). Then it keeps running, and `bury` reaps
    // it later.
    let _ = rustix::process::kill_process_group(process, Signal::KILL);
    if matches!(take_note(process), Ok(None)) {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}

/// Reaps killed programs. Returns the number of those that have not ended yet.
fn bury() -> usize {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.retain(|process| matches!(take_note(*process), Ok(None)));
    left.len()
}

fn take_note(process: Pid) -> Result<Option<Exit>> {
    let ended = rustix::process::waitpid(Some(process), WaitOptions::NOHANG)?;
    let exit = ended.map(|(_, status)| match status.terminating_signal() {
        Some(signal) => Exit::Signal(signal),
        None => Exit::Code(status.exit_status().unwrap_or(0)),
    });
    Ok(exit)
}

/// Starts the process without copying this one. The child shares the memory until it executes the program, while the calling
/// thread waits (like `vfork`).
fn spawn(invocation: &Invocation, streams: [BorrowedFd<'_>; 3]) -> Result<Pid> {
    let file = std::ffi::CString::new(invocation.file.as_slice()).map_err(|_| Errno::INVAL)?;
    let words = strings(&invocation.words).ok_or(Errno::INVAL)?;
    let environment = strings(&invocation.environment).ok_or(Errno::INVAL)?;
    let (words, environment) = (pointers(&words), pointers(&environment));
    let actions = Actions::redirecting(streams)?;
    let attributes = Attributes::clean()?;
    let mut process = 0;
    // SAFETY: the file is a C string, both lists are C strings that end in a null pointer, actions and attributes are initialised;
    // all outlive the call, which does not change the lists.
    let status = unsafe {
        libc::posix_spawn(
            &mut process,
            file.as_ptr(),
            &actions.0,
            &attributes.0,
            words.as_ptr().cast::<*mut libc::c_char>(),
            environment.as_ptr().cast::<*mut libc::c_char>(),
        )
    };
    error_of(status)?;
    Pid::from_raw(process).ok_or(Errno::IO)
}

/// Descriptor operations in the child before exec.
struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    /// Redirects the standard streams to `streams`.
    fn redirecting(streams: [BorrowedFd<'_>; 3]) -> Result<Self> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: initialises the value behind the pointer.
        error_of(unsafe { libc::posix_spawn_file_actions_init(actions.as_mut_ptr()) })?;
        // SAFETY: initialised by the call above.
        let mut actions = Actions(unsafe { actions.assume_init() });
        let standard = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];
        for (from, stream) in streams.iter().zip(standard) {
            let from = from.as_raw_fd();
            // SAFETY: the actions are initialised.
            error_of(unsafe { libc::posix_spawn_file_actions_adddup2(&mut actions.0, from, stream) })?;
        }
        Ok(actions)
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used any more.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// Signal settings and process group of the child.
struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    /// A process group of its own, with every signal at the kernel's default and unblocked.
    fn clean() -> Result<Self> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: initialises the value behind the pointer.
        error_of(unsafe { libc::posix_spawnattr_init(attributes.as_mut_ptr()) })?;
        // SAFETY: initialised by the call above.
        let mut attributes = Attributes(unsafe { attributes.assume_init() });
        let flags = libc::POSIX_SPAWN_SETPGROUP | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK;
        // SAFETY: the attributes are initialised.
        error_of(unsafe { libc::posix_spawnattr_setflags(&mut attributes.0, flags as libc::c_short) })?;
        // SAFETY: the attributes are initialised. 0 is a group of its own.
        error_of(unsafe { libc::posix_spawnattr_setpgroup(&mut attributes.0, 0) })?;
        let mut none = MaybeUninit::uninit();
        // SAFETY: initialises the set.
        unsafe { libc::sigemptyset(none.as_mut_ptr()) };
        // SAFETY: the attributes and the set are initialised.
        error_of(unsafe { libc::posix_spawnattr_setsigmask(&mut attributes.0, none.as_ptr()) })?;
        let mut all = MaybeUninit::uninit();
        // SAFETY: initialises the set.
        unsafe { libc::sigfillset(all.as_mut_ptr()) };
        // SAFETY: the attributes and the set are initialised.
        error_of(unsafe { libc::posix_spawnattr_setsigdefault(&mut attributes.0, all.as_ptr()) })?;
        Ok(attributes)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used any more.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

/// Converts the result of a `posix_spawn` function, which is an error number or 0.
fn error_of(status: libc::c_int) -> Result<()> {
    if status == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(status)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    fn start(script: &str) -> Program {
        let words = ["sh", "-c", script].map(|word| word.as_bytes().to_vec()).to_vec();
        let environment = vec![b"GREETING=hello".to_vec()];
        let invocation = Invocation { file: b"/bin/sh".to_vec(), words, environment };
        Program::start(&invocation, &NullDevice::open().expect("a device")).expect("a shell")
    }

    /// The exit of the program, and whether its descriptor reported it.
    fn wait(mut program: Program) -> (Exit, bool) {
        let descriptor = program.end_descriptor().expect("a descriptor");
        let mut poll = [rustix::event::PollFd::new(&descriptor, rustix::event::PollFlags::IN)];
        // A signal of another test may interrupt it.
        let readable = loop {
            match rustix::event::poll(&mut poll, None) {
                Err(rustix::io::Errno::INTR) => {}
                result => break result.expect("a poll"),
            }
        };
        let exit = program.exit().expect("a child");
        (exit.expect("it ended"), readable == 1)
    }

    fn printed(script: &str, time: Duration) -> std::result::Result<Vec<u8>, OutputError> {
        let words = ["sh", "-c", script].map(|word| word.as_bytes().to_vec()).to_vec();
        output(&Invocation { file: b"/bin/sh".to_vec(), words, environment: Vec::new() }, 2000, time)
    }

    #[test]
    fn the_output_of_a_program_is_read_within_size_and_time_limits() {
        let long = Duration::from_secs(60);
        assert_eq!(printed("printf abc; /bin/sleep 0.1; printf def", long), Ok(b"abcdef".to_vec()));
        assert_eq!(printed("cat", long), Ok(Vec::new()), "its input has ended");
        assert_eq!(printed("printf abc; exit 3", long), Err(OutputError::Failed(Exit::Code(3))));
        assert_eq!(printed("printf '%2000d' 1", long).map(|bytes| bytes.len()), Ok(2000));
        assert_eq!(printed("printf '%2001d' 1", long), Err(OutputError::TooMuch));
        assert_eq!(printed("while :; do echo word; done", long), Err(OutputError::TooMuch));
        assert_eq!(printed("exec /bin/sleep 60", Duration::from_millis(50)), Err(OutputError::TooLate));
        // Without output, the program has not ended.
        let silent = "exec >&-; exec /bin/sleep 60";
        assert_eq!(printed(silent, Duration::from_millis(50)), Err(OutputError::TooLate));
    }

    #[test]
    fn reading_program_output_does_not_wait_for_its_background_processes() {
        let begin = Instant::now();
        assert_eq!(printed("/bin/sleep 5 & printf abc", Duration::from_secs(60)), Ok(b"abc".to_vec()));
        assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
    }

    #[test]
    fn reading_the_output_of_a_missing_program_returns_enoent() {
        let missing = Invocation { file: b"/nonexistent".to_vec(), ..Invocation::default() };
        assert_eq!(output(&missing, 10, Duration::from_secs(1)), Err(OutputError::System(Errno::NOENT)));
    }

    #[test]
    fn the_process_descriptor_reports_exit_codes_and_signals() {
        assert_eq!(wait(start("exit 3")), (Exit::Code(3), true));
        assert_eq!(wait(start("kill -TERM $$")), (Exit::Signal(libc::SIGTERM), true));
    }

    #[test]
    fn a_program_gets_its_own_environment_and_group_without_our_descriptors() {
        assert_eq!(wait(start(r#"test "$GREETING$HOME" = hello"#)).0, Exit::Code(0));
        // Field 5 is the group.
        assert_eq!(
            wait(start(r#"read -r a b c d group rest < /proc/$$/stat; test "$group" = $$"#)).0,
            Exit::Code(0)
        );
        let _ours = std::fs::File::open("/dev/zero").expect("a device");
        let null_only = r#"for f in 0 1 2; do test "$(readlink /proc/$$/fd/$f)" = /dev/null || exit 1; done
            ! readlink /proc/$$/fd/* | grep -q zero"#;
        assert_eq!(wait(start(&format!("PATH=/bin:/usr/bin; {null_only}"))).0, Exit::Code(0));
    }

    #[test]
    fn dropping_a_program_kills_it_with_its_children() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        // Both the shell and its child hold the pipe.
        let path = format!("/proc/{}/fd/{}", std::process::id(), writer.as_raw_fd());
        let program = start(&format!("exec 3>{path}; sleep 60 & echo ready >&3; wait"));
        let mut line = [0; 6];
        assert_eq!(rustix::io::read(&reader, &mut line), Ok(6));
        drop((program, writer));
        let began = Instant::now();
        assert_eq!(rustix::io::read(&reader, &mut line), Ok(0), "nobody holds it any more");
        assert!(began.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn starting_a_file_that_is_not_a_program_fails() {
        let null = NullDevice::open().expect("a device");
        let start = |file: &[u8]| {
            let invocation = Invocation { file: file.to_vec(), ..Invocation::default() };
            Program::start(&invocation, &null).err()
        };
        assert_eq!(start(b"/nonexistent"), Some(Errno::NOENT));
        assert_eq!(start(b"/etc/passwd"), Some(Errno::ACCESS));
        assert_eq!(start(b"a\0b"), Some(Errno::INVAL));
    }
}
