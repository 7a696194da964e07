//! Refused messages for `show errors`: the last message of each proxy and direction.
//!
//! A refused message is written to a ring, like every other event. Workers that refuse many messages at a time, as under an attack, do
//! not wait for each other or for an operator's reader. Each proxy and direction has its own ring for one message, created at the first
//! refusal. So many errors of one proxy do not evict the last error of another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use weir_sync::Ring;
use weir_sync::ring::{HEADER, ReaderWait, Seek};

/// The last refused messages of the process.
#[derive(Debug)]
pub struct RefusedMessages {
    total: AtomicU64,
    /// For each proxy, a ring for requests, then a ring for responses.
    rings: Box<[RingCell]>,
    /// The size limit of a stored message, in bytes.
    largest: usize,
}

/// The refused messages of one proxy and direction.
type RingCell = OnceLock<Arc<Ring>>;

/// Which message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageDirection {
    Request,
    Response,
}

/// A refused message, kept for `show errors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedMessage {
    /// Number of messages refused before this one.
    pub number: u64,
    /// The time, in microseconds since the epoch.
    pub at_us: u64,
    pub direction: MessageDirection,
    pub frontend: usize,
    /// The backend's index. `None` if none was chosen.
    pub backend: Option<usize>,
    /// The server's name. `None` without a server.
    pub server: Option<Box<str>>,
    pub source: Box<str>,
    pub stream: u64,
    pub reason: Box<str>,
    /// The offset of the byte at which the error was detected.
    pub position: usize,
    /// The bytes received by the time of the error.
    pub bytes: Box<[u8]>,
}

impl RefusedMessages {
    /// An empty store for `proxies` proxies. Messages are cut to `largest` bytes.
    pub fn new(proxies: usize, largest: usize) -> Self {
        RefusedMessages {
            total: AtomicU64::new(0),
            rings: (0..2 * proxies).map(|_| RingCell::new()).collect(),
            largest,
        }
    }

    /// How many messages were refused since startup.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// The first stored message at index `place` or later, with its index. Each proxy has two indices: requests, then responses.
    pub fn next(&self, place: usize) -> Option<(usize, RefusedMessage)> {
        let rings = self.rings.iter().enumerate().skip(place);
        rings
            .filter_map(|(index, cell)| Some((index, cell.get()?)))
            .find_map(|(index, ring)| Some((index, newest(ring)?)))
    }

    pub(crate) fn keep(&self, proxy: usize, mut message: RefusedMessage) {
        message.number = self.total.fetch_add(1, Relaxed);
        let Some(cell) = self.rings.get(2 * proxy + message.direction as usize) else { return };
        let ring = cell.get_or_init(|| Ring::in_memory(HEADER + LARGEST_HEAD + self.largest, 1));
        let head = message.head();
        let bytes = &message.bytes[..message.bytes.len().min(self.largest)];
        // The ring has one queue, so any writer number works. The message is lost only while an operator reads a full ring.
        ring.write(0, &[&head, bytes]);
    }
}

fn newest(ring: &Arc<Ring>) -> Option<RefusedMessage> {
    let mut newest = Vec::new();
    // If the ring already has the maximum number of readers, this reader gets nothing.
    ring.attach(Seek::Oldest, ReaderWait::No).ok()?.read(|message| {
        newest.clear();
        message.append_to(&mut newest);
        true
    });
    RefusedMessage::decode(&newest)
}

/// The size limit of a message's header in the ring, in bytes: numbers, and strings cut to the range of their length field.
const LARGEST_HEAD: usize = 8 * NUMBERS + TEXTS * (1 + LONGEST_TEXT) + 16;
const NUMBERS: usize = 7;
const TEXTS: usize = 3;
const LONGEST_TEXT: usize = u8::MAX as usize;

/// The encoding of a missing backend.
const NONE: u64 = u64::MAX;

impl RefusedMessage {
    /// The header before the message's bytes in a ring.
    fn head(&self) -> Vec<u8> {
        let mut head = Vec::with_capacity(LARGEST_HEAD);
        let backend = self.backend.map_or(NONE, |index| index as u64);
        let numbers: [u64; NUMBERS] = [
            self.number,
            self.at_us,
            self.direction as u64,
            self.frontend as u64,
            backend,
            self.stream,
            self.position as u64,
        ];
        numbers.iter().for_each(|number| head.extend_from_slice(&number.to_le_bytes()));
        for text in [&*self.source, self.server.as_deref().unwrap_or(""), &*self.reason] {
            let text = &text.as_bytes()[..text.len().min(LONGEST_TEXT)];
            head.push(text.len() as u8);
            head.extend_from_slice(text);
        }
        head
    }

