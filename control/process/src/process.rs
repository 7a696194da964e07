//! Changes to the process at start: limits, background, pid file, root directory, identity.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use weir_assemble::unknown_account;
use weir_model::{Account, Chroot, CoreDump, Global};
use weir_sys::capability::{self, Capabilities, CapabilitySets};
use weir_sys::process::{self, Fork, IdentityRefusal, NullDevice, ResourceLimit};
use weir_sys::{Errno, Result, signal, socket, users};

use crate::limits::Capacity;
use crate::privileges::{self, Need};
use weir_observe::messages::Messages;

/// Raises the limit of open files to the need of `capacity`. If that fails, raises it as far as possible. Never lowers it.
/// `false` if the limit is too low and the process must not start (`strict-limits`).
pub fn raise_descriptor_limit(capacity: &Capacity, global: &Global, messages: &Messages) -> bool {
    let current = process::descriptor_limit();
    // `fd-hard-limit` does not bound a configured `ulimit-n` (manual, "fd-hard-limit").
    let bound = match global.limits.open_files {
        Some(_) => u64::MAX,
        None => u64::from(global.limits.open_files_hard.unwrap_or(u32::MAX)),
    };
    let least = u64::from(capacity.open_files_least);
    let wanted = u64::from(capacity.open_files).min(bound);
    if current.soft.is_none_or(|soft| soft >= wanted) && bound >= least {
        return true;
    }
    let hard = current.hard.map(|hard| hard.max(wanted));
    if bound >= least && process::set_descriptor_limit(ResourceLimit { soft: Some(wanted), hard }).is_ok() {
        return true;
    }
    // Without privileges the hard limit cannot be raised.
    let reachable = current.hard.unwrap_or(wanted).min(wanted);
    if current.soft.is_some_and(|soft| soft < reachable) {
        // Any soft limit up to the hard limit is allowed.
        let _ = process::set_descriptor_limit(ResourceLimit { soft: Some(reachable), hard: current.hard });
    }
    if reachable >= least {
        return true;
    }
    let text = format!(
        "Cannot raise FD limit to {least}, limit is {reachable}: {}.",
        who_wants_descriptors(capacity, global)
    );
    let fitting = capacity.fitting_maxconn;
    if global.limits.strict {
        messages.alert(format!(
            "[weir.main()] {text} weir does not start. {RAISE_DESCRIPTORS} or set 'maxconn' to {fitting} at most."
        ));
    } else {
        messages.warning(format!(
            "[weir.main()] {text} This will only support about {fitting} connections at once. {RAISE_DESCRIPTORS}."
        ));
    }
    !global.limits.strict
}

/// Warns if the automatic `maxconn` is small because the system limits the open files.
pub fn warn_of_few_descriptors(capacity: &Capacity, global: &Global, messages: &Messages) {
    let is_chosen = global.limits.open_files.is_some() || global.limits.open_files_hard.is_some();
    let hard = process::descriptor_limit().hard;
    if capacity.automatic
        && !is_chosen
        && capacity.maxconn < FEW_CONNECTIONS
        && hard.is_some_and(|hard| hard < FEW_FILES)
    {
        messages.warning(format!(
            "[weir.main()] The limit of open files ({}) allows {} connections only (automatic 'maxconn'). {RAISE_DESCRIPTORS} \
             or set 'maxconn' to this number.",
            hard.unwrap_or(0),
            capacity.maxconn
        ));
    }
}

/// Advice for raising the limit.
const RAISE_DESCRIPTORS: &str = "Raise the limit ('LimitNOFILE=' of a systemd unit, 'ulimit -Hn' of a shell)";
/// Fewer connections than this would surprise an operator without a configured limit: busy sites have more keep-alive clients.
const FEW_CONNECTIONS: u32 = 1000;
/// Two descriptors per connection, plus the fixed ones.
const FEW_FILES: u64 = 2 * FEW_CONNECTIONS as u64 + 200;

