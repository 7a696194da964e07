//! Field lines (RFC 9112, 5), each a complete line, folds included.

use std::ops::Range;

use weir_http::{Field, Head, HeadFlags, KnownName, MessageSpan, values};

use super::meaning::{FieldAction, Meaning};
use super::scan::{find_colon, is_token_byte};
use super::{ParseOptions, ScanStop, wrong};
use crate::error::HeadErrorKind;

/// Parses `name: value` and adds it to the head. `line` is its range, without the line end; `folded`: it contains line breaks.
#[inline]
pub(super) fn read(
    raw: &[u8],
    line: Range<usize>,
    folded: bool,
    options: &ParseOptions,
    meaning: &mut Meaning,
    head: &mut Head,
) -> Result<(), ScanStop> {
    let bytes = &raw[..line.end];
    let colon = find_colon(bytes, line.start);
    let known = KnownName::from_bytes(&bytes[line.start..colon]);
    // A known name has only token bytes. Other names must be checked.
    if known == KnownName::Other || colon == line.end {
        let odd = bytes[line.start..colon].iter().position(|byte| !is_token_byte(*byte));
        if odd.is_some() || colon == line.start || colon == line.end {
            let at = line.start + odd.unwrap_or(colon - line.start);
            return odd_name(bytes, &line, at, options, head);
        }
    }
    let mut start = colon + 1;
    while let Some(b' ' | b'\t') = bytes.get(start) {
        start += 1;
    }
    let mut end = line.end;
    while end > start && matches!(bytes[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    let name = MessageSpan::raw(line.start, colon);
    let mut value = MessageSpan::raw(start, end);
    if folded {
        value = unfold(raw, value, head)?;
    }
    if known != KnownName::Other {
        match meaning.note(known, raw, value, options, head)? {
            FieldAction::Keep => {}
            FieldAction::Narrow(narrower) => {
                head.note(HeadFlags::MUST_REWRITE);
                value = narrower;
            }
            FieldAction::Drop => {
                head.note(HeadFlags::MUST_REWRITE);
                return Ok(());
            }
        }
    }
    head.push_field(Field { name, value, known }).or_else(|_| wrong(HeadErrorKind::TooManyFields, line.start))
}

/// A name with invalid bytes: if that is accepted, the field is dropped (manual, "option
/// accept-unsafe-violations-in-http-request").
#[cold]
fn odd_name(
    bytes: &[u8],
    line: &Range<usize>,
    at: usize,
    options: &ParseOptions,
    head: &mut Head,
) -> Result<(), ScanStop> {
    let colon = memchr::memchr(b':', &bytes[at..]).map(|ahead| at + ahead);
    if options.accept_unsafe_violations
        && let Some(colon) = colon
        && colon > line.start
        && memchr::memchr(b'\n', &bytes[at..colon]).is_none()
    {
        head.note(HeadFlags::VIOLATION | HeadFlags::MUST_REWRITE);
        return Ok(());
    }
    let kind = match bytes.get(at) {
        Some(b':') => HeadErrorKind::EmptyName,
        Some(b' ' | b'\t') if at == line.start => HeadErrorKind::FoldedFirstField,
        Some(b' ' | b'\t') if values::trim(&bytes[at..]).starts_with(b":") => HeadErrorKind::SpaceBeforeColon,
        Some(_) => HeadErrorKind::InvalidName,
        None => HeadErrorKind::MissingColon,
    };
    wrong(kind, at)
}

/// Joins the lines of a folded value: every byte of a line break becomes a space (RFC 9112, 5.2).
#[cold]
fn unfold(raw: &[u8], value: MessageSpan, head: &mut Head) -> Result<MessageSpan, ScanStop> {
    let mut folded = value.of(raw, &[]);
    while let [b' ' | b'\t' | b'\r' | b'\n', rest @ ..] = folded {
        folded = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r' | b'\n'] = folded {
        folded = rest;
    }
    let joined = head.store_with(folded, |byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
    joined.or_else(|_| wrong(HeadErrorKind::TooLong, value.start()))
}

/// Which part of a field line a NUL makes invalid: the name or the value. `before` is the line up to it.
#[cold]
pub(super) fn kind_of_nul(before: &[u8]) -> HeadErrorKind {
    if memchr::memchr(b':', before).is_some() {
        HeadErrorKind::InvalidValue
    } else {
        HeadErrorKind::InvalidName
    }
}
