//! Traces of HTTP/2 connections (`trace h2`): frames received and sent, heads, streams, and waits.
//!
//! The engine keeps no frames, and outgoing frames are only bytes in the output. So a trace parses the input that was consumed
//! and the output that is about to be sent, frame by frame. For input the engine knows the offset of the next frame header, even
//! if tracing begins in the middle of a frame. For output it is unknown while untraced bytes are queued. Nothing is shown until
//! they were sent.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_events::trace::{About, TraceEventKind as Named, TraceLevel, TraceReport, TraceSource};
use weir_h2::frame::{self, FrameHeader, FrameKind, PREFACE};
use weir_h2::{ConnectionEvent, ErrorCode};
use weir_http::Head;
use weir_net::ConnectionFault;

use super::slot::SendEvent;
use super::{MultiplexerState, UNKNOWN};

/// The identity of a connection, for traces.
#[derive(Clone, Debug, Default)]
pub struct ConnectionIdentity {
    /// The numbers by which traces can be filtered.
    pub about: About,
    /// The connection's frontend, or its backend.
    pub proxy: Arc<str>,
}

impl ConnectionIdentity {
    /// The identity of a connection to a server, with a number of its own. It does not name a client, because streams of several clients may
    /// use it.
    pub fn of_server(backend: u64, server: u64, proxy: Arc<str>) -> ConnectionIdentity {
        let connection = SERVER_CONNECTIONS.fetch_add(1, Relaxed);
        ConnectionIdentity { about: About { backend, server, connection, ..About::default() }, proxy }
    }
}

/// A stream on a connection that carries several.
pub trait TracedStream {
    /// Sets the number by which traces find the stream ([`About::stream`]).
    fn identify(&mut self, serial: u64);
}

/// The number of the next connection to a server. The numbers of clients' connections are addresses of user space, below.
static SERVER_CONNECTIONS: AtomicU64 = AtomicU64::new(1 << 63);

macro_rules! events {
    ($($event:ident $name:literal $help:literal;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq)]
        pub(super) enum TraceEvent { $($event,)* }

        /// HTTP/2 connections, with clients and with servers.
        pub static H2: TraceSource =
            TraceSource::new("h2", "HTTP/2 multiplexer", &[$(Named { name: $name, help: $help },)*])
                .with_streams("h2s", "H2 stream");
    };
}

events! {
    ConnectionNew "h2c_new" "new H2 connection";
    ConnectionReceived "h2c_recv" "Rx on H2 connection";
    ConnectionSent "h2c_send" "Tx on H2 connection";
    ConnectionWindow "h2c_fctl" "H2 connection flow-controlled";
    ConnectionBlocked "h2c_blk" "H2 connection blocked";
    ConnectionWoken "h2c_wake" "H2 connection woken up";
    ConnectionEnd "h2c_end" "H2 connection terminated";
    ConnectionError "h2c_err" "error on H2 connection";
    FrameHeader "rx_fhdr" "H2 frame header received";
    Frame "rx_frame" "receipt of any H2 frame";
    EndReceived "rx_eoi" "receipt of end of H2 input (ES or RST)";
    Preface "rx_preface" "receipt of H2 preface";
    Data "rx_data" "receipt of H2 DATA frame";
    Headers "rx_hdr" "receipt of H2 HEADERS frame";
    Priority "rx_prio" "receipt of H2 PRIORITY frame";
    Reset "rx_rst" "receipt of H2 RST_STREAM frame";
    Settings "rx_settings" "receipt of H2 SETTINGS frame";
    Push "rx_push" "receipt of H2 PUSH_PROMISE frame";
    Ping "rx_ping" "receipt of H2 PING frame";
    GoAway "rx_goaway" "receipt of H2 GOAWAY frame";
    WindowUpdate "rx_wu" "receipt of H2 WINDOW_UPDATE frame";
    Continuation "rx_cont" "receipt of H2 CONTINUATION frame";
    FrameSent "tx_frame" "transmission of any H2 frame";
    EndSent "tx_eoi" "transmission of H2 end of input (ES or RST)";
    PrefaceSent "tx_preface" "transmission of H2 preface";
    DataSent "tx_data" "transmission of H2 DATA frame";
    HeadersSent "tx_hdr" "transmission of H2 HEADERS frame";
    ResetSent "tx_rst" "transmission of H2 RST_STREAM frame";
    SettingsSent "tx_settings" "transmission of H2 SETTINGS frame";
    PingSent "tx_ping" "transmission of H2 PING frame";
    GoAwaySent "tx_goaway" "transmission of H2 GOAWAY frame";
    WindowUpdateSent "tx_wu" "transmission of H2 WINDOW_UPDATE frame";
    ContinuationSent "tx_cont" "transmission of H2 CONTINUATION frame";
    StreamNew "h2s_new" "new H2 stream";
    StreamWindow "h2s_fctl" "H2 stream flow-controlled";
    StreamEnd "h2s_end" "H2 stream terminated";
    StreamError "h2s_err" "error on H2 stream";
    ProtocolError "proto_err" "protocol error";
}

