//! Records: a header of 8 bytes, content and padding (FastCGI specification, 3.3).

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader {
    pub kind: FcgiRecordKind,
    /// 0 in management records, which concern the connection.
    pub id: u16,
    /// Bytes of content, which follow the header.
    pub content_length: u16,
    /// Bytes to skip after the content.
    pub padding_length: u8,
}

impl RecordHeader {
    /// The bytes of the header. The reserved one is 0.
    #[must_use]
    pub fn bytes(self) -> [u8; HEADER_LENGTH] {
        let [id_high, id_low] = self.id.to_be_bytes();
        let [length_high, length_low] = self.content_length.to_be_bytes();
        [VERSION, self.kind.byte(), id_high, id_low, length_high, length_low, self.padding_length, 0]
    }

    /// Reads a header. `None` if its version is not 1. The reserved byte is ignored.
    #[must_use]
    pub fn read(bytes: [u8; HEADER_LENGTH]) -> Option<Self> {
        let [version, kind, id_high, id_low, length_high, length_low, padding_length, _] = bytes;
        (version == VERSION).then_some(RecordHeader {
            kind: FcgiRecordKind::from_byte(kind),
            id: u16::from_be_bytes([id_high, id_low]),
            content_length: u16::from_be_bytes([length_high, length_low]),
            padding_length,
        })
    }
}

/// The type of a record (FastCGI specification, 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FcgiRecordKind {
    BeginRequest,
    AbortRequest,
    EndRequest,
    Params,
    Stdin,
    Stdout,
    Stderr,
    Data,
    GetValues,
    GetValuesResult,
    UnknownType,
    /// A type that the specification does not assign.
    Unassigned(u8),
}

impl FcgiRecordKind {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => FcgiRecordKind::BeginRequest,
            2 => FcgiRecordKind::AbortRequest,
            3 => FcgiRecordKind::EndRequest,
            4 => FcgiRecordKind::Params,
            5 => FcgiRecordKind::Stdin,
            6 => FcgiRecordKind::Stdout,
            7 => FcgiRecordKind::Stderr,
            8 => FcgiRecordKind::Data,
            9 => FcgiRecordKind::GetValues,
            10 => FcgiRecordKind::GetValuesResult,
            11 => FcgiRecordKind::UnknownType,
            other => FcgiRecordKind::Unassigned(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            FcgiRecordKind::BeginRequest => 1,
            FcgiRecordKind::AbortRequest => 2,
            FcgiRecordKind::EndRequest => 3,
            FcgiRecordKind::Params => 4,
            FcgiRecordKind::Stdin => 5,
            FcgiRecordKind::Stdout => 6,
            FcgiRecordKind::Stderr => 7,
            FcgiRecordKind::Data => 8,
            FcgiRecordKind::GetValues => 9,
            FcgiRecordKind::GetValuesResult => 10,
            FcgiRecordKind::UnknownType => 11,
            FcgiRecordKind::Unassigned(byte) => byte,
        }
    }
}

/// How the application's FastCGI library ended a request (FastCGI specification, 5.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolStatus {
    RequestComplete,
    /// The application does not run requests of one connection at once.
    CannotMultiplex,
    /// A resource of the application is exhausted, for example database connections.
    Overloaded,
    UnknownRole,
    /// A status that the specification does not assign.
    Unassigned(u8),
}

impl ProtocolStatus {
    pub(crate) fn from_byte(byte: u8) -> Self {
        match byte {
            0 => ProtocolStatus::RequestComplete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Unassigned(other),
        }
    }

    pub(crate) fn byte(self) -> u8 {
        match self {
            ProtocolStatus::RequestComplete => 0,
            ProtocolStatus::CannotMultiplex => 1,
            ProtocolStatus::Overloaded => 2,
            ProtocolStatus::UnknownRole => 3,
            ProtocolStatus::Unassigned(byte) => byte,
        }
    }
}

/// Appends a record without padding, or several if the content is longer than one holds. Content of zero bytes gives no
/// record.
pub(crate) fn write_content(kind: FcgiRecordKind, id: u16, content: &[u8], out: &mut Vec<u8>) {
    for part in content.chunks(MAX_CONTENT) {
        write(kind, id, part, out);
    }
}

/// Appends one record without padding. The content must not exceed [`MAX_CONTENT`].
pub(crate) fn write(kind: FcgiRecordKind, id: u16, content: &[u8], out: &mut Vec<u8>) {
    let content_length = u16::try_from(content.len()).expect("callers split content at MAX_CONTENT");
    out.extend_from_slice(&RecordHeader { kind, id, content_length, padding_length: 0 }.bytes());
    out.extend_from_slice(content);
}

/// Bytes of a header.
pub const HEADER_LENGTH: usize = 8;

/// The largest content of a record, in bytes: its length has 16 bits.
pub const MAX_CONTENT: usize = 0xffff;

const VERSION: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_type_survive_a_round_trip() {
        for kind in 0..=u8::MAX {
            let bytes = [1, kind, 0x12, 0x34, 0x56, 0x78, 0x9a, 0];
            let header = RecordHeader::read(bytes).expect("version 1");
            assert_eq!(
                (header.id, header.content_length, header.padding_length),
                (0x1234, 0x5678, 0x9a),
                "{header:?}"
            );
            assert_eq!(header.bytes(), bytes);
            assert_eq!(matches!(header.kind, FcgiRecordKind::Unassigned(_)), !(1..=11).contains(&kind));
        }
    }

    #[test]
    fn only_version_1_is_read_and_the_reserved_byte_is_ignored() {
        assert!(RecordHeader::read([1, 6, 0, 1, 0, 0, 0, 255]).is_some());
        for version in [0, 2, b'H', 255] {
            assert_eq!(RecordHeader::read([version, 6, 0, 1, 0, 0, 0, 0]), None);
        }
    }

    #[test]
    fn every_protocol_status_survives_a_round_trip() {
        for byte in 0..=u8::MAX {
            let status = ProtocolStatus::from_byte(byte);
            assert_eq!(status.byte(), byte);
            assert_eq!(matches!(status, ProtocolStatus::Unassigned(_)), byte > 3);
        }
    }
}
