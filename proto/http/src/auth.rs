//! Basic authentication (RFC 7617).

/// A user and a password.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Credentials {
    /// The part before the first colon.
    pub user: Vec<u8>,
    /// The part after the first colon.
    pub password: Vec<u8>,
}

/// Splits an `Authorization` or `Proxy-Authorization` value at the first space: the scheme and the rest.
pub fn scheme(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memchr(b' ', value)?;
    Some((&value[..space], value[space..].trim_ascii()))
}

/// The user and the password of a value with the scheme `Basic`, in any case.
pub fn basic(value: &[u8]) -> Option<Credentials> {
    let (name, token) = scheme(value)?;
    if !name.eq_ignore_ascii_case(b"Basic") || token.len() > MAX_TOKEN {
        return None;
    }
    let text = decode_base64(token)?;
    let colon = memchr::memchr(b':', &text)?;
    Some(Credentials { user: text[..colon].to_vec(), password: text[colon + 1..].to_vec() })
}

/// Maximum length of a decoded token in bytes, more than user names and passwords need.
pub const MAX_TOKEN: usize = 4096;

/// Decodes base64 with its padding; `None` if the text has any other byte.
fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    if text.is_empty() || !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in text.chunks_exact(4) {
        let is_last = out.len() == (text.len() / 4 - 1) * 3;
        let mut bits = 0u32;
        for (at, &byte) in group.iter().enumerate() {
            let digit = match byte {
                b'=' if is_last && at >= 4 - padding => 0,
                _ => u32::from(base64_digit(byte)?),
            };
            bits = bits << 6 | digit;
        }
        let [_, bytes @ ..] = bits.to_be_bytes();
        out.extend_from_slice(&bytes);
    }
    out.truncate(out.len() - padding);
    Some(out)
}

fn base64_digit(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, want: Option<(&str, &str)>) {
        let seen = basic(value.as_bytes());
        let want = want.map(|(user, password)| Credentials { user: user.into(), password: password.into() });
        assert_eq!(seen, want, "{value}");
    }

    #[test]
    fn parses_users_and_passwords_of_basic_authentication() {
        check("Basic dXNlcjpwYXNz", Some(("user", "pass")));
        check("basic  dXNlcjpwYXNz ", Some(("user", "pass")));
        check("Basic dTpwOmE=", Some(("u", "p:a")));
        check("Basic Og==", Some(("", "")));
        check("Basic dXNlcg==", None);
        check("Basic", None);
        check("Basic ", None);
        check("Bearer dXNlcjpwYXNz", None);
        check("Basic dXNlcjpwYXN", None);
        check("Basic dXNl=jpwYXNz", None);
        check("Basic ====", None);
        check("Basic dXNlcjpw*XNz", None);
    }
}
