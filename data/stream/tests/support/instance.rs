//! Builds an instance from a configuration text: the crate that does it for the program is above this one.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock, RwLock};

use weir_backend::{
    Algorithm, Backend, BackendSettings, CookieRules, ServerAddress, ServerSettings, ServicePort,
};
use weir_config::model::{self, Redispatch, RulesetKind};
use weir_config::{Inputs, parse};
use weir_events::{Facility, LogAddress, LogFormat, LogIdentity, LogSink, LogTarget, Logger};
use weir_expr::{PatternStore, Registry, TokenKeys, VariableNames};
use weir_mux::{Made, Service};
use weir_net::SocketSizes;
use weir_sched::{Class, Kind, Tick};
use weir_stream::instance::service::{FormSender, Page, PageRequest, Statistics};
use weir_stream::instance::{DescriptorMarks, Identity, Instance, Limits, Listener, Proxy};
use weir_stream::variables::VariableLimits;
use weir_syntax::{Environment, NoFiles, Severity, SourceMap, StaticFeatures};

use datagrams::Datagrams;

#[path = "datagrams.rs"]
pub mod datagrams;

/// The instance of a text. All its proxies that log do so to `log`.
pub fn build(text: &str, workers: usize, log: &Arc<LogSink>) -> Arc<Instance> {
    let config = read(text);
    let tuning = &config.global.tuning;
    let limits = Limits {
        buffer_size: tuning.buffer_size as usize,
        rewrite_reserve: tuning.rewrite_room() as usize,
        header_count: tuning.headers_max,
        log_uri_length: tuning.logged_uri_max as usize,
        cookie_length: tuning.captured_cookie_max as usize,
        connections: Arc::new(AtomicU32::new(config.global.limits.maxconn.unwrap_or(10_000))),
        connection_rate: AtomicU32::new(config.global.limits.connection_rate),
        session_rate: AtomicU32::new(config.global.limits.session_rate),
        tls_rate: AtomicU32::new(config.global.limits.tls_rate),
        h2: weir_mux::Limits::default(),
        h2_pace: weir_mux::Pace::default(),
        h2_logged_errors: model::LoggedErrors::default(),
        h2_server: weir_mux::Limits::default(),
        h2_server_pace: weir_mux::Pace::default(),
        h1: weir_mux::HeadOptions {
            accept_payload_with_any_method: config.global.http1.payload_with_any_method,
            keep_insecure_transfer_encoding: config.global.http1.keep_on_insecure_transfer_encoding,
            ..weir_mux::HeadOptions::default()
        },
        header_case: header_case(&config.global.http1.adjusted_names),
        client_sockets: SocketSizes {
            receive_buffer: tuning.receive_buffers.client,
            send_buffer: tuning.send_buffers.client,
            unsent_low_mark: tuning.unsent_low_marks.client,
        },
        server_sockets: SocketSizes {
            receive_buffer: tuning.receive_buffers.server,
            send_buffer: tuning.send_buffers.server,
            unsent_low_mark: tuning.unsent_low_marks.server,
        },
        variables: VariableLimits::of(&tuning.variable_sizes),
        error_codes: config.global.error_codes.clone(),
        failure_codes: config.global.failure_codes.clone(),
        descriptors: DescriptorMarks::of(u32::MAX, 100, 100),
    };
    let identity = Identity {
        hostname: "host".into(),
        node: "host".into(),
        process_id: 1,
        started_us: 0,
        time_zone: weir_expr::TimeZone::fixed(0, "UTC"),
    };
    let named = |wanted: fn(&model::Proxy) -> bool| {
        let all = config.proxies.iter().enumerate();
        all.filter(|(_, proxy)| wanted(proxy)).map(|(index, proxy)| ((*proxy.name).into(), index)).collect()
    };
    let (backends, frontends) = (named(model::Proxy::is_backend), named(model::Proxy::is_frontend));
    let tables = config.tables.into_iter();
    let proxies = config.proxies.into_iter().enumerate();
    let instance = Instance {
        limits,
        identity,
        proxies: proxies.map(|(index, config)| proxy(index, config, workers, log)).collect(),
        backends,
        frontends,
        rates: weir_backend::figures::ProcessRates::new(workers),
        figures: (0..workers).map(|_| Arc::default()).collect(),
        connections: Arc::default(),
        stopping: false.into(),
        closing: weir_stream::closing::Closing::new(config.global.close_spread),
        keeps_quiet_clients: false.into(),
        tables: tables.map(|table| Arc::new(weir_tables::Table::new(table.declaration))).collect(),
        userlists: config.userlists,
        pipes: Arc::new(weir_mux::Pipes::new(0, config.global.limits.pipes.unwrap_or(1000) as usize)),
        process_variables: RwLock::default(),
        variable_bytes: Default::default(),
        statistics: Box::new(Nothing),
        refused: weir_stream::errors::Refused::new(16, 16_384),
        names: Default::default(),
        news: OnceLock::new(),
    };
    Arc::new(instance)
}

