//! Builds the log backends (`mode log`), the targets of `log backend@`.

use std::sync::Arc;

use weir_events::logger::LONGEST_LENGTH;
use weir_events::{Sink, SyslogFormat};
use weir_logs::forward::{Forward, ForwardLine};
use weir_logs::log_backend::{LogBackend, LogTransport, Policy};
use weir_model::{BalanceArgument, Config, LogBalance, Mode};
use weir_stream::server::plan;
use weir_sync::Ring;

use super::BuildError;
use super::backends;
use super::events::EventSinks;
use super::links::line;
use super::names::Resolver;
use super::subjects;

/// Creates the log backends of a configuration. [`LogBackend::attach`] connects them to their servers.
pub(super) fn add(
    events: &mut EventSinks,
    config: &Config,
    queues: usize,
    resolver: &dyn Resolver,
    errors: &mut Vec<BuildError>,
) {
    for proxy in config.proxies.iter().filter(|proxy| proxy.mode() == Mode::Log) {
        // A disabled backend drops its lines, so its servers are ignored.
        let servers = if proxy.settings.disabled { &[][..] } else { &proxy.servers };
        let mut transports = Vec::with_capacity(servers.len());
        for server in servers {
            match transport(events, config, proxy, server, queues, resolver) {
                Ok(transport) => transports.push(transport),
                Err(message) => errors.push(BuildError { at: server.at.clone(), message }),
            }
        }
        let log_backend =
            Arc::new(LogBackend::new(Arc::clone(&proxy.name), policy(&proxy.settings), transports));
        events.sinks.add_servers(&proxy.name, Arc::<LogBackend>::clone(&log_backend));
        events.log_backends.push(log_backend);
    }
}

fn transport(
    events: &mut EventSinks,
    config: &Config,
    proxy: &weir_model::Proxy,
    server: &weir_model::Server,
    queues: usize,
    resolver: &dyn Resolver,
) -> Result<LogTransport, String> {
    let mut settings = server.settings.clone();
    backends::resolve_server(&mut settings, resolver)?;
    if server.datagrams {
        return Ok(LogTransport::datagrams(
            settings.source.as_deref().map(|said| plan::source(said, 0).into()),
        ));
    }
    let name = format!("{}/{}", proxy.name, server.name);
    let size = settings.log_buffer.unwrap_or(u64::from(config.global.tuning.buffer_size));
    let size = usize::try_from(size).map_err(|_| "'log-bufsize' is too large".to_owned())?;
    let ring = Ring::try_in_memory(size, queues)
        .ok_or_else(|| format!("'log-bufsize': there are no {size} bytes of memory"))?;
    let description = format!("lines on their way to log server {name}");
    let sink = Sink::ring(&name, &description, SyslogFormat::Local, LONGEST_LENGTH, Arc::clone(&ring));
    events.sinks.add(sink);
    let sink = events.sinks.find(&name).expect("it was just added");
    // Keywords for traffic are ignored. The parser has warned about them.
    (settings.send_proxy, settings.proxy_v2) = (None, None);
    let keep_alive = proxy.settings.options.server_keep_alive.then_some(&proxy.settings.server_keep_alive);
    let line = ForwardLine {
        connect_timeout: proxy.settings.timeouts.connect,
        server_timeout: proxy.settings.timeouts.server,
        ..line(&settings, keep_alive, proxy.settings.options.no_linger)
    };
    let forward = Forward::new(Arc::clone(sink), server.name.as_ref().into(), None, line);
    let forward = Arc::new(forward);
    events.add(
        Arc::clone(&forward),
        subjects::server(&proxy.name, &server.name),
        server.at.clone(),
        settings,
    );
    Ok(LogTransport::Ring { ring, forward })
}

fn policy(settings: &weir_model::Settings) -> Policy {
    let balance = &settings.balance;
    match (balance.word.logs, &balance.argument) {
        (Some(LogBalance::Turns), _) => Policy::Turns,
        (Some(LogBalance::Sticky), _) => Policy::Sticky,
        (Some(LogBalance::Hash), BalanceArgument::LogMessage(converters)) => {
            Policy::Hash(Arc::clone(converters), settings.hash_type)
        }
        // The load of log servers is not known, so a single random draw is enough (manual, "balance").
        _ => Policy::Random,
    }
}
