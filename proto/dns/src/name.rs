//! Domain names in wire format: labels with their lengths, and an empty one at the end.

use std::hash::{Hash, Hasher};

/// A domain name. Comparisons ignore the case of letters (RFC 4343).
#[derive(Clone)]
pub struct Name(Box<[u8]>);

/// Why a string is not a domain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name or a label is empty.
    EmptyLabel,
    /// A label has more than 63 bytes.
    LongLabel,
    /// The name has more than 255 bytes.
    TooLong,
}

impl Name {
    /// Maximum length of a name on the wire in bytes (RFC 1035, 2.3.4).
    pub const LONGEST: usize = 255;
    /// Maximum length of a label in bytes, without its length byte (RFC 1035, 2.3.4).
    pub const LONGEST_LABEL: usize = 63;

    /// A name from labels separated by dots. A trailing dot is allowed and ignored, because names are never completed by a search list.
    ///
    /// # Errors
    /// When the text is not a valid domain name.
    pub fn parse(text: &[u8]) -> Result<Self, NameError> {
        let text = text.strip_suffix(b".").unwrap_or(text);
        let mut wire = Vec::with_capacity(text.len() + 2);
        for label in text.split(|byte| *byte == b'.') {
            let length = u8::try_from(label.len()).unwrap_or(u8::MAX);
            match usize::from(length) {
                0 => return Err(NameError::EmptyLabel),
                1..=Self::LONGEST_LABEL => {}
                _ => return Err(NameError::LongLabel),
            }
            wire.push(length);
            wire.extend_from_slice(label);
            if wire.len() >= Self::LONGEST {
                return Err(NameError::TooLong);
            }
        }
        wire.push(0);
        Ok(Name(wire.into()))
    }

    /// A name from uncompressed wire bytes, validated by the reader.
    pub(crate) fn from_wire(wire: &[u8]) -> Self {
        Name(wire.into())
    }

    /// The bytes of the wire, without compression.
    pub fn wire(&self) -> &[u8] {
        &self.0
    }

    /// The labels, without the empty last one.
    pub fn labels(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let (length, after) = rest.split_first()?;
            let (label, after) = after.split_at_checked(usize::from(*length))?;
            rest = after;
            (!label.is_empty()).then_some(label)
        })
    }

    /// The same name with the case of its letters chosen by `bits`, the lowest first; after 64 letters the bits are used again.
    #[must_use]
    pub fn with_case(&self, bits: u64) -> Self {
        let mut wire = self.0.clone();
        let letters = wire.iter_mut().filter(|byte| byte.is_ascii_alphabetic());
        for (index, letter) in letters.enumerate() {
            // Length bytes are 63 at most, so they are not letters.
            *letter = match bits >> (index % 64) & 1 {
                0 => letter.to_ascii_lowercase(),
                _ => letter.to_ascii_uppercase(),
            };
        }
        Name(wire)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|byte| state.write_u8(byte.to_ascii_lowercase()));
    }
}

/// Labels separated by dots; unprintable bytes as `\` and three digits (RFC 1035, 5.1).
impl std::fmt::Display for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, label) in self.labels().enumerate() {
            if index > 0 {
                out.write_str(".")?;
            }
            for byte in label {
                match byte {
                    b'.' | b'\\' => write!(out, "\\{}", char::from(*byte))?,
                    0x21..=0x7e => write!(out, "{}", char::from(*byte))?,
                    _ => write!(out, "\\{byte:03}")?,
                }
            }
        }
        Ok(())
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Name({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, NameError>) {
        let found = Name::parse(text.as_bytes()).map(|name| name.to_string());
        assert_eq!(found, expected.map(str::to_owned));
    }

    #[test]
    fn parses_dns_names_within_their_length_limits() {
        check("a.example", Ok("a.example"));
        check("a.example.", Ok("a.example"));
        check("_http._tcp.example", Ok("_http._tcp.example"));
        check("", Err(NameError::EmptyLabel));
        check(".", Err(NameError::EmptyLabel));
        check("a..b", Err(NameError::EmptyLabel));
        check(".a", Err(NameError::EmptyLabel));
        let label = "a".repeat(63);
        check(&label, Ok(&label));
        check(&"a".repeat(64), Err(NameError::LongLabel));
        check(&"a".repeat(400), Err(NameError::LongLabel));
        // Four labels of 63 are 256 bytes with the lengths; a last one of 61 makes it 255 with the end.
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        check(&longest, Ok(&longest));
        check(&format!("{longest}a"), Err(NameError::TooLong));
    }

    #[test]
    fn dns_names_with_different_case_are_equal() {
        let name = Name::parse(b"ab-9.cd").expect("a name");
        let other = name.with_case(0b1001);
        assert_eq!(other.to_string(), "Ab-9.cD");
        assert_eq!(name, other);
        assert_ne!(name.wire(), other.wire());
        assert_ne!(name, Name::parse(b"ab-9.ce").expect("a name"));
        let hash = |name: &Name| {
            let mut hasher = std::hash::DefaultHasher::new();
            name.hash(&mut hasher);
            hasher.finish()
        };
        assert_eq!(hash(&name), hash(&other));
    }

    #[test]
    fn unprintable_bytes_of_dns_names_are_shown_as_decimal_escapes() {
        assert_eq!(Name::parse(b"a b\xff").expect("a name").to_string(), "a\\032b\\255");
    }
}
