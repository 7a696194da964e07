//! The interface between checks and the process.

use std::sync::Arc;

use weir_backend::{Backend, BackendNews, Server};
use weir_expr::{LogFormat, ObjectLookup, ProcessFacts, SetCondition, TimeZone, Value, VariableId};
use weir_net::Connection;
use weir_vocabulary::Objects;

use crate::application::ApplicationConnection;

/// An idle connection of the server's traffic.
#[derive(Debug)]
pub struct IdleConnection {
    pub connection: Connection,
    /// Number of requests that the connection served.
    pub requests: u32,
}

/// The process as seen by checks. It receives their findings and provides data for their expressions.
pub trait ProcessView: Send + Sync {
    /// Handles server changes and log lines of a check.
    fn news(&self, news: BackendNews);

    /// Takes an idle connection to a server with this key from the current worker's pool.
    fn take_idle(&self, backend: &Backend, server: &Server, key: u64) -> Option<IdleConnection>;

    /// Returns a connection to the server's traffic.
    fn keep_idle(&self, backend: &Backend, server: &Server, key: u64, idle: IdleConnection);

    /// Turns a connection into one that carries requests to the FastCGI application of a backend. `None` without an application.
    fn connect_application(&self, backend: &Backend, connection: Connection)
    -> Option<ApplicationConnection>;

    /// The name of this node.
    fn node(&self) -> &str;

    /// The objects that expressions refer to by name.
    fn objects(&self) -> &dyn Objects;

    /// `unique-id-format` of a backend.
    fn unique_id_format(&self, backend: &Backend) -> Option<Arc<LogFormat>>;

    /// Facts about the process.
    fn facts(&self) -> ProcessFacts<'_>;

    /// The local time zone.
    fn time_zone(&self) -> &TimeZone;

    /// Looks up a value of a named object.
    fn lookup(&self, lookup: ObjectLookup, name: &[u8]) -> Option<Value<'static>>;

    /// A variable of the process.
    fn variable(&self, variable: VariableId) -> Option<Value<'static>>;

    /// Sets a variable of the process.
    fn set_variable(&self, variable: VariableId, value: Value<'static>, condition: SetCondition) -> bool;

    /// Unsets a variable of the process.
    fn unset_variable(&self, variable: VariableId) -> bool;

    /// How many more bytes the variables of a check may use, besides their current `own` bytes (`tune.vars.check-max-size`).
    fn variable_room(&self, own: usize) -> usize;

    /// Accounts for a change of a check's variables from `from` to `to` bytes.
    fn charge_variables(&self, from: usize, to: usize);
}
