//! Frames: a length, a type, flags, two IDs and a payload (SPOE.txt, 3.2).

use weir_peers_protocol::{ByteReader, integer};

/// One received frame. The payload is borrowed from the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpopFrame<'a> {
    pub kind: SpopFrameKind,
    pub flags: u32,
    /// 0 in HELLO and DISCONNECT frames.
    pub stream_id: u64,
    /// 0 in HELLO and DISCONNECT frames.
    pub frame_id: u64,
    pub payload: &'a [u8],
}

impl SpopFrame<'_> {
    /// Whether the frame is complete. Since SPOP 2.0 each frame must be.
    #[must_use]
    pub fn is_final(&self) -> bool {
        self.flags & FIN != 0
    }

    /// Whether the sender cancels the processing that the frame belongs to.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.flags & ABORT != 0
    }

    /// Whether both IDs are 0, as they must be outside NOTIFY and ACK frames.
    #[must_use]
    pub fn is_of_the_connection(&self) -> bool {
        self.stream_id == 0 && self.frame_id == 0
    }
}

/// The type of a frame (SPOE.txt, 3.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpopFrameKind {
    HaproxyHello,
    HaproxyDisconnect,
    Notify,
    AgentHello,
    AgentDisconnect,
    Ack,
    /// A type that the specification does not assign.
    Unknown(u8),
}

impl SpopFrameKind {
    fn from_byte(byte: u8) -> Self {
        match byte {
            1 => SpopFrameKind::HaproxyHello,
            2 => SpopFrameKind::HaproxyDisconnect,
            3 => SpopFrameKind::Notify,
            101 => SpopFrameKind::AgentHello,
            102 => SpopFrameKind::AgentDisconnect,
            103 => SpopFrameKind::Ack,
            other => SpopFrameKind::Unknown(other),
        }
    }

    fn byte(self) -> u8 {
        match self {
            SpopFrameKind::HaproxyHello => 1,
            SpopFrameKind::HaproxyDisconnect => 2,
            SpopFrameKind::Notify => 3,
            SpopFrameKind::AgentHello => 101,
            SpopFrameKind::AgentDisconnect => 102,
            SpopFrameKind::Ack => 103,
            SpopFrameKind::Unknown(byte) => byte,
        }
    }
}

/// A frame that cannot be read. The bytes after it cannot be either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Its length exceeds the maximum.
    TooLarge,
    /// It is shorter than its type, flags and IDs, or an ID exceeds 64 bits.
    Malformed,
}

/// Reads the frame at the front of `bytes`. Returns it with its total length in bytes, the length prefix included, or `None`
/// while bytes are missing.
///
/// `max_frame_size` bounds the frame without its length prefix. A length out of bounds is reported once its four bytes are there.
///
/// # Errors
/// The frame is too large or malformed.
pub fn read(bytes: &[u8], max_frame_size: u32) -> Result<Option<(SpopFrame<'_>, usize)>, FrameError> {
    let Some((length, rest)) = bytes.split_first_chunk() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    if length > max_frame_size {
        return Err(FrameError::TooLarge);
    }
    let length = usize::try_from(length).map_err(|_| FrameError::TooLarge)?;
    if length < SHORTEST {
        return Err(FrameError::Malformed);
    }
    let Some(frame) = rest.get(..length) else { return Ok(None) };
    let frame = parse(frame).ok_or(FrameError::Malformed)?;
    Ok(Some((frame, PREFIX + length)))
}

fn parse(bytes: &[u8]) -> Option<SpopFrame<'_>> {
    let (&kind, rest) = bytes.split_first()?;
    let mut reader = ByteReader(rest);
    let flags = reader.four_bytes().ok()?;
    let stream_id = reader.integer().ok()?;
    let frame_id = reader.integer().ok()?;
    Some(SpopFrame { kind: SpopFrameKind::from_byte(kind), flags, stream_id, frame_id, payload: reader.0 })
}

