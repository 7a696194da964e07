//! The view of a section for operators: its peers, and the progress of each session.

use weir_sched::Tick;
use weir_sys::Address;

/// The state of the connection to a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkState {
    /// No connection attempt yet.
    #[default]
    None,
    /// A connection is being opened.
    Connecting,
    /// The connection was refused or timed out.
    Unreachable,
    /// The greeting is in progress.
    Greeting,
    /// The peer refused the greeting, with this status (`doc/peers-v2.0.txt`).
    Refused(u16),
    /// A session is established.
    Established,
    Lost,
}

/// The counters and times of a peer.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinkStatus {
    pub state: LinkState,
    /// When the last greeting succeeded.
    pub greeted_at: Option<Tick>,
    /// When the next connection is tried.
    pub reconnect_at: Option<Tick>,
    /// When the next heartbeat is due.
    pub heartbeat_at: Option<Tick>,
    pub attempts: u64,
    /// Sessions that ended because nothing was received from the peer in time.
    pub silences: u64,
    /// Sessions that ended because of the peer's protocol errors.
    pub protocol_errors: u64,
    /// Sessions that were replaced by a newer one.
    pub collisions: u64,
    /// Number of scheduling rounds of the current session's task.
    pub turns: u64,
}

/// How far a requested resync from a peer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnState {
    /// No resync was requested from the peer, or its resync is over.
    NotAssigned,
    /// A resync was requested from the peer.
    Assigned,
    /// The peer has begun to send its tables.
    Processing,
}

/// The progress of a session with a peer.
#[derive(Debug, Clone, Default)]
pub struct SessionView {
    pub beats_sent: u64,
    pub beats_received: u64,
    /// Full resyncs, sent or received, that are not confirmed yet.
    pub unconfirmed: u64,
    /// Each shared table, in the order of the section.
    pub tables: Vec<TableProgress>,
    /// The index of the table that the peer's updates refer to.
    pub remote_table: Option<usize>,
    /// The index of the table that our updates refer to.
    pub local_table: Option<usize>,
    /// Names sent to the peer, by number.
    pub sent_names: Vec<(u64, String)>,
    /// Names received from the peer, by number.
    pub learned_names: Vec<(u64, String)>,
}

/// The progress of a table in a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableProgress {
    /// The peer's number for the table. 0 before it was defined.
    pub remote_id: u64,
    /// The data types of the peer's table, one bit each.
    pub remote_data: u64,
    /// The last update sent.
    pub pushed: u32,
    /// The last update that the peer acknowledged.
    pub acknowledged: u32,
    /// The last update received.
    pub learned: u32,
}

/// An event that the listener of a section logs (manual, 11.2, "log").
#[derive(Debug)]
pub struct ListenerEvent<'e> {
    /// The peer's address, from the connection or its PROXY header.
    pub source: &'e Address,
    /// Whether the event closes the connection.
    pub is_error: bool,
    /// The text of the event.
    pub what: &'e str,
}
