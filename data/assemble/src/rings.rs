//! Builds rings from `ring` sections, in memory or in a file, with their servers.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_events::logger::LONGEST_LENGTH;
use weir_events::{Sink, Sinks, SyslogFormat};
use weir_logs::forward::{Forward, ForwardLine};
use weir_model::{Config, LogAddress, ServerAddress, ServerPort, ServerSettings};
use weir_sync::Ring;
use weir_sync::ring::DEFAULT_QUEUES;
use weir_sys::Address;

use super::BuildError;
use super::events::{EventSinks, ring_in_file};
use super::links::line;
use super::names::{self, Resolver};
use super::{backends, log_backends, logs, subjects, traces};

/// Creates the rings of a configuration. Files have temporary paths ([`RingFiles`](super::RingFiles)).
///
/// # Errors
/// When a file cannot be created or a server's host name does not resolve. All faults are collected.
pub fn events(
    config: &Config,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<EventSinks, Vec<BuildError>> {
    let queues = config.global.tuning.ring_queues.map_or(DEFAULT_QUEUES, |queues| queues as usize);
    let mut events = EventSinks::new(Sinks::built_in(queues));
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
            // The `log` line reports the error.
            let settings = ServerSettings { multipath: *multipath, ..ServerSettings::default() };
            let ring = add_implicit(&mut events, server, settings, queues, resolver);
            events.add_implicit(&target.address, ring);
        }
    }
    log_backends::add(&mut events, config, queues, resolver, &mut errors);
    apply_traces(config, &events.sinks, &mut errors);
    if errors.is_empty() { Ok(events) } else { Err(errors) }
}

/// Creates the implicit ring for `log` lines with a stream server (manual, "log").
fn add_implicit(
    events: &mut EventSinks,
    server: &ServerAddress,
    settings: ServerSettings,
    queues: usize,
    resolver: &dyn Resolver,
) -> Result<String, String> {
    let name = format!("ring#{}", events.implicit_count() + 1);
    let address = address(&name, server, resolver)?;
    let description = format!("lines on their way to the log server {address}");
    let ring = Ring::in_memory(IMPLICIT_SIZE, queues);
    events.sinks.add(Sink::ring(&name, &description, SyslogFormat::Local, LONGEST_LENGTH, ring));
    let sink = events.sinks.find(&name).expect("it was just added");
    let line = line(&settings, None, false);
    let forward = Forward::new(Arc::clone(sink), name.as_str().into(), Some(address), line);
    events.forwards.push(Arc::new(forward));
    Ok(name)
}

/// Checks rings and traces without creating files.
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
        // Only the name of the ring is looked up, so any ring will do.
        sinks.add(Sink::ring(&section.name, "", SyslogFormat::Raw, 0, Ring::in_memory(0, 1)));
    }
    apply_traces(config, &sinks, errors);
}

/// Applies the lines of `traces` sections.
fn apply_traces(config: &Config, sinks: &Sinks, errors: &mut Vec<BuildError>) {
    for line in &config.traces {
        let words: Vec<&str> = line.words.iter().map(|word| &**word).collect();
        let message = match traces::all(sinks).command(&words) {
            Ok(None) => continue,
            // A line that only lists sources or events is an error.
            Ok(Some(_)) => "'trace' expects a source and what to do with it".to_owned(),
            Err(message) => message,
        };
        errors.push(BuildError { at: line.at.clone(), message });
    }
}

fn add(
    events: &mut EventSinks,
    section: &weir_model::Ring,
    global: &weir_model::Global,
    queues: usize,
    resolver: &dyn Resolver,
    ignore_unknown_names: bool,
) -> Result<(), String> {
    let size = usize::try_from(section.size).map_err(|_| format!("ring '{}' is too large", section.name))?;
    let ring = match &section.file {
        None => Ring::try_in_memory(size, queues)
            .ok_or_else(|| format!("ring '{}' cannot have {} bytes of memory", section.name, section.size))?,
        Some(path) => {
            let (ring, beside) = ring_in_file(path, size, queues).map_err(|error| {
                let (path, name) = (path.display(), &section.name);
                format!("cannot open backing-file '{path}' for ring '{name}': {error}")
            })?;
            events.add_file(beside);
            ring
        }
    };
    let header = logs::format(section.header.unwrap_or_default(), global);
    if section.header.is_none() {
        events.add_unformatted(&section.name);
    }
    let sink = Sink::ring(&section.name, &section.description, header, section.length_max as usize, ring);
    events.sinks.add(sink);
    let sink = Arc::clone(events.sinks.find(&section.name).expect("it was just added"));
    for server in section.servers.iter().filter(|server| !server.settings.disabled) {
        let mut settings = server.settings.clone();
        backends::resolve_server(&mut settings, resolver)?;
        // A server that starts without an address stays disabled: it can never get one.
        let Some(address) = first_address(section, server, resolver, ignore_unknown_names)? else { continue };
        let line = ForwardLine {
            connect_timeout: section.connect_timeout,
            server_timeout: section.server_timeout,
            ..line(&settings, None, false)
        };
        let forward = Forward::new(Arc::clone(&sink), Arc::clone(&server.name), Some(address), line);
        let forward = Arc::new(forward);
        events.add(forward, subjects::server(&section.name, &server.name), section.at.clone(), settings);
    }
    Ok(())
}

/// The initial address of a ring's server, from the methods of `init-addr`. `None` if the server starts without an address. State
/// files do not contain such servers.
fn first_address(
    section: &weir_model::Ring,
    server: &weir_model::RingServer,
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

/// The size of an implicit ring, in bytes. It holds one second of lines of a busy process, or four of the longest lines.
const IMPLICIT_SIZE: usize = 1 << 18;
