//! The view that expressions have of a stream or of a health check.
//!
//! It is built for one evaluation and never lives across an await. Both kinds implement it: a stream shows everything, a check shows its
//! server, the connection, the answer. An object that one of them lacks is `None` or [`Absent::Missing`], and the fetch is missing.

use std::cell::Ref;
use std::sync::Arc;

use weir_backend::counters::{BackendCounters, FrontendCounters};
use weir_backend::{Backend, Positions, Priority, Server};
use weir_expr::FetchResult;
use weir_expr::context::CaptureSide;
use weir_http::Head;
use weir_model::password::PasswordHash;
use weir_model::{Location, Proxy, Timeouts, Userlist};
use weir_mux::{Message, StreamConnector};
use weir_net::ConnectionLimit;
use weir_sys::Address;
use weir_tables::Table;

use crate::past::PastConnection;
use crate::timers::Timers;
use crate::tracked::TrackedEntry;

/// A stream or a health check, as expressions see it.
pub trait FetchView {
    /// The process around it.
    fn objects(&self) -> &dyn Objects;

    /// The proxy that accepted the client.
    fn frontend(&self) -> Option<ViewedProxy<'_>> {
        None
    }

    /// The current backend: the frontend, before one is chosen.
    fn backend(&self) -> Option<ViewedProxy<'_>>;

    /// The listener that accepted the client.
    fn listener(&self) -> Option<ViewedListener<'_>> {
        None
    }

    /// The current or the last server.
    fn server(&self) -> Option<Arc<Server>>;

    /// The client's connection.
    fn client(&self) -> Option<&StreamConnector> {
        None
    }

    /// How many streams began on the client's connection.
    fn client_requests(&self) -> u32 {
        0
    }

    /// The client's address; unnamed if unknown.
    fn source(&self) -> Option<Address> {
        None
    }

    /// The address that the client connected to; unnamed if unknown.
    fn destination(&self) -> Option<Address> {
        None
    }

    /// The remote address of the client's connection.
    fn connection_source(&self) -> Option<Address> {
        None
    }

    /// The local address of the client's connection.
    fn connection_destination(&self) -> Option<Address> {
        None
    }

    /// The PROXY header that the client's connection began with.
    fn proxy_fields(&self) -> Option<Ref<'_, ProxyFields>> {
        None
    }

    /// The connection to the server.
    fn server_connection(&self) -> Option<ServerConnection<'_>>;

    /// The last connection to a server, after it was closed.
    fn past_connection(&self) -> Option<&PastConnection> {
        None
    }

    /// The local address of the current or the last connection to the server.
    fn own_address(&self) -> Option<Address>;

    /// The remote address of the current or the last connection to the server.
    fn reached_address(&self) -> Option<Address>;

    /// Whether its messages are HTTP. Otherwise it has raw bytes.
    fn speaks_http(&self) -> bool;

    /// Whether content inspection is active, so that missing data may still arrive. Nothing else waits.
    fn may_wait(&self) -> bool {
        false
    }

    /// Why an object is not available.
    fn absent(&self) -> Absent {
        if self.may_wait() { Absent::Later } else { Absent::Missing }
    }

    /// The message that a side means now: never [`MessageSide::Current`].
    fn side(&self, side: MessageSide) -> MessageSide;

    /// Whether the message's head was read on the way, not only by an expression.
    fn is_known(&self, side: MessageSide) -> bool;

    /// A message with a complete head.
    fn message(&mut self, side: MessageSide) -> Result<&Message, Absent>;

    /// The bytes received from one side and not relayed yet, in TCP mode.
    fn raw_input(&self, side: MessageSide) -> &[u8];

    /// The request's body. It is available from the complete head until it is sent to a server.
    fn request_body(&mut self) -> Result<AvailableBody<'_>, Absent> {
        Err(Absent::Missing)
    }

    /// The response's body: the part received with the head, until it is sent on.
    fn response_body(&mut self) -> Result<AvailableBody<'_>, Absent>;

    /// The original request line, if it is kept for the log; else empty.
    fn request_line(&self) -> Option<Ref<'_, Vec<u8>>> {
        None
    }

    /// The captured headers of one message, in the order of their slots.
    fn captured(&self, _side: CaptureSide) -> &[Option<Box<[u8]>>] {
        &[]
    }

    /// `unique-id`: made by the first use.
    fn unique_id(&mut self) -> Option<&[u8]>;

    /// Counts of the stream.
    fn progress(&self) -> Option<StreamProgress> {
        None
    }

    /// The timers of the stream, as if it ended now unless it already has.
    fn timers(&self) -> Option<Timers> {
        None
    }

    /// The timeouts of the stream.
    fn timeouts(&self) -> Option<Timeouts> {
        None
    }

    /// The location of the last rule that decided.
    fn decided_at(&self) -> Option<&Location> {
        None
    }

    /// The table at that position of the configuration, or the current proxy's.
    fn table(&self, _position: Option<u32>) -> Option<&Table> {
        None
    }

    /// The entry that a counter tracks: the stream's, or else its session's.
    fn tracked(&self, _counter: usize) -> Option<TrackedEntry> {
        None
    }

    /// Whether a password has this costly hash; none if that is not known. Then it may become known ([`weir_expr::Context::is_suspended`]).
    fn password_verdict(&mut self, _hash: &Arc<PasswordHash>, _candidate: &[u8]) -> Option<bool> {
        None
    }
}

