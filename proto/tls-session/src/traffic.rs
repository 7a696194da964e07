//! A session after its handshake: record encryption and decryption, and post-handshake messages.

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ExtractedSecrets, ProtocolVersion};

use crate::failure::{Alert, SessionFailure, Why};
use crate::identity;
use crate::record::{DirectionKey, MAX_CONTENT, MAX_OVERHEAD, Record, RecordContent, RecordLayout};

/// The rustls state that derives later keys.
pub(crate) enum Keys {
    Client(KernelConnection<ClientConnectionData>),
    Server(KernelConnection<ServerConnectionData>),
}

/// A session after its handshake.
pub(crate) struct Traffic {
    read: DirectionKey,
    write: DirectionKey,
    layout: RecordLayout,
    keys: Keys,
    /// Decrypted bytes that did not fit into the caller's buffer: less than a record.
    held: Vec<u8>,
    /// Bytes of an incomplete handshake message.
    message: Vec<u8>,
    /// The newest ticket, if sessions keep their identity.
    ticket: Option<Box<[u8]>>,
    /// Consecutive records without application data.
    idle_records: u32,
    /// Whether the peer requested a KeyUpdate, which is sent before the next data.
    owes_update: bool,
    /// Number of TLS 1.2 renegotiations that the peer requested.
    refused_handshakes: u32,
    /// Whether the peer sent `close_notify`.
    ended: bool,
    /// Whether this side sent `close_notify`.
    closed: bool,
    failure: Option<SessionFailure>,
}

/// The result of [`Traffic::open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOutcome {
    /// Bytes of the input that were used.
    pub used: usize,
    /// Bytes of plaintext written to the caller's buffer.
    pub filled: usize,
    /// Whether the peer sent `close_notify`.
    pub ended: bool,
    /// Set if the session failed. Bytes written to the buffer before are valid.
    pub failure: Option<SessionFailure>,
}

impl Traffic {
    pub(crate) fn new(secrets: &ExtractedSecrets, keys: Keys) -> Result<Traffic, SessionFailure> {
        let version = match &keys {
            Keys::Client(keys) => keys.protocol_version(),
            Keys::Server(keys) => keys.protocol_version(),
        };
        let layout = RecordLayout::of(version == ProtocolVersion::TLSv1_3, &secrets.tx.1);
        Ok(Traffic {
            read: DirectionKey::new(&secrets.rx.1, secrets.rx.0, layout)?,
            write: DirectionKey::new(&secrets.tx.1, secrets.tx.0, layout)?,
            layout,
            keys,
            held: Vec::new(),
            message: Vec::new(),
            ticket: None,
            idle_records: 0,
            owes_update: false,
            refused_handshakes: 0,
            ended: false,
            closed: false,
            failure: None,
        })
    }

    /// The newest ticket received since the last call, if tickets are kept.
    pub(crate) fn take_ticket(&mut self) -> Option<Box<[u8]>> {
        self.ticket.take()
    }

    /// Whether this is the server's side of a TLS 1.3 session.
    pub(crate) fn is_server13(&self) -> bool {
        matches!((&self.keys, self.layout), (Keys::Server(_), RecordLayout::Tls13))
    }

    /// Appends decrypted bytes that the next [`open`](Self::open) returns.
    pub(crate) fn hold(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Whether [`open`](Self::open) has a result without further input: buffered plaintext, a failure, or
    /// `close_notify`, which often arrives together with the last data.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty() || self.ended || self.failure.is_some()
    }

    pub(crate) fn set_ended(&mut self) {
        self.ended = true;
    }

    /// Decrypts complete records from the front of `wire` into `room`, as far as possible. Output for the peer is appended to
    /// `answer`.
    pub(crate) fn open(&mut self, wire: &[u8], room: &mut [u8], answer: &mut Vec<u8>) -> OpenOutcome {
        let mut opened = OpenOutcome::default();
        if !self.held.is_empty() {
            let count = self.held.len().min(room.len());
            room[..count].copy_from_slice(&self.held[..count]);
            self.held.drain(..count);
            if self.held.is_empty() {
                self.held = Vec::new();
            }
            opened.filled = count;
        }
        if self.failure.is_none()
            && let Err(failure) = self.open_records(wire, room, answer, &mut opened)
        {
            self.fail(failure, answer);
        }
        opened.ended = self.ended;
        opened.failure = self.failure;
        opened
    }

