//! One stream: everything that is known about it while it lasts.
//!
//! For HTTP a stream is one request and its response; in TCP mode it is the whole connection. It is the sum of its parts, each a
//! type in a file of its own below `stream/`: [`request`] and [`response`], the [`choice`] of a server, the [`attempts`] on
//! servers, the [`server_side`], what rules decided ([`rule_state`]), its variables ([`stream_variables`]) and what the log line
//! needs ([`log_record`]). A part knows its own states and nothing of the stream.
//!
//! The phases are methods in the files beside this one, in the order of the manual's life of a request. They work on the whole,
//! because nearly every step counts, traces or asks an expression, and those see all parts: expressions by `context.rs`, the
//! log by `log.rs`.

pub mod attempts;
pub mod captures;
pub mod choice;
pub mod log_record;
pub mod logged_size;
pub mod request;
pub mod response;
pub mod reusable;
pub mod rule_state;
pub mod server_side;
pub mod stream_variables;

use std::rc::Rc;
use std::sync::Arc;

use weir_backend::Server;
use weir_mux::StreamConnector;

use crate::deadlines::Timeouts;
use crate::ending::{By, During, Ending};
use crate::entry::OwnEntry;
use crate::filters::Attached;
use crate::instance::{Instance, Proxy};
use crate::recycle::Lent;
use crate::session::Session;
use crate::stream::attempts::Attempts;
use crate::stream::choice::ServerChoice;
use crate::stream::log_record::{LogRecord, LogState};
use crate::stream::request::RequestPart;
use crate::stream::response::ResponsePart;
use crate::stream::reusable::Reusable;
use crate::stream::rule_state::RuleState;
use crate::stream::server_side::ServerSide;
use crate::stream::stream_variables::StreamVariables;
use crate::timers::Timers;
use crate::tracked::TableUse;
use crate::upstream::BackendVisit;

/// A stream in progress.
pub struct Stream {
    /// Everything shared.
    pub instance: &'static Instance,
    /// The client's connection as a whole.
    pub session: Rc<Session>,
    /// What others see of this stream.
    pub(crate) entry: OwnEntry,
    /// The proxy that accepted the client.
    pub frontend: &'static Proxy,
    /// The proxy that has the servers: the frontend itself until one was chosen.
    pub backend: &'static Proxy,
    /// Whether `backend` was chosen, and counts this stream.
    pub visit: BackendVisit,
    /// The client's side.
    pub client: StreamConnector,
    /// The server's side.
    pub server: ServerSide,
    /// Which connections may carry another request.
    pub reusable: Reusable,
    /// What the client asks.
    pub request: RequestPart,
    /// What it is answered.
    pub response: ResponsePart,
    /// What it uses of stick-tables; none without any.
    pub(crate) tables: Option<Box<TableUse>>,
    /// The filters on both; none without any.
    pub(crate) attached: Option<Box<Attached>>,
    /// How far the stream is.
    pub phase: During,
    /// How it ended.
    pub ending: Ending,
    /// When each phase ended.
    pub timers: Timers,
    /// The timeouts in force.
    pub timeouts: Timeouts,
    /// How the stream comes to its server.
    pub choice: ServerChoice,
    /// The attempts on servers.
    pub attempts: Attempts,
    /// What rules decided.
    pub rules: RuleState,
    /// Its variables.
    pub variables: StreamVariables,
    /// What is kept for the log line.
    pub log: LogRecord,
    /// What was added to the byte counters already.
    pub counted: (u64, u64),
    /// Entropy of this stream: its number, mixed.
    pub serial: u64,
    /// Room for heads that are written again.
    pub scratch: Lent<Vec<u8>>,
}

// A class of recycled blocks: sixteen bytes more would take 256 more for every stream that waits.
const _: () = assert!(size_of::<Stream>() <= 1280);

/// Why processing stopped before its normal end.
#[derive(Debug)]
pub enum StreamError {
    /// The client gets [`ResponsePart::reply`]; the stream then ends so.
    Reply(Ending),
    /// The client gets the error message for this status; the stream then ends so.
    Error(u16, Ending),
    /// The client gets nothing; the stream ends so.
    Close(Ending),
}

impl StreamError {
    /// An error message for `status`, because of `by` in `during`.
    pub const fn error(status: u16, by: By, during: During) -> Self {
        StreamError::Error(status, Ending::new(by, during))
    }

    /// Nothing for the client, because of `by` in `during`.
    pub const fn close(by: By, during: During) -> Self {
        StreamError::Close(Ending::new(by, during))
    }

    /// How the stream ends.
    pub const fn ending(&self) -> Ending {
        match self {
            StreamError::Reply(ending) | StreamError::Error(_, ending) | StreamError::Close(ending) => {
                *ending
            }
        }
    }
}

impl From<StreamError> for Ending {
    fn from(stop: StreamError) -> Self {
        stop.ending()
    }
}

