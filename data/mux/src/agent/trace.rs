//! Traces of connections to agents (`trace spop`): frames queued and received, and exchanges.

use weir_events::trace::{TraceEventKind as Named, TraceLevel, TraceSource};
use weir_spop::{AgentEvent, StatusCode};

use super::{AgentFault, AgentState};
use crate::served::trace::{ServedEvent, emit};

macro_rules! events {
    ($($event:ident $name:literal $help:literal;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum SpopTraceEvent { $($event,)* }

        /// Connections to agents.
        pub static SPOP: TraceSource =
            TraceSource::new("spop", "SPOP multiplexer", &[$(Named { name: $name, help: $help },)*]);
    };
}

events! {
    ConnectionNew "spop_conn_new" "new SPOP connection";
    ConnectionReceived "spop_conn_recv" "Rx on SPOP connection";
    ConnectionSent "spop_conn_send" "Tx on SPOP connection";
    ConnectionBlocked "spop_conn_blk" "SPOP connection blocked";
    ConnectionWoken "spop_conn_wake" "SPOP connection woken up";
    ConnectionEnd "spop_conn_end" "SPOP connection terminated";
    ConnectionError "spop_conn_err" "error on SPOP connection";
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

use SpopTraceEvent as Event;

impl SpopTraceEvent {
    const fn bit(self) -> u64 {
        1 << self as u32
    }

    fn at(self, level: TraceLevel, also: u64) -> ServedEvent {
        ServedEvent { event: self as usize, also, level }
    }
}

/// The trace points. Each costs one branch while tracing is off.
impl AgentState {
    /// Traces that the connection begins, with its hello, is woken, or ends.
    #[inline(always)]
    pub(super) fn trace_connection(&self, event: SpopTraceEvent) {
        if SPOP.is_active() {
            self.emit_connection(event);
        }
    }

    #[inline(always)]
    pub(super) fn trace_received(&self, count: usize) {
        if SPOP.is_active() {
            let event = Event::ConnectionReceived.at(TraceLevel::Data, 0);
            self.emit(event, format_args!("received bytes={count}"), b"");
        }
    }

    /// Traces sent bytes, and whether bytes are left because the socket is full.
    #[inline(always)]
    pub(super) fn trace_sent(&self, count: usize, is_blocked: bool) {
        if SPOP.is_active() {
            let event = Event::ConnectionSent.at(TraceLevel::Data, 0);
            self.emit(event, format_args!("sent bytes={count}"), b"");
            if is_blocked {
                let event = Event::ConnectionBlocked.at(TraceLevel::State, 0);
                self.emit(event, format_args!("waits: the socket is full"), b"");
            }
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
            self.emit(Event::StreamNew.at(TraceLevel::User, 0), format_args!("[{number}] new stream"), b"");
            let (event, length) =
                (Event::NotifySent.at(TraceLevel::Proto, Event::FrameSent.bit()), messages.len());
            self.emit(event, format_args!("sent NOTIFY [{number}] length={length}"), messages);
        }
    }

    #[inline(always)]
    pub(super) fn trace_disconnect(&self, status: StatusCode) {
        if SPOP.is_active() {
            let event = Event::DisconnectSent.at(TraceLevel::Proto, Event::FrameSent.bit());
            self.emit(event, format_args!("sent DISCONNECT status={}", status.number()), b"");
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
            self.emit(event, format_args!("[{number}] {how}"), b"");
        }
    }

    /// Traces that the connection broke. Without exchanges that is a normal end, unless the agent broke the protocol.
    #[inline(always)]
    pub(super) fn trace_fault(&self, fault: AgentFault) {
        if SPOP.is_active() && (!self.exchanges.is_empty() || matches!(fault, AgentFault::Protocol(_))) {
            let event = Event::ConnectionError.at(TraceLevel::Error, 0);
            self.emit(event, format_args!("connection failed: {fault:?}"), b"");
        }
    }
}

impl AgentState {
    fn emit(&self, event: ServedEvent, text: std::fmt::Arguments<'_>, payload: &[u8]) {
        emit(&SPOP, &self.identity, event, text, (&|| self.summary(), payload));
    }

    #[cold]
    fn emit_connection(&self, event: SpopTraceEvent) {
        let (level, text) = match event {
            Event::ConnectionNew => (TraceLevel::User, "new connection"),
            Event::ConnectionEnd => (TraceLevel::User, "connection ends"),
            _ => (TraceLevel::Developer, "woken up"),
        };
        self.emit(event.at(level, 0), format_args!("{text}"), b"");
        if event == Event::ConnectionNew {
            let event = Event::HelloSent.at(TraceLevel::Proto, Event::FrameSent.bit());
            self.emit(event, format_args!("sent HELLO"), b"");
        }
    }

    #[cold]
    fn emit_received(&self, event: &AgentEvent<'_>) {
        let (level, frame) = (TraceLevel::Proto, Event::Frame.bit());
        match *event {
            AgentEvent::Ready { pipelining, .. } => {
                let text = format_args!("received HELLO pipelining={}", u8::from(pipelining));
                self.emit(Event::Hello.at(level, frame), text, b"");
            }
            AgentEvent::Ack { stream_id, payload, .. } => {
                let text = format_args!("received ACK [{stream_id}] length={}", payload.len());
                self.emit(Event::Ack.at(level, frame), text, payload);
            }
            AgentEvent::Disconnected { status, .. } => {
                let text = format_args!("received DISCONNECT status={status}");
                self.emit(Event::Disconnect.at(level, frame), text, b"");
            }
            // The fault of the connection follows.
            AgentEvent::Failed(_) => {}
        }
    }
}
