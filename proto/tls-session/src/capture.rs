//! The parts of a ClientHello that are kept for rules and logs: `tune.ssl.capture-buffer-size`.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_client_hello::ClientHello;

/// Lists of a hello, unchanged, two bytes a value. Together they have at most the configured length: the first ones are complete, and
/// the first one that does not fit is truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloCapture {
    /// The version of the hello.
    pub version: u16,
    /// A digest of all ciphers, including those that were truncated.
    pub ciphers_digest: u64,
    bytes: Box<[u8]>,
    /// The end of each list.
    ends: [usize; HelloList::COUNT],
}

/// A list of a hello, in the order of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloList {
    Ciphers,
    Extensions,
    /// Groups, formerly elliptic curves.
    Groups,
    /// EC point formats, a byte each.
    PointFormats,
    Versions,
    Signatures,
}

impl HelloList {
    const COUNT: usize = 6;
}

/// Sets the number of bytes of each ClientHello that are kept; 0 for none.
pub fn set_capture(bytes: usize) {
    KEPT.store(bytes, Relaxed);
}

static KEPT: AtomicUsize = AtomicUsize::new(0);

impl HelloCapture {
    /// The capture of a hello; `None` if captures are off.
    pub(crate) fn of(hello: &ClientHello<'_>) -> Option<Box<HelloCapture>> {
        let room = KEPT.load(Relaxed);
        (room > 0).then(|| Box::new(HelloCapture::within(hello, room)))
    }

    fn within(hello: &ClientHello<'_>, room: usize) -> HelloCapture {
        let kinds: Vec<u8> = hello.extensions().flat_map(|(kind, _)| kind.to_be_bytes()).collect();
        let lists: [&[u8]; HelloList::COUNT] = [
            hello.ciphers,
            &kinds,
            hello.groups().unwrap_or_default(),
            hello.point_formats().unwrap_or_default(),
            hello.versions().unwrap_or_default(),
            hello.signature_schemes().unwrap_or_default(),
        ];
        let (mut bytes, mut ends) = (Vec::new(), [0; HelloList::COUNT]);
        for (list, end) in lists.iter().zip(&mut ends) {
            let count = list.len().min(room - bytes.len());
            bytes.extend_from_slice(&list[..count]);
            *end = bytes.len();
        }
        HelloCapture {
            version: u16::from_be_bytes(hello.version),
            ciphers_digest: xxhash_rust::xxh64::xxh64(hello.ciphers, 0),
            bytes: bytes.into(),
            ends,
        }
    }

    /// A list.
    pub fn list(&self, listed: HelloList) -> &[u8] {
        let position = listed as usize;
        let start = if position == 0 { 0 } else { self.ends[position - 1] };
        &self.bytes[start..self.ends[position]]
    }
}

/// Whether a two-byte value is a GREASE value, which servers must ignore (RFC 8701).
pub fn is_grease(value: [u8; 2]) -> bool {
    value[0] == value[1] && value[0] & 0x0f == 0x0a
}
