//! Frontends, backends, servers, and captured protocol errors.

use std::net::IpAddr;

use weir_events::WallTime;

use super::ListPosition;

/// Key of a frontend, from a lookup by name or id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontendKey(pub u64);

/// Key of a backend, from a lookup by name or id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackendKey(pub u64);

/// Key of a server, from a lookup by name or id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerKey {
    pub backend: BackendKey,
    /// Key of the server within `backend`.
    pub server: u64,
}

/// Operations on proxies. Names are as configured, or `#<id>`.
pub trait ProxyTarget {
    /// The `id` of a frontend or backend.
    fn proxy_id(&self, name: &str) -> Option<u32>;

    /// A frontend by name or `#<id>`.
    fn frontend(&self, name: &str) -> Option<FrontendKey>;

    /// A backend by name or `#<id>`.
    fn backend(&self, name: &str) -> Option<BackendKey>;

    /// A server of a backend by name or `#<id>`.
    fn server(&self, backend: BackendKey, name: &str) -> Option<ServerKey>;

    /// Name of the next backend. Advances `place`. `None` at the end of the list.
    fn next_backend(&self, place: &mut ListPosition) -> Option<String>;

    /// The next server, of one backend or of all. Advances `place`. `None` at the end of the list.
    fn next_server(&self, backend: Option<BackendKey>, place: &mut ListPosition) -> Option<ServerKey>;

    /// State of a server. `None` if the server was deleted.
    fn server_view(&self, server: ServerKey) -> Option<ServerView>;

    /// Fills `view` with the connection counts of a server. False if the server was deleted. The caller reuses one view for
    /// thousands of servers.
    fn server_connections(&self, server: ServerKey, view: &mut ServerConnections) -> bool;

    /// The number of workers: the length of [`ServerConnections::idle_per_worker`].
    fn workers(&self) -> usize;

    /// Sets the weight. The caller has checked the range, 0 to 256. With [`ServerView::static_balance`] it passes only 0 or
    /// the initial weight.
    fn set_server_weight(&mut self, server: ServerKey, weight: u32) -> Result<(), ServerRefusal>;

    /// Sets the administrative state.
    fn set_server_state(&mut self, server: ServerKey, state: ServerState) -> Result<(), ServerRefusal>;

    /// Changes address and port. Existing connections are kept.
    fn set_server_address(&mut self, server: ServerKey, change: AddressChange) -> Result<(), ServerRefusal>;

    /// Changes the server's FQDN, which the `resolvers` section resolves. Returns the former name.
    fn set_server_name(&mut self, server: ServerKey, name: &str) -> Result<Option<String>, ServerRefusal>;

    /// Sets the maximum of concurrent connections. 0 for no limit.
    fn set_server_maxconn(&mut self, server: ServerKey, maxconn: u32) -> Result<(), ServerRefusal>;

    /// Shuts down all sessions on a server. False if the server was deleted.
    fn shutdown_server_sessions(&mut self, server: ServerKey) -> bool;

    /// Resets the counters of a server. False if the server was deleted.
    fn clear_server_counters(&mut self, server: ServerKey) -> bool;

    /// Starts or stops health or agent checks of a server. False if checks of this kind are not configured.
    fn enable_checks(&mut self, server: ServerKey, kind: CheckKind, enabled: bool) -> bool;

    /// Enables or disables TLS for new connections to a server. False if its `server` line lacks TLS settings.
    fn set_server_tls(&mut self, server: ServerKey, on: bool) -> bool;

    /// Forces the result of the agent check. False if no agent check is configured.
    fn set_server_agent(&mut self, server: ServerKey, up: bool) -> bool;

    /// Redirects checks of a kind, or changes the agent's send string. False if checks of this kind are not configured.
    fn redirect_checks(&mut self, server: ServerKey, kind: CheckKind, to: CheckRedirection) -> bool;

    /// Forces the result of health checks. The error is a message for the operator, without a newline.
    fn set_server_health(&mut self, server: ServerKey, health: ServerHealth) -> Result<(), ServerRefusal>;

