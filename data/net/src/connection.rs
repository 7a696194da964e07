//! One end of an exchange: a descriptor, the bytes that came and were not used yet, and what is left to send.

pub mod tls_count;
pub(crate) mod transport;

use weir_containers::{Buffer, BufferPool};
use weir_sched::{Descriptor, Received as Raw, Sent as RawSent, Tick};
use weir_sys::splice::Pipe;

use crate::fault::Fault;
use crate::shortage::{Right, Turn};
use transport::Transport;

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// That many more bytes are in [`Connection::input`].
    Bytes(usize),
    /// Nothing now, or no buffer for it: wait for an event.
    Nothing,
    /// The peer will not send any more.
    End,
    /// The input buffer is full.
    Full,
    /// The connection is broken.
    Failed(Fault),
}

/// What became of bytes to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// All of them left.
    All,
    /// That many left, then the peer's window was full: wait for an event.
    Part(usize),
    /// The connection is broken.
    Failed(Fault),
}

/// A connection and its buffers. Dropping it closes the descriptor.
///
/// `input` is held only while it holds bytes. `pending` holds what must leave before anything else: the rest of a head
/// that did not fit the socket's buffer.
#[derive(Debug)]
pub struct Connection {
    descriptor: Descriptor,
    input: Option<Buffer>,
    /// What few connections have. Boxed, because every idle one would hold the place for it.
    beside: Option<Box<Beside>>,
    ended: bool,
    shut: bool,
    /// Held while it waits for a buffer to receive into.
    turn: Turn,
    /// May use the buffers that were set aside.
    privileged: bool,
    broken: Option<Fault>,
    /// Nothing can be sent any more. What the peer sent before it closed may still be there.
    write_error: Option<Fault>,
    /// Bytes received since the connection was made.
    pub received: u64,
    /// Bytes sent since the connection was made.
    pub sent: u64,
}

/// What a full buffer takes beside its bytes.
const PIECE_MARGIN: usize = 16;

/// What few connections have: bytes that must leave before anything else, or a TLS session. One of the two at least.
#[derive(Debug, Default)]
struct Beside {
    pending: Pending,
    tls: Option<Transport>,
}

/// What must leave before anything else.
#[derive(Debug, Default)]
struct Pending {
    bytes: Vec<u8>,
    start: usize,
}

impl Pending {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn is_empty(&self) -> bool {
        self.start >= self.bytes.len()
    }

    /// That many more bytes have left.
    fn left(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = Pending::default();
        }
    }
}

/// How full the buffers of a connection are, for traces: an empty one explains why nothing is parsed, a full one why
/// nothing is received (R191).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Where the first byte that came and was not consumed is in its buffer.
    pub head: usize,
    /// Where the next one that comes goes.
    pub tail: usize,
    /// How much the buffer holds; 0 while there is none.
    pub size: usize,
    /// Bytes that were to leave and did not fit.
    pub pending: usize,
}

impl std::fmt::Display for Fill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Fill { head, tail, size, pending } = *self;
        write!(f, "in={}/{size} head={head} tail={tail} out={pending}", tail - head)
    }
}

impl Connection {
    /// A connection over a registered descriptor.
    pub fn new(descriptor: Descriptor) -> Self {
        Connection {
            descriptor,
            input: None,
            beside: None,
            ended: false,
            shut: false,
            turn: Turn::default(),
            privileged: false,
            broken: None,
            write_error: None,
            received: 0,
            sent: 0,
        }
    }

    /// The descriptor below.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Gives the descriptor away; bytes that wait are lost.
    pub fn into_descriptor(self) -> Descriptor {
        self.descriptor
    }

    /// The bytes that came and were not consumed.
    #[inline]
    pub fn input(&self) -> &[u8] {
        self.input.as_deref().unwrap_or_default()
    }

    /// How full its buffers are.
    pub fn fill(&self) -> Fill {
        let pending = self.beside.as_ref().map_or(0, |beside| beside.pending.rest().len());
        let Some(buffer) = &self.input else { return Fill { pending, ..Fill::default() } };
        let head = buffer.headroom();
        Fill { head, tail: head + buffer.len(), size: buffer.capacity(), pending }
    }

