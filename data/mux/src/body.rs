//! A body on its way from one connection to the other.
//!
//! Bytes stay in the receiver's input buffer until the other side took them: nothing is copied. Received bytes
//! are validated once ([`weir_h1::ChunkDecoder`]) or only counted; after that they may leave.

use std::borrow::Cow;
use std::ops::Range;

use weir_h1::{BodyFraming, ChunkDecoder};
use weir_http::{BodySize, Head};
use weir_net::{Connection, Fault, Received, Sent};
use weir_sys::Errno;

use crate::connector::{Indirect, StreamConnector};
use crate::multiplexer::SharedStream;
use crate::payload;
use crate::progress::{Progress, Step};
use crate::service::LocalService;

/// Moves one body. Holds no bytes itself.
#[derive(Debug)]
pub struct BodyFlow {
    framing: Framing,
    /// What marks the end of the body.
    end: End,
    /// Bytes at the front of the source's input that may leave. Input is never as large as 4 GB, and flows are part of every stream.
    ready: u32,
    /// Payload bytes seen.
    payload: u64,
    /// Bytes of framing seen, which also leave.
    framing_bytes: u64,
    /// The position of trailers among the ready bytes.
    trailers: Range<u32>,
    /// Bytes of trailers seen; the decoder bounds them.
    trailer_bytes: u32,
    /// Trailers are not forwarded.
    drops_trailers: bool,
    /// The caller shuts the sink down right after the last byte.
    ends_sink: bool,
    /// The first bytes leave together with a head.
    with_head: bool,
    /// How many bytes still come in small pieces, because the sink was full.
    small_pieces: u32,
}

// Every stream has two.
const _: () = assert!(size_of::<BodyFlow>() <= 64);

#[derive(Debug)]
enum Framing {
    /// That many bytes are still to come.
    Length(u64),
    Chunked(ChunkDecoder),
    UntilClose,
    /// The last byte was seen.
    Done,
}

/// What marks the end of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Its head: there is no body.
    Head,
    /// Its length.
    Length,
    /// Its last chunk.
    Chunk,
    /// The end of its source.
    Close,
}

/// A whole body that is kept, to be sent again.
#[derive(Debug)]
pub struct KeptBody {
    bytes: Vec<u8>,
    chunked: bool,
}

impl KeptBody {
    /// The bytes with their framing.
    pub fn framed(&self) -> &[u8] {
        &self.bytes
    }

    /// The payload; chunks are joined in the buffer that `room` gives. None if the chunked coding is invalid.
    pub fn payload(&self, room: impl FnOnce() -> Vec<u8>) -> Option<Cow<'_, [u8]>> {
        if self.chunked { payload::of_chunked(&self.bytes, room) } else { Some(Cow::Borrowed(&self.bytes)) }
    }
}

/// The result of a call of [`BodyFlow::advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The whole body was moved.
    Done,
    /// The source has no bytes now.
    AwaitSource,
    /// The sink accepts no bytes now.
    AwaitSink,
    /// A filter holds the rest back: see [`Transfer::wake_at`](crate::Transfer::wake_at).
    Withheld,
    /// The call's budget is used up: let other tasks run, then go on.
    Yield,
    /// The source closed before the body was complete.
    Truncated,
    /// The source sent an invalid chunked coding.
    Malformed,
    /// One side's connection broke.
    Failed(Side, Fault),
}

impl Flow {
    /// Whether the flow has ended, normally or by a fault.
    #[inline]
    pub fn is_over(self) -> bool {
        !matches!(self, Flow::AwaitSource | Flow::AwaitSink | Flow::Withheld | Flow::Yield)
    }
}

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Where the body comes from.
    Source,
    /// Where it goes.
    Sink,
}

impl BodyFlow {
    /// A flow for a body of this size after this head.
    #[inline]
    pub fn behind(head: &Head, size: BodySize) -> Self {
        BodyFlow::new(BodyFraming::of(size, head))
    }