/// The settings that determine the number of descriptors, as text.
fn who_wants_descriptors(capacity: &Capacity, global: &Global) -> String {
    if let Some(files) = global.limits.open_files {
        return format!("'ulimit-n {files}' requires them");
    }
    let mut text = format!("'maxconn {}' takes two for each connection", capacity.maxconn);
    if capacity.pipes > 0 {
        let _ = write!(text, ", 'maxpipes {}' two for each pipe", capacity.pipes);
    }
    // A small number is not worth a mention.
    if global.stats_maxconn > 100 {
        let _ = write!(text, ", 'stats maxconn {}' one for each client", global.stats_maxconn);
    }
    text
}

/// The priority (nice value) of the process before and after startup.
#[derive(Clone, Copy, Debug, Default)]
pub struct Precedence {
    before: Option<i32>,
}

impl Precedence {
    /// Sets the priority for reading the configuration (`tune.renice.startup`), if configured.
    pub fn of_start(wanted: Option<i32>, messages: &Messages) -> Precedence {
        let before = wanted.and_then(|_| process::niceness().ok());
        renice("startup", wanted, messages);
        Precedence { before }
    }

    /// Sets the priority for serving (`tune.renice.runtime`), or restores the original one.
    pub fn of_service(self, wanted: Option<i32>, messages: &Messages) {
        renice("runtime", wanted.or(self.before), messages);
    }
}

fn renice(when: &str, wanted: Option<i32>, messages: &Messages) {
    if let Some(wanted) = wanted
        && let Err(errno) = process::set_niceness(wanted)
    {
        let has = process::niceness().map_or(String::new(), |has| format!(": it stays at {has}"));
        messages.warning(format!(
            "[weir.main()] 'tune.renice.{when}': cannot give the process the priority {wanted} ({errno}){has}. A lower \
             number than it has takes root, CAP_SYS_NICE or a limit of RLIMIT_NICE."
        ));
    }
}

/// The background process's link to the original process, which the shell is waiting for.
pub struct Background {
    parent: OwnedFd,
    null: NullDevice,
}

impl Background {
    /// Continues in the background. The original process waits for [`Background::ready`] and then exits with status 0, or with
    /// status 1 if this process exits first.
    pub fn enter() -> Result<Background> {
        let null = NullDevice::open()?;
        let (parent, child) = socket::stream_pair()?;
        match process::fork()? {
            Fork::Child => {
                drop(child);
                process::start_session()?;
                Ok(Background { parent, null })
            }
            Fork::Parent(_) => {
                drop(parent);
                process::end(u8::from(!wait_for_byte(&child)));
            }
        }
    }

    /// Reports that the process serves, so the original process exits. Detaches from the terminal.
    pub fn ready(self) {
        // Both descriptors are open. If the original process has exited, the report is not needed.
        let _ = self.null.replace_standard_streams();
        let _ = socket::send(&self.parent, b"R", false);
    }

    /// The null device, for the standard streams of a worker in the background.
    pub fn into_null_device(self) -> NullDevice {
        self.null
    }
}

/// Waits for one byte. `false` if the other end was closed.
pub fn wait_for_byte(socket: &OwnedFd) -> bool {
    let Ok(mut poller) = weir_sys::poll::Epoll::new(1) else { return false };
    if poller.watch_level(socket, 0).is_err() {
        return false;
    }
    let mut byte = [0];
    loop {
        match socket::receive(socket, &mut byte) {
            Ok(count) => return count == 1,
            Err(Errno::AGAIN | Errno::INTR) => drop(poller.wait(None, |_, _| {})),
            Err(_) => return false,
        }
    }
}

/// The pid file of a starting process.
#[derive(Clone, Debug)]
pub struct PidFile(PathBuf);

impl PidFile {
    /// Checks that the file is writable, without changing it. The error is a message for operators.
    pub fn check(path: &Path) -> std::result::Result<Self, String> {
        let existing = File::options().write(true).open(path);
        let checked = match existing {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                File::create_new(path).and_then(|_| std::fs::remove_file(path))
            }
            other => other.map(drop),
        };
        checked.map_err(|error| cannot_create(path, &error))?;
        Ok(PidFile(path.to_owned()))
    }

    /// Writes the process number. On failure, restores the former content.
    pub fn write(&self) -> std::result::Result<(), String> {
        let former = former_content(&self.0);
        let written = std::fs::write(&self.0, format!("{}\n", process::id()));
        if written.is_err() {
            // The former content fits, even on a full disk.
            let _ = match former {
                Some(former) => std::fs::write(&self.0, former),
                None => std::fs::remove_file(&self.0),
            };
        }
        written.map_err(|error| cannot_create(&self.0, &error))
    }
}

