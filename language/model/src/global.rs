//! The settings of the `global` sections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Expr, Location, LogFormat, VariableId};
use weir_fingerprint::{Canonical, unordered};

use super::bind;
use super::bind::{Account, Bind, SocketOwnership};
use super::client::{HttpClient, OcspUpdates};
use super::http2::Http2Tuning;
use super::log::LogTarget;
use super::profiling::Profiling;
use super::resolvers::AcceptedFamilies;
use super::scripts::ScriptSettings;
use super::status_codes::StatusCodes;
use super::tls_global::GlobalTls;
use super::tuning::Tuning;

/// When client connections close in a soft stop (`close-spread-time`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum CloseSpread {
    /// Idle connections close at once, the others with their next response.
    AtOnce,
    /// Connections close one after the other within this time.
    Over(Duration),
    /// Never by the soft stop: only by the peer or by timeouts.
    Never,
}

/// Whether a crash leaves a core file (`set-dumpable`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum CoreDump {
    /// The system's default for a process that changed its user: usually no core file.
    #[default]
    AsAllowed,
    /// A core file, as far as the process can enable it.
    Always,
    /// A core file that also contains the program and its libraries.
    WithLibraries,
}

/// The settings of the `global` sections.
#[derive(Clone, Debug, Canonical)]
pub struct Global {
    /// `daemon`: go to the background.
    pub daemon: bool,
    /// `master-worker`: a master watches a worker.
    pub master_worker: Option<MasterWorker>,
    /// `mworker-max-reloads`: the number of reloads that an old worker may survive.
    pub reloads_max: Option<u32>,
    /// `setcap`: names of capabilities to keep when the user changes.
    #[canonical(with = unordered)]
    pub capabilities: Vec<Box<str>>,
    /// `quiet`: say nothing at start.
    pub quiet: bool,
    /// `zero-warning`: treat warnings as errors.
    pub zero_warning: bool,
    /// `expose-experimental-directives`.
    pub expose_experimental: bool,
    /// `expose-deprecated-directives`.
    pub expose_deprecated: bool,
    /// `pidfile`.
    pub pidfile: Option<PathBuf>,
    /// `chroot`.
    pub chroot: Option<Chroot>,
    /// `user` or `uid`: the user to run as.
    pub user: Option<Account>,
    /// The location of `user`.
    #[canonical(skip = "a place in a file")]
    pub user_at: Option<Location>,
    /// `group` or `gid`.
    pub group: Option<Account>,
    /// The location of `group`.
    #[canonical(skip = "a place in a file")]
    pub group_at: Option<Location>,
    /// `set-dumpable`: whether a crash leaves a core file.
    pub core_dump: CoreDump,
    /// `external-check`: allow external programs as checks. None if not set.
    pub external_check: Option<ExternalCheck>,
    /// `insecure-fork-wanted`: do not forbid new processes.
    pub insecure_fork_wanted: bool,
    /// `insecure-setuid-wanted`: do not forbid set-user-id programs.
    pub insecure_setuid_wanted: bool,
    /// `nbthread`: number of worker threads. None for one per usable CPU.
    pub threads: Option<u16>,
    /// `cpu-map`: where threads may run.
    pub cpu_map: CpuMap,
    /// `node`: name of this process in statistics and logs. None for the host's name.
    pub node: Option<Box<str>>,
    /// `description`.
    pub description: Option<Box<str>>,
    /// `localpeer`: name of this instance among peers. None for the name from the command line or the host.
    pub local_peer: Option<Box<str>>,
    /// `server-state-base`: folder of server state files.
    pub server_state_base: Option<Box<str>>,
    /// `server-state-file`: the file with the states of all servers.
    pub server_state_file: Option<Box<str>>,
    /// Limits of the process.
    #[canonical(flat)]
    pub limits: Limits,
    /// `hard-stop-after`: longest duration of a soft stop.
    pub hard_stop_after: Option<Duration>,
    /// `close-spread-time`: when client connections close in a soft stop.
    pub close_spread: CloseSpread,
    /// `grace`: how long to keep accepting connections after a soft stop begins.
    pub grace: Option<Duration>,
    /// `log`: the targets of `log global`.
    pub logs: Vec<Arc<LogTarget>>,
    /// `dns-accept-family`: address families to resolve names to.
    pub accepted_families: AcceptedFamilies,
    /// `log-tag`; none for the program's name.
    pub log_tag: Option<Box<str>>,
    /// `log-send-hostname`: the host name in headers of log messages. None leaves it out.
    pub log_host_name: Option<SentHostName>,
    /// `stats socket`: where the runtime API listens.
    #[canonical(with = bind::encode_labels)]
    pub sockets: Vec<Bind>,
    /// `stats timeout`: idle timeout of runtime API clients.
    pub stats_timeout: Duration,
    /// `stats maxconn`: concurrent clients of the runtime API.
    pub stats_maxconn: u32,
    /// The configuration's files, in the order in which they were read.
    #[canonical(skip = "the names of files do not count")]
    pub files: Vec<Arc<str>>,
    /// `unix-bind`: the defaults of unix sockets of `bind` lines.
    pub unix_bind: UnixBind,
    /// `set-var` and `set-var-fmt`, in order.
    pub variables: Vec<ProcessVariable>,
    /// `http-err-codes`: statuses that count as errors of clients.
    pub error_codes: StatusCodes,
    /// `http-fail-codes`: statuses that count as failures of servers.
    pub failure_codes: StatusCodes,
    /// `tune.*`.
    #[canonical(flat)]
    pub tuning: Tuning,
    /// Profiling settings.
    #[canonical(flat)]
    pub profiling: Profiling,
    /// `tune.lua.*`.
    pub scripts: ScriptSettings,
    /// `h1-*`.
    #[canonical(flat)]
    pub http1: Http1,
    /// `nosplice`: never move data inside the kernel.
    pub no_splice: bool,
    /// `no-memory-trimming`: free memory is not given back to the system.
    pub no_memory_trimming: bool,
    /// `noreuseport`: never share a port between sockets.
    pub no_reuse_port: bool,
    /// `h2-workaround-bogus-websocket-clients`: WebSocket is not announced to HTTP/2 clients.
    pub no_websocket_over_http2: bool,
    /// `httpclient.*`: requests of the process itself.
    #[canonical(flat)]
    pub client: HttpClient,
    /// `ocsp-update.*`: how OCSP responses are renewed.
    #[canonical(flat)]
    pub ocsp_updates: OcspUpdates,
    /// TLS: settings of the process, and defaults of lines.
    #[canonical(flat)]
    pub tls: GlobalTls,
    /// `tune.h2.*`.
    #[canonical(flat)]
    pub http2: Http2Tuning,
}

