//! One stream of a connection that carries several: a request of HTTP/2 and its response.
//!
//! What the peer sends of it waits here until the stream takes it, and only then may the peer send more. A body whose length
//! was not announced is kept in chunks: that is how the rest of this crate moves what ends when it ends, and what a server of
//! HTTP/1 gets as it is. What the stream sends is a response of HTTP/1, head and body; its framing is taken off again here:
//!
//! ```text
//!   AwaitingHead ──head──► Counted | Chunks | Raw ──the last byte──► Ended
//!       ▲    │ 1xx
//!       └────┘
//! ```

use std::rc::Rc;

use weir_h1::{ChunkDecoder, Parser, Piece};
use weir_h2::{ErrorCode, ReceivedHead, Verdict};
use weir_http::{BodySize, Flags, Head, Method};
use weir_net::{Fault, Received, Sent};
use weir_sys::Errno;

use crate::multiplexer::{Multiplexer, rooms};

/// One stream of a shared connection. Dropping it ends the stream for the peer too.
#[derive(Debug)]
pub struct SharedStream {
    multiplexer: Rc<Multiplexer>,
    id: u32,
    /// What came and was not consumed: bytes from `start` on.
    input: Vec<u8>,
    start: usize,
    /// Payload among them that the peer was not told of yet.
    unreturned: u32,
    /// The peer's last byte is in `input`, or was.
    ended: bool,
    method: Method,
    response: Response,
    /// Payload that the windows did not admit, from `sent_of_pending` on.
    pending: Vec<u8>,
    sent_of_pending: usize,
    /// The last byte of the response is in `pending`.
    pending_ends: bool,
    /// Bytes of this stream's heads and payload.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// How far the response is.
#[derive(Debug)]
enum Response {
    AwaitingHead,
    /// That many bytes of payload are still to come.
    Counted(u64),
    Chunks(Box<Chunks>),
    /// Everything until [`SharedStream::complete`].
    Raw,
    Ended,
}

/// A chunked coding that is taken off.
#[derive(Debug, Default)]
struct Chunks {
    decoder: ChunkDecoder,
    trailers: Vec<u8>,
}

impl SharedStream {
    pub(crate) fn new(multiplexer: Rc<Multiplexer>, id: u32) -> Self {
        SharedStream {
            multiplexer,
            id,
            input: Vec::new(),
            start: 0,
            unreturned: 0,
            ended: false,
            method: Method::Other,
            response: Response::AwaitingHead,
            pending: Vec::new(),
            sent_of_pending: 0,
            pending_ends: false,
            received: 0,
            sent: 0,
        }
    }

    /// The connection that carries it.
    pub fn multiplexer(&self) -> &Multiplexer {
        &self.multiplexer
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// The number of the error that the peer reset it with, if it did.
    pub fn abort_code(&self) -> Option<u32> {
        self.multiplexer.abort_code(self.id)
    }

    /// What it is at, in `name=value`, for experts.
    pub fn summary(&self) -> String {
        let windows = self.multiplexer.windows(self.id);
        let (waits, pending) = (self.input().len(), self.pending.len() - self.sent_of_pending);
        let response = match &self.response {
            Response::AwaitingHead => "awaited",
            Response::Counted(_) => "counted",
            Response::Chunks(_) => "chunked",
            Response::Raw => "raw",
            Response::Ended => "ended",
        };
        let ended = u8::from(self.ended);
        match windows {
            Some((receive, send)) => format!(
                "ended={ended} in={waits} out={pending} response={response} receive_window={receive} send_window={send}"
            ),
            None => format!("ended={ended} in={waits} out={pending} response={response} closed"),
        }
    }

    /// Takes the request's head, once.
    pub(crate) fn take_request(&mut self, head: &mut Head, bytes: &mut Vec<u8>) -> Result<(), NoHead> {
        if self.fault().is_some() {
            return Err(NoHead::Gone);
        }
        let Some(mut request) = self.multiplexer.take_request(self.id) else { return Err(NoHead::Gone) };
        let ReceivedHead { head: taken, bytes: taken_bytes, verdict } = &mut *request;
        std::mem::swap(head, taken);
        std::mem::swap(bytes, taken_bytes);
        let verdict = *verdict;
        rooms::give(request);
        self.received = bytes.len() as u64;
        self.method = head.method();
        if verdict == Verdict::TooLarge {
            return Err(NoHead::TooLarge);
        }
        // Its version is no server's of HTTP/1: it is always written for whom it goes to.
        head.note(Flags::MUST_REWRITE);
        Ok(())
    }

    pub(crate) fn input(&self) -> &[u8] {
        &self.input[self.start..]
    }

    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count.min(self.input.len() - self.start);
        let returned = if self.start >= self.input.len() {
            self.input.clear();
            self.start = 0;
            self.unreturned
        } else {
            self.unreturned.min(u32::try_from(count).unwrap_or(u32::MAX))
        };
        if returned > 0 {
            self.unreturned -= returned;
            self.multiplexer.consumed(self.id, returned);
        }
    }

