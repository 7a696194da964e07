//! What the data plane tells when it is traced: sessions, streams, HTTP/1 messages.
//!
//! Each function here begins with the one branch that a trace point costs while nothing is traced; the rest is cold.

use std::fmt::Write as _;
use std::io::Write as _;
use std::rc::Rc;

use weir_events::WallTime;
use weir_events::trace::{About, Event, Level, Source};
use weir_http::Head;

use crate::ending::During;
use crate::exchange::Exchange;
use crate::session::Session;
use crate::site::Proxy;

/// Clients' connections.
pub static SESSION: Source = Source::new(
    "session",
    "client session management",
    &[
        Event { name: "sess_new", help: "new session creation" },
        Event { name: "sess_end", help: "session termination" },
    ],
);

/// Streams.
pub static STREAM: Source = Source::new(
    "stream",
    "Applicative stream",
    &[
        Event { name: "strm_new", help: "new stream" },
        Event { name: "strm_end", help: "stream released" },
        Event { name: "strm_err", help: "error during stream processing" },
        Event { name: "strm_state", help: "the stream enters another phase" },
        Event { name: "strm_conn", help: "connection to a server" },
        Event { name: "strm_retry", help: "another attempt after a failure" },
    ],
);

/// HTTP/1 messages.
pub static H1: Source = Source::new(
    "h1",
    "HTTP/1 multiplexer",
    &[
        Event { name: "rx_req", help: "receipt of an H1 request's head" },
        Event { name: "rx_res", help: "receipt of an H1 response's head" },
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

/// From this verbosity on, buffers and states are told; see [`weir_events::trace::VERBOSITIES`].
const SIMPLE: u8 = 3;
/// From this one on, header fields.
const ADVANCED: u8 = 4;

fn now() -> WallTime {
    WallTime::from_micros(weir_sched::wall_us() as i64)
}

fn about_session(session: &Rc<Session>) -> About {
    let number = Rc::as_ptr(session) as u64;
    About {
        backend: 0,
        connection: number,
        frontend: session.frontend.index as u64 + 1,
        session: number,
        thread: weir_sched::worker_index() as u64 + 1,
    }
}

#[inline]
pub(crate) fn session_begins(session: &Rc<Session>) {
    if SESSION.is_active() {
        tell_session(session, SESS_NEW);
    }
}

#[inline]
pub(crate) fn session_ends(session: &Rc<Session>) {
    if SESSION.is_active() {
        tell_session(session, SESS_END);
    }
}

#[cold]
fn tell_session(session: &Rc<Session>, event: usize) {
    SESSION.tell(event, Level::User, &about_session(session), now(), |verbosity, line| {
        // Writing to memory does not fail.
        let _ = write!(line, "{} from {}", session.frontend.name(), session.source());
        if verbosity > 0 {
            let _ = write!(line, " to {} requests={}", session.destination(), session.requests.get());
        }
    });
}

impl Exchange {
    fn about(&self) -> About {
        About { backend: self.backend.index as u64 + 1, ..about_session(&self.session) }
    }

    #[inline]
    pub(crate) fn trace_begin(&self) {
        if STREAM.is_active() {
            self.tell(STRM_NEW, Level::User, "");
        }
    }

    #[inline]
    pub(crate) fn trace_end(&self) {
        if STREAM.is_active() {
            let code = self.ending.letters().map(char::from);
            let text = format!(" status={} code={}{}", self.status, code[0], code[1]);
            if self.ending.is_error() {
                self.tell(STRM_ERR, Level::Error, &text);
            }
            self.tell(STRM_END, Level::User, &text);
        }
    }

    #[inline]
    pub(crate) fn trace_phase(&self, phase: During) {
        if STREAM.is_active() {
            self.tell(STRM_STATE, Level::State, &format!(" phase={phase:?}"));
        }
    }

    #[inline]
    pub(crate) fn trace_connection(&self, reused: bool) {
        if STREAM.is_active() {
            self.tell(STRM_CONN, Level::User, if reused { " reuses a connection" } else { " connects" });
        }
    }

    #[inline]
    pub(crate) fn trace_failure(&self, failure: impl std::fmt::Debug) {
        if STREAM.is_active() {
            self.tell(STRM_RETRY, Level::User, &format!(" failed={failure:?} retries={}", self.retries));
        }
    }

    #[cold]
    fn tell(&self, event: usize, level: Level, text: &str) {
        STREAM.tell(event, level, &self.about(), now(), |verbosity, line| {
            // Writing to memory does not fail.
            let _ = write!(line, "#{} fe={} be={}", self.serial, self.frontend.name(), self.backend.name());
            if let Some(server) = self.chosen_server() {
                let _ = write!(line, " srv={}", server.name());
            }
            let _ = write!(line, "{text}");
            if verbosity >= SIMPLE {
                let _ = write!(line, " ({})", self.buffers());
            }
        });
    }

    /// How full the receive buffers are: an empty one explains why nothing is parsed, a full one why nothing is received.
    fn buffers(&self) -> String {
        let size = self.site.limits.buffer_size;
        let mut text = format!("cli.in={}/{size}", self.client.input().len());
        if let Some(server) = &self.server {
            // Writing to memory does not fail.
            let _ = write!(text, " srv.in={}/{size}", server.connection.input().len());
        }
        text
    }

    #[inline]
    pub(crate) fn trace_request(&self) {
        if H1.is_active() {
            self.tell_head(RX_REQ, self.frontend, "request");
        }
    }

    #[inline]
    pub(crate) fn trace_response(&self) {
        if H1.is_active() {
            self.tell_head(RX_RES, self.backend, "response");
        }
    }

    #[cold]
    fn tell_head(&self, event: usize, proxy: &Proxy, what: &str) {
        let message = if event == RX_REQ { &self.request } else { &self.response };
        H1.tell(event, Level::User, &self.about(), now(), |verbosity, line| {
            // Writing to memory does not fail.
            let _ = write!(line, "#{} {what} of {}", self.serial, proxy.name());
            if verbosity == 0 {
                return;
            }
            let (head, raw) = (&message.head, message.bytes());
            if event == RX_REQ {
                let (method, target) = (head.method_text(raw), head.uri(raw));
                let _ = write!(line, ": {} ", String::from_utf8_lossy(method));
                let _ = write!(line, "{}", String::from_utf8_lossy(target));
            } else {
                let _ = write!(line, ": {}", head.status());
            }
            if verbosity >= SIMPLE {
                let _ = write!(line, " ({})", self.buffers());
            }
            if verbosity >= ADVANCED {
                tell_fields(head, raw, line);
            }
        });
    }
}

/// Header fields, each in quotes, so that an event stays one line.
fn tell_fields(head: &Head, raw: &[u8], line: &mut Vec<u8>) {
    for field in head.fields(raw) {
        let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
        // Writing to memory does not fail.
        let _ = write!(line, " \"{}: {}\"", shown(field.0), shown(field.1));
    }
}
