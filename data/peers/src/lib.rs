//! Stick-tables that several instances share (manual, 11.2): what each tells the others.
//!
//! A [`SharedTable`] is a table and what peers call it. A [`Session`] is one conversation with a peer after the greeting: bytes that
//! came go in, bytes to send come out, the time is an argument. It pushes what changed here, learns what changed there, acknowledges,
//! and teaches everything to whoever asks. What was not acknowledged when a session ends is told again in the next one.
//!
//! A [`Section`] is who shares what: it keeps a session with each peer, whoever of both connected, asks one of them for everything
//! when it starts, and lets the former process of the same instance teach it before that.
//!
//! A session refuses to know sockets, clocks and other peers. Whatever a peer says, it holds one message and what fits into the tables,
//! and no turn does more than its budget.
//!
//! Begin with `session.rs`, then `shared_table.rs` and `conversation.rs`.

mod conversation;
mod incoming;
mod learning;
mod outgoing;
mod section;
mod session;
mod shared_table;

pub use conversation::PeerAcceptor;
pub use section::{Peer, Section, UPDATES_AT_ONCE};
pub use session::{Heard, Session};
pub use shared_table::SharedTable;
