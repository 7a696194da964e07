//! Frames on the wire (RFC 9113, 4 and 6).

use crate::error::ErrorCode;

/// The connection preface of a client (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Whether `bytes` begin with the client's preface, or are a prefix of it.
pub fn is_preface(bytes: &[u8]) -> bool {
    let length = bytes.len().min(PREFACE.len());
    bytes[..length] == PREFACE[..length]
}
/// Length of a frame header in bytes.
pub const HEADER: usize = 9;
/// The default of SETTINGS_MAX_FRAME_SIZE, in bytes (RFC 9113, 6.5.2).
pub const DEFAULT_MAX_PAYLOAD: u32 = 16_384;

/// DATA and HEADERS: the sender's last frame on the stream.
pub const END_STREAM: u8 = 0x1;
/// SETTINGS and PING: an acknowledgement.
pub const ACK: u8 = 0x1;
/// The header block ends with this frame.
pub const END_HEADERS: u8 = 0x4;
/// The payload begins with a padding length, and ends with that many bytes of padding.
pub const PADDED: u8 = 0x8;
/// HEADERS: the payload has five bytes of priority before the header block.
pub const PRIORITY: u8 = 0x20;

/// The type of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameKind {
    Data,
    /// A header block, or its beginning.
    Headers,
    /// Priorities, deprecated and ignored (RFC 9113, 5.3).
    Priority,
    /// RST_STREAM: closes a stream with an error code.
    Reset,
    Settings,
    /// A server push. A client must not send it.
    PushPromise,
    Ping,
    /// The sender accepts no more streams.
    GoAway,
    WindowUpdate,
    /// Continues a header block.
    Continuation,
    /// An unknown type, to be ignored (RFC 9113, 4.1).
    Unknown,
}

impl FrameKind {
    /// The number of frame types.
    pub const COUNT: usize = FrameKind::Unknown as usize + 1;
}

/// The nine bytes before a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    pub length: u32,
    pub kind: FrameKind,
    /// The flags. Their meaning depends on the type.
    pub flags: u8,
    /// The stream, or 0 for the connection.
    pub stream: u32,
}

impl FrameHeader {
    /// Reads the header at the front of `bytes`.
    #[inline]
    pub fn read(bytes: &[u8]) -> Option<FrameHeader> {
        let bytes: &[u8; HEADER] = bytes.first_chunk()?;
        let kind = match bytes[3] {
            0 => FrameKind::Data,
            1 => FrameKind::Headers,
            2 => FrameKind::Priority,
            3 => FrameKind::Reset,
            4 => FrameKind::Settings,
            5 => FrameKind::PushPromise,
            6 => FrameKind::Ping,
            7 => FrameKind::GoAway,
            8 => FrameKind::WindowUpdate,
            9 => FrameKind::Continuation,
            _ => FrameKind::Unknown,
        };
        Some(FrameHeader {
            length: u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]),
            kind,
            flags: bytes[4],
            stream: number(&bytes[5..]) & STREAM_BITS,
        })
    }

    /// Whether it has this flag.
    #[inline]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Mask of stream IDs and window increments. Their highest bit is reserved.
pub const STREAM_BITS: u32 = 0x7fff_ffff;

/// The first four bytes as a big-endian number; 0 if there are fewer.
#[inline]
pub fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Appends a frame's header.
#[inline]
pub fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&header(length, kind, flags, stream));
}

/// A frame's header.
pub fn header(length: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEADER] {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    let [first, second, third, fourth] = stream.to_be_bytes();
    [high, middle, low, kind, flags, first, second, third, fourth]
}

/// Appends RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_header(out, 4, 3, 0, stream);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends PING, or its acknowledgement if `acknowledges`.
pub fn write_ping(out: &mut Vec<u8>, acknowledges: bool, payload: [u8; 8]) {
    write_header(out, 8, 6, if acknowledges { ACK } else { 0 }, 0);
    out.extend_from_slice(&payload);
}

/// Appends GOAWAY: streams up to `last` were or will be processed.
pub fn write_go_away(out: &mut Vec<u8>, last: u32, code: ErrorCode) {
    write_header(out, 8, 7, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends WINDOW_UPDATE; stream 0 is the connection.
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    write_header(out, 4, 8, 0, stream);
    out.extend_from_slice(&increment.to_be_bytes());
}

/// Reserves a frame header before a payload that is appended next; returns its offset.
pub fn begin_headers(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; HEADER]);
    out.len() - HEADER
}

/// Frames the bytes appended since [`begin_headers`] as a header block, in frames with at most `max_payload` bytes of payload.
pub fn end_headers(out: &mut Vec<u8>, at: usize, stream: u32, max_payload: usize, end: bool) {
    let length = out.len() - at - HEADER;
    if length > max_payload {
        let block = out.split_off(at + HEADER);
        out.truncate(at);
        return write_headers(out, stream, &block, max_payload, end);
    }
    let flags = END_HEADERS | if end { END_STREAM } else { 0 };
    out[at..at + HEADER].copy_from_slice(&header(length, 1, flags, stream));
}

/// Appends a header block in frames of at most `max_payload` bytes: HEADERS, then CONTINUATION.
#[cold]
fn write_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], max_payload: usize, end: bool) {
    let (mut kind, mut flags, mut rest) = (1, if end { END_STREAM } else { 0 }, block);
    loop {
        let (piece, after) = rest.split_at(rest.len().min(max_payload));
        if after.is_empty() {
            flags |= END_HEADERS;
        }
        write_header(out, piece.len(), kind, flags, stream);
        out.extend_from_slice(piece);
        if after.is_empty() {
            return;
        }
        (kind, flags, rest) = (9, 0, after);
    }
}
