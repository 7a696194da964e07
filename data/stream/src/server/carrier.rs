//! A pool's reference to a server connection that carries several streams.

use std::rc::Rc;

use weir_backend::PooledConnection;
use weir_mux::{AgentMultiplexer, ApplicationMultiplexer, Multiplexer, ServedConnection, StreamConnector};

/// The pool's reference to a shared connection. The connection closes when its last reference is dropped.
pub(super) enum Carrier {
    Http2(Rc<Multiplexer>),
    Agent(Rc<AgentMultiplexer>),
    Application(Rc<ApplicationMultiplexer>),
}

impl Carrier {
    /// A stream on the connection that was not opened yet.
    pub(super) fn unopened(&self) -> StreamConnector {
        match self {
            Carrier::Http2(multiplexer) => multiplexer.unopened().into(),
            Carrier::Agent(connection) => connection.stream().into(),
            Carrier::Application(connection) => connection.stream().into(),
        }
    }
}

impl PooledConnection for Carrier {
    fn is_fresh(&mut self) -> bool {
        match self {
            Carrier::Http2(multiplexer) => !multiplexer.is_closing(),
            Carrier::Agent(connection) => !connection.is_closing(),
            Carrier::Application(connection) => !connection.is_closing(),
        }
    }

    fn takes_more(&self) -> bool {
        match self {
            Carrier::Http2(multiplexer) => !multiplexer.is_clogged(),
            Carrier::Agent(connection) => !connection.is_clogged(),
            Carrier::Application(connection) => !connection.is_clogged(),
        }
    }

    /// A shared connection cannot move: its streams and its owner are tasks of this worker.
    fn can_move(&self) -> bool {
        false
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        match self {
            Carrier::Http2(multiplexer) => multiplexer.give_up(),
            Carrier::Agent(connection) => connection.give_up(),
            Carrier::Application(connection) => connection.give_up(),
        }
    }
}
