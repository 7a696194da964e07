//! Forwards a body from one connection to the other.
//!
//! Bytes stay in the source's input buffer until the sink took them. Nothing is copied. Received bytes are inspected
//! once. Depending on the body's [`BodyWay`], they are counted, validated in their framing, or decoded
//! ([`weir_h1::ChunkDecoder`]). After that they can be sent (`ready.rs`).

use weir_h1::{BodyFraming, ChunkDecoder};
use weir_http::{BodySize, Head};
use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sys::Errno;

use crate::connector::{Indirect, StreamConnector};
use crate::ends::{BodySink, BodySource};
use crate::message::Message;
use crate::progress::{BodyDelta, BodyProgress};
use crate::ready::ReadyBytes;
use crate::service::LocalService;
use crate::way::{BodyWay, Tail};

/// Forwards one body. Holds no bytes itself.
#[derive(Debug)]
pub struct BodyFlow {
    pub(crate) framing: BodyRemainder,
    /// How the end of the body is marked.
    end: EndMark,
    /// The bytes that can be sent.
    pub(crate) ready: ReadyBytes,
    payload: u64,
    /// Bytes of framing inspected that are also sent.
    framing_bytes: u64,
    /// Bytes of trailers inspected. The decoder bounds them.
    trailer_bytes: u32,
    /// Kilobytes still to be received in small pieces, because the sink was full.
    small_pieces: u16,
}

// Every stream has two.
const _: () = assert!(size_of::<BodyFlow>() <= 64);

#[derive(Debug)]
pub(crate) enum BodyRemainder {
    /// The number of bytes not received yet.
    Length(u64),
    Chunked(ChunkDecoder),
    /// The source announces the end of the message.
    UntilEnd,
    UntilClose,
    /// The last byte was received.
    Done,
}

impl BodyRemainder {
    /// Bytes of pure payload that may still arrive.
    pub(crate) fn awaited(&self) -> u64 {
        match self {
            BodyRemainder::Length(left) => *left,
            BodyRemainder::UntilClose => u64::MAX,
            BodyRemainder::Chunked(_) | BodyRemainder::UntilEnd | BodyRemainder::Done => 0,
        }
    }

    /// The length of the whole payload, if it is known. `received` bytes of it arrived.
    pub(crate) fn whole(&self, received: u64) -> Option<u64> {
        match self {
            BodyRemainder::Length(left) => Some(received + left),
            BodyRemainder::Done => Some(received),
            BodyRemainder::Chunked(_) | BodyRemainder::UntilEnd | BodyRemainder::UntilClose => None,
        }
    }

    /// Counts the body's share of `there` available bytes, and returns it.
    #[inline]
    fn take(&mut self, there: usize) -> usize {
        match self {
            BodyRemainder::Done | BodyRemainder::Chunked(_) => 0,
            BodyRemainder::UntilClose | BodyRemainder::UntilEnd => there,
            BodyRemainder::Length(left) => {
                let taken = (there as u64).min(*left);
                *left -= taken;
                if *left == 0 {
                    *self = BodyRemainder::Done;
                }
                taken as usize
            }
        }
    }
}

/// How the end of a body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndMark {
    /// By the head. The message does not have a body.
    Head,
    Length,
    Chunk,
    /// By the end of the message, which the HTTP/2 engine or the service announces.
    Message,
    /// By EOF from the source.
    Close,
}

/// A whole body, kept for a retry.
#[derive(Debug)]
pub struct KeptBody {
    payload: Vec<u8>,
    trailers: Vec<u8>,
}

impl KeptBody {
    /// Copies the ready bytes of this body.
    pub fn of(body: &BodyFlow, source: &StreamConnector) -> KeptBody {
        let (count, are_kept) = body.ready.trailers();
        let behind = &source.input()[body.ready.leaving()..][..if are_kept { count } else { 0 }];
        KeptBody::new(body.waiting(source).to_vec(), behind.to_vec())
    }

    /// This payload, and these trailers as lines.
    pub fn new(payload: Vec<u8>, trailers: Vec<u8>) -> KeptBody {
        KeptBody { payload, trailers }
    }

    /// The payload, without the framing of its protocol.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// The trailers, as lines.
    pub(crate) fn trailers(&self) -> &[u8] {
        &self.trailers
    }