/// Appends a frame.
pub fn write(frame: &SpopFrame<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    out.push(frame.kind.byte());
    out.extend_from_slice(&frame.flags.to_be_bytes());
    integer::write(frame.stream_id, out);
    integer::write(frame.frame_id, out);
    out.extend_from_slice(frame.payload);
    // Callers bound their payloads by a `max_frame_size`, which is a `u32`.
    let length = u32::try_from(out.len() - start - PREFIX).unwrap_or(u32::MAX);
    out[start..start + PREFIX].copy_from_slice(&length.to_be_bytes());
}

/// The length of a frame's type, flags and IDs, in bytes.
pub(crate) fn header_length(stream_id: u64, frame_id: u64) -> usize {
    TYPE_AND_FLAGS + integer_length(stream_id) + integer_length(frame_id)
}

/// The length of an integer on the wire, in bytes.
fn integer_length(value: u64) -> usize {
    let Some(mut above) = value.checked_sub(240) else { return 1 };
    above >>= 4;
    let mut length = 2;
    while let Some(rest) = above.checked_sub(0x80) {
        above = rest >> 7;
        length += 1;
    }
    length
}

/// The flag of a complete frame.
pub const FIN: u32 = 1;
/// The flag of a cancelled processing.
pub const ABORT: u32 = 2;

/// The length of a frame's length, in bytes.
pub const PREFIX: usize = 4;

const TYPE_AND_FLAGS: usize = 1 + 4;

/// The length of a frame with one-byte IDs and without a payload.
const SHORTEST: usize = TYPE_AND_FLAGS + 1 + 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u32 = 16380;

    #[test]
    fn reads_the_notify_frame_of_haproxy() {
        let bytes =
            b"\0\0\0\x1b\x03\0\0\0\x01\x01\x01\x01m\x04\x01a\x04\x05\0\x08\x02/x\0\x11\0\x06\x7f\0\0\x01rest";
        let (frame, length) = read(bytes, LIMIT).expect("a valid frame").expect("a complete frame");
        assert_eq!((frame.kind, frame.stream_id, frame.frame_id), (SpopFrameKind::Notify, 1, 1));
        assert!(frame.is_final() && !frame.is_aborted() && !frame.is_of_the_connection());
        assert_eq!(&bytes[length..], b"rest");
        let mut out = Vec::new();
        write(&frame, &mut out);
        assert_eq!(out, bytes[..length]);
    }

    #[test]
    fn a_length_out_of_bounds_is_an_error_at_once() {
        assert_eq!(read(b"\0\0\x01\x01", 256), Err(FrameError::TooLarge));
        assert_eq!(read(b"\xff\xff\xff\xff", LIMIT), Err(FrameError::TooLarge));
        assert_eq!(read(b"\0\0\x01\0", 256), Ok(None));
        for length in 0..7 {
            assert_eq!(read(&[0, 0, 0, length], LIMIT), Err(FrameError::Malformed));
        }
        assert_eq!(read(b"\0\0\0\x07", LIMIT), Ok(None));
    }

    #[test]
    fn an_id_without_an_end_is_malformed() {
        assert_eq!(read(b"\0\0\0\x07\x67\0\0\0\x01\0\xff", LIMIT), Err(FrameError::Malformed));
        let endless = [&b"\0\0\0\x19\x67\0\0\0\x01"[..], &[0xff; 20]].concat();
        assert_eq!(read(&endless, LIMIT), Err(FrameError::Malformed));
    }

    proptest! {
        #[test]
        fn frames_survive_a_round_trip_cut_at_each_byte(
            kind: u8,
            flags: u32,
            stream_id: u64,
            frame_id in 0_u64..300_000,
            payload in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let frame =
                SpopFrame { kind: SpopFrameKind::from_byte(kind), flags, stream_id, frame_id, payload: &payload };
            let mut out = Vec::new();
            write(&frame, &mut out);
            prop_assert_eq!(out.len(), PREFIX + header_length(stream_id, frame_id) + payload.len());
            for cut in 0..out.len() {
                prop_assert_eq!(read(&out[..cut], LIMIT), Ok(None));
            }
            prop_assert_eq!(read(&out, LIMIT), Ok(Some((frame, out.len()))));
        }
    }
}
