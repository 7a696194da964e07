//! Early data that this side rejects: records with keys of an earlier session. They are skipped until a record can be
//! decrypted with this handshake's keys, or the second ClientHello arrives (RFC 8446, 4.2.10).
//!
//! rustls could skip them too, but it buffers them, reads and counts them again at each call, and its limit ignores the
//! encryption overhead. So rustls does not get these records. Its key log provides the handshake keys, which are tried
//! on the server's output and on the client's records.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use rustls::{CommonState, KeyLog, ProtocolVersion, ServerConfig};

use crate::record::{DirectionKey, Record, RecordLayout, announced};

/// Skips rejected early data.
pub(crate) struct EarlyDataSkipper {
    awaited: EarlyDataEnd,
    /// Bytes that may still be skipped.
    left: usize,
}

/// The record that ends the early data.
enum EarlyDataEnd {
    /// The second ClientHello, after a HelloRetryRequest.
    Hello,
    /// A record that the client's handshake key decrypts.
    Record(Box<DirectionKey>),
}

impl EarlyDataSkipper {
    /// The skipper after the server's `answer` to a ClientHello with early data. `None` if early data are accepted or not sent.
    pub(crate) fn of(common: &CommonState, answer: &[u8]) -> Option<EarlyDataSkipper> {
        let keys = KEYS.with_borrow_mut(|keys| std::mem::take(&mut **keys));
        if common.protocol_version() != Some(ProtocolVersion::TLSv1_3) {
            return None;
        }
        let suite = common.negotiated_cipher_suite().and_then(|suite| suite.tls13());
        let open_with = |secret: &[u8]| DirectionKey::of_secret(suite?, secret);
        let awaited = match (&keys.client, &keys.server) {
            (Some(client), Some(server)) if !accepts(&mut open_with(server)?, answer) => {
                EarlyDataEnd::Record(Box::new(open_with(client)?))
            }
            (Some(_), Some(_)) => return None,
            _ => EarlyDataEnd::Hello,
        };
        Some(EarlyDataSkipper { awaited, left: MOST })
    }

    /// Skips early data from offset `used` on. Returns true at their end, or beyond the limit, where rustls then fails the session.
    pub(crate) fn skip(&mut self, wire: &[u8], used: &mut usize) -> bool {
        loop {
            let rest = &wire[*used..];
            let Some(length) = announced(rest).filter(|length| rest.len() >= *length) else { return false };
            let is_early = match (rest[0], &mut self.awaited) {
                (CHANGE_CIPHER_SPEC, _) | (DATA, EarlyDataEnd::Hello) => true,
                (DATA, EarlyDataEnd::Record(keys)) => opened(keys, rest).is_none(),
                _ => false,
            };
            if !is_early {
                return true;
            }
            // The limit counts content only, at least one byte per record.
            let content = length.saturating_sub(RecordLayout::Tls13.overhead()).max(1);
            let Some(left) = self.left.checked_sub(content) else { return true };
            self.left = left;
            *used += length;
        }
    }
}

/// Whether the EncryptedExtensions in a server's `answer` accept early data.
fn accepts(keys: &mut DirectionKey, mut answer: &[u8]) -> bool {
    while let Some(length) = announced(answer).filter(|length| answer.len() >= *length) {
        if answer[0] == DATA {
            return opened(keys, answer).is_some_and(|message| lists_early_data(&message));
        }
        answer = &answer[length..];
    }
    false
}

fn lists_early_data(message: &[u8]) -> bool {
    let [ENCRYPTED_EXTENSIONS, _, _, _, high, low, rest @ ..] = message else { return false };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    weir_client_hello::listed(&rest[..length.min(rest.len())]).any(|(kind, _)| kind == EARLY_DATA)
}

fn opened(keys: &mut DirectionKey, wire: &[u8]) -> Option<Vec<u8>> {
    let record = Record::first(wire, RecordLayout::Tls13).ok()??;
    let mut content = vec![0; record.room(RecordLayout::Tls13)];
    let (_, length) = keys.open(&record, &mut content).ok()?;
    content.truncate(length);
    Some(content)
}

/// A copy of `config` with a key log, which provides the handshake keys to [`EarlyDataSkipper::of`].
pub(crate) fn with_refusal_log(config: &ServerConfig) -> Arc<ServerConfig> {
    let mut config = config.clone();
    config.key_log = Arc::new(RefusalLog(config.key_log));
    Arc::new(config)
}

#[derive(Debug)]
struct RefusalLog(Arc<dyn KeyLog>);

impl KeyLog for RefusalLog {
    fn will_log(&self, label: &str) -> bool {
        matches!(label, CLIENT | SERVER) || self.0.will_log(label)
    }

    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        KEYS.with_borrow_mut(|keys| match label {
            CLIENT => keys.client = Some(secret.into()),
            SERVER => keys.server = Some(secret.into()),
            _ => {}
        });
        if self.0.will_log(label) {
            self.0.log(label, random, secret);
        }
    }
}

/// The secrets of a handshake.
#[derive(Default)]
struct Keys {
    client: Option<Box<[u8]>>,
    server: Option<Box<[u8]>>,
}

thread_local! {
    /// rustls logs the keys on the thread that answers the hello.
    static KEYS: RefCell<ManuallyDrop<Keys>> =
        const { RefCell::new(ManuallyDrop::new(Keys { client: None, server: None })) };
}

const CLIENT: &str = "CLIENT_HANDSHAKE_TRAFFIC_SECRET";
const SERVER: &str = "SERVER_HANDSHAKE_TRAFFIC_SECRET";

/// Maximum number of skipped bytes. The process that issued the ticket may have allowed more than this one, with other
/// settings. Usual limits are at most a buffer.
const MOST: usize = 1 << 20;
/// Types of records (RFC 8446, 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const DATA: u8 = 23;
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The extension `early_data` (RFC 8446, 4.2.10).
pub(crate) const EARLY_DATA: u16 = 42;
