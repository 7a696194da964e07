//! The proxy: the result of a `frontend`, `backend` or `listen` section and its `defaults`.
//!
//! A proxy has three parts. [`Settings`] can come from a `defaults` section: they are copied from there when the
//! section begins and then changed, so large parts are behind an `Arc`. [`Rulesets`] are the rules that run
//! on traffic: those of a named `defaults` section are not copied but kept beside the proxy's own. The rest belongs
//! to the proxy alone.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Condition, Location, LogFormat};
use weir_fingerprint::{Canonical, FormEncoder, Referent};

use super::address::Source;
use super::application::FcgiApplication;
use super::balance::{
    Balance, CookiePersistence, HashType, OutlierEjection, PersistRule, PreserveAffinity, ProxyIndex,
    RetryOn, UseBackend, UseServer,
};
use super::bind;
use super::bind::Bind;
use super::check_script::CheckScripts;
use super::compression::Compression;
use super::filter::{Filter, FilterDirection, FilterSequences};
use super::log::Logging;
use super::mail::MailAlert;
use super::options::Options;
use super::reply::ErrorReplies;
use super::rules::{RedirectRule, Rule, RulesetKind, Rulesets};
use super::server::{Server, ServerSettings, ServerStates};
use super::stats::Stats;
use super::table::StickRule;
use super::tls::CertificateUse;

/// A frontend, a backend, or both in one.
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its name. A frontend and a backend may share one.
    pub name: Arc<str>,
    /// Which section made it.
    pub section: ProxySection,
    /// Where the section begins.
    pub at: Location,
    /// The identifier: `id`, or the lowest free one. Never 0 once the configuration is complete.
    pub id: u32,
    /// Whether the section sets the identifier.
    pub id_is_forced: bool,
    /// `server-state-file-name`. None for the backend's name.
    pub server_state_file: Option<Box<str>>,
    /// `description`.
    pub description: Option<Box<str>>,
    /// `guid`: a name that is unique in the whole process.
    pub guid: Option<Box<str>>,
    /// Settings that `defaults` can give.
    pub settings: Settings,
    /// The rules of the named `defaults` section of the proxy, which run before its own.
    pub inherited_rules: Option<Arc<Rulesets>>,
    pub rules: Rulesets,
    /// `bind` lines.
    pub binds: Vec<Bind>,
    /// `ssl-f-use` lines: certificates of all TLS `bind` lines of the proxy, which refer to them as the list `@<name>`.
    pub certificates: Vec<CertificateUse>,
    /// The proxy of `default_backend`. None for the proxy itself (`listen`), or without a backend.
    pub default_backend: Option<ProxyIndex>,
    /// `use_backend` lines.
    pub use_backend: Vec<UseBackend>,
    /// `redirect` lines: they run after the `http-request` rules.
    pub redirects: Vec<RedirectRule>,
    /// `monitor fail`: when a monitor request gets 503.
    pub monitor_fail: Vec<Condition>,
    /// The values captured for the logs.
    pub captures: Captures,
    /// `server` and `server-template` lines, in order.
    pub servers: Vec<Server>,
    /// `use-server` lines.
    pub use_server: Vec<UseServer>,
    /// Its own stick-table: the position in [`super::Config::tables`].
    pub table: Option<u32>,
    /// `stick` lines.
    pub stick_rules: Vec<StickRule>,
    /// `be-unpublished`: frontends send it no traffic until it is published.
    pub unpublished: bool,
    /// `force-be-switch`: when to send to backends that are not published.
    pub force_switch: Vec<Condition>,
    /// `force-persist` and `ignore-persist` lines.
    pub persist_rules: Vec<PersistRule>,
    /// `filter` lines.
    pub filters: Vec<Filter>,
    /// `filter-sequence` lines.
    pub filter_sequences: FilterSequences,
}

impl Proxy {
    /// A proxy without lines.
    pub fn new(name: Arc<str>, section: ProxySection, at: Location) -> Self {
        Proxy {
            name,
            section,
            at,
            id: 0,
            id_is_forced: false,
            server_state_file: None,
            description: None,
            guid: None,
            settings: Settings::default(),
            inherited_rules: None,
            rules: Rulesets::default(),
            binds: Vec::new(),
            certificates: Vec::new(),
            default_backend: None,
            use_backend: Vec::new(),
            redirects: Vec::new(),
            monitor_fail: Vec::new(),
            captures: Captures::default(),
            servers: Vec::new(),
            use_server: Vec::new(),
            table: None,
            stick_rules: Vec::new(),
            unpublished: false,
            force_switch: Vec::new(),
            persist_rules: Vec::new(),
            filters: Vec::new(),
            filter_sequences: FilterSequences::default(),
        }
    }
}

