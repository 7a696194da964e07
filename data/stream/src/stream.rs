//! The state of one stream.
//!
//! In HTTP mode a stream is one request and its response. In TCP mode it is the whole connection. Each part of the state is a type in
//! its own file below `stream/`: [`request`] and [`response`], the [`choice`] of a server, the [`attempts`] on servers, the
//! [`server_side`], the results of rules ([`rule_state`]), the variables ([`stream_variables`]), the state of the log line
//! ([`log_record`]) and the captured values ([`captures`]). A part does not access the stream that contains it.
//!
//! [`phases`] has a type for each phase and a diagram of their order. The methods of the phases are in the files beside this one, in
//! the order of the manual's life of a request.

pub(crate) mod attached;
pub mod attempts;
pub mod captures;
pub(crate) mod channel_bytes;
pub mod choice;
pub(crate) mod engines;
pub mod log_record;
pub mod logged_size;
pub(crate) mod password_verdicts;
pub mod phases;
pub mod request;
pub mod response;
pub mod reusable;
pub mod rule_state;
pub mod server_side;
pub mod stream_variables;
pub(crate) mod table_use;

use std::rc::Rc;
use std::sync::Arc;

use weir_backend::Server;
use weir_containers::PoolBox;
use weir_mux::StreamConnector;

use crate::deadlines::StreamTimeouts;
use crate::ending::{By, During, Ending};
use crate::entry::OwnEntry;
use crate::instance::ProxyRef;
use crate::recycle::Loan;
use crate::session::ClientSession;
use crate::stream::attached::Attached;
use crate::stream::attempts::Attempts;
use crate::stream::captures::CapturedValues;
use crate::stream::choice::ServerChoice;
use crate::stream::log_record::{LogRecord, LogState};
use crate::stream::request::RequestPart;
use crate::stream::response::ResponsePart;
use crate::stream::reusable::ReusableConnections;
use crate::stream::rule_state::RuleState;
use crate::stream::server_side::ServerSide;
use crate::stream::stream_variables::StreamVariables;
use crate::upstream::VisitedBackend;
use weir_vocabulary::timers::{ElapsedTime, Timers};

/// A stream in progress: one request with its response, or one TCP connection.
pub struct Stream {
    pub session: Rc<ClientSession>,
    /// The stream's entry in the list of streams.
    pub(crate) entry: OwnEntry,
    /// The stream began in TCP mode and now serves an HTTP request. The frontend's content rules have already run.
    pub began_in_tcp: bool,
    /// The proxy that accepted the client.
    pub frontend: ProxyRef,
    /// The proxy with the servers: the frontend itself until another one is chosen.
    pub backend: VisitedBackend,
    pub client: StreamConnector,
    pub server: ServerSide,
    /// Which connections may carry another request.
    pub reusable: ReusableConnections,
    pub request: RequestPart,
    pub response: ResponsePart,
    /// The stick-table entries that the stream tracks or stores. `None` if it uses no stick-table.
    pub(crate) tables: Option<PoolBox<table_use::TableUse>>,
    /// The filters of the stream's proxies. `None` without filters.
    pub(crate) attached: Option<PoolBox<Attached>>,
    pub phase: During,
    pub ending: Ending,
    /// When each phase ended.
    pub timers: Timers,
    /// The timeouts in force.
    pub timeouts: StreamTimeouts,
    /// How the server was chosen.
    pub choice: ServerChoice,
    pub attempts: Attempts,
    /// The results of rules.
    pub rules: RuleState,
    pub variables: StreamVariables,
    /// The state of the stream's log line.
    pub log: LogRecord,
    /// Values kept for the log line: the unique ID and the captures.
    pub captures: CapturedValues,
    /// Bytes received from and sent to the client that are already in the counters.
    pub counted: (u64, u64),
    /// The stream's number, which also seeds its random choices.
    pub serial: u64,
    /// A buffer for serialized heads.
    pub scratch: Loan<Vec<u8>>,
}

// 768 bytes fill a size class of recycled blocks. Eight more bytes would cost 128 bytes for every waiting stream. A build that counts
// instructions (bench/instructions.py) has 32-bit error numbers and may exceed the limit.
const _: () = assert!(size_of::<Stream>() <= 768 || size_of::<weir_sys::Errno>() > 2);

// The future of a request fills a size class too, with the 16 bytes that `multiplexed.rs` adds around it.
const _: () = {
    const fn size_of_future<A, B, F>(_: impl Fn(A, B) -> F + Copy) -> usize {
        size_of::<F>()
    }
    assert!(size_of_future(Stream::run) <= 208);
};

/// Why processing stopped before its normal end.
#[derive(Debug)]
pub enum StreamError {
    /// Send [`ResponsePart::reply`] to the client. The stream then has this ending.
    Reply(Ending),
    /// Send the error message for this status to the client. The stream then has this ending.
    Error(u16, Ending),
    /// Close without a response. The stream has this ending.
    Close(Ending),
    /// A service has sent the response. The stream has this ending.
    Answered(Ending),
}

impl StreamError {
    /// An error message for `status`, because of `by` in `during`.
    pub const fn error(status: u16, by: By, during: During) -> Self {
        StreamError::Error(status, Ending::new(by, during))
    }

    /// No response for the client, because of `by` in `during`.
    pub const fn close(by: By, during: During) -> Self {
        StreamError::Close(Ending::new(by, during))
    }

