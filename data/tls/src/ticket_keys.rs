//! Ticket keys from the operator (`tls-ticket-keys`). Processes with the same file can resume each other's sessions.
//!
//! A ticket has the format of RFC 5077, 4: key name, initialization vector, session encrypted by AES-CBC, and an HMAC-SHA-256 over
//! all of that.

use std::fmt;

use aws_lc_rs::cipher::{
    AES_128, AES_256, DecryptionContext, PaddedBlockDecryptingKey, PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::server::ProducesTickets;
use weir_sync::VersionCell;
use weir_syntax::SharedFiles;

use crate::certificate::cannot_open;

/// The keys of one file, the oldest first. The last but one encrypts: other processes receive a new key before it is used.
pub struct TicketKeys {
    file: Box<str>,
    length: usize,
    keys: VersionCell<[TicketKey; KEYS]>,
}

/// Why a key was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadTicketKey {
    NotBase64,
    /// Its length differs from the other keys' length.
    WrongSize,
}

impl TicketKeys {
    /// Reads a file with one base64 key per line, all of 48 or all of 80 bytes.
    ///
    /// # Errors
    /// A message about the fault of the file.
    pub fn read(files: &SharedFiles, path: &str) -> Result<TicketKeys, String> {
        let text = files.read_text(path).map_err(|error| cannot_open(path, &error))?;
        TicketKeys::parse(path, &text)
    }

    fn parse(path: &str, text: &str) -> Result<TicketKeys, String> {
        let mut keys: Vec<TicketKey> = Vec::new();
        let mut length = None;
        for (at, line) in text.lines().enumerate() {
            let refuse = |why: &str| format!("'{path}', line {}: {why}.", at + 1);
            let line = line.trim();
            if line.is_empty() {
                continue;
            }
            let secret = STANDARD.decode(line).map_err(|_| refuse("a key in base64 is expected"))?;
            if *length.get_or_insert(secret.len()) != secret.len() {
                return Err(refuse("this key is not as long as the first one"));
            }
            let key = TicketKey::of(&secret);
            keys.push(key.ok_or_else(|| refuse("a key has 48 bytes (AES-128) or 80 (AES-256)"))?);
        }
        let count = keys.len();
        let kept: Vec<TicketKey> = keys.into_iter().skip(count.saturating_sub(KEYS)).collect();
        let kept: [TicketKey; KEYS] = kept.try_into().map_err(|_| {
            format!("'{path}' holds {count} keys for tickets, and at least {KEYS} are needed.")
        })?;
        Ok(TicketKeys { file: path.into(), length: length.unwrap_or(0), keys: VersionCell::new(kept) })
    }

    /// The path of the key file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The keys in base64, the oldest first.
    pub fn secrets(&self) -> Vec<String> {
        self.keys.load().iter().map(|key| STANDARD.encode(&key.secret)).collect()
    }

    /// Appends a key and drops the oldest.
    ///
    /// # Errors
    /// When the key is not base64, or its length differs from the other keys' length.
    pub fn push(&self, text: &str) -> Result<(), BadTicketKey> {
        let secret = STANDARD.decode(text).map_err(|_| BadTicketKey::NotBase64)?;
        if secret.len() != self.length {
            return Err(BadTicketKey::WrongSize);
        }
        let key = TicketKey::of(&secret).ok_or(BadTicketKey::WrongSize)?;
        self.keys.update(|keys| {
            let mut keys = keys.clone();
            keys.rotate_left(1);
            keys[KEYS - 1] = key.clone();
            keys
        });
        Ok(())
    }
}

impl ProducesTickets for TicketKeys {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::MAX
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.load()[KEYS - 2].encrypt(plain)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys.load();
        let key = keys.iter().find(|key| ticket.starts_with(key.name()))?;
        key.decrypt(ticket)
    }
}

impl fmt::Debug for TicketKeys {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A key: name, HMAC key and encryption key, concatenated.
#[derive(Clone)]
struct TicketKey {
    secret: Box<[u8]>,
}

impl TicketKey {
    fn of(secret: &[u8]) -> Option<TicketKey> {
        matches!(secret.len(), SHORT | LONG).then(|| TicketKey { secret: secret.into() })
    }

    fn name(&self) -> &[u8] {
        &self.secret[..NAME]
    }

    fn signer(&self) -> hmac::Key {
        let end = if self.secret.len() == LONG { NAME + 32 } else { NAME + 16 };
        hmac::Key::new(hmac::HMAC_SHA256, &self.secret[NAME..end])
    }