    /// A flow of all that comes until the source ends.
    pub fn tunnel() -> Self {
        BodyFlow::new(BodyFraming::Tunnel)
    }

    /// A flow without a body.
    pub fn done() -> Self {
        BodyFlow::new(BodyFraming::None)
    }

    fn new(framing: BodyFraming) -> Self {
        let end = match framing {
            BodyFraming::None => End::Head,
            BodyFraming::Length(_) => End::Length,
            BodyFraming::Chunked => End::Chunk,
            BodyFraming::UntilClose | BodyFraming::Tunnel => End::Close,
        };
        let framing = match framing {
            BodyFraming::None => Framing::Done,
            BodyFraming::Length(length) => Framing::Length(length),
            BodyFraming::Chunked => Framing::Chunked(ChunkDecoder::new()),
            BodyFraming::UntilClose | BodyFraming::Tunnel => Framing::UntilClose,
        };
        BodyFlow {
            framing,
            end,
            ready: 0,
            payload: 0,
            framing_bytes: 0,
            trailers: 0..0,
            trailer_bytes: 0,
            drops_trailers: false,
            ends_sink: false,
            with_head: false,
            small_pieces: 0,
        }
    }

    /// Trailers are not forwarded from now on (`option http-drop-request-trailers`, `http-drop-response-trailers`).
    pub fn drop_trailers(&mut self) {
        self.drops_trailers = true;
    }

    /// The sink is shut down or closed at once when this is done, so the last bytes may wait for the FIN to leave with it: one
    /// segment less. A body that lasts until its source closes always ends its sink.
    pub fn end_sink(&mut self) {
        self.ends_sink = true;
    }

    /// Whether the bytes sent now are the last, and a FIN follows them at once.
    fn ends_with_these<S: Source>(&self, source: &S) -> bool {
        match self.framing {
            Framing::Done => self.ends_sink,
            Framing::UntilClose => source.peer_closed(),
            _ => false,
        }
    }

    /// Whether a FIN follows the last byte at once.
    pub(crate) fn closes_sink(&self) -> bool {
        self.ends_sink || self.end == End::Close
    }

    /// Whether trailers go on.
    pub(crate) fn keeps_trailers(&self) -> bool {
        !self.drops_trailers
    }

    /// How many bytes may still come that are nothing but payload: 0 if chunks are awaited.
    pub(crate) fn awaited(&self) -> u64 {
        match self.framing {
            Framing::Length(left) => left,
            Framing::UntilClose => u64::MAX,
            Framing::Chunked(_) | Framing::Done => 0,
        }
    }

    /// Whether so much payload may still come that a pipe costs less than a buffer.
    pub(crate) fn is_worth_a_pipe(&self) -> bool {
        self.awaited() >= PIPED
    }

    /// That many bytes came, and left the source, past its input.
    pub(crate) fn passed_by(&mut self, count: usize) {
        self.measure(count);
        self.left(count);
    }

    /// The source ended, which ends the body.
    pub(crate) fn finish(&mut self) {
        self.framing = Framing::Done;
    }

    /// A service produced `count` bytes, which count as seen.
    pub(crate) fn made(&mut self, source: &StreamConnector, count: usize) {
        if let StreamConnector::Indirect(Indirect::Local(_)) = source {
            self.payload += count as u64;
        }
    }

    /// Whether the last byte was seen and has left.
    pub fn is_done(&self) -> bool {
        self.ready == 0 && matches!(self.framing, Framing::Done)
    }

    /// Whether the last byte was seen, even if it has not left.
    pub fn is_complete(&self) -> bool {
        matches!(self.framing, Framing::Done)
    }

    /// Payload bytes seen so far, without framing.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// Validates what is in the source's input without sending it: for `option http-buffer-request` and the like. The
    /// ready bytes grow; false if the coding is wrong.
    pub fn inspect(&mut self, source: &mut StreamConnector) -> bool {
        match source {
            StreamConnector::Own(own) => self.inspect_input(own),
            StreamConnector::Indirect(Indirect::Shared(shared)) => self.inspect_input(shared),
            StreamConnector::Indirect(_) => true,
        }
    }

