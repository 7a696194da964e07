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
    /// `check`: whether health checks are enabled.
    pub enabled: bool,
    /// `inter`: interval of checks while the server's state is stable.
    pub inter: Duration,
    /// `fastinter`: interval while the state changes. None for `inter`.
    pub fast_inter: Option<Duration>,
    /// `downinter`: interval while the server is down. None for `inter`.
    pub down_inter: Option<Duration>,
    /// `rise`: successes in a row before the server is up.
    pub rise: u32,
    /// `fall`: failures in a row before the server is down.
    pub fall: u32,
    /// `port`: where to connect instead of the server's own port.
    pub port: Option<u16>,
    /// `addr`: where to connect instead of the server's own address.
    pub address: Option<Host>,
    /// Checks use MPTCP, even if the server's traffic does not: `addr` has `mptcp@`.
    pub multipath: bool,
    /// `check-send-proxy`: connections begin with a PROXY header.
    pub send_proxy: bool,
    /// `check-via-socks4`: connections go through the server's SOCKS4 proxy.
    pub via_socks4: bool,
    /// `check-reuse-pool`: HTTP checks share idle connections with the traffic.
    pub reuses_connections: bool,
    /// `check-pool-conn-name`: the name of these connections in the pool.
    pub connection_name: Option<Arc<[u8]>>,
    /// `healthcheck`: the section with the server's check. None for the check of the backend.
    #[canonical(with = names::health_check)]
    pub section: Option<Arc<str>>,
    /// `init-state`: the server's state at start and after maintenance.
    pub initial_state: InitialState,
    /// `agent-check` and related words. None if none of them is set.
    pub agent: Option<Arc<AgentSettings>>,
    /// `track`: copy the state of this server.
    pub track: Option<Arc<TrackedServer>>,
    /// `observe`: which traffic counts as a check.
    pub observe: Observe,
    /// `error-limit`: errors in a row in observed traffic until `on-error`.
    pub error_limit: u32,
    /// `on-error`.
    pub on_error: OnError,
    /// `on-marked-down shutdown-sessions`: close the server's sessions when it goes down.
    pub shuts_down_sessions: bool,
    /// `on-marked-up shutdown-backup-sessions`: close the sessions of backup servers when this server comes up.
    pub shuts_down_backups: bool,
    /// `check-ssl` and related words.
    pub tls: CheckTls,
    /// `check-proto`: the forced protocol.
    pub protocol: Option<Protocol>,
}

/// TLS settings of a `server` line for its health checks only.
#[derive(Clone, Debug, Default, Canonical)]
pub struct CheckTls {
    /// `check-ssl` (true), `no-check-ssl` (false). None for the server's setting, if checks use the server's own address.
    pub enabled: Option<bool>,
    /// `check-sni`: the server name to send.
    pub server_name: Option<Arc<str>>,
    /// `check-alpn`: the protocols to offer. None for the server's.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// `no-check-sni-auto`: do not send the request's `Host` as the server name.
    pub no_automatic_name: bool,
}

/// The settings of a `server` line about its agent.
#[derive(Clone, Debug, Default, Canonical)]
pub struct AgentSettings {
    /// `agent-check`: whether the agent is used.
    pub enabled: bool,
    /// `agent-inter`: interval of agent checks. None for 2 seconds.
    pub inter: Option<Duration>,
    /// `agent-port`.
    pub port: Option<u16>,
    /// `agent-addr`. None for the address of the health checks.
    pub address: Option<Host>,
    /// `agent-send`: text that is sent to the agent first.
    pub send: Option<Arc<[u8]>>,
}

/// `track [<backend>/]<server>`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct TrackedServer {
    /// The backend. None for the backend of this server.
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
    /// The connection and the validity of responses.
    Layer7,
}

/// `on-error`: the reaction to `error-limit` errors in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum OnError {
    /// Use the short interval for the next check.
    FastInterval,
    /// Count a failed check.
    #[default]
    FailCheck,
    /// Count failed checks up to one below `fall`.
    SuddenDeath,
    /// Mark the server as down.
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
    /// Up. The server goes down after `fall` failed checks.
    FullyUp,
    /// Up. The first failed check takes the server down.
    Up,
    /// Down. The first successful check takes the server up.
    Down,
    /// Down. The server comes up after `rise` successful checks.
    FullyDown,
}

/// Global settings of all checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct CheckTuning {
    /// `spread-checks`: random variation of intervals in per cent, up or down.
    pub spread_percent: u8,
    /// `max-spread-checks`: the longest time over which the first checks are spread. None for no limit.
    pub max_spread: Option<Duration>,
    /// `tune.max-checks-per-thread`: concurrent checks of one thread. 0 for no limit.
    pub most_per_thread: u32,
}
