//! TLS between a connection's descriptor and its buffers.
//!
//! ```text
//!   socket ──receive──► a worker's scratch ──decrypt──► the input buffer
//!   socket ◄───send──── a worker's scratch ◄──encrypt── the bytes that leave
//! ```
//!
//! A record is decrypted directly into the reader's buffer, and encrypted directly from the writer's bytes. Between two calls a
//! connection keeps only part of a received record, and the rest of a sent record that did not fit the socket.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::time::Duration;

use weir_sched::{Class, Descriptor, ReceiveResult as Raw, Tick, wait};
use weir_tls::clock::{TimeProvider, UnixTime};
use weir_tls::{
    Facts, HEADER, HandshakeProgress, MAX_CONTENT, MAX_OVERHEAD, MAX_RECORD, OpenOutcome, SessionFailure,
    TlsSession, Why, announced,
};

use super::tls_count::SessionPlace;
use super::{Connection, RareParts, ReceiveOutcome, SendOutcome};
use crate::fault::ConnectionFault;

/// A connection's TLS session.
#[derive(Debug)]
pub(super) struct TlsTransport {
    session: TlsSession,
    /// Received bytes that were not decrypted yet. The memory is freed when it is empty.
    wire: Vec<u8>,
    /// Unsent session tickets. They are sent with the next data, in one packet.
    tickets: Vec<u8>,
    /// Whether anything was received.
    heard: bool,
    /// The task's scheduling class before it was set to heavy for the next handshake step.
    usual: Option<Class>,
    _place: SessionPlace,
}

impl RareParts {
    /// Whether the session can return bytes without reading the socket.
    pub(super) fn holds_input(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsTransport::holds_input)
    }

    /// Takes the unsent tickets. The caller must send them before anything else.
    pub(super) fn take_tickets(&mut self) -> Vec<u8> {
        self.tls.as_mut().map(|transport| std::mem::take(&mut transport.tickets)).unwrap_or_default()
    }
}

impl TlsTransport {
    fn new(session: TlsSession) -> TlsTransport {
        let (place, fits) = SessionPlace::of_session();
        let session = if fits { session } else { session.refused_to_begin() };
        TlsTransport {
            session,
            wire: Vec::new(),
            tickets: Vec::new(),
            heard: false,
            usual: None,
            _place: place,
        }
    }

    fn holds_input(&self) -> bool {
        self.session.is_holding() || announced(&self.wire).is_some_and(|length| self.wire.len() >= length)
    }

    /// Whether the last handshake messages may be held back for the response. Only tickets may, and only if [the request was
    /// received](Self::has_request). A client with Nagle's algorithm holds its request back until the end of its handshake is
    /// acknowledged, so without a request the tickets are sent at once.
    fn is_tickets(&self, answer: &[u8]) -> bool {
        !answer.is_empty() && answer.len() <= MOST_TICKETS && self.session.says_tickets_only()
    }

    fn has_request(&self) -> bool {
        !self.wire.is_empty() || self.session.is_holding()
    }

    /// Drops the first `used` received bytes.
    fn forget(&mut self, used: usize) {
        if used == self.wire.len() {
            self.wire = Vec::new();
        } else {
            self.wire.drain(..used);
        }
    }
}

/// The worker's clock, for checking certificates.
#[derive(Debug)]
pub struct CertificateClock;

impl TimeProvider for CertificateClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_micros(weir_sched::wall_us())))
    }
}

impl Connection {
    /// The parameters of the TLS session with the peer.
    pub fn tls(&self) -> Option<&Facts> {
        Some(self.beside.as_ref()?.tls.as_ref()?.session.facts())
    }

    /// Whether the peer sent anything, encrypted or not.
    pub fn was_heard(&self) -> bool {
        let heard = |beside: &RareParts| beside.tls.as_ref().is_some_and(|transport| transport.heard);
        self.received > 0 || self.heard_before || self.beside.as_deref().is_some_and(heard)
    }

