//! Encrypted private keys, and the source of their passphrases (`ssl-passphrase-cmd`, `ca-sign-pass`).
//!
//! Two formats exist. PKCS #8 (`ENCRYPTED PRIVATE KEY`, RFC 5958) names its encryption scheme inside. In OpenSSL's traditional
//! format, header fields of the PEM block name the cipher (`Proc-Type: 4,ENCRYPTED`, RFC 1421), and MD5 derives the key.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockCipherDecrypt, BlockModeDecrypt, KeyInit, KeyIvInit};
use md5::{Digest, Md5};
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::{Decode, Reader, SliceReader};
use pkcs8::pkcs5::pbes2::{Kdf, Parameters};
use pkcs8::pkcs5::{EncryptionScheme, Error as SchemeError};
use pkcs8::{AlgorithmIdentifierRef, EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::pki_types::PrivateKeyDer;

use crate::pem;

/// Passphrases for encrypted keys: those that decrypted a key before, and a source of others.
#[derive(Default)]
pub struct Passphrases(Mutex<PassphraseState>);

#[derive(Default)]
struct PassphraseState {
    /// Passphrases that decrypted a key, the most recent first.
    known: Vec<Vec<u8>>,
    source: PassphraseSource,
}

/// The source of unknown passphrases.
#[derive(Default)]
enum PassphraseSource {
    #[default]
    Nobody,
    Command(PassphraseCommand),
    NoMore,
}

/// Returns the passphrase for the key file with this path, or an error message.
pub type PassphraseCommand = Box<dyn Fn(&str) -> Result<Vec<u8>, String> + Send>;

impl Passphrases {
    /// A single passphrase, without a source of others.
    pub fn of(passphrase: &str) -> Self {
        Passphrases(Mutex::new(PassphraseState {
            known: vec![passphrase.into()],
            ..PassphraseState::default()
        }))
    }

    /// Passphrases from `command`. A passphrase is remembered once it decrypted a key.
    pub fn from(command: PassphraseCommand) -> Self {
        Passphrases(Mutex::new(PassphraseState {
            source: PassphraseSource::Command(command),
            ..PassphraseState::default()
        }))
    }

    /// Uses only remembered passphrases from now on.
    pub fn use_known_only(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let PassphraseSource::Command(_) = state.source {
            state.source = PassphraseSource::NoMore;
        }
    }

    /// Decrypts the key of a file with a remembered passphrase, or with one from the source.
    pub(crate) fn open(&self, key: &EncryptedKey, path: &str) -> Result<PrivateKeyDer<'static>, String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for at in 0..state.known.len() {
            match key.open(&state.known[at]) {
                Ok(opened) => {
                    state.known[..=at].rotate_right(1);
                    return Ok(opened);
                }
                Err(KeyOpenError::Wrong) => {}
                Err(KeyOpenError::Unusable(why)) => return Err(format!("the private key of '{path}' {why}")),
            }
        }
        let printed = match &state.source {
            PassphraseSource::Command(command) => command(path)?,
            PassphraseSource::NoMore => {
                return Err(format!(
                    "the private key of '{path}' is encrypted, no passphrase that is known opens it, and 'ssl-passphrase-cmd' runs only at start: send the key without a passphrase ({DECRYPT})."
                ));
            }
            PassphraseSource::Nobody if state.known.is_empty() => {
                return Err(format!(
                    "the private key of '{path}' is encrypted: 'ssl-passphrase-cmd' in the global section names a program that prints its passphrase, or store the key without one ({DECRYPT})."
                ));
            }
            PassphraseSource::Nobody => {
                return Err(format!("the passphrase does not open the private key of '{path}'."));
            }
        };
        match key.open(&printed) {
            Ok(opened) => {
                state.known.truncate(MOST_KNOWN - 1);
                state.known.insert(0, printed);
                Ok(opened)
            }
            Err(KeyOpenError::Wrong) => Err(format!(
                "'ssl-passphrase-cmd' printed a passphrase that does not open the private key of '{path}'."
            )),
            Err(KeyOpenError::Unusable(why)) => Err(format!("the private key of '{path}' {why}")),
        }
    }
}

