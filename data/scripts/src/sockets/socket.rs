//! One socket.

use std::sync::Arc;
use std::time::Duration;

use weir_net::{ConnectPlan, ConnectTarget, Connecting, Connection, Greeting};
use weir_sched::TaskKey;
use weir_sys::{Address, socket};
use weir_tls::{LiveUpstream, TlsSession};

/// A socket of a script.
#[derive(Debug, Default)]
pub(crate) struct ScriptSocket {
    state: SocketState,
    /// How long a wait may last without progress. `None` without a limit.
    pub timeout: Option<Duration>,
    /// The tasks that wait. Events wake the first one, which wakes the others.
    waiters: Vec<TaskKey>,
}

#[derive(Debug, Default)]
enum SocketState {
    #[default]
    New,
    Connecting(Box<Connecting>, SocketHandshake),
    Connected(Box<Connection>),
    Failed,
}

#[derive(Debug)]
enum SocketHandshake {
    /// Without TLS, or the handshake is over.
    Nothing,
    ToBegin(Box<TlsSession>),
    Begun,
}

impl ScriptSocket {
    /// Whether it never began to connect.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.state, SocketState::New)
    }

    /// Begins to connect. A failure shows at the next step.
    pub(super) fn begin(&mut self, address: Address, tls: Option<&Arc<LiveUpstream>>) {
        let handshake = match tls.map(|tls| tls.session(None, None)) {
            None => SocketHandshake::Nothing,
            Some(Ok(session)) => SocketHandshake::ToBegin(Box::new(session)),
            Some(Err(_)) => {
                self.state = SocketState::Failed;
                return;
            }
        };
        self.state = match ConnectPlan::to(ConnectTarget::Address(address)).begin() {
            Ok(connecting) => SocketState::Connecting(Box::new(connecting), handshake),
            Err(_) => SocketState::Failed,
        };
    }

    /// Goes on connecting. Whether the socket is connected, once that is known.
    pub(super) fn advance(&mut self) -> Option<bool> {
        let SocketState::Connecting(mut connecting, mut handshake) = std::mem::take(&mut self.state) else {
            self.fail();
            return Some(false);
        };
        let stands = connecting.advance(Greeting::default()).and_then(|stands| match stands {
            true => handshake.advance(&mut connecting),
            false => Ok(false),
        });
        match stands {
            Ok(true) => self.state = SocketState::Connected(Box::new(connecting.into_connection())),
            Ok(false) => {
                self.state = SocketState::Connecting(connecting, handshake);
                return None;
            }
            Err(_) => self.state = SocketState::Failed,
        }
        Some(self.connection().is_some())
    }

    /// Ends an attempt to connect.
    pub(super) fn fail(&mut self) {
        if let SocketState::Connecting(connecting, _) = &mut self.state {
            connecting.end_tls();
        }
        self.state = SocketState::Failed;
    }

    /// The connection, once it is established.
    pub(super) fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            SocketState::Connected(connection) => Some(connection),
            _ => None,
        }
    }

    /// Whether it is connected.
    pub(crate) fn is_connected(&mut self) -> bool {
        self.connection().is_some()
    }

    /// The address of the far end.
    pub(crate) fn peer(&mut self) -> Option<Address> {
        socket::peer_address(self.connection()?.descriptor()).ok()
    }

    /// The address of this end.
    pub(crate) fn local(&mut self) -> Option<Address> {
        socket::local_address(self.connection()?.descriptor()).ok()
    }

    /// A task made an attempt, and waits for events from now on.
    pub(super) fn wait(&mut self, task: TaskKey) {
        if !self.waiters.contains(&task) {
            self.waiters.push(task);
        }
        self.set_owner();
        // What woke the first one may concern the others.
        if self.waiters[0] == task {
            self.waiters[1..].iter().copied().for_each(weir_sched::wake);
        }
    }

    /// A task waits no more.
    pub(super) fn leave(&mut self, task: TaskKey) {
        let was_first = self.waiters.first() == Some(&task);
        self.waiters.retain(|waiter| *waiter != task);
        self.set_owner();
        if let (true, Some(next)) = (was_first, self.waiters.first()) {
            // An event may have gone to the former one.
            weir_sched::wake(*next);
        }
    }

    fn set_owner(&self) {
        let owner = self.waiters.first().copied().unwrap_or(TaskKey::NONE);
        match &self.state {
            SocketState::Connecting(connecting, _) => connecting.descriptor().set_owner(owner),
            SocketState::Connected(connection) => connection.descriptor().set_owner(owner),
            SocketState::New | SocketState::Failed => {}
        }
    }

    /// Closes the connection. The tasks that wait find the socket closed.
    pub(super) fn close(mut self) {
        if let Some(connection) = self.connection() {
            connection.shut_write();
        }
        self.waiters.iter().copied().for_each(weir_sched::wake);
    }
}

impl SocketHandshake {
    /// Goes on with the handshake. True once it is over.
    fn advance(&mut self, connecting: &mut Connecting) -> Result<bool, weir_net::ConnectionFault> {
        match std::mem::replace(self, SocketHandshake::Begun) {
            SocketHandshake::Nothing => {
                *self = SocketHandshake::Nothing;
                return Ok(true);
            }
            SocketHandshake::ToBegin(session) => connecting.begin_tls(*session),
            SocketHandshake::Begun => {}
        }
        connecting.advance_tls()
    }
}
