//! Settings of this process, mostly applied once at startup: identity, limits, root directory, CPU affinity.

use crate::{Errno, Result};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::CpuSet;
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

/// Replaces the supplementary groups of all threads with `groups` (`setgroups`).
pub fn set_groups(groups: &[u32]) -> Result<()> {
    // SAFETY: pointer and length describe the slice.
    status(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) }).map(drop)
}

/// Sets the group ID of all threads (`setgid`).
pub fn set_group(group: u32) -> Result<()> {
    // SAFETY: touches no memory; the C library applies it to all threads.
    status(unsafe { libc::setgid(group) }).map(drop)
}

/// Sets the user ID of all threads (`setuid`).
pub fn set_user(user: u32) -> Result<()> {
    // SAFETY: touches no memory; the C library applies it to all threads.
    status(unsafe { libc::setuid(user) }).map(drop)
}

/// The effective user ID.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The process ID.
pub fn id() -> u32 {
    std::process::id()
}

/// Exits with `status` (`_exit`) after flushing stdout. Does not run `atexit` handlers of libraries, because they may need memory
/// or race with threads that still run.
pub fn end(status: u8) -> ! {
    // The reader may have closed the pipe.
    let _ = std::io::stdout().flush();
    // SAFETY: touches no memory of the program.
    unsafe { libc::_exit(libc::c_int::from(status)) }
}

/// The kernel's thread ID of the calling thread (`gettid`), unique on the machine while the thread lives.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Whether a thread of this process sleeps in the kernel (state S or D). `None` if `/proc` cannot be read.
pub fn thread_sleeps(thread: u32) -> Option<bool> {
    let line = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The state follows the thread's name in parentheses. The name itself may contain parentheses.
    let state = line.rsplit_once(") ")?.1;
    Some(state.starts_with(['S', 'D']))
}

/// Checks whether the process may switch to this root directory ([`change_root`]), group and user. Sets each effective
/// ID and restores it. Enters the root directory without `chroot` and returns. The error contains the refused part and
/// the reason.
///
/// Call it while the process is single-threaded. Other threads could observe the temporary identity or current directory.
pub fn rehearse_identity(
    user: Option<u32>,
    group: Option<u32>,
    root: Option<&OwnedFd>,
) -> std::result::Result<(), (IdentityRefusal, Errno)> {
    if let Some(root) = root {
        let refused = |errno| (IdentityRefusal::Root, errno);
        let here = current_directory().map_err(refused)?;
        // `fchdir` needs the same permissions as `chroot`, which also requires CAP_SYS_CHROOT.
        let entered = return_to(root);
        return_to(here).and(entered).map_err(refused)?;
        let held = crate::capability::held().map_err(refused)?;
        if !held.effective.contains(crate::capability::Capabilities::SYS_CHROOT) {
            return Err(refused(Errno::PERM));
        }
    }
    if let Some(group) = group {
        let refused = |errno| (IdentityRefusal::Group, errno);
        if effective_user() == 0 {
            let groups = rustix::process::getgroups().map_err(refused)?;
            let groups: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
            set_groups(&groups).map_err(refused)?;
        }
        let before = rustix::process::getegid().as_raw();
        set_effective_group(group).and_then(|()| set_effective_group(before)).map_err(refused)?;
    }
    if let Some(user) = user {
        let refused = |errno| (IdentityRefusal::User, errno);
        let before = effective_user();
        set_effective_user(user).and_then(|()| set_effective_user(before)).map_err(refused)?;
    }
    Ok(())
}

/// The refused part of a new identity ([`rehearse_identity`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityRefusal {
    Root,
    Group,
    User,
}

/// Keeps the real and the saved group ID, so that the former group can be restored.
fn set_effective_group(group: u32) -> Result<()> {
    // SAFETY: touches no memory; the C library applies it to all threads.
    status(unsafe { libc::setegid(group) }).map(drop)
}

/// Keeps the real and the saved user ID, so that the former user can be restored.
fn set_effective_user(user: u32) -> Result<()> {
    // SAFETY: touches no memory; the C library applies it to all threads.
    status(unsafe { libc::seteuid(user) }).map(drop)
}

