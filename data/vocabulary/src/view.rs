//! The view that expressions have of a stream or a health check.
//!
//! A view is built for one evaluation and never lives across an await. A stream implements everything. A check implements only its
//! server, connection and response. An object that one of them lacks is `None` or [`Absent::Missing`], and the fetch fails.

use std::cell::Ref;
use std::sync::Arc;

use weir_backend::counters::{BackendCounters, FrontendCounters};
use weir_backend::{Backend, Positions, Priority, Server};
use weir_expr::FetchResult;
use weir_expr::context::CaptureSide;
use weir_http::Head;
use weir_model::password::PasswordHash;
use weir_model::{CompressionAlgorithm, Location, Proxy, Timeouts, Userlist};
use weir_mux::{Message, StreamConnector};
use weir_net::ConnectionLimit;
use weir_sys::Address;
use weir_tables::Table;

use crate::past::PastConnection;
use crate::timers::Timers;
use crate::tracked::TrackedEntry;

/// A stream or a health check, as expressions see it.
pub trait FetchView {
    /// The objects of the process.
    fn objects(&self) -> &dyn Objects;

    /// The proxy that accepted the client.
    fn frontend(&self) -> Option<ViewedProxy<'_>> {
        None
    }

    /// The current backend. Before one is selected, the frontend.
    fn backend(&self) -> Option<ViewedProxy<'_>>;

    /// The listener that accepted the client.
    fn listener(&self) -> Option<ViewedListener<'_>> {
        None
    }

    /// The current or last server.
    fn server(&self) -> Option<Arc<Server>>;

    /// The client's connection.
    fn client(&self) -> Option<&StreamConnector> {
        None
    }

    /// The number of streams begun on the client's connection.
    fn client_requests(&self) -> u32 {
        0
    }

    /// The client's address. [`Address::Unnamed`] if unknown.
    fn source(&self) -> Option<Address> {
        None
    }

    /// The address that the client connected to. [`Address::Unnamed`] if unknown.
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

    /// The fields of the PROXY header from the client's connection.
    fn proxy_fields(&self) -> Option<Ref<'_, ProxyFields>> {
        None
    }

    /// The current connection to a server.
    fn server_connection(&self) -> Option<ServerConnection<'_>>;

    /// The last connection to a server, once closed.
    fn past_connection(&self) -> Option<&PastConnection> {
        None
    }

    /// The local address of the current or the last connection to the server.
    fn own_address(&self) -> Option<Address>;

    /// The remote address of the current or the last connection to the server.
    fn reached_address(&self) -> Option<Address>;

    /// Whether messages are HTTP. Otherwise they are raw bytes.
    fn speaks_http(&self) -> bool;

    /// Whether content inspection is active, so that missing data may still arrive. Other evaluations never wait.
    fn may_wait(&self) -> bool {
        false
    }

    /// Why an object is not available.
    fn absent(&self) -> Absent {
        if self.may_wait() { Absent::Later } else { Absent::Missing }
    }

    /// Resolves [`MessageSide::Current`] to the message processed now. Other sides are returned unchanged.
    fn side(&self, side: MessageSide) -> MessageSide;

    /// Whether the stream or check itself has parsed the message's head, not only an expression.
    fn is_known(&self, side: MessageSide) -> bool;

    /// The message of a side. Its head is complete.
    fn message(&mut self, side: MessageSide) -> Result<&Message, Absent>;

    /// The bytes received from one side and not yet forwarded, in TCP mode.
    fn raw_input(&self, side: MessageSide) -> &[u8];

    /// The buffered request body. Available from the complete head until the body is sent to a server.
    fn request_body(&mut self) -> Result<AvailableBody<'_>, Absent> {
        Err(Absent::Missing)
    }

    /// The response body received with the head. Available until it is sent to the client.
    fn response_body(&mut self) -> Result<AvailableBody<'_>, Absent>;

    /// The original request line, if kept for the log. Otherwise empty.
    fn request_line(&self) -> Option<Ref<'_, Vec<u8>>> {
        None
    }

    /// The captured headers of one message, by slot.
    fn captured(&self, _side: CaptureSide) -> &[Option<Box<[u8]>>] {
        &[]
    }

    /// The algorithm that compresses the response. `None` if it is not compressed.
    fn response_compression(&self) -> Option<CompressionAlgorithm> {
        None
    }

    /// The unique ID (`unique-id-format`), generated on first use.
    fn unique_id(&mut self) -> Option<&[u8]>;

    /// Counters and status of the stream.
    fn progress(&self) -> Option<StreamProgress> {
        None
    }

    /// The timers of the stream. Before the stream ends, as if it ended now.
    fn timers(&self) -> Option<Timers> {
        None
    }

    /// The timeouts of the stream.
    fn timeouts(&self) -> Option<Timeouts> {
        None
    }

    /// The location of the last rule with a final action.
    fn decided_at(&self) -> Option<&Location> {
        None
    }

    /// The table at this index of the configuration, or the current proxy's.
    fn table(&self, _position: Option<u32>) -> Option<&Table> {
        None
    }

    /// The entry tracked by a counter of the stream, or else of its session.
    fn tracked(&self, _counter: usize) -> Option<TrackedEntry> {
        None
    }

    /// Whether a password matches this costly hash. `None` if not yet computed: the evaluation may then be suspended
    /// ([`weir_expr::Context::is_suspended`]).
    fn password_verdict(&mut self, _hash: &Arc<PasswordHash>, _candidate: &[u8]) -> Option<bool> {
        None
    }
}

