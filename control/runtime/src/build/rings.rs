//! From `ring` sections to rings: in memory or in a file, and where each is forwarded to.

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

/// A server that gets a copy of what is written to a ring.
#[derive(Debug)]
pub struct Forward {
    /// The ring.
    pub sink: Arc<Sink>,
    /// The server's name.
    pub server: Arc<str>,
    /// Where it is; none while nothing is to be sent to it.
    pub(crate) address: Published<Option<Address>>,
    /// What else is said of it.
    pub settings: ServerSettings,
    /// How long connecting may take.
    pub connect_timeout: Option<Duration>,
    /// How long the server may take nothing.
    pub server_timeout: Option<Duration>,
    /// `option srvtcpka`, with its parameters.
    pub keep_alive: Option<TcpKeepAlive>,
    /// `option nolinger`.
    pub no_linger: bool,
    /// Whether messages are on their way to it.
    pub behind: AtomicBool,
    /// What goes on with it now.
    pub conversation: Conversation,
    /// Who sends, once it does.
    pub sender: OnceLock<TaskKey>,
    /// Where the server was written; none where nobody wrote a line about it.
    pub at: Option<Location>,
    /// What its connections need for TLS, where they speak it.
    pub tls: OnceLock<ForwardTls>,
}

/// What connections need for TLS.
#[derive(Debug)]
pub struct ForwardTls {
    /// All that the line says.
    pub upstream: Arc<LiveUpstream>,
    /// `sni`: the name that the server is asked for.
    pub server_name: Option<Vec<u8>>,
}

impl Forward {
    /// A forward of which nothing more is said.
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

    /// What messages call the server.
    pub(super) fn subject(&self) -> String {
        match self.sink.name.split_once('/') {
            // The ring of one server of a backend.
            Some((backend, server)) => log_subject(backend, server),
            None => log_subject(&self.sink.name, &self.server),
        }
    }

    /// Where the server is now; none while nothing is to be sent to it.
    pub fn address(&self) -> Arc<Option<Address>> {
        self.address.load_full()
    }

    /// Changes where the server is. What is in the ring goes there, once there is an address.
    pub fn send_to(&self, address: Option<Address>) {
        if **self.address.load() != address {
            self.address.publish(address);
            if let Some(sender) = self.sender.get() {
                weir_sched::wake(*sender);
            }
        }
    }
}

/// What messages call a server that gets log messages.
pub(super) fn log_subject(section: &str, server: &str) -> String {
    format!("server '{section}/{server}'")
}

/// Where events end, and where rings are forwarded to.
#[derive(Debug, Default)]
pub struct Events {
    /// Every sink.
    pub sinks: Sinks,
    /// The servers of all rings.
    pub forwards: Vec<Forward>,
    /// The backends in log mode.
    pub farms: Vec<Arc<LogFarm>>,
    /// The rings of `log` lines that name a server, which connections go to, or why there is none.
    implicit: Vec<(ServerAddress, Result<String, String>)>,
    /// The rings whose sections do not say a format.
    unformatted: Vec<Arc<str>>,
    /// The files of rings that are not where they shall be yet.
    files: RingFiles,
}

impl Events {
    /// The files of rings that are not at their paths yet.
    pub fn take_files(&mut self) -> RingFiles {
        std::mem::take(&mut self.files)
    }

    /// Lets the backends in log mode follow their servers, before any worker runs.
    ///
    /// # Errors
    /// When something that the servers' lines say is not possible here.
    pub fn attach(&'static self, instance: &'static Instance) -> Result<(), Vec<BuildError>> {
        let faults = self.farms.iter().filter_map(|farm| farm.attach(instance, &self.forwards).err());
        let faults: Vec<_> = faults.collect();
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    /// The name of the ring that is forwarded to `server` because a `log` line names it, or why it cannot be.
    pub fn ring_to(&self, server: &ServerAddress) -> Option<&Result<String, String>> {
        self.implicit.iter().find(|(known, _)| known == server).map(|(_, ring)| ring)
    }

    /// Whether the ring's section says a format.
    pub fn says_format(&self, ring: &str) -> bool {
        !self.unformatted.iter().any(|name| **name == *ring)
    }
}

/// Files of rings beside their paths, where a former process may still write. They go away with this.
#[derive(Debug, Default)]
pub struct RingFiles(Vec<BesideFile>);

impl RingFiles {
    /// Gives the files their paths. What was there is beside it then, with the suffix `.bak`. To be called once nothing else can fail.
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

/// A ring's file that is beside its path.
#[derive(Debug)]
struct BesideFile {
    beside: PathBuf,
    path: PathBuf,
}

impl BesideFile {
    /// Gives the file its path; what was there is put aside.
    fn put_in_place(&self) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() > 0) {
            fs::rename(&self.path, with_suffix(&self.path, ".bak"))?;
        }
        fs::rename(&self.beside, &self.path)
    }
}