    /// Publishes or unpublishes a backend for frontends. False if the backend is `disabled`, which excludes all traffic.
    fn publish_backend(&mut self, backend: BackendKey, published: bool) -> bool;

    /// Enables or disables the dynamic cookies of a backend. False if the backend was deleted.
    fn enable_dynamic_cookies(&mut self, backend: BackendKey, enabled: bool) -> bool;

    /// Sets the key of a backend's dynamic cookies. False if the backend was deleted.
    fn set_dynamic_cookie_key(&mut self, backend: BackendKey, key: &str) -> bool;

    /// The keywords that `add server` accepts after name and address.
    fn added_server_words(&self) -> Vec<&'static str>;

    /// Adds a server. `words` follow the name on a `server` line. The error is a message for the operator, without a
    /// newline.
    fn add_server(&mut self, backend: BackendKey, name: &str, words: &[String]) -> Result<(), String>;

    /// Removes a server that is neither referenced nor in use. The error is a message for the operator, without a newline.
    fn delete_server(&mut self, server: ServerKey) -> Result<(), String>;

    /// Sets the maximum of concurrent connections.
    fn set_frontend_maxconn(&mut self, frontend: FrontendKey, maxconn: u32) -> Result<(), FrontendRefusal>;

    /// Stops accepting connections. The sockets stay open.
    fn disable_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal>;

    /// Resumes accepting connections.
    fn enable_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal>;

    /// Closes the listening sockets for good.
    fn shutdown_frontend(&mut self, frontend: FrontendKey) -> Result<(), FrontendRefusal>;

    /// Number of protocol errors captured since the process started.
    fn captured_errors(&self) -> u32;

    /// The next captured error that matches the filter. Advances `place`. `None` at the end of the list.
    fn next_captured_error(&self, filter: &ErrorFilter, place: &mut ListPosition) -> Option<CapturedError>;
}

/// The bits of `srv_check_state` and `srv_agent_state` (management manual, "show servers state").
pub mod check_state {
    /// A check is in progress.
    pub const RUNNING: u32 = 1;
    /// The configuration has a check.
    pub const CONFIGURED: u32 = 2;
    /// The check is enabled: no operator has disabled it.
    pub const ENABLED: u32 = 4;
    /// The check is paused during maintenance.
    pub const PAUSED: u32 = 8;
    /// The bits describe an agent check.
    pub const AGENT: u32 = 16;
}

/// State of a server, for `show servers state` and other commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerView {
    /// The backend's `id`.
    pub backend_id: u32,
    pub backend_name: String,
    /// The server's `id`.
    pub id: u32,
    pub name: String,
    /// The server's address. `None` for a UNIX socket or an unresolved name.
    pub address: Option<IpAddr>,
    /// The server's port. 0 for a UNIX socket.
    pub port: PortSetting,
    /// Whether the port is still the configured one.
    pub port_is_configured: bool,
    /// 0 stopped, 1 starting, 2 running, 3 stopping.
    pub operational_state: u8,
    /// The sum of the management manual's `srv_admin_state` bits.
    pub administrative_state: u8,
    /// The current weight, as last set by an operator or the configuration.
    pub user_weight: u32,
    /// The configured weight.
    pub initial_weight: u32,
    /// Whether the backend uses a static balancing algorithm, which cannot apply new weights.
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
    /// The FQDN from which the address is resolved.
    pub fqdn: Option<String>,
    /// The SRV record that created the server.
    pub srv_record: Option<String>,
    /// Whether connections to the server use TLS. `None` if `no-ssl` removed the setting and no command has set it since.
    pub uses_ssl: Option<bool>,
    /// The port of health checks. 0 without a separate port.
    pub check_port: u16,
    pub check_address: Option<IpAddr>,
    pub agent_address: Option<IpAddr>,
    /// The port of agent checks. 0 without one.
    pub agent_port: u16,
}