    #[inline]
    fn inspect_input<S: Source>(&mut self, source: &mut S) -> bool {
        let Framing::Chunked(_) = self.framing else {
            self.measure(source.input().len() - self.ready());
            return true;
        };
        self.validate(source)
    }

    /// Lets `count` more bytes at the front of the source's input (a head that is forwarded verbatim) leave first.
    pub fn lead_with(&mut self, count: usize) {
        self.ready += count as u32;
        self.with_head = true;
    }

    /// Removes up to `limit` ready bytes for a caller that sends them itself, after a head; returns their number.
    pub fn take_ready(&mut self, limit: usize) -> usize {
        let taken = self.leaving().min(limit);
        self.left(taken);
        self.with_head |= taken > 0;
        taken
    }

    /// How many ready bytes leave before trailers that are dropped.
    fn leaving(&self) -> usize {
        let stays_behind = self.drops_trailers && !self.trailers.is_empty();
        if stays_behind { self.trailers.start as usize } else { self.ready() }
    }

    /// That many bytes at the front have left.
    pub(crate) fn left(&mut self, count: usize) {
        self.ready -= count as u32;
        if !self.trailers.is_empty() {
            let Range { start, end } = self.trailers;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.trailers = start.saturating_sub(count)..end.saturating_sub(count);
        }
    }

    /// Whether it comes in chunks.
    pub fn is_chunked(&self) -> bool {
        self.end == End::Chunk
    }

    /// Whether it lasts until its source ends.
    pub fn ends_with_source(&self) -> bool {
        self.end == End::Close
    }