    /// Sends the head and then this body, in the head's framing. The sink queues the bytes that do not fit.
    pub fn send_behind(
        &self,
        message: &mut Message,
        sink: &mut StreamConnector,
        scratch: &mut Vec<u8>,
    ) -> SendOutcome {
        let way = BodyWay::to(sink, &message.head);
        message.send_framed(sink, way, (&self.payload, &self.trailers), scratch, false)
    }
}

/// The result of a call of [`BodyFlow::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowState {
    /// The whole body was moved.
    Done,
    /// No byte is available from the source now.
    AwaitSource,
    /// The sink accepts no bytes now.
    AwaitSink,
    /// A filter holds the rest back until [`Transfer::wake_at`](crate::Transfer::wake_at).
    Withheld,
    /// The call's budget is used up. Let other tasks run, then call again.
    Yield,
    /// The source closed before the body was complete.
    Truncated,
    /// The source sent an invalid chunked coding.
    Malformed,
    Refused,
    /// The connection of this side broke.
    Failed(FlowSide, ConnectionFault),
}

impl FlowState {
    /// Whether the flow has ended, completely or by a fault.
    #[inline]
    pub fn is_over(self) -> bool {
        !matches!(
            self,
            FlowState::AwaitSource | FlowState::AwaitSink | FlowState::Withheld | FlowState::Yield
        )
    }
}

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowSide {
    /// The side that the body is received from.
    Source,
    Sink,
}

impl BodyFlow {
    /// A flow for a body of this size after this head, from this source.
    #[inline]
    pub fn behind(source: &StreamConnector, head: &Head, size: BodySize) -> Self {
        let framing = BodyFraming::of(size, head);
        match (source, framing) {
            // An application's own chunks are decoded. The end of its request ends any other body without a length.
            (StreamConnector::Indirect(Indirect::Application(request)), BodyFraming::Chunked)
                if request.sends_chunks() =>
            {
                BodyFlow::new(framing)
            }
            (StreamConnector::Indirect(Indirect::Application(_)), BodyFraming::Length(_)) => {
                BodyFlow::new(framing)
            }
            // The HTTP/2 engine handles the framing and checks the length.
            (StreamConnector::Indirect(_), BodyFraming::Length(_) | BodyFraming::Chunked) => BodyFlow::made(),
            _ => BodyFlow::new(framing),
        }
    }

    /// A flow of payload without framing. The source announces the end.
    pub fn made() -> Self {
        BodyFlow { framing: BodyRemainder::UntilEnd, end: EndMark::Message, ..BodyFlow::done() }
    }

    /// A flow of all bytes until the source ends.
    pub fn tunnel() -> Self {
        BodyFlow::new(BodyFraming::Tunnel)
    }

    /// A flow without a body.
    pub fn done() -> Self {
        BodyFlow::new(BodyFraming::None)
    }

    fn new(framing: BodyFraming) -> Self {
        let end = match framing {
            BodyFraming::None => EndMark::Head,
            BodyFraming::Length(_) => EndMark::Length,
            BodyFraming::Chunked => EndMark::Chunk,
            BodyFraming::UntilClose | BodyFraming::Tunnel => EndMark::Close,
        };
        let framing = match framing {
            BodyFraming::None => BodyRemainder::Done,
            BodyFraming::Length(length) => BodyRemainder::Length(length),
            BodyFraming::Chunked => BodyRemainder::Chunked(ChunkDecoder::new()),
            BodyFraming::UntilClose | BodyFraming::Tunnel => BodyRemainder::UntilClose,
        };
        BodyFlow {
            framing,
            end,
            ready: ReadyBytes::NONE,
            payload: 0,
            framing_bytes: 0,
            trailer_bytes: 0,
            small_pieces: 0,
        }
    }

    /// Stops forwarding trailers (`option http-drop-request-trailers`, `http-drop-response-trailers`).
    pub fn drop_trailers(&mut self) {
        self.ready.drops_trailers = true;
    }

    /// The sink is shut down or closed right after this body. The last bytes may be held back to travel with the FIN, which
    /// saves a segment. A body that is delimited by the source's EOF always ends its sink.
    pub fn end_sink(&mut self) {
        self.ready.ends_sink = true;
    }

