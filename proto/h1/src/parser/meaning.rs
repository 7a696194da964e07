//! The meaning of fields for the proxy, recorded field by field.

use weir_http::body;
use weir_http::values::{ListMembers, trim};
use weir_http::{Head, HeadFlags, Kind, KnownName, MessageSpan};

use super::{ParseOptions, ScanStop, wrong};
use crate::error::HeadErrorKind;

/// State kept between fields, to validate the head at its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Meaning {
    /// The transfer codings so far.
    pub transfer_encoding: TransferEncoding,
    pub transfer_encoding_position: usize,
    /// Empty codings, or `chunked` several times, were tolerated.
    pub transfer_encoding_tolerated: bool,
    /// `chunked` was not written in lower case.
    pub transfer_encoding_respelled: bool,
    pub content_length_position: usize,
    /// The value of the first `Host`.
    pub host: Option<MessageSpan>,
    /// Whether a `Sec-WebSocket-Key` (`-Accept` in a response) of the right length was received.
    pub websocket_proof: bool,
}

/// The transfer codings seen so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum TransferEncoding {
    #[default]
    None,
    /// `chunked` and nothing else.
    Chunked,
    /// Other codings, then `chunked`.
    OthersThenChunked,
    Others,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FieldAction {
    /// The field is forwarded unchanged.
    Keep,
    /// The field is forwarded with this part of its value.
    Narrow(MessageSpan),
    /// The field is removed, because it repeats another field or does not concern the next hop.
    Drop,
}

impl Meaning {
    /// Records a field with a known name.
    #[inline]
    pub(super) fn note(
        &mut self,
        known: KnownName,
        raw: &[u8],
        value: MessageSpan,
        options: &ParseOptions,
        head: &mut Head,
    ) -> Result<FieldAction, ScanStop> {
        match known {
            KnownName::Host if head.kind() == Kind::Request => self.host(raw, value, head),
            KnownName::Connection => connection(raw, value, head),
            KnownName::ContentLength => self.content_length(raw, value, head),
            KnownName::TransferEncoding => self.transfer_encoding(raw, value, options, head),
            KnownName::Upgrade => upgrade(raw, value, head),
            KnownName::Expect => {
                if text(raw, value, head).eq_ignore_ascii_case(b"100-continue") {
                    head.note(HeadFlags::EXPECT_100);
                }
                Ok(FieldAction::Keep)
            }
            KnownName::Te if head.kind() == Kind::Request => te(raw, value, head),
            KnownName::Cookie | KnownName::SetCookie => noted(head, HeadFlags::HAS_COOKIE),
            KnownName::Date => noted(head, HeadFlags::HAS_DATE),
            KnownName::KeepAlive => noted(head, HeadFlags::HAS_KEEP_ALIVE),
            KnownName::ProxyConnection => noted(head, HeadFlags::HAS_PROXY_CONNECTION),
            KnownName::SecWebsocketKey => {
                // Sixteen bytes in base64 (RFC 6455, 4.1).
                self.websocket_proof |= head.kind() == Kind::Request && value.len() == 24;
                Ok(FieldAction::Keep)
            }
            KnownName::SecWebsocketAccept => {
                self.websocket_proof |= head.kind() == Kind::Response;
                Ok(FieldAction::Keep)
            }
            _ => Ok(FieldAction::Keep),
        }
    }

    fn host(&mut self, raw: &[u8], value: MessageSpan, head: &mut Head) -> Result<FieldAction, ScanStop> {
        head.note_host();
        let Some(first) = self.host else {
            self.host = Some(value);
            return Ok(FieldAction::Keep);
        };
        if !text(raw, first, head).eq_ignore_ascii_case(text(raw, value, head)) {
            return wrong(HeadErrorKind::ConflictingHost, value.start());
        }
        Ok(FieldAction::Drop)
    }

    /// Several equal values count as one (RFC 9110, 8.6), and are forwarded once.
    fn content_length(
        &mut self,
        raw: &[u8],
        value: MessageSpan,
        head: &mut Head,
    ) -> Result<FieldAction, ScanStop> {
        let line = text(raw, value, head);
        if let (Some(length), None) = (body::length(line), head.content_length()) {
            let verdict = without_noughts(line, value);
            head.note_content_length(length);
            self.content_length_position = value.start();
            return Ok(verdict);
        }
        self.content_length_list(raw, value, head)
    }

    #[cold]
    fn content_length_list(
        &mut self,
        raw: &[u8],
        value: MessageSpan,
        head: &mut Head,
    ) -> Result<FieldAction, ScanStop> {
        let line = text(raw, value, head);
        let invalid = |_| HeadErrorKind::InvalidContentLength;
        let mut length = None;
        let mut problem = None;
        for part in ListMembers::new(line) {
            match (body::length(part).ok_or(()).map_err(invalid), length) {
                (Err(kind), _) => problem = problem.or(Some(kind)),
                (Ok(number), None) => length = Some(number),
                (Ok(number), Some(first)) if number == first => {}
                (Ok(_), Some(_)) => problem = problem.or(Some(HeadErrorKind::ConflictingContentLength)),
            }
        }
        let first_length = ListMembers::new(line).next().map_or(0, <[u8]>::len);
        let (Some(length), None) = (length, problem) else {
            return wrong(problem.unwrap_or(HeadErrorKind::InvalidContentLength), value.start());
        };
        match head.content_length() {
            Some(before) if before != length => wrong(HeadErrorKind::ConflictingContentLength, value.start()),
            Some(_) => Ok(FieldAction::Drop),
            None => {
                let one = value.narrowed(first_length);
                let verdict = match without_noughts(text(raw, one, head), one) {
                    FieldAction::Keep if one.len() < value.len() => FieldAction::Narrow(one),
                    verdict => verdict,
                };
                head.note_content_length(length);
                self.content_length_position = value.start();
                Ok(verdict)
            }
        }
    }