/// The content of a file. `None` if the file does not exist. Empty for a device.
fn former_content(path: &Path) -> Option<Vec<u8>> {
    let file = std::fs::metadata(path).ok()?;
    let mut content = Vec::new();
    if file.is_file() {
        // An unreadable file counts as empty.
        let _ = File::open(path).and_then(|file| file.take(LONGEST_PID_FILE).read_to_end(&mut content));
    }
    Some(content)
}

fn cannot_create(path: &Path, error: &io::Error) -> String {
    format!("[weir.main()] Cannot create pidfile {}: {error}", path.display())
}

/// Maximum size of a pid file, in bytes: room for the numbers of all former processes.
const LONGEST_PID_FILE: u64 = 64 * 1024;

/// The future user, group and root directory of the process, looked up in advance.
#[derive(Debug, Default)]
pub struct ProcessIdentity {
    user: Option<u32>,
    group: Option<u32>,
    root: Option<Root>,
    /// The capabilities to retain when root privileges are dropped.
    capabilities: Capabilities,
}

/// The future root directory, opened while its path is reachable.
#[derive(Debug)]
struct Root {
    /// The configured path.
    name: String,
    directory: OwnedFd,
}

impl ProcessIdentity {
    /// Looks up the settings of the global section. The error contains the unknown name.
    pub fn new(global: &Global) -> std::result::Result<ProcessIdentity, String> {
        let user = match &global.user {
            None => None,
            Some(Account::Id(id)) => Some(*id),
            Some(Account::Name(name)) => match users::user(name) {
                Ok(Some(user)) => Some(user.id),
                _ => return Err(unknown_account("user", name, global.user_at.as_ref())),
            },
        };
        let group = match &global.group {
            None => None,
            Some(Account::Id(id)) => Some(*id),
            Some(Account::Name(name)) => match users::group(name) {
                Ok(Some(group)) => Some(group),
                _ => return Err(unknown_account("group", name, global.group_at.as_ref())),
            },
        };
        let root = match &global.chroot {
            None => None,
            Some(Chroot::Folder(folder)) => {
                Some((folder.display().to_string(), process::open_directory(folder).map_err(io::Error::from)))
            }
            Some(Chroot::Auto) => Some(("auto".to_owned(), empty_folder())),
        };
        let root = root.map(|(name, opened)| match opened {
            Ok(directory) => Ok(Root { name, directory }),
            Err(error) => Err(format!("[weir.main()] Cannot chroot({name}): {error}")),
        });
        let root = root.transpose()?;
        let named = global.capabilities.iter().filter_map(|name| Capabilities::named(name));
        let capabilities = named.fold(Capabilities::NONE, Capabilities::with);
        Ok(ProcessIdentity { user, group, root, capabilities })
    }

    /// Whether `assume` will succeed, and whether the process will then have the privileges in `needs`. Changes nothing.
    pub fn rehearse(&self, needs: &[Need]) -> std::result::Result<(), String> {
        let root = self.root.as_ref().map(|root| &root.directory);
        process::rehearse_identity(self.user, self.group, root).map_err(|(refused, errno)| {
            let what = match refused {
                IdentityRefusal::Root => {
                    format!("chroot({})", self.root.as_ref().map_or("", |root| root.name.as_str()))
                }
                IdentityRefusal::Group => format!("set gid {}", self.group.unwrap_or(0)),
                IdentityRefusal::User => format!("set uid {}", self.user.unwrap_or(0)),
            };
            format!("[weir.main()] Cannot {what}: {errno}")
        })?;
        let held = capability::held();
        let held = held.map_err(|errno| format!("[weir.main()] Cannot read the capabilities: {errno}"))?;
        privileges::check(needs, self.will_hold(held))
    }

