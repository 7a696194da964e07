//! One HTTP/2 stream, a request and its response, on a connection to a client or to a server.
//!
//! Received data is queued until the stream takes it. Only then does the window open again. The stream sends heads,
//! payload and trailers, which the engine frames:
//!
//! ```text
//!   AwaitingHead ──head──► Open ──the last byte or trailers──► Ended
//!       ▲    │ 1xx
//!       └────┘
//! ```
//!
//! A stream to a server gets its identifier when its request head is sent. The server does not see a stream that was
//! never used.

use std::any::Any;
use std::rc::{Rc, Weak};

use weir_h2::{ErrorCode, HeadFault, ReceivedHead};
use weir_http::{BodySize, Head, HeadFlags, Method, Version};
use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sys::Errno;

use crate::multiplexer::{Multiplexer, freed, rooms};
use crate::trace::TracedStream;

/// One stream of a shared connection. Dropping it ends the stream for the peer too.
#[derive(Debug)]
pub struct SharedStream {
    multiplexer: Rc<Multiplexer>,
    id: u32,
    /// The number of a stream to a server in traces. 0 for none.
    serial: u64,
    role: StreamRole,
    method: Method,
    /// Whether the peer's last byte was received.
    ended: bool,
    /// Whether a head or bytes were taken since the memory was last shrunk. Buffers may have spare capacity since then.
    is_wide: bool,
    outgoing: OutgoingMessage,
    /// Absent for a request without a body that waits for its response.
    beside: Option<Box<StreamExtras>>,
    /// Bytes of this stream's heads and payload that were received.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

// A shared stream is part of each connector, and must not make the connector larger than a connection does.
const _: () = assert!(size_of::<SharedStream>() <= 56);

/// Buffered bytes and a lease. Boxed, because hundreds of waiting streams of a connection may have neither.
#[derive(Debug, Default)]
struct StreamExtras {
    /// Received bytes. The bytes before `start` were consumed.
    input: Vec<u8>,
    start: u32,
    /// How many bytes at the end of `input` are trailers.
    trailers: u32,
    /// Payload bytes that were not returned to the peer's window yet (WINDOW_UPDATE).
    unreturned: u32,
    /// Payload that flow control blocked. Bytes before `sent_of_pending` were sent.
    pending: Vec<u8>,
    sent_of_pending: u32,
    /// Whether `pending` ends the stream, with these trailers.
    pending_ends: bool,
    pending_trailers: Vec<u8>,
    /// The stream's slot on the connection. Dropped with the stream.
    lease: Option<Box<dyn Any>>,
}

/// Which side of the connection the stream is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamRole {
    /// The peer is a client: requests are received, responses sent.
    Answers,
    /// Like `Answers`, but a stream without a response ends with REFUSED_STREAM, so that the client may retry.
    Refuses,
    /// The peer is a server.
    Requests,
}

/// The state of the message that this end sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutgoingMessage {
    AwaitingHead,
    Open,
    Ended,
}

impl SharedStream {
    pub(crate) fn new(multiplexer: Rc<Multiplexer>, id: u32) -> Self {
        SharedStream {
            multiplexer,
            id,
            serial: 0,
            role: StreamRole::Answers,
            method: Method::Other,
            ended: false,
            is_wide: false,
            outgoing: OutgoingMessage::AwaitingHead,
            beside: None,
            received: 0,
            sent: 0,
        }
    }

    /// A stream to a server. It is opened when the head of its request is sent.
    pub(crate) fn unopened(multiplexer: Rc<Multiplexer>) -> Self {
        let mut stream = SharedStream::new(multiplexer, UNOPENED);
        stream.role = StreamRole::Requests;
        stream
    }

    /// If the stream ends without a response, resets it with REFUSED_STREAM, so that the client may retry.
    pub(crate) fn refuse(&mut self) {
        if self.role == StreamRole::Answers {
            self.role = StreamRole::Refuses;
        }
    }

    /// Keeps `lease` until the stream is over, and drops it then.
    pub fn hold(&mut self, lease: Box<dyn Any>) {
        self.beside.get_or_insert_default().lease = Some(lease);
    }

    /// Another stream on the same connection.
    pub fn another(&self) -> SharedStream {
        SharedStream::unopened(Rc::clone(&self.multiplexer))
    }