    /// Makes the handshake of a new session, waiting until `deadline`. Bytes received before are its first input.
    ///
    /// # Errors
    /// Why the session could not be established. The alert was sent as far as the socket accepted it.
    pub async fn shake_hands(&mut self, session: TlsSession, deadline: Tick) -> Result<(), SessionFailure> {
        self.begin_tls(session);
        while !self.advance_tls()? {
            if deadline <= weir_sched::now() {
                return Err(self.give_up_tls(SessionFailure::because(Why::TimedOut)));
            }
            wait(deadline).await;
        }
        Ok(())
    }

    /// Begins the handshake of a new session. Bytes received before are its first input.
    pub(crate) fn begin_tls(&mut self, session: TlsSession) {
        let mut transport = TlsTransport::new(session);
        transport.wire.extend_from_slice(self.input());
        transport.heard = !self.input().is_empty();
        let length = self.input().len();
        self.consume(length);
        self.beside.get_or_insert_default().tls = Some(transport);
    }

    /// Continues the handshake as far as possible without blocking. True when it is complete. A long computation is deferred to a
    /// later scheduling round, with one such step per round (R44). Until then, the current task is woken with the heavy class.
    ///
    /// # Errors
    /// Why the session could not be established. The failure is final.
    pub(crate) fn advance_tls(&mut self) -> Result<bool, SessionFailure> {
        self.shake_once().map_err(|failure| self.give_up_tls(failure))
    }

    /// Cancels the handshake. A deferred step is not made, and the task gets its usual class back.
    pub(crate) fn end_tls(&mut self) {
        let transport = self.beside.as_mut().and_then(|beside| beside.tls.as_mut());
        if let Some(usual) = transport.and_then(|transport| transport.usual.take()) {
            weir_sched::set_class(usual);
        }
    }

    fn give_up_tls(&mut self, failure: SessionFailure) -> SessionFailure {
        self.end_tls();
        // An earlier socket error is closer to the cause.
        self.broken.get_or_insert(ConnectionFault::Tls(failure));
        failure
    }

    /// Whether an idle connection can be used: its peer neither closed it nor sent unexpected data.
    #[inline]
    pub fn is_fresh(&mut self) -> bool {
        if self.peer_closed() || self.is_broken() {
            return false;
        }
        if self.is_plain() {
            // A descriptor counts as readable until a read returns EAGAIN. The last response may have filled its buffer exactly.
            return !self.descriptor.is_readable() || self.descriptor.peek(&mut [0]) == Ok(Raw::Blocked);
        }
        // Session tickets may arrive at any time, and concern no request.
        self.receive(1) == ReceiveOutcome::Nothing
    }

    fn shake_once(&mut self) -> Result<bool, SessionFailure> {
        if matches!(self.flush(false), SendOutcome::Failed(_)) {
            return Err(SessionFailure::because(Why::Closed));
        }
        loop {
            let Some(mut beside) = self.beside.take() else { return Err(SessionFailure::INTERNAL) };
            let Some(transport) = &mut beside.tls else { return Err(SessionFailure::INTERNAL) };
            let mut answer = Vec::new();
            let (used, result) = transport.session.shake(&mut transport.wire, &mut answer);
            transport.forget(used);
            if let Some(usual) = transport.usual.take() {
                weir_sched::set_class(usual);
            }
            if result == Ok(HandshakeProgress::Computes) {
                if weir_sched::take_heavy_run() {
                    self.beside = Some(beside);
                    continue;
                }
                transport.usual = Some(weir_sched::set_class(Class::Heavy));
            }
            let is_tickets = result == Ok(HandshakeProgress::Established) && transport.is_tickets(&answer);
            self.beside = Some(beside);
            if is_tickets {
                self.keep_tickets(&mut answer);
            }
            self.send_answer(&answer, false);
            match result {
                Ok(HandshakeProgress::Established) => return Ok(true),
                Ok(HandshakeProgress::More) => {}
                Ok(HandshakeProgress::Computes) => {
                    weir_sched::wake(weir_sched::current());
                    return Ok(false);
                }
                Err(failure) => return Err(failure),
            }
            match self.receive_wire() {
                Raw::Bytes(_) => {}
                Raw::Blocked | Raw::Full => return Ok(false),
                Raw::End => return Err(SessionFailure::because(Why::Closed)),
            }
        }
    }

