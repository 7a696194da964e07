//! The interface of scripts to the process: its variables, its proxies, its servers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use weir_expr::{Value, VariableId};
use weir_tables::Table;

/// The process, as scripts see it.
pub trait ScriptProcess: Send + Sync {
    /// The value of a variable of scope `proc`.
    fn variable(&self, variable: VariableId) -> Option<Value<'static>>;

    /// Calls `each` with the fields of `show info`.
    fn info(&self, each: StatsVisit<'_>);

    /// The number of the proxy with a name or with `#<id>`, which it keeps.
    fn proxy_number(&self, side: ListedProxies, name: &str) -> Option<u32>;

    /// The numbers of all proxies, in the order of the configuration.
    fn proxy_numbers(&self, side: ListedProxies) -> Vec<u32>;

    /// Facts about a proxy.
    fn proxy(&self, proxy: u32) -> Option<ProxyFacts>;

    /// The numbers of active servers that may get requests, and of such backup servers.
    fn usable_servers(&self, proxy: u32) -> [u32; 2];

    /// Changes a proxy. A change that it cannot do, or has done, is ignored.
    fn change_proxy(&self, proxy: u32, change: ProxyChange);

    /// Calls `each` with the statistics of a proxy: those of its backend side, if it has one.
    fn proxy_statistics(&self, proxy: u32, each: StatsVisit<'_>);

    /// The stick-table of a proxy.
    fn table(&self, proxy: u32) -> Option<&Table>;

    /// The current time of the tables' clock, in milliseconds.
    fn table_clock_ms(&self) -> u64;

    /// The settings of a proxy's mails. `None` unless they are complete.
    fn mail_settings(&self, proxy: u32) -> Option<MailSettings>;

    /// The names of a proxy's listeners.
    fn listeners(&self, proxy: u32) -> Vec<Box<str>>;

    /// Calls `each` with the statistics of a listener, by its position.
    fn listener_statistics(&self, proxy: u32, listener: usize, each: StatsVisit<'_>);

    /// The key of the server of a proxy with a name or with `#<id>`.
    fn server_key(&self, proxy: u32, name: &str) -> Option<ScriptServer>;

    /// The keys of a proxy's servers, in their order.
    fn server_keys(&self, proxy: u32) -> Vec<ScriptServer>;

    /// Facts about a server. `None` if it was deleted.
    fn server(&self, server: ScriptServer) -> Option<ServerFacts>;

    /// The server that a server tracks.
    fn tracked(&self, server: ScriptServer) -> Option<ScriptServer>;

    /// The servers that track a server.
    fn trackers(&self, server: ScriptServer) -> Vec<ScriptServer>;

    /// Changes a server. Returns a sentence about the change, if there is one.
    ///
    /// # Errors
    /// If the change is refused.
    fn change_server(
        &self,
        server: ScriptServer,
        change: ServerRequest<'_>,
    ) -> Result<Option<String>, ServerRequestError>;

    /// Replaces fields of a certificate that is in memory, all or none. The fields are in their order.
    ///
    /// # Errors
    /// The reason, as for an operator. `None` if the configuration does not refer to the certificate.
    fn replace_certificate(
        &self,
        name: &str,
        fields: &[(CertificateField, String)],
    ) -> Result<(), Option<String>>;

    /// Calls `each` with the statistics of a server. False if it was deleted.
    fn server_statistics(&self, server: ScriptServer, each: StatsVisit<'_>) -> bool;
}

/// Which proxies a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedProxies {
    Any,
    Frontend,
    Backend,
}

/// Facts about a proxy.
#[derive(Clone, Debug)]
pub struct ProxyFacts {
    pub name: Arc<str>,
    pub id: u32,
    pub mode: &'static str,
    pub is_frontend: bool,
    pub is_backend: bool,
}

/// A change of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyChange {
    Pause,
    Resume,
    Stop,
    /// Ends the sessions on backup servers.
    ShutBackupSessions,
}

/// The settings of a proxy's mails (`email-alert`).
#[derive(Clone, Debug)]
pub struct MailSettings {
    /// The level of syslog, 0 to 7, of the least urgent messages.
    pub level: u8,
    /// The name and the address of each mail server.
    pub servers: Vec<(Box<str>, String)>,
    pub timeout_ms: u64,
    pub host_name: String,
    pub from: String,
    pub to: String,
    /// Whether mails follow health checks (`option log-health-checks`).
    pub tracks_health: bool,
}

/// The key of a server. That of a deleted server finds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptServer {
    pub proxy: u32,
    pub key: u64,
}

/// Facts about a server.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    pub name: String,
    pub id: u32,
    /// The number of servers that had the server's place before.
    pub revision: u32,
    /// The address and the port, or a path.
    pub address: String,
    pub weight: u32,
    /// 0 for no limit.
    pub maximum_connections: u32,
    pub is_backup: bool,
    /// Whether it was added at run time.
    pub is_added: bool,
    pub is_draining: bool,
    pub sessions: u32,
    pub queued: u32,
}

