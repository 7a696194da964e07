//! The HTTP/2 engine: frames, streams, flow control and heads to RFC 9113.
//!
//! Bytes and the time come in as arguments, events and bytes go out: nothing here owns a socket. A [`Connection`] is the
//! server's end of one connection, or the client's:
//!
//! - [`Connection::advance`] looks at the front of what was received and says what happened. It copies no DATA: an event says
//!   where the bytes are.
//! - [`Connection::take_head`] gives the head of a request, or of a response, in the form that `weir-http` knows: the fields as HTTP/1 would
//!   write them, and an index over them, made while they were decoded. Nothing parses it again.
//! - [`Connection::send_head`], [`Connection::send_data`] and their like append frames to the output, which the caller sends.
//! - [`Connection::consumed`] gives window back, and nothing else does.
//!
//! What a peer controls is bounded: each bound has a name in [`limits`], and whoever passes it is told so with the error that
//! ends its connection. What RFC 9113 calls malformed ends one stream. Begin with `connection.rs`, then `stream.rs`.

mod answer;
mod asking;
pub mod connection;
pub mod error;
pub mod frame;
pub mod limits;
mod received;
mod request;
mod response;
pub mod settings;
mod stream;
mod streams;
mod trailers;
mod window;

pub use answer::Asked;
pub use connection::{Connection, Event};
pub use error::ErrorCode;
pub use limits::Limits;
pub use received::{ReceivedHead, Verdict};