    /// The connection that carries this stream.
    pub fn multiplexer(&self) -> &Multiplexer {
        &self.multiplexer
    }

    /// A weak reference to the connection.
    pub fn connection(&self) -> Weak<Multiplexer> {
        Rc::downgrade(&self.multiplexer)
    }

    /// The HTTP/2 stream identifier. 0 before the stream is opened.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The error code of the peer's RST_STREAM. `None` if the peer did not reset the stream.
    pub fn abort_code(&self) -> Option<u32> {
        self.multiplexer.abort_code(self.id)
    }

    /// The stream's state in `name=value` pairs, for debugging.
    pub fn summary(&self) -> String {
        let windows = self.multiplexer.windows(self.id);
        let (waits, pending) =
            (self.input().len(), self.beside.as_ref().map_or(0, |beside| beside.pending().len()));
        let response = match &self.outgoing {
            OutgoingMessage::AwaitingHead => "awaited",
            OutgoingMessage::Open => "open",
            OutgoingMessage::Ended => "ended",
        };
        let ended = u8::from(self.ended);
        match windows {
            Some((receive, send)) => format!(
                "ended={ended} in={waits} out={pending} response={response} receive_window={receive} send_window={send}"
            ),
            None => format!("ended={ended} in={waits} out={pending} response={response} closed"),
        }
    }

    /// Takes the request head, once. A complete request is processed even if the client has already reset it.
    pub(crate) fn take_request(&mut self, head: &mut Head, bytes: &mut Vec<u8>) -> Result<(), NoHead> {
        let Some(request) = self.multiplexer.take_head(self.id) else { return Err(NoHead::Gone) };
        let taken = self.take_over(request, head, bytes);
        self.method = head.method();
        taken
    }

    /// Takes the next response head. `Ok(false)` if none has arrived yet.
    pub(crate) fn take_response(&mut self, head: &mut Head, bytes: &mut Vec<u8>) -> Result<bool, NoHead> {
        match self.multiplexer.take_head(self.id) {
            Some(response) => self.take_over(response, head, bytes).map(|()| true),
            // A complete response head takes precedence over a later fault.
            None => self.fault().map_or(Ok(false), |fault| Err(NoHead::Failed(fault))),
        }
    }

    fn take_over(
        &mut self,
        mut received: Box<ReceivedHead>,
        head: &mut Head,
        bytes: &mut Vec<u8>,
    ) -> Result<(), NoHead> {
        let ReceivedHead { head: taken, bytes: taken_bytes, fault } = &mut *received;
        std::mem::swap(head, taken);
        std::mem::swap(bytes, taken_bytes);
        let fault = *fault;
        rooms::give(received);
        self.received += bytes.len() as u64;
        // The head's memory is reused from an earlier head, which may have been larger.
        self.is_wide = true;
        match fault {
            None => {}
            Some(HeadFault::TooLarge) => return Err(NoHead::TooLarge),
            Some(HeadFault::NoRequest) => return Err(NoHead::Invalid),
            Some(HeadFault::Malformed) => return Err(NoHead::Failed(ConnectionFault::Protocol)),
        }
        // The head is not HTTP/1, so it must always be serialized for the other side.
        head.note(HeadFlags::MUST_REWRITE);
        Ok(())
    }

    /// Whether the peer is a server.
    pub(crate) fn sends_requests(&self) -> bool {
        self.role == StreamRole::Requests
    }

    pub(crate) fn input(&self) -> &[u8] {
        self.beside.as_ref().map_or(&[], |beside| beside.input())
    }

    pub(crate) fn consume(&mut self, count: usize) {
        let returned = self.beside.as_mut().map_or(0, |beside| beside.consume(count));
        if returned > 0 {
            self.multiplexer.consumed(self.id, returned);
        }
    }

    /// How many bytes at the end of the input are trailers.
    pub(crate) fn trailers(&self) -> usize {
        self.beside.as_ref().map_or(0, |beside| beside.trailers as usize)
    }

