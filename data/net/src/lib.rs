//! Listeners, connections and transports: receiving and sending bytes.
//!
//! A [`Connection`] is a registered descriptor with its input buffer, the few bytes that are pending to leave, and a TLS session if it has
//! one (`connection/transport.rs`). Receiving means "give me the buffer that holds the bytes"; code above this crate neither reads into a
//! slice of its own nor sees encrypted bytes.
//!
//! The crate refuses to know the meaning of the bytes: no message, no proxy, no rule. The one exception is the PROXY
//! header (`proxy_header.rs`), which names the client before any message begins. Begin with `connection.rs`, then
//! `listener.rs` (how connections are accepted and handed to the less loaded of two workers), `connect.rs` (how they
//! are opened, for streams and all other callers) and `link.rs` (a connection of weir's own to a peer or a name server,
//! with all options of such a line).

pub mod connect;
pub mod connection;
pub mod connection_limit;
pub mod datagram;
pub mod endpoint;
pub mod fault;
pub mod link;
pub mod listener;
pub mod proxy_header;
pub mod shortage;
pub mod turns;

pub use connect::{
    ConnectError, ConnectOptions, ConnectPlan, ConnectTarget, Connecting, ConnectionSource, Greeting,
    OwnedSource, Probe, SocketSizes, SourceAddress, keep,
};
pub use connection::tls_count;
pub use connection::transport::{CertificateClock, set_largest_record};
pub use connection::{BufferFill, Companion, Connection, ReceiveOutcome, SendOutcome};
pub use connection_limit::{ConnectionLimit, Permit};
pub use datagram::{Datagram, DatagramOutcome};
pub use endpoint::{
    Endpoint, HandedOver, ListeningSocket, OpenError, Opener, PlacedSocket, Placement, SocketOptions,
};
pub use fault::ConnectionFault;
pub use link::{LinkTls, PeerLink};
pub use listener::{Acceptor, AcceptorState, DescriptorRoom};
pub use turns::{TaskTurn, TaskTurns};
