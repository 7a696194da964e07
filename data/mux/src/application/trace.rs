//! Traces of connections to applications (`trace fcgi`): records queued and received, requests, and waits.
//!
//! Records are traced where they are queued, and where the engine reports them. A record that arrives in parts has a line for each.

use weir_events::trace::{TraceLevel, TraceSource};
use weir_fcgi::{FcgiEvent, ProtocolStatus};
use weir_net::ConnectionFault;

use super::ApplicationState;
use crate::served::trace::{NO_STREAM, TracedConnection, traced_source};
use crate::trace::ConnectionIdentity;

// `tx_stding` is HAProxy's spelling.
traced_source! {
    /// Connections to FastCGI applications.
    FCGI = "fcgi" "FastCGI multiplexer", "FCGI", "fconn_", streams "fstrm" "FCGI stream";
    FcgiTraceEvent {
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
}

use FcgiTraceEvent as Event;

impl TracedConnection for ApplicationState {
    #[inline(always)]
    fn source() -> &'static TraceSource {
        &FCGI
    }

    fn identity(&self) -> &ConnectionIdentity {
        &self.identity
    }

    fn serial_of(&self, id: u32) -> u64 {
        u16::try_from(id).ok().and_then(|id| self.requests.get(id)).map_or(0, |slot| slot.serial)
    }

    fn summary(&self) -> String {
        let (requests, draining) = self.requests.counts();
        format!(
            "requests={requests} draining={draining} ended={} out={} direct={} withheld={} leaving={}",
            self.ended,
            self.engine.output().len(),
            u8::from(self.is_direct),
            u8::from(self.is_withheld),
            u8::from(self.is_closing()),
        )
    }
}

/// The trace points. Each costs one branch while tracing is off.
impl ApplicationState {
    /// Traces the query for the application's limits, which a new connection has queued.
    #[inline(always)]
    pub(super) fn trace_values(&self) {
        if FCGI.is_active() {
            self.emit_queued(Event::ValuesSent, 0, 0, format_args!("GET_VALUES"), b"");
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
            let text = format_args!("STDIN [{id}] length={length}{end}");
            self.emit_queued(Event::StdinSent, id, also, text, payload);
        }
    }

    /// Traces the abort of a request that its stream leaves.
    #[inline(always)]
    pub(super) fn trace_abort(&self, id: u16) {
        if FCGI.is_active() {
            self.emit_queued(Event::AbortSent, id, 0, format_args!("ABORT_REQUEST [{id}]"), b"");
        }
    }

    /// A stream waits until the connection takes more.
    #[inline(always)]
    pub(super) fn trace_wait(&self, id: u16) {
        if FCGI.is_active() {
            let event = Event::StreamBlocked.at(TraceLevel::State, 0);
            self.emit(event, id.into(), format_args!("[{id}] waits: the output is full"), b"");
        }
    }

    #[inline(always)]
    pub(super) fn trace_stream_end(&self, id: u16) {
        if FCGI.is_active() {
            let event = Event::StreamEnd.at(TraceLevel::State, 0);
            self.emit(event, id.into(), format_args!("[{id}] stream ends"), b"");
        }
    }

    /// Traces that the connection broke. Without requests that is a normal end.
    #[inline(always)]
    pub(super) fn trace_fault(&self, fault: ConnectionFault) {
        self.trace_error("connection failed", fault, self.requests.is_empty());
    }
}

impl ApplicationState {
    #[cold]
    fn emit_queued(
        &self,
        event: FcgiTraceEvent,
        id: u16,
        also: u64,
        text: std::fmt::Arguments<'_>,
        payload: &[u8],
    ) {
        let event = event.at(TraceLevel::Proto, also | Event::RecordSent.bit());
        self.emit(event, id.into(), format_args!("sent {text}"), payload);
    }

    #[cold]
    fn emit_begin(&self, id: u16, params: &[u8], has_body: bool) {
        let event = Event::StreamNew.at(TraceLevel::User, 0);
        self.emit(event, id.into(), format_args!("[{id}] new stream"), b"");
        self.emit_queued(Event::BeginSent, id, 0, format_args!("BEGIN_REQUEST [{id}]"), b"");
        let text = format_args!("PARAMS [{id}] length={}", params.len());
        self.emit_queued(Event::ParamsSent, id, 0, text, params);
        if !has_body {
            self.trace_body(id, b"", true);
        }
    }

    #[cold]
    fn emit_received(&self, event: &FcgiEvent<'_>) {
        let (level, record) = (TraceLevel::Proto, Event::Record.bit());
        match *event {
            FcgiEvent::Ready => {
                let limit = self.engine.request_limit();
                let text = format_args!("received the limits: requests={limit}");
                self.emit(Event::Values.at(level, record), NO_STREAM, text, b"");
            }
            FcgiEvent::Stdout { id, payload } => {
                let (end, also) =
                    if payload.is_empty() { (" end", Event::EndReceived.bit()) } else { ("", 0) };
                let text = format_args!("received STDOUT [{id}] length={}{end}", payload.len());
                self.emit(Event::Stdout.at(level, record | also), id.into(), text, payload);
            }
            FcgiEvent::Stderr { id, payload, .. } => {
                let text = format_args!("received STDERR [{id}] length={}", payload.len());
                self.emit(Event::Stderr.at(level, record), id.into(), text, payload);
            }
            FcgiEvent::Ended { id, application_status, status } => {
                let failed = status != ProtocolStatus::RequestComplete;
                let also = if failed { Event::StreamError.bit() } else { 0 };
                let text =
                    format_args!("received END_REQUEST [{id}] exit={application_status} state={status:?}");
                self.emit(Event::EndRequest.at(level, record | also), id.into(), text, b"");
            }
            FcgiEvent::Failed(fault) => {
                self.trace_error("protocol error", format_args!("{fault:?}"), false);
            }
        }
    }
}
