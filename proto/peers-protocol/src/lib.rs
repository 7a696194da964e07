//! The peers protocol, version 2.1: how instances open a session and exchange entries of stick-tables (HAProxy's
//! `doc/peers.txt` and `doc/peers-v2.0.txt`; beyond them, the messages of HAProxy 2.6 and 3.2).
//!
//! A session begins with a [`Hello`] and a [`HelloStatus`], both text. From then on both sides send messages: [`next`] parses received
//! ones, [`write`](mod@write) makes them. The body of an update depends on the [`Definition`] before it; [`EntryBody`] reads it.
//!
//! The crate must not know sockets, clocks, tables or the topology of peers. Anything but a valid message is a
//! [`SessionFault`], and every received length is checked against a limit before it is used.
//!
//! Begin with `message.rs`, then `definition.rs` and `entry.rs`.

pub mod definition;
pub mod entry;
pub mod hello;
pub mod integer;
pub mod message;
pub mod names;
pub mod write;

pub use definition::{DataEncoding, DataField, Definition, KeyKind};
pub use entry::{DataValue, EntryBody, KeyBytes, RateData};
pub use hello::{Hello, HelloStatus};
pub use integer::ByteReader;
pub use message::{Control, EntryUpdate, PeerMessage, next};
pub use names::{LearnedNames, Mention, SentNames};

/// Why a session has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionFault {
    /// The bytes are not a valid message.
    Malformed,
    /// A message is longer than [`message::MAX_LENGTH`].
    TooLong,
}