/// The result of a phase.
pub type Phase<T = ()> = Result<T, StreamError>;

impl Stream {
    /// A stream that `client` carries, on the connection of this session. It begins at `began_us` of the worker's clock.
    pub fn new(session: Rc<Session>, client: impl Into<StreamConnector>, began_us: u64) -> Self {
        let frontend = session.frontend;
        let handshake_ms = if session.requests.get() == 0 { session.handshake_ms.get() } else { 0 };
        let configured = &frontend.config.settings.timeouts;
        let serial = crate::figures::next_serial();
        weir_expr::pattern::regex::budget::begin_request();
        Stream {
            instance: frontend.instance(),
            frontend,
            backend: frontend,
            visit: BackendVisit::Ahead,
            server: ServerSide::default(),
            reusable: Reusable::default(),
            request: RequestPart::new(),
            response: ResponsePart::new(),
            tables: None,
            attached: None,
            phase: During::Request,
            ending: Ending::NORMAL,
            timers: Timers::begin(began_us, handshake_ms),
            timeouts: Timeouts::of_frontend(configured),
            choice: ServerChoice::default(),
            attempts: Attempts::default(),
            rules: RuleState::default(),
            variables: StreamVariables::default(),
            log: LogRecord::default(),
            counted: (0, 0),
            serial,
            scratch: crate::recycle::bytes(),
            entry: OwnEntry::new(&session),
            session,
            // Made here, where it stays: moving it costs.
            client: client.into(),
        }
    }

    /// Milliseconds since the stream began.
    #[inline]
    pub fn elapsed(&self) -> u32 {
        self.timers.since(weir_sched::now_us())
    }

    /// Enters a phase, for `show sess` and for the termination code.
    #[inline]
    pub fn enter(&mut self, phase: During) {
        self.phase = phase;
        self.entry.phase.set(phase);
        self.trace_phase(phase);
    }

    /// Whether nobody waits for the response any more: the client's connection broke, or it closed its side and sent
    /// nothing before that is still to be served. In HTTP mode `no option abortonclose` takes closing one side for no
    /// more than that; in TCP mode, where the option is off unless written, it lets what was sent before be forgotten too.
    pub(crate) fn client_left(&mut self) -> bool {
        if self.client.is_broken() {
            return true;
        }
        if !self.client.peer_closed() {
            return false;
        }
        let wanted = self.backend.config.settings.options.abort_on_close.or(self.backend.is_http());
        match (self.backend.is_http(), wanted) {
            (true, false) => return false,
            (false, true) => return true,
            _ => {}
        }
        // The end may still lie behind bytes that wait: another request, or all that a client in TCP mode has to say.
        self.client.input().len() <= self.request.held()
            && matches!(
                self.client.receive(self.instance.limits.head_limit()),
                weir_net::Received::End | weir_net::Received::Failed(_)
            )
    }

    /// Adds the response's head to what the log counts, if there is a log. `of_server`: it is a server's.
    pub(crate) fn note_head_size(&mut self, of_server: bool) {
        if !self.frontend.log_sinks.is_empty() {
            self.response.logged.add_head(&self.response.message, of_server);
        }
    }

    /// `%B`: what the stream sent to the client, counted as the reference program does.
    pub(crate) fn logged_bytes(&self) -> u64 {
        if !self.frontend.is_http() {
            return self.bytes_out();
        }
        // Rules on a response ask before any of it has left.
        match self.response.is_leaving() || self.log.state == LogState::Beginning {
            true => self.response.logged_bytes(self.request.head_only()),
            false => 0,
        }
    }

    /// Shows `look` the server that the stream is on, or was on last. Keeping it would count a reference that all
    /// workers count; looking writes nothing.
    pub fn look_at_server<R>(&self, look: impl FnOnce(&Server) -> R) -> Option<R> {
        match &self.server.lease {
            Some(lease) => Some(look(lease.server())),
            None => self.backend.backend.as_ref()?.look_at(self.choice.last?, look),
        }
    }

    /// The server that the stream is on, or was on last.
    pub fn chosen_server(&self) -> Option<Arc<Server>> {
        match &self.server.lease {
            Some(lease) => Some(Arc::clone(lease.server())),
            None => self.backend.backend.as_ref()?.server(self.choice.last?),
        }
    }

    /// Bytes received from the client in this stream. What came behind its request is the next one's.
    pub fn bytes_in(&self) -> u64 {
        self.client.received().saturating_sub(self.bytes_of_later_requests() as u64)
    }

    #[inline]
    fn bytes_of_later_requests(&self) -> usize {
        let input = self.client.input();
        if input.is_empty()
            || !self.request.is_known()
            || self.response.is_tunnel
            || !self.request.body.is_complete()
        {
            return 0;
        }
        input.len().saturating_sub(self.request.held())
    }

    /// Bytes sent to the client in this stream.
    pub fn bytes_out(&self) -> u64 {
        self.client.sent()
    }
}