    /// Chooses the body's framing, once the sink and its head are known. A body that was already inspected is sent as payload.
    #[inline]
    pub fn aim(&mut self, sink: &StreamConnector, head: &Head, is_filtered: bool) {
        let ReadyBytes { way, count, .. } = self.ready;
        let is_untouched = matches!(way, BodyWay::Open | BodyWay::Wire) && count == 0 && self.payload == 0;
        debug_assert!(is_untouched || way != BodyWay::Wire, "it was rewound");
        self.ready.way = match BodyWay::to(sink, head) {
            BodyWay::Chunks(_) if self.end == EndMark::Chunk && is_untouched && !is_filtered => BodyWay::Wire,
            _ if self.end == EndMark::Head => BodyWay::Payload,
            to => to,
        };
    }

    /// Restarts inspection for a retry, possibly with other framing. None of the body's bytes may have been sent.
    pub fn rewind(&mut self) {
        if self.ready.way == BodyWay::Wire {
            let ready = ReadyBytes { drops_trailers: self.ready.drops_trailers, ..ReadyBytes::NONE };
            *self = BodyFlow { ready, ..BodyFlow::new(BodyFraming::Chunked) };
        }
    }

    /// The tail after the ready bytes. `whole` if the sent bytes include all ready payload.
    #[inline]
    fn tail<S: BodySource>(&self, source: &S, whole: bool) -> Tail {
        match self.framing {
            BodyRemainder::Done => Tail {
                ends: whole && (self.ready.drops_trailers || self.ready.trailers.is_empty()),
                closes: self.ready.ends_sink,
            },
            BodyRemainder::UntilClose => Tail { ends: false, closes: source.peer_closed() },
            _ => Tail::default(),
        }
    }

    /// Whether a FIN follows the last byte at once.
    pub(crate) fn closes_sink(&self) -> bool {
        self.ready.ends_sink || self.ends_by_closing()
    }

    /// Whether the sink detects the end of the body only by the close of its connection.
    pub fn ends_by_closing(&self) -> bool {
        self.end == EndMark::Close && !matches!(self.ready.way, BodyWay::Chunks(_))
    }

    /// Whether enough payload may still arrive for a pipe to cost less than a buffer.
    pub(crate) fn is_worth_a_pipe(&self) -> bool {
        self.framing.awaited() >= PIPED
    }

    /// Counts bytes that were spliced from the source and bypassed its input buffer.
    pub(crate) fn passed_by(&mut self, count: usize) {
        self.count_seen(count);
        self.ready.left(count);
    }

    /// Counts `count` bytes produced by a service as received.
    pub(crate) fn count_made(&mut self, source: &StreamConnector, count: usize) {
        if let StreamConnector::Indirect(Indirect::Local(_)) = source {
            self.payload += count as u64;
        }
    }

    /// Whether the last byte was received and sent, and the end of the message was passed to the sink, by its head, by framing or
    /// separately.
    #[inline]
    pub fn is_done(&self) -> bool {
        let has_left = self.ready.count == 0 && matches!(self.framing, BodyRemainder::Done);
        has_left && (!self.is_delimited() || self.ready.end_sent || self.ready.way == BodyWay::Wire)
    }

    /// Whether the last byte was received, even if it was not sent yet.
    #[inline]
    pub fn is_complete(&self) -> bool {
        matches!(self.framing, BodyRemainder::Done)
    }

    /// Payload bytes received so far, without framing.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// Inspects the source's input without sending it, as for `option http-buffer-request`. Adds to the ready bytes. False if the
    /// chunked coding is invalid. The body is then sent as payload, unless its framing was chosen before.
    pub fn inspect(&mut self, source: &mut StreamConnector) -> bool {
        match source {
            StreamConnector::Own(own) => self.inspect_input(own),
            StreamConnector::Indirect(Indirect::Shared(shared)) => self.inspect_input(shared),
            StreamConnector::Indirect(Indirect::Application(request)) => self.inspect_input(request),
            StreamConnector::Indirect(_) => true,
        }
    }

    #[inline]
    fn inspect_input<S: BodySource>(&mut self, source: &mut S) -> bool {
        if let BodyRemainder::Chunked(_) = self.framing {
            return self.inspect_chunks(source);
        }
        self.measure(source);
        true
    }

    /// Adds `count` bytes at the front of the source's input (a head that is forwarded verbatim) to the ready bytes.
    pub fn lead_with(&mut self, count: usize) {
        self.ready.count += count as u32;
        self.ready.with_head = true;
    }

