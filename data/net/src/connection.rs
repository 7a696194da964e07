//! A connection: a descriptor, received bytes that were not consumed, and bytes queued to be sent.

pub mod tls_count;
pub(crate) mod transport;

use std::any::Any;
use std::io::IoSlice;
use std::ops::Range;

use weir_containers::{Buffer, BufferPool};
use weir_sched::{Descriptor, ReceiveResult as Raw, SendResult as RawSent, Tick};
use weir_sys::splice::Pipe;

use crate::fault::ConnectionFault;
use crate::shortage::{BufferRight, WaiterTurn};
use transport::TlsTransport;

/// The result of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveOutcome {
    /// This many more bytes are in [`Connection::input`].
    Bytes(usize),
    /// No byte, or no buffer, is available now. Wait for an event.
    Nothing,
    /// EOF. The peer sends no more.
    End,
    /// The input buffer is full.
    Full,
    /// The connection is broken.
    Failed(ConnectionFault),
}

/// The result of sending, which never blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// All bytes were sent.
    All,
    /// This many bytes were sent or queued before the socket's buffer was full. Wait for an event.
    Part(usize),
    /// The connection is broken.
    Failed(ConnectionFault),
}

/// The buffers that a connection may use when the common ones are used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Privilege {
    None,
    /// Reserved buffers (`tune.buffers.reserve`).
    Aside,
    /// Buffers outside of all limits.
    Apart,
}

/// A connection and its buffers. Dropping it closes the descriptor.
///
/// `input` is allocated only while it holds bytes. `pending` queues bytes to be sent before any others, such as the rest
/// of a head that did not fit the socket's buffer.
#[derive(Debug)]
pub struct Connection {
    descriptor: Descriptor,
    input: Option<Buffer>,
    /// Rare parts. Boxed, because every idle connection would hold the space for them.
    beside: Option<Box<RareParts>>,
    ended: bool,
    shut: bool,
    /// Whether bytes were received before the counts were last reset.
    heard_before: bool,
    /// The connection's position in the queue for a receive buffer.
    turn: WaiterTurn,
    privilege: Privilege,
    broken: Option<ConnectionFault>,
    /// Set if nothing can be sent any more. Bytes that the peer sent before it closed may still be available.
    write_error: Option<ConnectionFault>,
    /// Bytes received since the connection was created, or [`Connection::count_anew`] was called.
    pub received: u64,
    /// Bytes sent in the same period.
    pub sent: u64,
}

/// Overhead of a buffer besides its content, in bytes.
const PIECE_MARGIN: usize = 16;

/// A value that is dropped when the socket is closed, even if the connection's owner has changed.
pub type Companion = Box<dyn Any + Send>;

/// Rare parts: queued bytes, a TLS session, a companion. At least one of them is present.
#[derive(Debug, Default)]
struct RareParts {
    pending: PendingBytes,
    tls: Option<TlsTransport>,
    companion: Option<Companion>,
}

/// Queued bytes, to be sent before any others.
#[derive(Debug, Default)]
struct PendingBytes {
    bytes: Vec<u8>,
    start: usize,
}

impl PendingBytes {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn is_empty(&self) -> bool {
        self.start >= self.bytes.len()
    }

    /// Removes `count` sent bytes.
    fn left(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            *self = PendingBytes::default();
        }
    }
}

/// How full the buffers of a connection are, for traces: an empty one explains why nothing is parsed, a full one why
/// nothing is received (R191).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferFill {
    /// The offset of the first unconsumed byte in the buffer.
    pub head: usize,
    /// The offset at which the next received byte is stored.
    pub tail: usize,
    /// The size of the buffer. 0 without a buffer.
    pub size: usize,
    /// Queued bytes that did not fit the socket's buffer.
    pub pending: usize,
}

impl std::fmt::Display for BufferFill {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BufferFill { head, tail, size, pending } = *self;
        write!(f, "in={}/{size} head={head} tail={tail} out={pending}", tail - head)
    }
}

impl Connection {
    /// A connection over a registered descriptor.
    pub fn new(descriptor: Descriptor) -> Self {
        Connection::with(descriptor, Privilege::None)
    }