fn header_case(names: &[Box<str>]) -> Option<weir_http::CaseMap> {
    let mut map = weir_http::CaseMap::default();
    names.iter().for_each(|name| assert!(map.insert(name.as_bytes())));
    (!map.is_empty()).then_some(map)
}

fn read(text: &str) -> model::Config {
    let mut sources = SourceMap::new();
    sources.add("test.cfg", text.as_bytes().to_vec());
    let registry = Registry::new(weir_stream::fetch::FETCHES.iter().map(|row| &row.decl));
    let (patterns, variables) = (PatternStore::new(), VariableNames::new());
    let inputs = Inputs {
        sources: &sources,
        loader: &NoFiles,
        registry: &registry,
        actions: &weir_stream::actions::ACTIONS,
        patterns: &patterns,
        token_keys: &TokenKeys::new(),
        variables: &variables,
        conditions: &StaticFeatures { features: &[], enabled: &[], tls: None },
    };
    let outcome = parse(inputs, Environment::new());
    let alerts = outcome.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Alert);
    assert!(!alerts, "{}\n{text}", outcome.diagnostics.classic(&sources, 1, false));
    outcome.config
}

fn proxy(index: usize, config: model::Proxy, workers: usize, log: &Arc<LogSink>) -> Proxy {
    let backend = config.is_backend().then(|| backend(&config, workers));
    let logs = !config.settings.logging.targets.is_empty();
    let rulesets = RulesetKind::ALL
        .iter()
        .filter(|kind| config.rules(**kind).next().is_some())
        .fold(0, |bits, kind| bits | 1 << *kind as u32);
    Proxy {
        index,
        backend,
        frontend_figures: weir_backend::FrontendFigures::new(workers),
        backend_figures: Arc::new(weir_backend::BackendFigures::new(workers)),
        added_servers: Default::default(),
        configured_tls: Vec::new(),
        listeners: config.binds.iter().map(|bind| listener(bind, workers)).collect(),
        log_sinks: if logs { vec![Arc::clone(log)] } else { Vec::new() },
        log_tag: (*b"weir").into(),
        connections: weir_net::ConnectionLimit::new(),
        connections_limit: AtomicU32::new(config.settings.maxconn.unwrap_or(10_000)),
        state: AtomicU32::new(0),
        published: (!config.unpublished).into(),
        acceptors: Default::default(),
        uses_request_line: true,
        takes_fragments: config.takes_fragments(),
        asked_userlists: config.asked_userlists(),
        timeouts: weir_stream::deadlines::Timeouts::of_proxy(&config.settings.timeouts),
        log_timing: weir_stream::log::LogTiming::of(&config),
        rulesets,
        name: config.name.as_ref().into(),
        config,
    }
}

fn listener(bind: &model::Bind, workers: usize) -> Listener {
    Listener {
        name: bind.name.clone().unwrap_or_else(|| "sock-1".into()),
        id: bind.id.unwrap_or(1),
        bind: bind.clone(),
        address: OnceLock::new(),
        figures: weir_backend::ListenerFigures::new(workers),
        connections: weir_net::ConnectionLimit::new(),
        tls: None,
    }
}

fn backend(config: &model::Proxy, workers: usize) -> Arc<Backend> {
    let settings = &config.settings;
    let algorithm = Algorithm::new(settings.balance.word.name).with(settings.balance.number());
    let redispatch = match settings.options.redispatch {
        Redispatch::Off => 0,
        Redispatch::Every(every) => i32::try_from(every).expect("a small number"),
        Redispatch::FromLast(from) => -i32::try_from(from).expect("a small number"),
    };
    let backend = BackendSettings {
        name: config.name.as_ref().into(),
        id: config.id,
        workers,
        algorithm,
        redispatch,
        retries: settings.retries,
        persist: settings.options.persist,
        full_connections: settings.fullconn.unwrap_or(0),
        http_reuse: settings.options.reuse,
        cookie: settings.cookie.as_ref().map(CookieRules::new),
        ..Default::default()
    };
    Backend::new(backend, config.servers.iter().map(server).collect(), 0)
}