    /// Sends a head and a bounded part of the ready bytes with one call. The sink queues the bytes that do not fit. After a failure
    /// the source still has all of them. `closes` announces a close right after the body, `waits` more bytes at once.
    pub fn send_behind(
        &mut self,
        message: &mut Message,
        (source, sink): (&mut StreamConnector, &mut StreamConnector),
        scratch: &mut Vec<u8>,
        closes: bool,
        waits: bool,
    ) -> SendOutcome {
        let body = self.ready.leaving();
        let taken = body.min(SENT_WITH_HEAD);
        if taken == 0 {
            return message.send(sink, scratch, if self.is_complete() { closes } else { waits });
        }
        let tail = match source {
            StreamConnector::Own(own) => self.tail(own, taken == body),
            StreamConnector::Indirect(Indirect::Shared(shared)) => self.tail(shared, taken == body),
            StreamConnector::Indirect(Indirect::Application(request)) => self.tail(request, taken == body),
            StreamConnector::Indirect(_) => Tail::default(),
        };
        let bytes = &source.input()[..taken];
        let sent = match sink {
            StreamConnector::Indirect(Indirect::Shared(shared)) => {
                match shared.send_message(&message.head, message.bytes()) {
                    SendOutcome::All => shared.send_pending(bytes, tail.ends),
                    other => other,
                }
            }
            StreamConnector::Indirect(Indirect::Application(request)) => match request.open(&message.head) {
                SendOutcome::All => request.send_pending(bytes, tail.ends),
                other => other,
            },
            sink => {
                scratch.clear();
                message.write(scratch);
                self.ready.way.write(bytes, tail.ends, scratch);
                let is_last = taken == body && self.is_complete();
                sink.send_head(scratch, if is_last { closes } else { waits })
            }
        };
        if !matches!(sent, SendOutcome::Failed(_)) {
            source.consume(taken);
            self.ready.left(taken);
            self.ready.with_head = true;
        }
        sent
    }

    /// Whether the end is marked explicitly, not by a length or by the source's EOF.
    #[inline]
    pub fn is_delimited(&self) -> bool {
        matches!(self.end, EndMark::Chunk | EndMark::Message)
    }

    /// Whether the body is delimited by the source's EOF.
    pub fn ends_with_source(&self) -> bool {
        self.end == EndMark::Close
    }