/// The state before input is parsed.
#[derive(Clone, Copy)]
pub(super) struct InputState {
    /// Bytes of the preface not received yet.
    preface: usize,
    /// Bytes not received yet of the frame with a traced header.
    frame: usize,
    /// The stream of the frame with the traced header.
    stream: u32,
    /// Stream errors so far.
    errors: u32,
}

/// A head, and its direction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Passing {
    RequestReceived,
    ResponseReceived,
    RequestSent,
    ResponseSent,
}

impl TraceEvent {
    const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Minimum verbosity that shows flags. See [`weir_events::trace::VERBOSITIES`].
const MINIMAL: u8 = 2;
/// Minimum verbosity that shows buffers and windows.
const SIMPLE: u8 = 3;
/// Minimum verbosity that shows header fields.
const ADVANCED: u8 = 4;
/// Minimum verbosity that shows the first bytes of payloads.
const COMPLETE: u8 = 5;
/// Maximum number of payload bytes shown.
const DUMPED: usize = 256;

/// The trace points. Each costs one branch while tracing is off.
impl MultiplexerState {
    /// Traces that the connection begins, is woken, or ends.
    #[inline(always)]
    pub(super) fn trace_connection(&self, event: TraceEvent) {
        if H2.is_active() {
            let (level, text) = match event {
                TraceEvent::ConnectionNew => (TraceLevel::User, "new connection"),
                TraceEvent::ConnectionEnd => (TraceLevel::User, "connection ends"),
                _ => (TraceLevel::Developer, "woken up"),
            };
            self.emit_text((event, 0), level, 0, format_args!("{text}"));
        }
    }

    #[inline(always)]
    pub(super) fn trace_received(&self, count: usize) {
        if H2.is_active() {
            let event = (TraceEvent::ConnectionReceived, 0);
            self.emit_text(event, TraceLevel::Data, 0, format_args!("received bytes={count}"));
        }
    }

    /// The state before input is parsed, while it is traced.
    #[inline(always)]
    pub(super) fn awaited_by_trace(&self) -> Option<InputState> {
        if H2.is_active() { Some(self.awaited()) } else { None }
    }

    /// Whether frames are traced.
    #[inline(always)]
    pub(super) fn is_traced(&self) -> bool {
        H2.is_active()
    }

    /// Traces output that is about to be sent. Returns whether tracing is on, for [`MultiplexerState::note_traced`].
    #[inline(always)]
    pub(super) fn trace_output(&mut self) -> bool {
        let active = H2.is_active();
        if active {
            self.emit_output();
        }
        active
    }

    #[inline(always)]
    pub(super) fn trace_head(&self, passing: Passing, stream: u32, head: &Head, raw: &[u8]) {
        if H2.is_active() {
            self.emit_head(passing, stream, head, raw);
        }
    }

    /// Traces a stream reset, by the peer with a `received` error code, or by this process because of an error of the peer.
    #[inline(always)]
    pub(super) fn trace_reset(&self, stream: u32, code: ErrorCode, received: Option<u32>) {
        if H2.is_active() {
            self.emit_reset(stream, code, received);
        }
    }

    /// The peer broke the protocol.
    #[inline(always)]
    pub(super) fn trace_error(&self, code: ErrorCode) {
        if H2.is_active() {
            let event = (TraceEvent::ConnectionError, TraceEvent::ProtocolError.bit());
            self.emit_text(event, TraceLevel::Error, 0, format_args!("connection error {code}"));
        }
    }

    /// Traces that the connection broke. Without streams that is a normal end.
    #[inline(always)]
    pub(super) fn trace_fault(&self, fault: ConnectionFault) {
        if H2.is_active() && !self.slots.is_empty() {
            let event = (TraceEvent::ConnectionError, 0);
            self.emit_text(event, TraceLevel::Error, 0, format_args!("connection failed: {fault}"));
        }
    }