    /// Holds tickets back for the response if the request was received. Clients send it right after their handshake, so it
    /// may arrive during the computation. So this also reads the socket, before the poller reports it.
    fn keep_tickets(&mut self, tickets: &mut Vec<u8>) {
        let is_here = |connection: &Connection| {
            connection
                .beside
                .as_ref()
                .and_then(|beside| beside.tls.as_ref())
                .is_some_and(TlsTransport::has_request)
        };
        if !is_here(self) {
            // The next receive finds an EOF again.
            self.receive_wire_now();
        }
        if is_here(self)
            && let Some(transport) = self.beside.as_mut().and_then(|beside| beside.tls.as_mut())
        {
            transport.tickets = std::mem::take(tickets);
        }
    }

    /// Sends the session's own messages.
    fn send_answer(&mut self, answer: &[u8], more: bool) {
        if answer.is_empty() || self.keep_pending(answer).is_err() {
            return;
        }
        // The rest is sent later. The next send or receive reports a failure.
        let _ = self.flush(more);
    }

    /// Receives handshake bytes and appends them to the kept ones.
    fn receive_wire(&mut self) -> Raw {
        if self.descriptor.is_readable() { self.receive_wire_now() } else { Raw::Blocked }
    }

    fn receive_wire_now(&mut self) -> Raw {
        let Some(transport) = self.beside.as_mut().and_then(|beside| beside.tls.as_mut()) else {
            return Raw::Blocked;
        };
        let received = SCRATCH.with_borrow_mut(|scratch| {
            let received = self.descriptor.receive_into(&mut scratch.received[..MAX_RECORD]);
            if let Ok(Raw::Bytes(count)) = received {
                transport.keep(&scratch.received[..count])?;
                transport.heard = true;
            }
            received
        });
        received.unwrap_or_else(|errno| {
            self.broken = Some(errno.into());
            Raw::End
        })
    }

    /// Receives and decrypts at most `allowed` bytes into the input buffer.
    #[inline(never)]
    pub(super) fn receive_opened(&mut self, allowed: usize) -> ReceiveOutcome {
        let (Some(mut beside), Some(mut buffer)) = (self.beside.take(), self.input.take()) else {
            return ReceiveOutcome::Nothing;
        };
        let mut answer = Vec::new();
        let received = match &mut beside.tls {
            Some(transport) => {
                let space = buffer.space();
                let most = space.len().min(allowed);
                transport.receive(&self.descriptor, &mut space[..most], &mut answer)
            }
            None => ReceiveOutcome::Nothing,
        };
        self.beside = Some(beside);
        match received {
            ReceiveOutcome::Bytes(count) => {
                buffer.fill(count);
                self.received += count as u64;
            }
            ReceiveOutcome::End => self.ended = true,
            ReceiveOutcome::Failed(fault) => self.broken = Some(fault),
            ReceiveOutcome::Nothing | ReceiveOutcome::Full => {}
        }
        if !buffer.is_empty() {
            self.input = Some(buffer);
        }
        self.send_answer(&answer, false);
        received
    }

    /// Encrypts and sends bytes. Encrypted bytes that do not fit the socket are queued and count as sent.
    pub(super) fn send_sealed(&mut self, bytes: &[u8], more: bool) -> SendOutcome {
        if let Some(fault) = self.fault() {
            return SendOutcome::Failed(fault);
        }
        let mut done = 0;
        while done < bytes.len() {
            if !self.descriptor.is_writable() {
                return SendOutcome::Part(done);
            }
            match self.send_sealed_piece(&bytes[done..], more) {
                Ok((taken, left)) => {
                    done += taken;
                    if !left {
                        return SendOutcome::Part(done);
                    }
                }
                Err(fault) => return SendOutcome::Failed(fault),
            }
        }
        SendOutcome::All
    }