    /// The payload among the ready bytes.
    pub fn waiting<'s>(&self, source: &'s StreamConnector) -> &'s [u8] {
        let input = source.input();
        input.get(..self.ready.leaving()).unwrap_or(input)
    }

    /// Bytes at the front of the source's input that were inspected and not sent yet.
    #[inline]
    pub fn ready(&self) -> usize {
        self.ready.count as usize
    }

    /// The byte counts of payload and trailers so far.
    pub fn progress(&self) -> BodyProgress {
        let trailers_received = u64::from(self.trailer_bytes);
        let trailers_sent = match self.ready.drops_trailers {
            true => 0,
            false => trailers_received.saturating_sub(self.ready.trailers.len() as u64),
        };
        // Trailers count as framing if they are sent in the original framing.
        let held = if self.ready.way == BodyWay::Wire { self.ready() } else { self.ready.leaving() };
        BodyProgress {
            received: self.payload,
            // The ready bytes end with bytes of the body, but may begin with a head, which was not counted.
            sent: (self.payload + self.framing_bytes).saturating_sub(held as u64),
            trailers_received,
            trailers_sent,
            complete: self.is_complete(),
            done: self.is_done(),
        }
    }

    /// The changes since the last traced totals. Empty for a message without a body. `held` bytes were taken from the
    /// source and not sent to the sink yet.
    pub(crate) fn step(&mut self, reported: &mut Option<BodyProgress>, held: usize) -> BodyDelta {
        let now = self.progress();
        let now =
            BodyProgress { sent: now.sent.saturating_sub(held as u64), done: now.done && held == 0, ..now };
        let ended = self.end == EndMark::Head;
        let first = BodyProgress { complete: ended, done: ended, ..BodyProgress::default() };
        let step = BodyDelta {
            with_head: self.ready.with_head,
            ends_sink: self.ready.ends_sink,
            ..BodyDelta::between(reported.get_or_insert(first), now)
        };
        // Stays set as long as the head is among the ready bytes.
        self.ready.with_head &= u64::from(self.ready.count) > self.payload + self.framing_bytes;
        step
    }

    /// Forwards as many bytes as possible without blocking.
    #[inline]
    pub fn advance(&mut self, source: &mut StreamConnector, sink: &mut StreamConnector) -> FlowState {
        if let (StreamConnector::Own(source), StreamConnector::Own(sink)) = (&mut *source, &mut *sink) {
            // Usually one of the two directions is idle, which is checked here without a call.
            if self.ready.count == 0 && !self.is_complete() && source.is_quiet() && !sink.has_pending() {
                return FlowState::AwaitSource;
            }
            return self.advance_between(source, sink);
        }
        self.advance_others(source, sink)
    }

    /// Reads the available part of the body in this process. `take` gets the payload in pieces.
    pub fn read(&mut self, source: &mut StreamConnector, take: &mut dyn FnMut(&[u8])) -> FlowState {
        self.read_some(source, &mut |payload| {
            take(payload);
            payload.len()
        })
    }

    /// Like [`read`](Self::read), for a reader that does not take everything: `take` returns how much it took. [`FlowState::AwaitSink`]
    /// once it left bytes, which stay.
    #[cold]
    pub fn read_some(
        &mut self,
        source: &mut StreamConnector,
        take: &mut dyn FnMut(&[u8]) -> usize,
    ) -> FlowState {
        if self.is_done() {
            return FlowState::Done;
        }
        match source {
            StreamConnector::Own(own) => read_from(self, own, take),
            StreamConnector::Indirect(Indirect::Shared(shared)) => read_from(self, shared, take),
            StreamConnector::Indirect(Indirect::Application(request)) => read_from(self, request, take),
            StreamConnector::Indirect(_) => {
                FlowState::Failed(FlowSide::Source, ConnectionFault::Io(Errno::PIPE))
            }
        }
    }

    /// [`advance`](Self::advance) if the source or the sink is an HTTP/2 stream, a request to an application, or a service.
    #[inline(never)]
    fn advance_others(&mut self, source: &mut StreamConnector, sink: &mut StreamConnector) -> FlowState {
        match (source, sink) {
            (StreamConnector::Own(source), StreamConnector::Indirect(Indirect::Shared(sink))) => {
                self.advance_between(source, sink)
            }
            (StreamConnector::Indirect(Indirect::Shared(source)), StreamConnector::Own(sink)) => {
                self.advance_between(source, sink)
            }
            (
                StreamConnector::Indirect(Indirect::Shared(source)),
                StreamConnector::Indirect(Indirect::Shared(sink)),
            ) => self.advance_between(source, sink),
            (StreamConnector::Own(source), StreamConnector::Indirect(Indirect::Application(sink))) => {
                self.advance_between(source, sink)
            }
            (StreamConnector::Indirect(Indirect::Application(source)), StreamConnector::Own(sink)) => {
                self.advance_between(source, sink)
            }
            (
                StreamConnector::Indirect(Indirect::Shared(source)),
                StreamConnector::Indirect(Indirect::Application(sink)),
            ) => self.advance_between(source, sink),
            (
                StreamConnector::Indirect(Indirect::Application(source)),
                StreamConnector::Indirect(Indirect::Shared(sink)),
            ) => self.advance_between(source, sink),
            (StreamConnector::Indirect(Indirect::Local(service)), sink) => self.advance_made(service, sink),
            // A service cannot receive a body, and a closed connector cannot send one.
            _ => FlowState::Failed(FlowSide::Sink, ConnectionFault::Io(Errno::PIPE)),
        }
    }

    fn advance_between<S: BodySource, K: BodySink>(&mut self, source: &mut S, sink: &mut K) -> FlowState {
        for _ in 0..ROUNDS {
            let mut leaving = self.ready.leaving();
            if leaving == 0 && source.input().len() > self.ready() && !self.is_complete() {
                if !self.inspect_input(source) {
                    return FlowState::Malformed;
                }
                leaving = self.ready.leaving();
            }
            if leaving > 0 {
                let tail = self.tail(source, true);
                match sink.send(&mut self.ready.way, &source.input()[..leaving], tail) {
                    SendOutcome::All => {
                        source.consume(leaving);
                        self.ready.left(leaving);
                    }
                    SendOutcome::Part(done) => {
                        source.consume(done);
                        self.ready.left(done);
                        if sink.is_slow() {
                            self.small_pieces = SMALL_PIECES;
                        }
                        return FlowState::AwaitSink;
                    }
                    SendOutcome::Failed(fault) => return FlowState::Failed(FlowSide::Sink, fault),
                }
                continue;
            }
            if self.ready.count > 0 && self.ready.way == BodyWay::Wire {
                let behind = self.ready.trailers.len();
                source.consume(behind);
                self.ready.left(behind);
                self.framing_bytes = self.framing_bytes.saturating_sub(behind as u64);
                continue;
            }
            if self.is_complete() {
                return self.finish_between(source, sink);
            }
            // Nothing is received while a head is still queued.
            if sink.has_pending() {
                match sink.flush(false) {
                    SendOutcome::All => {}
                    SendOutcome::Part(_) => return FlowState::AwaitSink,
                    SendOutcome::Failed(fault) => return FlowState::Failed(FlowSide::Sink, fault),
                }
            }
            // Nothing is received either while the sink accepts no payload, if only payload can arrive. The end of other bodies needs
            // no window.
            if sink.is_full(matches!(self.framing, BodyRemainder::Length(_))) {
                return FlowState::AwaitSink;
            }
            if let Some(stop) = self.receive_more(source) {
                return stop;
            }
        }
        FlowState::Yield
    }

    /// Sends the end of the message after all payload.
    #[inline]
    fn finish_between<S: BodySource, K: BodySink>(&mut self, source: &mut S, sink: &mut K) -> FlowState {
        self.ready.end_sent = true;
        let (count, go_on) = self.ready.trailers();
        let sent = match count {
            0 => sink.finish(&mut self.ready.way, b"", self.ready.ends_sink),
            _ => {
                let trailers = if go_on { &source.input()[..count] } else { b"" };
                let sent = sink.finish(&mut self.ready.way, trailers, self.ready.ends_sink);
                source.consume(count);
                self.ready.left(count);
                sent
            }
        };
        match sent {
            SendOutcome::All => FlowState::Done,
            SendOutcome::Part(_) => FlowState::AwaitSink,
            SendOutcome::Failed(fault) => FlowState::Failed(FlowSide::Sink, fault),
        }
    }

    /// Receives. Returns the reason if the flow stops.
    #[inline(always)]
    fn receive_more<S: BodySource>(&mut self, source: &mut S) -> Option<FlowState> {
        match self.receive(source) {
            ReceiveOutcome::Bytes(_) => None,
            ReceiveOutcome::Nothing => Some(FlowState::AwaitSource),
            ReceiveOutcome::End => match self.framing {
                BodyRemainder::UntilClose | BodyRemainder::UntilEnd => {
                    self.framing = BodyRemainder::Done;
                    None
                }
                _ => Some(FlowState::Truncated),
            },
            // The framing of a chunk exceeds the buffer. The decoder bounds valid framing.
            ReceiveOutcome::Full => Some(FlowState::Malformed),
            ReceiveOutcome::Failed(fault) => Some(FlowState::Failed(FlowSide::Source, fault)),
        }
    }

    /// Forwards the next piece of a service, after the sink took the previous one. Other tasks run between two pieces,
    /// because making one takes as long as a few small requests.
    fn advance_made(&mut self, service: &mut LocalService, sink: &mut StreamConnector) -> FlowState {
        match sink.flush(false) {
            SendOutcome::All => {}
            SendOutcome::Part(_) => return FlowState::AwaitSink,
            SendOutcome::Failed(fault) => return FlowState::Failed(FlowSide::Sink, fault),
        }
        match service.receive() {
            ReceiveOutcome::Bytes(count) => self.payload += count as u64,
            ReceiveOutcome::Nothing => return FlowState::AwaitSource,
            _ => {}
        }
        if service.ended() {
            self.framing = BodyRemainder::Done;
        }
        let tail = Tail { ends: self.is_complete(), closes: self.is_complete() && self.ready.ends_sink };
        let length = service.output().len();
        let sent = match sink.send_body(&mut self.ready.way, service.output(), tail) {
            SendOutcome::All => {
                service.consume(length);
                if !self.is_complete() {
                    return FlowState::Yield;
                }
                self.ready.end_sent = true;
                sink.finish_body(&mut self.ready.way, b"", self.ready.ends_sink)
            }
            SendOutcome::Part(count) => {
                service.consume(count);
                return FlowState::AwaitSink;
            }
            failed => failed,
        };
        match sent {
            SendOutcome::All => FlowState::Done,
            SendOutcome::Part(_) => FlowState::AwaitSink,
            SendOutcome::Failed(fault) => FlowState::Failed(FlowSide::Sink, fault),
        }
    }

    /// Receives into a bulk buffer, or at most one regular buffer after the sink was slow.
    #[inline]
    fn receive<S: BodySource>(&mut self, source: &mut S) -> ReceiveOutcome {
        if self.small_pieces == 0 {
            return source.receive_bulk();
        }
        let received = source.receive_piece();
        if let ReceiveOutcome::Bytes(count) = received {
            self.small_pieces = self.small_pieces.saturating_sub(count.div_ceil(1024) as u16);
        }
        received
    }

    /// Counts the input after the ready bytes.
    #[inline]
    fn measure<S: BodySource>(&mut self, source: &S) {
        let there = source.input().len() - self.ready();
        let trailers = source.trailers().min(there);
        self.count_seen(there - trailers);
        if let BodyRemainder::UntilEnd = self.framing
            && source.at_end()
        {
            self.framing = BodyRemainder::Done;
            if trailers > 0 {
                self.ready.add_trailers(self.ready()..self.ready() + trailers);
                self.trailer_bytes = trailers as u32;
                self.ready.count += trailers as u32;
            }
        }
    }

    /// Adds the body's share of `there` more input bytes to the ready payload.
    fn count_seen(&mut self, there: usize) {
        let taken = self.framing.take(there);
        self.ready.count += taken as u32;
        self.payload += taken as u64;
    }

    /// Validates or decodes the chunks after the ready bytes. False if the chunked coding is invalid.
    fn inspect_chunks<S: BodySource>(&mut self, source: &mut S) -> bool {
        let ready = self.ready();
        let BodyRemainder::Chunked(decoder) = &mut self.framing else { return true };
        if self.ready.way == BodyWay::Open {
            self.ready.way = BodyWay::Payload;
        }
        let is_wire = self.ready.way == BodyWay::Wire;
        let found = source.shorten_input(ready, |bytes| {
            let found = if is_wire { decoder.validate(bytes) } else { decoder.decode(bytes, ready == 0) };
            let removed = found.as_ref().map_or(0, |advance| advance.removed);
            (found, removed)
        });
        let Ok(advance) = found else { return false };
        source.consume(advance.skipped);
        if !advance.trailers.is_empty() {
            self.ready.add_trailers(ready + advance.trailers.start..ready + advance.trailers.end);
            self.trailer_bytes += advance.trailers.len() as u32;
        }
        self.ready.count += advance.consumed as u32;
        self.payload += advance.payload as u64;
        if is_wire {
            self.framing_bytes += (advance.consumed - advance.payload) as u64;
        }
        if advance.done {
            self.framing = BodyRemainder::Done;
        }
        true
    }
}