fn server(config: &model::Server) -> ServerSettings {
    let settings = &config.settings;
    let model::ServerAddress::Inet { host: model::Host::Ip(ip), port } = &config.address else {
        panic!("{:?} has no place in these tests yet", config.address)
    };
    let port = match port {
        model::ServerPort::Fixed(port) => ServicePort::Fixed(*port),
        model::ServerPort::Mapped(offset) => ServicePort::Mapped(*offset),
    };
    ServerSettings {
        name: config.name.as_ref().into(),
        id: config.id,
        address: ServerAddress::Inet { ip: Some(*ip), port },
        weight: u32::from(settings.weight),
        backup: settings.backup,
        disabled: settings.disabled,
        cookie: settings.cookie.as_deref().map(Into::into),
        maximum_connections: settings.maxconn,
        minimum_connections: settings.minconn,
        maximum_queue: settings.maxqueue,
        pool: weir_backend::PoolSettings {
            maximum: settings.pool_max_connections,
            low: settings.pool_low_connections,
            purge_delay_ms: u64::try_from(settings.pool_purge_delay.as_millis()).expect("a short time"),
            maximum_reuse: settings.max_reuse,
            shared: true,
            strict: settings.strict_maxconn,
        },
        ..Default::default()
    }
}

/// A pair of sockets that preserve message boundaries: log lines sent to the first are read from the second.
pub fn log_pair() -> (OwnedFd, OwnedFd) {
    let (near, far) = std::os::unix::net::UnixDatagram::pair().expect("a pair");
    for end in [&near, &far] {
        end.set_nonblocking(true).expect("a socket");
    }
    (near.into(), far.into())
}

/// A log sink that writes each line unchanged to a descriptor.
pub fn raw_sink(log: &OwnedFd) -> Arc<LogSink> {
    let facility = Facility::from_name("local0").expect("a facility");
    let target = LogTarget {
        format: LogFormat::Raw,
        ..LogTarget::new(LogAddress::Descriptor(log.as_raw_fd()), facility)
    };
    Arc::new(LogSink::open(target, &weir_events::Sinks::default()).expect("the descriptor is open"))
}

/// A logger for a worker.
pub fn logger() -> Logger {
    Logger::new(Arc::new(LogIdentity::default()), weir_events::calendar::utc())
}

static WAKER: Kind = Kind::new("waker");

struct Nothing;

/// A statistics page with one word.
struct Word(&'static [u8]);

impl Service for Word {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> Made {
        out.extend_from_slice(self.0);
        Made::Last
    }
}

/// Lends a page of two halves, each after a minute: first until a time, then until it wakes the task.
struct Slow {
    left: &'static [u8],
    half: usize,
    waits: Option<Tick>,
}

impl Service for Slow {
    fn advance(&mut self, _: usize, _: &mut Vec<u8>) -> Made {
        let now = weir_sched::now();
        let until = *self.waits.get_or_insert_with(|| now.after(60_000));
        if until > now {
            if self.half > 0 {
                let stream = weir_sched::current();
                weir_sched::spawn(&WAKER, Class::Normal, async move {
                    weir_sched::sleep_until(until).await;
                    weir_sched::wake(stream);
                });
                return Made::Later(Tick::NEVER);
            }
            return Made::Later(until);
        }
        self.waits = None;
        self.left = &self.left[self.half..];
        self.half = 5;
        if self.left.len() > 5 { Made::More } else { Made::Last }
    }

    fn lent(&self) -> Option<&[u8]> {
        Some(&self.left[..self.half])
    }
}

impl Statistics for Nothing {
    fn page(&self, _: &Arc<Instance>, request: &PageRequest<'_>) -> Page {
        let body: Box<dyn Service> = match (request.suffix, Datagrams::asked_for(request.suffix)) {
            (_, Some(datagrams)) => Box::new(datagrams),
            (b";slow", _) => Box::new(Slow { left: b"firstlater", half: 0, waits: None }),
            _ => Box::new(Word(b"page")),
        };
        Page {
            status: 200,
            content_type: "text/plain",
            policy: None,
            location: None,
            refresh: None,
            body: Some(body),
        }
    }

    fn metrics(&self, instance: &Arc<Instance>, query: &[u8], _: &[u8]) -> Option<Page> {
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
