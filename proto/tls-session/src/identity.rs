//! The identity of a session: its session ID, the key that later sessions resume from, and the Finished message for
//! channel binding (RFC 5929, 3).
//!
//! rustls does not expose these values. They are captured in the key derivation functions, which are ours or wrapped
//! (`key_schedule.rs`), and from the server's hello and tickets on the wire. They are recorded only after [`keep_identities`],
//! on the thread that runs the session. Their values equal OpenSSL's, which defines the configuration's keywords.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use aws_lc_rs::digest::{SHA256, digest};
use weir_client_hello::{CLIENT_HELLO, ClientHello, HandshakeMessage};

use crate::record::{HEADER, announced};

/// Makes all later sessions keep their identity. It cannot be disabled again, because rules are read before the first session.
pub fn keep_identities() {
    KEPT.store(true, Relaxed);
}

static KEPT: AtomicBool = AtomicBool::new(false);

/// The known parts of a session's identity.
#[derive(Clone)]
pub struct SessionIdentity {
    is_server: bool,
    /// The identifier in the server's hello.
    hello_id: BoxedBytes,
    /// Whether this server issued a TLS 1.2 ticket.
    gives_ticket: bool,
    /// The identifier of the newest ticket.
    ticket: BoxedBytes,
    /// The identifiers of the tickets that this client offered: for TLS 1.2, and for 1.3.
    offered: [BoxedBytes; 2],
    /// The main secret of TLS 1.2, or the resumption key of the newest TLS 1.3 ticket.
    key: BoxedBytes,
    /// The resumption key of the ticket that was offered in TLS 1.3.
    offered_key: BoxedBytes,
    /// The content of the last two Finished messages, in their order.
    finished: Vec<BoxedBytes>,
    /// Parser of the server's cleartext messages. `None` once they are encrypted.
    clear: Option<Clear>,
}

/// The beginning of the server's messages, which is cleartext.
#[derive(Clone, Default)]
struct Clear {
    /// Bytes at the front of the client's input that were already read.
    seen: usize,
    /// Bytes of an incomplete record.
    record: Vec<u8>,
    /// Bytes of an incomplete message.
    message: Vec<u8>,
}

type BoxedBytes = Box<[u8]>;

impl SessionIdentity {
    /// The identity of a session that begins; `None` unless identities are kept.
    pub(crate) fn begin(is_server: bool) -> Option<Box<SessionIdentity>> {
        are_kept().then(|| {
            Box::new(SessionIdentity {
                is_server,
                hello_id: BoxedBytes::default(),
                gives_ticket: false,
                ticket: BoxedBytes::default(),
                offered: Default::default(),
                key: BoxedBytes::default(),
                offered_key: BoxedBytes::default(),
                finished: Vec::new(),
                clear: Some(Clear::default()),
            })
        })
    }

    /// The unread part of this client's input, copied before rustls changes it in place: rustls joins messages that
    /// span records, and decrypts records.
    pub(crate) fn input(&self, wire: &[u8]) -> Vec<u8> {
        let clear = self.clear.as_ref().filter(|_| !self.is_server);
        clear.and_then(|clear| wire.get(clear.seen..)).unwrap_or_default().to_vec()
    }

    /// Adds the values recorded on this thread in one step of the session, and those in the received bytes (`came`) and
    /// the sent bytes. `left` bytes of the input remain.
    pub(crate) fn take_step(&mut self, came: &[u8], sent: &[u8], left: usize) {
        self.take_noted();
        if self.is_server {
            self.read_server(sent);
        } else {
            self.read_hello(sent);
            self.read_server(came);
        }
        if let Some(clear) = &mut self.clear {
            clear.seen = left;
        }
    }

    /// Adds the values noted on this thread since the last time.
    pub(crate) fn take_noted(&mut self) {
        let noted = NOTED.with_borrow_mut(|noted| std::mem::take(&mut **noted));
        self.finished.extend(noted.finished);
        self.keep_finished(2);
        if let Some(key) = noted.key {
            self.key = key;
        }
        if let Some(key) = noted.offered_key {
            self.offered_key = key;
        }
        if self.is_server && noted.has_ticket {
            // A stateless ticket lacks an identifier. As with OpenSSL, it gets a random one.
            self.ticket = noted.stored.unwrap_or_else(random);
        }
    }

    /// Drops the PSK binder of the client's ticket, which was recorded before this side's Finished. Called once the
    /// client's early data were read.
    pub(crate) fn take_early(&mut self) {
        self.keep_finished(1);
    }

    fn keep_finished(&mut self, count: usize) {
        self.finished.drain(..self.finished.len().saturating_sub(count));
    }

