//! The event sinks of a process, the servers of its rings, and the files of these rings.

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
    /// The backends in log mode.
    pub log_backends: Vec<Arc<LogBackend>>,
    /// The rings of `log` lines with a server that needs connections, or their errors.
    implicit: Vec<(LogAddress, Result<String, String>)>,
    /// The rings with sections that do not set a format.
    unformatted: Vec<Arc<str>>,
    /// The files of rings that do not have their paths yet.
    files: RingFiles,
    /// The lines of servers that may use TLS.
    planned: Vec<PlannedForward>,
}

/// A server of a ring, before its TLS settings are known.
#[derive(Debug)]
struct PlannedForward {
    forward: Arc<Forward>,
    /// Its name in messages.
    subject: String,
    at: Location,
    settings: ServerSettings,
}

impl EventSinks {
    /// Takes the files of rings that do not have their paths yet.
    pub fn take_files(&mut self) -> RingFiles {
        std::mem::take(&mut self.files)
    }

    /// No rings and servers, but these sinks.
    pub(super) fn new(sinks: Sinks) -> Self {
        EventSinks { sinks, ..EventSinks::default() }
    }

    /// Adds the ring of `log` lines with this server.
    pub(super) fn add_implicit(&mut self, server: &LogAddress, ring: Result<String, String>) {
        self.implicit.push((server.clone(), ring));
    }

    /// The number of such rings.
    pub(super) fn implicit_count(&self) -> usize {
        self.implicit.len()
    }

    /// Adds a ring without a format in its section.
    pub(super) fn add_unformatted(&mut self, ring: &Arc<str>) {
        self.unformatted.push(Arc::clone(ring));
    }

    /// Adds the file of a ring, if it does not have its path yet.
    pub(super) fn add_file(&mut self, file: Option<BesideFile>) {
        self.files.0.extend(file);
    }

    /// Adds a server of a ring, which the configuration describes there.
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

    /// Builds the TLS settings of the servers of rings, and records their faults.
    pub(super) fn secure(&self, tls: &mut TlsBuilder) {
        for PlannedForward { forward, subject, at, settings } in &self.planned {
            if let Some(made) = tls.log_server(subject.clone(), settings, at) {
                let _ = forward.tls.set(made);
            }
        }
    }

    /// Attaches the backends in log mode to their servers, before any worker runs.
    ///
    /// # Errors
    /// When a setting of the servers' lines is not possible.
    pub fn attach(&self, instance: &Instance) -> Result<(), Vec<BuildError>> {
        let faults = self.log_backends.iter().filter_map(|log_backend| attach(log_backend, instance).err());
        let faults: Vec<_> = faults.collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The name of the implicit ring for a log target, or its error.
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

/// Files of rings with temporary paths, because a former process may still write to theirs. Dropping this removes the temporary paths.
#[derive(Debug, Default)]
pub struct RingFiles(Vec<BesideFile>);

impl RingFiles {
    /// Gives the files their paths. Former files get the suffix `.bak`. Call it once nothing else can fail.
    ///
    /// Calls `warn` for each that cannot have its path.
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
    /// Gives the file its path; a former file is renamed.
    fn put_in_place(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > 0) {
            fs::rename(&self.path, with_suffix(&self.path, ".bak"))?;
        }
        fs::rename(&self.beside, &self.path)
    }
}

impl Drop for BesideFile {
    fn drop(&mut self) {
        // The temporary path does not exist any more after the file was put in place.
        let _ = fs::remove_file(&self.beside);
    }
}

/// A ring in a file with a temporary path. Where the folder is not writable, which is how an operator disables copies, the file
/// itself is used, and its messages are lost.
pub(super) fn ring_in_file(
    path: &Path,
    size: usize,
    queues: usize,
) -> io::Result<(Arc<Ring>, Option<BesideFile>)> {
    let beside = with_suffix(path, &format!(".{}.tmp", weir_sys::process::id()));
    // An earlier process with the same number may have left it behind.
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
