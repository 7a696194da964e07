//! Request lines and status lines (RFC 9112, 3 and 4), each a complete line.
//!
//! Sources: RFC 9112, 2.3, 3 and 4, for the syntax of the lines and of versions; RFC 9110, 2.5, for higher minor and
//! major versions; RFC 9113, 3.4, for the preface of HTTP/2; the manual for the operator's option ("option
//! accept-unsafe-violations-in-http-request"); and observed behaviour of HAProxy 2.6 for the exact set of accepted
//! versions (`http_versions_are_accepted_like_in_haproxy`).

use std::ops::Range;

use weir_http::{Head, HeadFlags, MessageSpan, Method, Version};

use super::scan::{find_target_end, is_token_byte};
use super::{ParseOptions, ScanStop, wrong};
use crate::error::HeadErrorKind;

/// Reads `method target version`. `line` is its range, without the line end.
#[inline]
pub(super) fn request_line(
    raw: &[u8],
    line: Range<usize>,
    options: &ParseOptions,
    head: &mut Head,
) -> Result<(), ScanStop> {
    let bytes = &raw[..line.end];
    let method_end = skip(bytes, line.start, is_token_byte);
    match bytes.get(method_end) {
        Some(b' ' | b'\t') => {}
        Some(_) => return wrong(HeadErrorKind::InvalidMethod, method_end),
        None => return wrong(HeadErrorKind::InvalidVersion, method_end),
    }
    let target_start = after_blank(bytes, method_end, head);
    let target_end = target_end(bytes, target_start, options, head)?;
    let version_start = after_blank(bytes, target_end, head);
    let method = &bytes[line.start..method_end];
    head.begin_request(
        line.start,
        MessageSpan::raw(line.start, method_end),
        MessageSpan::raw(target_start, target_end),
        MessageSpan::raw(version_start, line.end),
    );
    head.note_method(Method::from_bytes(method));
    match &bytes[version_start..] {
        b"HTTP/1.1" => {
            head.note_version(Version::HTTP_11);
            Ok(())
        }
        text => request_version(text, version_start, method, options, head),
    }
}

/// Anything but `HTTP/1.1`.
#[cold]
fn request_version(
    text: &[u8],
    start: usize,
    method: &[u8],
    options: &ParseOptions,
    head: &mut Head,
) -> Result<(), ScanStop> {
    match Version::from_bytes(text) {
        Some(Version::HTTP_20) if method == b"PRI" => wrong(HeadErrorKind::Http2Preface, start),
        Some(version) => version_seen(version, start, head),
        None if !options.accept_unsafe_violations => {
            wrong(if text.is_empty() { HeadErrorKind::Http09 } else { HeadErrorKind::InvalidVersion }, start)
        }
        // HTTP/0.9 has only GET. It is forwarded as HTTP/1.0.
        None if text.is_empty() && method == b"GET" => {
            head.note(HeadFlags::VIOLATION);
            head.set_version(Version::HTTP_10).or_else(|_| wrong(HeadErrorKind::TooLong, start))
        }
        None => other_protocol(text, start, head),
    }
}

/// Reads `version status reason`. `line` is its range, without the line end; `has_controls`: it contains control
/// characters.
#[inline]
pub(super) fn status_line(
    raw: &[u8],
    line: Range<usize>,
    has_controls: bool,
    options: &ParseOptions,
    head: &mut Head,
) -> Result<(), ScanStop> {
    let bytes = &raw[..line.end];
    let version_end = skip(bytes, line.start, |byte| byte.is_ascii_graphic());
    let version = &bytes[line.start..version_end];
    let protocol = version.get(..5).unwrap_or_default();
    if !matches!(protocol, b"HTTP/" | b"RTSP/") && !options.accept_unsafe_violations {
        return wrong(HeadErrorKind::NotHttp, line.start);
    }
    let status_start = after_blank(bytes, version_end, head);
    let status_end = skip(bytes, status_start, |byte| byte.is_ascii_digit());
    let status = &bytes[status_start..status_end];
    let number = match *status {
        [hundreds @ b'1'..=b'9', tens, ones] => {
            u16::from(hundreds - b'0') * 100 + u16::from(tens - b'0') * 10 + u16::from(ones - b'0')
        }
        _ => long_status(status, status_start, options, head)?,
    };
    if !matches!(bytes.get(status_end), None | Some(b' ' | b'\t')) {
        return wrong(HeadErrorKind::InvalidStatus, status_end);
    }
    let reason_start = after_blank(bytes, status_end, head);
    if has_controls && let Some(at) = memchr::memchr(0, &bytes[reason_start..]) {
        if !options.accept_unsafe_violations {
            return wrong(HeadErrorKind::InvalidReason, reason_start + at);
        }
        head.note(HeadFlags::VIOLATION);
    }
    head.begin_response(
        line.start,
        MessageSpan::raw(line.start, version_end),
        MessageSpan::raw(status_start, status_end),
        MessageSpan::raw(reason_start, line.end),
    );
    head.note_status(number);
    if status.len() > 3 && number < 1000 {
        // Leading zeros are not forwarded.
        head.set_status(number).or_else(|_| wrong(HeadErrorKind::TooLong, status_start))?;
    }
    match version {
        b"HTTP/1.1" => {
            head.note_version(Version::HTTP_11);
            Ok(())
        }
        _ => response_version(version, line.start, options, head),
    }
}