impl<'v> dyn FetchView + 'v {
    /// The head of a message, and the buffer that it refers to.
    pub(crate) fn head(&mut self, side: MessageSide) -> Result<(&Head, &[u8]), Absent> {
        self.message(side).map(|message| (&message.head, message.bytes()))
    }
}

/// The objects of the process that expressions refer to by name.
pub trait Objects {
    /// The number of client connections of the process.
    fn connections(&self) -> u32;

    /// `tune.bufsize`.
    fn buffer_size(&self) -> usize;

    /// The proxy at this index of the configuration.
    fn proxy(&self, position: usize) -> Option<ViewedProxy<'_>>;

    /// The proxy of this name with a backend side.
    fn backend_by_name(&self, name: &str) -> Option<ViewedProxy<'_>>;

    /// The proxy of this name with a frontend side.
    fn frontend_by_name(&self, name: &str) -> Option<ViewedProxy<'_>>;

    /// The stick-table at this index of the configuration.
    fn table(&self, position: u32) -> Option<&Table>;

    /// The userlist at this index of the configuration.
    fn userlist(&self, position: u32) -> Option<&Userlist>;
}

/// The server of this name, and its backend. The name is `backend/server`, or a server's name in the backend `own`.
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
    /// The servers, if the proxy has a backend side.
    pub backend: Option<&'p Backend>,
    pub frontend_counters: &'p FrontendCounters,
    pub backend_counters: &'p BackendCounters,
    /// The number of its client connections now, and the maximum.
    pub connections: &'p ConnectionLimit,
}

/// The listener of the stream's client, as fetches see it.
#[derive(Clone, Copy)]
pub struct ViewedListener<'l> {
    pub id: u32,
    /// The `name` of the bind line.
    pub name: Option<&'l str>,
    /// The number of its connections now, and the maximum.
    pub connections: &'l ConnectionLimit,
}

/// The stream's connection to its server, as fetches see it.
#[derive(Clone, Copy)]
pub struct ServerConnection<'c> {
    pub connector: &'c StreamConnector,
    /// Whether it served other streams before this one.
    pub reused: bool,
    /// The number of requests, including the current one.
    pub requests: u32,
}

/// Counters and status of a stream.
#[derive(Clone, Copy, Debug)]
pub struct StreamProgress {
    /// The number of the stream in the process.
    pub serial: u64,
    /// The start time, in microseconds since the epoch.
    pub began_wall_us: u64,
    /// Failed attempts to connect.
    pub retries: u32,
    /// Maximum number of retries, from `set-retries` or `retries`.
    pub allowed_retries: u32,
    /// Whether the stream was redispatched to another server.
    pub redispatched: bool,
    pub priority: Priority,
    /// The requests dequeued before it.
    pub queued: Positions,
    /// The first two letters of the termination state.
    pub ending: [u8; 2],
    /// The status sent to the client. 0 before one is known.
    pub status: u16,
    /// The status from the server. 0 before the response.
    pub server_status: u16,
    /// Bytes received from the client.
    pub bytes_in: u64,
    /// Bytes sent to the client.
    pub bytes_out: u64,
    /// Bytes that compression removed from the response.
    pub bytes_saved: u64,
}

/// Fields of a PROXY protocol header, without addresses.
#[derive(Debug, Default)]
pub struct ProxyFields {
    /// The TLVs, in order.
    pub fields: Vec<(u8, Box<[u8]>)>,
}

/// The buffered part of a body.
#[derive(Debug)]
pub struct AvailableBody<'c> {
    pub bytes: &'c [u8],
    /// The body length that the head announced, if any.
    pub announced: Option<u64>,
    /// Whether more bytes may arrive before the next evaluation.
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
    /// The message processed by the current rules.
    Current,
}

/// Why a requested object is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It does not exist, and will not.
    Missing,
    /// It may exist once more bytes arrive.
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
