//! The peers protocol, version 2.1: how instances open a session and exchange entries of stick-tables (HAProxy's
//! `doc/peers.txt` and `doc/peers-v2.0.txt`; beyond them, the messages of HAProxy 2.6 and 3.2).
//!
//! A session begins with a [`Hello`] and a [`Status`], both text. From then on both sides send messages: [`next`] parses received
//! ones, [`write`](mod@write) makes them. The body of an update depends on the [`Definition`] before it; [`Entry`] reads it.
//!
//! The crate must not know sockets, clocks, tables or the topology of peers. Anything but a valid message is a
//! [`Fault`], and every received length is checked against a limit before it is used.
//!
//! Begin with `message.rs`, then `definition.rs` and `entry.rs`.

pub mod definition;
pub mod entry;
pub mod hello;
pub mod integer;
pub mod message;
pub mod names;
pub mod write;

pub use definition::{DataKind, Definition, Field, KeyKind};
pub use entry::{Entry, KeyBytes, Rate, Value};
pub use hello::{Hello, Status};
pub use integer::Reader;
pub use message::{Control, Message, Update, next};
pub use names::{LearnedNames, Mention, SentNames};

/// Why a session has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The bytes are not a valid message.
    Malformed,
    /// A message is longer than [`message::MAX_LENGTH`].
    TooLong,
}