    fn open_records(
        &mut self,
        wire: &[u8],
        room: &mut [u8],
        answer: &mut Vec<u8>,
        opened: &mut OpenOutcome,
    ) -> Result<(), SessionFailure> {
        while !self.ended && self.held.is_empty() && opened.filled < room.len() {
            let Some(record) = Record::first(&wire[opened.used..], self.layout)? else { return Ok(()) };
            let needed = record.room(self.layout);
            let free = &mut room[opened.filled..];
            if needed <= free.len() {
                opened.used += record.len();
                let (content, count) = self.read.open(&record, free)?;
                if content == RecordContent::Data {
                    self.note_data(count)?;
                    opened.filled += count;
                } else {
                    let message = free[..count].to_vec();
                    self.handle(content, &message, answer)?;
                }
            } else if opened.filled > 0 {
                // The caller must consume its buffer first.
                return Ok(());
            } else {
                opened.used += record.len();
                let mut aside = vec![0; needed];
                let (content, count) = self.read.open(&record, &mut aside)?;
                aside.truncate(count);
                if content == RecordContent::Data {
                    self.note_data(count)?;
                    let fits = count.min(free.len());
                    free[..fits].copy_from_slice(&aside[..fits]);
                    opened.filled = fits;
                    aside.drain(..fits);
                    self.held = aside;
                } else {
                    self.handle(content, &aside, answer)?;
                }
            }
        }
        Ok(())
    }

    fn note_data(&mut self, count: usize) -> Result<(), SessionFailure> {
        self.check_between_messages()?;
        self.idle_records = if count == 0 { self.idle_records + 1 } else { 0 };
        self.check_idle()
    }

    /// Limits the work that a peer causes with records without application data.
    fn check_idle(&self) -> Result<(), SessionFailure> {
        if self.idle_records > MAX_IDLE_RECORDS {
            return Err(SessionFailure::of(Alert::UnexpectedMessage));
        }
        Ok(())
    }

    /// In TLS 1.3 the records of a message follow each other without another kind between them (RFC 8446, 5.1).
    fn check_between_messages(&self) -> Result<(), SessionFailure> {
        if !self.message.is_empty() && self.layout == RecordLayout::Tls13 {
            return Err(SessionFailure::of(Alert::UnexpectedMessage));
        }
        Ok(())
    }

    fn handle(
        &mut self,
        content: RecordContent,
        bytes: &[u8],
        answer: &mut Vec<u8>,
    ) -> Result<(), SessionFailure> {
        self.idle_records += 1;
        self.check_idle()?;
        match content {
            RecordContent::Data => Ok(()),
            RecordContent::Alert => self.handle_alert(bytes),
            RecordContent::Handshake => self.handle_messages(bytes, answer),
        }
    }

    fn handle_alert(&mut self, bytes: &[u8]) -> Result<(), SessionFailure> {
        let &[level, code] = bytes else { return Err(SessionFailure::of(Alert::DecodeError)) };
        let alert = Alert::from(code);
        // Before TLS 1.3 some alerts are warnings.
        let is_warning = level == WARNING && self.layout != RecordLayout::Tls13;
        if !is_warning && !matches!(alert, Alert::CloseNotify | Alert::UserCanceled) {
            return Err(SessionFailure { why: Why::PeerAlert, alert: Some(alert) });
        }
        self.check_between_messages()?;
        self.ended |= alert == Alert::CloseNotify;
        Ok(())
    }

    fn handle_messages(&mut self, bytes: &[u8], answer: &mut Vec<u8>) -> Result<(), SessionFailure> {
        if bytes.is_empty() {
            return Err(SessionFailure::of(Alert::UnexpectedMessage));
        }
        self.message.extend_from_slice(bytes);
        if self.message.len() > MAX_MESSAGE {
            return Err(SessionFailure::of(Alert::UnexpectedMessage));
        }
        let messages = std::mem::take(&mut self.message);
        let mut rest = &messages[..];
        while let [kind, high, middle, low, after @ ..] = rest {
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            self.check_header(*kind, length)?;
            let Some(body) = after.get(..length) else { break };
            rest = &after[length..];
            self.handle_message(*kind, body, rest.is_empty(), answer)?;
        }
        self.message = rest.to_vec();
        Ok(())
    }

    /// Rejects a message by its header, before its body is buffered.
    fn check_header(&self, kind: u8, length: usize) -> Result<(), SessionFailure> {
        let most = match (kind, &self.keys, self.layout) {
            (KEY_UPDATE, _, RecordLayout::Tls13) => 1,
            (NEW_SESSION_TICKET, Keys::Client(_), RecordLayout::Tls13) => MAX_MESSAGE,
            (HELLO_REQUEST, Keys::Client(_), RecordLayout::Tls12Explicit | RecordLayout::Tls12Implicit) => 0,
            (CLIENT_HELLO, Keys::Server(_), RecordLayout::Tls12Explicit | RecordLayout::Tls12Implicit) => {
                MAX_MESSAGE
            }
            _ => return Err(SessionFailure::of(Alert::UnexpectedMessage)),
        };
        if length > most { Err(SessionFailure::of(Alert::DecodeError)) } else { Ok(()) }
    }