impl fmt::Debug for Passphrases {
    /// Omits the passphrases.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passphrases").finish_non_exhaustive()
    }
}

/// An encrypted private key as stored in its file.
#[derive(Debug)]
pub(crate) enum EncryptedKey {
    /// The PKCS #8 document, in DER.
    Pkcs8(Vec<u8>),
    Traditional(Traditional),
    /// A malformed PEM block.
    Damaged,
}

/// A key in OpenSSL's traditional format.
#[derive(Debug)]
pub(crate) struct Traditional {
    is_rsa: bool,
    /// The name of the cipher, as OpenSSL writes it.
    cipher: String,
    initial: Vec<u8>,
    encrypted: Vec<u8>,
}

/// Why a key cannot be decrypted.
enum KeyOpenError {
    /// The passphrase is wrong.
    Wrong,
    /// No passphrase can decrypt it, for this reason.
    Unusable(String),
}

impl EncryptedKey {
    /// Extracts the encrypted keys of a PEM file. Returns the file without them, and the keys.
    pub(crate) fn take_from(pem: &[u8]) -> (Vec<u8>, Vec<EncryptedKey>) {
        let (mut plain, mut keys) = (Vec::with_capacity(pem.len()), Vec::new());
        let mut rest = pem;
        while let Some((line, after)) = next_line(rest) {
            let block = line.strip_prefix(BEGIN).and_then(|label| label.strip_suffix("-----"));
            let Some((key, after)) = block.and_then(|label| EncryptedKey::read(label, after)) else {
                plain.extend_from_slice(&rest[..rest.len() - after.len()]);
                rest = after;
                continue;
            };
            keys.push(key);
            rest = after;
        }
        (plain, keys)
    }

    /// Parses the PEM block that began before `text`. Returns the key and the text after the block. `None` if the key is not
    /// encrypted.
    fn read<'a>(label: &str, text: &'a [u8]) -> Option<(EncryptedKey, &'a [u8])> {
        let is_traditional = label.ends_with(" PRIVATE KEY")
            && next_line(text).is_some_and(|(line, _)| line.starts_with("Proc-Type:"));
        if label != "ENCRYPTED PRIVATE KEY" && !is_traditional {
            return None;
        }
        let (mut fields, mut body, mut rest, mut is_whole) = (Vec::new(), String::new(), text, false);
        while let Some((line, after)) = next_line(rest) {
            rest = after;
            if line.starts_with("-----") {
                is_whole = line.starts_with(END);
                break;
            }
            match line.split_once(':') {
                Some((name, value)) => fields.push((name, value.trim())),
                None => body.push_str(line),
            }
        }
        let key = match pem::decode_base64(&body).filter(|bytes| is_whole && !bytes.is_empty()) {
            Some(der) if !is_traditional => EncryptedKey::Pkcs8(der),
            Some(encrypted) => Traditional::new(label, &fields, encrypted)
                .map_or(EncryptedKey::Damaged, EncryptedKey::Traditional),
            None => EncryptedKey::Damaged,
        };
        Some((key, rest))
    }

    fn open(&self, passphrase: &[u8]) -> Result<PrivateKeyDer<'static>, KeyOpenError> {
        match self {
            EncryptedKey::Pkcs8(der) => open_pkcs8(der, passphrase),
            EncryptedKey::Traditional(key) => key.open(passphrase),
            EncryptedKey::Damaged => Err(damaged()),
        }
    }
}

/// The first line of `text` without surrounding white space, and the rest. `None` at the end of the text. The line is empty if it
/// is not UTF-8.
fn next_line(text: &[u8]) -> Option<(&str, &[u8])> {
    if text.is_empty() {
        return None;
    }
    let end = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |at| at + 1);
    let (line, rest) = text.split_at(end);
    Some((std::str::from_utf8(line).unwrap_or_default().trim(), rest))
}

