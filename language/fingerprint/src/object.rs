//! Objects of a configuration, as the target of references.

use std::fmt;

/// The kinds of objects, in the order of listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectKind {
    Global,
    /// A `frontend`.
    Frontend,
    /// A `listen` section.
    Listen,
    /// A `backend`.
    Backend,
    /// A `bind` line, of any section.
    Bind,
    /// A `server` line of a proxy.
    Server,
    /// A `stick-table`, or a `table` of a `peers` section.
    Table,
    /// A `userlist`.
    Userlist,
    /// A `resolvers` section.
    Resolvers,
    /// A `peers` section.
    Peers,
    /// A `mailers` section.
    Mailers,
    /// A `ring`.
    Ring,
    /// A `log-forward` section.
    LogForward,
    /// An `http-errors` section.
    HttpErrors,
    /// A `crt-store`.
    CrtStore,
    /// A `healthcheck` section.
    HealthCheck,
    /// A `fcgi-app` section.
    FcgiApp,
    /// The `traces` sections.
    Traces,
}

impl ObjectKind {
    /// The word of the configuration.
    pub const fn word(self) -> &'static str {
        match self {
            ObjectKind::Global => "global",
            ObjectKind::Frontend => "frontend",
            ObjectKind::Listen => "listen",
            ObjectKind::Backend => "backend",
            ObjectKind::Bind => "bind",
            ObjectKind::Server => "server",
            ObjectKind::Table => "table",
            ObjectKind::Userlist => "userlist",
            ObjectKind::Resolvers => "resolvers",
            ObjectKind::Peers => "peers",
            ObjectKind::Mailers => "mailers",
            ObjectKind::Ring => "ring",
            ObjectKind::LogForward => "log-forward",
            ObjectKind::HttpErrors => "http-errors",
            ObjectKind::CrtStore => "crt-store",
            ObjectKind::HealthCheck => "healthcheck",
            ObjectKind::FcgiApp => "fcgi-app",
            ObjectKind::Traces => "traces",
        }
    }
}

/// The identity of an object: its kind and its name, never its position.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    pub kind: ObjectKind,
    /// The name, unique among objects of the kind. For a line, it begins with the name of its section.
    pub name: Box<str>,
}

impl ObjectName {
    /// The object of this kind and name.
    pub fn new(kind: ObjectKind, name: impl Into<Box<str>>) -> Self {
        ObjectName { kind, name: name.into() }
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.name {
            "" => out.write_str(self.kind.word()),
            name => write!(out, "{} {name}", self.kind.word()),
        }
    }
}

/// A reference by a number that depends on the order of declarations, or to an object that is encoded by content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referent<'r> {
    /// The name of a variable, without its scope.
    Variable(u32),
    /// The proxy at this position.
    Proxy(u32),
    /// The server: the position of its proxy, and its position in that proxy.
    Server(u32, u32),
    /// The server at this position of the proxy in progress.
    OwnServer(u32),
    /// The table at this position.
    Table(u32),
    /// The list of users at this position, encoded by content.
    Userlist(u32),
    /// The backend with this name, from a `backend` or a `listen` section.
    LogBackend(&'r str),
    /// The `fcgi-app` section with this name.
    FcgiApplication(&'r str),
    /// The `healthcheck` section with this name, encoded by content.
    HealthCheck(&'r str),
}
