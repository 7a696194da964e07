//! Builds rings from `ring` sections: in memory or in a file, and their servers.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::model::{self, Config, Location, LogAddress, ServerAddress, ServerPort, ServerSettings};
use weir_events::logger::LONGEST_LENGTH;
use weir_events::{LogFormat, Sink, Sinks};
use weir_logs::farm::LogFarm;
use weir_logs::forward::{Forward, Line};
use weir_stream::instance::Instance;
use weir_sync::Ring;
use weir_sync::ring::DEFAULT_QUEUES;
use weir_sys::Address;

use super::backends;
use super::farms;
use super::links::line;
use super::logs;
use super::names::{self, Resolver};
use super::{BuildError, TlsBuilder};
use crate::messages::Messages;

/// The name of a log server in messages.
pub(super) fn log_subject(section: &str, server: &str) -> String {
    format!("server '{section}/{server}'")
}

/// The event sinks, and the servers of rings.
#[derive(Debug, Default)]
pub struct Events {
    /// Every sink.
    pub sinks: Sinks,
    /// The servers of all rings.
    pub forwards: Vec<Arc<Forward>>,
    /// The backends in log mode.
    pub farms: Vec<Arc<LogFarm>>,
    /// The rings of `log` lines with a server that needs connections, or their errors.
    implicit: Vec<(LogAddress, Result<String, String>)>,
    /// The rings whose sections have no format.
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

impl Events {
    /// Takes the files of rings that do not have their paths yet.
    pub fn take_files(&mut self) -> RingFiles {
        std::mem::take(&mut self.files)
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
        let faults = self.farms.iter().filter_map(|farm| attach(farm, instance).err());
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

fn attach(farm: &Arc<LogFarm>, instance: &Instance) -> Result<(), BuildError> {
    let mut proxies = instance.proxies.iter();
    let proxy = proxies.find(|proxy| proxy.config.is_backend() && *proxy.config.name == *farm.name());
    let Some((proxy, backend)) = proxy.and_then(|proxy| Some((proxy, proxy.backend.as_ref()?))) else {
        return Ok(());
    };
    farm.attach(backend, &proxy.backend_figures).map_err(|(server, errno)| BuildError {
        at: proxy.config.servers[server].at.clone(),
        message: format!("'source' : datagrams cannot come from there: {errno}."),
    })
}

/// Files of rings with temporary paths, because a former process may still write to theirs. Dropping this removes the temporary paths.
#[derive(Debug, Default)]
pub struct RingFiles(Vec<BesideFile>);

impl RingFiles {
    /// Gives the files their paths. Former files get the suffix `.bak`. Call it once nothing else can fail.
    pub fn put_in_place(&self, messages: &Messages) {
        for file in &self.0 {
            if let Err(error) = file.put_in_place() {
                let path = file.path.display();
                messages.warning(format!(
                    "[weir.main()] The backing-file '{path}' of a ring cannot be replaced: {error}"
                ));
            }
        }
    }
}

/// A ring's file with a temporary path.
#[derive(Debug)]
struct BesideFile {
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

/// Creates the rings of a configuration. Files have temporary paths ([`RingFiles`]).
///
/// # Errors
/// When a file cannot be created, or a server's name is unknown. All faults are collected.
pub fn events(
    config: &Config,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<Events, Vec<BuildError>> {
    let queues = config.global.tuning.ring_queues.map_or(DEFAULT_QUEUES, |queues| queues as usize);
    let mut events = Events { sinks: Sinks::built_in(queues), ..Events::default() };
    let mut errors = Vec::new();
    for section in &config.rings {
        if let Err(message) =
            add(&mut events, section, &config.global, queues, resolver, ignore_unknown_names)
        {
            errors.push(BuildError { at: section.at.clone(), message });
        }
    }
    for target in config.log_targets() {
        let LogAddress::Stream { server, multipath } = &target.address else { continue };
        if events.ring_to(&target.address).is_none() {
            // The `log` line that uses it reports the error.
            let settings = ServerSettings { multipath: *multipath, ..ServerSettings::default() };
            let ring = add_implicit(&mut events, server, settings, queues, resolver);
            events.implicit.push((target.address.clone(), ring));
        }
    }
    farms::add(&mut events, config, queues, resolver, &mut errors);
    traces(config, &events.sinks, &mut errors);
    if errors.is_empty() { Ok(events) } else { Err(errors) }
}

/// The ring of `log` lines with a server that needs connections (manual, "log").
fn add_implicit(
    events: &mut Events,
    server: &ServerAddress,
    settings: ServerSettings,
    queues: usize,
    resolver: &dyn Resolver,
) -> Result<String, String> {
    let name = format!("ring#{}", events.implicit.len() + 1);
    let address = address(&name, server, resolver)?;
    let description = format!("lines on their way to the log server {address}");
    let ring = Ring::in_memory(IMPLICIT_SIZE, queues);
    events.sinks.add(Sink::ring(&name, &description, LogFormat::Local, LONGEST_LENGTH, ring));
    let sink = events.sinks.find(&name).expect("it was just added");
    let line = line(&settings, None, false);
    let forward = Forward::new(Arc::clone(sink), name.as_str().into(), Some(address), line);
    events.forwards.push(Arc::new(forward));
    Ok(name)
}

/// Checks rings and traces, without creating anything: files are only created at start.
pub(super) fn verify(
    config: &Config,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
    errors: &mut Vec<BuildError>,
) {
    let mut sinks = Sinks::built_in(1);
    for section in &config.rings {
        for server in &section.servers {
            if let Err(message) = first_address(section, server, resolver, ignore_unknown_names) {
                errors.push(BuildError { at: section.at.clone(), message });
            }
            for message in backends::unknown_names(&server.settings, resolver) {
                errors.push(BuildError { at: section.at.clone(), message });
            }
        }
        // Any ring will do: only its name is looked up.
        sinks.add(Sink::ring(&section.name, "", LogFormat::Raw, 0, Ring::in_memory(0, 1)));
    }
    traces(config, &sinks, errors);
}

/// Applies the lines of `traces` sections.
fn traces(config: &Config, sinks: &Sinks, errors: &mut Vec<BuildError>) {
    for line in &config.traces {
        let words: Vec<&str> = line.words.iter().map(|word| &**word).collect();
        let message = match crate::traces::all(sinks).command(&words) {
            Ok(None) => continue,
            // A line that asks for a list has no effect.
            Ok(Some(_)) => "'trace' expects a source and what to do with it".to_owned(),
            Err(message) => message,
        };
        errors.push(BuildError { at: line.at.clone(), message });
    }
}

fn add(
    events: &mut Events,
    section: &model::Ring,
    global: &model::Global,
    queues: usize,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<(), String> {
    let size = usize::try_from(section.size).map_err(|_| format!("ring '{}' is too large", section.name))?;
    let ring = match &section.file {
        None => Ring::try_in_memory(size, queues)
            .ok_or_else(|| format!("ring '{}' cannot have {} bytes of memory", section.name, section.size))?,
        Some(path) => {
            let (ring, beside) = in_file(path, size, queues).map_err(|error| {
                let (path, name) = (path.display(), &section.name);
                format!("cannot open backing-file '{path}' for ring '{name}': {error}")
            })?;
            events.files.0.extend(beside);
            ring
        }
    };
    let header = logs::format(section.header.unwrap_or_default(), global);
    if section.header.is_none() {
        events.unformatted.push(Arc::clone(&section.name));
    }
    let sink = Sink::ring(&section.name, &section.description, header, section.length_max as usize, ring);
    events.sinks.add(sink);
    let sink = Arc::clone(events.sinks.find(&section.name).expect("it was just added"));
    for server in section.servers.iter().filter(|server| !server.settings.disabled) {
        let mut settings = server.settings.clone();
        backends::resolve_server(&mut settings, resolver)?;
        // Without an address it counts as disabled: it can never get one.
        let Some(address) = first_address(section, server, resolver, ignore_unknown_names)? else { continue };
        let line = Line {
            connect_timeout: section.connect_timeout,
            server_timeout: section.server_timeout,
            ..line(&settings, None, false)
        };
        let forward = Forward::new(Arc::clone(&sink), Arc::clone(&server.name), Some(address), line);
        let forward = Arc::new(forward);
        events.add(forward, log_subject(&section.name, &server.name), section.at.clone(), settings);
    }
    Ok(())
}

/// A ring in a file with a temporary path. Where the folder is not writable, which is how an operator disables copies, the file
/// itself is used, and its messages are lost.
fn in_file(path: &Path, size: usize, queues: usize) -> io::Result<(Arc<Ring>, Option<BesideFile>)> {
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

/// The initial address of a ring's server: `init-addr` says how its name is resolved, and may allow a start without an
/// address. There is no former state.
fn first_address(
    section: &model::Ring,
    server: &model::RingServer,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<Option<Address>, String> {
    let ServerAddress::Inet { host, port } = &server.address else {
        return address(&server.name, &server.address, resolver).map(Some);
    };
    let ServerPort::Fixed(port) = *port else {
        return Err(format!("server '{}' of a ring has no port", server.name));
    };
    let subject = format!("{}/{}", section.name, server.name);
    let ways = &server.settings.initial_address;
    let found = backends::first_of(&subject, ways, host, None, resolver, ignore_unknown_names)?;
    Ok(found.map(|ip| Address::Inet(SocketAddr::new(ip, port))))
}

fn address(name: &str, server: &ServerAddress, resolver: &dyn Resolver) -> Result<Address, String> {
    match server {
        ServerAddress::Inet { host, port } => {
            let ServerPort::Fixed(port) = *port else {
                return Err(format!("server '{name}' of a ring has no port"));
            };
            let ip = names::address(host, resolver)
                .map_err(|error| format!("could not resolve address '{}' of server '{name}'", error.0))?;
            Ok(Address::Inet(SocketAddr::new(ip, port)))
        }
        ServerAddress::Unix(path) => Ok(Address::Unix(path.clone())),
        ServerAddress::Abstract { name, .. } => Ok(Address::Abstract(name.clone())),
        ServerAddress::SocketPair(_) => Err(format!("server '{name}' of a ring needs an address")),
    }
}

/// The size of an implicit ring, in bytes: a second of lines of a busy process, and four of the longest lines.
const IMPLICIT_SIZE: usize = 1 << 18;
