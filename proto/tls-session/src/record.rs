//! TLS records in both directions after the handshake (RFC 8446, 5; RFC 5246, 6.2).
//!
//! rustls runs the handshake and exports its keys. Later records are handled here without copying: a record is
//! decrypted from the receive buffer into the reader's buffer, and encrypted from the writer's bytes into the output.
//!
//! ```text
//!   TLS 1.3   17 0303 <length>  | encrypted: <content> <type> <zeros> | <tag, 16>
//!   TLS 1.2   <type> 0303 <length>  [<nonce, 8>: GCM] | encrypted: <content> | <tag, 16>
//! ```

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{Algorithm as HkdfAlgorithm, HKDF_SHA256, HKDF_SHA384, KeyType, Prk};
use rustls::{CipherSuite, ConnectionTrafficSecrets, Tls13CipherSuite};

use crate::failure::{Alert, SessionFailure};

/// The content type of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordContent {
    Alert,
    Handshake,
    Data,
}

impl RecordContent {
    fn of(byte: u8) -> Option<RecordContent> {
        match byte {
            21 => Some(RecordContent::Alert),
            22 => Some(RecordContent::Handshake),
            23 => Some(RecordContent::Data),
            _ => None,
        }
    }

    fn byte(self) -> u8 {
        match self {
            RecordContent::Alert => 21,
            RecordContent::Handshake => 22,
            RecordContent::Data => 23,
        }
    }
}

/// The record format of a version and a cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordLayout {
    Tls13,
    /// TLS 1.2 with a part of the nonce in the record (RFC 5288).
    Tls12Explicit,
    /// TLS 1.2 with an implicit nonce (RFC 7905).
    Tls12Implicit,
}