/// A field of a certificate (manual, `CertCache.set`), in the order in which they are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateField {
    /// The certificate and its chain, maybe with its key.
    Certificate,
    Key,
    Issuer,
    OcspResponse,
    Timestamps,
}

impl CertificateField {
    const ALL: [(CertificateField, &'static str); 5] = [
        (CertificateField::Certificate, "crt"),
        (CertificateField::Key, "key"),
        (CertificateField::Issuer, "issuer"),
        (CertificateField::OcspResponse, "ocsp"),
        (CertificateField::Timestamps, "sctl"),
    ];

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(field, _)| *field)
    }

    /// The name in scripts.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(field, _)| *field == self).map_or("", |(_, name)| name)
    }
}

/// A change of a server. Texts are those of the runtime API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerRequest<'a> {
    Weight(&'a str),
    MaximumConnections(&'a str),
    Address(&'a str, Option<&'a str>),
    ShutSessions,
    Ready,
    Drain,
    Maintenance,
    /// Starts or stops health checks.
    Checks(bool),
    CheckUp,
    CheckNoLoadBalancing,
    CheckDown,
    /// Starts or stops the agent check.
    Agent(bool),
    AgentUp,
    AgentDown,
}

/// Why a change of a server was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerRequestError {
    /// The server was deleted.
    Gone,
    /// The reason, as for an operator.
    Because(String),
}

/// Called with the name and the value of each statistic.
pub type StatsVisit<'v> = &'v mut dyn FnMut(&str, StatsValue<'_>);

/// A value of statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatsValue<'a> {
    Integer(i64),
    Text(&'a str),
}

/// The process of scripts. It is there from the init functions on.
#[derive(Default)]
pub struct ProcessLink {
    /// During the init functions, when the process does not serve yet.
    starting: OnceLock<Arc<dyn ScriptProcess>>,
    serving: OnceLock<Arc<dyn ScriptProcess>>,
    /// Whether a script sends mails itself (`core.disable_legacy_mailers`).
    sends_mails: AtomicBool,
}

impl ProcessLink {
    /// Sets the process of the init functions. Only the first call has an effect.
    pub(crate) fn start(&self, process: Arc<dyn ScriptProcess>) {
        let _ = self.starting.set(process);
    }

    /// Sets the process that serves. Only the first call has an effect.
    pub(crate) fn serve(&self, process: Arc<dyn ScriptProcess>) {
        let _ = self.serving.set(process);
    }

    pub(crate) fn take_over_mails(&self) {
        self.sends_mails.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_taken_over_mails(&self) -> bool {
        self.sends_mails.load(Ordering::Relaxed)
    }

    /// The process. `None` while the configuration is read.
    pub(crate) fn get(&self) -> Option<&dyn ScriptProcess> {
        self.serving.get().or_else(|| self.starting.get()).map(|process| &**process)
    }
}