impl Drop for BesideFile {
    fn drop(&mut self) {
        // Nothing is there once it was put in place.
        let _ = fs::remove_file(&self.beside);
    }
}

/// Makes the rings of a configuration. Those in files are beside their paths ([`RingFiles`]).
///
/// # Errors
/// When a file cannot be made, or a server's name is unknown. All faults are collected.
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
    for target in log_targets(config) {
        let LogAddress::Stream(server) = &target.address else { continue };
        if events.ring_to(server).is_none() {
            // Who uses it says what is wrong, and where.
            let ring = add_implicit(&mut events, server, queues, resolver);
            events.implicit.push((server.clone(), ring));
        }
    }
    farms::add(&mut events, config, queues, resolver, &mut errors);
    traces(config, &events.sinks, &mut errors);
    if errors.is_empty() { Ok(events) } else { Err(errors) }
}

/// Every `log` line of a configuration.
pub(super) fn log_targets(config: &Config) -> impl Iterator<Item = &Arc<model::LogTarget>> {
    let of_proxies = config.proxies.iter().flat_map(|proxy| &proxy.settings.logging.targets);
    let of_relays = config.log_forwards.iter().flat_map(|section| &section.targets);
    config.global.logs.iter().chain(of_proxies).chain(of_relays)
}

/// A ring for `log` lines that name a server, which connections go to (manual, "log").
fn add_implicit(
    events: &mut Events,
    server: &ServerAddress,
    queues: usize,
    resolver: &dyn Resolver,
) -> Result<String, String> {
    let name = format!("ring#{}", events.implicit.len() + 1);
    let address = address(&name, server, resolver)?;
    let description = format!("lines on their way to the log server {address}");
    let ring = Ring::in_memory(IMPLICIT_SIZE, queues);
    events.sinks.add(Sink::ring(&name, &description, LogFormat::Local, LONGEST_LENGTH, ring));
    let sink = events.sinks.find(&name).expect("it was just added");
    let settings = ServerSettings::default();
    events.forwards.push(Forward::new(Arc::clone(sink), name.as_str().into(), Some(address), settings));
    Ok(name)
}

/// What is wrong with rings and traces, without making anything: files are made at start only.
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
        // Any ring does: it is only looked for by its name.
        sinks.add(Sink::ring(&section.name, "", LogFormat::Raw, 0, Ring::in_memory(0, 1)));
    }
    traces(config, &sinks, errors);
}

/// Obeys the lines of `traces` sections.
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
        // Without an address it is as if it were disabled: nobody could ever give it one.
        let Some(address) = first_address(section, server, resolver, ignore_unknown_names)? else { continue };
        events.forwards.push(Forward {
            connect_timeout: section.connect_timeout,
            server_timeout: section.server_timeout,
            at: Some(section.at.clone()),
            ..Forward::new(Arc::clone(sink), Arc::clone(&server.name), Some(address), settings)
        });
    }
    Ok(())
}

/// A ring in a file beside its path. Where the folder cannot be written to, which is how an operator says that no copy is wanted,
/// it is the file itself, and its messages are lost.
fn in_file(path: &Path, size: usize, queues: usize) -> io::Result<(Arc<Ring>, Option<BesideFile>)> {
    let beside = with_suffix(path, &format!(".{}.tmp", weir_sys::process::id()));
    // What an earlier process of the same number left behind.
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

/// Where a ring's server is: `init-addr` says how its name is looked up, and may say that it begins without an address. No
/// former process knows it.
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

/// A ring of a `log` line holds a second of lines of a busy process, and four of the longest.
const IMPLICIT_SIZE: usize = 1 << 18;
