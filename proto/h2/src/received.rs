//! The head of a message as it came: in the form of HTTP/1, with an index over it.

use weir_http::{Field, Head, KnownName, Span};

/// A message's head, and the bytes that its index refers to.
#[derive(Debug, Default)]
pub struct ReceivedHead {
    /// The index.
    pub head: Head,
    /// The head as HTTP/1 would write it, but for the version.
    pub bytes: Vec<u8>,
    /// What became of it.
    pub verdict: Verdict,
}

/// Whether a head is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verdict {
    /// It is.
    #[default]
    Sound,
    /// It breaks RFC 9113, 8: the stream ends with PROTOCOL_ERROR.
    Malformed,
    /// It has too many fields, or too many bytes.
    TooLarge,
}

impl ReceivedHead {
    /// Forgets the head, keeps the memory.
    pub fn clear(&mut self) {
        self.head.clear();
        self.bytes.clear();
        self.verdict = Verdict::Sound;
    }
}

/// Appends a field and its index entry; where its value is, or none if there are too many fields.
pub(crate) fn push(
    head: &mut Head,
    bytes: &mut Vec<u8>,
    known: KnownName,
    name: &[u8],
    value: &[u8],
) -> Option<Span> {
    let start = bytes.len();
    bytes.extend_from_slice(name);
    bytes.extend_from_slice(b": ");
    let value_start = bytes.len();
    bytes.extend_from_slice(value);
    let span = Span::raw(value_start, bytes.len());
    bytes.extend_from_slice(b"\r\n");
    head.push_field(Field { name: Span::raw(start, start + name.len()), value: span, known }).ok()?;
    Some(span)
}

/// What a field takes beside its name and value; the same for the start line.
pub(crate) const FRAMING: usize = 4;
