//! Stick-tables that several instances share (manual, 11.2): the peers protocol.
//!
//! A [`SharedTable`] is a table and its name among peers. A [`PeerSession`] is one session with a peer after the greeting:
//! received bytes are the input, bytes to send are the output, and the time is an argument. It pushes local changes, learns
//! remote ones, acknowledges, and sends all entries on request. Updates without an acknowledgement at the end of a session
//! are sent again in the next one.
//!
//! A [`PeersSection`] is a `peers` section. It keeps one session with each peer, opened by either side. At start it learns
//! all entries from the previous process of the same instance, or else from one of the peers.
//!
//! A session is independent of sockets, clocks and other peers. For any input, a session stores at most one message besides
//! the table entries, and no scheduling round exceeds its budget.
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