    fn transfer_encoding(
        &mut self,
        raw: &[u8],
        value: MessageSpan,
        options: &ParseOptions,
        head: &mut Head,
    ) -> Result<FieldAction, ScanStop> {
        // Manual, "option accept-unsafe-violations-in-http-response".
        let tolerates = options.accept_unsafe_violations && head.kind() == Kind::Response;
        head.note(HeadFlags::HAS_TRANSFER_ENCODING);
        self.transfer_encoding_position = value.start();
        let mut so_far = self.transfer_encoding;
        for coding in ListMembers::new(text(raw, value, head)) {
            let again = so_far == TransferEncoding::Chunked && coding.eq_ignore_ascii_case(b"chunked");
            if tolerates && (coding.is_empty() || again) {
                self.transfer_encoding_tolerated = true;
                continue;
            }
            if coding.is_empty() {
                return wrong(HeadErrorKind::InvalidTransferEncoding, value.start());
            }
            let is_chunked = coding.eq_ignore_ascii_case(b"chunked");
            self.transfer_encoding_respelled |= is_chunked && coding != b"chunked";
            so_far = match (so_far, is_chunked) {
                (TransferEncoding::None, true) => TransferEncoding::Chunked,
                (TransferEncoding::Others, true) => TransferEncoding::OthersThenChunked,
                (TransferEncoding::None | TransferEncoding::Others, false) => TransferEncoding::Others,
                (_, true) => return wrong(HeadErrorKind::ChunkedTwice, value.start()),
                (_, false) => return wrong(HeadErrorKind::ChunkedNotFinal, value.start()),
            };
        }
        self.transfer_encoding = so_far;
        Ok(FieldAction::Keep)
    }
}

fn noted(head: &mut Head, flags: HeadFlags) -> Result<FieldAction, ScanStop> {
    head.note(flags);
    Ok(FieldAction::Keep)
}

fn connection(raw: &[u8], value: MessageSpan, head: &mut Head) -> Result<FieldAction, ScanStop> {
    let mut flags = HeadFlags::HAS_CONNECTION;
    for token in ListMembers::new(text(raw, value, head)) {
        flags |= match token.len() {
            0 => HeadFlags::NONE,
            5 if token.eq_ignore_ascii_case(b"close") => HeadFlags::CONNECTION_CLOSE,
            7 if token.eq_ignore_ascii_case(b"upgrade") => HeadFlags::CONNECTION_UPGRADE,
            10 if token.eq_ignore_ascii_case(b"keep-alive") => HeadFlags::CONNECTION_KEEP_ALIVE,
            _ => HeadFlags::CONNECTION_OTHER,
        };
    }
    head.note(flags);
    Ok(FieldAction::Keep)
}

fn upgrade(raw: &[u8], value: MessageSpan, head: &mut Head) -> Result<FieldAction, ScanStop> {
    let mut flags = HeadFlags::HAS_UPGRADE;
    for protocol in ListMembers::new(text(raw, value, head)) {
        if protocol.eq_ignore_ascii_case(b"websocket") {
            flags |= HeadFlags::UPGRADE_WEBSOCKET;
        } else if protocol.eq_ignore_ascii_case(b"h2c") {
            flags |= HeadFlags::UPGRADE_H2C;
        }
    }
    head.note(flags);
    Ok(FieldAction::Keep)
}

/// Of the values of `TE`, only `trailers` is forwarded: transfer codings concern one hop only.
fn te(raw: &[u8], value: MessageSpan, head: &mut Head) -> Result<FieldAction, ScanStop> {
    let line = text(raw, value, head);
    let mut start = 0;
    for coding in line.split(|byte| *byte == b',') {
        if trim(coding).eq_ignore_ascii_case(b"trailers") {
            let from = start + coding.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            let span = value.part(from, from + b"trailers".len());
            head.note(HeadFlags::TE_TRAILERS);
            return Ok(if span == value { FieldAction::Keep } else { FieldAction::Narrow(span) });
        }
        start += coding.len() + 1;
    }
    Ok(FieldAction::Drop)
}

/// Removes leading zeros of a length: some parsers read them as octal.
fn without_noughts(digits: &[u8], value: MessageSpan) -> FieldAction {
    match digits.iter().take_while(|digit| **digit == b'0').count().min(digits.len().saturating_sub(1)) {
        0 => FieldAction::Keep,
        noughts => FieldAction::Narrow(value.part(noughts, digits.len())),
    }
}

fn text<'a>(raw: &'a [u8], value: MessageSpan, head: &'a Head) -> &'a [u8] {
    head.span_text(raw, value)
}