    /// A stream waits until it may send.
    #[inline(always)]
    pub(super) fn trace_wait(&self, stream: u32) {
        if H2.is_active() {
            self.emit_wait(stream);
        }
    }

    #[inline(always)]
    pub(super) fn trace_stream_end(&self, stream: u32) {
        if H2.is_active() {
            let event = (TraceEvent::StreamEnd, 0);
            self.emit_text(event, TraceLevel::State, stream, format_args!("[{stream}] stream ends"));
        }
    }
}

impl MultiplexerState {
    /// Writes an event of the connection, or of one of its streams.
    #[cold]
    fn emit_event(
        &self,
        (event, also): (TraceEvent, u64),
        level: TraceLevel,
        stream: u32,
        text: impl FnOnce(u8, &mut Vec<u8>),
    ) {
        let slot = self.slots.binary_search_by_key(&stream, |slot| slot.id).ok();
        let serial = slot.map_or(0, |at| self.slots[at].serial);
        let about =
            About { stream: serial, thread: weir_sched::worker_index() as u64 + 1, ..self.identity.about };
        let time = weir_sched::wall_time();
        H2.trace(&TraceReport { event: event as usize, also, level, about, time }, |verbosity, line| {
            let side = if self.sends_requests { "be" } else { "fe" };
            // Writing to memory does not fail.
            let _ = write!(line, "{side}={} ", self.identity.proxy);
            text(verbosity, line);
            self.write_state(verbosity, stream, line);
        });
    }

    #[cold]
    fn emit_text(
        &self,
        event: (TraceEvent, u64),
        level: TraceLevel,
        stream: u32,
        text: std::fmt::Arguments<'_>,
    ) {
        self.emit_event(event, level, stream, |_, line| {
            // Writing to memory does not fail.
            let _ = line.write_fmt(text);
        });
    }

    /// Appends the state of the connection and of the stream: flags, buffers, windows.
    fn write_state(&self, verbosity: u8, stream: u32, line: &mut Vec<u8>) {
        if verbosity < MINIMAL {
            return;
        }
        let own = [
            ("leaving", self.engine.is_leaving()),
            ("crowded", self.crowded),
            ("stuck", self.stuck),
            ("peer-ended", self.ended),
            ("failed", self.fault.is_some() || self.engine.failure().is_some()),
        ];
        let words = own.into_iter().filter_map(|(word, holds)| holds.then_some(word));
        let words = words.chain(self.connection.words()).collect::<Vec<_>>().join(",");
        // Writing to memory does not fail.
        let _ = write!(line, " h2c({words}");
        let windows = |number| self.engine.windows(number).unwrap_or_default();
        if verbosity >= SIMPLE {
            let (receive, send) = windows(0);
            let _ = write!(
                line,
                " {} output={} streams={} rxw={receive} txw={send}",
                self.connection.fill(),
                self.engine.output().len(),
                self.engine.live(),
            );
        }
        line.push(b')');
        let Ok(at) = self.slots.binary_search_by_key(&stream, |slot| slot.id) else { return };
        let slot = &self.slots[at];
        let words = [
            ("ended", slot.ended),
            ("blocked", slot.awaits != SendEvent::Nothing),
            ("failed", slot.fault.is_some()),
        ];
        let words = words.into_iter().filter_map(|(word, holds)| holds.then_some(word));
        let _ = write!(line, " h2s({stream} {}", words.collect::<Vec<_>>().join(","));
        if verbosity >= SIMPLE {
            let (receive, send) = windows(stream);
            let _ = write!(line, " rxbuf={} rxw={receive} txw={send}", slot.arrived().len());
        }
        line.push(b')');
    }

    #[cold]
    fn awaited(&self) -> InputState {
        let (preface, frame, stream) = self.engine.awaited();
        InputState { preface, frame, stream, errors: self.engine.tally().stream_errors }
    }