    /// The encryption key. `None` if the library is out of memory.
    fn cipher(&self) -> Option<UnboundCipherKey> {
        match self.secret.len() {
            LONG => UnboundCipherKey::new(&AES_256, &self.secret[NAME + 32..]),
            _ => UnboundCipherKey::new(&AES_128, &self.secret[NAME + 16..]),
        }
        .ok()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut encrypted = plain.to_vec();
        let context =
            PaddedBlockEncryptingKey::cbc_pkcs7(self.cipher()?).ok()?.encrypt(&mut encrypted).ok()?;
        let DecryptionContext::Iv128(initial) = context else { return None };
        let mut ticket = [self.name(), initial.as_ref(), &encrypted].concat();
        let tag = hmac::sign(&self.signer(), &ticket);
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        let (signed, tag) = ticket.split_at_checked(ticket.len().checked_sub(TAG)?)?;
        hmac::verify(&self.signer(), signed, tag).ok()?;
        let (_, rest) = signed.split_at_checked(NAME)?;
        let (initial, encrypted) = rest.split_first_chunk::<INITIAL>()?;
        let mut encrypted = encrypted.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(initial));
        let plain =
            PaddedBlockDecryptingKey::cbc_pkcs7(self.cipher()?).ok()?.decrypt(&mut encrypted, context);
        plain.ok().map(|plain| plain.to_vec())
    }
}

/// The number of keys used from a file: HAProxy's build-time default.
const KEYS: usize = 3;
/// The length of an AES-128 key: name, 16 bytes of HMAC key and 16 bytes of encryption key.
const SHORT: usize = 48;
/// The length of an AES-256 key: name, 32 bytes of HMAC key and 32 bytes of encryption key.
const LONG: usize = 80;
const NAME: usize = 16;
const INITIAL: usize = 16;
const TAG: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(length: usize, seed: u8) -> String {
        STANDARD.encode((0..length).map(|at| at as u8 ^ seed).collect::<Vec<u8>>()) + "\n"
    }

    fn keys(length: usize, seeds: &[u8]) -> TicketKeys {
        let text: String = seeds.iter().map(|seed| line(length, *seed)).collect();
        TicketKeys::parse("keys", &text).expect("good keys")
    }

    impl TicketKeys {
        pub(crate) fn for_tests() -> TicketKeys {
            keys(LONG, &[1, 2, 3])
        }
    }

    #[test]
    fn session_tickets_are_valid_while_their_key_is_known() {
        for length in [SHORT, LONG] {
            let one = keys(length, &[9, 1, 2, 3]);
            assert_eq!(one.secrets().len(), KEYS);
            let ticket = one.encrypt(b"a session").expect("a ticket");
            assert!(ticket.starts_with(keys(length, &[2, 2, 2]).keys.load()[0].name()));
            // Another process has the same key as its last one.
            assert_eq!(keys(length, &[0, 1, 2]).decrypt(&ticket).as_deref(), Some(&b"a session"[..]));
            one.push(line(length, 4).trim()).expect("a good key");
            one.push(line(length, 5).trim()).expect("a good key");
            assert_eq!(one.decrypt(&ticket), None);
            assert_eq!(keys(length, &[1, 3, 4]).decrypt(&ticket), None);
        }
    }

    #[test]
    fn a_modified_or_truncated_ticket_is_refused() {
        let keys = keys(LONG, &[1, 2, 3]);
        let ticket = keys.encrypt(b"a session").expect("a ticket");
        for at in 0..ticket.len() {
            let mut changed = ticket.clone();
            changed[at] ^= 1;
            assert_eq!(keys.decrypt(&changed), None, "byte {at}");
            assert_eq!(keys.decrypt(&ticket[..at]), None, "{at} bytes");
        }
    }

    #[test]
    fn invalid_ticket_key_files_are_refused() {
        let refuse = |text: &str, expected: &str| {
            assert_eq!(TicketKeys::parse("keys", text).expect_err(text), expected);
        };
        refuse(&line(48, 1).repeat(2), "'keys' holds 2 keys for tickets, and at least 3 are needed.");
        refuse("?", "'keys', line 1: a key in base64 is expected.");
        refuse(&line(47, 1), "'keys', line 1: a key has 48 bytes (AES-128) or 80 (AES-256).");
        refuse(&(line(48, 1) + &line(80, 1)), "'keys', line 2: this key is not as long as the first one.");
        let keys = keys(SHORT, &[1, 2, 3]);
        assert_eq!(keys.push("?"), Err(BadTicketKey::NotBase64));
        assert_eq!(keys.push(line(80, 1).trim()), Err(BadTicketKey::WrongSize));
    }
}
