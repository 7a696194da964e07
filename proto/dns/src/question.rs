//! Questions: writing a query.

use crate::name::Name;

/// The kinds of records to query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecordKind {
    A,
    /// IPv6 addresses (RFC 3596).
    Aaaa,
    /// Services (RFC 2782).
    Srv,
}

impl RecordKind {
    /// Its number on the wire.
    pub const fn number(self) -> u16 {
        match self {
            RecordKind::A => 1,
            RecordKind::Aaaa => 28,
            RecordKind::Srv => 33,
        }
    }
}

/// One question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The name, in the letter case that the response must repeat.
    pub name: Name,
    /// The kind of record to query.
    pub kind: RecordKind,
}

impl Question {
    /// Appends the query to `out`. `payload_size` is the longest answer over UDP that is accepted, at least 512 (RFC 6891, 6.2.3).
    pub fn write(&self, identifier: u16, payload_size: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&identifier.to_be_bytes());
        // A standard query, recursion desired; one question, nothing else but the size.
        out.extend_from_slice(&[0x01, 0x00, 0, 1, 0, 0, 0, 0, 0, 1]);
        out.extend_from_slice(self.name.wire());
        out.extend_from_slice(&self.kind.number().to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        // The OPT record: the root's name, its number, the size, and no flags or options.
        out.extend_from_slice(&[0, 0, 41]);
        out.extend_from_slice(&payload_size.max(SMALLEST_PAYLOAD).to_be_bytes());
        out.extend_from_slice(&[0; 6]);
    }
}

/// The Internet.
pub(crate) const CLASS_IN: u16 = 1;
/// The message size that every implementation accepts (RFC 1035, 2.3.4).
pub const SMALLEST_PAYLOAD: u16 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_a_dns_query_with_edns() {
        let question = Question { name: Name::parse(b"a.bc").expect("a name"), kind: RecordKind::Aaaa };
        let mut out = Vec::new();
        question.write(0x1234, 8192, &mut out);
        let expected = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x02bc\x00\x00\x1c\x00\x01\x00\x00\x29\x20\x00\x00\x00\x00\x00\x00\x00";
        assert_eq!(out, expected);
        let mut small = Vec::new();
        question.write(0x1234, 0, &mut small);
        assert_eq!(small[out.len() - 8..out.len() - 6], [2, 0]);
    }
}
