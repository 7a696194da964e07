//! Traces of the data plane: sessions, streams, HTTP/1 messages, bytes in TCP mode.
//!
//! Each function begins with the branch that a trace point costs while tracing is off. The rest is cold.

pub(crate) mod body;

use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use weir_events::trace::{About, TraceEventKind, TraceLevel, TraceReport, TraceSource};
use weir_http::Head;
use weir_mux::trace::ConnectionIdentity;
use weir_mux::{ReadHead, StreamConnector};

use crate::ending::During;
use crate::errors::MessageDirection;
use crate::session::ClientSession;
use crate::stream::log_record::LogState;
use crate::stream::phases::StreamTrace;
use crate::stream::response::LocalName;

/// Clients' connections.
pub static SESSION: TraceSource = TraceSource::new(
    "session",
    "client session management",
    &[
        TraceEventKind { name: "sess_new", help: "new session creation" },
        TraceEventKind { name: "sess_end", help: "session termination" },
    ],
);

/// Streams.
pub static STREAM: TraceSource = TraceSource::new(
    "stream",
    "Applicative stream",
    &[
        TraceEventKind { name: "strm_new", help: "new stream" },
        TraceEventKind { name: "strm_end", help: "stream released" },
        TraceEventKind { name: "strm_err", help: "error during stream processing" },
        TraceEventKind { name: "strm_state", help: "the stream enters another phase" },
        TraceEventKind { name: "strm_conn", help: "connection to a server" },
        TraceEventKind { name: "strm_retry", help: "another attempt after a failure" },
    ],
);

/// HTTP/1 messages. `rx_trailerus` is HAProxy's spelling.
pub static H1: TraceSource = TraceSource::new(
    "h1",
    "HTTP/1 multiplexer",
    &[
        TraceEventKind { name: "rx_req", help: "receipt of an H1 request's head" },
        TraceEventKind { name: "rx_res", help: "receipt of an H1 response's head" },
        TraceEventKind { name: "rx_wait", help: "an H1 head is not complete, more bytes are awaited" },
        TraceEventKind { name: "rx_err", help: "an H1 head or body was refused, or did not come" },
        TraceEventKind { name: "rx_body", help: "receipt of H1 body" },
        TraceEventKind { name: "rx_trailerus", help: "receipt of H1 trailers" },
        TraceEventKind { name: "rx_eoi", help: "receipt of the end of an H1 body" },
        TraceEventKind { name: "tx_body", help: "transmission of H1 body" },
        TraceEventKind { name: "tx_trailerus", help: "transmission of H1 trailers" },
        TraceEventKind { name: "tx_eoi", help: "transmission of the end of an H1 body" },
    ],
)
.with_streams("h1s", "H1 stream");

/// Bytes of connections in TCP mode.
pub static PT: TraceSource = TraceSource::new(
    "pt",
    "Passthrough multiplexer",
    &[
        TraceEventKind { name: "pt_rx_data", help: "Rx on PT connection" },
        TraceEventKind { name: "pt_tx_data", help: "Tx on PT connection" },
    ],
);

const SESS_NEW: usize = 0;
const SESS_END: usize = 1;
const STRM_NEW: usize = 0;
const STRM_END: usize = 1;
const STRM_ERR: usize = 2;
const STRM_STATE: usize = 3;
const STRM_CONN: usize = 4;
const STRM_RETRY: usize = 5;
const RX_REQ: usize = 0;
const RX_RES: usize = 1;
const RX_WAIT: usize = 2;
const RX_ERR: usize = 3;
const RX_BODY: usize = 4;
const RX_TRAILERS: usize = 5;
const RX_EOI: usize = 6;
const TX_BODY: usize = 7;
const TX_TRAILERS: usize = 8;
const TX_EOI: usize = 9;
const PT_RX_DATA: usize = 0;
const PT_TX_DATA: usize = 1;

/// Minimum verbosity that shows flags. See [`weir_events::trace::VERBOSITIES`].
const MINIMAL: u8 = 2;
/// Minimum verbosity that shows buffers.
const SIMPLE: u8 = 3;
/// Minimum verbosity that shows header fields.
const ADVANCED: u8 = 4;

/// An event at the current time.
fn now(event: usize, level: TraceLevel, about: About) -> TraceReport {
    TraceReport { event, also: 0, level, about, time: weir_sched::wall_time() }
}

fn about_session(session: &Rc<ClientSession>) -> About {
    let number = Rc::as_ptr(session) as u64;
    About {
        connection: number,
        frontend: session.frontend().index as u64 + 1,
        listener: std::ptr::from_ref(session.listener()) as u64,
        session: number,
        thread: weir_sched::worker_index() as u64 + 1,
        ..About::default()
    }
}

