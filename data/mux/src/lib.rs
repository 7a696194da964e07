//! Turns a connection into streams: heads and bodies out of bytes, bytes out of heads and bodies.
//!
//! For HTTP/1 a connection carries one exchange at a time: [`Message`] reads and writes the head of one, [`BodyFlow`]
//! moves a body from one connection to the other without ever holding more of it than one buffer. Both drive the pure
//! engines of `weir-h1`; both do what can be done now and say what they wait for: the caller sleeps.
//!
//! The crate refuses to know proxies, rules, servers and timeouts. Begin with `message.rs`, then `body.rs`.

pub mod body;
pub mod connector;
pub mod message;
mod payload;
pub mod persistence;
pub mod progress;
pub mod service;
pub mod spliced;

pub use body::{BodyFlow, Flow, KeptBody, Side};
pub use connector::StreamConnector;
pub use message::{HeadError, HeadErrorKind, HeadOptions, Message, ReadHead};
pub use persistence::ConnectionMode;
pub use progress::{Progress, Step};
pub use service::{LocalService, Service};
pub use spliced::Spliced;