fn open_pkcs8(der: &[u8], passphrase: &[u8]) -> Result<PrivateKeyDer<'static>, KeyOpenError> {
    let document = EncryptedPrivateKeyInfoRef::from_der(der)
        .map_err(|_| if names_a_scheme(der) { another_scheme() } else { damaged() })?;
    let EncryptionScheme::Pbes2(parameters) = &document.encryption_algorithm else {
        return Err(another_scheme());
    };
    if !is_affordable(parameters) {
        let why = "takes too long to open: its passphrase is hashed too often. Encrypt it again";
        return Err(KeyOpenError::Unusable(format!("{why} ({ENCRYPT}).")));
    }
    match parameters.decrypt(passphrase, document.encrypted_data.as_bytes()) {
        Ok(opened) if is_document(&opened) => Ok(PrivateKeyDer::Pkcs8(opened.into())),
        Ok(_) | Err(SchemeError::DecryptFailed) => Err(KeyOpenError::Wrong),
        Err(SchemeError::UnsupportedAlgorithm { .. }) => Err(another_scheme()),
        Err(_) => Err(damaged()),
    }
}

/// Whether this is a PKCS #8 document with a readable scheme, which may be an unsupported one.
fn names_a_scheme(der: &[u8]) -> bool {
    let read = |reader: &mut SliceReader<'_>| {
        reader.sequence(|inner| {
            AlgorithmIdentifierRef::decode(inner)?;
            <&OctetStringRef>::decode(inner).map(drop)
        })
    };
    SliceReader::new(der).is_ok_and(|mut reader| read(&mut reader).is_ok())
}

/// Whether deriving the key stays within the limits of time and memory.
fn is_affordable(parameters: &Parameters) -> bool {
    match &parameters.kdf {
        Kdf::Pbkdf2(hashed) => hashed.iteration_count <= MOST_ITERATIONS,
        Kdf::Scrypt(hashed) => {
            let memory = hashed.cost_parameter.saturating_mul(128 * u64::from(hashed.block_size));
            memory <= MOST_MEMORY && u64::from(hashed.parallelization).saturating_mul(memory) <= MOST_WORK
        }
        _ => false,
    }
}

impl Traditional {
    fn new(label: &str, fields: &[(&str, &str)], encrypted: Vec<u8>) -> Option<Traditional> {
        let info = fields.iter().find(|(name, _)| *name == "DEK-Info")?.1;
        let (cipher, initial) = info.split_once(',')?;
        let initial: Option<Vec<u8>> = initial
            .trim()
            .as_bytes()
            .chunks(2)
            .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .collect();
        Some(Traditional {
            is_rsa: label == "RSA PRIVATE KEY",
            cipher: cipher.trim().to_owned(),
            initial: initial.filter(|initial| initial.len() >= SALT)?,
            encrypted,
        })
    }

    fn open(&self, passphrase: &[u8]) -> Result<PrivateKeyDer<'static>, KeyOpenError> {
        let opened = match &*self.cipher {
            "AES-128-CBC" => self.decrypt::<aes::Aes128Dec>(passphrase, 16),
            "AES-192-CBC" => self.decrypt::<aes::Aes192Dec>(passphrase, 24),
            "AES-256-CBC" => self.decrypt::<aes::Aes256Dec>(passphrase, 32),
            "DES-EDE3-CBC" => self.decrypt::<des::TdesEde3>(passphrase, 24),
            _ => return Err(another_scheme()),
        }?;
        Ok(match self.is_rsa {
            true => PrivateKeyDer::Pkcs1(opened.into()),
            false => PrivateKeyDer::Sec1(opened.into()),
        })
    }

    fn decrypt<C: BlockCipherDecrypt + KeyInit>(
        &self,
        passphrase: &[u8],
        size: usize,
    ) -> Result<Vec<u8>, KeyOpenError> {
        let key = derive(passphrase, &self.initial[..SALT], size);
        let cipher = cbc::Decryptor::<C>::new_from_slices(&key, &self.initial).map_err(|_| damaged())?;
        let opened = cipher.decrypt_padded_vec::<Pkcs7>(&self.encrypted).map_err(|_| KeyOpenError::Wrong)?;
        if is_document(&opened) { Ok(opened) } else { Err(KeyOpenError::Wrong) }
    }
}