/// Inherited and own rules are encoded as one list. `bind` and `server` lines are objects themselves: only their names and the
/// servers' order are encoded. Automatic identifiers are left out, since they depend on the order of sections.
impl Canonical for Proxy {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let Proxy {
            name,
            section,
            at: _,
            id,
            id_is_forced,
            server_state_file,
            description,
            guid,
            settings,
            inherited_rules: _,
            rules: _,
            binds,
            certificates,
            default_backend,
            use_backend,
            redirects,
            monitor_fail,
            captures,
            servers,
            use_server,
            table,
            stick_rules,
            unpublished,
            force_switch,
            persist_rules,
            filters,
            filter_sequences,
        } = self;
        out.begin("Proxy");
        out.field("name", name);
        out.field("section", section);
        out.field("id", &id_is_forced.then_some(*id));
        out.field("server-state-file-name", server_state_file);
        out.field("description", description);
        out.field("guid", guid);
        out.flat("", settings);
        // A new field of the rules must be added below.
        let Rulesets {
            tcp_request_connection: _,
            tcp_request_session: _,
            tcp_request_content: _,
            tcp_request_inspect_delay: _,
            tcp_response_content: _,
            tcp_response_inspect_delay: _,
            http_request: _,
            http_response: _,
            http_after_response: _,
        } = &self.rules;
        for kind in RulesetKind::ALL {
            out.field_with(kind.keyword(), |out| out.list(Vec::from_iter(self.rules(kind)).into_iter()));
        }
        out.field("tcp-request inspect-delay", &self.tcp_request_inspect_delay());
        out.field("tcp-response inspect-delay", &self.tcp_response_inspect_delay());
        out.field_with("bind lines", |out| bind::encode_labels(binds, out));
        out.field("ssl-f-use", certificates);
        out.field("default_backend", default_backend);
        out.field("use_backend", use_backend);
        out.field("redirect", redirects);
        out.field("monitor fail", monitor_fail);
        out.field("captures", captures);
        out.field_with("order of servers", |out| {
            out.list(servers.iter().map(|server| (&server.name, server.id)));
        });
        out.field("use-server", use_server);
        out.field_with("stick-table", |out| {
            table.is_some().encode(out);
            if let Some(table) = *table {
                out.referent(Referent::Table(table));
            }
        });
        out.field("stick", stick_rules);
        out.field("be-unpublished", unpublished);
        out.field("force-be-switch", force_switch);
        out.field("persistence rules", persist_rules);
        out.field("filter", filters);
        out.field("filter-sequence", filter_sequences);
        out.field_with("use-fcgi-app", |out| {
            settings.application.is_some().encode(out);
            if let Some(application) = &settings.application {
                out.referent(Referent::FcgiApplication(&application.name));
            }
        });
    }
}

/// Which section makes a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Canonical)]
pub enum ProxySection {
    /// `frontend`.
    Frontend,
    /// `backend`.
    Backend,
    /// `listen`.
    Listen,
}

impl ProxySection {
    /// Whether the proxy accepts connections.
    pub fn is_frontend(self) -> bool {
        self != ProxySection::Backend
    }

    /// Whether the proxy has servers.
    pub fn is_backend(self) -> bool {
        self != ProxySection::Frontend
    }

    /// The word that begins the section. Messages use it too.
    pub fn name(self) -> &'static str {
        match self {
            ProxySection::Frontend => "frontend",
            ProxySection::Backend => "backend",
            ProxySection::Listen => "listen",
        }
    }
}

/// The protocol of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Canonical)]
pub enum Mode {
    /// Bytes.
    #[default]
    Tcp,
    Http,
    /// Log messages: a backend that `log backend@` names.
    Log,
    /// SPOP: a backend of the agents that process streams. Written as `mode spop`, or as `mode tcp` in a backend that an agent of an engine
    /// names.
    Spop,
}

impl Mode {
    /// The word after `mode`.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Tcp => "tcp",
            Mode::Http => "http",
            Mode::Log => "log",
            Mode::Spop => "spop",
        }
    }
}