    /// The ending that the error gives to the stream.
    pub const fn ending(&self) -> Ending {
        match self {
            StreamError::Reply(ending)
            | StreamError::Error(_, ending)
            | StreamError::Close(ending)
            | StreamError::Answered(ending) => *ending,
        }
    }
}

impl From<StreamError> for Ending {
    fn from(stop: StreamError) -> Self {
        stop.ending()
    }
}

/// The result of a phase. An error ends the stream.
pub type PhaseResult<T = ()> = Result<T, StreamError>;

/// One of a stream's two proxies. Both can be the same proxy (a `listen` section).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxySide {
    /// The proxy that accepted the client.
    Frontend,
    /// The proxy with the servers.
    Backend,
}

impl Stream {
    #[inline]
    pub(crate) fn proxy(&self, side: ProxySide) -> &ProxyRef {
        match side {
            ProxySide::Frontend => &self.frontend,
            ProxySide::Backend => &self.backend,
        }
    }

    /// Whether the backend is another proxy than the frontend.
    #[inline]
    pub(crate) fn has_other_backend(&self) -> bool {
        !self.backend.is(&self.frontend)
    }

    /// Whether this is a request, not a connection in TCP mode.
    #[inline]
    pub(crate) fn speaks_http(&self) -> bool {
        self.session.speaks_http()
    }

    /// A stream carried by `client`, on the connection of this session. It begins at `began_us` of the worker's clock.
    pub fn new(session: Rc<ClientSession>, client: impl Into<StreamConnector>, began_us: u64) -> Self {
        let frontend = session.frontend().clone();
        let handshake_ms = if session.requests.get() == 0 { session.handshake_ms.get() } else { 0 };
        let serial = crate::process_counters::next_serial();
        weir_expr::pattern::regex::budget::begin_request();
        Stream {
            backend: VisitedBackend::ahead_of(frontend.clone()),
            server: ServerSide::default(),
            reusable: ReusableConnections::default(),
            request: RequestPart::new(),
            response: ResponsePart::new(),
            tables: None,
            attached: None,
            phase: During::Request,
            ending: Ending::NORMAL,
            timers: Timers::begin(began_us, handshake_ms),
            timeouts: StreamTimeouts::of_frontend(&frontend.timeouts),
            frontend,
            choice: ServerChoice::default(),
            attempts: Attempts::default(),
            rules: RuleState::default(),
            variables: StreamVariables::default(),
            log: LogRecord::default(),
            captures: CapturedValues::default(),
            counted: (0, 0),
            serial,
            scratch: crate::recycle::bytes(),
            began_in_tcp: false,
            entry: OwnEntry::new(&session),
            session,
            // Constructed in place: moving a stream costs a copy.
            client: client.into(),
        }
    }

    /// Time since the stream began.
    #[inline]
    pub fn elapsed(&self) -> ElapsedTime {
        self.timers.since(weir_sched::now_us())
    }

    /// Enters a phase, for `show sess` and for the termination code.
    #[inline]
    pub fn enter(&mut self, phase: During) {
        self.phase = phase;
        self.entry.phase.set(phase);
        self.trace().trace_phase(phase);
    }

    /// Whether the client has aborted: its connection is broken, or it has sent FIN and all bytes before the FIN are consumed. In HTTP
    /// mode, `no option abortonclose` ignores the FIN. In TCP mode the option is off by default; if on, it aborts the stream at the FIN
    /// even with unread bytes.
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
        // Unread bytes may precede the FIN: another request, or all the data of a client in TCP mode.
        self.client.input().len() <= self.request.held()
            && matches!(
                self.client.receive(self.frontend.instance().limits.head_limit()),
                weir_net::ReceiveOutcome::End | weir_net::ReceiveOutcome::Failed(_)
            )
    }

    /// Adds the response's head to the logged size, if the frontend logs. `of_server` if a server sent the head.
    pub(crate) fn note_head_size(&mut self, of_server: bool) {
        if !self.frontend.log_sinks.is_empty() {
            self.response.logged.add_head(&self.response.message, of_server);
        }
    }

    /// `%B`: bytes sent to the client, counted as HAProxy does.
    pub(crate) fn logged_bytes(&self) -> u64 {
        if !self.speaks_http() {
            return self.bytes_out();
        }
        // Response rules can evaluate `%B` before any byte of the response is sent.
        match self.response.is_leaving() || self.log.state == LogState::Beginning {
            true => self.response.logged_bytes(self.request.head_only()),
            false => 0,
        }
    }

    /// Calls `look` with the stream's current or last server. Avoids an `Arc` clone, which would write to a reference count shared by all
    /// workers.
    pub fn look_at_server<R>(&self, look: impl FnOnce(&Server) -> R) -> Option<R> {
        match &self.server.lease {
            Some(lease) => Some(look(lease.server())),
            None => self.backend.backend.as_ref()?.look_at(self.choice.last?, look),
        }
    }

    /// The stream's current or last server.
    pub fn chosen_server(&self) -> Option<Arc<Server>> {
        match &self.server.lease {
            Some(lease) => Some(Arc::clone(lease.server())),
            None => self.backend.backend.as_ref()?.server(self.choice.last?),
        }
    }

    /// Bytes received from the client in this stream. Bytes of pipelined later requests do not count.
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
