//! Addresses, tokens and bytes in the notation of arguments, patterns and header fields.

use std::net::Ipv4Addr;

use crate::error::show;

/// An IPv4 address in which inner zero bytes may be left out: `10.12` is `10.0.0.12` (manual, 7.1.6).
pub fn parse_ipv4_abbreviated(text: &str) -> Option<Ipv4Addr> {
    let mut bytes = [0u8; 4];
    let mut count = 0;
    let mut last = 0;
    for part in text.split('.') {
        if count == 4 || part.is_empty() || part.len() > 3 || !part.bytes().all(|byte| byte.is_ascii_digit())
        {
            return None;
        }
        bytes[count] = part.parse().ok()?;
        last = bytes[count];
        count += 1;
    }
    if count < 4 {
        bytes[count - 1] = 0;
        bytes[3] = last;
    }
    Some(Ipv4Addr::from(bytes))
}

/// Whether a byte may be in a token: a field name, a parameter (RFC 9110, 5.6.2).
pub fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Bytes from an even number of hexadecimal digits.
pub(crate) fn parse_hex(digits: &[u8]) -> Result<Vec<u8>, String> {
    if !digits.len().is_multiple_of(2) {
        return Err("an even number of hex digit is expected".into());
    }
    let digit = |byte: u8| match (byte as char).to_digit(16) {
        Some(digit) => Ok(digit as u8),
        None => Err(format!("an hex digit is expected (found '{}')", show(&[byte]))),
    };
    digits.chunks_exact(2).map(|pair| Ok(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}
