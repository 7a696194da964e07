//! Frontends, backends, servers, and the messages that they rejected.

use std::net::IpAddr;

use weir_events::WallTime;

use super::ListPosition;

/// A frontend that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontendKey(pub u64);

/// A backend that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendKey(pub u64);

/// A server that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerKey {
    pub backend: BackendKey,
    /// The server in it.
    pub server: u64,
}

/// Operations on proxies. Names are as configured, or `#<id>`.
pub trait ProxyTarget {
    /// The `id` of a proxy of either side.
    fn proxy_id(&self, name: &str) -> Option<u32>;

    /// A frontend by name or `#<id>`.
    fn frontend(&self, name: &str) -> Option<FrontendKey>;

    /// A backend by name or `#<id>`.
    fn backend(&self, name: &str) -> Option<BackendKey>;

    /// A server of a backend by name or `#<id>`.
    fn server(&self, backend: BackendKey, name: &str) -> Option<ServerKey>;

    /// The name of the next backend, and the place behind it.
    fn next_backend(&self, place: &mut ListPosition) -> Option<String>;

    /// The next server, of one backend or of all, and the place behind it.
    fn next_server(&self, backend: Option<BackendKey>, place: &mut ListPosition) -> Option<ServerKey>;

    /// How a server is. `None` when it is gone.
    fn server_view(&self, server: ServerKey) -> Option<ServerView>;

    /// Fills `view` with a server's connections; false when it is gone. Thousands of servers are listed with the memory
    /// of one view.
    fn server_connections(&self, server: ServerKey, view: &mut ServerConnections) -> bool;

    /// How many workers keep idle connections: the length of [`ServerConnections::idle_per_worker`].
    fn workers(&self) -> usize;

    /// Sets the weight, already checked to be 0 to 256, and 0 or the initial one where
    /// [`ServerView::static_balance`] allows only those.
    fn set_server_weight(&mut self, server: ServerKey, weight: u32) -> Result<(), ServerRefusal>;

    /// Sets the administrative state.
    fn set_server_state(&mut self, server: ServerKey, state: ServerState) -> Result<(), ServerRefusal>;

    /// Changes address and port, for new connections.
    fn set_server_address(&mut self, server: ServerKey, change: AddressChange) -> Result<(), ServerRefusal>;

    /// Changes the name that the name servers resolve for a server. Returns the former name.
    fn set_server_name(&mut self, server: ServerKey, name: &str) -> Result<Option<String>, ServerRefusal>;

    /// Sets the number of connections at a time; 0 for no limit.
    fn set_server_maxconn(&mut self, server: ServerKey, maxconn: u32) -> Result<(), ServerRefusal>;

    /// Ends all sessions on a server. False when it is gone.
    fn shutdown_server_sessions(&mut self, server: ServerKey) -> bool;

    /// Sets the counters of a server to zero. False when it is gone.
    fn clear_server_counters(&mut self, server: ServerKey) -> bool;

    /// Starts or stops a server's checks of a kind; false if it does not have any.
    fn enable_checks(&mut self, server: ServerKey, kind: CheckKind, enabled: bool) -> bool;

    /// Has the traffic of a server's new connections go over TLS, or in clear; false when its line lacks TLS settings.
    fn set_server_tls(&mut self, server: ServerKey, on: bool) -> bool;

    /// Forces the result of the agent check; false without an agent.
    fn set_server_agent(&mut self, server: ServerKey, up: bool) -> bool;

    /// Redirects a server's checks of a kind, or changes the string sent to the agent; false without such checks.
    fn redirect_checks(&mut self, server: ServerKey, kind: CheckKind, to: CheckRedirection) -> bool;

    /// Forces the result of health checks. The error is a text for the operator, without newline.
    fn set_server_health(&mut self, server: ServerKey, health: ServerHealth) -> Result<(), ServerRefusal>;

    /// Lets frontends send to a backend, or keeps them away from it. False when it is `disabled`: no frontend sends to it.
    fn publish_backend(&mut self, backend: BackendKey, published: bool) -> bool;

    /// Switches the dynamic cookies of a backend on or off. False when it is gone.
    fn enable_dynamic_cookies(&mut self, backend: BackendKey, enabled: bool) -> bool;

