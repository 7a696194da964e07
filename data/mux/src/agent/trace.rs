//! Traces of connections to agents (`trace spop`): frames queued and received, and exchanges.

use weir_events::trace::{TraceLevel, TraceSource};
use weir_spop::{AgentEvent, StatusCode};

use super::{AgentFault, AgentState};
use crate::served::trace::{ConnectionTraceEvent, NO_STREAM, TracedConnection, traced_source};
use crate::trace::ConnectionIdentity;

traced_source! {
    /// Connections to agents.
    SPOP = "spop" "SPOP multiplexer", "SPOP", "spop_conn_", streams "spop_strm" "SPOP stream";
    SpopTraceEvent {
        Frame "rx_frame" "receipt of any SPOP frame";
        Hello "rx_hello" "receipt of SPOP AGENT HELLO frame";
        Ack "rx_ack" "receipt of SPOP AGENT ACK frame";
        Disconnect "rx_disconnect" "receipt of SPOP AGENT DISCONNECT frame";
        FrameSent "tx_frame" "transmission of any SPOP frame";
        HelloSent "tx_hello" "transmission of SPOP HAPROXY HELLO frame";
        NotifySent "tx_notify" "transmission of SPOP HAPROXY NOTIFY frame";
        DisconnectSent "tx_disconnect" "transmission of SPOP HAPROXY DISCONNECT frame";
        StreamNew "spop_strm_new" "new SPOP stream";
        StreamEnd "spop_strm_end" "SPOP stream terminated";
        StreamError "spop_strm_err" "error on SPOP stream";
    }
}

use SpopTraceEvent as Event;

impl TracedConnection for AgentState {
    #[inline(always)]
    fn source() -> &'static TraceSource {
        &SPOP
    }

    fn identity(&self) -> &ConnectionIdentity {
        &self.identity
    }

    fn serial_of(&self, number: u32) -> u64 {
        self.position(number).map_or(0, |at| self.exchanges[at].serial)
    }

    fn summary(&self) -> String {
        format!(
            "exchanges={} abandoned={} begun={} ready={} places={} out={} leaving={}",
            self.exchanges.len(),
            self.abandoned(),
            self.next / 2,
            u8::from(self.is_ready),
            self.places,
            self.engine.output().len(),
            u8::from(self.is_leaving),
        )
    }
}

/// The trace points. Each costs one branch while tracing is off.
impl AgentState {
    /// Traces a new connection, with its hello.
    #[inline(always)]
    pub(super) fn trace_new(&self) {
        if SPOP.is_active() {
            self.trace_connection(ConnectionTraceEvent::New);
            let event = Event::HelloSent.at(TraceLevel::Proto, Event::FrameSent.bit());
            self.emit(event, NO_STREAM, format_args!("sent HELLO"), b"");
        }
    }

    #[inline(always)]
    pub(super) fn trace_event(&self, event: &AgentEvent<'_>) {
        if SPOP.is_active() {
            self.emit_received(event);
        }
    }

    /// Traces that an exchange begins, with its messages.
    #[inline(always)]
    pub(super) fn trace_notify(&self, number: u32, messages: &[u8]) {
        if SPOP.is_active() {
            let event = Event::StreamNew.at(TraceLevel::User, 0);
            self.emit(event, number, format_args!("[{number}] new stream"), b"");
            let (event, length) =
                (Event::NotifySent.at(TraceLevel::Proto, Event::FrameSent.bit()), messages.len());
            self.emit(event, number, format_args!("sent NOTIFY [{number}] length={length}"), messages);
        }
    }

    #[inline(always)]
    pub(super) fn trace_disconnect(&self, status: StatusCode) {
        if SPOP.is_active() {
            let event = Event::DisconnectSent.at(TraceLevel::Proto, Event::FrameSent.bit());
            self.emit(event, NO_STREAM, format_args!("sent DISCONNECT status={}", status.number()), b"");
        }
    }

    /// Traces that an exchange is over, or was given up without its answer.
    #[inline(always)]
    pub(super) fn trace_stream_end(&self, number: u32, is_answered: bool) {
        if SPOP.is_active() {
            let (event, how) = match is_answered {
                true => (Event::StreamEnd.at(TraceLevel::State, 0), "stream ends"),
                false => (Event::StreamError.at(TraceLevel::User, Event::StreamEnd.bit()), "stream given up"),
            };
            self.emit(event, number, format_args!("[{number}] {how}"), b"");
        }
    }

    /// Traces that the connection broke. Without exchanges that is a normal end, unless the agent broke the protocol.
    #[inline(always)]
    pub(super) fn trace_fault(&self, fault: AgentFault) {
        let is_expected = self.exchanges.is_empty() && !matches!(fault, AgentFault::Protocol(_));
        self.trace_error("connection failed", format_args!("{fault:?}"), is_expected);
    }

    #[cold]
    fn emit_received(&self, event: &AgentEvent<'_>) {
        let (level, frame) = (TraceLevel::Proto, Event::Frame.bit());
        match *event {
            AgentEvent::Ready { pipelining, .. } => {
                let text = format_args!("received HELLO pipelining={}", u8::from(pipelining));
                self.emit(Event::Hello.at(level, frame), NO_STREAM, text, b"");
            }
            AgentEvent::Ack { stream_id, payload, .. } => {
                let text = format_args!("received ACK [{stream_id}] length={}", payload.len());
                let number = u32::try_from(stream_id).unwrap_or(NO_STREAM);
                self.emit(Event::Ack.at(level, frame), number, text, payload);
            }
            AgentEvent::Disconnected { status, .. } => {
                let text = format_args!("received DISCONNECT status={status}");
                self.emit(Event::Disconnect.at(level, frame), NO_STREAM, text, b"");
            }
            // The fault of the connection follows.
            AgentEvent::Failed(_) => {}
        }
    }
}