impl Default for Global {
    fn default() -> Self {
        Global {
            daemon: false,
            error_codes: StatusCodes::errors(),
            failure_codes: StatusCodes::failures(),
            master_worker: None,
            reloads_max: None,
            capabilities: Vec::new(),
            quiet: false,
            zero_warning: false,
            expose_experimental: false,
            expose_deprecated: false,
            pidfile: None,
            chroot: None,
            user: None,
            user_at: None,
            group: None,
            group_at: None,
            core_dump: CoreDump::default(),
            external_check: None,
            insecure_fork_wanted: false,
            insecure_setuid_wanted: false,
            threads: None,
            cpu_map: CpuMap::default(),
            node: None,
            description: None,
            local_peer: None,
            server_state_base: None,
            server_state_file: None,
            limits: Limits::default(),
            hard_stop_after: None,
            close_spread: CloseSpread::AtOnce,
            grace: None,
            logs: Vec::new(),
            accepted_families: AcceptedFamilies::default(),
            log_tag: None,
            log_host_name: None,
            sockets: Vec::new(),
            stats_timeout: Duration::from_secs(10),
            stats_maxconn: 10,
            files: Vec::new(),
            unix_bind: UnixBind::default(),
            variables: Vec::new(),
            tuning: Tuning::default(),
            profiling: Profiling::default(),
            scripts: ScriptSettings::default(),
            http1: Http1::default(),
            no_splice: false,
            no_memory_trimming: false,
            no_reuse_port: false,
            no_websocket_over_http2: false,
            client: HttpClient::default(),
            ocsp_updates: OcspUpdates::default(),
            tls: GlobalTls::default(),
            http2: Http2Tuning::default(),
        }
    }
}

