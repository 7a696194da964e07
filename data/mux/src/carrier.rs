//! References to connections that carry several streams, for lists of streams in progress.

use std::rc::Weak;

use weir_sched::TaskKey;

use crate::agent::AgentMultiplexer;
use crate::application::ApplicationMultiplexer;
use crate::connector::{Indirect, StreamConnector};
use crate::multiplexer::Multiplexer;

/// The connection that carries a stream beside others. Does not keep the connection open.
#[derive(Clone, Debug, Default)]
pub enum CarrierRef {
    /// The stream has a connection of its own, or none.
    #[default]
    None,
    Http2(Weak<Multiplexer>),
    Application(Weak<ApplicationMultiplexer>),
    Agent(Weak<AgentMultiplexer>),
}

impl From<&StreamConnector> for CarrierRef {
    #[inline]
    fn from(connector: &StreamConnector) -> Self {
        match connector {
            StreamConnector::Own(_) => CarrierRef::None,
            StreamConnector::Indirect(other) => other.into(),
        }
    }
}

impl From<&Indirect> for CarrierRef {
    fn from(connector: &Indirect) -> Self {
        match connector {
            Indirect::Shared(shared) => CarrierRef::Http2(shared.connection()),
            Indirect::Application(request) => CarrierRef::Application(request.carrier()),
            Indirect::Agent(exchange) => CarrierRef::Agent(exchange.carrier()),
            Indirect::Local(_) | Indirect::Closed => CarrierRef::None,
        }
    }
}

/// The number of a stream on a connection that may carry several. `None` on a connection of its own.
pub fn id_of(connector: &StreamConnector) -> Option<u32> {
    match connector {
        StreamConnector::Indirect(Indirect::Shared(shared)) => Some(shared.id()),
        StreamConnector::Indirect(Indirect::Application(request)) => Some(request.id().into()),
        _ => None,
    }
}

/// The state of a stream on a connection that may carry several, in `name=value` pairs, for debugging.
pub fn summary_of(connector: &StreamConnector) -> Option<String> {
    match connector {
        StreamConnector::Indirect(Indirect::Shared(shared)) => Some(shared.summary()),
        StreamConnector::Indirect(Indirect::Application(request)) => Some(request.summary()),
        _ => None,
    }
}

impl CarrierRef {
    /// Whether there is a connection that carries several streams.
    #[inline]
    pub fn is_some(&self) -> bool {
        !matches!(self, CarrierRef::None)
    }

    /// The kind of the connection, the stream of this task on it, and the state of both, in `name=value` pairs. `None` if the connection was
    /// closed.
    pub fn describe(&self, task: TaskKey) -> Option<String> {
        let (kind, stream, connection) = self.summaries(Some(task))?;
        let stream = stream.unwrap_or_else(|| "stream=-".to_owned());
        Some(format!("mux={kind} {stream} connection=({connection})"))
    }

    /// The kind of the connection and its state, in `name=value` pairs. `None` if the connection was closed.
    pub fn describe_connection(&self) -> Option<String> {
        let (kind, _, connection) = self.summaries(None)?;
        Some(format!("mux={kind} {connection}"))
    }

    fn summaries(&self, task: Option<TaskKey>) -> Option<(&'static str, Option<String>, String)> {
        Some(match self {
            CarrierRef::None => return None,
            CarrierRef::Http2(connection) => {
                let connection = connection.upgrade()?;
                ("h2", task.and_then(|task| connection.summary_of(task)), connection.summary())
            }
            CarrierRef::Application(connection) => {
                let connection = connection.upgrade()?;
                ("fcgi", task.and_then(|task| connection.summary_of(task)), connection.summary())
            }
            CarrierRef::Agent(connection) => {
                let connection = connection.upgrade()?;
                ("spop", task.and_then(|task| connection.summary_of(task)), connection.summary())
            }
        })
    }
}