/// Derives a key of `size` bytes in the traditional format: MD5 over previous digest, passphrase and salt.
fn derive(passphrase: &[u8], salt: &[u8], size: usize) -> Vec<u8> {
    let mut key: Vec<u8> = Vec::new();
    let mut last = Vec::new();
    while key.len() < size {
        last = Md5::new().chain_update(&last).chain_update(passphrase).chain_update(salt).finalize().to_vec();
        key.extend_from_slice(&last);
    }
    key.truncate(size);
    key
}

/// Whether these bytes are one DER document. One wrong passphrase in 256 yields valid padding, but not valid DER.
fn is_document(bytes: &[u8]) -> bool {
    SecretDocument::try_from(bytes).is_ok()
}

fn damaged() -> KeyOpenError {
    KeyOpenError::Unusable("is encrypted, and damaged: it cannot be read.".to_owned())
}

fn another_scheme() -> KeyOpenError {
    KeyOpenError::Unusable(format!(
        "is encrypted in a way that is not supported: PBES2 with AES or triple DES is, and the traditional form with the same. Encrypt it again ({ENCRYPT})."
    ))
}

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
/// The command that removes a passphrase.
const DECRYPT: &str = "openssl pkey -in KEY -out KEY";
/// The command that encrypts a key again.
const ENCRYPT: &str = "openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEY -out KEY";
/// The salt of the traditional format: this many bytes of the initialization vector.
const SALT: usize = 8;
/// The limit of remembered passphrases. Each is tried on each encrypted key.
const MOST_KNOWN: usize = 16;
/// The limit of PBKDF2 iterations. OpenSSL uses 2048, a careful operator a million.
const MOST_ITERATIONS: u32 = 10_000_000;
/// The limit of scrypt memory, in bytes. OpenSSL's default needs 16 MiB.
const MOST_MEMORY: u64 = 256 << 20;
/// The limit of scrypt memory over all lanes, in bytes.
const MOST_WORK: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    macro_rules! file {
        ($name:literal) => {
            include_bytes!(concat!("../tests/encrypted_keys/", $name, ".pem")).as_slice()
        };
    }

    /// The only key of a file. OpenSSL encrypted each with the passphrase `secret`.
    fn key_of(pem: &[u8]) -> EncryptedKey {
        let (plain, mut keys) = EncryptedKey::take_from(pem);
        assert_eq!((plain.len(), keys.len()), (0, 1));
        keys.remove(0)
    }

    fn why(opened: Result<PrivateKeyDer<'static>, KeyOpenError>) -> String {
        match opened {
            Ok(_) => panic!("it opened"),
            Err(KeyOpenError::Wrong) => "another passphrase".to_owned(),
            Err(KeyOpenError::Unusable(why)) => why,
        }
    }

    /// Decrypts a key through [`Passphrases`].
    fn open(passphrases: &Passphrases, pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
        passphrases.open(&key_of(pem), "a.pem")
    }

    #[test]
    fn encrypted_keys_open_only_with_their_passphrase() {
        use rustls::pki_types::pem::PemObject;
        let plain = PrivateKeyDer::from_pem_slice(file!("plain")).expect("a key");
        for pem in [file!("aes256"), file!("des3"), file!("scrypt")] {
            let key = key_of(pem);
            assert_eq!(key.open(b"secret").ok().as_ref(), Some(&plain));
            assert_eq!(why(key.open(b"Secret")), "another passphrase");
        }
        let ours = rustls::crypto::aws_lc_rs::sign::any_supported_type;
        let public = |key: &PrivateKeyDer<'_>| {
            ours(key).expect("a kind that is known").public_key().map(|key| key.to_vec())
        };
        let traditional = [
            file!("traditional-aes128"),
            file!("traditional-aes192"),
            file!("traditional-aes256"),
            file!("traditional-des3"),
        ];
        for pem in traditional {
            let key = key_of(pem);
            assert_eq!(key.open(b"secret").ok().as_ref().map(public), Some(public(&plain)));
            assert_eq!(why(key.open(b"secret ")), "another passphrase");
        }
        let rsa = key_of(file!("traditional-rsa"));
        assert!(matches!(rsa.open(b"secret"), Ok(PrivateKeyDer::Pkcs1(_))));
    }

    #[test]
    fn a_wrong_passphrase_with_valid_padding_is_detected() {
        let keys = [key_of(file!("aes256")), key_of(file!("traditional-des3"))];
        for number in 0..600 {
            let wrong = format!("wrong {number}");
            for key in &keys {
                assert_eq!(why(key.open(wrong.as_bytes())), "another passphrase", "{wrong}");
            }
        }
    }

    #[test]
    fn unsupported_key_encryption_and_slow_key_derivation_are_refused() {
        for pem in [file!("v1"), file!("md5des"), file!("traditional-camellia128")] {
            let why = why(key_of(pem).open(b"secret"));
            assert!(why.contains("not supported") && why.contains(ENCRYPT), "{why}");
        }
        let why = why(key_of(file!("slow")).open(b"secret"));
        assert!(why.contains("takes too long"), "{why}");
    }

    #[test]
    fn distinguishes_damaged_keys_from_wrong_passphrases() {
        let text = String::from_utf8(file!("aes256").to_vec()).expect("text");
        let traditional = String::from_utf8(file!("traditional-aes128").to_vec()).expect("text");
        for damaged in [
            text.replace("MIH", "M!H"),
            text.replace("MIH", "MIG"),
            traditional.replace("AES-128-CBC,", "AES-128-CBC"),
            traditional.replace("DEK-Info", "Other"),
            traditional.replace("AES-128-CBC,", "AES-128-CBC,0"),
            traditional.replace("AES-128-CBC,", "AES-128-CBC,x"),
            text.lines().take(1).collect(),
            text.replace("-----END", "END"),
            traditional.lines().take(4).collect::<Vec<_>>().join("\n"),
            traditional.lines().take(6).collect::<Vec<_>>().join("\n"),
        ] {
            assert_ne!(damaged, text);
            assert_ne!(damaged, traditional);
            assert!(why(key_of(damaged.as_bytes()).open(b"secret")).contains("damaged"), "{damaged}");
        }
    }

    #[test]
    fn unencrypted_pem_blocks_stay_when_encrypted_keys_are_taken() {
        let [before, after] =
            [&b"text\r\n\xff\n-----BEGIN X-----\nYQ==\n-----END X-----\n"[..], file!("plain")];
        let (plain, keys) =
            EncryptedKey::take_from(&[before, file!("traditional-rsa"), after, file!("des3")].concat());
        assert_eq!(plain, [before, after].concat());
        assert_eq!(keys.len(), 2);
    }

    #[test]
    fn the_passphrase_command_runs_until_a_passphrase_works() {
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let passphrases = Passphrases::from(Box::new(move |path| {
            assert_eq!(path, "a.pem");
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => Err("it is out".to_owned()),
                1 => Ok(b"another".to_vec()),
                _ => Ok(b"secret".to_vec()),
            }
        }));
        assert_eq!(open(&passphrases, file!("aes256")).expect_err("nobody"), "it is out");
        let said = open(&passphrases, file!("aes256")).expect_err("a wrong one");
        assert!(said.contains("does not open the private key of 'a.pem'"), "{said}");
        open(&passphrases, file!("aes256")).expect("the right one");
        open(&passphrases, file!("des3")).expect("it is known");
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        passphrases.use_known_only();
        open(&passphrases, file!("traditional-aes256")).expect("it is known");
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn errors_without_a_passphrase_name_ssl_passphrase_cmd() {
        let said = open(&Passphrases::default(), file!("aes256")).expect_err("nobody has one");
        assert!(said.contains("'ssl-passphrase-cmd' in the global section"), "{said}");
        let said = open(&Passphrases::of("wrong"), file!("aes256")).expect_err("a wrong one");
        assert_eq!(said, "the passphrase does not open the private key of 'a.pem'.");
        let unused = Passphrases::from(Box::new(|_| Ok(b"secret".to_vec())));
        unused.use_known_only();
        let said = open(&unused, file!("aes256")).expect_err("too late");
        assert!(said.contains("runs only at start") && said.contains(DECRYPT), "{said}");
    }
}