    /// Reads the hello of this client.
    fn read_hello(&mut self, records: &[u8]) {
        let Ok(HandshakeMessage { kind: CLIENT_HELLO, body }) = weir_client_hello::read(records) else {
            return;
        };
        let Some(hello) = ClientHello::parse(&body) else { return };
        let [older, newer] = [hello.session_ticket(), hello.offered_sessions().next()];
        self.offered = [older, newer].map(|ticket| identifier(ticket.unwrap_or_default()));
    }

    /// Reads the server's cleartext messages.
    fn read_server(&mut self, bytes: &[u8]) {
        let Some(mut clear) = self.clear.take() else { return };
        clear.record.extend_from_slice(bytes);
        while let Some(length) = announced(&clear.record).filter(|length| *length <= clear.record.len()) {
            if clear.record[0] != HANDSHAKE || clear.message.len() > MAX_MESSAGE {
                return;
            }
            clear.message.extend_from_slice(&clear.record[HEADER..length]);
            clear.record.drain(..length);
            let used = self.read_messages(&clear.message);
            clear.message.drain(..used);
        }
        self.clear = Some(clear);
    }

    /// Reads complete messages; returns their length.
    fn read_messages(&mut self, messages: &[u8]) -> usize {
        let mut rest = messages;
        while let [kind, high, middle, low, after @ ..] = rest {
            let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
            let Some((body, after)) = after.split_at_checked(length) else { break };
            match *kind {
                SERVER_HELLO => {
                    self.hello_id =
                        body.get(34..).and_then(vector8).map_or_else(BoxedBytes::default, Into::into)
                }
                NEW_SESSION_TICKET if self.is_server => self.gives_ticket = true,
                NEW_SESSION_TICKET => self.take_ticket(body.get(4..).and_then(vector16)),
                _ => {}
            }
            rest = after;
        }
        messages.len() - rest.len()
    }

    /// Reads a TLS 1.3 ticket (RFC 8446, 4.6.1), and takes the key that was derived for it.
    pub(crate) fn take_ticket13(&mut self, body: &[u8]) {
        self.take_noted();
        let behind_nonce = body.get(8..).and_then(|rest| rest.get(1 + vector8(rest)?.len()..));
        self.take_ticket(behind_nonce.and_then(vector16));
    }

    fn take_ticket(&mut self, ticket: Option<&[u8]>) {
        if let Some(ticket) = ticket.filter(|ticket| !ticket.is_empty()) {
            self.ticket = identifier(ticket);
        }
    }

    /// The session ID, possibly empty. TLS 1.2: the ID in the ServerHello. A client with a ticket: the digest of the
    /// ticket. A server that issued a TLS 1.3 ticket: the key in the session storage, or random bytes. Empty on a
    /// server for a new TLS 1.2 session with a ticket.
    pub(crate) fn id(&self, is_tls13: bool, resumed: bool) -> &[u8] {
        let [older, newer] = &self.offered;
        match (is_tls13, self.is_server) {
            (true, _) if resumed && self.ticket.is_empty() => newer,
            (true, _) => &self.ticket,
            (false, true) if self.gives_ticket && !resumed => &[],
            (false, false) if !self.ticket.is_empty() => &self.ticket,
            (false, false) if resumed && !older.is_empty() => older,
            (false, _) => &self.hello_id,
        }
    }

    /// The main secret of TLS 1.2; in TLS 1.3 the resumption key of the newest ticket, empty before a new session gets
    /// one.
    pub(crate) fn key(&self, is_tls13: bool, resumed: bool) -> &[u8] {
        if is_tls13 && resumed && self.key.is_empty() { &self.offered_key } else { &self.key }
    }

    /// The content of the first Finished message: the client's, or the server's in a resumed session (RFC 5929, 3). TLS
    /// 1.3 uses the same ones, although the server's always comes first there, for compatibility with OpenSSL and its
    /// users.
    pub(crate) fn unique_id(&self, is_tls13: bool, resumed: bool) -> &[u8] {
        self.finished.get(usize::from(is_tls13 && !resumed)).map_or(&[], |said| said)
    }
}

impl std::fmt::Debug for SessionIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys are never written to logs.
        f.write_str("Identity")
    }
}

/// Whether sessions keep their identity.
pub(crate) fn are_kept() -> bool {
    KEPT.load(Relaxed)
}

/// The identifier that a client gives a ticket, as OpenSSL does; empty for an empty ticket.
fn identifier(ticket: &[u8]) -> BoxedBytes {
    if ticket.is_empty() { BoxedBytes::default() } else { digest(&SHA256, ticket).as_ref().into() }
}

fn random() -> BoxedBytes {
    let mut bytes = [0; 32];
    // Without random numbers the identifier stays empty.
    aws_lc_rs::rand::fill(&mut bytes).map_or_else(|_| BoxedBytes::default(), |()| bytes.into())
}

/// Content of a vector with a length prefix of one byte. `None` if it is truncated.
fn vector8(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first()?;
    rest.get(..usize::from(*length))
}

