//! One HTTP/1 message head: read from a connection, kept while the exchange lasts, written to the other connection.

use std::sync::Arc;

use weir_h1::{HeadParser, HeadProgress};
use weir_http::{CaseMap, Head, Kind, KnownName};
use weir_net::shortage::make_room;
use weir_net::{ConnectionFault, ReceiveOutcome, SendOutcome};

use crate::application::{ApplicationStream, NoCgiHead};
use crate::connector::{Indirect, StreamConnector};
use crate::multiplexer::NoHead;
use crate::way::BodyWay;

pub use weir_h1::{HeadError, HeadErrorKind, ParseOptions as HeadOptions};

/// A head and the bytes it was read from.
///
/// The bytes are a copy: a head is small, and with its own copy it outlives the receive buffer, which is then used for
/// the body. Reused from one exchange to the next.
#[derive(Debug, Default)]
pub struct Message {
    /// The index over `bytes`, with the edits that rules made.
    pub head: Head,
    bytes: Vec<u8>,
    /// Parser state of HTTP/1 messages. Boxed, because hundreds of HTTP/2 messages may wait on one connection.
    reading: Option<Box<HeadReading>>,
    /// The case of field names for the next hop (`h1-case-adjust`).
    case: Option<Arc<CaseMap>>,
}

/// A head that is read from the input of an HTTP/1 connection.
#[derive(Debug, Default)]
struct HeadReading {
    parser: HeadParser,
    /// Bytes of the head at the front of the connection's input. 0 once they were consumed or forwarded.
    unconsumed: usize,
}

// Every stream has one, in a block of this size. With eight bytes more it takes 32 more.
const _: () = assert!(size_of::<Message>() <= 160);

/// The result of reading a connection's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadHead {
    /// The head is complete.
    Complete,
    /// More bytes are needed, and none are available now.
    Incomplete,
    /// The peer closed in the middle of a head, or before it.
    Ended,
    /// The start line does not fit the buffer.
    StartLineTooLarge,
    /// The head does not fit the buffer.
    TooLarge,
    /// The head breaks the protocol.
    Invalid(HeadError),
    Failed(ConnectionFault),
}

impl Message {
    /// A message that accepts `max_fields` fields (`tune.http.maxhdr`).
    pub fn new(max_fields: u16) -> Self {
        Message { head: Head::with_limits(max_fields, Head::DEFAULT_MAX_EDITS), ..Message::default() }
    }

    /// Clears the message and keeps its allocations.
    #[inline]
    pub fn clear(&mut self) {
        self.head.clear();
        self.bytes.clear();
        if let Some(reading) = &mut self.reading {
            reading.parser.reset();
            reading.unconsumed = 0;
        }
        self.case = None;
    }

