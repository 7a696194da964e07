//! How servers are checked: the words of `server` lines, and global settings of all checks.

use std::sync::Arc;
use std::time::Duration;

use weir_fingerprint::Canonical;

use super::address::Host;
use super::names;
use super::protocol::Protocol;

/// The settings of a `server` line about its health checks.
#[derive(Clone, Debug, Canonical)]
pub struct CheckSettings {
    /// `check`: whether there are any.
    pub enabled: bool,
    /// `inter`: the time between two checks of a server in a stable state.
    pub inter: Duration,
    /// `fastinter`: the same while its state changes; none for `inter`.
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
    /// Checks speak MPTCP although the server's traffic may not: `addr` has `mptcp@`.
    pub multipath: bool,
    /// `check-send-proxy`: connections begin with a PROXY header.
    pub send_proxy: bool,
    /// `check-via-socks4`: connections go through the server's SOCKS4 proxy.
    pub via_socks4: bool,
    /// `check-reuse-pool`: HTTP checks share idle connections with the traffic.
    pub reuses_connections: bool,
    /// `check-pool-conn-name`: the name of these connections in the pool.
    pub connection_name: Option<Arc<[u8]>>,
    /// `healthcheck`: the section with its check; none for its backend's.
    #[canonical(with = names::health_check)]
    pub section: Option<Arc<str>>,
    /// `init-state`: its state at start and after maintenance.
    pub initial_state: InitialState,
    /// `agent-check` and related words; none without any of them.
    pub agent: Option<Arc<AgentSettings>>,
    /// `track`: copy the state of this server.
    pub track: Option<Arc<TrackedServer>>,
    /// `observe`: which traffic counts as a check.
    pub observe: Observe,
    /// `error-limit`: errors in a row in observed traffic until `on-error`.
    pub error_limit: u32,
    /// `on-error`.
    pub on_error: OnError,
    /// `on-marked-down shutdown-sessions`: its sessions end when it goes down.
    pub shuts_down_sessions: bool,
    /// `on-marked-up shutdown-backup-sessions`: those of the backups end when it comes up.
    pub shuts_down_backups: bool,
    /// `check-ssl` and related words.
    pub tls: CheckTls,
    /// `check-proto`: the protocol, when forced.
    pub protocol: Option<Protocol>,
}

/// TLS settings of a `server` line for its health checks only.
#[derive(Clone, Debug, Default, Canonical)]
pub struct CheckTls {
    /// `check-ssl` (true), `no-check-ssl` (false); none for the server's setting, if it is checked at its own address.
    pub enabled: Option<bool>,
    /// `check-sni`: the server name to send.
    pub server_name: Option<Arc<str>>,
    /// `check-alpn`: the protocols to offer; none for the server's.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// `no-check-sni-auto`: do not send the request's `Host` as the server name.
    pub no_automatic_name: bool,
}

/// The settings of a `server` line about its agent.
#[derive(Clone, Debug, Default, Canonical)]
pub struct AgentSettings {
    /// `agent-check`: whether the agent is used.
    pub enabled: bool,
    /// `agent-inter`: how often; none for 2 seconds.
    pub inter: Option<Duration>,
    /// `agent-port`.
    pub port: Option<u16>,
    /// `agent-addr`; none for the address of the health checks.
    pub address: Option<Host>,
    /// `agent-send`: the text that is sent first.
    pub send: Option<Arc<[u8]>>,
}

/// `track [<backend>/]<server>`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct TrackedServer {
    /// The backend; none for the server's own.
    pub backend: Option<Box<str>>,
    pub server: Box<str>,
}

/// `observe`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum Observe {
    /// Nothing.
    #[default]
    Nothing,
    Layer4,
    /// Whether responses are valid, too.
    Layer7,
}

/// `on-error`: the reaction to `error-limit` errors in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum OnError {
    /// The next check comes soon.
    FastInterval,
    /// It counts as a failed check.
    #[default]
    FailCheck,
    /// It counts as failed checks up to one before `fall`.
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
            multipath: false,
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

/// The default of `inter` (manual).
pub(crate) const INTER: Duration = Duration::from_secs(2);

/// `init-state`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum InitialState {
    /// Not set: as `up`, but a server that leaves maintenance keeps its former state.
    #[default]
    Unsaid,
    /// Up, until `fall` checks failed.
    FullyUp,
    /// Up, until a check fails.
    Up,
    /// Down, until a check succeeds.
    Down,
    /// Down, until `rise` checks succeeded.
    FullyDown,
}

/// Global settings of all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct CheckTuning {
    /// `spread-checks`: random variation of intervals in per cent, either way.
    pub spread_percent: u8,
    /// `max-spread-checks`: the longest time over which the first checks are spread; none for no bound.
    pub max_spread: Option<Duration>,
    /// `tune.max-checks-per-thread`: how many checks a thread runs at once; 0 for no bound.
    pub most_per_thread: u32,
}