    /// Traces parsed input, with the resulting event.
    #[cold]
    pub(super) fn emit_input(&self, awaited: InputState, used: usize, event: &ConnectionEvent) {
        let InputState { preface, frame, stream, errors } = awaited;
        let input = &self.connection.input()[..used];
        if preface > 0 && input.len() >= preface {
            self.emit_event((TraceEvent::Preface, 0), TraceLevel::Proto, 0, |_, line| {
                line.extend_from_slice(b"received preface");
            });
        }
        let mut rest = input.get(preface + frame..).unwrap_or_default();
        let mut last = stream;
        while let Some(header) = FrameHeader::read(rest) {
            rest = &rest[frame::HEADER..];
            let (payload, after) = rest.split_at(rest.len().min(header.length as usize));
            let end = if ends(&header) { TraceEvent::EndReceived.bit() } else { 0 };
            let also = TraceEvent::FrameHeader.bit() | TraceEvent::Frame.bit() | end;
            let event = (received(header.kind), also);
            self.emit_event(event, TraceLevel::Proto, header.stream, |verbosity, line| {
                write_frame("received", &header, payload, verbosity, line);
            });
            (rest, last) = (after, header.stream);
        }
        // Resets of existing streams have an event of their own.
        if self.engine.tally().stream_errors != errors && !matches!(event, ConnectionEvent::Reset { .. }) {
            let event = (TraceEvent::StreamError, TraceEvent::ProtocolError.bit());
            self.emit_text(event, TraceLevel::Error, last, format_args!("[{last}] stream error"));
        }
    }

    /// Traces output that is about to be sent.
    #[cold]
    fn emit_output(&mut self) {
        let output = self.engine.output();
        let traced = if self.stuck { self.traced } else { 0 };
        let Some(mut rest) = output.get(traced..) else { return };
        if rest.starts_with(PREFACE) {
            rest = &rest[PREFACE.len()..];
            self.emit_event((TraceEvent::PrefaceSent, 0), TraceLevel::Proto, 0, |_, line| {
                line.extend_from_slice(b"sent preface");
            });
        }
        while let Some(header) = FrameHeader::read(rest) {
            rest = &rest[frame::HEADER..];
            let (payload, after) = rest.split_at(rest.len().min(header.length as usize));
            let end = if ends(&header) { TraceEvent::EndSent.bit() } else { 0 };
            let event = (sent(header.kind), TraceEvent::FrameSent.bit() | end);
            self.emit_event(event, TraceLevel::Proto, header.stream, |verbosity, line| {
                write_frame("sent", &header, payload, verbosity, line);
            });
            rest = after;
        }
        self.traced = output.len();
    }

    /// Output was sent, completely or in part.
    #[inline]
    pub(super) fn note_traced(&mut self, active: bool, waiting: usize) {
        if !active {
            self.traced = UNKNOWN;
            return;
        }
        let sent = waiting - self.engine.output().len();
        if self.traced != UNKNOWN {
            self.traced = self.traced.saturating_sub(sent);
        }
        let event = (TraceEvent::ConnectionSent, 0);
        self.emit_text(event, TraceLevel::Data, 0, format_args!("sent bytes={sent} of {waiting}"));
    }

    /// Traces a stream reset, by the peer with a `received` error code, or by this process because of an error of the peer.
    #[cold]
    fn emit_reset(&self, stream: u32, code: ErrorCode, received: Option<u32>) {
        let (event, level) = match received {
            Some(_) => ((TraceEvent::StreamError, 0), TraceLevel::User),
            None => ((TraceEvent::StreamError, TraceEvent::ProtocolError.bit()), TraceLevel::Error),
        };
        let who = if received.is_some() { "peer reset stream" } else { "stream error" };
        self.emit_text(event, level, stream, format_args!("[{stream}] {who}: {code}"));
    }

    /// A head was received or is sent.
    #[cold]
    fn emit_head(&self, passing: Passing, stream: u32, head: &Head, raw: &[u8]) {
        let new = TraceEvent::StreamNew;
        let (event, what) = match passing {
            Passing::RequestReceived => ((new, TraceEvent::Headers.bit()), "received request"),
            Passing::ResponseReceived => ((TraceEvent::Headers, 0), "received response"),
            Passing::RequestSent => ((new, TraceEvent::HeadersSent.bit()), "sent request"),
            Passing::ResponseSent => ((TraceEvent::HeadersSent, 0), "sent response"),
        };
        self.emit_event(event, TraceLevel::User, stream, |verbosity, line| {
            // Writing to memory does not fail.
            let _ = write!(line, "{what} [{stream}]");
            if verbosity > 0 {
                let _ = match head.status() {
                    0 => write!(
                        line,
                        " {} {}",
                        head.method_text(raw).escape_ascii(),
                        head.uri(raw).escape_ascii()
                    ),
                    status => write!(line, " {status}"),
                };
            }
            if verbosity >= ADVANCED {
                for (name, value) in head.fields(raw) {
                    let _ = write!(line, " \"{}: {}\"", name.escape_ascii(), value.escape_ascii());
                }
            }
        });
    }