    fn handle_message(
        &mut self,
        kind: u8,
        body: &[u8],
        is_last: bool,
        answer: &mut Vec<u8>,
    ) -> Result<(), SessionFailure> {
        match (kind, &mut self.keys, self.layout) {
            (NEW_SESSION_TICKET, Keys::Client(keys), RecordLayout::Tls13) => {
                keys.handle_new_session_ticket(body).map_err(|error| SessionFailure::from_rustls(&error))?;
                self.ticket = identity::are_kept().then(|| body.into());
                Ok(())
            }
            (KEY_UPDATE, _, RecordLayout::Tls13) if is_last => {
                let wanted = match body {
                    [0] => false,
                    [1] => true,
                    _ => return Err(SessionFailure::of(Alert::IllegalParameter)),
                };
                let secrets = match &mut self.keys {
                    Keys::Client(keys) => keys.update_rx_secret(),
                    Keys::Server(keys) => keys.update_rx_secret(),
                };
                let (sequence, secrets) = secrets.map_err(|error| SessionFailure::from_rustls(&error))?;
                self.read = DirectionKey::new(&secrets, sequence, self.layout)?;
                // One KeyUpdate before the next data is enough (RFC 8446, 4.6.3). A peer that only sends requests gets
                // none, because it may never read them.
                self.owes_update |= wanted;
                Ok(())
            }
            // Before TLS 1.3 either side may request another handshake, which may be refused (RFC 5246, 7.2.2). Each
            // refusal stays in the output until the peer reads it.
            (HELLO_REQUEST, Keys::Client(_), RecordLayout::Tls12Explicit | RecordLayout::Tls12Implicit)
            | (CLIENT_HELLO, Keys::Server(_), RecordLayout::Tls12Explicit | RecordLayout::Tls12Implicit) => {
                self.refused_handshakes += 1;
                if self.refused_handshakes > MAX_REFUSED_HANDSHAKES {
                    return Err(SessionFailure::of(Alert::UnexpectedMessage));
                }
                self.write(RecordContent::Alert, &[WARNING, Alert::NoRenegotiation.into()], answer)
            }
            _ => Err(SessionFailure::of(Alert::UnexpectedMessage)),
        }
    }

    fn update_write_key(&mut self, answer: &mut Vec<u8>) -> Result<(), SessionFailure> {
        self.write(RecordContent::Handshake, &[KEY_UPDATE, 0, 0, 1, 0], answer)?;
        let secrets = match &mut self.keys {
            Keys::Client(keys) => keys.update_tx_secret(),
            Keys::Server(keys) => keys.update_tx_secret(),
        };
        let (sequence, secrets) = secrets.map_err(|error| SessionFailure::from_rustls(&error))?;
        self.write = DirectionKey::new(&secrets, sequence, self.layout)?;
        self.owes_update = false;
        Ok(())
    }

    /// Appends a small record to `out`.
    fn write(
        &mut self,
        content: RecordContent,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SessionFailure> {
        if self.closed {
            return Ok(());
        }
        let start = out.len();
        out.resize(start + bytes.len() + MAX_OVERHEAD, 0);
        let written = self.write.seal(content, bytes, &mut out[start..])?;
        out.truncate(start + written);
        Ok(())
    }

    /// Encrypts from the front of `bytes` to the front of `out`, in records of at most `largest` bytes. Returns the
    /// numbers of bytes taken and written. Send the bytes appended to `answer` before those in `out`.
    pub(crate) fn seal(
        &mut self,
        bytes: &[u8],
        out: &mut [u8],
        largest: usize,
        answer: &mut Vec<u8>,
    ) -> Result<(usize, usize), SessionFailure> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        if self.closed {
            return Err(SessionFailure::because(Why::Closed));
        }
        let needs_key = self.owes_update || self.write.sequence() >= RECORDS_OF_A_KEY;
        if self.layout == RecordLayout::Tls13 && needs_key && !bytes.is_empty() {
            self.update_write_key(answer)?;
        }
        let overhead = self.layout.overhead();
        let (mut taken, mut written) = (0, 0);
        while taken < bytes.len() {
            let room = out.len() - written;
            if room <= overhead {
                break;
            }
            let count = (bytes.len() - taken).min(largest.clamp(1, MAX_CONTENT)).min(room - overhead);
            written +=
                self.write.seal(RecordContent::Data, &bytes[taken..taken + count], &mut out[written..])?;
            taken += count;
        }
        Ok((taken, written))
    }

    /// Appends `close_notify`.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if self.failure.is_none() && self.write(RecordContent::Alert, &[WARNING, 0], out).is_ok() {
            self.closed = true;
        }
    }

    fn fail(&mut self, failure: SessionFailure, answer: &mut Vec<u8>) {
        if let (true, Some(alert)) = (failure.why != Why::PeerAlert, failure.alert) {
            let _ = self.write(RecordContent::Alert, &[FATAL, alert.into()], answer);
        }
        self.failure = Some(failure);
        self.closed = true;
    }
}

const WARNING: u8 = 1;
const FATAL: u8 = 2;
const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// Maximum number of records per key. The limit for AES-GCM is 2^24.5 (RFC 8446, 5.5).
const RECORDS_OF_A_KEY: u64 = 1 << 24;
/// The size limit of a message after the handshake; tickets of known servers are smaller than 4 kB, those with a client's
/// certificates smaller than 20 kB.
const MAX_MESSAGE: usize = 1 << 16;
/// Renegotiations that a peer may request in a session.
const MAX_REFUSED_HANDSHAKES: u32 = 32;
/// Limit of consecutive records without application data.
const MAX_IDLE_RECORDS: u32 = 32;
