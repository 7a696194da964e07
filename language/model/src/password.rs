//! Passwords of a `userlist`: plaintext, or hashes as written by `crypt(3)`.
//!
//! The three hashes that today's C libraries share are implemented after their published descriptions: MD5 (`$1$`, as
//! FreeBSD introduced it), SHA-256 (`$5$`) and SHA-512 (`$6$`, both after Ulrich Drepper's "Unix crypt using SHA-256
//! and SHA-512"). They are slow by design: callers that must not block check [`Password::costly`], and compute a few rounds at a time. The
//! published crates for these hashes compute all rounds in one call.

use std::sync::Arc;

use md5::Md5;
use sha2::digest::Output;
use sha2::{Digest, Sha256, Sha512};
use weir_fingerprint::Canonical;

/// A password to compare with.
#[derive(Clone, PartialEq, Eq, Canonical)]
pub enum Password {
    /// `insecure-password`: plaintext.
    Clear(Box<[u8]>),
    /// `password`: hashed.
    Hashed(Arc<PasswordHash>),
    /// A malformed hash, which no password matches.
    Never,
}

/// A hash as `crypt(3)` writes it.
#[derive(Clone, PartialEq, Eq, Canonical)]
pub struct PasswordHash {
    scheme: Scheme,
    salt: Box<[u8]>,
    encoded: Box<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Canonical)]
enum Scheme {
    Md5,
    Sha256 { rounds: u32 },
    Sha512 { rounds: u32 },
}

/// Why a hash cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashError {
    /// Another scheme: bcrypt, yescrypt, DES.
    Unknown,
    /// A known prefix, but a wrong length or invalid characters after it.
    Malformed,
}

impl Password {
    /// Whether `candidate` is the password. Takes the same time wherever the two differ.
    pub fn verify(&self, candidate: &[u8]) -> bool {
        match self {
            Password::Clear(clear) => same(clear, candidate),
            Password::Hashed(hash) => hash.verify(candidate),
            Password::Never => false,
        }
    }

    /// The hash, if verification takes thousands of rounds. None otherwise.
    pub fn costly(&self) -> Option<&Arc<PasswordHash>> {
        match self {
            Password::Hashed(hash) => Some(hash),
            Password::Clear(_) | Password::Never => None,
        }
    }
}

impl PasswordHash {
    /// Reads a hash.
    pub fn parse(text: &str) -> Result<Self, HashError> {
        let mut fields = text.split('$');
        if fields.next() != Some("") {
            return Err(HashError::Unknown);
        }
        let scheme = fields.next().unwrap_or("");
        let mut salt = fields.next().ok_or(HashError::Unknown)?;
        let mut rounds = DEFAULT_ROUNDS;
        if let Some(digits) = salt.strip_prefix("rounds=").filter(|_| scheme != "1") {
            let number: u64 = digits.parse().map_err(|_| HashError::Malformed)?;
            rounds = number.clamp(1_000, 999_999_999) as u32;
            salt = fields.next().ok_or(HashError::Malformed)?;
        }
        let encoded = fields.next().ok_or(HashError::Malformed)?;
        let (scheme, salt_max, length) = match scheme {
            "1" => (Scheme::Md5, 8, 22),
            "5" => (Scheme::Sha256 { rounds }, 16, 43),
            "6" => (Scheme::Sha512 { rounds }, 16, 86),
            _ => return Err(HashError::Unknown),
        };
        let regular = encoded.len() == length && encoded.bytes().all(|byte| ALPHABET.contains(&byte));
        if !regular || fields.next().is_some() {
            return Err(HashError::Malformed);
        }
        let salt = &salt.as_bytes()[..salt.len().min(salt_max)];
        Ok(Self { scheme, salt: salt.into(), encoded: encoded.as_bytes().into() })
    }

    /// Whether `candidate` hashes to this.
    pub fn verify(&self, candidate: &[u8]) -> bool {
        let mut verification = Verification::new(self, candidate);
        loop {
            if let Some(is_right) = verification.advance(u32::MAX) {
                return is_right;
            }
        }
    }
}

/// A verification that is computed in parts.
pub struct Verification<'h> {
    expected: &'h [u8],
    rounds: Rounds,
}

impl<'h> Verification<'h> {
    /// Begins to hash `candidate`.
    pub fn new(hash: &'h PasswordHash, candidate: &[u8]) -> Self {
        let rounds = match hash.scheme {
            _ if candidate.len() > MAX_PASSWORD_BYTES => Rounds::Refused,
            Scheme::Md5 => Rounds::Md5(md5_crypt(candidate, &hash.salt)),
            Scheme::Sha256 { rounds } => Rounds::Sha256(sha_crypt(candidate, &hash.salt, rounds)),
            Scheme::Sha512 { rounds } => Rounds::Sha512(sha_crypt(candidate, &hash.salt, rounds)),
        };
        Verification { expected: &hash.encoded, rounds }
    }