/// Settings that a `defaults` section can give to a proxy. Every field is inherited.
#[derive(Clone, Debug, Canonical)]
pub struct Settings {
    /// `mode`.
    pub mode: Mode,
    /// `disabled`.
    pub disabled: bool,
    /// `timeout ...`.
    #[canonical(flat = "timeout ")]
    pub timeouts: Timeouts,
    /// `option ...` and `http-reuse`.
    #[canonical(flat = "option ")]
    pub options: Options,
    /// `log`, `option httplog` and similar words.
    pub logging: Logging,
    /// `maxconn` of a frontend. None for the limit of the process.
    pub maxconn: Option<u32>,
    /// `backlog` of a frontend's listeners.
    pub backlog: Option<u32>,
    /// `rate-limit sessions`: new connections per second. 0 for no limit.
    pub session_rate_limit: u32,
    /// `clitcpka-*`: how TCP keep-alive works towards clients.
    pub client_keep_alive: TcpKeepAlive,
    /// `srvtcpka-*`: how TCP keep-alive works towards servers.
    pub server_keep_alive: TcpKeepAlive,
    /// `default_backend`: the name. [`Proxy::default_backend`] is the position.
    #[canonical(skip = "the backend itself is a part of the proxy")]
    pub default_backend: Option<Arc<str>>,
    /// `monitor-uri`: requests for exactly this URI get 200.
    pub monitor_uri: Option<Arc<str>>,
    /// `unique-id-format`.
    pub unique_id_format: Option<Arc<LogFormat>>,
    /// `unique-id-header`.
    pub unique_id_header: Option<Arc<str>>,
    /// `errorfile` and similar words.
    pub errors: Arc<ErrorReplies>,
    /// `stats`; none without a statistics page.
    pub stats: Option<Arc<Stats>>,
    /// `balance`.
    pub balance: Balance,
    /// `hash-type`.
    pub hash_type: HashType,
    /// `hash-balance-factor`: the highest load of a server in per cent of the average. 0 for no limit.
    pub hash_balance_factor: u32,
    /// `hash-preserve-affinity`.
    pub hash_preserve_affinity: PreserveAffinity,
    /// `outlier-ejection`. None for no ejection.
    pub outlier_ejection: Option<OutlierEjection>,
    /// `retries`.
    pub retries: u32,
    /// `retry-on`.
    pub retry_on: RetryOn,
    /// `fullconn`: the load at which `minconn` has grown to `maxconn`. None for a tenth of the frontends' limits.
    pub fullconn: Option<u32>,
    /// `max-keep-alive-queue`: queue length from which a request may leave its last server. None for any length.
    pub max_keep_alive_queue: Option<u32>,
    /// `cookie`.
    pub cookie: Option<Arc<CookiePersistence>>,
    /// `use-fcgi-app`: the application of the backend. Never in a `defaults` section.
    #[canonical(skip = "an object itself, encoded by name with the proxy")]
    pub application: Option<Arc<FcgiApplication>>,
    /// `dynamic-cookie-key`.
    pub dynamic_cookie_key: Option<Arc<str>>,
    /// `load-server-state-from-file`.
    pub server_states: ServerStates,
    /// `source`.
    pub source: Option<Arc<Source>>,
    /// `http-send-name-header`.
    pub send_name_header: Option<Arc<str>>,
    /// `persist rdp-cookie`: the cookie's name.
    pub persist_rdp_cookie: Option<Arc<str>>,
    /// How servers are checked.
    pub checks: Arc<CheckScripts>,
    /// `email-alert`: mail alerts; none for no mails.
    pub mail_alert: Option<Arc<MailAlert>>,
    /// `compression`.
    #[canonical(flat)]
    pub compression: Arc<Compression>,
    /// `default-server`.
    #[canonical(skip = "the servers have it")]
    pub default_server: Arc<ServerSettings>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            mode: Mode::Tcp,
            disabled: false,
            timeouts: Timeouts::default(),
            options: Options::default(),
            logging: Logging::default(),
            maxconn: None,
            backlog: None,
            session_rate_limit: 0,
            client_keep_alive: TcpKeepAlive::default(),
            server_keep_alive: TcpKeepAlive::default(),
            default_backend: None,
            monitor_uri: None,
            unique_id_format: None,
            unique_id_header: None,
            errors: Arc::default(),
            stats: None,
            balance: Balance::default(),
            hash_type: HashType::default(),
            hash_balance_factor: 0,
            hash_preserve_affinity: PreserveAffinity::default(),
            outlier_ejection: None,
            retries: 3,
            retry_on: RetryOn::default(),
            fullconn: None,
            max_keep_alive_queue: None,
            cookie: None,
            application: None,
            dynamic_cookie_key: None,
            server_states: ServerStates::None,
            source: None,
            send_name_header: None,
            persist_rdp_cookie: None,
            checks: Arc::default(),
            mail_alert: None,
            compression: Arc::default(),
            default_server: Arc::default(),
        }
    }
}

impl Proxy {
    /// Whether the proxy accepts connections.
    pub fn is_frontend(&self) -> bool {
        self.section.is_frontend()
    }

    /// Whether the proxy has servers.
    pub fn is_backend(&self) -> bool {
        self.section.is_backend()
    }

    /// The mode of the proxy.
    pub fn mode(&self) -> Mode {
        self.settings.mode
    }