/// The identity of a client's connection, for traces.
pub(crate) fn identity(session: &Rc<ClientSession>) -> ConnectionIdentity {
    ConnectionIdentity { about: about_session(session), proxy: Arc::clone(&session.frontend().name) }
}

#[inline]
pub(crate) fn session_begins(session: &Rc<ClientSession>) {
    if SESSION.is_active() {
        emit_session(session, SESS_NEW);
    }
}

#[inline]
pub(crate) fn session_ends(session: &Rc<ClientSession>) {
    if SESSION.is_active() {
        emit_session(session, SESS_END);
    }
}

#[cold]
fn emit_session(session: &Rc<ClientSession>, event: usize) {
    SESSION.trace(&now(event, TraceLevel::User, about_session(session)), |verbosity, line| {
        // Writing to memory does not fail.
        let _ = write!(line, "{} from {}", session.frontend().name(), session.source());
        if verbosity > 0 {
            let _ = write!(line, " to {} requests={}", session.destination(), session.requests.get());
        }
    });
}

impl StreamTrace {
    fn about(&self) -> About {
        About {
            backend: self.stream.backend.index as u64 + 1,
            server: self.stream.chosen_server().map_or(0, |server| Arc::as_ptr(&server) as u64),
            stream: self.serial(),
            ..about_session(&self.stream.session)
        }
    }

    /// The identity of the server connection that this stream opens.
    pub(crate) fn server_identity(&self) -> ConnectionIdentity {
        let about = self.about();
        ConnectionIdentity::of_server(about.backend, about.server, Arc::clone(&self.stream.backend.name))
    }

    /// The number of the stream in traces.
    pub(crate) fn serial(&self) -> u64 {
        self.stream.serial + 1
    }

    #[inline]
    pub(crate) fn trace_begin(&self) {
        if STREAM.is_active() {
            self.emit_event(STRM_NEW, TraceLevel::User, "");
        }
    }

    #[inline]
    pub(crate) fn trace_end(&self) {
        if STREAM.is_active() {
            let code = self.stream.ending.letters().map(char::from);
            let text = format!(" status={} code={}{}", self.stream.response.status, code[0], code[1]);
            if self.stream.ending.is_error() {
                self.emit_event(STRM_ERR, TraceLevel::Error, &text);
            }
            self.emit_event(STRM_END, TraceLevel::User, &text);
        }
    }

    #[inline]
    pub(crate) fn trace_phase(&self, phase: During) {
        if STREAM.is_active() {
            self.emit_event(STRM_STATE, TraceLevel::State, &format!(" phase={phase:?}"));
        }
    }

    #[inline]
    pub(crate) fn trace_connection(&self, reused: bool) {
        if STREAM.is_active() {
            self.emit_event(
                STRM_CONN,
                TraceLevel::User,
                if reused { " reuses a connection" } else { " connects" },
            );
        }
    }

    #[inline]
    pub(crate) fn trace_failure(&self, failure: impl std::fmt::Debug) {
        if STREAM.is_active() {
            self.emit_event(
                STRM_RETRY,
                TraceLevel::User,
                &format!(" failed={failure:?} retries={}", self.stream.attempts.retries),
            );
        }
    }

    #[cold]
    fn emit_event(&self, event: usize, level: TraceLevel, text: &str) {
        STREAM.trace(&now(event, level, self.about()), |verbosity, line| {
            // Writing to memory does not fail.
            let _ = write!(
                line,
                "#{} fe={} be={}",
                self.stream.serial,
                self.stream.frontend.name(),
                self.stream.backend.name()
            );
            if let Some(server) = self.stream.chosen_server() {
                let _ = write!(line, " srv={}", server.name());
            }
            let _ = write!(line, "{text}");
            if verbosity >= MINIMAL {
                let _ = write!(line, " flags={}", joined(self.words()));
            }
            self.emit_connections(verbosity, line);
        });
    }