    /// Takes received bytes from the connection. [`ReceiveOutcome::Full`] if the input holds `limit` bytes.
    pub(crate) fn receive(&mut self, limit: usize) -> ReceiveOutcome {
        if self.input().len() >= limit {
            return ReceiveOutcome::Full;
        }
        // A stream without pending input allocates memory for it only if data has arrived.
        let mut first = Vec::new();
        let input = match &mut self.beside {
            Some(beside) => beside.compact(),
            None => &mut first,
        };
        let arrived = self.multiplexer.take_arrived(self.id, input);
        if arrived.bytes > 0 {
            self.is_wide = true;
            let beside = self
                .beside
                .get_or_insert_with(|| Box::new(StreamExtras { input: first, ..StreamExtras::default() }));
            beside.unreturned += arrived.payload;
            beside.trailers += arrived.trailers;
        }
        self.ended |= arrived.ended;
        self.received += u64::from(arrived.payload);
        match arrived {
            arrived if arrived.bytes > 0 => ReceiveOutcome::Bytes(arrived.bytes),
            _ if self.ended => ReceiveOutcome::End,
            _ => self.fault().map_or(ReceiveOutcome::Nothing, ReceiveOutcome::Failed),
        }
    }

    /// Whether all bytes up to the peer's end of stream were taken.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Whether the peer can send no more, though earlier bytes may still be here.
    pub(crate) fn peer_closed(&self) -> bool {
        self.multiplexer.peer_closed()
    }

    /// The fault that ended the stream early.
    pub(crate) fn fault(&self) -> Option<ConnectionFault> {
        self.multiplexer.fault(self.id)
    }