    /// See [`weir_net::Connection::shorten_input`].
    pub(crate) fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        let held = self.input.len();
        let (result, useless) = edit(&mut self.input[(self.start + from).min(held)..]);
        self.input.truncate(held - useless.min(held - self.start));
        self.consume(0);
        result
    }

    /// Takes over what came, unless `limit` bytes are held.
    pub(crate) fn receive(&mut self, limit: usize) -> Received {
        if self.input().len() >= limit {
            return Received::Full;
        }
        if self.start > 0 {
            self.input.drain(..self.start);
            self.start = 0;
        }
        let arrived = self.multiplexer.take_arrived(self.id, &mut self.input);
        self.ended |= arrived.ended;
        self.unreturned += arrived.payload;
        self.received += u64::from(arrived.payload);
        match arrived {
            arrived if arrived.bytes > 0 => Received::Bytes(arrived.bytes),
            _ if self.ended => Received::End,
            _ => self.fault().map_or(Received::Nothing, Received::Failed),
        }
    }

    /// Whether the peer's last byte was taken over.
    pub(crate) fn ended(&self) -> bool {
        self.ended
    }

    /// Whether nobody is there any more who could send, though what was sent may be there.
    pub(crate) fn peer_closed(&self) -> bool {
        self.multiplexer.peer_closed()
    }