    /// Bytes of memory that [`clear`](Self::clear) keeps allocated.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.head.capacity()
    }

    /// Frees unused memory for a stream that waits. Moves the head only if that saves at least `WORTH_A_COPY` bytes.
    pub fn shrink(&mut self) {
        self.head.shrink_to_fit();
        if self.unconsumed() == 0 {
            self.reading = None;
        }
        if self.bytes.capacity() - self.bytes.len() < WORTH_A_COPY {
            return;
        }
        // The allocator would leave a block of twice the size where it is.
        let mut bytes = Vec::new();
        if bytes.try_reserve_exact(self.bytes.len()).is_ok() {
            bytes.extend_from_slice(&self.bytes);
            self.bytes = bytes;
        }
    }

    /// From now until it is cleared, the message is written with field names in the case of this map.
    pub fn adjust_case(&mut self, case: Option<Arc<CaseMap>>) {
        self.case = case;
    }

    /// The bytes that the head's index refers to.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The head, mutable, with the bytes that its index refers to.
    pub fn edit(&mut self) -> (&mut Head, &[u8]) {
        (&mut self.head, &self.bytes)
    }

    /// Whether any byte of the head was received.
    pub fn has_begun(&self) -> bool {
        // An HTTP/2 head arrives as a whole, even one that is refused.
        self.reading.as_ref().is_some_and(|reading| reading.parser.has_begun()) || !self.bytes.is_empty()
    }

    /// Reads a request head of at most `limit` bytes (`tune.bufsize` less `tune.maxrewrite`).
    pub fn read_request(
        &mut self,
        from: &mut StreamConnector,
        options: &HeadOptions,
        limit: usize,
    ) -> ReadHead {
        self.read(from, limit, |parser, raw, head| parser.request(raw, options, head))
    }

    /// Reads a response head of at most `limit` bytes.
    pub fn read_response(
        &mut self,
        from: &mut StreamConnector,
        options: &HeadOptions,
        limit: usize,
    ) -> ReadHead {
        self.read(from, limit, |parser, raw, head| parser.response(raw, options, head))
    }

    #[inline]
    fn read(
        &mut self,
        from: &mut StreamConnector,
        limit: usize,
        mut look: impl FnMut(&mut HeadParser, &[u8], &mut Head) -> HeadProgress,
    ) -> ReadHead {
        let from = match from {
            StreamConnector::Own(from) => from,
            StreamConnector::Indirect(Indirect::Application(from)) => {
                return self.read_application(from, limit, &mut look);
            }
            other => return self.read_shared(other),
        };
        let HeadReading { parser, unconsumed } = &mut **self.reading.get_or_insert_default();
        // The input may already hold a whole head (pipelining): parse before receiving.
        let mut fresh = !from.input().is_empty();
        loop {
            if fresh {
                match look(parser, from.input(), &mut self.head) {
                    HeadProgress::Complete { head_len } => {
                        self.bytes.clear();
                        if !make_room(&mut self.bytes, head_len) {
                            return ReadHead::Failed(ConnectionFault::Shortage);
                        }
                        self.bytes.extend_from_slice(&from.input()[..head_len]);
                        *unconsumed = head_len;
                        return ReadHead::Complete;
                    }
                    HeadProgress::Error(error) => return ReadHead::Invalid(error),
                    HeadProgress::Incomplete => {}
                }
            }
            match from.receive(limit) {
                ReceiveOutcome::Bytes(_) => fresh = true,
                ReceiveOutcome::Nothing => return ReadHead::Incomplete,
                ReceiveOutcome::End => return ReadHead::Ended,
                ReceiveOutcome::Full if parser.has_start_line() => return ReadHead::TooLarge,
                ReceiveOutcome::Full => return ReadHead::StartLineTooLarge,
                ReceiveOutcome::Failed(fault) => return ReadHead::Failed(fault),
            }
        }
    }

    /// Takes the decoded head of an HTTP/2 stream. A local service does not send a head.
    #[cold]
    fn read_shared(&mut self, from: &mut StreamConnector) -> ReadHead {
        let StreamConnector::Indirect(Indirect::Shared(shared)) = from else { return ReadHead::Ended };
        let taken = match shared.sends_requests() {
            true => shared.take_response(&mut self.head, &mut self.bytes),
            false => shared.take_request(&mut self.head, &mut self.bytes).map(|()| true),
        };
        match taken {
            Ok(true) => ReadHead::Complete,
            Ok(false) => ReadHead::Incomplete,
            Err(NoHead::TooLarge) => ReadHead::TooLarge,
            Err(NoHead::Invalid) => {
                ReadHead::Invalid(HeadError { kind: HeadErrorKind::InvalidMethod, position: 0 })
            }
            Err(NoHead::Gone) => ReadHead::Ended,
            Err(NoHead::Failed(fault)) => ReadHead::Failed(fault),
        }
    }

    /// Takes the head of an application's response (RFC 3875, 6), and reads it as one of HTTP/1.1.
    #[inline(never)]
    fn read_application(
        &mut self,
        from: &mut ApplicationStream,
        limit: usize,
        look: &mut dyn FnMut(&mut HeadParser, &[u8], &mut Head) -> HeadProgress,
    ) -> ReadHead {
        self.bytes.clear();
        match from.take_head(limit, &mut self.bytes) {
            Ok(()) => {}
            Err(NoCgiHead::Awaited) => return ReadHead::Incomplete,
            Err(NoCgiHead::TooLarge) => return ReadHead::TooLarge,
            Err(NoCgiHead::Shortage) => return ReadHead::Failed(ConnectionFault::Shortage),
            Err(NoCgiHead::Ended) => return ReadHead::Ended,
            Err(NoCgiHead::Invalid) => return ReadHead::Invalid(NO_CGI_HEAD),
        }
        let HeadReading { parser, .. } = &mut **self.reading.get_or_insert_default();
        match look(parser, &self.bytes, &mut self.head) {
            HeadProgress::Complete { .. } => {}
            HeadProgress::Error(error) => return ReadHead::Invalid(error),
            HeadProgress::Incomplete => return ReadHead::Invalid(NO_CGI_HEAD),
        }
        // A document response is final (RFC 3875, 6.2.1), and an application cannot change the protocol.
        if self.head.status() < 200 {
            return ReadHead::Invalid(NO_CGI_HEAD);
        }
        // The connection is not the application's.
        for name in [KnownName::Upgrade, KnownName::KeepAlive] {
            self.head.remove_known(name);
        }
        ReadHead::Complete
    }

    /// Parses a whole head from bytes (an error file, a test). Returns its length in bytes, or `None` if it is invalid or incomplete.
    pub fn read_kept(&mut self, kind: Kind, bytes: &[u8]) -> Option<usize> {
        self.clear();
        let options = HeadOptions { accept_unsafe_violations: true, ..HeadOptions::default() };
        let HeadReading { parser, .. } = &mut **self.reading.get_or_insert_default();
        match parse(parser, kind, bytes, &options, &mut self.head) {
            HeadProgress::Complete { head_len } => {
                self.bytes.extend_from_slice(&bytes[..head_len]);
                Some(head_len)
            }
            _ => None,
        }
    }

    /// The error that strict parsing reports for this head. `None` if the head is valid.
    pub fn violation(&self) -> Option<HeadError> {
        let mut head = Head::with_limits(u16::MAX, u32::MAX);
        let options = HeadOptions { accept_fragment: true, ..HeadOptions::default() };
        match parse(&mut HeadParser::default(), self.head.kind(), &self.bytes, &options, &mut head) {
            HeadProgress::Error(error) => Some(error),
            _ => None,
        }
    }

    /// Consumes the head from the connection's input, unless it was consumed or forwarded already.
    pub fn detach(&mut self, from: &mut StreamConnector) {
        from.consume(self.take_unconsumed());
    }

    /// Bytes of this head at the front of the connection's input. 0 once they were consumed or forwarded.
    pub fn unconsumed(&self) -> usize {
        self.reading.as_ref().map_or(0, |reading| reading.unconsumed)
    }

    #[inline]
    fn take_unconsumed(&mut self) -> usize {
        self.reading.as_mut().map_or(0, |reading| std::mem::take(&mut reading.unconsumed))
    }

    /// Bytes of this head at the front of the input that can be forwarded to `to` unchanged. 0 if the head was edited,
    /// detached or preceded by empty lines, if it changes case, or if `to` does not use HTTP/1.
    pub fn verbatim(&mut self, to: &StreamConnector) -> usize {
        let as_it_came =
            matches!(to, StreamConnector::Own(_)) && !self.is_rewritten() && self.head.start() == 0;
        if as_it_came { self.take_unconsumed() } else { 0 }
    }

    fn is_rewritten(&self) -> bool {
        self.head.is_edited() || self.case.is_some()
    }

    /// Appends the serialized head to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.head.write_adjusted(&self.bytes, self.case.as_deref(), out);
    }

    /// Sends the head, serialized if it was edited. After a `Part` the connection keeps the rest pending.
    pub fn send(&mut self, to: &mut StreamConnector, scratch: &mut Vec<u8>, more: bool) -> SendOutcome {
        match to {
            StreamConnector::Indirect(Indirect::Shared(to)) => {
                return to.send_message(&self.head, &self.bytes);
            }
            StreamConnector::Indirect(Indirect::Application(to)) => return to.send_message(&self.head),
            _ => {}
        }
        if !self.is_rewritten() {
            return to.send_head(self.head.raw_bytes(&self.bytes), more);
        }
        scratch.clear();
        self.write(scratch);
        to.send_head(scratch, more)
    }

    /// Sends the head and a whole body. The connector queues the bytes that do not fit. `closes` is the `more` flag of [`Connection::send`].
    ///
    /// [`Connection::send`]: weir_net::Connection::send
    pub fn send_whole(
        &mut self,
        to: &mut StreamConnector,
        body: &[u8],
        scratch: &mut Vec<u8>,
        closes: bool,
    ) -> SendOutcome {
        self.send_framed(to, BodyWay::Payload, (body, b""), scratch, closes)
    }

    /// [`send_whole`](Self::send_whole) for a body with trailers, framed as `way`.
    pub(crate) fn send_framed(
        &mut self,
        to: &mut StreamConnector,
        mut way: BodyWay,
        (payload, trailers): (&[u8], &[u8]),
        scratch: &mut Vec<u8>,
        closes: bool,
    ) -> SendOutcome {
        if let StreamConnector::Indirect(Indirect::Shared(to)) = to {
            return match to.send_message(&self.head, &self.bytes) {
                SendOutcome::All => to.send_rest(payload, trailers),
                other => other,
            };
        }
        if let StreamConnector::Indirect(Indirect::Application(to)) = to {
            return match to.open(&self.head) {
                // A request without a body ends with its parameters.
                SendOutcome::All if to.shut() => to.flush(),
                SendOutcome::All => to.send_pending(payload, true),
                other => other,
            };
        }
        scratch.clear();
        self.write(scratch);
        way.write(payload, false, scratch);
        way.write_end(trailers, scratch);
        to.send_head(scratch, closes)
    }
}