    /// Sets the key of a backend's dynamic cookies. False when the backend is gone.
    fn set_dynamic_cookie_key(&mut self, backend: BackendKey, key: &str) -> bool;

    /// The words that `add server` takes after name and address.
    fn added_server_words(&self) -> Vec<&'static str>;

    /// Adds a server. `words` follow the name on a `server` line. The error is a text for the operator, without
    /// newline.
    fn add_server(&mut self, backend: BackendKey, name: &str, words: &[String]) -> Result<(), String>;

    /// Removes a server that is neither referenced nor in use. The error is a text for the operator, without newline.
    fn delete_server(&mut self, server: ServerKey) -> Result<(), String>;

    /// Sets the number of connections at a time.
    fn set_frontend_maxconn(&mut self, frontend: FrontendKey, maxconn: u32) -> Result<(), FrontendRefusal>;

    /// Stops accepting; the sockets stay.
    fn disable_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal>;

    /// Accepts again.
    fn enable_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal>;

    /// Closes the sockets for good.
    fn shutdown_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal>;

    /// How many protocol errors were captured since the start.
    fn captured_errors(&self) -> u32;

    /// The next captured error that matches the filter, and the place behind it.
    fn next_captured_error(&self, filter: &ErrorFilter, place: &mut ListPosition) -> Option<CapturedError>;
}

/// The bits of `srv_check_state` and `srv_agent_state` (management manual, "show servers state").
pub mod check_state {
    /// A check runs.
    pub const RUNNING: u32 = 1;
    /// The configuration has a check.
    pub const CONFIGURED: u32 = 2;
    /// An operator has not disabled it.
    pub const ENABLED: u32 = 4;
    /// It waits for the end of maintenance.
    pub const PAUSED: u32 = 8;
    /// It is an agent check.
    pub const AGENT: u32 = 16;
}

/// The state of a server: `show servers state` prints it, and other commands use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// The backend's `id`.
    pub backend_id: u32,
    pub backend_name: String,
    /// The server's `id`.
    pub id: u32,
    pub name: String,
    /// Its address; `None` for a unix socket or a name that did not resolve.
    pub address: Option<IpAddr>,
    /// Its port; 0 on a unix socket.
    pub port: PortSetting,
    /// Whether its port is the one of the configuration.
    pub port_is_configured: bool,
    /// 0 stopped, 1 starting, 2 running, 3 stopping.
    pub operational_state: u8,
    /// The sum of the management manual's `srv_admin_state` bits.
    pub administrative_state: u8,
    /// The weight that was set last.
    pub user_weight: u32,
    /// The weight of the configuration.
    pub initial_weight: u32,
    /// Whether its backend balances by a table that cannot take new weights.
    pub static_balance: bool,
    /// Seconds since the operational state changed.
    pub last_change_s: u64,
    /// The check's status, result, health and state, as numbers of the management manual.
    pub check: (u32, u32, u32, u32),
    pub agent_state: u32,
    /// Whether the backend's `id` is configured.
    pub backend_id_forced: bool,
    /// Whether the server's `id` is configured.
    pub id_forced: bool,
    /// The name that its address is resolved from.
    pub fqdn: Option<String>,
    /// The SRV record that it was made from.
    pub srv_record: Option<String>,
    /// Whether its connections use TLS; `None` where `no-ssl` removed the setting and no command has set it since.
    pub uses_ssl: Option<bool>,
    /// The check's port; 0 without one.
    pub check_port: u16,
    pub check_address: Option<IpAddr>,
    pub agent_address: Option<IpAddr>,
    /// The agent's port; 0 without one.
    pub agent_port: u16,
}

impl ServerView {
    /// A running, unchecked server with these names and default settings.
    pub fn new(backend: (u32, &str), server: (u32, &str)) -> Self {
        Self {
            backend_id: backend.0,
            backend_name: backend.1.to_owned(),
            id: server.0,
            name: server.1.to_owned(),
            address: None,
            port: PortSetting::Fixed(0),
            port_is_configured: true,
            operational_state: 2,
            administrative_state: 0,
            user_weight: 1,
            initial_weight: 1,
            static_balance: false,
            last_change_s: 0,
            check: (1, 0, 0, 0),
            agent_state: 0,
            backend_id_forced: false,
            id_forced: false,
            fqdn: None,
            srv_record: None,
            uses_ssl: Some(false),
            check_port: 0,
            check_address: None,
            agent_address: None,
            agent_port: 0,
        }
    }
}

