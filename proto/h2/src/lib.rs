//! The HTTP/2 engine: frames, streams, flow control and heads to RFC 9113.
//!
//! Received bytes and the time are arguments. Events and bytes to send are results. Nothing here owns a socket. A
//! [`Connection`] is the server's or the client's endpoint of one connection:
//!
//! - [`Connection::advance`] processes received bytes and returns an event. It copies no DATA: an event has
//!   the range of the bytes.
//! - [`Connection::take_head`] gives the head of a request, or of a response, in the form that `weir-http` knows: the fields as HTTP/1 would
//!   write them, and an index over them, made while they were decoded. Nothing parses it again.
//! - [`Connection::send_head`], [`Connection::send_data`] and their like append frames to the output, which the caller sends.
//! - [`Connection::consumed`] gives window back to the peer, and nothing else does.
//!
//! Everything that a peer controls is bounded. Each bound has a name in [`limits`]. Beyond a bound, the connection
//! fails with an error. A malformed message (RFC 9113) resets only its stream. Begin with `connection.rs`, then
//! `stream.rs`.

mod answer;
pub mod connection;
pub mod error;
pub mod frame;
pub mod limits;
mod outgoing_head;
mod received;
mod request;
mod response;
pub mod settings;
mod stream;
mod streams;
mod tally;
mod trailers;
mod window;

pub use answer::RequestTraits;
pub use connection::{Connection, ConnectionEvent};
pub use error::ErrorCode;
pub use limits::ConnectionLimits;
pub use received::{HeadFault, ReceivedHead};
pub use tally::ConnectionTally;
