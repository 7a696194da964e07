//! Turns a connection into streams: heads and bodies out of bytes, bytes out of heads and bodies.
//!
//! A stream holds two [`StreamConnector`]s, whatever is behind them: a connection of its own (HTTP/1, TCP), a stream of a
//! connection that carries several ([`SharedStream`], HTTP/2), or a service of this process. A [`Message`] reads and writes a head through one, and settles what the head says of its body and of its
//! connection; a [`BodyFlow`] moves a body from one to the other without ever holding more of it than one buffer. They drive the
//! pure engines of `weir-h1` and `weir-h2`, which nobody above knows; they do what can be done now and say what they wait for: the caller
//! sleeps.
//!
//! A [`Transfer`] is such a flow with the filters that it passes.
//!
//! The crate refuses to know proxies, rules, servers and timeouts. Begin with `connector.rs`, then `message.rs` and `body.rs`.

pub mod body;
pub mod connector;
pub mod filter;
pub mod message;
pub mod multiplexer;
mod payload;
pub mod persistence;
pub mod progress;
pub mod service;
pub mod spliced;
pub mod trailers;
pub mod transfer;

pub use body::{BodyFlow, Flow, KeptBody, Side};
pub use connector::StreamConnector;
pub use filter::{Filter, FilterChain, More, Passed};
pub use message::{HeadError, HeadErrorKind, HeadOptions, Message, ReadHead};
pub use multiplexer::{Closing, Multiplexer, Pace, SharedStream, Turn, trim};
pub use persistence::ConnectionMode;
pub use progress::{Progress, Step};
pub use service::{LocalService, Service};
pub use spliced::Spliced;
pub use trailers::Trailers;
pub use transfer::Transfer;
pub use weir_h2::{ErrorCode, Limits};

/// Whether these bytes may become the preface of a client of HTTP/2, or begin with it.
pub fn is_preface(bytes: &[u8]) -> bool {
    weir_h2::Connection::is_preface(bytes)
}