/// [`BodyFlow::read_some`] from one kind of source.
fn read_from<S: BodySource>(
    flow: &mut BodyFlow,
    source: &mut S,
    take: &mut dyn FnMut(&[u8]) -> usize,
) -> FlowState {
    for _ in 0..ROUNDS {
        if !source.input().is_empty() && !flow.is_complete() && !flow.inspect_input(source) {
            return FlowState::Malformed;
        }
        if let Some(payload) = source.input().get(..flow.ready.leaving()).filter(|bytes| !bytes.is_empty()) {
            let (there, taken) = (payload.len(), take(payload));
            if taken < there {
                source.consume(taken);
                flow.ready.left(taken);
                return FlowState::AwaitSink;
            }
        }
        source.consume(flow.ready());
        flow.ready.left(flow.ready());
        if flow.is_complete() {
            return FlowState::Done;
        }
        if let Some(stop) = flow.receive_more(source) {
            return stop;
        }
    }
    FlowState::Yield
}

/// Minimum number of expected bytes for which a pipe is worth its cost.
const PIPED: u64 = 16 * 1024;
/// After a sink was full, this many kilobytes are received in pieces of a buffer (`tune.bufsize`), not of a bulk buffer.
const SMALL_PIECES: u16 = 256;
/// How many receives and sends one call makes before other tasks run: 96 kB with full bulk buffers. With 512 kB, requests beside eight
/// downloads waited twice as long as with 128 kB.
const ROUNDS: usize = 4;
/// Maximum bytes of a body that are copied behind an edited head, to send both in one system call.
const SENT_WITH_HEAD: usize = 16 * 1024;

#[cfg(test)]
pub(crate) mod tests;