impl<'v> dyn FetchView + 'v {
    /// The head of a message, and the bytes that it refers to.
    pub(crate) fn head(&mut self, side: MessageSide) -> Result<(&Head, &[u8]), Absent> {
        self.message(side).map(|message| (&message.head, message.bytes()))
    }
}

/// The objects of the process that expressions name.
pub trait Objects {
    /// Client connections of the process.
    fn connections(&self) -> u32;

    /// `tune.bufsize`.
    fn buffer_size(&self) -> usize;

    /// The proxy at that position of the configuration.
    fn proxy(&self, position: usize) -> Option<ViewedProxy<'_>>;

    /// The proxy with a backend side of that name.
    fn backend_by_name(&self, name: &str) -> Option<ViewedProxy<'_>>;

    /// The proxy with a frontend side of that name.
    fn frontend_by_name(&self, name: &str) -> Option<ViewedProxy<'_>>;

    /// The stick-table at that position of the configuration.
    fn table(&self, position: u32) -> Option<&Table>;

    /// The list of users at that position of the configuration.
    fn userlist(&self, position: u32) -> Option<&Userlist>;
}

/// A server by the name that an expression has for it, `backend/server` or the name of a server of `own`; with its backend.
pub fn server_by_name<'o>(
    objects: &'o dyn Objects,
    own: Option<ViewedProxy<'o>>,
    name: &[u8],
) -> Option<(ViewedProxy<'o>, Arc<Server>)> {
    let name = std::str::from_utf8(name).ok()?;
    let (proxy, server) = match name.split_once('/') {
        Some((backend, server)) => (objects.backend_by_name(backend)?, server),
        None => (own?, name),
    };
    let server = proxy.backend?.server_by_name(server)?;
    Some((proxy, server))
}

/// A proxy: its configuration and its live state.
#[derive(Clone, Copy)]
pub struct ViewedProxy<'p> {
    pub config: &'p Proxy,
    /// Its servers, if it has a backend side.
    pub backend: Option<&'p Backend>,
    /// Its counters as a frontend.
    pub frontend_counters: &'p FrontendCounters,
    /// Its counters as a backend.
    pub backend_counters: &'p BackendCounters,
    /// The limit of its client connections.
    pub connections: &'p ConnectionLimit,
}

/// A listener.
#[derive(Clone, Copy)]
pub struct ViewedListener<'l> {
    pub id: u32,
    /// The name that the bind line gives it.
    pub name: Option<&'l str>,
    /// The limit of its connections.
    pub connections: &'l ConnectionLimit,
}

/// A connection to a server.
#[derive(Clone, Copy)]
pub struct ServerConnection<'c> {
    /// The connector that carries the stream.
    pub connector: &'c StreamConnector,
    /// Whether it served other streams before.
    pub reused: bool,
    /// How many requests it served, this one included.
    pub requests: u32,
}

/// Counts of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamProgress {
    /// Its number in the process.
    pub serial: u64,
    /// When it began, in microseconds since the epoch.
    pub began_wall_us: u64,
    /// Failed attempts to connect.
    pub retries: u32,
    /// How many retries are allowed.
    pub allowed_retries: u32,
    /// Whether a server other than the first was tried.
    pub redispatched: bool,
    /// Its priority in queues.
    pub priority: Priority,
    /// Requests served before it while it queued.
    pub queued: Positions,
    /// How it ended so far: the first letters of the termination code.
    pub ending: [u8; 2],
    /// The status that the client gets, 0 before there is one.
    pub status: u16,
    /// The status that the server sent, 0 before.
    pub server_status: u16,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
}

/// Fields of a PROXY protocol header besides the addresses.
#[derive(Debug, Default)]
pub struct ProxyFields {
    /// The type-length-value fields, in order.
    pub fields: Vec<(u8, Box<[u8]>)>,
}

/// The available part of a body.
#[derive(Debug)]
pub struct AvailableBody<'c> {
    pub bytes: &'c [u8],
    /// The length that the head announced.
    pub announced: Option<u64>,
    /// Whether more may arrive before the next evaluation.
    pub grows: bool,
}

/// The message that a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSide {
    /// The request, until it is answered.
    Request,
    /// The parts of the request that are kept after it is answered.
    KeptRequest,
    Response,
    /// The message that is processed now.
    Current,
}

/// Why a requested object is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It does not exist, and waiting does not help.
    Missing,
    /// More bytes may bring it.
    Later,
}

impl From<Absent> for FetchResult<'_> {
    fn from(absent: Absent) -> Self {
        match absent {
            Absent::Missing => FetchResult::Missing,
            Absent::Later => FetchResult::Later,
        }
    }
}