    /// Decodes a message from a ring. `None` if the bytes are invalid.
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut numbers = [0; NUMBERS];
        for number in &mut numbers {
            let (first, rest) = bytes.split_first_chunk()?;
            (*number, bytes) = (u64::from_le_bytes(*first), rest);
        }
        let mut texts = <[Box<str>; TEXTS]>::default();
        for text in &mut texts {
            let (&length, rest) = bytes.split_first()?;
            let (first, rest) = rest.split_at_checked(usize::from(length))?;
            (*text, bytes) = (String::from_utf8_lossy(first).into(), rest);
        }
        let [number, at_us, direction, frontend, backend, stream, position] = numbers;
        let [source, server, reason] = texts;
        Some(RefusedMessage {
            number,
            at_us,
            direction: if direction == 0 { MessageDirection::Request } else { MessageDirection::Response },
            frontend: usize::try_from(frontend).ok()?,
            backend: if backend == NONE { None } else { usize::try_from(backend).ok() },
            server: (!server.is_empty()).then_some(server),
            source,
            stream,
            reason,
            position: usize::try_from(position).ok()?,
            bytes: bytes.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(direction: MessageDirection, bytes: &[u8]) -> RefusedMessage {
        RefusedMessage {
            number: 0,
            at_us: 1_700_000_000_000_000,
            direction,
            frontend: 1,
            backend: (direction == MessageDirection::Response).then_some(2),
            server: (direction == MessageDirection::Response).then(|| "s1".into()),
            source: "192.0.2.1:1234".into(),
            stream: 7,
            reason: "InvalidName".into(),
            position: 21,
            bytes: bytes.into(),
        }
    }

    fn kept(refused: &RefusedMessages) -> Vec<(usize, u64, Vec<u8>)> {
        let mut place = 0;
        let next = || {
            let (at, message) = refused.next(place)?;
            place = at + 1;
            Some((at, message.number, message.bytes.into_vec()))
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn the_last_invalid_message_of_each_proxy_and_direction_is_kept() {
        let refused = RefusedMessages::new(3, 1000);
        assert!(kept(&refused).is_empty() && refused.total() == 0);
        refused.keep(1, message(MessageDirection::Request, b"first"));
        refused.keep(2, message(MessageDirection::Response, b"answer"));
        assert_eq!(kept(&refused), [(2, 0, b"first".to_vec()), (5, 1, b"answer".to_vec())]);
        // Many other messages of any length do not evict the first.
        for number in 2..500 {
            refused.keep(1, message(MessageDirection::Request, &vec![b'x'; number]));
        }
        assert_eq!(kept(&refused), [(2, 499, vec![b'x'; 499]), (5, 1, b"answer".to_vec())]);
        assert_eq!(refused.total(), 500);
        refused.keep(9, message(MessageDirection::Request, b"of nobody"));
        assert_eq!(kept(&refused).len(), 2);
    }

    #[test]
    fn a_captured_message_is_read_back_unchanged() {
        let refused = RefusedMessages::new(2, 1000);
        let sent = message(MessageDirection::Response, b"HTTP/1.1 2\x000 OK\r\n\r\n");
        refused.keep(0, sent.clone());
        assert_eq!(refused.next(0), Some((1, sent)));
    }

    #[test]
    fn large_captured_messages_are_truncated() {
        let refused = RefusedMessages::new(1, 1000);
        let mut long = message(MessageDirection::Request, &[b'y'; 10_000]);
        long.source = "s".repeat(400).into();
        refused.keep(0, long);
        let (_, found) = refused.next(0).expect("it is kept");
        assert_eq!((found.bytes.len(), found.source.len()), (1000, 255));
    }

    #[test]
    fn truncated_capture_records_are_rejected() {
        let head = message(MessageDirection::Request, b"").head();
        for length in 0..head.len() {
            assert_eq!(RefusedMessage::decode(&head[..length]), None);
        }
        assert!(RefusedMessage::decode(&head).is_some());
    }
}