/// A server's connections, for `show servers conn`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerConnections {
    /// The backend's `id`.
    pub backend_id: u32,
    pub backend_name: String,
    /// The server's `id`.
    pub id: u32,
    pub name: String,
    /// Its address; `None` for a unix socket or a name that did not resolve.
    pub address: Option<IpAddr>,
    /// Its port, or how far it is from the client's; 0 on a unix socket.
    pub port: i32,
    /// `pool-purge-delay`, in milliseconds.
    pub purge_delay_ms: u64,
    /// Requests that it serves.
    pub served: u32,
    pub used_now: u32,
    /// The most of them since the last purge.
    pub used_max: u32,
    /// How many are expected to be needed.
    pub needed: u32,
    /// Idle connections that sessions keep for themselves.
    pub idle_in_sessions: u32,
    /// Idle connections that may not take a first request.
    pub unsafe_idle: u32,
    /// Idle connections that may.
    pub safe_idle: u32,
    /// `pool-max-conn`; -1 for no limit.
    pub idle_limit: i64,
    /// Idle connections in all.
    pub idle_now: u32,
    /// The same by worker.
    pub idle_per_worker: Vec<u32>,
}

/// An administrative state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    Ready,
    /// No new traffic but that of persistence.
    Drain,
    Maintenance,
}

/// Which of a server's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// `check`.
    Health,
    /// `agent-check`.
    Agent,
}

/// A new destination of checks: fields that are `None` stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckRedirection {
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    /// The string sent to an agent first.
    pub send: Option<Vec<u8>>,
}

/// The result of health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerHealth {
    Up,
    /// It answers, but does not want new visitors.
    Stopping,
    /// It does not answer.
    Down,
}

/// A new address for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressChange {
    /// The address; unchanged if `None`.
    pub address: Option<IpAddr>,
    /// The port; unchanged if `None`.
    pub port: Option<PortSetting>,
}

/// A server's port: its own, or relative to the client's destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSetting {
    Fixed(u16),
    /// The port that the client connected to, plus this (may be negative).
    Offset(i32),
}

impl PortSetting {
    /// The port, or the offset.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Fixed(port) => i32::from(port),
            Self::Offset(offset) => offset,
        }
    }
}

/// As in commands: `80`, `+1`, `-1`.
impl std::fmt::Display for PortSetting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(port) => port.fmt(formatter),
            Self::Offset(offset) => write!(formatter, "{offset:+}"),
        }
    }
}

/// The reason why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRefusal {
    /// It went away since it was looked up.
    Gone,
    /// A text for the operator, without newline.
    Because(String),
}

/// The reason why a change was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontendRefusal {
    /// It went away, or was shut down before.
    Gone,
    /// It is in that state already.
    Already,
    /// A text for the operator, without newline.
    Because(String),
}

/// A filter for captured errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorFilter {
    /// Only those about this proxy.
    pub proxy_id: Option<u32>,
    /// Only requests, or only responses.
    pub only: Option<Direction>,
}

/// One of the two halves of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

/// A message that was refused, kept for `show errors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedError {
    pub time: WallTime,
    pub direction: Direction,
    /// Name and `id` of the proxy that refused it: the frontend for a request, the backend for a response.
    pub proxy: (String, u32),
    /// Name and `id` of the proxy on the other side, once it is known.
    pub other_side: Option<(String, u32)>,
    /// Name and `id` of the server, once it is known.
    pub server: Option<(String, u32)>,
    pub number: u32,
    /// Where the client is: `127.0.0.1:52856`.
    pub source: String,
    /// How much of the buffer was free.
    pub buffer_free: usize,
    /// How large the buffer is.
    pub buffer_size: usize,
    /// The byte that made the message invalid.
    pub position: usize,
    /// Further details of the protocol engine, one per line.
    pub details: Vec<String>,
    /// The part of the message that was received.
    pub bytes: Vec<u8>,
}
