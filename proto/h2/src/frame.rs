//! Frames on the wire (RFC 9113, 4 and 6).

use crate::error::ErrorCode;

/// What a client sends before anything else (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The bytes before a frame's payload.
pub const HEADER: usize = 9;
/// What a payload may have until a peer says otherwise: nobody has to accept more.
pub const DEFAULT_MAX_PAYLOAD: u32 = 16_384;

/// The frame ends its stream: DATA and HEADERS.
pub const END_STREAM: u8 = 0x1;
/// SETTINGS and PING: it answers one of ours.
pub const ACK: u8 = 0x1;
/// The header block ends with this frame.
pub const END_HEADERS: u8 = 0x4;
/// The payload begins with a length of padding, and ends with so much of it.
pub const PADDED: u8 = 0x8;
/// HEADERS: five bytes of priority come first.
pub const PRIORITY: u8 = 0x20;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Payload.
    Data,
    /// A header block, or its beginning.
    Headers,
    /// Advice that nobody follows (RFC 9113, 5.3).
    Priority,
    /// The end of a stream.
    Reset,
    /// What a peer accepts.
    Settings,
    /// A promise that no client may make.
    PushPromise,
    /// A question whether the peer is there.
    Ping,
    /// The peer takes no more streams.
    GoAway,
    /// More may be sent.
    WindowUpdate,
    /// More of a header block.
    Continuation,
    /// To be ignored (RFC 9113, 4.1).
    Unknown,
}

/// The nine bytes before a payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes of payload.
    pub length: u32,
    /// What it is.
    pub kind: Kind,
    /// Its flags; which are known depends on the kind.
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
            0 => Kind::Data,
            1 => Kind::Headers,
            2 => Kind::Priority,
            3 => Kind::Reset,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            _ => Kind::Unknown,
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

/// The topmost bit of a stream's number and of a window's increment is reserved.
pub const STREAM_BITS: u32 = 0x7fff_ffff;

/// The number that the first four bytes are; 0 if there are fewer.
#[inline]
pub fn number(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Appends a frame's header.
#[inline]
pub fn write_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let [_, high, middle, low] = (length as u32).to_be_bytes();
    out.extend_from_slice(&[high, middle, low, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// Appends RST_STREAM.
pub fn write_reset(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_header(out, 4, 3, 0, stream);
    out.extend_from_slice(&(code as u32).to_be_bytes());
}

/// Appends PING: ours, or the answer to the peer's.
pub fn write_ping(out: &mut Vec<u8>, acknowledges: bool, payload: [u8; 8]) {
    write_header(out, 8, 6, if acknowledges { ACK } else { 0 }, 0);
    out.extend_from_slice(&payload);
}

/// Appends GOAWAY: streams up to `last` were looked at.
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

/// Appends a header block in frames of at most `max_payload` bytes: HEADERS, then CONTINUATION.
pub fn write_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], max_payload: usize, end: bool) {
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