    /// A connection that may use reserved buffers, because its received data allow memory to be freed, or come from a
    /// server.
    pub fn privileged(descriptor: Descriptor) -> Self {
        Connection::with(descriptor, Privilege::Aside)
    }

    /// An operator's connection. It works even when clients hold all buffers, with a buffer outside of all limits. There
    /// are few.
    pub fn of_operator(descriptor: Descriptor) -> Self {
        Connection::with(descriptor, Privilege::Apart)
    }

    fn with(descriptor: Descriptor, privilege: Privilege) -> Self {
        Connection {
            descriptor,
            input: None,
            beside: None,
            ended: false,
            shut: false,
            heard_before: false,
            turn: WaiterTurn::default(),
            privilege,
            broken: None,
            write_error: None,
            received: 0,
            sent: 0,
        }
    }

    /// Resets the byte counts for the next stream. Bytes already in the input count as received.
    #[inline]
    pub fn count_anew(&mut self) {
        self.heard_before |= self.received > 0;
        self.received = self.input().len() as u64;
        self.sent = 0;
    }

    /// The socket's descriptor. Bytes read from it directly bypass the buffers.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns the descriptor and the companion. Buffered bytes are lost.
    pub fn into_parts(self) -> (Descriptor, Option<Companion>) {
        (self.descriptor, self.beside.and_then(|beside| beside.companion))
    }