    /// What holds of it, in words.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        [
            ("readable", self.descriptor.is_readable()),
            ("writable", self.descriptor.is_writable()),
            ("peer-closed", self.descriptor.peer_closed()),
            ("hung-up", self.descriptor.is_hung_up()),
            ("error", self.descriptor.has_error()),
            ("ended", self.ended),
            ("shut", self.shut),
            ("broken", self.broken.is_some()),
            ("write-error", self.write_error.is_some()),
            ("tls", self.tls().is_some()),
        ]
        .into_iter()
        .filter_map(|(word, holds)| holds.then_some(word))
    }

    /// Drops `count` bytes from the front of the input; an empty buffer goes back to the pool.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let Some(buffer) = &mut self.input else { return };
        buffer.consume(count.min(buffer.len()));
        if buffer.is_empty() {
            self.input = None;
        }
    }

    /// Shows the input from `from` on to `edit`, which may move bytes to its front: how many at the end are of no use
    /// then is the second that it returns.
    pub fn shorten_input<R>(&mut self, from: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        let Some(buffer) = &mut self.input else { return edit(&mut []).0 };
        let held = buffer.len();
        let (result, useless) = edit(&mut buffer[from.min(held)..]);
        buffer.truncate(held - useless.min(held));
        if buffer.is_empty() {
            self.input = None;
        }
        result
    }

    /// Whether the bytes that wait take more memory than they need.
    #[inline]
    pub fn has_slack(&self) -> bool {
        self.input.as_ref().is_some_and(Buffer::has_slack)
    }

    /// Keeps the bytes that wait in no more memory than they need: for who waits for long.
    #[inline]
    pub fn shrink_input(&mut self) {
        if let Some(buffer) = &mut self.input {
            buffer.shrink();
        }
    }

    /// Puts bytes before anything that comes: what a protocol engine took and did not use.
    pub fn unread(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut buffer =
            Buffer::with_capacity(BufferPool::buffer_size().max(bytes.len() + self.input().len()));
        buffer.append(bytes);
        buffer.append(self.input());
        self.input = Some(buffer);
    }

    /// Whether the peer said that it sends no more.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether the poller said that the peer sends no more; what it sent before may still wait to be received.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.ended || self.descriptor.peer_closed()
    }

    /// Whether the connection is dead in both directions.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.fault().is_some() || self.descriptor.has_error() || self.descriptor.is_hung_up()
    }

    /// Whether we said that we send no more.
    pub fn shut(&self) -> bool {
        self.shut
    }

    /// What broke the connection, if something did.
    pub fn fault(&self) -> Option<Fault> {
        self.broken.or(self.write_error)
    }

    /// Whether a head's rest still waits to be sent.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.pending.is_empty())
    }

    /// Whether nothing came and receiving would find nothing.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.input.is_none()
            && !self.descriptor.is_readable()
            && !self.ended
            && self.broken.is_none()
            && self.write_error.is_none()
            && self.beside.as_ref().is_none_or(|beside| !beside.holds_input())
    }

    /// Receives into the input buffer, at most up to `limit` bytes held in all.
    #[inline]
    pub fn receive(&mut self, limit: usize) -> Received {
        if let Some(fault) = self.broken {
            return Received::Failed(fault);
        }
        if self.ended {
            return Received::End;
        }
        // When a send failed the poller may not have told yet what is there to be read.
        if !self.descriptor.is_readable() && self.write_error.is_none() {
            return self.receive_held(limit);
        }
        self.receive_now(limit)
    }

    /// The socket has nothing: a TLS session may.
    #[inline]
    fn receive_held(&mut self, limit: usize) -> Received {
        match &self.beside {
            Some(beside) if beside.holds_input() => self.receive_now(limit),
            _ => Received::Nothing,
        }
    }

    fn receive_now(&mut self, limit: usize) -> Received {
        let buffer = match &mut self.input {
            Some(buffer) => buffer,
            None => {
                let Some(buffer) = self.take_buffer() else { return Received::Nothing };
                self.input.insert(buffer)
            }
        };
        if buffer.len() >= limit {
            return Received::Full;
        }
        // What was consumed in front is room too, but worth a move only when there is little left behind.
        if buffer.headroom() > 0
            && (buffer.room() == 0 || buffer.headroom() + buffer.room() >= 2 * buffer.len())
        {
            buffer.compact();
        }
        let allowed = limit - buffer.len();
        let space = buffer.space();
        let length = space.len().min(allowed);
        if length == 0 {
            return self.receive_in_larger(limit);
        }
        if let Some(beside) = &self.beside
            && beside.tls.is_some()
        {
            return self.receive_opened(allowed);
        }
        let outcome = match self.descriptor.receive_into(&mut space[..length]) {
            Ok(Raw::Bytes(count)) => {
                buffer.fill(count);
                self.received += count as u64;
                return Received::Bytes(count);
            }
            Ok(Raw::End) => {
                self.ended = true;
                Received::End
            }
            Ok(Raw::Blocked) => Received::Nothing,
            Ok(Raw::Full) => Received::Full,
            Err(errno) => {
                let fault = Fault::from(errno);
                self.broken = Some(fault);
                Received::Failed(fault)
            }
        };
        if buffer.is_empty() {
            self.input = None;
        }
        outcome
    }

    /// The input has no room: perhaps because it was shrunk.
    #[cold]
    fn receive_in_larger(&mut self, limit: usize) -> Received {
        if self.input().len() >= BufferPool::buffer_size() {
            return Received::Full;
        }
        let Some(mut larger) = self.take_buffer() else { return Received::Nothing };
        larger.append(self.input());
        self.input = Some(larger);
        self.receive_now(limit)
    }

    /// A buffer; without one the current task is woken when there may be one.
    #[inline]
    fn take_buffer(&mut self) -> Option<Buffer> {
        if self.turn.is_held() {
            return self.take_in_turn();
        }
        Buffer::take().ok().or_else(|| self.take_in_turn())
    }

    /// What was handed to it while it waited, else one that was set aside, if it may have that.
    #[cold]
    fn take_in_turn(&mut self) -> Option<Buffer> {
        let right = if self.privileged { Right::Aside } else { Right::Common };
        if let Some(handed) = self.turn.wait_on(right) {
            return Some(handed);
        }
        let aside = if self.privileged { Buffer::take_aside().ok() } else { None };
        if aside.is_some() {
            self.turn.end();
        }
        aside
    }

    /// Whether it waits for a buffer to receive into.
    pub fn is_starved(&self) -> bool {
        self.turn.is_held()
    }

    /// It may use the buffers that were set aside: what it receives ends something that takes memory.
    pub fn privilege(&mut self) {
        self.privileged = true;
    }

    /// Receives forwarded bytes: like [`Connection::receive`], but into a large buffer, which the cache keeps warm
    /// because the pool lends the one that came back last. Into one of the usual size while many of those are in use.
    #[inline]
    pub fn receive_bulk(&mut self) -> Received {
        if self.input.is_none() && self.descriptor.is_readable() && !self.ended && self.broken.is_none() {
            self.input = Buffer::take_bulk().ok();
            if self.input.is_none() {
                return self.receive_piece();
            }
        }
        self.receive(usize::MAX)
    }

    /// Receives forwarded bytes that may wait for long: at most what a buffer takes without another page of memory.
    #[inline]
    pub fn receive_piece(&mut self) -> Received {
        self.receive(BufferPool::buffer_size() - PIECE_MARGIN)
    }

    /// Sends all of it, and waits while the far end takes none. `None` when that fails or lasts until after `deadline`.
    pub async fn send_all(&mut self, mut bytes: &[u8], deadline: Tick) -> Option<()> {
        while !bytes.is_empty() || self.has_pending() {
            match self.send(bytes, false) {
                Sent::All => return Some(()),
                Sent::Part(count) => bytes = &bytes[count..],
                Sent::Failed(_) => return None,
            }
            if bytes.is_empty() && !self.has_pending() {
                return Some(());
            }
            if weir_sched::now() >= deadline {
                return None;
            }
            weir_sched::wait(deadline).await;
        }
        Some(())
    }

    /// Sends bytes, after what is pending.
    #[inline]
    pub fn send(&mut self, bytes: &[u8], more: bool) -> Sent {
        if self.beside.is_some() {
            return self.send_beside(bytes, more);
        }
        self.send_now(bytes, more)
    }

    /// Sends behind what is pending, or encrypted.
    #[inline(never)]
    fn send_beside(&mut self, bytes: &[u8], more: bool) -> Sent {
        if self.has_pending() {
            match self.flush(true) {
                Sent::All => {}
                Sent::Part(_) => return Sent::Part(0),
                failed => return failed,
            }
        }
        match &self.beside {
            Some(beside) if beside.tls.is_some() => self.send_sealed(bytes, more),
            _ => self.send_now(bytes, more),
        }
    }

    fn send_now(&mut self, bytes: &[u8], more: bool) -> Sent {
        if let Some(fault) = self.fault() {
            return Sent::Failed(fault);
        }
        let mut done = 0;
        while done < bytes.len() {
            if !self.descriptor.is_writable() {
                return Sent::Part(done);
            }
            match self.descriptor.send(&bytes[done..], more) {
                Ok(RawSent::Bytes(count)) => {
                    self.sent += count as u64;
                    done += count;
                }
                Ok(RawSent::Blocked) => return Sent::Part(done),
                Err(errno) => {
                    let fault = Fault::from(errno);
                    self.write_error = Some(fault);
                    return Sent::Failed(fault);
                }
            }
        }
        Sent::All
    }

    /// Sends a whole head. What does not fit stays pending here, so that the caller may forget it.
    pub fn send_head(&mut self, head: &[u8], more: bool) -> Sent {
        match self.send(head, more) {
            Sent::Part(done) => {
                let rest = &head[done..];
                if rest.is_empty() {
                    return Sent::Part(done);
                }
                if self.tls().is_some() {
                    return self.seal_behind(rest, done);
                }
                match self.keep_pending(rest) {
                    Ok(()) => Sent::Part(head.len()),
                    Err(fault) => Sent::Failed(fault),
                }
            }
            other => other,
        }
    }

    /// Keeps bytes that leave before anything that is sent later.
    fn keep_pending(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let pending = &mut self.beside.get_or_insert_default().pending;
        // Whoever does not read is the first to go.
        if crate::shortage::is_short() || pending.bytes.try_reserve(bytes.len()).is_err() {
            self.write_error = Some(Fault::Shortage);
            return Err(Fault::Shortage);
        }
        pending.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Sends what is pending.
    pub fn flush(&mut self, more: bool) -> Sent {
        if !self.has_pending() {
            return Sent::All;
        }
        let Some(mut beside) = self.beside.take() else { return Sent::All };
        // What was encrypted was counted when it was taken.
        let counted = self.sent;
        let outcome = self.send_now(beside.pending.rest(), more);
        if beside.tls.is_some() {
            self.sent = counted;
        }
        match outcome {
            Sent::All => beside.pending = Pending::default(),
            Sent::Part(done) => beside.pending.left(done),
            Sent::Failed(_) => {}
        }
        if beside.tls.is_some() || outcome != Sent::All {
            self.beside = Some(beside);
        }
        outcome
    }

    /// Moves up to `count` bytes from the front of `from`'s input to the peer of this connection; how many went.
    #[inline]
    pub fn send_from(&mut self, from: &mut Connection, count: usize, more: bool) -> Sent {
        let outcome = self.send(&from.input()[..count], more);
        match outcome {
            Sent::All => from.consume(count),
            Sent::Part(done) => from.consume(done),
            Sent::Failed(_) => {}
        }
        outcome
    }

    /// Moves bytes from the peer into `pipe` without bringing them up here. Only for a connection whose input is empty.
    pub fn splice_into(&mut self, pipe: &mut Pipe) -> Received {
        if let Some(fault) = self.broken {
            return Received::Failed(fault);
        }
        if self.ended {
            return Received::End;
        }
        if !self.descriptor.is_readable() {
            return Received::Nothing;
        }
        // The kernel refuses lengths that are negative as signed numbers; more than the pipe holds does not fit anyway.
        let limit = pipe.capacity();
        match self.descriptor.splice_into(pipe, limit) {
            Ok(Raw::Bytes(count)) => {
                self.received += count as u64;
                Received::Bytes(count)
            }
            Ok(Raw::End) => {
                self.ended = true;
                Received::End
            }
            Ok(Raw::Blocked) => Received::Nothing,
            Ok(Raw::Full) => Received::Full,
            Err(errno) => {
                let fault = Fault::from(errno);
                self.broken = Some(fault);
                Received::Failed(fault)
            }
        }
    }

    /// Moves what `pipe` holds to the peer. Only for a connection without pending bytes.
    pub fn splice_from(&mut self, pipe: &mut Pipe) -> Sent {
        let mut done = 0;
        while pipe.held() > 0 {
            if let Some(fault) = self.fault() {
                return Sent::Failed(fault);
            }
            if !self.descriptor.is_writable() {
                return Sent::Part(done);
            }
            match self.descriptor.splice_from(pipe, false) {
                Ok(RawSent::Bytes(count)) => {
                    self.sent += count as u64;
                    done += count;
                }
                Ok(RawSent::Blocked) => return Sent::Part(done),
                Err(errno) => self.write_error = Some(errno.into()),
            }
        }
        Sent::All
    }

    /// Says that we send no more.
    pub fn shut_write(&mut self) {
        if !self.shut {
            self.shut = true;
            if self.tls().is_some() {
                self.say_closed();
            }
            let _ = self.descriptor.shutdown_write();
        }
    }
}
