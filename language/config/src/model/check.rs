//! How servers are checked: the words of `server` lines, and what the global section says of all checks.

use std::sync::Arc;
use std::time::Duration;

use super::address::Host;
use super::server::Protocol;

/// What a `server` line says about its health checks.
#[derive(Clone, Debug)]
pub struct CheckSettings {
    /// `check`: whether there are any.
    pub enabled: bool,
    /// `inter`: between two checks of a server that is up or down for certain.
    pub inter: Duration,
    /// `fastinter`: the same while it changes; none for `inter`.
    pub fast_inter: Option<Duration>,
    /// `downinter`: the same while it is down; none for `inter`.
    pub down_inter: Option<Duration>,
    /// `rise`: successes in a row until it is up.
    pub rise: u32,
    /// `fall`: failures in a row until it is down.
    pub fall: u32,
    /// `port`: where to connect instead of the server's own port.
    pub port: Option<u16>,
    /// `addr`: where to connect instead of the server's own address.
    pub address: Option<Host>,
    /// `check-send-proxy`: connections begin with a PROXY header.
    pub send_proxy: bool,
    /// `check-via-socks4`: connections go through the server's SOCKS4 proxy.
    pub via_socks4: bool,
    /// `check-reuse-pool`: HTTP checks use idle connections of the traffic, and leave theirs to it.
    pub reuses_connections: bool,
    /// `check-pool-conn-name`: what these connections are called.
    pub connection_name: Option<Arc<[u8]>>,
    /// `healthcheck`: the section that says how it is checked; none for what its backend says.
    pub section: Option<Arc<str>>,
    /// `init-state`: how it begins, and how it leaves maintenance.
    pub initial_state: InitialState,
    /// `agent-check` and its relatives; none where none of them is said.
    pub agent: Option<Arc<AgentSettings>>,
    /// `track`: the server whose state it follows.
    pub track: Option<Arc<TrackedServer>>,
    /// `observe`: which traffic counts as a check, too.
    pub observe: Observe,
    /// `error-limit`: errors in a row of the traffic until `on-error`.
    pub error_limit: u32,
    /// `on-error`.
    pub on_error: OnError,
    /// `on-marked-down shutdown-sessions`: its sessions end when it goes down.
    pub shuts_down_sessions: bool,
    /// `on-marked-up shutdown-backup-sessions`: those of the backups end when it comes up.
    pub shuts_down_backups: bool,
    /// `check-ssl` and its relatives.
    pub tls: CheckTls,
    /// `check-proto`: what is spoken, when forced.
    pub protocol: Option<Protocol>,
}

/// What a `server` line says about TLS of its health checks alone.
#[derive(Clone, Debug, Default)]
pub struct CheckTls {
    /// `check-ssl` (true), `no-check-ssl` (false); none for what the server has, where it is checked at its own address.
    pub enabled: Option<bool>,
    /// `check-sni`: the name that is asked for.
    pub server_name: Option<Arc<str>>,
    /// `check-alpn`: what may be agreed on; none for what the server has.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// `no-check-sni-auto`: the name of the request's `Host` is not asked for.
    pub no_automatic_name: bool,
}

/// What a `server` line says about its agent.
#[derive(Clone, Debug, Default)]
pub struct AgentSettings {
    /// `agent-check`: whether it is asked.
    pub enabled: bool,
    /// `agent-inter`: how often; none for 2 seconds.
    pub inter: Option<Duration>,
    /// `agent-port`.
    pub port: Option<u16>,
    /// `agent-addr`; none for the address that is checked.
    pub address: Option<Host>,
    /// `agent-send`: what it is told first.
    pub send: Option<Arc<[u8]>>,
}

/// `track [<backend>/]<server>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackedServer {
    /// The backend; none for the server's own.
    pub backend: Option<Box<str>>,
    /// The server.
    pub server: Box<str>,
}

/// `observe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observe {
    /// Nothing.
    #[default]
    Nothing,
    /// Whether connections stand.
    Layer4,
    /// Whether responses are well, too.
    Layer7,
}

/// `on-error`: what happens after so many errors in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The next check comes soon.
    FastInterval,
    /// It counts as a failed check.
    #[default]
    FailCheck,
    /// It counts as so many failed checks that the next one is the last.
    SuddenDeath,
    /// The server is down.
    MarkDown,
}

impl Default for CheckSettings {
    fn default() -> Self {
        CheckSettings {
            enabled: false,
            inter: INTER,
            fast_inter: None,
            down_inter: None,
            rise: 2,
            fall: 3,
            port: None,
            address: None,
            send_proxy: false,
            via_socks4: false,
            reuses_connections: false,
            connection_name: None,
            section: None,
            initial_state: InitialState::default(),
            agent: None,
            track: None,
            observe: Observe::default(),
            error_limit: 10,
            on_error: OnError::default(),
            shuts_down_sessions: false,
            shuts_down_backups: false,
            tls: CheckTls::default(),
            protocol: None,
        }
    }
}

/// `inter` unless told otherwise (manual).
pub const INTER: Duration = Duration::from_secs(2);

/// `init-state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialState {
    /// Nothing said: up until the first check says otherwise, as `up`, but a server in maintenance keeps what it was.
    #[default]
    Unsaid,
    /// Up, until as many checks failed as `fall` says.
    FullyUp,
    /// Up, until a check fails.
    Up,
    /// Down, until a check succeeds.
    Down,
    /// Down, until as many checks succeeded as `rise` says.
    FullyDown,
}

/// What the global section says of all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckTuning {
    /// `spread-checks`: by how many per cent intervals vary by chance, either way.
    pub spread_percent: u8,
    /// `max-spread-checks`: between the first and the last check of the start at most; none for no bound.
    pub max_spread: Option<Duration>,
    /// `tune.max-checks-per-thread`: how many checks a thread runs at once; 0 for no bound.
    pub most_per_thread: u32,
}