    /// The payload among the ready bytes; chunks are joined in the buffer that `room` gives. None if the chunked coding is invalid.
    pub fn waiting<'s>(
        &self,
        source: &'s StreamConnector,
        room: impl FnOnce() -> Vec<u8>,
    ) -> Option<Cow<'s, [u8]>> {
        let input = source.input();
        let framed = input.get(..self.ready()).unwrap_or(input);
        if self.is_chunked() { payload::of_chunked(framed, room) } else { Some(Cow::Borrowed(framed)) }
    }

    /// A copy of the ready bytes, as they are to leave.
    pub fn keep(&self, source: &StreamConnector) -> KeptBody {
        let ready = &source.input()[..self.ready()];
        let bytes = match self.drops_trailers && !self.trailers.is_empty() {
            true => [&ready[..self.trailers.start as usize], &ready[self.trailers.end as usize..]].concat(),
            false => ready.to_vec(),
        };
        KeptBody { bytes, chunked: self.is_chunked() }
    }

    /// How many bytes at the front of the source's input were validated and have not left yet.
    #[inline]
    pub fn ready(&self) -> usize {
        self.ready as usize
    }

    /// The progress of the body.
    pub fn progress(&self) -> Progress {
        let trailers_received = u64::from(self.trailer_bytes);
        let trailers_sent = match self.drops_trailers {
            true => 0,
            false => trailers_received.saturating_sub(self.trailers.len() as u64),
        };
        Progress {
            received: self.payload,
            // The ready bytes end with bytes of the body, but may begin with a head, which was not counted.
            sent: (self.payload + self.framing_bytes).saturating_sub(u64::from(self.ready)),
            trailers_received,
            trailers_sent,
            complete: self.is_complete(),
            done: self.is_done(),
        }
    }

    /// The changes since the totals that traces have shown, `told`. A message without a body has no steps. `held` bytes left the source,
    /// and did not reach the sink yet.
    pub(crate) fn step(&mut self, told: &mut Option<Progress>, held: usize) -> Step {
        let now = self.progress();
        let now = Progress { sent: now.sent.saturating_sub(held as u64), done: now.done && held == 0, ..now };
        let ended = self.end == End::Head;
        let first = Progress { complete: ended, done: ended, ..Progress::default() };
        let step = Step {
            with_head: self.with_head,
            ends_sink: self.ends_sink,
            ..Step::between(told.get_or_insert(first), now)
        };
        // True as long as the head is among the ready bytes.
        self.with_head &= u64::from(self.ready) > self.payload + self.framing_bytes;
        step
    }

    /// Moves what can be moved now.
    #[inline]
    pub fn advance(&mut self, source: &mut StreamConnector, sink: &mut StreamConnector) -> Flow {
        if let (StreamConnector::Own(source), StreamConnector::Own(sink)) = (&mut *source, &mut *sink) {
            // Usually one of the two directions has nothing to do: that is checked without a call.
            if self.ready == 0 && !self.is_complete() && source.is_quiet() && !sink.has_pending() {
                return Flow::AwaitSource;
            }
            return self.advance_between(source, sink);
        }
        self.advance_others(source, sink)
    }

    /// Reads the body and drops it, as far as it can be read now.
    #[cold]
    pub fn discard(&mut self, source: &mut StreamConnector) -> Flow {
        match source {
            StreamConnector::Own(own) => self.discard_from(own),
            StreamConnector::Indirect(Indirect::Shared(shared)) => self.discard_from(shared),
            StreamConnector::Indirect(_) => Flow::Failed(Side::Source, Fault::Io(Errno::PIPE)),
        }
    }

    fn discard_from<S: Source>(&mut self, source: &mut S) -> Flow {
        for _ in 0..ROUNDS {
            if !source.input().is_empty() && !self.is_complete() && !self.inspect_input(source) {
                return Flow::Malformed;
            }
            source.consume(self.ready());
            self.left(self.ready());
            if self.is_complete() {
                return Flow::Done;
            }
            if let Some(stop) = self.receive_more(source) {
                return stop;
            }
        }
        Flow::Yield
    }

    /// The same where the source or the sink is not a connection of its own.
    #[inline(never)]
    fn advance_others(&mut self, source: &mut StreamConnector, sink: &mut StreamConnector) -> Flow {
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
            (StreamConnector::Indirect(Indirect::Local(service)), sink) => self.advance_made(service, sink),
            // A service takes no body, and a closed connector has none.
            _ => Flow::Failed(Side::Sink, Fault::Io(Errno::PIPE)),
        }
    }

    fn advance_between<S: Source, K: Sink>(&mut self, source: &mut S, sink: &mut K) -> Flow {
        for _ in 0..ROUNDS {
            if self.ready == 0
                && !source.input().is_empty()
                && !self.is_complete()
                && !self.inspect_input(source)
            {
                return Flow::Malformed;
            }
            let leaving = self.leaving();
            if leaving > 0 {
                let more = self.ends_with_these(source);
                match sink.send(&source.input()[..leaving], more) {
                    Sent::All => {
                        source.consume(leaving);
                        self.left(leaving);
                    }
                    Sent::Part(done) => {
                        source.consume(done);
                        self.left(done);
                        if sink.is_slow() {
                            self.small_pieces = SMALL_PIECES;
                        }
                        return Flow::AwaitSink;
                    }
                    Sent::Failed(fault) => return Flow::Failed(Side::Sink, fault),
                }
                continue;
            }
            if self.ready > 0 {
                let behind = self.trailers.len();
                source.consume(behind);
                self.left(behind);
                self.framing_bytes = self.framing_bytes.saturating_sub(behind as u64);
                continue;
            }
            if self.is_complete() {
                return match sink.complete() {
                    Sent::All => Flow::Done,
                    Sent::Part(_) => Flow::AwaitSink,
                    Sent::Failed(fault) => Flow::Failed(Side::Sink, fault),
                };
            }
            // Nothing is received while a head still waits to leave.
            if sink.has_pending() {
                match sink.flush(false) {
                    Sent::All => {}
                    Sent::Part(_) => return Flow::AwaitSink,
                    Sent::Failed(fault) => return Flow::Failed(Side::Sink, fault),
                }
            }
            // Nor while received bytes could not leave, if all of them are payload: the end of other bodies needs no window.
            if sink.is_full(matches!(self.framing, Framing::Length(_))) {
                return Flow::AwaitSink;
            }
            if let Some(stop) = self.receive_more(source) {
                return stop;
            }
        }
        Flow::Yield
    }

    /// Receives; says what stops the flow, if anything does.
    #[inline(always)]
    fn receive_more<S: Source>(&mut self, source: &mut S) -> Option<Flow> {
        match self.receive(source) {
            Received::Bytes(_) => None,
            Received::Nothing => Some(Flow::AwaitSource),
            Received::End => match self.framing {
                Framing::UntilClose => {
                    self.framing = Framing::Done;
                    None
                }
                _ => Some(Flow::Truncated),
            },
            // The framing of a chunk does not fit the buffer: the decoder bounds framing, so this is invalid.
            Received::Full => Some(Flow::Malformed),
            Received::Failed(fault) => Some(Flow::Failed(Side::Source, fault)),
        }
    }

    /// Moves the next piece from a service, after the sink took the former one. Other tasks run between two pieces: making
    /// one takes as long as a few small requests.
    fn advance_made(&mut self, service: &mut LocalService, sink: &mut StreamConnector) -> Flow {
        match sink.flush(false) {
            Sent::All => {}
            Sent::Part(_) => return Flow::AwaitSink,
            Sent::Failed(fault) => return Flow::Failed(Side::Sink, fault),
        }
        if self.is_complete() {
            return Flow::Done;
        }
        if let Received::Bytes(count) = service.receive() {
            self.payload += count as u64;
        }
        if service.ended() {
            self.framing = Framing::Done;
        }
        let sent = match sink.send_head(service.take_framed(self.is_chunked()), false) {
            Sent::All if self.is_complete() => sink.complete(),
            sent => sent,
        };
        match sent {
            Sent::All if self.is_complete() => Flow::Done,
            Sent::All => Flow::Yield,
            Sent::Part(_) => Flow::AwaitSink,
            Sent::Failed(fault) => Flow::Failed(Side::Sink, fault),
        }
    }

    /// Bytes that a slow sink does not take stay here: then at most a buffer is received.
    #[inline]
    fn receive<S: Source>(&mut self, source: &mut S) -> Received {
        if self.small_pieces == 0 {
            return source.receive_bulk();
        }
        let received = source.receive_piece();
        if let Received::Bytes(count) = received {
            self.small_pieces = self.small_pieces.saturating_sub(count as u32);
        }
        received
    }

    /// Counts `there` bytes after the ready ones.
    fn measure(&mut self, there: usize) {
        let taken = match &mut self.framing {
            Framing::Done | Framing::Chunked(_) => 0,
            Framing::UntilClose => there,
            Framing::Length(left) => {
                let taken = (there as u64).min(*left);
                *left -= taken;
                if *left == 0 {
                    self.framing = Framing::Done;
                }
                taken as usize
            }
        };
        self.ready += taken as u32;
        self.payload += taken as u64;
    }

    /// Validates the chunked coding after the ready bytes; false if it is invalid.
    fn validate<S: Source>(&mut self, source: &mut S) -> bool {
        let ready = self.ready();
        let Framing::Chunked(decoder) = &mut self.framing else { return true };
        let found = source.shorten_input(ready, |bytes| {
            let found = decoder.advance(bytes);
            let removed = found.as_ref().map_or(0, |advance| advance.removed);
            (found, removed)
        });
        let Ok(advance) = found else { return false };
        if !advance.trailers.is_empty() {
            let start = (ready + advance.trailers.start) as u32;
            let end = (ready + advance.trailers.end) as u32;
            // A later part follows the earlier one directly.
            self.trailers = if self.trailers.is_empty() { start } else { self.trailers.start }..end;
            self.trailer_bytes += advance.trailers.len() as u32;
        }
        self.ready += advance.consumed as u32;
        self.payload += advance.payload as u64;
        self.framing_bytes += (advance.consumed - advance.payload) as u64;
        if advance.done {
            self.framing = Framing::Done;
        }
        true
    }
}