/// A status of more than three digits, if that is accepted (manual, "option accept-unsafe-violations-in-http-response").
#[cold]
fn long_status(
    digits: &[u8],
    start: usize,
    options: &ParseOptions,
    head: &mut Head,
) -> Result<u16, ScanStop> {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    match text.parse::<u16>() {
        Ok(number @ 100..) if options.accept_unsafe_violations && digits.len() > 3 => {
            head.note(HeadFlags::VIOLATION);
            Ok(number)
        }
        _ => wrong(HeadErrorKind::InvalidStatus, start),
    }
}

/// Anything but `HTTP/1.1`.
#[cold]
fn response_version(
    text: &[u8],
    start: usize,
    options: &ParseOptions,
    head: &mut Head,
) -> Result<(), ScanStop> {
    match (Version::from_bytes(text), text) {
        (Some(version), _) => version_seen(version, start, head),
        // RTSP servers send this version through an HTTP proxy. Persistence is as in HTTP/1.0.
        (None, [b'R', b'T', b'S', b'P', b'/', major, b'.', minor])
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            head.note_version(Version::HTTP_10);
            Ok(())
        }
        (None, _) if options.accept_unsafe_violations => other_protocol(text, start, head),
        (None, _) => wrong(HeadErrorKind::InvalidVersion, start),
    }
}

/// A version above HTTP/1.1 is handled and forwarded as HTTP/1.1, the version of this proxy (RFC 9110, 2.5).
fn version_seen(version: Version, start: usize, head: &mut Head) -> Result<(), ScanStop> {
    if version > Version::HTTP_11 {
        head.set_version(Version::HTTP_11).or_else(|_| wrong(HeadErrorKind::TooLong, start))?;
    }
    head.note_version(version);
    Ok(())
}

/// The name of another protocol, or a version of several digits. Handled as HTTP/1.0 and forwarded unchanged.
fn other_protocol(text: &[u8], start: usize, head: &mut Head) -> Result<(), ScanStop> {
    let is_version = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let Some(slash) = memchr::memchr(b'/', text) else {
        return wrong(HeadErrorKind::InvalidVersion, start);
    };
    let (name, version) = (&text[..slash], &text[slash + 1..]);
    if name.is_empty()
        || !name.iter().all(u8::is_ascii_uppercase)
        || version.is_empty()
        || !version.iter().all(|byte| is_version(*byte))
    {
        return wrong(HeadErrorKind::InvalidVersion, start);
    }
    head.note(HeadFlags::VIOLATION);
    head.note_version(Version::HTTP_10);
    Ok(())
}

/// End offset of the target: the next blank, or the line end if the version is missing.
#[inline]
fn target_end(
    bytes: &[u8],
    start: usize,
    options: &ParseOptions,
    head: &mut Head,
) -> Result<usize, ScanStop> {
    let mut end = find_target_end(bytes, start);
    loop {
        match bytes.get(end) {
            None | Some(b' ' | b'\t') if end == start => return wrong(HeadErrorKind::InvalidTarget, end),
            None | Some(b' ' | b'\t') => return Ok(end),
            Some(b'#') if options.accept_fragment => end = find_target_end(bytes, end + 1),
            Some(b'#' | 0x80..) if options.accept_unsafe_violations => {
                head.note(HeadFlags::VIOLATION);
                end = find_target_end(bytes, end + 1);
            }
            Some(_) => return wrong(HeadErrorKind::InvalidTarget, end),
        }
    }
}

/// The first byte after the blanks at `at`. More than one space is accepted, but not forwarded.
#[inline]
fn after_blank(bytes: &[u8], at: usize, head: &mut Head) -> usize {
    let end = skip(bytes, at, |byte| matches!(byte, b' ' | b'\t'));
    if end != at + 1 || bytes[at] != b' ' {
        head.note(HeadFlags::MUST_REWRITE);
    }
    end
}

/// The first byte from `at` on that `accept` does not accept.
#[inline]
fn skip(bytes: &[u8], mut at: usize, accept: impl Fn(u8) -> bool) -> usize {
    while let Some(&byte) = bytes.get(at)
        && accept(byte)
    {
        at += 1;
    }
    at
}
