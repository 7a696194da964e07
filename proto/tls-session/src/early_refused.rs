//! Early data that this side refuses: records with keys of an earlier session, which are skipped until one opens with the keys of
//! this handshake, or the second hello comes (RFC 8446, 4.2.10).
//!
//! rustls skips them too, but reads and counts them again at each call, keeps them until then, and leaves no room for
//! the overhead of encryption. So it never sees them: its key log provides the keys of the handshake, which are then
//! tried on its own answer and on the client's records.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use rustls::{CommonState, KeyLog, ProtocolVersion, ServerConfig};

use crate::record::{DirectionKey, Record, RecordLayout, announced};

/// Skips refused early data.
pub(crate) struct EarlyDataSkipper {
    awaited: EarlyDataEnd,
    /// How many bytes may still be skipped.
    left: usize,
}

/// The record that ends the early data.
enum EarlyDataEnd {
    /// The hello after a request for another key share.
    Hello,
    /// A record that opens with the client's keys.
    Record(Box<DirectionKey>),
}

impl EarlyDataSkipper {
    /// After the answer to a hello that announced early data; `None` if they are accepted, or are not sent.
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

    /// Skips early data at `used`; true at their end, or if there are too many: then rustls ends the session.
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
            // Only content is limited, and each record has some.
            let content = length.saturating_sub(RecordLayout::Tls13.overhead()).max(1);
            let Some(left) = self.left.checked_sub(content) else { return true };
            self.left = left;
            *used += length;
        }
    }
}

/// Whether the extensions of a server's answer accept early data.
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

/// The same settings; their handshakes log their keys for [`EarlyDataSkipper::of`].
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

/// Bytes that are skipped at most. The process that issued the ticket may have allowed more than this one, with other
/// settings. No limit in use is larger than a buffer.
const MOST: usize = 1 << 20;
/// Types of records (RFC 8446, 5.1).
const CHANGE_CIPHER_SPEC: u8 = 20;
const DATA: u8 = 23;
const ENCRYPTED_EXTENSIONS: u8 = 8;
/// The extension that announces early data, and accepts them.
pub(crate) const EARLY_DATA: u16 = 42;