/// The source of a body: a connection of its own, or a stream of a shared one.
trait Source {
    fn input(&self) -> &[u8];
    fn consume(&mut self, count: usize);
    fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R;
    fn receive_bulk(&mut self) -> Received;
    fn receive_piece(&mut self) -> Received;
    fn peer_closed(&self) -> bool;
}

impl Source for Connection {
    #[inline]
    fn input(&self) -> &[u8] {
        Connection::input(self)
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        Connection::consume(self, count);
    }

    #[inline]
    fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        Connection::shorten_input(self, from, edit)
    }

    #[inline]
    fn receive_bulk(&mut self) -> Received {
        Connection::receive_bulk(self)
    }

    #[inline]
    fn receive_piece(&mut self) -> Received {
        Connection::receive_piece(self)
    }

    #[inline]
    fn peer_closed(&self) -> bool {
        Connection::peer_closed(self)
    }
}

impl Source for SharedStream {
    fn input(&self) -> &[u8] {
        SharedStream::input(self)
    }

    fn consume(&mut self, count: usize) {
        SharedStream::consume(self, count);
    }

    fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        SharedStream::shorten_input(self, from, edit)
    }

    fn receive_bulk(&mut self) -> Received {
        self.receive(usize::MAX)
    }

    fn receive_piece(&mut self) -> Received {
        self.receive(usize::MAX)
    }

    /// This is asked to find out whether a FIN follows: a stream of a shared connection never ends with one.
    fn peer_closed(&self) -> bool {
        false
    }
}

