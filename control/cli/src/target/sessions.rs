//! The sessions of all workers.

use super::ListPosition;

/// Operations on sessions.
pub trait SessionTarget {
    /// The next session that the filter wants, and the place behind it. Sessions born after the listing began are left
    /// out. It may need other workers: [`NextSession::Pending`], and the target wakes the session's task once it
    /// knows.
    fn next_session(&mut self, filter: &SessionFilter, place: &mut ListPosition) -> NextSession;

    /// Ends one session. It may need another worker: then this is called again with the same identifier, after
    /// the target woke the session's task.
    fn shutdown_session(&mut self, id: u64) -> Shutdown;
}

/// An answer of [`SessionTarget::shutdown_session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    Done,
    /// No session has this identifier.
    NotFound,
    Pending,
}

/// An answer of [`SessionTarget::next_session`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextSession {
    Session(Box<SessionView>),
    Pending,
    /// The end of the listing.
    None,
}

/// A filter for sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    pub id: Option<u64>,
    /// Only those at least so old, in milliseconds.
    pub older_ms: Option<u64>,
    /// Only those of this frontend.
    pub frontend: Option<String>,
    /// Only those of this backend.
    pub backend: Option<String>,
    /// Only those on this server, `<backend>/<server>`.
    pub server: Option<String>,
    /// Whether to include the request lines.
    pub with_request_line: bool,
    /// Whether to include the state of the streams in multiplexed connections.
    pub with_streams: bool,
}

/// One session, as much of it as the listing shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionView {
    /// The session's identifier: unique among the living. Printed in hexadecimal.
    pub id: u64,
    pub number: u64,
    /// `tcpv4`, `tcpv6`, `unix_stream`; `?` without a client.
    pub protocol: &'static str,
    /// The address of the client; `None` for streams of the process itself, such as forwarding a ring.
    pub source: Option<String>,
    pub frontend: String,
    /// Its backend, once chosen.
    pub backend: Option<String>,
    /// Its server, once chosen.
    pub server: Option<String>,
    /// Its worker, from 1.
    pub worker: u32,
    /// Milliseconds since it began.
    pub age_ms: u64,
    /// How often its task ran.
    pub calls: u64,
    /// The file descriptor on the client's side.
    pub client_fd: Option<i32>,
    /// The file descriptor on the server's side.
    pub server_fd: Option<i32>,
    /// Bytes that wait to go to the server.
    pub request_waiting: u64,
    /// Bytes that wait to go to the client.
    pub response_waiting: u64,
    /// Milliseconds until its nearest timeout.
    pub expires_ms: Option<u64>,
    /// Attempts that were repeated.
    pub retries: u32,
    /// The request line, if it was kept and requested.
    pub request_line: Option<String>,
    /// Its side to the client and its side to the server on connections of several streams, in `name=value` pairs; requested by
    /// [`SessionFilter::with_streams`].
    pub streams: [Option<String>; 2],
    /// Which part of a stream it is in, in a word.
    pub phase: &'static str,
}
