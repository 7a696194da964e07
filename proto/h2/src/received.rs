//! The head of a received message in HTTP/1 form with its index: the part common to requests and responses.

use weir_hpack::DecodedField as Received;
use weir_http::{Field, Head, HeadFlags, KnownName, MessageSpan, body};

/// A message's head, and the bytes that its index refers to.
#[derive(Debug, Default)]
pub struct ReceivedHead {
    pub head: Head,
    /// The head in HTTP/1 form, except for the version.
    pub bytes: Vec<u8>,
    /// Set if the head is invalid. The index and the bytes are then incomplete.
    pub fault: Option<HeadFault>,
}

/// The fault of a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadFault {
    /// It violates RFC 9113, 8: the stream is reset with PROTOCOL_ERROR.
    Malformed,
    /// It has too many fields, or too many bytes.
    TooLarge,
    /// The method, the scheme or the target is invalid: the request is answered with 400, as HAProxy does.
    NoRequest,
}

impl ReceivedHead {
    pub(crate) fn with_max_fields(max_fields: u16) -> ReceivedHead {
        ReceivedHead {
            head: Head::with_limits(max_fields, Head::DEFAULT_MAX_EDITS),
            ..ReceivedHead::default()
        }
    }

    /// Clears the head and keeps the memory.
    pub fn clear(&mut self) {
        self.head.clear();
        self.bytes.clear();
        self.fault = None;
    }

    /// Clears the head and frees the memory.
    pub(crate) fn shrink(&mut self) {
        self.clear();
        self.head.shrink();
        self.bytes = Vec::new();
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.fault.is_none()
    }

    /// Records a fault. The first fault is kept.
    #[cold]
    pub(crate) fn fail(&mut self, fault: HeadFault) {
        self.fault.get_or_insert(fault);
    }

    /// Whether to add the next field of the block: no fault was recorded, and the field is valid and fits into
    /// `max_head` bytes. `held` bytes of the head are stored elsewhere.
    pub(crate) fn admits(&mut self, field: &Received<'_>, held: usize, max_head: usize) -> bool {
        if field.defect.is_some() {
            self.fail(HeadFault::Malformed);
        }
        if self.bytes.len() + held + field.name.len() + field.value.len() + FRAMING > max_head {
            self.fail(HeadFault::TooLarge);
        }
        self.is_sound()
    }

    /// Appends a field and its index entry. Returns the span of its value. Records a fault if there are too many fields.
    pub(crate) fn push(&mut self, known: KnownName, name: &[u8], value: &[u8]) -> MessageSpan {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(b": ");
        let value_start = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let span = MessageSpan::raw(value_start, self.bytes.len());
        self.bytes.extend_from_slice(b"\r\n");
        let field = Field { name: MessageSpan::raw(start, start + name.len()), value: span, known };
        if self.head.push_field(field).is_err() {
            self.fail(HeadFault::TooLarge);
        }
        span
    }

    /// Appends a `content-length`. Equal values, in several fields or a list, become one. Different values are a fault (RFC 9110, 8.6).
    pub(crate) fn push_length(&mut self, value: &[u8]) {
        for one in value.split(|byte| *byte == b',') {
            let one = one.trim_ascii();
            let Some(length) = body::length(one) else { return self.fail(HeadFault::Malformed) };
            match self.head.content_length() {
                Some(before) if before == length => {}
                Some(_) => self.fail(HeadFault::Malformed),
                None => {
                    self.head.note_content_length(length);
                    // Without leading zeros: some parsers read them as octal.
                    let noughts = one.iter().take_while(|digit| **digit == b'0').count().min(one.len() - 1);
                    self.push(KnownName::ContentLength, b"content-length", &one[noughts..]);
                }
            }
        }
    }

    /// Appends the HTTP/1 fields that correspond to an extended CONNECT, or to its acceptance (RFC 8441).
    pub(crate) fn push_upgrade(&mut self, protocol: &[u8]) {
        self.head.note(HeadFlags::HAS_CONNECTION | HeadFlags::CONNECTION_UPGRADE | HeadFlags::HAS_UPGRADE);
        self.push(KnownName::Connection, b"connection", b"upgrade");
        self.push(KnownName::Upgrade, b"upgrade", protocol);
    }

    /// Appends the field that marks a body of unknown length in this program: `transfer-encoding: chunked`.
    pub(crate) fn push_chunked(&mut self) {
        self.head.note(HeadFlags::HAS_TRANSFER_ENCODING | HeadFlags::CHUNKED);
        self.push(KnownName::TransferEncoding, b"transfer-encoding", b"chunked");
    }

    /// Completes the head with its empty line.
    pub(crate) fn finish(&mut self) {
        self.bytes.extend_from_slice(b"\r\n");
        self.head.finish(self.bytes.len());
    }
}

/// Bytes of a field line besides its name and value; the same for the start line.
pub(crate) const FRAMING: usize = 4;