/// The error of output that is not the head of a response.
const NO_CGI_HEAD: HeadError = HeadError { kind: HeadErrorKind::InvalidStatus, position: 0 };
/// Minimum spare capacity, in bytes, for which a head is moved to a smaller allocation.
const WORTH_A_COPY: usize = 64;

fn parse(
    parser: &mut HeadParser,
    kind: Kind,
    bytes: &[u8],
    options: &HeadOptions,
    head: &mut Head,
) -> HeadProgress {
    match kind {
        Kind::Request => parser.request(bytes, options, head),
        Kind::Response => parser.response(bytes, options, head),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrink_moves_a_head_to_a_smaller_allocation() {
        let text = b"GET /a?b HTTP/1.1\r\nHost: x\r\nAccept: y\r\n\r\n";
        let mut message = Message::default();
        message.bytes.reserve(500);
        assert_eq!(message.read_kept(Kind::Request, text), Some(text.len()));
        message.shrink();
        assert_eq!((message.bytes.capacity(), message.bytes()), (text.len(), &text[..]));
        assert_eq!(message.head.find(message.bytes(), b"accept", 1), Some(&b"y"[..]));
        let place = message.bytes.as_ptr();
        message.bytes.reserve_exact(WORTH_A_COPY - 1);
        message.shrink();
        assert!(message.bytes.capacity() > text.len() || message.bytes.as_ptr() == place, "not worth a copy");
    }
}