    /// Encrypts and sends one piece. Returns its unencrypted size in bytes, and whether all of it was sent.
    fn send_sealed_piece(&mut self, bytes: &[u8], more: bool) -> Result<(usize, bool), ConnectionFault> {
        let mut answer = Vec::new();
        SCRATCH.with_borrow_mut(|scratch| {
            let tickets = self.beside.as_mut().map(|beside| beside.take_tickets()).unwrap_or_default();
            scratch.sealed[..tickets.len()].copy_from_slice(&tickets);
            let out = &mut scratch.sealed[tickets.len()..];
            let (taken, written) = self.seal(bytes, out, &mut answer)?;
            let sealed = &scratch.sealed[..tickets.len() + written];
            let counted = self.sent + taken as u64;
            let rest = if answer.is_empty() {
                match self.send_now(sealed, more || taken < bytes.len()) {
                    SendOutcome::All => &[],
                    SendOutcome::Part(count) => &sealed[count..],
                    SendOutcome::Failed(fault) => return Err(fault),
                }
            } else {
                self.keep_pending(&tickets)?;
                self.keep_pending(&answer)?;
                &sealed[tickets.len()..]
            };
            self.sent = counted;
            self.keep_pending(rest)?;
            Ok((taken, !self.has_pending()))
        })
    }

    fn seal(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        answer: &mut Vec<u8>,
    ) -> Result<(usize, usize), ConnectionFault> {
        let Some(transport) = self.beside.as_mut().and_then(|beside| beside.tls.as_mut()) else {
            return Err(ConnectionFault::Tls(SessionFailure::because(Why::Internal)));
        };
        transport.session.seal(bytes, out, LARGEST_RECORD.get(), answer).map_err(|failure| {
            let fault = ConnectionFault::Tls(failure);
            self.write_error = Some(fault);
            fault
        })
    }

    /// Encrypts the rest of a head after its first `done` bytes were sent, and queues it.
    #[cold]
    pub(super) fn seal_behind(&mut self, rest: &[u8], done: usize) -> SendOutcome {
        let mut taken = 0;
        while taken < rest.len() {
            let mut answer = Vec::new();
            let kept = SCRATCH.with_borrow_mut(|scratch| {
                let (count, written) = self.seal(&rest[taken..], &mut scratch.sealed, &mut answer)?;
                self.keep_pending(&answer)?;
                self.keep_pending(&scratch.sealed[..written])?;
                Ok(count)
            });
            match kept {
                Ok(count) => taken += count,
                Err(fault) => return SendOutcome::Failed(fault),
            }
        }
        self.sent += taken as u64;
        SendOutcome::Part(done + taken)
    }

    /// Sends `close_notify` (RFC 8446, 6.1), before the end of the connection or of this direction.
    #[cold]
    pub(super) fn say_closed(&mut self) {
        let mut answer = Vec::new();
        if let Some(transport) = self.beside.as_mut().and_then(|beside| beside.tls.as_mut()) {
            transport.session.close(&mut answer);
        }
        // The FIN follows at once, so all of it travels in one packet with the rest of the response.
        self.send_answer(&answer, true);
    }

    /// Sends `close_notify` on a TLS connection. Call it before the connection is dropped on purpose.
    #[inline]
    pub fn say_goodbye(&mut self) {
        if self.beside.is_some() && !self.shut() && self.fault().is_none() {
            self.say_closed();
        }
    }

    /// Whether the bytes can be spliced in the kernel, because they are not encrypted.
    pub fn is_plain(&self) -> bool {
        self.tls().is_none()
    }
}

