//! What carries one side of a stream.
//!
//! A stream never holds a socket. It holds two connectors, and asks of each the same: what came, what may leave, how it ended,
//! how many bytes of this stream that were. Whose bytes those are besides is the connector's matter:
//!
//! ```text
//!   Own      a connection that carries one stream at a time: HTTP/1, TCP
//!   Local    a service of this process, in place of a server
//!   Closed   nothing any more: the connection was given back
//! ```
//!
//! A connection stays here by value, and which kind it is costs one predicted branch a call.

use weir_net::connection::Fill;
use weir_net::{Connection, Fault, Received, Sent};
use weir_sched::Descriptor;
use weir_sys::tcp_info::{TcpInfo, tcp_info};
use weir_sys::{Address, socket};
use weir_tls::Facts;

use crate::service::LocalService;

/// One side of a stream.
#[derive(Debug)]
pub enum StreamConnector {
    /// A connection that carries nothing else meanwhile.
    Own(OwnConnection),
    /// A service that answers in place of a server.
    Local(LocalService),
    /// Nothing any more.
    Closed,
}

/// A connection, and what it had carried when the stream began.
#[derive(Debug)]
pub struct OwnConnection {
    pub(crate) connection: Connection,
    received_before: u64,
    sent_before: u64,
}

impl From<Connection> for StreamConnector {
    #[inline]
    fn from(connection: Connection) -> Self {
        StreamConnector::own(connection)
    }
}

impl StreamConnector {
    /// The connection carries a stream from now on. What waits in its input is the stream's, too.
    #[inline]
    pub fn own(connection: Connection) -> Self {
        let received_before = connection.received - connection.input().len() as u64;
        let sent_before = connection.sent;
        StreamConnector::Own(OwnConnection { connection, received_before, sent_before })
    }

    /// The connection of its own, if it has one.
    #[inline]
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            StreamConnector::Own(own) => Some(&own.connection),
            _ => None,
        }
    }

    /// The same for changes.
    #[inline]
    pub fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            StreamConnector::Own(own) => Some(&mut own.connection),
            _ => None,
        }
    }

    /// Gives the connection back when the stream is over.
    #[inline]
    pub fn into_connection(mut self) -> Option<Connection> {
        self.take_connection()
    }

    /// The same from where it lies, so that what is around it need not move.
    #[inline]
    pub fn take_connection(&mut self) -> Option<Connection> {
        match std::mem::replace(self, StreamConnector::Closed) {
            StreamConnector::Own(own) => Some(own.connection),
            _ => None,
        }
    }

    /// What came and was not consumed.
    #[inline]
    pub fn input(&self) -> &[u8] {
        match self {
            StreamConnector::Own(own) => own.connection.input(),
            StreamConnector::Local(service) => service.output(),
            StreamConnector::Closed => &[],
        }
    }

    /// Drops `count` bytes from the front of what came.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        match self {
            StreamConnector::Own(own) => own.connection.consume(count),
            StreamConnector::Local(service) => service.consume(count),
            StreamConnector::Closed => {}
        }
    }

    /// Takes in more, at most up to `limit` bytes held in all.
    #[inline]
    pub fn receive(&mut self, limit: usize) -> Received {
        match self {
            StreamConnector::Own(own) => own.connection.receive(limit),
            StreamConnector::Local(service) => service.receive(),
            StreamConnector::Closed => Received::End,
        }
    }

    /// Sends a whole head, and what comes with it. What does not fit stays pending, so that the caller may forget it.
    #[inline]
    pub fn send_head(&mut self, head: &[u8], more: bool) -> Sent {
        match self {
            StreamConnector::Own(own) => own.connection.send_head(head, more),
            _ => Sent::All,
        }
    }

    /// Sends what is pending.
    #[inline]
    pub fn flush(&mut self, more: bool) -> Sent {
        match self {
            StreamConnector::Own(own) => own.connection.flush(more),
            _ => Sent::All,
        }
    }

    /// Whether something waits to be sent.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.connection().is_some_and(Connection::has_pending)
    }

    /// Says that the stream sends no more this way.
    pub fn shut_write(&mut self) {
        if let Some(connection) = self.connection_mut() {
            connection.shut_write();
        }
    }

    /// Whether that was said.
    pub fn shut(&self) -> bool {
        self.connection().is_some_and(Connection::shut)
    }

    /// Whether the peer said that it sends no more, and all that it sent came.
    pub fn ended(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.connection.ended(),
            StreamConnector::Local(service) => service.ended(),
            StreamConnector::Closed => true,
        }
    }

    /// Whether the peer said that it sends no more; what it sent before may still have to come.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.connection.peer_closed(),
            StreamConnector::Local(service) => service.ended(),
            StreamConnector::Closed => true,
        }
    }

    /// Whether nothing can pass in either direction.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.connection().is_some_and(Connection::is_broken)
    }

    /// What broke it, if something did.
    pub fn fault(&self) -> Option<Fault> {
        self.connection().and_then(Connection::fault)
    }

    /// Whether it waits for a buffer to receive into.
    pub fn is_starved(&self) -> bool {
        self.connection().is_some_and(Connection::is_starved)
    }

    /// Whether the bytes that wait take more memory than they need.
    #[inline]
    pub fn has_slack(&self) -> bool {
        self.connection().is_some_and(Connection::has_slack)
    }

    /// Keeps the bytes that wait in no more memory than they need.
    #[inline]
    pub fn shrink_input(&mut self) {
        if let Some(connection) = self.connection_mut() {
            connection.shrink_input();
        }
    }

    /// Bytes received in this stream.
    #[inline]
    pub fn received(&self) -> u64 {
        match self {
            StreamConnector::Own(own) => own.connection.received - own.received_before,
            StreamConnector::Local(service) => service.produced(),
            StreamConnector::Closed => 0,
        }
    }

    /// Bytes sent in this stream.
    #[inline]
    pub fn sent(&self) -> u64 {
        match self {
            StreamConnector::Own(own) => own.connection.sent - own.sent_before,
            _ => 0,
        }
    }

    /// What was agreed on with the peer, over TLS.
    pub fn tls(&self) -> Option<&Facts> {
        self.connection()?.tls()
    }

    /// Whether what passes can stay in the kernel: nobody encrypts it.
    pub fn is_plain(&self) -> bool {
        self.connection().is_some_and(Connection::is_plain)
    }

    /// The address of this end; none of what has no socket.
    pub fn local_address(&self) -> Option<Address> {
        socket::local_address(self.descriptor()?).ok()
    }

    /// What the kernel knows of its TCP connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        tcp_info(self.descriptor()?).ok()
    }

    /// The descriptor below, for options of the socket; none of what has no socket of its own.
    #[inline]
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.connection().map(Connection::descriptor)
    }

    /// How full its buffers are.
    pub fn fill(&self) -> Fill {
        self.connection().map_or_else(Fill::default, Connection::fill)
    }

    /// What holds of it, in words, for traces.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let local = matches!(self, StreamConnector::Local(_)).then_some("local");
        self.connection().into_iter().flat_map(Connection::words).chain(local)
    }
}
