//! Traces of connections to applications (`trace fcgi`): records queued and received, requests, and waits.
//!
//! Records are traced where they are queued, and where the engine reports them. A record that arrives in parts has a line for each.

use weir_events::trace::{TraceEventKind as Named, TraceLevel, TraceSource};
use weir_fcgi::{FcgiEvent, ProtocolStatus};
use weir_net::ConnectionFault;

use super::ApplicationState;
use crate::served::trace::{ServedEvent, emit};

macro_rules! events {
    ($($event:ident $name:literal $help:literal;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum FcgiTraceEvent { $($event,)* }

        /// Connections to FastCGI applications.
        pub static FCGI: TraceSource =
            TraceSource::new("fcgi", "FastCGI multiplexer", &[$(Named { name: $name, help: $help },)*]);
    };
}

// `tx_stding` is HAProxy's spelling.
events! {
    ConnectionNew "fconn_new" "new FCGI connection";
    ConnectionReceived "fconn_recv" "Rx on FCGI connection";
    ConnectionSent "fconn_send" "Tx on FCGI connection";
    ConnectionBlocked "fconn_blk" "FCGI connection blocked";
    ConnectionWoken "fconn_wake" "FCGI connection woken up";
    ConnectionEnd "fconn_end" "FCGI connection terminated";
    ConnectionError "fconn_err" "error on FCGI connection";
    Record "rx_record" "receipt of any FCGI record";
    EndReceived "rx_eoi" "receipt of end of FCGI input";
    Values "rx_get_values" "receipt of FCGI GET_VALUES_RESULT record";
    Stdout "rx_stdout" "receipt of FCGI STDOUT record";
    Stderr "rx_stderr" "receipt of FCGI STDERR record";
    EndRequest "rx_end_req" "receipt of FCGI END_REQUEST record";
    RecordSent "tx_record" "transmission of any FCGI record";
    EndSent "tx_eoi" "transmission of FCGI end of input";
    BeginSent "tx_begin_request" "transmission of FCGI BEGIN_REQUEST record";
    ValuesSent "tx_get_values" "transmission of FCGI GET_VALUES record";
    ParamsSent "tx_params" "transmission of FCGI PARAMS record";
    StdinSent "tx_stding" "transmission of FCGI STDIN record";
    AbortSent "tx_abort" "transmission of FCGI ABORT record";
    StreamNew "fstrm_new" "new FCGI stream";
    StreamBlocked "fstrm_blk" "FCGI stream blocked";
    StreamEnd "fstrm_end" "FCGI stream terminated";
    StreamError "fstrm_err" "error on FCGI stream";
}

use FcgiTraceEvent as Event;

impl FcgiTraceEvent {
    const fn bit(self) -> u64 {
        1 << self as u32
    }

    fn at(self, level: TraceLevel, also: u64) -> ServedEvent {
        ServedEvent { event: self as usize, also, level }
    }
}

/// The trace points. Each costs one branch while tracing is off.
impl ApplicationState {
    /// Traces that the connection begins, is woken, or ends.
    #[inline(always)]
    pub(super) fn trace_connection(&self, event: FcgiTraceEvent) {
        if FCGI.is_active() {
            let (level, text) = match event {
                Event::ConnectionNew => (TraceLevel::User, "new connection"),
                Event::ConnectionEnd => (TraceLevel::User, "connection ends"),
                _ => (TraceLevel::Developer, "woken up"),
            };
            self.emit(event.at(level, 0), format_args!("{text}"), b"");
        }
    }

    /// Traces the query for the application's limits, which a new connection has queued.
    #[inline(always)]
    pub(super) fn trace_values(&self) {
        if FCGI.is_active() {
            self.emit_queued(Event::ValuesSent, 0, format_args!("GET_VALUES"), b"");
        }
    }

    #[inline(always)]
    pub(super) fn trace_received(&self, count: usize) {
        if FCGI.is_active() {
            let event = Event::ConnectionReceived.at(TraceLevel::Data, 0);
            self.emit(event, format_args!("received bytes={count}"), b"");
        }
    }

    /// Traces sent bytes, and whether bytes are left because the socket is full.
    #[inline(always)]
    pub(super) fn trace_sent(&self, count: usize, is_blocked: bool) {
        if FCGI.is_active() {
            let event = Event::ConnectionSent.at(TraceLevel::Data, 0);
            self.emit(event, format_args!("sent bytes={count}"), b"");
            if is_blocked {
                let event = Event::ConnectionBlocked.at(TraceLevel::State, 0);
                self.emit(event, format_args!("waits: the socket is full"), b"");
            }
        }
    }

    #[inline(always)]
    pub(super) fn trace_event(&self, event: &FcgiEvent<'_>) {
        if FCGI.is_active() {
            self.emit_received(event);
        }
    }

    /// Traces that a request begins, with its parameters.
    #[inline(always)]
    pub(super) fn trace_begin(&self, id: u16, params: &[u8], has_body: bool) {
        if FCGI.is_active() {
            self.emit_begin(id, params, has_body);
        }
    }

    /// Traces a part of a body, the last one if `ends`.
    #[inline(always)]
    pub(super) fn trace_body(&self, id: u16, payload: &[u8], ends: bool) {
        if FCGI.is_active() {
            let also = if ends { Event::EndSent.bit() } else { 0 };
            let (length, end) = (payload.len(), if ends { " end" } else { "" });
            self.emit_queued(
                Event::StdinSent,
                also,
                format_args!("STDIN [{id}] length={length}{end}"),
                payload,
            );
        }
    }

    /// Traces the abort of a request that its stream left.
    #[inline(always)]
    pub(super) fn trace_abort(&self, id: u16) {
        if FCGI.is_active() {
            self.emit_queued(Event::AbortSent, 0, format_args!("ABORT_REQUEST [{id}]"), b"");
        }
    }

    /// A stream waits until the connection takes more.
    #[inline(always)]
    pub(super) fn trace_wait(&self, id: u16) {
        if FCGI.is_active() {
            let event = Event::StreamBlocked.at(TraceLevel::State, 0);
            self.emit(event, format_args!("[{id}] waits: the output is full"), b"");
        }
    }

    #[inline(always)]
    pub(super) fn trace_stream_end(&self, id: u16) {
        if FCGI.is_active() {
            self.emit(Event::StreamEnd.at(TraceLevel::State, 0), format_args!("[{id}] stream ends"), b"");
        }
    }

    /// Traces that the connection broke. Without requests that is a normal end.
    #[inline(always)]
    pub(super) fn trace_fault(&self, fault: ConnectionFault) {
        if FCGI.is_active() && !self.requests.is_empty() {
            let event = Event::ConnectionError.at(TraceLevel::Error, 0);
            self.emit(event, format_args!("connection failed: {fault}"), b"");
        }
    }
}

impl ApplicationState {
    fn emit(&self, event: ServedEvent, text: std::fmt::Arguments<'_>, payload: &[u8]) {
        emit(&FCGI, &self.identity, event, text, (&|| self.summary(), payload));
    }

    #[cold]
    fn emit_queued(&self, event: FcgiTraceEvent, also: u64, text: std::fmt::Arguments<'_>, payload: &[u8]) {
        let event = event.at(TraceLevel::Proto, also | Event::RecordSent.bit());
        self.emit(event, format_args!("sent {text}"), payload);
    }

    #[cold]
    fn emit_begin(&self, id: u16, params: &[u8], has_body: bool) {
        let event = Event::StreamNew.at(TraceLevel::User, 0);
        self.emit(event, format_args!("[{id}] new stream"), b"");
        self.emit_queued(Event::BeginSent, 0, format_args!("BEGIN_REQUEST [{id}]"), b"");
        let length = params.len();
        self.emit_queued(Event::ParamsSent, 0, format_args!("PARAMS [{id}] length={length}"), params);
        if !has_body {
            self.trace_body(id, b"", true);
        }
    }

    #[cold]
    fn emit_received(&self, event: &FcgiEvent<'_>) {
        let (kind, level, record) = (FcgiTraceEvent::at, TraceLevel::Proto, Event::Record.bit());
        match *event {
            FcgiEvent::Ready => {
                let limit = self.engine.request_limit();
                let text = format_args!("received the limits: requests={limit}");
                self.emit(kind(Event::Values, level, record), text, b"");
            }
            FcgiEvent::Stdout { id, payload } => {
                let (end, also) =
                    if payload.is_empty() { (" end", Event::EndReceived.bit()) } else { ("", 0) };
                let text = format_args!("received STDOUT [{id}] length={}{end}", payload.len());
                self.emit(kind(Event::Stdout, level, record | also), text, payload);
            }
            FcgiEvent::Stderr { id, payload, .. } => {
                let text = format_args!("received STDERR [{id}] length={}", payload.len());
                self.emit(kind(Event::Stderr, level, record), text, payload);
            }
            FcgiEvent::Ended { id, application_status, status } => {
                let failed = status != ProtocolStatus::RequestComplete;
                let also = if failed { Event::StreamError.bit() } else { 0 };
                let text =
                    format_args!("received END_REQUEST [{id}] exit={application_status} state={status:?}");
                self.emit(kind(Event::EndRequest, level, record | also), text, b"");
            }
            FcgiEvent::Failed(fault) => {
                let event = kind(Event::ConnectionError, TraceLevel::Error, 0);
                self.emit(event, format_args!("protocol error: {fault:?}"), b"");
            }
        }
    }
}