impl TlsTransport {
    /// Decrypts received bytes into `room`, and receives more.
    fn receive(&mut self, descriptor: &Descriptor, room: &mut [u8], answer: &mut Vec<u8>) -> ReceiveOutcome {
        if self.holds_input()
            && let Some(received) = outcome(self.open_held(room, answer))
        {
            return received;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let scratch = &mut scratch.received[..];
            loop {
                // Receive as much as fits the room, but at least a whole record.
                let needed = announced(&self.wire).unwrap_or(0);
                let missing = (room.len() + MAX_OVERHEAD).max(needed).saturating_sub(self.wire.len());
                let length = missing.max(SMALLEST).min(scratch.len());
                let count = match descriptor.receive_into(&mut scratch[..length]) {
                    Ok(Raw::Bytes(count)) => count,
                    Ok(Raw::Blocked | Raw::Full) => return ReceiveOutcome::Nothing,
                    Ok(Raw::End) => return ReceiveOutcome::End,
                    Err(errno) => return ReceiveOutcome::Failed(errno.into()),
                };
                if let Some(received) = outcome(self.open_fresh(&scratch[..count], room, answer)) {
                    return received;
                }
                if crate::shortage::is_exhausted() {
                    // The beginning of a record would be kept in memory until its end arrives.
                    crate::shortage::count_refusal();
                    return ReceiveOutcome::Failed(ConnectionFault::Shortage);
                }
            }
        })
    }

    /// Keeps bytes of a handshake until a message is complete.
    fn keep(&mut self, bytes: &[u8]) -> weir_sys::Result<()> {
        if crate::shortage::is_exhausted() || self.wire.try_reserve(bytes.len()).is_err() {
            crate::shortage::count_refusal();
            return Err(weir_sys::Errno::NOMEM);
        }
        self.wire.extend_from_slice(bytes);
        Ok(())
    }

    /// Decrypts kept bytes.
    fn open_held(&mut self, room: &mut [u8], answer: &mut Vec<u8>) -> OpenOutcome {
        let opened = self.session.open(&self.wire, room, answer);
        self.forget(opened.used);
        opened
    }

    /// Decrypts kept bytes and new ones. Of the new ones, it only copies the end of a record with a kept beginning, and
    /// bytes that cannot be used yet.
    fn open_fresh(&mut self, fresh: &[u8], room: &mut [u8], answer: &mut Vec<u8>) -> OpenOutcome {
        let fresh = self.complete_record(fresh);
        let mut opened = OpenOutcome::default();
        if !self.wire.is_empty() {
            opened = self.open_held(room, answer);
        }
        if self.wire.is_empty() && opened.failure.is_none() && !opened.ended {
            let filled = opened.filled;
            opened = self.session.open(fresh, &mut room[filled..], answer);
            opened.filled += filled;
            self.wire.extend_from_slice(&fresh[opened.used..]);
        } else {
            self.wire.extend_from_slice(fresh);
        }
        opened
    }

    /// Moves the missing part of the partly kept record out of `fresh`. Returns the rest.
    fn complete_record<'f>(&mut self, mut fresh: &'f [u8]) -> &'f [u8] {
        // The header first, because it holds the length of the record.
        for _ in 0..2 {
            if self.wire.is_empty() {
                break;
            }
            let length = announced(&self.wire).unwrap_or(HEADER);
            let (missing, rest) = fresh.split_at(length.saturating_sub(self.wire.len()).min(fresh.len()));
            self.wire.extend_from_slice(missing);
            fresh = rest;
        }
        fresh
    }
}

/// The result for the reader. `None` if more bytes are needed.
fn outcome(opened: OpenOutcome) -> Option<ReceiveOutcome> {
    if opened.filled > 0 {
        return Some(ReceiveOutcome::Bytes(opened.filled));
    }
    if let Some(failure) = opened.failure {
        return Some(ReceiveOutcome::Failed(ConnectionFault::Tls(failure)));
    }
    opened.ended.then_some(ReceiveOutcome::End)
}

/// A worker's buffers for encrypting and receiving.
struct TransportScratch {
    received: Box<[u8]>,
    sealed: Box<[u8]>,
}

thread_local! {
    static SCRATCH: RefCell<ManuallyDrop<TransportScratch>> = RefCell::new(ManuallyDrop::new(TransportScratch {
        received: vec![0; RECEIVED_AT_ONCE].into(),
        sealed: vec![0; MOST_TICKETS + SEALED_AT_ONCE].into(),
    }));
    static LARGEST_RECORD: Cell<usize> = const { Cell::new(MAX_CONTENT) };
}

/// The largest record that this worker sends (`tune.ssl.maxrecord`, `tune.ssl.hard-maxrecord`).
pub fn set_largest_record(bytes: usize) {
    LARGEST_RECORD.set(bytes.clamp(1, MAX_CONTENT));
}

/// Two records of maximum size: the rest of one already begun, and another.
const RECEIVED_AT_ONCE: usize = 2 * MAX_RECORD;
/// Bytes encrypted before a send. Four records, more than one receive of forwarded bytes.
const SEALED_AT_ONCE: usize = 4 * (MAX_CONTENT + MAX_OVERHEAD);
/// Maximum bytes of tickets that are held back. Two tickets take 440 bytes, and more with client certificates.
const MOST_TICKETS: usize = 2048;
/// Minimum size of a receive, in bytes. Small records arrive together with handshake messages.
const SMALLEST: usize = 512;
