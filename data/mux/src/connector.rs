//! The connector: the transport of one side of a stream.
//!
//! A stream never holds a socket. It holds two connectors with the same operations: receive, send, detect EOF, count this
//! stream's bytes. The connector hides how streams share a connection:
//!
//! ```text
//!   Own        a connection that carries one stream at a time: HTTP/1, TCP
//!   Indirect   Shared   a stream of a connection that carries several: HTTP/2
//!              Agent    an exchange on a connection to an agent: SPOP
//!              Application   a request on a connection to an application: FastCGI
//!              Local    a service of this process, in place of a server
//!              Closed   the connection was given back
//! ```
//!
//! A connection is stored by value, and the check for it costs one predicted branch per call. A single match over all
//! kinds compiled to a jump table at each of forty call sites of a request.

mod indirect;

use std::any::Any;

use weir_net::connection::BufferFill;
use weir_net::{Connection, ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sched::{Descriptor, Tick};
use weir_sys::tcp_info::{TcpInfo, tcp_info};
use weir_sys::{Address, Errno, socket};
use weir_tls::Facts;

use crate::agent::AgentStream;
use crate::application::ApplicationStream;
use crate::multiplexer::SharedStream;
use crate::served::ServedConnection as _;
use crate::service::LocalService;
use crate::trace::TracedStream;

pub use indirect::Indirect;

/// One side of a stream: its own connection, or a share of a multiplexed one.
#[derive(Debug)]
pub enum StreamConnector {
    /// A connection that carries only this stream.
    Own(Connection),
    Indirect(Indirect),
}

// Every stream has two.
const _: () = assert!(size_of::<StreamConnector>() <= 72 || size_of::<Errno>() > 2);

impl TracedStream for StreamConnector {
    fn identify(&mut self, serial: u64) {
        match self {
            StreamConnector::Indirect(Indirect::Shared(shared)) => shared.identify(serial),
            StreamConnector::Indirect(Indirect::Agent(agent)) => agent.identify(serial),
            StreamConnector::Indirect(Indirect::Application(request)) => request.identify(serial),
            StreamConnector::Own(_) | StreamConnector::Indirect(_) => {}
        }
    }
}

impl From<Connection> for StreamConnector {
    #[inline]
    fn from(connection: Connection) -> Self {
        StreamConnector::own(connection)
    }
}

impl From<LocalService> for StreamConnector {
    fn from(service: LocalService) -> Self {
        StreamConnector::Indirect(Indirect::Local(service))
    }
}

impl From<SharedStream> for StreamConnector {
    fn from(stream: SharedStream) -> Self {
        StreamConnector::Indirect(Indirect::Shared(stream))
    }
}

impl From<AgentStream> for StreamConnector {
    fn from(stream: AgentStream) -> Self {
        StreamConnector::Indirect(Indirect::Agent(stream))
    }
}

impl From<ApplicationStream> for StreamConnector {
    fn from(stream: ApplicationStream) -> Self {
        StreamConnector::Indirect(Indirect::Application(stream))
    }
}

impl StreamConnector {
    /// A connector without a connection.
    pub const CLOSED: Self = StreamConnector::Indirect(Indirect::Closed);

    /// A connector for this connection. Its stream includes the bytes already in the input.
    #[inline]
    pub fn own(mut connection: Connection) -> Self {
        connection.count_anew();
        StreamConnector::Own(connection)
    }

    /// The connection, if it carries only this stream.
    #[inline]
    pub fn connection(&self) -> Option<&Connection> {
        match self {
            StreamConnector::Own(own) => Some(own),
            _ => None,
        }
    }

    /// The connection, mutable, if it carries only this stream.
    #[inline]
    pub fn connection_mut(&mut self) -> Option<&mut Connection> {
        match self {
            StreamConnector::Own(own) => Some(own),
            _ => None,
        }
    }

    /// Returns the connection when the stream is over.
    #[inline]
    pub fn into_connection(mut self) -> Option<Connection> {
        self.take_connection()
    }

    /// Takes the connection out in place and leaves [`StreamConnector::CLOSED`].
    #[inline]
    pub fn take_connection(&mut self) -> Option<Connection> {
        match std::mem::replace(self, StreamConnector::CLOSED) {
            StreamConnector::Own(own) => Some(own),
            _ => None,
        }
    }

    /// Received bytes that were not consumed.
    #[inline]
    pub fn input(&self) -> &[u8] {
        match self {
            StreamConnector::Own(own) => own.input(),
            StreamConnector::Indirect(other) => other.input(),
        }
    }

    /// Drops `count` bytes from the front of the input.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        match self {
            StreamConnector::Own(own) => own.consume(count),
            StreamConnector::Indirect(other) => other.consume(count),
        }
    }

    /// Receives more, until the input holds at most `limit` bytes.
    #[inline]
    pub fn receive(&mut self, limit: usize) -> ReceiveOutcome {
        match self {
            StreamConnector::Own(own) => own.receive(limit),
            StreamConnector::Indirect(other) => other.receive(limit),
        }
    }

    /// Sends an HTTP/1 head with the bytes after it. The connection queues the bytes that do not fit. A service drops them. Other kinds
    /// fail with EPIPE.
    #[inline]
    pub(crate) fn send_head(&mut self, head: &[u8], more: bool) -> SendOutcome {
        match self {
            StreamConnector::Own(own) => own.send_head(head, more),
            StreamConnector::Indirect(Indirect::Local(_)) => SendOutcome::All,
            StreamConnector::Indirect(_) => SendOutcome::Failed(ConnectionFault::Io(Errno::PIPE)),
        }
    }

    /// Sends the queued bytes.
    #[inline]
    pub fn flush(&mut self, more: bool) -> SendOutcome {
        match self {
            StreamConnector::Own(own) => own.flush(more),
            StreamConnector::Indirect(other) => other.flush(),
        }
    }

    /// Whether bytes are queued to be sent.
    #[inline]
    pub fn has_pending(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.has_pending(),
            StreamConnector::Indirect(other) => other.has_pending(),
        }
    }

    /// Shuts down the sending side.
    pub fn shut_write(&mut self) {
        match self {
            StreamConnector::Own(own) => own.shut_write(),
            // The last byte of a stream carries its end. Without it, the stream is reset when it is dropped.
            StreamConnector::Indirect(_) => {}
        }
    }

    /// If the stream ends without a response, the peer may retry. Only an HTTP/2 stream can signal that.
    pub fn refuse(&mut self) {
        if let StreamConnector::Indirect(Indirect::Shared(shared)) = self {
            shared.refuse();
        }
    }

    /// Whether the sending side was shut down.
    #[inline]
    pub fn shut(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.shut(),
            StreamConnector::Indirect(other) => other.shut(),
        }
    }

    /// Whether EOF was received.
    #[inline]
    pub fn ended(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.ended(),
            StreamConnector::Indirect(other) => other.ended(),
        }
    }

    /// Whether EOF was received or reported. Earlier bytes may still be unread.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.peer_closed(),
            StreamConnector::Indirect(other) => other.peer_closed(),
        }
    }

    /// Whether nothing can pass in either direction.
    #[inline]
    pub fn is_broken(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.is_broken(),
            StreamConnector::Indirect(other) => other.is_broken(),
        }
    }

    /// When a waiting service continues. [`Tick::NEVER`] if it wakes the task itself, and for all other sources.
    pub fn resumes_at(&self) -> Tick {
        match self {
            StreamConnector::Indirect(Indirect::Local(service)) => service.resumes_at(),
            _ => Tick::NEVER,
        }
    }

    /// The fault that broke the connector, if any.
    #[inline]
    pub fn fault(&self) -> Option<ConnectionFault> {
        match self {
            StreamConnector::Own(own) => own.fault(),
            StreamConnector::Indirect(other) => other.fault(),
        }
    }

    /// The fault of the underlying connection, if it broke. The reset of one stream is not a fault of a shared
    /// connection.
    pub fn fault_of_connection(&self) -> Option<ConnectionFault> {
        match self.shared() {
            Some(shared) => shared.multiplexer().fault_of_connection(),
            None => self.fault(),
        }
    }

    /// Whether the peer certainly sent nothing new, neither bytes nor EOF, nor an HTTP/2 head.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.is_quiet(),
            StreamConnector::Indirect(other) => other.is_quiet(),
        }
    }

    /// Whether the connection waits for a receive buffer.
    pub fn is_starved(&self) -> bool {
        self.connection().is_some_and(Connection::is_starved)
    }

    /// Whether the input takes more memory than its bytes need.
    #[inline]
    pub fn has_slack(&self) -> bool {
        match self {
            StreamConnector::Own(own) => own.has_slack(),
            StreamConnector::Indirect(other) => other.has_slack(),
        }
    }

    /// Shrinks the input to the memory that its bytes need.
    #[inline]
    pub fn shrink_input(&mut self) {
        match self {
            StreamConnector::Own(own) => own.shrink_input(),
            StreamConnector::Indirect(other) => other.shrink_input(),
        }
    }

    /// Bytes received in this stream.
    #[inline]
    pub fn received(&self) -> u64 {
        match self {
            StreamConnector::Own(own) => own.received,
            StreamConnector::Indirect(other) => other.received(),
        }
    }

    /// Bytes sent in this stream.
    #[inline]
    pub fn sent(&self) -> u64 {
        match self {
            StreamConnector::Own(own) => own.sent,
            StreamConnector::Indirect(other) => other.sent(),
        }
    }

    /// The parameters of the TLS session with the peer.
    pub fn tls(&self) -> Option<&Facts> {
        match self {
            StreamConnector::Indirect(Indirect::Shared(shared)) => shared.multiplexer().tls(),
            StreamConnector::Indirect(Indirect::Agent(agent)) => agent.connection().tls(),
            StreamConnector::Indirect(Indirect::Application(request)) => request.connection().tls(),
            other => other.connection()?.tls(),
        }
    }

    /// The stream of a shared connection, if it is one.
    pub fn shared(&self) -> Option<&SharedStream> {
        match self {
            StreamConnector::Indirect(Indirect::Shared(shared)) => Some(shared),
            _ => None,
        }
    }

    /// Whether a connection below may carry several streams.
    pub fn is_carried(&self) -> bool {
        matches!(self, StreamConnector::Indirect(Indirect::Shared(_) | Indirect::Application(_)))
    }

    /// The stream took the whole message, so that its connection can carry another one.
    pub fn complete(&mut self) {
        if let StreamConnector::Indirect(Indirect::Application(request)) = self {
            request.complete();
        }
    }

    /// Another stream on the same connection. `None` if it takes none, or carries one stream only.
    pub fn another(&self) -> Option<StreamConnector> {
        match self {
            StreamConnector::Indirect(Indirect::Shared(shared)) if !shared.multiplexer().is_closing() => {
                Some(shared.another().into())
            }
            StreamConnector::Indirect(Indirect::Application(request))
                if !request.connection().is_closing() =>
            {
                Some(request.another().into())
            }
            _ => None,
        }
    }

    /// The exchange with an agent, if the connector carries one.
    pub fn agent_mut(&mut self) -> Option<&mut AgentStream> {
        match self {
            StreamConnector::Indirect(Indirect::Agent(agent)) => Some(agent),
            _ => None,
        }
    }

    /// The request to an application, if the connector carries one.
    pub fn application_mut(&mut self) -> Option<&mut ApplicationStream> {
        match self {
            StreamConnector::Indirect(Indirect::Application(request)) => Some(request),
            _ => None,
        }
    }

    /// Keeps `lease` until the stream on a connection that carries several is over, and drops it then.
    pub fn hold(&mut self, lease: Box<dyn Any>) {
        match self {
            StreamConnector::Indirect(Indirect::Shared(shared)) => shared.hold(lease),
            StreamConnector::Indirect(Indirect::Agent(agent)) => agent.hold(lease),
            StreamConnector::Indirect(Indirect::Application(request)) => request.hold(lease),
            StreamConnector::Own(_) | StreamConnector::Indirect(_) => {}
        }
    }

    /// Whether the bytes can be spliced in the kernel, because they are not encrypted.
    pub fn is_plain(&self) -> bool {
        self.connection().is_some_and(Connection::is_plain)
    }

    /// The local address. `None` without a socket.
    pub fn local_address(&self) -> Option<Address> {
        self.with_descriptor(|descriptor| socket::local_address(descriptor).ok())?
    }

    /// The address of the far end. `None` without a connected socket.
    pub fn peer_address(&self) -> Option<Address> {
        self.with_descriptor(|descriptor| socket::peer_address(descriptor).ok())?
    }

    /// The kernel's information about its TCP connection.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        self.with_descriptor(|descriptor| tcp_info(descriptor).ok())?
    }

    /// Calls `look` with the descriptor of this stream or of its shared connection. `None` without a socket.
    pub fn with_descriptor<R>(&self, look: impl FnOnce(&Descriptor) -> R) -> Option<R> {
        match self {
            StreamConnector::Own(own) => Some(look(own.descriptor())),
            StreamConnector::Indirect(Indirect::Shared(shared)) => {
                Some(shared.multiplexer().look(|connection| look(connection.descriptor())))
            }
            StreamConnector::Indirect(Indirect::Agent(agent)) => {
                Some(agent.connection().look(|connection| look(connection.descriptor())))
            }
            StreamConnector::Indirect(Indirect::Application(request)) => {
                Some(request.connection().look(|connection| look(connection.descriptor())))
            }
            StreamConnector::Indirect(_) => None,
        }
    }

    /// The underlying descriptor, for socket options. `None` without a socket of its own.
    #[inline]
    pub fn descriptor(&self) -> Option<&Descriptor> {
        self.connection().map(Connection::descriptor)
    }

    /// The fill levels of the buffers.
    pub fn fill(&self) -> BufferFill {
        self.connection().map_or_else(BufferFill::default, Connection::fill)
    }

    /// The connection's state in words, for traces.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        let kind = match self {
            StreamConnector::Indirect(Indirect::Local(_)) => Some("local"),
            StreamConnector::Indirect(Indirect::Shared(_)) => Some("shared"),
            StreamConnector::Indirect(Indirect::Agent(_)) => Some("agent"),
            StreamConnector::Indirect(Indirect::Application(_)) => Some("application"),
            _ => None,
        };
        self.connection().into_iter().flat_map(Connection::words).chain(kind)
    }
}