    /// The effective capabilities after `assume`.
    fn will_hold(&self, held: CapabilitySets) -> Capabilities {
        let stays = process::effective_user() == 0 && self.user.is_none_or(|user| user == 0);
        let kept = held.permitted.and(self.capabilities);
        match (stays, self.capabilities.is_empty()) {
            (true, _) => held.effective,
            (false, false) => kept,
            (false, true) if process::effective_user() == 0 => Capabilities::NONE,
            (false, true) => held.effective,
        }
    }

    /// Changes the root directory and drops privileges, in every thread. The error contains the failed step.
    pub fn assume(&self, global: &Global, messages: &Messages) -> std::result::Result<(), String> {
        if let Some(root) = &self.root {
            process::change_root(&root.directory)
                .map_err(|errno| format!("[weir.main()] Cannot chroot({}): {errno}", root.name))?;
        }
        self.become_user(messages)?;
        if global.core_dump != CoreDump::AsAllowed {
            process::set_dumpable(true)
                .map_err(|errno| format!("[weir.main()] Cannot enable core dumps: {errno}"))?;
        }
        Ok(())
    }

    /// Whether `assume` changes the root directory.
    pub fn changes_root(&self) -> bool {
        self.root.is_some()
    }

    /// Sets group, user and capabilities.
    pub(crate) fn become_user(&self, messages: &Messages) -> std::result::Result<(), String> {
        let because = |what: &'static str| move |errno: Errno| format!("[weir.main()] {what}: {errno}");
        if let Some(group) = self.group {
            if process::effective_user() == 0 {
                process::set_groups(&[]).map_err(because("Cannot drop supplementary groups"))?;
            }
            process::set_group(group).map_err(because("Cannot set gid"))?;
        }
        let keeps = !self.capabilities.is_empty();
        if let Some(user) = self.user {
            let leaves_root = process::effective_user() == 0 && user != 0;
            if keeps && leaves_root {
                capability::keep_over_identity_change(true).map_err(because("Cannot keep capabilities"))?;
            }
            process::set_user(user).map_err(because("Cannot set uid"))?;
        }
        if keeps && process::effective_user() != 0 {
            self.take_capabilities(messages)?;
        }
        Ok(())
    }

    /// Makes capabilities effective: those retained from root, or those of the program's file (R158, R160). Existing threads, which
    /// write logs, have lost all capabilities. Workers start later and inherit this thread's capabilities.
    fn take_capabilities(&self, messages: &Messages) -> std::result::Result<(), String> {
        let because = |what: &'static str| move |errno: Errno| format!("[weir.main()] {what}: {errno}");
        let held = capability::held().map_err(because("Cannot read the capabilities"))?;
        let missing = held.permitted.missing(self.capabilities);
        if !missing.is_empty() {
            messages.warning(format!(
                "[weir.main()] 'setcap': the process may not have all of these capabilities (missing {:#x}): start it as \
                 root, or give them to the program's file.",
                missing.bits()
            ));
        }
        let kept = missing.missing(self.capabilities);
        capability::change(CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: Capabilities::NONE,
        })
        .map_err(because("Cannot change capabilities"))
    }

    /// Prints advice for a process that runs as root.
    pub fn advise(&self, global: &Global, messages: &Messages) {
        if process::effective_user() != 0 {
            return;
        }
        if global.chroot.is_none() {
            messages.warning(
                "[weir.main()] The process runs as root without 'chroot' in the global section: nothing confines an \
                 intruder to a part of the file system. 'chroot auto' does so; 'chroot /' says that this is wanted.",
            );
        }
        if self.user.is_none() {
            messages.warning(
                "[weir.main()] The process keeps running as root: the global section has neither 'user' nor 'uid'. \
                 'uid 0' says that this is wanted.",
            );
        }
    }
}

/// Prevents executed programs from gaining privileges, unless `insecure-setuid-wanted`. Call it while the process has only one
/// thread. Later threads inherit the setting.
pub fn forbid_privileges(global: &Global, messages: &Messages) {
    if global.insecure_setuid_wanted {
        return;
    }
    if let Err(errno) = process::gain_no_privileges() {
        messages.warning(format!(
            "[weir.main()] Executables with set-user-id bits or capabilities cannot be kept from raising the privileges of \
             this process ({errno})."
        ));
    }
}