    /// Computes at most `rounds` more rounds. Returns the result after the last one. A round takes about half a microsecond for
    /// a short password, two for the longest.
    pub fn advance(&mut self, rounds: u32) -> Option<bool> {
        let encoded = match &mut self.rounds {
            Rounds::Refused => return Some(false),
            Rounds::Md5(hash) => encode(hash.advance(rounds)?, &MD5_ORDER),
            Rounds::Sha256(hash) => encode(hash.advance(rounds)?, &SHA256_ORDER),
            Rounds::Sha512(hash) => encode(hash.advance(rounds)?, &SHA512_ORDER),
        };
        Some(same(self.expected, &encoded))
    }
}

enum Rounds {
    /// The candidate is too long.
    Refused,
    Md5(Stretching<Md5>),
    Sha256(Stretching<Sha256>),
    Sha512(Stretching<Sha512>),
}

/// The rounds that make each scheme slow: the same in all of them.
struct Stretching<D: Digest> {
    keys: Vec<u8>,
    salts: Vec<u8>,
    digest: Output<D>,
    round: u32,
    rounds: u32,
}

impl<D: Digest> Stretching<D> {
    /// Computes at most `rounds` more rounds. Returns the digest after the last one.
    fn advance(&mut self, rounds: u32) -> Option<&[u8]> {
        let end = self.rounds.min(self.round.saturating_add(rounds));
        for round in self.round..end {
            self.digest = self.next(round);
        }
        self.round = end;
        (end == self.rounds).then_some(&self.digest[..])
    }

    fn next(&self, round: u32) -> Output<D> {
        let (first, last) = match round % 2 {
            1 => (&self.keys[..], &self.digest[..]),
            _ => (&self.digest[..], &self.keys[..]),
        };
        let mut mixed = D::new_with_prefix(first);
        if !round.is_multiple_of(3) {
            mixed.update(&self.salts);
        }
        if !round.is_multiple_of(7) {
            mixed.update(&self.keys);
        }
        mixed.chain_update(last).finalize()
    }
}

/// The steps have the letters of the published description in the order given there.
fn sha_crypt<D: Digest + Clone>(key: &[u8], salt: &[u8], rounds: u32) -> Stretching<D> {
    let second = D::new().chain_update(key).chain_update(salt).chain_update(key).finalize();
    let mut first = D::new().chain_update(key).chain_update(salt);
    for_length(key.len(), &second, |bytes| first.update(bytes));
    let mut bits = key.len();
    while bits > 0 {
        if bits & 1 == 1 {
            first.update(&second);
        } else {
            first.update(key);
        }
        bits >>= 1;
    }
    let digest = first.finalize();

    let mut keys = D::new();
    for _ in 0..key.len() {
        keys.update(key);
    }
    let keys = stretched(key.len(), &keys.finalize());
    let mut salts = D::new();
    for _ in 0..16 + usize::from(digest[0]) {
        salts.update(salt);
    }
    let salts = stretched(salt.len(), &salts.finalize());
    Stretching { keys, salts, digest, round: 0, rounds }
}

fn md5_crypt(key: &[u8], salt: &[u8]) -> Stretching<Md5> {
    let second = Md5::new().chain_update(key).chain_update(salt).chain_update(key).finalize();
    let mut first = Md5::new().chain_update(key).chain_update(b"$1$").chain_update(salt);
    for_length(key.len(), &second, |bytes| first.update(bytes));
    let mut bits = key.len();
    while bits > 0 {
        // The original takes the first byte of the key, or a zero: an accident that became the format.
        if bits & 1 == 1 {
            first.update([0]);
        } else {
            first.update(&key[..1]);
        }
        bits >>= 1;
    }
    Stretching {
        keys: key.to_vec(),
        salts: salt.to_vec(),
        digest: first.finalize(),
        round: 0,
        rounds: MD5_ROUNDS,
    }
}

/// Passes `length` bytes to `give`: `block`, repeated as often as needed.
fn for_length(length: usize, block: &[u8], mut give: impl FnMut(&[u8])) {
    let mut left = length;
    while left > 0 {
        let now = left.min(block.len());
        give(&block[..now]);
        left -= now;
    }
}

fn stretched(length: usize, block: &[u8]) -> Vec<u8> {
    block.iter().copied().cycle().take(length).collect()
}

/// Writes a digest with six bits per character. `order` has the byte positions of each group, highest byte first.
fn encode(digest: &[u8], order: &[[Option<u8>; 3]]) -> Vec<u8> {
    let mut text = Vec::with_capacity(digest.len() * 4 / 3 + 1);
    for group in order {
        let mut value = 0u32;
        for index in group {
            value = value << 8 | index.map_or(0, |index| u32::from(digest[usize::from(index)]));
        }
        let characters = 1 + group.iter().flatten().count();
        for _ in 0..characters {
            text.push(ALPHABET[(value & 63) as usize]);
            value >>= 6;
        }
    }
    text
}

/// Compares all bytes, even after a difference.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The default number of rounds of both SHA schemes.
const DEFAULT_ROUNDS: u32 = 5_000;