    /// Whether the stream has neither an untaken head nor a fault.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.multiplexer.has_head(self.id) && self.fault().is_none()
    }

    /// Whether the stream's buffers, here or in the connection, may have spare capacity.
    pub(crate) fn has_slack(&self) -> bool {
        self.is_wide
    }

    pub(crate) fn shrink_input(&mut self) {
        if !std::mem::take(&mut self.is_wide) {
            return;
        }
        let freed = self.beside.as_mut().map_or(0, |beside| beside.shrink());
        self.beside.take_if(|beside| beside.is_empty());
        freed::note(freed + self.multiplexer.shrink_arrived(self.id));
    }

    pub(crate) fn has_pending(&self) -> bool {
        let Some(beside) = &self.beside else { return false };
        !beside.pending().is_empty() || (beside.pending_ends && !self.shut())
    }

    /// Whether the stream cannot send now, or cannot send payload if `payload` is set. If so, its task is woken when it can.
    pub(crate) fn is_full(&self, payload: bool) -> bool {
        self.multiplexer.is_full(self.id, payload)
    }

    /// Whether the peer, not this process, blocks sending.
    pub(crate) fn is_slow(&self) -> bool {
        self.multiplexer.is_slow(self.id)
    }

    /// Whether the end of the message was passed to the connection.
    pub(crate) fn shut(&self) -> bool {
        matches!(self.outgoing, OutgoingMessage::Ended)
    }

    /// Sends the head of a request, or of a response, interim or final. Heads never wait for a window.
    pub(crate) fn send_message(&mut self, head: &Head, raw: &[u8]) -> SendOutcome {
        if self.sends_requests() { self.open(head, raw) } else { self.answer(head, raw) }
    }

    /// Opens the stream with a request.
    fn open(&mut self, head: &Head, raw: &[u8]) -> SendOutcome {
        let size = BodySize::of_request(head);
        self.method = head.method();
        // A tunnel follows a CONNECT or a request for another protocol, if the server agrees.
        let tunnel = self.method == Method::Connect || head.upgrade(raw).is_some();
        let ends = size == BodySize::None && !tunnel;
        // An HTTP/1.0 response of unknown length ends with the connection.
        let chunks = head.version() >= Version::HTTP_11;
        let Some((id, count)) = self.multiplexer.open(self.serial, (head, raw), chunks, ends) else {
            return SendOutcome::Failed(self.fault().unwrap_or(ConnectionFault::Refused));
        };
        self.id = id;
        self.sent += count as u64;
        self.outgoing = if ends { OutgoingMessage::Ended } else { OutgoingMessage::Open };
        SendOutcome::All
    }

    fn answer(&mut self, head: &Head, raw: &[u8]) -> SendOutcome {
        let status = head.status();
        // A 101 is final here: it accepts an extended CONNECT (RFC 8441).
        let interim = (100..200).contains(&status) && status != 101;
        let size = BodySize::of_response(head, self.method);
        // A response without a body is a single HEADERS frame. gRPC recognizes trailers-only responses by that.
        let later = head.flags().contains(HeadFlags::ENDS_LATER);
        let ends = !interim && !later && (size == BodySize::None || head.flags().contains(HeadFlags::ENDED));
        let Some(count) = self.multiplexer.send_head(self.id, head, raw, ends) else { return self.failed() };
        self.sent += count as u64;
        if !interim {
            self.outgoing = if ends { OutgoingMessage::Ended } else { OutgoingMessage::Open };
        }
        SendOutcome::All
    }

    /// Sends the rest of a message. Bytes that the windows do not admit are queued.
    pub(crate) fn send_rest(&mut self, payload: &[u8], trailers: &[u8]) -> SendOutcome {
        match self.send_pending(payload, trailers.is_empty()) {
            failed @ SendOutcome::Failed(_) => failed,
            sent if trailers.is_empty() => sent,
            _ => self.finish(trailers),
        }
    }

    /// Takes all of this payload. Sends as much as the windows admit and queues the rest.
    pub(crate) fn send_pending(&mut self, payload: &[u8], ends: bool) -> SendOutcome {
        match self.outgoing {
            OutgoingMessage::AwaitingHead => return self.failed(),
            // A body is dropped if the response must not have one.
            OutgoingMessage::Ended => {}
            OutgoingMessage::Open => self.put(payload, ends),
        }
        match self.flush() {
            SendOutcome::Part(_) => SendOutcome::Part(payload.len()),
            other => other,
        }
    }

    /// Sends as much payload as the windows admit now. `ends` marks the last payload of the message.
    pub(crate) fn send(&mut self, payload: &[u8], ends: bool) -> SendOutcome {
        match self.flush() {
            SendOutcome::All => {}
            SendOutcome::Part(_) => return SendOutcome::Part(0),
            failed => return failed,
        }
        let mut done = 0;
        while done < payload.len() && !self.shut() {
            let Some(open) = self.multiplexer.room(self.id) else { return self.failed() };
            if open == 0 {
                self.multiplexer.await_room(self.id);
                return SendOutcome::Part(done);
            }
            let piece = &payload[done..][..open.min(payload.len() - done)];
            done += piece.len();
            self.put(piece, ends && done == payload.len());
            match self.flush() {
                SendOutcome::All => {}
                SendOutcome::Part(_) => return SendOutcome::Part(done),
                failed => return failed,
            }
        }
        SendOutcome::All
    }

    /// Sends payload and queues the bytes that the windows do not admit.
    fn put(&mut self, payload: &[u8], ends: bool) {
        let mut taken = 0;
        if self.beside.as_ref().is_none_or(|beside| beside.pending().is_empty()) {
            taken = self.send_now(payload, ends, b"");
        }
        let is_left = taken < payload.len();
        if is_left || (ends && !self.shut()) {
            let beside = self.beside.get_or_insert_default();
            beside.pending.extend_from_slice(&payload[taken..]);
            beside.pending_ends |= ends;
        }
    }

    /// Sends as much as the windows admit and returns the byte count. If that is all and `ends` is set, ends the message with these trailers.
    fn send_now(&mut self, payload: &[u8], ends: bool, trailers: &[u8]) -> usize {
        let sent = self.multiplexer.send_data(self.id, payload, ends && trailers.is_empty());
        self.sent += sent as u64;
        if ends && sent == payload.len() {
            if !trailers.is_empty() {
                self.multiplexer.send_trailers(self.id, trailers);
            }
            self.outgoing = OutgoingMessage::Ended;
        }
        sent
    }

    /// Sends the pending bytes.
    pub(crate) fn flush(&mut self) -> SendOutcome {
        if !self.has_pending() {
            return SendOutcome::All;
        }
        if self.multiplexer.room(self.id).is_none() {
            return self.failed();
        }
        let Some(beside) = self.beside.as_deref_mut() else { return SendOutcome::All };
        let (pending, trailers) =
            (std::mem::take(&mut beside.pending), std::mem::take(&mut beside.pending_trailers));
        let (start, ends) = (beside.sent_of_pending, beside.pending_ends);
        let sent = self.send_now(&pending[start as usize..], ends, &trailers);
        let start = start + sent as u32;
        let is_left = (start as usize) < pending.len();
        if !is_left {
            if let Some(beside) = self.beside.as_deref_mut() {
                beside.sent_of_pending = 0;
            }
            return SendOutcome::All;
        }
        if let Some(beside) = self.beside.as_deref_mut() {
            (beside.pending, beside.sent_of_pending, beside.pending_trailers) = (pending, start, trailers);
        }
        self.multiplexer.await_room(self.id);
        SendOutcome::Part(sent)
    }

    /// Ends the message with these trailers, after all payload. Later calls only flush.
    pub(crate) fn finish(&mut self, trailers: &[u8]) -> SendOutcome {
        let is_ending = self.beside.as_ref().is_some_and(|beside| beside.pending_ends);
        if self.outgoing == OutgoingMessage::Open && !is_ending {
            match trailers {
                [] => self.put(b"", true),
                _ => {
                    let beside = self.beside.get_or_insert_default();
                    beside.pending_ends = true;
                    beside.pending_trailers = trailers.to_vec();
                }
            }
        }
        self.flush()
    }

    fn failed(&self) -> SendOutcome {
        SendOutcome::Failed(self.fault().unwrap_or(ConnectionFault::Io(Errno::PIPE)))
    }
}

