//! The event sinks of a process, and the servers and files of its rings.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_events::Sinks;
use weir_logs::forward::Forward;
use weir_logs::log_backend::LogBackend;
use weir_model::{Location, LogAddress, ServerSettings};
use weir_stream::instance::Instance;
use weir_sync::Ring;

use super::{BuildError, TlsBuilder};

/// The event sinks, and the servers of rings.
#[derive(Debug, Default)]
pub struct EventSinks {
    pub sinks: Sinks,
    /// The servers of all rings.
    pub forwards: Vec<Arc<Forward>>,
    pub log_backends: Vec<Arc<LogBackend>>,
    /// The rings that `log` lines with a stream server create implicitly, or their errors.
    implicit: Vec<(LogAddress, Result<String, String>)>,
    /// The rings without a format in their sections.
    unformatted: Vec<Arc<str>>,
    /// Ring files that still have temporary paths.
    files: RingFiles,
    /// Forwards with servers that may use TLS.
    planned: Vec<PlannedForward>,
}

/// A forward of a ring, before its TLS settings are built.
#[derive(Debug)]
struct PlannedForward {
    forward: Arc<Forward>,
    /// The server's name in messages.
    subject: String,
    at: Location,
    settings: ServerSettings,
}

impl EventSinks {
    /// Removes and returns the ring files that still have temporary paths.
    pub fn take_files(&mut self) -> RingFiles {
        std::mem::take(&mut self.files)
    }

    /// Creates event sinks without rings and servers.
    pub(super) fn new(sinks: Sinks) -> Self {
        EventSinks { sinks, ..EventSinks::default() }
    }

    /// Adds the ring that `log` lines with this server create implicitly.
    pub(super) fn add_implicit(&mut self, server: &LogAddress, ring: Result<String, String>) {
        self.implicit.push((server.clone(), ring));
    }

    /// The number of implicit rings.
    pub(super) fn implicit_count(&self) -> usize {
        self.implicit.len()
    }

    /// Adds a ring without a format in its section.
    pub(super) fn add_unformatted(&mut self, ring: &Arc<str>) {
        self.unformatted.push(Arc::clone(ring));
    }

    /// Adds a ring file that still has a temporary path.
    pub(super) fn add_file(&mut self, file: Option<BesideFile>) {
        self.files.0.extend(file);
    }

    /// Adds a server of a ring. `at` is the location of its line.
    pub(super) fn add(
        &mut self,
        forward: Arc<Forward>,
        subject: String,
        at: Location,
        settings: ServerSettings,
    ) {
        self.forwards.push(Arc::clone(&forward));
        self.planned.push(PlannedForward { forward, subject, at, settings });
    }

    /// Builds the TLS settings of the rings' servers and records their faults.
    pub(super) fn secure(&self, tls: &mut TlsBuilder) {
        for PlannedForward { forward, subject, at, settings } in &self.planned {
            if let Some(made) = tls.log_server(subject.clone(), settings, at) {
                let _ = forward.tls.set(made);
            }
        }
    }

    /// Attaches the log backends to their servers, before any worker runs.
    ///
    /// # Errors
    /// When a socket cannot be bound to a server's configured source address.
    pub fn attach(&self, instance: &Instance) -> Result<(), Vec<BuildError>> {
        let faults = self.log_backends.iter().filter_map(|log_backend| attach(log_backend, instance).err());
        let faults: Vec<_> = faults.collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The name of the implicit ring for a log target, or the error of its creation.
    pub fn ring_to(&self, target: &LogAddress) -> Option<&Result<String, String>> {
        self.implicit.iter().find(|(known, _)| known == target).map(|(_, ring)| ring)
    }

    /// Whether the ring's section has a format.
    pub fn says_format(&self, ring: &str) -> bool {
        !self.unformatted.iter().any(|name| **name == *ring)
    }
}

fn attach(log_backend: &Arc<LogBackend>, instance: &Instance) -> Result<(), BuildError> {
    let mut proxies = instance.proxies.iter();
    let proxy = proxies.find(|proxy| proxy.config.is_backend() && *proxy.config.name == *log_backend.name());
    let Some((proxy, backend)) = proxy.and_then(|proxy| Some((proxy, proxy.backend.as_ref()?))) else {
        return Ok(());
    };
    log_backend.attach(backend, &proxy.backend_counters).map_err(|(server, errno)| BuildError {
        at: proxy.config.servers[server].at.clone(),
        message: format!("'source' : datagrams cannot come from there: {errno}."),
    })
}

/// Ring files with temporary paths, because a previous process may still write to the final ones. Dropping this removes the
/// temporary paths.
#[derive(Debug, Default)]
pub struct RingFiles(Vec<BesideFile>);

impl RingFiles {
    /// Renames the files to their final paths. Existing files get the suffix `.bak`. Call it when nothing else can fail.
    ///
    /// Calls `warn` for each file that cannot be renamed.
    pub fn put_in_place(&self, warn: impl Fn(String)) {
        for file in &self.0 {
            if let Err(error) = file.put_in_place() {
                let path = file.path.display();
                warn(format!(
                    "[weir.main()] The backing-file '{path}' of a ring cannot be replaced: {error}"
                ));
            }
        }
    }
}

/// A ring's file with a temporary path.
#[derive(Debug)]
pub(super) struct BesideFile {
    beside: PathBuf,
    path: PathBuf,
}

impl BesideFile {
    /// Renames the file to its final path. An existing file is renamed first.
    fn put_in_place(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > 0) {
            fs::rename(&self.path, with_suffix(&self.path, ".bak"))?;
        }
        fs::rename(&self.beside, &self.path)
    }
}

impl Drop for BesideFile {
    fn drop(&mut self) {
        // The temporary path does not exist after the file was renamed.
        let _ = fs::remove_file(&self.beside);
    }
}

/// Creates a ring in a file with a temporary path. If the folder is not writable, which is how an operator disables backups, the
/// final path is used, and the messages in an existing file are lost.
pub(super) fn ring_in_file(
    path: &Path,
    size: usize,
    queues: usize,
) -> io::Result<(Arc<Ring>, Option<BesideFile>)> {
    let beside = with_suffix(path, &format!(".{}.tmp", weir_sys::process::id()));
    // A previous process with the same PID may have left it behind.
    let _ = fs::remove_file(&beside);
    let file = BesideFile { beside, path: path.to_owned() };
    match Ring::in_file(&file.beside, size, queues) {
        Ok(ring) => Ok((ring, Some(file))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Ok((Ring::in_file(path, size, queues)?, None))
        }
        Err(error) => Err(error),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
