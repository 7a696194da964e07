//! Builds the listeners and targets of `log-forward` sections.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_events::LogSink;
use weir_logs::relay::{ForwardListener, Relay, Relays};
use weir_model::{Bind, Config};
use weir_stream::instance::Instance;
use weir_tls::ChooseServer;

use super::logs::{self, LogSinks};
use super::{BuildError, LiveTls, ProcessValues, listeners};

/// All `log-forward` sections of the process.
#[derive(Debug)]
pub struct LiveRelays {
    pub shared: Arc<Relays>,
    pub listeners: Vec<Arc<RelayListener>>,
    pub sinks: Vec<Arc<LogSink>>,
}

/// The listeners and targets of all `log-forward` sections.
#[derive(Debug, Default)]
pub struct RelayListeners {
    pub listeners: Vec<Arc<RelayListener>>,
    pub sinks: Vec<Arc<LogSink>>,
}

/// One address of a `bind` or `dgram-bind` line.
#[derive(Debug)]
pub struct RelayListener {
    /// The line, with only this address.
    pub bind: Bind,
    pub section: Arc<str>,
    /// The backlog of the listen queue, in connections.
    pub backlog: u32,
    /// The index among all such listeners. It distributes datagram sockets over the workers.
    pub number: usize,
    /// The handler of its messages.
    pub way: RelayWay,
}

/// How a listener receives messages.
#[derive(Clone, Debug)]
pub enum RelayWay {
    Stream(Arc<ForwardListener>),
    Datagrams(Arc<Relay>),
}

/// `log-forward` sections before they are live.
#[derive(Debug, Default)]
pub struct RelayPlan(Vec<(weir_model::LogForward, Vec<Arc<LogSink>>)>);

/// Opens the log targets of all sections.
///
/// # Errors
/// When a host name does not resolve or a target cannot be opened. All faults are collected.
pub fn relays(config: &Config, options: &ProcessValues<'_>) -> Result<RelayPlan, Vec<BuildError>> {
    let (mut sinks, mut errors) = (LogSinks::default(), Vec::new());
    let plan = config.log_forwards.iter().map(|section| {
        let targets = section.targets.iter();
        let opened = logs::open_all(targets, &section.at, &config.global, options, &mut sinks, &mut errors);
        (section.clone(), opened)
    });
    let plan = RelayPlan(plan.collect());
    if errors.is_empty() { Ok(plan) } else { Err(errors) }
}

impl RelayPlan {
    /// Builds the listeners of the sections.
    pub fn publish(self, instance: &Instance, tls: &LiveTls) -> RelayListeners {
        let mut open = RelayListeners::default();
        for (section, sinks) in self.0 {
            open.add(section, sinks, tls, instance.limits.connections.load(Relaxed));
        }
        open
    }
}

impl RelayListeners {
    /// Makes the sections live in a process that serves this instance.
    pub fn live(self, instance: &Arc<Instance>) -> LiveRelays {
        let (of_connections, of_sessions) = (Arc::clone(instance), Arc::clone(instance));
        let shared = Relays::new(
            instance.process_counters.len(),
            Arc::clone(&instance.connections),
            Arc::clone(&instance.limits.connections),
            Box::new(move || count_connection(&of_connections)),
            Box::new(move |facts| of_sessions.count_tls_session(facts)),
        );
        LiveRelays { shared: Arc::new(shared), listeners: self.listeners, sinks: self.sinks }
    }
}

/// Counts a sender's connection in the totals of the process, which also contain connections to the
/// runtime API.
fn count_connection(instance: &Instance) {
    if let Some(counters) = instance.process_counters.get(weir_sched::worker_index()) {
        counters.connections.increment();
    }
}

impl RelayListeners {
    fn add(
        &mut self,
        section: weir_model::LogForward,
        sinks: Vec<Arc<LogSink>>,
        tls: &LiveTls,
        process_limit: u32,
    ) {
        self.sinks.extend(sinks.iter().cloned());
        let limit = section.maxconn.unwrap_or(process_limit);
        let relay = Arc::new(Relay {
            name: Arc::clone(&section.name),
            sinks,
            unparsed: section.unparsed,
            lines_only: section.lines_only,
            host: section.host,
            client_timeout: section.client_timeout,
            connections: Arc::default(),
            connections_limit: limit,
        });
        for bind in &section.binds {
            let backlog = bind.options.backlog.or(section.backlog).or(bind.options.maxconn).unwrap_or(limit);
            let secure = tls.listener(bind);
            for bind in listeners::single(bind) {
                let listener = Arc::new(ForwardListener {
                    relay: Arc::clone(&relay),
                    accept_proxy: bind.options.accept_proxy,
                    tls: secure.clone().map(|listener| listener as Arc<dyn ChooseServer>),
                    connections: Arc::default(),
                    connections_limit: bind.options.maxconn.unwrap_or(u32::MAX),
                });
                self.listen(&section, bind, backlog, RelayWay::Stream(listener));
            }
        }
        for bind in section.datagram_binds.iter().flat_map(listeners::single) {
            self.listen(&section, bind, 0, RelayWay::Datagrams(Arc::clone(&relay)));
        }
    }

    fn listen(&mut self, section: &weir_model::LogForward, bind: Bind, backlog: u32, way: RelayWay) {
        let (section, number) = (Arc::clone(&section.name), self.listeners.len());
        self.listeners.push(Arc::new(RelayListener { bind, section, backlog, number, way }));
    }
}