/// Makes `directory` ([`open_directory`]) the root and the current directory.
pub fn change_root(directory: &OwnedFd) -> Result<()> {
    return_to(directory)?;
    rustix::process::chroot(".")
}

/// Opens a directory with `O_PATH`, for [`change_root`] and [`return_to`].
pub fn open_directory(path: &Path) -> Result<OwnedFd> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
    rustix::fs::open(path, flags, MODE)
}

/// Enables or disables core dumps, also after a change of user (`PR_SET_DUMPABLE`).
pub fn set_dumpable(dumpable: bool) -> Result<()> {
    let behavior = if dumpable { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
    rustix::process::set_dumpable_behavior(behavior)
}

/// Disables transparent huge pages for this process and its descendants, across fork and exec.
///
/// With transparent huge pages always on, one touched byte occupies 2 MB, so the memory cost of small objects in a heap could
/// not be measured.
pub fn use_small_pages() -> Result<()> {
    rustix::thread::disable_transparent_huge_pages(true)
}

/// The limits of a resource. `None` means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLimit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// The maximum to which an unprivileged process may raise `soft`.
    pub hard: Option<u64>,
}

/// Limit on open descriptors (`RLIMIT_NOFILE`).
pub fn descriptor_limit() -> ResourceLimit {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    ResourceLimit { soft: limit.current, hard: limit.maximum }
}

/// Limit on address space in bytes (`RLIMIT_AS`). `None` means unlimited.
pub fn address_space_limit() -> Option<u64> {
    rustix::process::getrlimit(Resource::As).current
}

/// Limit on private writable mappings in bytes (`RLIMIT_DATA`). `None` means unlimited.
pub fn data_limit() -> Option<u64> {
    rustix::process::getrlimit(Resource::Data).current
}

/// Sets the limit on open descriptors (`RLIMIT_NOFILE`).
pub fn set_descriptor_limit(limit: ResourceLimit) -> Result<()> {
    set_limit(Resource::Nofile, limit)
}

/// Raises the limits on the size of core files and of other files to their hard limits.
pub fn lift_file_limits() {
    for resource in [Resource::Core, Resource::Fsize] {
        if set_limit(resource, ResourceLimit { soft: None, hard: None }).is_err() {
            let hard = rustix::process::getrlimit(resource).maximum;
            // A process may always raise its soft limit to its hard limit.
            let _ = set_limit(resource, ResourceLimit { soft: hard, hard });
        }
    }
}

fn set_limit(resource: Resource, limit: ResourceLimit) -> Result<()> {
    rustix::process::setrlimit(resource, Rlimit { current: limit.soft, maximum: limit.hard })
}

/// CPU affinity of the calling thread.
pub fn processors() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&processor| set.is_set(processor)).collect())
}

/// Online processors (`/sys/devices/system/cpu/online`). Empty if the file cannot be read.
pub fn online_processors() -> std::collections::BTreeSet<usize> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some(first.parse().ok()?..=last.parse().ok().filter(|&last: &usize| last < CpuSet::MAX_CPU)?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Binds the calling thread to `processors`.
pub fn set_processors(processors: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &processor in processors {
        if processor >= CpuSet::MAX_CPU {
            return Err(Errno::INVAL);
        }
        set.set(processor);
    }
    rustix::thread::sched_setaffinity(None, &set)
}

/// Sets the calling thread's niceness to 5. Errors are ignored.
pub fn give_way() {
    let _ = set_niceness(NICENESS);
}

/// Niceness of the calling thread, from -20 (highest priority) to 19.
pub fn niceness() -> Result<i32> {
    rustix::process::getpriority_process(None)
}

/// Sets the niceness of the calling thread. Threads and programs started later inherit it. A lower value requires CAP_SYS_NICE.
pub fn set_niceness(niceness: i32) -> Result<()> {
    // On Linux this call affects a single thread. `None` means the calling thread.
    rustix::process::setpriority_process(None, niceness)
}

/// About a quarter of a CPU in competition with a thread of niceness 0. A niceness of 19 gave a hundredth, and waiters
/// for the thread's result timed out.
const NICENESS: i32 = 5;

/// Sets `no_new_privs` for the calling thread and the threads it starts. The set-user-ID bit and the file capabilities
/// of executed programs are ignored from then on. Irreversible.
pub fn gain_no_privileges() -> Result<()> {
    rustix::thread::set_no_new_privs(true)
}

/// Forbids the creation of processes and threads (`RLIMIT_NPROC` 0). The kernel does not enforce it for root or with
/// CAP_SYS_ADMIN or CAP_SYS_RESOURCE.
pub fn create_no_processes() -> Result<()> {
    set_limit(Resource::Nproc, ResourceLimit { soft: Some(0), hard: Some(0) })
}

/// The result of a fork in the parent or the child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The original process, with the process ID of the child.
    Parent(u32),
    Child,
}