    /// Whether a rule can switch a connection to HTTP.
    pub fn switches_to_http(&self) -> bool {
        self.rules(RulesetKind::TcpRequestContent).any(|rule| rule.action.facts().switches_to_http)
    }

    /// The rules of one kind in the order in which they run: the `defaults` section's first.
    pub fn rules(&self, kind: RulesetKind) -> impl Iterator<Item = &Rule> {
        let inherited = self.inherited_rules.as_deref().map_or(&[][..], |rules| rules.get(kind));
        inherited.iter().chain(self.rules.get(kind))
    }

    /// Whether a rule handles the fragment of a request's target. Without such a rule, a request with a fragment is refused:
    /// clients must not send one (RFC 9112, 3.2).
    pub fn takes_fragments(&self) -> bool {
        self.rules(RulesetKind::HttpRequest).any(|rule| rule.action.facts().takes_fragments)
    }

    /// `tcp-request inspect-delay` of the proxy or of its `defaults` section.
    pub fn tcp_request_inspect_delay(&self) -> Option<Duration> {
        self.rules
            .tcp_request_inspect_delay
            .or_else(|| self.inherited_rules.as_ref().and_then(|rules| rules.tcp_request_inspect_delay))
    }

    /// `tcp-response inspect-delay` of the proxy or of its `defaults` section.
    pub fn tcp_response_inspect_delay(&self) -> Option<Duration> {
        self.rules
            .tcp_response_inspect_delay
            .or_else(|| self.inherited_rules.as_ref().and_then(|rules| rules.tcp_response_inspect_delay))
    }

    /// The positions of the filters that process one direction, in processing order.
    pub fn filter_order(&self, direction: FilterDirection) -> impl Iterator<Item = usize> {
        let sequence = self.filter_sequences.of(direction);
        let written = (0..self.filters.len()).filter(move |_| sequence.is_none());
        let order = sequence.unwrap_or_default().iter().map(|at| usize::from(*at)).chain(written);
        order.filter(move |at| self.filters.get(*at).is_some_and(|filter| filter.sees(direction)))
    }

    /// The server with this name, by a linear search.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| *server.name == *name)
    }
}

/// Every `timeout` of a proxy. None for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Timeouts {
    /// `client`: no data from or to the client.
    pub client: Option<Duration>,
    /// `connect`: the server does not accept the connection.
    pub connect: Option<Duration>,
    /// `server`: no data from or to the server.
    pub server: Option<Duration>,
    /// `check`: duration of a health check after the connection. None for the interval of the checks.
    pub check: Option<Duration>,
    /// `queue`: a request waits for a free slot on a server. None for `connect`.
    pub queue: Option<Duration>,
    /// `http-request`: the request's headers are incomplete.
    pub http_request: Option<Duration>,
    /// `http-keep-alive`: the next request does not begin. None for `http-request`, then `client`.
    pub http_keep_alive: Option<Duration>,
    /// `tunnel`: no data in either direction of a tunnel.
    pub tunnel: Option<Duration>,
    /// `client-fin`: replaces `client` once one side has closed.
    pub client_fin: Option<Duration>,
    /// `server-fin`: replaces `server` once one side has closed.
    pub server_fin: Option<Duration>,
    /// `tarpit`: delay of tarpitted requests. None for `connect`.
    pub tarpit: Option<Duration>,
    /// `client-hs`: the handshakes of a client's connection are incomplete. None for `client`.
    pub client_handshake: Option<Duration>,
}

/// TCP keep-alive. None for the system's setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct TcpKeepAlive {
    /// Unanswered probes before the connection is dead.
    pub count: Option<u32>,
    /// Idle time before the first probe.
    pub idle: Option<Duration>,
    pub interval: Option<Duration>,
}

/// The values captured for the logs and for later rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Captures {
    /// `capture request header`, `declare capture request`, and the slots of `http-request capture ... len`.
    pub request: Vec<CaptureSlot>,
    /// The same for responses.
    pub response: Vec<CaptureSlot>,
    /// `capture cookie`.
    pub cookie: Option<CookieCapture>,
}

/// A slot for a captured value.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct CaptureSlot {
    /// The header to capture. None if only `capture` actions fill the slot.
    pub header: Option<Box<str>>,
    /// Longest value in bytes. Longer values are cut.
    pub length_max: u32,
}

/// `capture cookie`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct CookieCapture {
    /// The name, or its beginning.
    pub name: Box<str>,
    /// Whether `name` (written without a final `=`) is a prefix of the cookie's name.
    pub prefix: bool,
    /// Longest capture in bytes. Longer captures are cut.
    pub length_max: u32,
}