impl RecordLayout {
    pub(crate) fn of(is_tls13: bool, secrets: &ConnectionTrafficSecrets) -> RecordLayout {
        match (is_tls13, secrets) {
            (true, _) => RecordLayout::Tls13,
            (false, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => RecordLayout::Tls12Implicit,
            (false, _) => RecordLayout::Tls12Explicit,
        }
    }

    fn explicit(self) -> usize {
        if self == RecordLayout::Tls12Explicit { EXPLICIT_NONCE } else { 0 }
    }

    /// The overhead of a record in bytes.
    pub(crate) fn overhead(self) -> usize {
        match self {
            RecordLayout::Tls13 => HEADER + 1 + TAG,
            RecordLayout::Tls12Explicit => HEADER + EXPLICIT_NONCE + TAG,
            RecordLayout::Tls12Implicit => HEADER + TAG,
        }
    }
}

/// The key of one direction, and its record sequence number.
pub(crate) struct DirectionKey {
    key: LessSafeKey,
    iv: [u8; NONCE],
    sequence: u64,
    layout: RecordLayout,
}

impl DirectionKey {
    pub(crate) fn new(
        secrets: &ConnectionTrafficSecrets,
        sequence: u64,
        layout: RecordLayout,
    ) -> Result<Self, SessionFailure> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(SessionFailure::INTERNAL),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).map_err(|_| SessionFailure::INTERNAL)?;
        let iv = <[u8; NONCE]>::try_from(iv.as_ref()).map_err(|_| SessionFailure::INTERNAL)?;
        Ok(DirectionKey { key: LessSafeKey::new(key), iv, sequence, layout })
    }

    /// The first TLS 1.3 traffic key derived from a handshake secret (RFC 8446, 7.3).
    pub(crate) fn of_secret(suite: &Tls13CipherSuite, secret: &[u8]) -> Option<Self> {
        let (algorithm, hash): (_, HkdfAlgorithm) = match suite.common.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => (&AES_128_GCM, HKDF_SHA256),
            CipherSuite::TLS13_AES_256_GCM_SHA384 => (&AES_256_GCM, HKDF_SHA384),
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => (&CHACHA20_POLY1305, HKDF_SHA256),
            _ => return None,
        };
        let secret = Prk::new_less_safe(hash, secret);
        let (mut key, mut iv) = ([0; MAX_KEY], [0; NONCE]);
        let key = &mut key[..algorithm.key_len()];
        expand(&secret, b"tls13 key", key)?;
        expand(&secret, b"tls13 iv", &mut iv)?;
        let key = LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?);
        Some(DirectionKey { key, iv, sequence: 0, layout: RecordLayout::Tls13 })
    }

    /// The number of records processed with this key.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The nonce: the fixed part, with the sequence number XORed into its last bytes.
    fn nonce(&self) -> [u8; NONCE] {
        let mut nonce = self.iv;
        nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()).for_each(|(byte, part)| *byte ^= part);
        nonce
    }

    fn next(&mut self) -> Result<(), SessionFailure> {
        self.sequence = self.sequence.checked_add(1).ok_or(SessionFailure::INTERNAL)?;
        Ok(())
    }

    /// Writes one record with `content` to the front of `out`, which must have room for it; returns its length.
    pub(crate) fn seal(
        &mut self,
        kind: RecordContent,
        content: &[u8],
        out: &mut [u8],
    ) -> Result<usize, SessionFailure> {
        let layout = self.layout;
        let nonce = self.nonce();
        let inner = if layout == RecordLayout::Tls13 { content.len() + 1 } else { content.len() };
        let length = layout.explicit() + inner + TAG;
        let out = out.get_mut(..HEADER + length).ok_or(SessionFailure::INTERNAL)?;
        let (header, body) = out.split_at_mut(HEADER);
        let outer = if layout == RecordLayout::Tls13 { RecordContent::Data } else { kind };
        header.copy_from_slice(&[outer.byte(), 3, 3, (length >> 8) as u8, length as u8]);
        let (explicit, body) = body.split_at_mut(layout.explicit());
        explicit.copy_from_slice(&nonce[NONCE - explicit.len()..]);
        let (sealed, rest) = body.split_at_mut(content.len());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let done = match layout {
            RecordLayout::Tls13 => {
                let aad =
                    Aad::from(<[u8; HEADER]>::try_from(&*header).map_err(|_| SessionFailure::INTERNAL)?);
                self.key.seal_out_of_place_scatter(nonce, aad, content, sealed, &[kind.byte()], rest)
            }
            _ => {
                let aad = Aad::from(self.aad12(kind.byte(), content.len()));
                self.key.seal_out_of_place_scatter(nonce, aad, content, sealed, &[], rest)
            }
        };
        done.map_err(|_| SessionFailure::INTERNAL)?;
        self.next()?;
        Ok(HEADER + length)
    }

    fn aad12(&self, kind: u8, length: usize) -> [u8; 13] {
        let mut aad = [0; 13];
        aad[..8].copy_from_slice(&self.sequence.to_be_bytes());
        aad[8..].copy_from_slice(&[kind, 3, 3, (length >> 8) as u8, length as u8]);
        aad
    }

    /// Decrypts a complete record into `room`, which must have [`Record::room`] bytes; returns its content type, and the
    /// length of its content in `room`.
    pub(crate) fn open(
        &mut self,
        record: &Record<'_>,
        room: &mut [u8],
    ) -> Result<(RecordContent, usize), SessionFailure> {
        let nonce_length = self.layout.explicit();
        let length = record.room(self.layout);
        let room = room.get_mut(..length).ok_or(SessionFailure::INTERNAL)?;
        let (explicit, sealed) =
            record.body.split_at_checked(nonce_length).ok_or(SessionFailure::of(Alert::DecodeError))?;
        let tag_at = sealed.len().checked_sub(TAG).ok_or(SessionFailure::of(Alert::BadRecordMac))?;
        let (sealed, tag) = sealed.split_at(tag_at);
        let mut nonce = self.nonce();
        nonce[NONCE - nonce_length..].copy_from_slice(explicit);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = match self.layout {
            RecordLayout::Tls13 => {
                self.key.open_separate_gather(nonce, Aad::from(record.header), sealed, tag, room)
            }
            _ => {
                let aad = Aad::from(self.aad12(record.header[0], length));
                self.key.open_separate_gather(nonce, aad, sealed, tag, room)
            }
        };
        opened.map_err(|_| SessionFailure::of(Alert::BadRecordMac))?;
        self.next()?;
        let (kind, length) = match self.layout {
            RecordLayout::Tls13 => {
                // Padding counts (RFC 8446, 5.4).
                if length > MAX_CONTENT + 1 {
                    return Err(SessionFailure::of(Alert::RecordOverflow));
                }
                // The type is the last nonzero byte.
                let at = room.iter().rposition(|byte| *byte != 0);
                let at = at.ok_or(SessionFailure::of(Alert::UnexpectedMessage))?;
                (room[at], at)
            }
            _ => (record.header[0], length),
        };
        if length > MAX_CONTENT {
            return Err(SessionFailure::of(Alert::RecordOverflow));
        }
        let kind = RecordContent::of(kind).ok_or(SessionFailure::of(Alert::UnexpectedMessage))?;
        Ok((kind, length))
    }
}