    /// A stream waits until it may send.
    #[cold]
    fn emit_wait(&self, stream: u32) {
        let closed = |number| self.engine.windows(number).is_some_and(|(_, send)| send <= 0);
        let (event, text) = match () {
            () if closed(0) => (TraceEvent::ConnectionWindow, "the connection's window is closed"),
            () if stream != 0 && closed(stream) => {
                (TraceEvent::StreamWindow, "the stream's window is closed")
            }
            () => (TraceEvent::ConnectionBlocked, "the output is full"),
        };
        self.emit_event((event, 0), TraceLevel::State, stream, |_, line| {
            // Writing to memory does not fail.
            let _ = write!(line, "[{stream}] waits: {text}");
        });
    }
}

fn write_frame(verb: &str, header: &FrameHeader, payload: &[u8], verbosity: u8, line: &mut Vec<u8>) {
    let FrameHeader { length, kind, flags, stream } = *header;
    // Writing to memory does not fail.
    let _ = write!(line, "{verb} {} [{stream}]", name(kind));
    if verbosity > 0 {
        let _ = write!(line, " flags={flags:#04x} length={length}");
    }
    if verbosity >= SIMPLE {
        let numbers = |text: &mut Vec<u8>, name: &str, at: usize| {
            let value = frame::number(payload.get(at..).unwrap_or_default());
            let _ = write!(text, " {name}={value}");
        };
        match kind {
            FrameKind::Reset => numbers(line, "code", 0),
            FrameKind::WindowUpdate => numbers(line, "increment", 0),
            FrameKind::GoAway => {
                numbers(line, "last", 0);
                numbers(line, "code", 4);
            }
            FrameKind::Settings => {
                for entry in payload.chunks_exact(weir_h2::settings::ENTRY) {
                    let identifier = u16::from_be_bytes([entry[0], entry[1]]);
                    let _ = write!(line, " {identifier}:{}", frame::number(&entry[2..]));
                }
            }
            _ => {}
        }
    }
    if verbosity >= COMPLETE && !payload.is_empty() {
        let shown = &payload[..payload.len().min(DUMPED)];
        let _ = write!(line, " payload=\"{}\"", shown.escape_ascii());
    }
}

/// Whether this is the last frame of its direction of the stream.
fn ends(header: &FrameHeader) -> bool {
    match header.kind {
        FrameKind::Data | FrameKind::Headers => header.has(frame::END_STREAM),
        kind => kind == FrameKind::Reset,
    }
}

fn received(kind: FrameKind) -> TraceEvent {
    match kind {
        FrameKind::Data => TraceEvent::Data,
        FrameKind::Headers => TraceEvent::Headers,
        FrameKind::Priority => TraceEvent::Priority,
        FrameKind::Reset => TraceEvent::Reset,
        FrameKind::Settings => TraceEvent::Settings,
        FrameKind::PushPromise => TraceEvent::Push,
        FrameKind::Ping => TraceEvent::Ping,
        FrameKind::GoAway => TraceEvent::GoAway,
        FrameKind::WindowUpdate => TraceEvent::WindowUpdate,
        FrameKind::Continuation => TraceEvent::Continuation,
        FrameKind::Unknown => TraceEvent::Frame,
    }
}

fn sent(kind: FrameKind) -> TraceEvent {
    match kind {
        FrameKind::Data => TraceEvent::DataSent,
        FrameKind::Headers => TraceEvent::HeadersSent,
        FrameKind::Reset => TraceEvent::ResetSent,
        FrameKind::Settings => TraceEvent::SettingsSent,
        FrameKind::Ping => TraceEvent::PingSent,
        FrameKind::GoAway => TraceEvent::GoAwaySent,
        FrameKind::WindowUpdate => TraceEvent::WindowUpdateSent,
        FrameKind::Continuation => TraceEvent::ContinuationSent,
        FrameKind::Priority | FrameKind::PushPromise | FrameKind::Unknown => TraceEvent::FrameSent,
    }
}

fn name(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Data => "DATA",
        FrameKind::Headers => "HEADERS",
        FrameKind::Priority => "PRIORITY",
        FrameKind::Reset => "RST_STREAM",
        FrameKind::Settings => "SETTINGS",
        FrameKind::PushPromise => "PUSH_PROMISE",
        FrameKind::Ping => "PING",
        FrameKind::GoAway => "GOAWAY",
        FrameKind::WindowUpdate => "WINDOW_UPDATE",
        FrameKind::Continuation => "CONTINUATION",
        FrameKind::Unknown => "unknown frame",
    }
}
