//! The recognized name and the defect of a field, determined once from its literal form.

use weir_http::KnownName;
use weir_http::name::is_token_byte;

/// A recognized field name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Token {
    /// `:authority`
    Authority,
    /// `:method`
    Method,
    /// `:path`
    Path,
    /// `:protocol` (RFC 8441)
    Protocol,
    /// `:scheme`
    Scheme,
    /// `:status`
    Status,
    /// Another name that begins with a colon, invalid in any message.
    UnknownPseudo,
    /// A field; [`KnownName::Other`] for a name that the proxy does not use.
    Field(KnownName),
}

impl Token {
    /// The token of a received name.
    #[inline]
    pub fn of(name: &[u8]) -> Token {
        if name.first() != Some(&b':') {
            return Token::Field(KnownName::from_bytes(name));
        }
        match name {
            b":authority" => Token::Authority,
            b":method" => Token::Method,
            b":path" => Token::Path,
            b":protocol" => Token::Protocol,
            b":scheme" => Token::Scheme,
            b":status" => Token::Status,
            _ => Token::UnknownPseudo,
        }
    }

    /// Whether it is a pseudo-header field (RFC 9113, 8.3).
    #[inline]
    pub fn is_pseudo(self) -> bool {
        !matches!(self, Token::Field(_))
    }
}

/// Why a field is invalid in any message (RFC 9113, 8.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    EmptyName,
    /// The name has a letter in upper case.
    UpperCase,
    /// The name has an invalid byte.
    Name,
    /// The value has a line break or a NUL.
    Value,
}

impl Defect {
    /// The defect of a name, if it has one.
    #[inline]
    pub fn of_name(name: &[u8], token: Token) -> Option<Defect> {
        match token {
            Token::Field(KnownName::Other) => {}
            // A known name has valid bytes; only their case has to be checked.
            Token::Field(_) => return name.iter().any(u8::is_ascii_uppercase).then_some(Defect::UpperCase),
            Token::UnknownPseudo => return Some(Defect::Name),
            _ => return None,
        }
        if name.is_empty() {
            return Some(Defect::EmptyName);
        }
        let odd = name.iter().find(|byte| !NAME[usize::from(**byte)])?;
        Some(if odd.is_ascii_uppercase() { Defect::UpperCase } else { Defect::Name })
    }

    /// The defect of a value, if it has one.
    #[inline]
    pub fn of_value(value: &[u8]) -> Option<Defect> {
        value.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')).then_some(Defect::Value)
    }
}

/// The bytes allowed in names: token bytes except uppercase letters.
static NAME: [bool; 256] = {
    let mut name = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        name[byte] = is_token_byte(byte as u8) && !(byte as u8).is_ascii_uppercase();
        byte += 1;
    }
    name
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_pseudo_fields_from_fields() {
        for name in [&b":authority"[..], b":method", b":path", b":protocol", b":scheme", b":status"] {
            assert!(Token::of(name).is_pseudo() && Token::of(name) != Token::UnknownPseudo, "{name:?}");
            assert_eq!(Defect::of_name(name, Token::of(name)), None);
        }
        for name in [&b":"[..], b":pathx", b":Path", b":host"] {
            assert_eq!(Token::of(name), Token::UnknownPseudo, "{name:?}");
            assert_eq!(Defect::of_name(name, Token::UnknownPseudo), Some(Defect::Name));
        }
        assert_eq!(Token::of(b"host"), Token::Field(KnownName::Host));
        assert_eq!(Token::of(b"x-mine"), Token::Field(KnownName::Other));
        assert!(!Token::of(b"host").is_pseudo());
    }

    #[test]
    fn detects_defects_of_names_and_values_rfc_9113_8_2_1() {
        let name = |name: &[u8]| Defect::of_name(name, Token::of(name));
        assert_eq!(name(b"x-mine!#$%&'*+-.^_`|~09"), None);
        assert_eq!(name(b""), Some(Defect::EmptyName));
        assert_eq!(name(b"Host"), Some(Defect::UpperCase));
        assert_eq!(name(b"x-Mine"), Some(Defect::UpperCase));
        for byte in (0..=b' ').chain([b':', b'(', 0x7f, 0x80, 0xff]) {
            assert_eq!(name(&[b'a', byte]), Some(Defect::Name), "{byte}");
        }
        for byte in 0..=255 {
            let wrong = matches!(byte, 0 | b'\r' | b'\n');
            assert_eq!(Defect::of_value(&[b'a', byte, b'b']).is_some(), wrong, "{byte}");
            assert_eq!(Defect::of_value(&[b'a', byte]).is_some(), wrong, "{byte}");
            assert_eq!(Defect::of_value(&[byte, b'b']).is_some(), wrong, "{byte}");
        }
        assert_eq!(Defect::of_value(b""), None);
    }
}