/// Content of a vector with a length prefix of two bytes. `None` if it is truncated.
fn vector16(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<2>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Values noted on this thread and not taken yet.
#[derive(Default)]
struct NotedValues {
    key: Option<BoxedBytes>,
    offered_key: Option<BoxedBytes>,
    finished: Vec<BoxedBytes>,
    /// Whether `key` is a ticket's key.
    has_ticket: bool,
    /// The key of the newest session in the storage.
    stored: Option<BoxedBytes>,
}

thread_local! {
    static NOTED: RefCell<ManuallyDrop<NotedValues>> = const {
        RefCell::new(ManuallyDrop::new(NotedValues {
            key: None,
            offered_key: None,
            finished: Vec::new(),
            has_ticket: false,
            stored: None,
        }))
    };
}

/// Records values for the running session, if sessions keep their identity.
fn note(what: impl FnOnce(&mut NotedValues)) {
    if are_kept() {
        NOTED.with_borrow_mut(|noted| what(noted));
    }
}

/// Records the main secret of a TLS 1.2 session.
pub(crate) fn note_key(key: &[u8]) {
    note(|noted| noted.key = Some(key.into()));
}

/// Records the resumption key of an offered ticket.
pub(crate) fn note_offered_key(key: &[u8]) {
    note(|noted| noted.offered_key = Some(key.into()));
}

/// Records the resumption key derived for a ticket.
pub(crate) fn note_ticket_key(key: &[u8]) {
    note(|noted| (noted.key, noted.has_ticket) = (Some(key.into()), true));
}

/// Records a Finished message that was made or checked, or a PSK binder, which is computed like one.
pub(crate) fn note_finished(said: &[u8]) {
    note(|noted| {
        if noted.finished.len() == MAX_FINISHED {
            noted.finished.remove(0);
        }
        noted.finished.push(said.into());
    });
}

/// Records that the running session was stored under this identifier.
pub fn note_stored(id: &[u8]) {
    note(|noted| noted.stored = Some(id.into()));
}

/// Limit of recorded Finished messages. One step of a session makes fewer.
const MAX_FINISHED: usize = 8;
/// Largest handshake message in bytes, as in rustls.
const MAX_MESSAGE: usize = 1 << 16;
/// The record type `handshake` (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;
/// Types of messages (RFC 5246, 7.4; RFC 5077, 3.3).
const SERVER_HELLO: u8 = 2;
const NEW_SESSION_TICKET: u8 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Box<SessionIdentity> {
        keep_identities();
        SessionIdentity::begin(false).expect("identities are kept")
    }

    fn record(kind: u8, content: &[u8]) -> Vec<u8> {
        [&[kind, 3, 3], &(content.len() as u16).to_be_bytes()[..], content].concat()
    }

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind], &(body.len() as u32).to_be_bytes()[1..], body].concat()
    }

    /// A hello with the identifier "id", then something, then a ticket, each message cut over two records; then no handshake.
    fn said() -> Vec<u8> {
        let hello = [&[3; 34][..], &[2], b"id", &[0xc0, 0x2b, 0]].concat();
        let ticket = [&[0; 4][..], &[0, 6], b"ticket"].concat();
        let messages =
            [message(SERVER_HELLO, &hello), message(11, &[0; 300]), message(NEW_SESSION_TICKET, &ticket)];
        let cut = messages.iter().flat_map(|message| {
            let (one, other) = message.split_at(message.len() / 2);
            [record(HANDSHAKE, one), record(HANDSHAKE, other)].concat()
        });
        cut.chain(record(20, &[1])).chain(record(HANDSHAKE, &message(SERVER_HELLO, &[9; 80]))).collect()
    }

    #[test]
    fn server_handshake_messages_are_read_when_split_at_any_byte() {
        let said = said();
        for cut in 0..said.len() {
            let mut identity = client();
            let (one, other) = said.split_at(cut);
            identity.read_server(one);
            identity.read_server(other);
            assert_eq!(
                (&identity.hello_id[..], &identity.ticket),
                (&b"id"[..], &identifier(b"ticket")),
                "{cut}"
            );
            assert!(identity.clear.is_none());
        }
    }

    #[test]
    fn damaged_handshake_messages_reveal_nothing_and_hold_no_memory() {
        let said = said();
        for at in 0..said.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = said.clone();
                damaged[at] = value;
                client().read_server(&damaged);
                client().take_ticket13(&damaged[at..]);
                client().read_hello(&damaged);
            }
        }
        let mut identity = client();
        let endless = record(HANDSHAKE, &[&[SERVER_HELLO, 0xff, 0xff, 0xff][..], &[0; 16_000]].concat());
        for _ in 0..10 {
            identity.read_server(&endless);
        }
        assert!(identity.clear.is_none() && identity.hello_id.is_empty());
    }
}