    /// The stream's state in words.
    fn words(&self) -> impl Iterator<Item = &'static str> {
        let designation = self.stream.choice.designation;
        [
            ("request", self.stream.request.is_known()),
            ("response", self.stream.response.is_known()),
            ("keep-client", self.stream.reusable.client),
            ("keep-server", self.stream.reusable.server),
            ("reused-server", self.stream.attempts.on_reused_connection),
            ("persistent", designation.is_persistent()),
            ("forced", designation.is_forced()),
            ("expects-continue", self.stream.request.expects_continue),
            ("head-only", self.stream.request.head_only()),
            ("upload-refused", self.stream.request.upload_refused),
            ("response-started", self.stream.response.is_leaving()),
            ("tunnel", self.stream.response.is_tunnel),
            ("denied", self.stream.rules.denied),
            ("local", self.stream.response.service != LocalName::None),
            ("logged", self.stream.log.state == LogState::Written),
        ]
        .into_iter()
        .filter_map(|(word, holds)| holds.then_some(word))
    }

    /// Writes the states of both connections in words, and the fill levels of their buffers.
    fn emit_connections(&self, verbosity: u8, line: &mut Vec<u8>) {
        emit_connection("front", &self.stream.client, verbosity, line);
        if let Some(server) = &self.stream.server.upstream {
            emit_connection("back", &server.connector, verbosity, line);
        }
    }

    #[inline]
    pub(crate) fn trace_request(&self) {
        if H1.is_active() {
            self.emit_head(RX_REQ);
        }
    }

    #[inline]
    pub(crate) fn trace_response(&self) {
        if H1.is_active() {
            self.emit_head(RX_RES);
        }
    }

    /// Traces that the head of a message is incomplete.
    #[inline]
    pub(crate) fn trace_wait(&self, direction: MessageDirection) {
        if H1.is_active() {
            self.emit_h1(RX_WAIT, TraceLevel::Data, direction, |_, _| {});
        }
    }

    /// Traces that the head of a message is invalid or will not arrive.
    #[cold]
    pub(crate) fn trace_refusal(&self, direction: MessageDirection, why: ReadHead) {
        if H1.is_active() {
            self.emit_h1(RX_ERR, TraceLevel::Error, direction, |_, line| {
                // Writing to memory does not fail.
                let _ = match why {
                    ReadHead::Invalid(error) => write!(line, ": {:?} at {}", error.kind, error.position),
                    why => write!(line, ": {why:?}"),
                };
            });
        }
    }

    #[cold]
    fn emit_head(&self, event: usize) {
        let (direction, message) = match event {
            RX_REQ => (MessageDirection::Request, &self.stream.request.message),
            _ => (MessageDirection::Response, &self.stream.response.message),
        };
        let (head, raw) = (&message.head, message.bytes());
        self.emit_h1(event, TraceLevel::User, direction, |verbosity, line| {
            // Writing to memory does not fail.
            if verbosity > 0 && event == RX_REQ {
                let (method, target) = (head.method_text(raw), head.uri(raw));
                let _ = write!(line, ": {} ", String::from_utf8_lossy(method));
                let _ = write!(line, "{}", String::from_utf8_lossy(target));
            } else if verbosity > 0 {
                let _ = write!(line, ": {}", head.status());
            }
            if verbosity >= MINIMAL {
                let _ = write!(line, " flags={}", head.flags());
            }
            if verbosity >= ADVANCED {
                emit_fields(head, raw, line);
            }
        });
    }

    /// Traces an event of a message, on the side of the proxy that receives it.
    #[cold]
    fn emit_h1(
        &self,
        event: usize,
        level: TraceLevel,
        direction: MessageDirection,
        write_text: impl FnOnce(u8, &mut Vec<u8>),
    ) {
        let side = match direction {
            MessageDirection::Request => TracedSide::Front,
            MessageDirection::Response => TracedSide::Back,
        };
        self.emit_message(&H1, (event, level), direction, side, write_text);
    }

    #[cold]
    fn emit_message(
        &self,
        source: &TraceSource,
        (event, level): (usize, TraceLevel),
        direction: MessageDirection,
        side: TracedSide,
        write_text: impl FnOnce(u8, &mut Vec<u8>),
    ) {
        let (proxy, side) = match side {
            TracedSide::Front => (&self.stream.frontend, "front"),
            TracedSide::Back => (self.stream.backend.proxy(), "back"),
        };
        let what = match direction {
            MessageDirection::Request => "request",
            MessageDirection::Response => "response",
        };
        source.trace(&now(event, level, self.about()), |verbosity, line| {
            // Writing to memory does not fail.
            let _ = write!(line, "#{} {what} of {} side={side}", self.stream.serial, proxy.name());
            write_text(verbosity, line);
            self.emit_connections(verbosity, line);
        });
    }
}

/// The sides of a proxy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TracedSide {
    Front,
    Back,
}

/// Writes a connection of a stream: `side(words in=held/size head=place tail=place out=pending)`.
fn emit_connection(side: &str, connector: &StreamConnector, verbosity: u8, line: &mut Vec<u8>) {
    if verbosity < MINIMAL {
        return;
    }
    // Writing to memory does not fail.
    let _ = write!(line, " {side}({}", joined(connector.words()));
    if verbosity >= SIMPLE {
        let _ = write!(line, " {}", connector.fill());
    }
    line.push(b')');
}

fn joined(words: impl Iterator<Item = &'static str>) -> String {
    let words = words.collect::<Vec<_>>().join(",");
    if words.is_empty() { "none".to_owned() } else { words }
}

/// Writes header fields, each in quotes, so that an event stays on one line.
fn emit_fields(head: &Head, raw: &[u8], line: &mut Vec<u8>) {
    for field in head.fields(raw) {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        // Writing to memory does not fail.
        let _ = write!(line, " \"{}: {}\"", shown(field.0), shown(field.1));
    }
}