/// Forks the process. Fails with [`Errno::BUSY`] unless the process is single-threaded.
pub fn fork() -> Result<Fork> {
    if thread_count() != 1 {
        return Err(Errno::BUSY);
    }
    // SAFETY: with a single thread the child is a whole copy; no lock is held by a thread that it lacks.
    let child = status(unsafe { libc::fork() })?;
    if child == 0 {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    Ok(if child == 0 { Fork::Child } else { Fork::Parent(child as u32) })
}

/// The forks between the first process and this one. A fork leaves timers behind, for example: their owners compare this number.
#[inline]
pub fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Starts a new session without a controlling terminal (`setsid`).
pub fn start_session() -> Result<()> {
    rustix::process::setsid().map(drop)
}

/// `/dev/null`, opened before the change of the root directory, which may lack it.
#[derive(Debug)]
pub struct NullDevice(OwnedFd);

impl NullDevice {
    /// Opens `/dev/null` for reading and writing.
    pub fn open() -> Result<Self> {
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC;
        rustix::fs::open(c"/dev/null", flags, MODE).map(Self)
    }

    /// Redirects standard input, output and error to `/dev/null`.
    pub fn replace_standard_streams(self) -> Result<()> {
        for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: both numbers are descriptors; the standard library expects these three to be replaceable.
            status(unsafe { libc::dup2(self.0.as_raw_fd(), stream) })?;
        }
        Ok(())
    }
}

impl AsFd for NullDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor of the current directory, for [`return_to`].
pub fn current_directory() -> Result<OwnedFd> {
    open_directory(Path::new("."))
}

/// Changes the current directory to `directory` (`fchdir`).
pub fn return_to(directory: impl AsFd) -> Result<()> {
    rustix::process::fchdir(directory)
}

/// Duplicates a descriptor with close-on-exec.
pub fn duplicate(descriptor: impl AsFd) -> Result<OwnedFd> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, 0)
}

