//! Passwords of a `userlist`: in clear, or hashed the way `crypt(3)` writes them.
//!
//! The three hashes that today's C libraries share are implemented after their published descriptions: MD5 (`$1$`, as
//! FreeBSD introduced it), SHA-256 (`$5$`) and SHA-512 (`$6$`, both after Ulrich Drepper's "Unix crypt using SHA-256
//! and SHA-512"). They are slow by design: callers that must not block check [`Password::is_costly`].

use md5::Md5;
use sha2::{Digest, Sha256, Sha512};

/// A password to compare with.
#[derive(Clone, PartialEq, Eq)]
pub enum Password {
    /// `insecure-password`: in clear.
    Clear(Box<[u8]>),
    /// `password`: hashed.
    Hashed(PasswordHash),
    /// A malformed hash, which no password matches.
    Never,
}

/// A hash as `crypt(3)` writes it.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash {
    scheme: Scheme,
    salt: Box<[u8]>,
    encoded: Box<[u8]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
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
    /// The right beginning, but the rest has the wrong length or characters.
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

    /// Whether verifying takes thousands of hash rounds.
    pub fn is_costly(&self) -> bool {
        matches!(self, Password::Hashed(_))
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
        if candidate.len() > MAX_PASSWORD_BYTES {
            return false;
        }
        let encoded = match self.scheme {
            Scheme::Md5 => md5_crypt(candidate, &self.salt),
            Scheme::Sha256 { rounds } => {
                encode(&sha_crypt::<Sha256>(candidate, &self.salt, rounds), &SHA256_ORDER)
            }
            Scheme::Sha512 { rounds } => {
                encode(&sha_crypt::<Sha512>(candidate, &self.salt, rounds), &SHA512_ORDER)
            }
        };
        same(&self.encoded, &encoded)
    }
}

/// The steps have the letters of the published description in the order given there.
fn sha_crypt<D: Digest + Clone>(key: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
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
    let mut digest = first.finalize();

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

    for round in 0..rounds {
        let mut mixed = D::new();
        mixed.update(if round % 2 == 1 { &keys[..] } else { &digest[..] });
        if round % 3 != 0 {
            mixed.update(&salts);
        }
        if round % 7 != 0 {
            mixed.update(&keys);
        }
        mixed.update(if round % 2 == 1 { &digest[..] } else { &keys[..] });
        digest = mixed.finalize();
    }
    digest.to_vec()
}

fn md5_crypt(key: &[u8], salt: &[u8]) -> Vec<u8> {
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
    let mut digest = first.finalize();
    for round in 0..1000 {
        let mut mixed = Md5::new();
        mixed.update(if round % 2 == 1 { key } else { &digest[..] });
        if round % 3 != 0 {
            mixed.update(salt);
        }
        if round % 7 != 0 {
            mixed.update(key);
        }
        mixed.update(if round % 2 == 1 { &digest[..] } else { key });
        digest = mixed.finalize();
    }
    encode(&digest, &MD5_ORDER)
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

/// Writes a digest with six bits a character. `order` names the bytes of each group from the highest to the lowest.
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

/// Compares without an early end.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The default number of rounds of both SHA schemes.
const DEFAULT_ROUNDS: u32 = 5_000;

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
        out.write_str(if self.is_costly() { "Password(hashed)" } else { "Password(clear)" })
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

    /// The vectors of the published descriptions, and results of glibc and OpenSSL for other lengths.
    #[test]
    fn known_hashes() {
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
    fn malformed_hashes() {
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
    fn clear_passwords() {
        let password = Password::Clear(b"elgato"[..].into());
        assert!(password.verify(b"elgato"));
        assert!(!password.verify(b"elgatO"));
        assert!(!password.verify(b"elgat"));
        assert!(!format!("{password:?}").contains("elgato"));
        assert!(!password.is_costly());
    }
}