/// Prevents the creation of processes, unless `insecure-fork-wanted`. This also blocks new threads, so threads needed later must
/// be running already.
pub fn forbid_processes(global: &Global, messages: &Messages) {
    if global.insecure_fork_wanted {
        return;
    }
    if let Err(error) = weir_sys::thread::reserve(LATE_THREADS) {
        messages.warning(format!(
            "[weir.main()] There is no thread in reserve ({error}): traces to standard output or standard error and the \
             names of 'show profiling memory' may be missing."
        ));
    }
    if let Err(errno) = process::create_no_processes() {
        messages.warning(format!("[weir.main()] The process cannot be kept from creating others ({errno})."));
    }
}

/// Checks that the threads for this number of workers can be created.
pub fn rehearse_threads(workers: usize) -> Result<()> {
    let created = weir_sys::thread::rehearse(workers, WATCHDOG + LATE_THREADS);
    created.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
}

/// The watchdog thread, which kills a stuck process.
const WATCHDOG: usize = 1;
/// Threads that start on demand: the writers of events to standard output and to standard error, and the thread that resolves
/// symbol names for memory profiles.
const LATE_THREADS: usize = 3;

/// An empty directory with its name already removed.
fn empty_folder() -> io::Result<OwnedFd> {
    use std::os::unix::fs::DirBuilderExt;
    let name = format!("weir-{}-{:016x}", process::id(), weir_sys::random::number()?);
    let path = std::env::temp_dir().join(name);
    std::fs::DirBuilder::new().mode(0o100).create(&path)?;
    let opened = process::open_directory(&path);
    std::fs::remove_dir(&path)?;
    Ok(opened?)
}

/// Kills the process with this signal, so that its parent sees the signal in the exit status.
pub fn die_of(number: signal::Signal) -> ! {
    // These calls fail only for an invalid signal. The parent may have set the signal to be ignored.
    let _ = signal::restore_default(number);
    let _ = signal::unblock_all();
    let _ = signal::send(process::id(), number);
    // Process 1 of a container ignores the signal.
    process::end(u8::try_from(128 + number).unwrap_or(u8::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_group_names_are_resolved_before_chroot() {
        let global = Global {
            user: Some(Account::Name("root".into())),
            group: Some(Account::Id(7)),
            chroot: Some(Chroot::Folder("/proc".into())),
            ..Global::default()
        };
        let identity = ProcessIdentity::new(&global).expect("all of it is there");
        assert_eq!((identity.user, identity.group), (Some(0), Some(7)));
        assert_eq!(identity.root.expect("a root").name, "/proc");
        let refusal = |global| ProcessIdentity::new(&global).expect_err("unknown");
        let unknown = Global { user: Some(Account::Name("no such user".into())), ..Global::default() };
        assert_eq!(refusal(unknown), "cannot find user id for 'no such user'");
        let absent = Global { chroot: Some(Chroot::Folder("/nonexistent".into())), ..Global::default() };
        assert!(refusal(absent).starts_with("[weir.main()] Cannot chroot(/nonexistent): No such file"));
    }

    #[test]
    fn the_pid_file_contains_one_line_with_the_process_number() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pid");
        let own = format!("{}\n", std::process::id());
        let content = || std::fs::read_to_string(&path).ok();
        let file = PidFile::check(&path).expect("writable");
        assert_eq!(content(), None, "a start that fails leaves none");
        file.write().expect("room");
        assert_eq!(content(), Some(own.clone()));
        let longer = "a line that is longer than any number\n";
        std::fs::write(&path, longer).expect("writable");
        let file = PidFile::check(&path).expect("writable");
        assert_eq!(content().as_deref(), Some(longer), "nor does it change one");
        file.write().expect("room");
        assert_eq!(content(), Some(own));
        let full = PidFile::check(Path::new("/dev/full")).expect("a device").write();
        assert!(full.is_err_and(|text| text.contains("/dev/full: No space left")));
        assert!(
            PidFile::check(Path::new("/nonexistent/pid")).is_err() && PidFile::check(folder.path()).is_err()
        );
    }
}