const MD5_ROUNDS: u32 = 1_000;

/// The work of a SHA scheme grows with the square of the password's length: a longer candidate never matches.
const MAX_PASSWORD_BYTES: usize = 256;

const MD5_ORDER: [[Option<u8>; 3]; 6] = [
    [Some(0), Some(6), Some(12)],
    [Some(1), Some(7), Some(13)],
    [Some(2), Some(8), Some(14)],
    [Some(3), Some(9), Some(15)],
    [Some(4), Some(10), Some(5)],
    [None, None, Some(11)],
];

/// Three columns, ten (or twenty-one) bytes apart, that change places from group to group.
const SHA256_ORDER: [[Option<u8>; 3]; 11] = {
    let mut order = [[None; 3]; 11];
    let mut group = 0;
    while group < 10 {
        let columns = [group as u8, group as u8 + 10, group as u8 + 20];
        let turn = (3 - group % 3) % 3;
        order[group] = [Some(columns[turn]), Some(columns[(turn + 1) % 3]), Some(columns[(turn + 2) % 3])];
        group += 1;
    }
    order[10] = [None, Some(31), Some(30)];
    order
};

const SHA512_ORDER: [[Option<u8>; 3]; 22] = {
    let mut order = [[None; 3]; 22];
    let mut group = 0;
    while group < 21 {
        let columns = [group as u8, group as u8 + 21, group as u8 + 42];
        let turn = group % 3;
        order[group] = [Some(columns[turn]), Some(columns[(turn + 1) % 3]), Some(columns[(turn + 2) % 3])];
        group += 1;
    }
    order[21] = [None, None, Some(63)];
    order
};

impl std::fmt::Debug for Password {
    /// Never shows the password.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.costly().is_some() { "Password(hashed)" } else { "Password(clear)" })
    }
}

impl std::fmt::Debug for PasswordHash {
    /// Never shows the hash.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("PasswordHash")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(password: &str, hash: &str) {
        let parsed = PasswordHash::parse(hash).unwrap();
        assert!(parsed.verify(password.as_bytes()), "{password} {hash}");
        assert!(!parsed.verify(format!("{password}x").as_bytes()), "{password}x {hash}");
        assert!(!parsed.verify(b""), "empty {hash}");
    }

    #[test]
    fn a_password_verified_in_parts_gives_the_same_result() {
        let hash = PasswordHash::parse("$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5").unwrap();
        for (password, expected) in [("Hello world!", true), ("Hello world", false)] {
            let mut verification = Verification::new(&hash, password.as_bytes());
            let parts =
                std::iter::repeat_with(|| verification.advance(900)).take_while(Option::is_none).count();
            assert_eq!((parts, verification.advance(0)), (5, Some(expected)), "{password}");
        }
    }

    /// The vectors of the published descriptions, and results of glibc and OpenSSL for other lengths.
    #[test]
    fn verifies_known_password_hashes() {
        check("secret", "$1$abc$iCQ2D3nhptRYi27fDYv2s1");
        check("x", "$1$ab$e2KlfqG5YBMTjSz7XF.Eu1");
        check("a much longer password than sixteen", "$1$12345678$HGJHglfA1jRVtYuvr8yIz0");
        check("Hello world!", "$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5");
        check(
            "Hello world!",
            "$5$rounds=10000$saltstringsaltstring$3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA",
        );
        check("é", "$5$x$50QyH38tEA3qPeYqiuS7IyS41b1mrPqLGBittMX4LK6");
        check(
            "Hello world!",
            "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
        );
        check(
            "Hello world!",
            "$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H\
             9qs/y3RnOaw5v.",
        );
        check(
            "a much longer password than sixty-four bytes, so that blocks repeat in the digest",
            "$6$k6y3o.eP$gY9R97/P/L93Fs7KM/TvdzQzPVhbRArgcOuWqcLZdb2QnTVH6nHvAzTZfcBqFSx71hFfj5zelQZWswbz1TtNa/",
        );
    }

    #[test]
    fn rejects_malformed_password_hashes() {
        for (text, error) in [
            ("", HashError::Unknown),
            ("elgato", HashError::Unknown),
            ("$2y$10$abcdefghijklmnopqrstuv", HashError::Unknown),
            ("$y$j9T$salt$hash", HashError::Unknown),
            ("$1$abc$xyz", HashError::Malformed),
            ("$6$", HashError::Malformed),
            ("$6$rounds=x$salt$hash", HashError::Malformed),
            ("$6$rounds=1000$ab$abc", HashError::Malformed),
        ] {
            assert_eq!(PasswordHash::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn verifies_clear_passwords_without_showing_them() {
        let password = Password::Clear(b"elgato"[..].into());
        assert!(password.verify(b"elgato"));
        assert!(!password.verify(b"elgatO"));
        assert!(!password.verify(b"elgat"));
        assert!(!format!("{password:?}").contains("elgato"));
        assert!(password.costly().is_none());
    }
}
