//! Builds rings from `ring` sections: in memory or in a file, and their servers.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_config::model::{
    self, Config, Location, LogAddress, ServerAddress, ServerPort, ServerSettings, TcpKeepAlive,
};
use weir_events::logger::LONGEST_LENGTH;
use weir_events::{LogFormat, Sink, Sinks};
use weir_sched::TaskKey;
use weir_stream::instance::Instance;
use weir_sync::ring::DEFAULT_QUEUES;
use weir_sync::{Published, Ring};
use weir_sys::Address;
use weir_tls::LiveUpstream;

use super::BuildError;
use super::backends;
use super::farms;
use super::logs;
use super::names::{self, Resolver};
use crate::forward::conversation::Conversation;
use crate::log_farm::LogFarm;
use crate::messages::Messages;

/// A server that gets a copy of a ring's contents.
#[derive(Debug)]
pub struct Forward {
    /// The ring.
    pub sink: Arc<Sink>,
    /// The server's name.
    pub server: Arc<str>,
    /// Its address; none while nothing is to be sent to it.
    pub(crate) address: Published<Option<Address>>,
    /// Its other settings.
    pub settings: ServerSettings,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// How long the server may take no bytes.
    pub server_timeout: Option<Duration>,
    /// `option srvtcpka`, with its parameters.
    pub keep_alive: Option<TcpKeepAlive>,
    /// `option nolinger`.
    pub no_linger: bool,
    /// Whether messages wait to be sent to it.
    pub behind: AtomicBool,
    /// The state of its connection.
    pub conversation: Conversation,
    /// The task that sends, once it has started.
    pub sender: OnceLock<TaskKey>,
    /// The position of the server line; none for an implicit ring.
    pub at: Option<Location>,
    /// TLS settings of its connections, if they use TLS.
    pub tls: OnceLock<ForwardTls>,
}

/// TLS settings of connections.
#[derive(Debug)]
pub struct ForwardTls {
    /// The settings of the line.
    pub upstream: Arc<LiveUpstream>,
    /// `sni`: the SNI for the server.
    pub server_name: Option<Vec<u8>>,
}

impl Forward {
    /// A forward with default settings.
    pub fn new(
        sink: Arc<Sink>,
        server: Arc<str>,
        address: Option<Address>,
        settings: ServerSettings,
    ) -> Self {
        Forward {
            sink,
            server,
            address: Published::new(address),
            settings,
            connect_timeout: None,
            server_timeout: None,
            keep_alive: None,
            no_linger: false,
            behind: AtomicBool::new(false),
            sender: OnceLock::new(),
            conversation: Conversation::default(),
            at: None,
            tls: OnceLock::new(),
        }
    }

    /// The server's name in messages.
    pub(super) fn subject(&self) -> String {
        match self.sink.name.split_once('/') {
            // The ring of a log backend's server.
            Some((backend, server)) => log_subject(backend, server),
            None => log_subject(&self.sink.name, &self.server),
        }
    }

    /// The current address; none while nothing is to be sent to it.
    pub fn address(&self) -> Arc<Option<Address>> {
        self.address.load_full()
    }

    /// Changes the address. The ring's contents are sent there, once there is an address.
    pub fn send_to(&self, address: Option<Address>) {
        if **self.address.load() != address {
            self.address.publish(address);
            if let Some(sender) = self.sender.get() {
                weir_sched::wake(*sender);
            }
        }
    }
}

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
}

impl Events {
    /// Takes the files of rings that do not have their paths yet.
    pub fn take_files(&mut self) -> RingFiles {
        std::mem::take(&mut self.files)
    }

    /// Attaches the backends in log mode to their servers, before any worker runs.
    ///
    /// # Errors
    /// When a setting of the servers' lines is not possible.
    pub fn attach(&self, instance: &Instance) -> Result<(), Vec<BuildError>> {
        let faults = self.farms.iter().filter_map(|farm| farm.attach(instance).err());
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
    let forward = Forward::new(Arc::clone(sink), name.as_str().into(), Some(address), settings);
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
    let sink = events.sinks.find(&section.name).expect("it was just added");
    for server in section.servers.iter().filter(|server| !server.settings.disabled) {
        let mut settings = server.settings.clone();
        backends::resolve_server(&mut settings, resolver)?;
        // Without an address it counts as disabled: it can never get one.
        let Some(address) = first_address(section, server, resolver, ignore_unknown_names)? else { continue };
        events.forwards.push(Arc::new(Forward {
            connect_timeout: section.connect_timeout,
            server_timeout: section.server_timeout,
            at: Some(section.at.clone()),
            ..Forward::new(Arc::clone(sink), Arc::clone(&server.name), Some(address), settings)
        }));
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