/// The sink of a body.
trait Sink {
    fn send(&mut self, bytes: &[u8], more: bool) -> Sent;
    fn flush(&mut self, more: bool) -> Sent;
    fn has_pending(&self) -> bool;
    /// The last byte was sent: flushes what is pending, and signals an end that is not part of the bytes.
    fn complete(&mut self) -> Sent;
    /// Whether it accepts nothing now, or no payload. The task is woken when it does.
    fn is_full(&mut self, payload: bool) -> bool;
    /// Whether a sink that did not take all bytes waits for its peer.
    fn is_slow(&self) -> bool;
}

impl Sink for Connection {
    #[inline]
    fn send(&mut self, bytes: &[u8], more: bool) -> Sent {
        Connection::send(self, bytes, more)
    }

    #[inline]
    fn flush(&mut self, more: bool) -> Sent {
        Connection::flush(self, more)
    }

    #[inline]
    fn has_pending(&self) -> bool {
        Connection::has_pending(self)
    }

    #[inline]
    fn complete(&mut self) -> Sent {
        Connection::flush(self, false)
    }

    #[inline]
    fn is_full(&mut self, _: bool) -> bool {
        false
    }

    #[inline]
    fn is_slow(&self) -> bool {
        true
    }
}

impl Sink for SharedStream {
    fn send(&mut self, bytes: &[u8], _: bool) -> Sent {
        SharedStream::send(self, bytes)
    }

    fn flush(&mut self, _: bool) -> Sent {
        SharedStream::flush(self)
    }

    fn has_pending(&self) -> bool {
        SharedStream::has_pending(self)
    }

    fn complete(&mut self) -> Sent {
        SharedStream::complete(self)
    }

    fn is_full(&mut self, payload: bool) -> bool {
        SharedStream::is_full(self, payload)
    }

    fn is_slow(&self) -> bool {
        SharedStream::is_slow(self)
    }
}

/// How many bytes must be awaited for a pipe to pay.
const PIPED: u64 = 16 * 1024;
/// After a sink was full, this many bytes are received in pieces of a buffer (`tune.bufsize`), not of a bulk buffer.
const SMALL_PIECES: u32 = 256 * 1024;
/// How many receives and sends one call makes before other tasks run: 96 kB with full bulk buffers. With 512 kB, requests beside eight
/// downloads waited twice as long as with 128 kB.
const ROUNDS: usize = 4;