/// Takes ownership of an inherited descriptor without an owner in this process (`fd@N`, systemd sockets). Fails if it
/// is not open. Callers take each number once, at startup.
pub fn inherited_descriptor(number: i32) -> Result<OwnedFd> {
    // SAFETY: touches no memory; only checks whether the descriptor is open.
    status(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    // SAFETY: the descriptor is open, and by this function's contract it is not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Duplicates a descriptor known only by number (`fd@N` as a log target), with close-on-exec. The original may have an
/// owner, since it is only duplicated. Fails if it is not open.
pub fn duplicate_number(number: i32) -> Result<OwnedFd> {
    // SAFETY: touches no memory; makes a new descriptor or fails.
    let duplicate = status(unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the kernel made it just now, so it is not owned elsewhere.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

/// The sockets that the service manager opened for this process, or for its parent (systemd, sd_listen_fds): those from
/// number 3 on, if the variables name it. They are duplicated: the originals stay where a configuration may name them.
pub fn activated_sockets(variable: impl Fn(&str) -> Option<String>) -> Vec<OwnedFd> {
    let number = |name: &str| variable(name)?.parse::<u32>().ok();
    let parent = rustix::process::getppid().map(|parent| parent.as_raw_nonzero().get() as u32);
    let ours = number("LISTEN_PID").is_some_and(|process| process == id() || Some(process) == parent);
    let count = number("LISTEN_FDS").filter(|_| ours).unwrap_or(0).min(MOST_ACTIVATED);
    (0..count as i32).filter_map(|at| duplicate_number(FIRST_ACTIVATED + at).ok()).collect()
}

/// The first inherited descriptor: the standard streams precede it (sd_listen_fds(3)).
const FIRST_ACTIVATED: i32 = 3;
/// Maximum number of sockets to take over. More than any unit file has.
const MOST_ACTIVATED: u32 = 1024;

/// Closes every descriptor of this process but the standard streams and `kept`. For a forked process with one task of its own, which
/// must not hold the sockets of its parent.
pub fn close_all_but(kept: &OwnedFd) -> Result<()> {
    let number = kept.as_raw_fd() as u32;
    for (first, last) in [(3, number - 1), (number + 1, u32::MAX)] {
        if first <= last {
            close_range(first, last)?;
        }
    }
    Ok(())
}

fn close_range(first: u32, last: u32) -> Result<()> {
    // SAFETY: touches no memory. By the contract of `close_all_but`, the process uses none of these descriptors afterwards.
    status(unsafe { libc::close_range(first, last, 0) }).map(drop)
}

/// Keeps a descriptor open (or not) in a program that this process executes.
pub fn set_inheritable(descriptor: impl AsFd, inheritable: bool) -> Result<()> {
    let flags = if inheritable { rustix::io::FdFlags::empty() } else { rustix::io::FdFlags::CLOEXEC };
    rustix::io::fcntl_setfd(descriptor, flags)
}

/// The number of threads of the process; 0 if `/proc` cannot be read.
fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Turns the C convention (-1 and `errno`) into a result.
pub(crate) fn status(value: libc::c_int) -> Result<libc::c_int> {
    if value == -1 {
        let error = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        return Err(Errno::from_raw_os_error(error));
    }
    Ok(value)
}

const MODE: rustix::fs::Mode = rustix::fs::Mode::empty();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forking_a_process_with_threads_returns_ebusy() {
        // The test runner and this test are two threads at least.
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(fork(), Err(Errno::BUSY)));
        });
    }

    #[test]
    fn a_running_thread_is_not_reported_as_sleeping() {
        assert_eq!(thread_sleeps(thread_id()), Some(false));
        assert_eq!(thread_sleeps(u32::MAX), None);
    }

    #[test]
    fn a_thread_can_be_bound_to_processors() {
        let processors = processors().expect("known");
        assert!(!processors.is_empty());
        assert_eq!(set_processors(&processors[..1]), Ok(()));
        assert_eq!(super::processors(), Ok(processors[..1].to_vec()));
        assert_eq!(set_processors(&[usize::MAX]), Err(Errno::INVAL));
    }

    #[test]
    fn niceness_is_changed_for_one_thread_only() {
        let apart = std::thread::spawn(|| {
            let before = niceness().expect("known");
            (set_niceness(before + 1), niceness(), before)
        });
        let (changed, after, before) = apart.join().expect("no panic");
        assert_eq!((changed, after), (Ok(()), Ok(before + 1)));
        assert_eq!(niceness(), Ok(before), "of one thread only");
    }

    #[test]
    fn the_soft_descriptor_limit_is_within_the_hard_limit() {
        let limit = descriptor_limit();
        assert!(limit.hard.is_none_or(|hard| limit.soft.is_some_and(|soft| soft <= hard)));
        assert_eq!(set_descriptor_limit(limit), Ok(()));
    }

    #[test]
    fn rehearsing_an_invalid_user_or_group_fails() {
        let (user, group) = (effective_user(), rustix::process::getegid().as_raw());
        assert_eq!(rehearse_identity(Some(user), Some(group), None), Ok(()));
        assert_eq!(effective_user(), user);
        // An invalid ID, which means "unchanged".
        let refused = rehearse_identity(Some(u32::MAX), None, None);
        assert!(refused.is_ok() || refused == Err((IdentityRefusal::User, Errno::INVAL)), "{refused:?}");
        assert_eq!(open_directory(Path::new("/dev/null")).err(), Some(Errno::NOTDIR));
    }

    #[test]
    fn inheriting_a_closed_descriptor_returns_ebadf() {
        assert_eq!(inherited_descriptor(1_000_000).err(), Some(Errno::BADF));
        assert_eq!(duplicate_number(1_000_000).err(), Some(Errno::BADF));
        assert_eq!(duplicate_number(-1).err(), Some(Errno::BADF));
    }
}