impl ServerView {
    /// A running server without checks, with these ids and names and default settings.
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
    /// The server's address. `None` for a UNIX socket or an unresolved name.
    pub address: Option<IpAddr>,
    /// The server's port, or its offset from the client's destination port. 0 for a UNIX socket.
    pub port: i32,
    /// `pool-purge-delay`, in milliseconds.
    pub purge_delay_ms: u64,
    /// Requests in progress.
    pub served: u32,
    pub used_now: u32,
    /// Maximum of used connections since the last purge.
    pub used_max: u32,
    /// Estimate of the connections needed.
    pub needed: u32,
    /// Idle connections reserved for one session each.
    pub idle_in_sessions: u32,
    /// Idle connections that must not carry the first request of a session.
    pub unsafe_idle: u32,
    /// Idle connections that may carry the first request of a session.
    pub safe_idle: u32,
    /// `pool-max-conn`. -1 for no limit.
    pub idle_limit: i64,
    /// Total number of idle connections.
    pub idle_now: u32,
    pub idle_per_worker: Vec<u32>,
}

/// An administrative state that `set server state` requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    Ready,
    /// Accepts only persistent traffic.
    Drain,
    Maintenance,
}

/// The kind of a server's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// `check`.
    Health,
    /// `agent-check`.
    Agent,
}

/// A new destination of checks. Fields with `None` stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckRedirection {
    pub address: Option<IpAddr>,
    pub port: Option<u16>,
    /// The agent's send string.
    pub send: Option<Vec<u8>>,
}

/// The result of health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerHealth {
    Up,
    /// Up, but accepts no new sessions.
    Stopping,
    Down,
}

/// A change of a server's address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressChange {
    /// The address. Unchanged if `None`.
    pub address: Option<IpAddr>,
    /// The port. Unchanged if `None`.
    pub port: Option<PortSetting>,
}

/// A server's port: fixed, or relative to the client's destination port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSetting {
    Fixed(u16),
    /// Offset from the client's destination port. May be negative.
    Offset(i32),
}

impl PortSetting {
    /// The port number or the offset.
    #[must_use]
    pub fn number(self) -> i32 {
        match self {
            Self::Fixed(port) => i32::from(port),
            Self::Offset(offset) => offset,
        }
    }
}

/// The syntax of commands: `80`, `+1`, `-1`.
impl std::fmt::Display for PortSetting {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(port) => port.fmt(formatter),
            Self::Offset(offset) => write!(formatter, "{offset:+}"),
        }
    }
}

/// Why a change of a server was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRefusal {
    /// The server was deleted after the lookup.
    Gone,
    /// The reason, as a message for the operator without a newline.
    Because(String),
}

/// Why a change of a frontend was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrontendRefusal {
    /// The frontend was deleted, or was already shut down.
    Gone,
    /// The frontend is already in the requested state.
    Already,
    /// The reason, as a message for the operator without a newline.
    Because(String),
}

/// The choice of captured errors that `show errors` prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrorFilter {
    /// Only errors of this proxy.
    pub proxy_id: Option<u32>,
    /// Only requests or only responses. `None` for both.
    pub only: Option<Direction>,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

/// A rejected message, kept for `show errors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedError {
    pub time: WallTime,
    pub direction: Direction,
    /// Name and `id` of the proxy that rejected the message: the frontend for a request, the backend for a response.
    pub proxy: (String, u32),
    /// Name and `id` of the proxy on the other side, if known.
    pub other_side: Option<(String, u32)>,
    /// Name and `id` of the server, if known.
    pub server: Option<(String, u32)>,
    pub number: u32,
    /// The client's address and port: `127.0.0.1:52856`.
    pub source: String,
    /// Free bytes in the buffer.
    pub buffer_free: usize,
    /// Size of the buffer, in bytes.
    pub buffer_size: usize,
    /// Offset of the byte that made the message invalid.
    pub position: usize,
    /// Further details of the protocol engine, one per line.
    pub details: Vec<String>,
    /// The bytes of the message received so far.
    pub bytes: Vec<u8>,
}