/// What HTTP/1 accepts from and writes to non-conforming peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct Http1 {
    /// `h1-accept-payload-with-any-method`: HTTP/1.0 `GET`, `HEAD` and `DELETE` requests may have a body.
    pub payload_with_any_method: bool,
    /// `h1-do-not-close-on-insecure-transfer-encoding`: keep the connection open after a message with two lengths.
    pub keep_on_insecure_transfer_encoding: bool,
    /// `h1-case-adjust` and `h1-case-adjust-file`: header names in the case that non-conforming peers require. Each name
    /// occurs once, compared without case.
    #[canonical(with = unordered)]
    pub adjusted_names: Vec<Box<str>>,
}

/// The settings of `master-worker`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct MasterWorker {
    /// `no-exit-on-failure`: the master keeps running when its worker fails.
    pub stays: bool,
}

/// The new root directory of the process.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum Chroot {
    /// An empty folder. The process creates it for this purpose and removes it at once.
    Auto,
    Folder(PathBuf),
}

/// Limits of the process. None and 0 have the manual's meaning: the limit is computed, or absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct Limits {
    /// `maxconn`: concurrent connections. None to compute it from the limit on open files.
    pub maxconn: Option<u32>,
    /// `maxconnrate`: connections per second. 0 for no limit.
    pub connection_rate: u32,
    /// `maxsessrate`: sessions per second. 0 for no limit.
    pub session_rate: u32,
    /// `maxsslconn`: concurrent TLS sessions with clients and servers. 0 for no limit.
    pub tls_connections: u32,
    /// `maxsslrate`: TLS connections from clients per second. 0 for no limit.
    pub tls_rate: u32,
    /// `maxpipes`: pipes for splicing. None for a quarter of `maxconn`.
    pub pipes: Option<u32>,
    /// `ulimit-n`: open files. None to compute it.
    pub open_files: Option<u32>,
    /// `fd-hard-limit`: upper bound of the computed number of open files.
    pub open_files_hard: Option<u32>,
    /// `strict-limits`: refuse to start when the limits cannot be set.
    pub strict: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            maxconn: None,
            connection_rate: 0,
            session_rate: 0,
            tls_connections: 0,
            tls_rate: 0,
            pipes: None,
            open_files: None,
            open_files_hard: None,
            strict: true,
        }
    }
}

/// The host name in log messages.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum SentHostName {
    Own,
    Named(Box<str>),
}

/// The settings of `unix-bind` for unix sockets of `bind` lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct UnixBind {
    /// Prefix of socket paths.
    pub prefix: Option<PathBuf>,
    /// Default owner and mode.
    pub ownership: SocketOwnership,
}

/// One variable of the process.
#[derive(Clone, Debug, Canonical)]
pub struct ProcessVariable {
    pub name: VariableId,
    pub value: ProcessValue,
    /// Its location.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
}

/// The value of a variable of the process, evaluated at start without a connection.
#[derive(Clone, Debug, Canonical)]
pub enum ProcessValue {
    /// `set-var`.
    Expression(Arc<Expr>),
    /// `set-var-fmt`.
    Format(Arc<LogFormat>),
}

/// The maximum number of worker threads: the size of the single thread group.
pub const MAX_THREADS: u16 = 64;

/// Which CPUs each thread may run on (`cpu-map`). A thread without an entry may run anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct CpuMap {
    /// The CPUs of each thread, counted from 1.
    pub threads: BTreeMap<u16, CpuSet>,
}

/// CPUs by number, in order.
pub type CpuSet = Vec<u16>;

impl CpuMap {
    /// The CPUs of a thread, counted from 1. None for all CPUs.
    pub fn cpus(&self, thread: u16) -> Option<&[u16]> {
        self.threads.get(&thread).map(Vec::as_slice)
    }

    /// True without any `cpu-map` line.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The threads that have an entry, and their CPUs.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &[u16])> {
        self.threads.iter().map(|(thread, cpus)| (*thread, cpus.as_slice()))
    }
}

/// `external-check`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct ExternalCheck {
    /// `preserve-env`: programs get the environment of the process in addition to their own variables.
    pub preserves_environment: bool,
}
