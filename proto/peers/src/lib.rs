//! The peers protocol, version 2.1: how instances greet each other, and what they tell of stick-tables (HAProxy's `doc/peers.txt`
//! and `doc/peers-v2.0.txt`; what they do not say is what HAProxy 2.6 and 3.2 send).
//!
//! A session begins with a [`Hello`] and a [`Status`], both text. From then on both sides send messages: [`next`] cuts them out of
//! what arrived, [`write`](mod@write) makes them. What an update says depends on the [`Definition`] before it: an [`Entry`] reads it.
//!
//! The crate refuses to know sockets, clocks, tables and who talks to whom. Whatever is not a message is a [`Fault`], and every length
//! that somebody else says is held against a limit before it is believed.
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
    /// These bytes are no message.
    Malformed,
    /// A message is longer than [`message::MAX_LENGTH`].
    TooLong,
}