    /// What ended it before its time.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.multiplexer.fault(self.id)
    }

    /// Whether memory is kept that is of no use.
    pub(crate) fn has_slack(&self) -> bool {
        self.input.capacity() > 2 * self.input.len() + SLACK
    }

    pub(crate) fn shrink_input(&mut self) {
        self.input.drain(..self.start);
        self.start = 0;
        self.input.shrink_to_fit();
    }

    pub(crate) fn has_pending(&self) -> bool {
        self.sent_of_pending < self.pending.len()
            || (self.pending_ends && !matches!(self.response, Response::Ended))
    }

    /// Whether it takes nothing now, or no payload; then it is woken when it does.
    pub(crate) fn is_full(&self, payload: bool) -> bool {
        self.multiplexer.is_full(self.id, payload)
    }

    /// Whether its peer, and not this end's pace, is what it waits for.
    pub(crate) fn is_slow(&self) -> bool {
        self.multiplexer.is_slow(self.id)
    }

    /// Whether our last byte was given to the connection.
    pub(crate) fn shut(&self) -> bool {
        matches!(self.response, Response::Ended)
    }

    /// Sends the head of a response, interim or final. It never waits for a window.
    pub(crate) fn send_message(&mut self, head: &Head, raw: &[u8]) -> Sent {
        let status = head.status();
        // It accepts what an extended CONNECT asked for (RFC 8441).
        let interim = (100..200).contains(&status) && status != 101;
        let size = BodySize::of_response(head, self.method);
        let ends = !interim && size == BodySize::None;
        let Some(count) = self.multiplexer.send_head(self.id, head, raw, ends) else { return self.failed() };
        self.sent += count as u64;
        if !interim {
            self.response = match size {
                BodySize::None => Response::Ended,
                BodySize::Known(length) => Response::Counted(length),
                BodySize::Unknown if head.flags().contains(Flags::CHUNKED) => {
                    Response::Chunks(Box::default())
                }
                BodySize::Unknown | BodySize::Tunnel => Response::Raw,
            };
        }
        Sent::All
    }

    /// Sends bytes of a response of HTTP/1: all of them are taken, and what the windows do not admit is pending.
    pub(crate) fn send_head(&mut self, bytes: &[u8]) -> Sent {
        let mut rest = bytes;
        while matches!(self.response, Response::AwaitingHead) && !rest.is_empty() {
            let mut head = Head::new();
            let options = weir_h1::Options { accept_unsafe_violations: true, ..weir_h1::Options::default() };
            let weir_h1::Progress::Complete { head_len } =
                Parser::default().response(rest, &options, &mut head)
            else {
                // Only heads that were written here come this way.
                return self.failed();
            };
            match self.send_message(&head, rest) {
                Sent::All => rest = &rest[head_len..],
                other => return other,
            }
        }
        if !self.take(rest) {
            return self.failed();
        }
        match self.flush() {
            Sent::Part(_) => Sent::Part(bytes.len()),
            other => other,
        }
    }

    /// Sends bytes of the response's body, in its framing: as many as the windows admit at once.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Sent {
        match self.flush() {
            Sent::All => {}
            Sent::Part(_) => return Sent::Part(0),
            failed => return failed,
        }
        let mut done = 0;
        while done < bytes.len() {
            let Some(open) = self.multiplexer.room(self.id) else { return self.failed() };
            if open == 0 {
                self.multiplexer.await_room(self.id);
                return Sent::Part(done);
            }
            // Framing is taken off, so what leaves is no more than this.
            let piece = &bytes[done..][..open.min(bytes.len() - done)];
            if !self.take(piece) {
                return self.failed();
            }
            done += piece.len();
            match self.flush() {
                Sent::All => {}
                Sent::Part(_) => return Sent::Part(done),
                failed => return failed,
            }
        }
        Sent::All
    }

    /// Takes the framing off and sends the payload; false if it is none.
    fn take(&mut self, bytes: &[u8]) -> bool {
        match &mut self.response {
            Response::AwaitingHead => bytes.is_empty(),
            // Nobody reads what a response may not have.
            Response::Ended => true,
            Response::Raw => {
                self.put(bytes, false);
                true
            }
            Response::Counted(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= count as u64;
                let ends = *left == 0;
                self.put(&bytes[..count], ends);
                true
            }
            Response::Chunks(_) => self.take_chunks(bytes),
        }
    }

    fn take_chunks(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        loop {
            let Response::Chunks(chunks) = &mut self.response else { return true };
            match chunks.decoder.piece(rest) {
                Ok(Piece::Payload(place)) => {
                    let end = place.end;
                    self.put(&rest[place], false);
                    rest = &rest[end..];
                }
                Ok(Piece::Trailers(place)) => {
                    chunks.trailers.extend_from_slice(&rest[place.clone()]);
                    rest = &rest[place.end..];
                }
                Ok(Piece::Extension(place)) => rest = &rest[place.end..],
                Ok(Piece::More) => return true,
                Ok(Piece::Done(_)) => {
                    self.put(b"", true);
                    return true;
                }
                Err(_) => return false,
            }
        }
    }

    /// Sends payload, or keeps what the windows do not admit.
    fn put(&mut self, payload: &[u8], ends: bool) {
        let mut taken = 0;
        if self.sent_of_pending >= self.pending.len() {
            taken = self.send_now(payload, ends);
        }
        if taken < payload.len() {
            self.pending.extend_from_slice(&payload[taken..]);
        }
        self.pending_ends |= ends;
    }

    /// How much of it left; if all of it did and it is the last, the response ended.
    fn send_now(&mut self, payload: &[u8], ends: bool) -> usize {
        let trailers = match &mut self.response {
            Response::Chunks(chunks) if ends => std::mem::take(&mut chunks.trailers),
            _ => Vec::new(),
        };
        let sent = self.multiplexer.send_data(self.id, payload, ends && trailers.is_empty());
        self.sent += sent as u64;
        if ends && sent == payload.len() {
            if !trailers.is_empty() {
                self.multiplexer.send_trailers(self.id, &trailers);
            }
            self.response = Response::Ended;
        } else if let Response::Chunks(chunks) = &mut self.response {
            chunks.trailers = trailers;
        }
        sent
    }

    /// Sends what is pending.
    pub(crate) fn flush(&mut self) -> Sent {
        if !self.has_pending() {
            return Sent::All;
        }
        if self.multiplexer.room(self.id).is_none() {
            return self.failed();
        }
        let pending = std::mem::take(&mut self.pending);
        let sent = self.send_now(&pending[self.sent_of_pending..], self.pending_ends);
        self.sent_of_pending += sent;
        if self.sent_of_pending < pending.len() {
            self.pending = pending;
            self.multiplexer.await_room(self.id);
            return Sent::Part(sent);
        }
        self.sent_of_pending = 0;
        Sent::All
    }

    /// The body is over: what had no other end ends here.
    pub(crate) fn complete(&mut self) -> Sent {
        if matches!(self.response, Response::Raw) && !self.pending_ends {
            self.put(b"", true);
        }
        self.flush()
    }

    fn failed(&self) -> Sent {
        Sent::Failed(self.fault().unwrap_or(Fault::Io(Errno::PIPE)))
    }
}

impl Drop for SharedStream {
    fn drop(&mut self) {
        let code = match &self.response {
            // The peer need not go on with its request (RFC 9113, 8.1).
            Response::Ended => ErrorCode::NoError,
            Response::AwaitingHead => ErrorCode::Cancel,
            _ => ErrorCode::Internal,
        };
        self.multiplexer.leave_stream(self.id, self.unreturned, code);
    }
}

/// Why there is no head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoHead {
    /// The stream is no more.
    Gone,
    /// It does not fit.
    TooLarge,
}

/// What a stream may keep beside its bytes.
const SLACK: usize = 1024;