impl TracedStream for SharedStream {
    fn identify(&mut self, serial: u64) {
        self.serial = serial;
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        let code = match &self.outgoing {
            _ if self.sends_requests() => ErrorCode::Cancel,
            // The peer need not finish its request (RFC 9113, 8.1).
            OutgoingMessage::Ended => ErrorCode::NoError,
            OutgoingMessage::AwaitingHead if self.role == StreamRole::Refuses => ErrorCode::RefusedStream,
            OutgoingMessage::AwaitingHead => ErrorCode::Cancel,
            _ => ErrorCode::Internal,
        };
        let unreturned = self.beside.as_ref().map_or(0, |beside| beside.unreturned);
        self.multiplexer.leave_stream(self.id, unreturned, code);
    }
}

impl StreamExtras {
    // Offsets have 32 bits, because there are many streams. Flow control limits buffered bytes to half of that range.
    #[inline]
    fn start(&self) -> usize {
        self.start as usize
    }

    fn input(&self) -> &[u8] {
        &self.input[self.start()..]
    }

    fn pending(&self) -> &[u8] {
        &self.pending[self.sent_of_pending as usize..]
    }

    /// Whether it holds no bytes, no unreturned payload and no lease.
    fn is_empty(&self) -> bool {
        let is_still = self.input.is_empty() && self.pending.is_empty() && !self.pending_ends;
        is_still && self.unreturned == 0 && self.lease.is_none()
    }

    /// Drops `count` bytes of the input. Returns by how many bytes the peer's window may be opened.
    fn consume(&mut self, count: usize) -> u32 {
        self.start += count.min(self.input.len() - self.start()) as u32;
        self.trailers = self.trailers.min((self.input.len() - self.start()) as u32);
        let returned = if self.start() >= self.input.len() {
            self.input.clear();
            self.start = 0;
            self.unreturned
        } else {
            self.unreturned.min(u32::try_from(count).unwrap_or(u32::MAX))
        };
        self.unreturned -= returned;
        returned
    }

    /// Removes consumed bytes from the input and returns it.
    fn compact(&mut self) -> &mut Vec<u8> {
        if self.start > 0 {
            self.input.drain(..self.start as usize);
            self.start = 0;
        }
        &mut self.input
    }

    /// Shrinks the input's memory to its content. Returns the number of bytes freed.
    fn shrink(&mut self) -> usize {
        let input = self.compact();
        let before = input.capacity();
        input.shrink_to_fit();
        before - input.capacity()
    }
}

/// Why no head is available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoHead {
    /// The start line is invalid.
    Invalid,
    /// The stream or its connection failed.
    Failed(ConnectionFault),
    /// The stream does not exist any more.
    Gone,
    /// The head does not fit the buffer.
    TooLarge,
}

/// The identifier of an unopened stream. HTTP/2 reserves 0 for the connection.
pub(super) const UNOPENED: u32 = 0;
