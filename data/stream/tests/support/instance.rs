//! Builds an instance from a configuration text, as the program does.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use weir_assemble::{
    EventSinks, LoadedConfiguration, NameServersPlan, PeersPlan, ProcessValues, Resolver, SavedStates,
};
use weir_events::{Facility, LogAddress, LogIdentity, LogSink, LogTarget, Logger, SyslogFormat};
use weir_mux::{BodyProducer, ProducerStep};
use weir_sched::{Class, Tick, WorkKind};
use weir_stream::instance::service::{FormSender, PageRequest, PageService, Statistics};
use weir_stream::instance::{Hooks, Instance, InstanceIdentity};
use weir_syntax::{
    DiagnosticSeverity, Environment, MemoryFiles, NoFiles, SharedFiles, SourceMap, StaticFeatures,
};

use datagrams::Datagrams;

#[path = "datagrams.rs"]
pub(crate) mod datagrams;
#[path = "script_process.rs"]
mod script_process;

/// The instance of a configuration. All proxies, engines and applications with a log write to `log`. The text after a line `--- NAME` is the file NAME,
/// which the configuration can refer to.
pub(crate) fn build(text: &str, workers: usize, log: &Arc<LogSink>) -> Instance {
    let mut parts = text.split("\n--- ");
    let text = parts.next().unwrap_or_default();
    let files = MemoryFiles::from_iter(parts.filter_map(|part| part.split_once('\n')));
    let LoadedConfiguration { outcome, variable_names, scripts, .. } = read(&format!("{text}\n"), &files);
    let config = outcome.config;
    let scripts = (!scripts.is_empty()).then_some(scripts);
    if let Some(scripts) = &scripts {
        scripts.start(&config.global.scripts, workers).expect("a script for each worker");
        scripts.initialize(Arc::new(script_process::NoProcess)).expect("init functions");
    }
    let options = ProcessValues {
        variable_names,
        files: SharedFiles::new(NoFiles),
        workers,
        connections: config.global.limits.maxconn.unwrap_or(10_000),
        open_files: u32::MAX,
        pipes: config.global.limits.pipes.unwrap_or(1000),
        frontend_connections: None,
        events: &EventSinks::default(),
        resolver: &NoNames,
        states: &SavedStates::default(),
        ignore_unknown_names: false,
        identity: InstanceIdentity {
            hostname: "host".into(),
            node: "host".into(),
            process_id: 1,
            started_us: 0,
            time_zone: weir_expr::TimeZone::fixed(0, "UTC"),
        },
        warn: &|_| {},
        notice: &|_| {},
    };
    let (mut peers, mut name_servers) = (PeersPlan::default(), NameServersPlan::default());
    let built = weir_assemble::instance(config, options, &mut peers, &mut name_servers);
    let mut instance = built.expect("a configuration without names").instance;
    for proxy in &mut instance.proxies {
        let engines = proxy.engines.iter_mut().map(|engine| &mut engine.log_sinks);
        for sinks in engines.chain([&mut proxy.log_sinks]).filter(|sinks| !sinks.is_empty()) {
            *sinks = vec![Arc::clone(log)];
        }
        if let Some(application) = proxy.application.as_mut().and_then(Arc::get_mut)
            && !application.log_sinks.is_empty()
        {
            application.log_sinks = vec![Arc::clone(log)];
        }
    }
    instance.with_hooks(Hooks { statistics: Some(Box::new(Nothing)), scripts, ..Hooks::default() })
}

fn read(text: &str, files: &MemoryFiles) -> LoadedConfiguration {
    let mut sources = SourceMap::new();
    sources.add("test.cfg", text.as_bytes().to_vec());
    let conditions = StaticFeatures { features: &[], enabled: &[], tls: None };
    let loaded =
        LoadedConfiguration::read(&sources, Arc::new(files.clone()), &conditions, Environment::new());
    let diagnostics = &loaded.outcome.diagnostics;
    let alerts = diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Alert);
    assert!(!alerts, "{}\n{text}", diagnostics.classic(&sources, 1, false));
    loaded
}

struct NoNames;

impl Resolver for NoNames {
    fn addresses(&self, _: &str) -> Vec<IpAddr> {
        Vec::new()
    }
}

/// A pair of datagram sockets. Log lines sent to the first are read from the second.
pub(crate) fn log_pair() -> (OwnedFd, OwnedFd) {
    let (near, far) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("a socket");
    }
    (near.into(), far.into())
}

/// A log sink that writes each line unchanged to a descriptor.
pub(crate) fn raw_sink(log: &OwnedFd) -> Arc<LogSink> {
    let facility = Facility::from_name("local0").expect("a facility");
    let target = LogTarget {
        format: SyslogFormat::Raw,
        ..LogTarget::new(LogAddress::Descriptor(log.as_raw_fd()), facility)
    };
    Arc::new(LogSink::open(target, &weir_events::Sinks::default()).expect("the descriptor is open"))
}

/// A logger for a worker.
pub(crate) fn logger() -> Logger {
    Logger::new(Arc::new(LogIdentity::default()), weir_events::calendar::utc())
}

static WAKER: WorkKind = WorkKind::new("waker");

struct Nothing;

/// A statistics page with one word.
struct Word(&'static [u8]);

impl BodyProducer for Word {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
        out.extend_from_slice(self.0);
        ProducerStep::Last
    }
}

/// Lends a page of two halves, each after a minute: first until a time, then until it wakes the task.
struct Slow {
    left: &'static [u8],
    half: usize,
    waits: Option<Tick>,
}

impl BodyProducer for Slow {
    fn advance(&mut self, _: usize, _: &mut Vec<u8>) -> ProducerStep {
        let now = weir_sched::now();
        let until = *self.waits.get_or_insert_with(|| now.after(60_000));
        if until > now {
            if self.half > 0 {
                let stream = weir_sched::current();
                weir_sched::spawn(&WAKER, Class::Normal, async move {
                    weir_sched::sleep_until(until).await;
                    weir_sched::wake(stream);
                });
                return ProducerStep::Later(Tick::NEVER);
            }
            return ProducerStep::Later(until);
        }
        self.waits = None;
        self.left = &self.left[self.half..];
        self.half = 5;
        if self.left.len() > 5 { ProducerStep::More } else { ProducerStep::Last }
    }

    fn lent(&self) -> Option<&[u8]> {
        Some(&self.left[..self.half])
    }
}

impl Statistics for Nothing {
    fn page(&self, _: &Arc<Instance>, request: &PageRequest<'_>) -> PageService {
        let body: Box<dyn BodyProducer> = match (request.suffix, Datagrams::of_target(request.suffix)) {
            (_, Some(datagrams)) => Box::new(datagrams),
            (b";slow", _) => Box::new(Slow { left: b"firstlater", half: 0, waits: None }),
            _ => Box::new(Word(b"page")),
        };
        PageService {
            status: 200,
            content_type: "text/plain",
            policy: None,
            location: None,
            refresh: None,
            body: Some(body),
        }
    }

    fn metrics(&self, instance: &Arc<Instance>, query: &[u8], _: &[u8]) -> Option<PageService> {
        let request = PageRequest {
            proxy: 0,
            suffix: b"",
            target: b"/metrics",
            form: None,
            admin: false,
            sender: FormSender::Script,
        };
        (query != b"broken").then(|| self.page(instance, &request))
    }
}
