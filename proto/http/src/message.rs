//! Messages that the proxy generates.

use crate::status;
use crate::version::Version;

/// Appends a response. With a body, `content-length` is the first field. Without a body (`None`), the length is not
/// announced: the caller adds other framing, or the status excludes a body (204, 304).
pub fn write_response(
    out: &mut Vec<u8>,
    version: Version,
    status: u16,
    reason: &[u8],
    fields: &[(&[u8], &[u8])],
    body: Option<&[u8]>,
) {
    write_status_line(out, version, status, reason);
    let body = body.filter(|_| !status::is_bodyless(status));
    if let Some(body) = body {
        write_length_field(out, body.len() as u64);
    }
    for (name, value) in fields {
        write_field(out, name, value);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body.unwrap_or_default());
}

/// Appends a status line. Codes outside 100..=999 are clamped to it.
pub fn write_status_line(out: &mut Vec<u8>, version: Version, status: u16, reason: &[u8]) {
    out.extend_from_slice(&version.wire());
    out.push(b' ');
    write_decimal(out, u64::from(status.clamp(100, 999)));
    out.push(b' ');
    out.extend_from_slice(reason);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a `content-length` field line.
pub fn write_length_field(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    write_decimal(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Appends a number in decimal, without allocating.
fn write_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// The interim response that requests the body of a client (RFC 9110, 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_response_heads_with_their_bodies() {
        let mut out = Vec::new();
        write_response(&mut out, Version::HTTP_11, 200, b"OK", &[(b"x", b"y")], Some(b"hi"));
        write_response(&mut out, Version::HTTP_10, 204, b"No Content", &[], Some(b"dropped"));
        assert_eq!(
            out,
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\nhiHTTP/1.0 204 No Content\r\n\r\n"
        );
    }

    #[test]
    fn writes_decimal_numbers() {
        for number in [0, 7, 10, 4096, u64::MAX] {
            let mut out = Vec::new();
            write_decimal(&mut out, number);
            assert_eq!(out, number.to_string().as_bytes());
        }
    }
}
