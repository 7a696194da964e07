//! The sessions of all workers.

use super::ListPosition;

/// Lists and ends sessions, for `show sess` and `shutdown`.
pub trait SessionTarget {
    /// The next session that matches the filter. Advances `place`. Omits sessions created after the listing began. May need data from
    /// other workers: then returns [`NextSession::Pending`] and wakes the session's task when it is ready.
    fn next_session(&mut self, filter: &SessionFilter, place: &mut ListPosition) -> NextSession;

    /// Kills one session. If another worker owns the session, returns [`Shutdown::Pending`] and wakes the caller's task. Then call
    /// it again with the same identifier.
    fn shutdown_session(&mut self, id: u64) -> Shutdown;
}

/// The result of [`SessionTarget::shutdown_session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    Done,
    /// No session has this identifier.
    NotFound,
    Pending,
}

/// The result of [`SessionTarget::next_session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextSession {
    Session(Box<SessionView>),
    Pending,
    /// The end of the listing.
    None,
}

/// Which sessions `show sess` lists, and in which detail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub id: Option<u64>,
    /// Only sessions with at least this age, in milliseconds.
    pub older_ms: Option<u64>,
    /// Only sessions of this frontend.
    pub frontend: Option<String>,
    /// Only sessions of this backend.
    pub backend: Option<String>,
    /// Only sessions on this server, `<backend>/<server>`.
    pub server: Option<String>,
    /// Whether to include the request lines.
    pub with_request_line: bool,
    /// Whether to include the state of the streams on multiplexed connections.
    pub with_streams: bool,
}

/// One session, with the data for the listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionView {
    /// Identifier, unique among the current sessions. Printed in hexadecimal.
    pub id: u64,
    pub number: u64,
    /// `tcpv4`, `tcpv6`, `unix_stream`. `?` without a client.
    pub protocol: &'static str,
    /// The client's address. `None` for internal streams, such as ring forwarding.
    pub source: Option<String>,
    pub frontend: String,
    /// The backend. `None` before one is chosen.
    pub backend: Option<String>,
    /// The server. `None` before one is chosen.
    pub server: Option<String>,
    /// Number of the session's worker, from 1.
    pub worker: u32,
    pub age_ms: u64,
    /// Number of runs of the session's task.
    pub calls: u64,
    /// File descriptor of the client connection.
    pub client_fd: Option<i32>,
    /// File descriptor of the server connection.
    pub server_fd: Option<i32>,
    /// Bytes queued for the server.
    pub request_waiting: u64,
    /// Bytes queued for the client.
    pub response_waiting: u64,
    /// Time until the next timeout, in milliseconds.
    pub expires_ms: Option<u64>,
    pub retries: u32,
    /// The request line, if captured and requested.
    pub request_line: Option<String>,
    /// The streams on multiplexed connections to the client and to the server, as `name=value` pairs. Present with
    /// [`SessionFilter::with_streams`].
    pub streams: [Option<String>; 2],
    /// The current phase of the stream, in one word.
    pub phase: &'static str,
}