/// HKDF-Expand-Label without a context (RFC 8446, 7.1).
fn expand(secret: &Prk, label: &[u8], out: &mut [u8]) -> Option<()> {
    struct OutputLength(usize);
    impl KeyType for OutputLength {
        fn len(&self) -> usize {
            self.0
        }
    }
    let (length, label_length) = ([0, out.len() as u8], [label.len() as u8]);
    secret.expand(&[&length, &label_length, label, &[0]], OutputLength(out.len())).ok()?.fill(out).ok()
}

/// A complete record from the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'w> {
    header: [u8; HEADER],
    body: &'w [u8],
}

impl<'w> Record<'w> {
    /// The record at the front of `wire`; `None` if it is not complete.
    pub(crate) fn first(wire: &'w [u8], layout: RecordLayout) -> Result<Option<Record<'w>>, SessionFailure> {
        let Some((header, rest)) = wire.split_first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let (kind, most) = match layout {
            RecordLayout::Tls13 => (Some(23), MAX_CONTENT + 256),
            _ => (None, MAX_CONTENT + 2048),
        };
        if kind.is_some_and(|kind| kind != header[0]) || header[1] != 3 {
            return Err(SessionFailure::of(Alert::UnexpectedMessage));
        }
        if length > most {
            return Err(SessionFailure::of(Alert::RecordOverflow));
        }
        Ok(rest.get(..length).map(|body| Record { header: *header, body }))
    }

    /// Its length on the wire.
    pub(crate) fn len(&self) -> usize {
        HEADER + self.body.len()
    }

    /// Bytes of output buffer that its decryption needs.
    pub(crate) fn room(&self, layout: RecordLayout) -> usize {
        self.body.len().saturating_sub(layout.explicit() + TAG)
    }
}

/// The length of the first record of `wire`, by its header; `None` if the header is not complete.
pub fn announced(wire: &[u8]) -> Option<usize> {
    let header = wire.first_chunk::<HEADER>()?;
    Some(HEADER + usize::from(u16::from_be_bytes([header[3], header[4]])))
}

/// The size limit of a record's content (RFC 8446, 5.1).
pub const MAX_CONTENT: usize = 1 << 14;
/// The size limit of a record, of any version and cipher.
pub const MAX_RECORD: usize = HEADER + MAX_CONTENT + 2048;
/// The largest overhead of a record that is sent.
pub const MAX_OVERHEAD: usize = HEADER + EXPLICIT_NONCE + TAG;

/// The length of a record's header.
pub const HEADER: usize = 5;
const NONCE: usize = 12;
const MAX_KEY: usize = 32;
const EXPLICIT_NONCE: usize = 8;
const TAG: usize = 16;
