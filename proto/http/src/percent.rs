//! Percent-encoding (RFC 3986, 2.1).

/// Decodes into `out`, which is cleared first. With `plus`, `+` is a space, as in forms. `false` for a broken sequence.
/// `out` then contains the text before it.
pub fn decode(text: &[u8], plus: bool, out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'%' => {
                let Some(decoded) = sequence(&text[at..]) else { return false };
                out.push(decoded);
                at += 3;
            }
            b'+' if plus => {
                out.push(b' ');
                at += 1;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    true
}

/// Appends the text; each byte that `keep` does not accept is written as a sequence.
pub fn encode(text: &[u8], keep: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    for &byte in text {
        if keep(byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

/// The byte that a sequence at the start of `text` encodes; `None` if the sequence is not valid.
pub fn sequence(text: &[u8]) -> Option<u8> {
    match text {
        [b'%', high, low, ..] => Some(hexadecimal(*high)? << 4 | hexadecimal(*low)?),
        _ => None,
    }
}

/// Whether a byte means the same with and without encoding (RFC 3986, 2.3).
pub fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn hexadecimal(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

const DIGITS: &[u8; 16] = b"0123456789ABCDEF";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, plus: bool, want: Result<&str, &str>) {
        let mut out = Vec::new();
        let done = decode(text.as_bytes(), plus, &mut out);
        let out = String::from_utf8(out).unwrap();
        assert_eq!(if done { Ok(&*out) } else { Err(&*out) }, want);
    }

    #[test]
    fn percent_sequences_are_decoded() {
        check("a%2Fb%2f", false, Ok("a/b/"));
        check("a+b", false, Ok("a+b"));
        check("a+b%2B", true, Ok("a b+"));
        check("a%", false, Err("a"));
        check("a%4", false, Err("a"));
        check("a%zz", false, Err("a"));
        check("a%+1", false, Err("a"));
    }

    #[test]
    fn reserved_bytes_are_percent_encoded() {
        let mut out = Vec::new();
        encode("a/é".as_bytes(), is_unreserved, &mut out);
        assert_eq!(out, b"a%2F%C3%A9");
    }
}
