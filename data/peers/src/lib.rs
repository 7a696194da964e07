//! Stick-tables that several instances share (manual, 11.2): the peers protocol.
//!
//! A [`SharedTable`] is a table and its name among peers. A [`PeerSession`] is one conversation with a peer after the greeting: received
//! bytes go in, bytes to send come out, the time is an argument. It pushes local changes, learns remote ones, acknowledges, and sends
//! everything to a peer that requests it. Updates that were not acknowledged when a session ends are sent again in the next one.
//!
//! A [`PeersSection`] is a `peers` section: it keeps one session with each peer, whichever of the two connected, requests from one of them
//! everything when it starts, and before that learns from the former process of the same instance.
//!
//! A session refuses to know sockets, clocks and other peers. Whatever a peer sends, a session holds one message and what fits into the
//! tables, and no turn exceeds its budget.
//!
//! Begin with `session.rs`, then `shared_table.rs` and `conversation.rs`.

mod accept;
mod conversation;
mod incoming;
mod learning;
mod mismatch;
mod outgoing;
mod section;
mod session;
mod shared_table;
mod trace;
mod view;

pub use accept::PeerAcceptor;
pub use section::{Peer, PeersSection, UPDATES_AT_ONCE};
pub use session::{ControlMessage, PeerSession};
pub use shared_table::SharedTable;
pub use trace::PEERS;
pub use view::{LearnState, LinkState, LinkStatus, ListenerEvent, SessionView, TableProgress};