    /// Whether it has a companion.
    pub fn is_accompanied(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.companion.is_some())
    }

    /// Sets the companion. Drops the previous one, if any.
    pub fn accompany(&mut self, companion: Companion) {
        self.beside.get_or_insert_default().companion = Some(companion);
    }

    /// Received bytes that were not consumed.
    #[inline]
    pub fn input(&self) -> &[u8] {
        self.input.as_deref().unwrap_or_default()
    }

    /// The fill levels of the buffers.
    pub fn fill(&self) -> BufferFill {
        let pending = self.beside.as_ref().map_or(0, |beside| beside.pending.rest().len());
        let Some(buffer) = &self.input else { return BufferFill { pending, ..BufferFill::default() } };
        let head = buffer.headroom();
        BufferFill { head, tail: head + buffer.len(), size: buffer.capacity(), pending }
    }

    /// The connection's state in words, for traces.
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

    /// Drops `count` bytes from the front of the input. An empty buffer goes back to the pool.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        let Some(buffer) = &mut self.input else { return };
        buffer.consume(count.min(buffer.len()));
        if buffer.is_empty() {
            self.input = None;
        }
    }

    /// Calls `edit` with the input from offset `from` on. `edit` may move bytes to the front. Its second result is the number
    /// of bytes to drop at the end.
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

    /// Whether the input takes more memory than its bytes need.
    #[inline]
    pub fn has_slack(&self) -> bool {
        self.input.as_ref().is_some_and(Buffer::has_slack)
    }

    /// Shrinks the input to the memory that its bytes need, for connections that wait for long.
    #[inline]
    pub fn shrink_input(&mut self) {
        if let Some(buffer) = &mut self.input {
            buffer.shrink();
        }
    }

    /// Replaces a part of the input by `bytes`. The byte counts stay.
    pub fn replace_input(&mut self, range: Range<usize>, bytes: &[u8]) {
        let (front, behind) = (&self.input()[..range.start], &self.input()[range.end..]);
        let length = front.len() + bytes.len() + behind.len();
        if length == 0 {
            self.input = None;
            return;
        }
        let mut buffer = Buffer::with_capacity(BufferPool::buffer_size().max(length));
        for part in [front, bytes, behind] {
            buffer.append(part);
        }
        self.input = Some(buffer);
    }

    /// Whether EOF was received (FIN or `close_notify`).
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Whether EOF was received or reported by the poller. Earlier bytes may still be unread.
    #[inline]
    pub fn peer_closed(&self) -> bool {
        self.ended || self.descriptor.peer_closed()
    }

    /// Whether the connection is dead in both directions.
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.fault().is_some() || self.descriptor.has_error() || self.descriptor.is_hung_up()
    }

    /// Whether the sending side was shut down.
    pub fn shut(&self) -> bool {
        self.shut
    }

    /// The fault that broke the connection, if any.
    pub fn fault(&self) -> Option<ConnectionFault> {
        self.broken.or(self.write_error)
    }

    /// Whether bytes are queued to be sent.
    #[inline]
    pub fn has_pending(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| !beside.pending.is_empty())
    }

    /// Whether the input is empty and receiving would find nothing.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.input.is_none()
            && !self.descriptor.is_readable()
            && !self.ended
            && self.broken.is_none()
            && self.write_error.is_none()
            && self.beside.as_ref().is_none_or(|beside| !beside.holds_input())
    }

    /// Receives into the input buffer, until it holds at most `limit` bytes.
    #[inline]
    pub fn receive(&mut self, limit: usize) -> ReceiveOutcome {
        if let Some(fault) = self.broken {
            return ReceiveOutcome::Failed(fault);
        }
        if self.ended {
            return ReceiveOutcome::End;
        }
        // After a failed send the poller may not have reported yet that there are bytes to read.
        if !self.descriptor.is_readable() && self.write_error.is_none() {
            return self.receive_held(limit);
        }
        self.receive_now(limit)
    }

    /// Receives bytes that the TLS session holds while the socket is not readable.
    #[inline]
    fn receive_held(&mut self, limit: usize) -> ReceiveOutcome {
        match &self.beside {
            Some(beside) if beside.holds_input() => self.receive_now(limit),
            _ => ReceiveOutcome::Nothing,
        }
    }

    fn receive_now(&mut self, limit: usize) -> ReceiveOutcome {
        let buffer = match &mut self.input {
            Some(buffer) => buffer,
            None => {
                let Some(buffer) = self.take_buffer() else { return ReceiveOutcome::Nothing };
                self.input.insert(buffer)
            }
        };
        if buffer.len() >= limit {
            return ReceiveOutcome::Full;
        }
        // The space of consumed bytes at the front can be used too, but moving is only worth it when no space is left at the
        // end, or when few bytes have to be moved.
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
                return ReceiveOutcome::Bytes(count);
            }
            Ok(Raw::End) => {
                self.ended = true;
                ReceiveOutcome::End
            }
            Ok(Raw::Blocked) => ReceiveOutcome::Nothing,
            Ok(Raw::Full) => ReceiveOutcome::Full,
            Err(errno) => {
                let fault = ConnectionFault::from(errno);
                self.broken = Some(fault);
                ReceiveOutcome::Failed(fault)
            }
        };
        if buffer.is_empty() {
            self.input = None;
        }
        outcome
    }

    /// The input is full, perhaps because it was shrunk.
    #[cold]
    fn receive_in_larger(&mut self, limit: usize) -> ReceiveOutcome {
        if self.input().len() >= BufferPool::buffer_size() {
            return ReceiveOutcome::Full;
        }
        let Some(mut larger) = self.take_buffer() else { return ReceiveOutcome::Nothing };
        larger.append(self.input());
        self.input = Some(larger);
        self.receive_now(limit)
    }

    /// Takes a receive buffer. `None` if all are used. The current task is then woken when one may be free.
    #[inline]
    fn take_buffer(&mut self) -> Option<Buffer> {
        if self.turn.is_held() {
            return self.take_in_turn();
        }
        Buffer::take().ok().or_else(|| self.take_in_turn())
    }

    /// The buffer that was handed over while the connection waited, otherwise a privileged one.
    #[cold]
    fn take_in_turn(&mut self) -> Option<Buffer> {
        let right = if self.privilege == Privilege::Aside { BufferRight::Aside } else { BufferRight::Common };
        if let Some(handed) = self.turn.wait_on(right) {
            return Some(handed);
        }
        let other = match self.privilege {
            Privilege::None => None,
            Privilege::Aside => Buffer::take_aside().ok(),
            Privilege::Apart => Buffer::take_apart(),
        };
        if other.is_some() {
            self.turn.end();
        }
        other
    }

    /// Whether the connection waits for a receive buffer.
    pub fn is_starved(&self) -> bool {
        self.turn.is_held()
    }

    /// [`Connection::receive`] for bytes to forward, into a large buffer. It stays in the CPU cache, because the pool lends
    /// the most recently returned buffer. While many large buffers are in use, receives into one of regular size.
    #[inline]
    pub fn receive_bulk(&mut self) -> ReceiveOutcome {
        if self.input.is_none() && self.descriptor.is_readable() && !self.ended && self.broken.is_none() {
            self.input = Buffer::take_bulk().ok();
            if self.input.is_none() {
                return self.receive_piece();
            }
        }
        self.receive(usize::MAX)
    }

    /// Receives bytes to forward that may be held for long, at most as many as a buffer holds without another page of
    /// memory.
    #[inline]
    pub fn receive_piece(&mut self) -> ReceiveOutcome {
        self.receive(BufferPool::buffer_size() - PIECE_MARGIN)
    }

    /// Sends all bytes, waiting while the peer takes none. `None` when that fails or `deadline` passes.
    pub async fn send_all(&mut self, mut bytes: &[u8], deadline: Tick) -> Option<()> {
        while !bytes.is_empty() || self.has_pending() {
            match self.send(bytes, false) {
                SendOutcome::All => return Some(()),
                SendOutcome::Part(count) => bytes = &bytes[count..],
                SendOutcome::Failed(_) => return None,
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

    /// Sends bytes, after the queued ones. `more` if further bytes follow at once.
    #[inline]
    pub fn send(&mut self, bytes: &[u8], more: bool) -> SendOutcome {
        if self.beside.is_some() {
            return self.send_beside(bytes, more);
        }
        self.send_now(bytes, more)
    }

    /// Sends bytes after the queued ones, encrypted if there is a TLS session.
    #[inline(never)]
    fn send_beside(&mut self, bytes: &[u8], more: bool) -> SendOutcome {
        if self.has_pending() {
            match self.flush(true) {
                SendOutcome::All => {}
                SendOutcome::Part(_) => return SendOutcome::Part(0),
                failed => return failed,
            }
        }
        match &self.beside {
            Some(beside) if beside.tls.is_some() => self.send_sealed(bytes, more),
            _ => self.send_now(bytes, more),
        }
    }

    fn send_now(&mut self, bytes: &[u8], more: bool) -> SendOutcome {
        if let Some(fault) = self.fault() {
            return SendOutcome::Failed(fault);
        }
        let mut done = 0;
        while done < bytes.len() {
            if !self.descriptor.is_writable() {
                return SendOutcome::Part(done);
            }
            match self.descriptor.send(&bytes[done..], more) {
                Ok(RawSent::Bytes(count)) => {
                    self.sent += count as u64;
                    done += count;
                }
                Ok(RawSent::Blocked) => return SendOutcome::Part(done),
                Err(errno) => {
                    let fault = ConnectionFault::from(errno);
                    self.write_error = Some(fault);
                    return SendOutcome::Failed(fault);
                }
            }
        }
        SendOutcome::All
    }

    /// Sends several slices with one call, as many bytes as the socket accepts now. Only for an unencrypted connection
    /// without queued bytes.
    pub fn send_vectored(&mut self, slices: &[IoSlice<'_>], more: bool) -> SendOutcome {
        if let Some(fault) = self.fault() {
            return SendOutcome::Failed(fault);
        }
        if !self.descriptor.is_writable() {
            return SendOutcome::Part(0);
        }
        match self.descriptor.send_vectored(slices, more) {
            Ok(RawSent::Bytes(count)) => {
                self.sent += count as u64;
                let wanted: usize = slices.iter().map(|slice| slice.len()).sum();
                if count < wanted { SendOutcome::Part(count) } else { SendOutcome::All }
            }
            Ok(RawSent::Blocked) => SendOutcome::Part(0),
            Err(errno) => {
                let fault = ConnectionFault::from(errno);
                self.write_error = Some(fault);
                SendOutcome::Failed(fault)
            }
        }
    }

    /// Sends a whole head. The part that does not fit is queued, so that the caller can drop the head.
    pub fn send_head(&mut self, head: &[u8], more: bool) -> SendOutcome {
        match self.send(head, more) {
            SendOutcome::Part(done) => {
                let rest = &head[done..];
                if rest.is_empty() {
                    return SendOutcome::Part(done);
                }
                if self.tls().is_some() {
                    return self.seal_behind(rest, done);
                }
                match self.keep_pending(rest) {
                    Ok(()) => SendOutcome::Part(head.len()),
                    Err(fault) => SendOutcome::Failed(fault),
                }
            }
            other => other,
        }
    }

    /// Queues bytes to be sent before any later ones. Fails while memory is short.
    fn keep_pending(&mut self, bytes: &[u8]) -> Result<(), ConnectionFault> {
        if bytes.is_empty() {
            return Ok(());
        }
        let beside = self.beside.get_or_insert_default();
        // Tickets were encrypted first, and TLS records must stay in order.
        let tickets = beside.take_tickets();
        let pending = &mut beside.pending;
        // Under shortage of memory, connections to peers that do not read are closed first.
        if crate::shortage::is_short() || pending.bytes.try_reserve(tickets.len() + bytes.len()).is_err() {
            self.write_error = Some(ConnectionFault::Shortage);
            return Err(ConnectionFault::Shortage);
        }
        pending.bytes.extend_from_slice(&tickets);
        pending.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Sends the queued bytes.
    pub fn flush(&mut self, more: bool) -> SendOutcome {
        if !self.has_pending() {
            return SendOutcome::All;
        }
        let Some(mut beside) = self.beside.take() else { return SendOutcome::All };
        // Encrypted bytes were counted when they were queued.
        let counted = self.sent;
        let outcome = self.send_now(beside.pending.rest(), more);
        if beside.tls.is_some() {
            self.sent = counted;
        }
        match outcome {
            SendOutcome::All => beside.pending = PendingBytes::default(),
            SendOutcome::Part(done) => beside.pending.left(done),
            SendOutcome::Failed(_) => {}
        }
        if beside.tls.is_some() || beside.companion.is_some() || outcome != SendOutcome::All {
            self.beside = Some(beside);
        }
        outcome
    }

    /// Sends up to `count` bytes from the front of `from`'s input on this connection, and consumes those that were sent.
    #[inline]
    pub fn send_from(&mut self, from: &mut Connection, count: usize, more: bool) -> SendOutcome {
        let outcome = self.send(&from.input()[..count], more);
        match outcome {
            SendOutcome::All => from.consume(count),
            SendOutcome::Part(done) => from.consume(done),
            SendOutcome::Failed(_) => {}
        }
        outcome
    }

    /// Moves at most `limit` bytes from the peer into `pipe` inside the kernel. Only for a connection with an empty
    /// input.
    pub fn splice_into(&mut self, pipe: &mut Pipe, limit: usize) -> ReceiveOutcome {
        if let Some(fault) = self.broken {
            return ReceiveOutcome::Failed(fault);
        }
        if self.ended {
            return ReceiveOutcome::End;
        }
        if !self.descriptor.is_readable() {
            return ReceiveOutcome::Nothing;
        }
        // The kernel refuses lengths that are negative as signed numbers, and more than the pipe's capacity does not fit.
        let limit = limit.min(pipe.capacity());
        match self.descriptor.splice_into(pipe, limit) {
            Ok(Raw::Bytes(count)) => {
                self.received += count as u64;
                ReceiveOutcome::Bytes(count)
            }
            Ok(Raw::End) => {
                self.ended = true;
                ReceiveOutcome::End
            }
            Ok(Raw::Blocked) => ReceiveOutcome::Nothing,
            Ok(Raw::Full) => ReceiveOutcome::Full,
            Err(errno) => {
                let fault = ConnectionFault::from(errno);
                self.broken = Some(fault);
                ReceiveOutcome::Failed(fault)
            }
        }
    }

    /// Sends the bytes in `pipe` to the peer. Only for a connection without queued bytes.
    pub fn splice_from(&mut self, pipe: &mut Pipe) -> SendOutcome {
        let mut done = 0;
        while pipe.held() > 0 {
            if let Some(fault) = self.fault() {
                return SendOutcome::Failed(fault);
            }
            if !self.descriptor.is_writable() {
                return SendOutcome::Part(done);
            }
            match self.descriptor.splice_from(pipe, false) {
                Ok(RawSent::Bytes(count)) => {
                    self.sent += count as u64;
                    done += count;
                }
                Ok(RawSent::Blocked) => return SendOutcome::Part(done),
                Err(errno) => self.write_error = Some(errno.into()),
            }
        }
        SendOutcome::All
    }

    /// Shuts down the sending side. On TLS, sends `close_notify` first.
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
