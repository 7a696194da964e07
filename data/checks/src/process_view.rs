//! What checks ask of the process around them, and what they tell it.

use weir_backend::{Backend, News, Server};
use weir_expr::{FetchIndex, Lookup, ProcessFacts, SetCondition, TimeZone, Value, VariableId};
use weir_net::Connection;

/// A connection of the server's traffic that is idle.
#[derive(Debug)]
pub struct IdleConnection {
    /// The connection.
    pub connection: Connection,
    /// How many requests it served.
    pub requests: u32,
}

/// The process around the checks: it hears what they find, and answers what their expressions ask.
pub trait ProcessView: Send + Sync {
    /// A check changed a server, or there is a line about it.
    fn news(&self, news: News);

    /// An idle connection to a server that the current worker has, taken off its pool; none where there is none with this key.
    fn take_idle(&self, backend: &Backend, server: &Server, key: u64) -> Option<IdleConnection>;

    /// Leaves a connection to the server's traffic.
    fn keep_idle(&self, backend: &Backend, server: &Server, key: u64, idle: IdleConnection);

    /// How many bytes of an answer are looked at (`tune.bufsize`).
    fn buffer_size(&self) -> usize;

    /// The name of this node.
    fn node(&self) -> &str;

    /// The name of a fetch.
    fn fetch_name(&self, fetch: FetchIndex) -> Option<&'static str>;

    /// Facts about the process.
    fn facts(&self) -> ProcessFacts<'_>;

    /// The local time zone.
    fn time_zone(&self) -> &TimeZone;

    /// Answers a question about a named object.
    fn lookup(&self, lookup: Lookup, name: &[u8]) -> Option<Value<'static>>;

    /// A variable of the process.
    fn variable(&self, variable: VariableId) -> Option<Value<'static>>;

    /// Sets a variable of the process.
    fn set_variable(&self, variable: VariableId, value: Value<'static>, condition: SetCondition) -> bool;

    /// Forgets a variable of the process.
    fn unset_variable(&self, variable: VariableId) -> bool;

    /// How many bytes more the variables of a check may take, which take `own` already (`tune.vars.check-max-size`).
    fn variable_room(&self, own: usize) -> usize;

    /// The variables of a check took `from` bytes, and take `to` now.
    fn charge_variables(&self, from: usize, to: usize);
}
