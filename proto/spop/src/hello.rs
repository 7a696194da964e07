//! The HELLO frames of both sides (SPOE.txt, 3.2.4 and 3.2.5).

use crate::data::{Items, MalformedPayload, TypedData, write_item};
use crate::frame::{FIN, PREFIX, SpopFrame, SpopFrameKind, write};
use crate::status::StatusCode;

/// The balancer's offer on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentLimits<'e> {
    /// The largest frame in bytes, without its length prefix. A value below [`MIN_FRAME_SIZE`] is raised to it.
    pub max_frame_size: u32,
    /// Whether several NOTIFY frames may wait for their ACK frames.
    pub pipelining: bool,
    /// Identifies the engine, for example a UUID. One that does not fit into the frame is left out.
    pub engine_id: &'e str,
    /// Whether the connection is a health check. Its HELLO frame contains this instead of the engine's ID.
    pub healthcheck: bool,
}

impl AgentLimits<'_> {
    pub(crate) fn frame_size(&self) -> u32 {
        self.max_frame_size.max(MIN_FRAME_SIZE)
    }

    /// Appends the HAPROXY-HELLO frame, with the items in the order of HAProxy 3.2.
    pub fn write_hello(&self, out: &mut Vec<u8>) {
        let mut payload = Vec::new();
        write_item(b"supported-versions", TypedData::Text(b"2.0"), &mut payload);
        write_item(MAX_FRAME_SIZE, TypedData::Uint32(u64::from(self.frame_size())), &mut payload);
        let capabilities = if self.pipelining { PIPELINING } else { b"" };
        write_item(CAPABILITIES, TypedData::Text(capabilities), &mut payload);
        let mandatory = payload.len();
        if self.healthcheck {
            write_item(b"healthcheck", TypedData::Bool(true), &mut payload);
        } else {
            write_item(b"engine-id", TypedData::Text(self.engine_id.as_bytes()), &mut payload);
        }
        let start = out.len();
        write_of_the_connection(SpopFrameKind::HaproxyHello, &payload, out);
        if out.len() - start - PREFIX > self.frame_size() as usize {
            out.truncate(start);
            write_of_the_connection(SpopFrameKind::HaproxyHello, &payload[..mandatory], out);
        }
    }
}

/// Appends a HELLO or DISCONNECT frame.
pub(crate) fn write_of_the_connection(kind: SpopFrameKind, payload: &[u8], out: &mut Vec<u8>) {
    write(&SpopFrame { kind, flags: FIN, stream_id: 0, frame_id: 0, payload }, out);
}

/// The items of an AGENT-HELLO frame. Each is valid if it is there.
///
/// The specification requires all three. HAProxy 3.2 requires only the version: without a size it keeps the offered one, and
/// without capabilities it does not use pipelining.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentHello {
    pub has_version: bool,
    /// In bytes; at least [`MIN_FRAME_SIZE`], at most the offered size.
    pub max_frame_size: Option<u32>,
    /// Whether the capabilities contain `pipelining`.
    pub pipelining: Option<bool>,
}

impl AgentHello {
    /// Reads the payload of an AGENT-HELLO frame. `offered` is the `max-frame-size` of the HELLO frame that it answers.
    ///
    /// An item that occurs twice is checked twice; the last one counts. Unknown items are skipped, also those of unassigned types, which
    /// HAProxy 3.2 reads as NULL. Sizes may have any of the four
    /// integer types.
    ///
    /// # Errors
    /// The status code for the first item that is not valid: [`StatusCode::InvalidFrame`], [`StatusCode::UnsupportedVersion`] or
    /// [`StatusCode::InvalidFrameSize`].
    pub fn read(payload: &[u8], offered: u32) -> Result<Self, StatusCode> {
        let mut hello = AgentHello { has_version: false, max_frame_size: None, pipelining: None };
        for item in Items::new(payload) {
            let (name, value) = item.map_err(|MalformedPayload| StatusCode::InvalidFrame)?;
            match (name, value) {
                // HAProxy rejects an empty name.
                (b"", _) => return Err(StatusCode::InvalidFrame),
                (b"version", TypedData::Text(text)) => {
                    if version(text).ok_or(StatusCode::InvalidFrame)? != SPOP_VERSION {
                        return Err(StatusCode::UnsupportedVersion);
                    }
                    hello.has_version = true;
                }
                (MAX_FRAME_SIZE, value) => {
                    let size = value.integer().ok_or(StatusCode::InvalidFrame)?;
                    let size = u32::try_from(size).map_err(|_| StatusCode::InvalidFrameSize)?;
                    if !(MIN_FRAME_SIZE..=offered).contains(&size) {
                        return Err(StatusCode::InvalidFrameSize);
                    }
                    hello.max_frame_size = Some(size);
                }
                (CAPABILITIES, TypedData::Text(text)) => {
                    let mut names = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                    hello.pipelining = Some(names.any(|name| name == PIPELINING));
                }
                (b"version" | CAPABILITIES, _) => return Err(StatusCode::InvalidFrame),
                _ => {}
            }
        }
        Ok(hello)
    }
}

/// The major and minor number of a version. Spaces around it are ignored. A list of versions is not valid, as in HAProxy 3.2.
fn version(text: &[u8]) -> Option<(u32, u32)> {
    let (major, minor) = std::str::from_utf8(text.trim_ascii()).ok()?.split_once('.')?;
    let number =
        |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?;
    Some((number(major)?, number(minor)?))
}

/// The smallest `max-frame-size` (SPOE.txt, 3.2).
pub const MIN_FRAME_SIZE: u32 = 256;

const SPOP_VERSION: (u32, u32) = (2, 0);
pub(crate) const MAX_FRAME_SIZE: &[u8] = b"max-frame-size";
pub(crate) const CAPABILITIES: &[u8] = b"capabilities";
pub(crate) const PIPELINING: &[u8] = b"pipelining";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::read;

    const OFFERED: u32 = 16380;

    fn hello(limits: AgentLimits<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        limits.write_hello(&mut out);
        out
    }

    #[test]
    fn the_hello_is_written_like_haproxys() {
        let engine_id = "f508108b-4a8a-43cc-bdec-c768c5ca0419";
        let limits = AgentLimits { max_frame_size: OFFERED, pipelining: true, engine_id, healthcheck: false };
        let expected = b"\0\0\0\x7b\x01\0\0\0\x01\0\0\x12supported-versions\x08\x032.0\x0emax-frame-size\x03\xfc\xf0\x06\
            \x0ccapabilities\x08\npipelining\x09engine-id\x08$f508108b-4a8a-43cc-bdec-c768c5ca0419";
        assert_eq!(hello(limits), expected);
        let expected =
            b"\0\0\0\x70\x01\0\0\0\x01\0\0\x12supported-versions\x08\x032.0\x0emax-frame-size\x03\xf8/\
            \x0ccapabilities\x08\0\x09engine-id\x08$f508108b-4a8a-43cc-bdec-c768c5ca0419";
        assert_eq!(hello(AgentLimits { max_frame_size: 1000, pipelining: false, ..limits }), expected);
        let expected = b"\0\0\0\x4e\x01\0\0\0\x01\0\0\x12supported-versions\x08\x032.0\x0emax-frame-size\x03\xfc\xf0\x06\
            \x0ccapabilities\x08\0\x0bhealthcheck\x11";
        assert_eq!(hello(AgentLimits { pipelining: false, healthcheck: true, ..limits }), expected);
    }

    #[test]
    fn the_hello_fits_into_the_size_that_it_offers() {
        for length in 0..400 {
            let engine_id = "x".repeat(length);
            let limits = AgentLimits {
                max_frame_size: 0,
                pipelining: true,
                engine_id: &engine_id,
                healthcheck: false,
            };
            let bytes = hello(limits);
            let (frame, whole) =
                read(&bytes, MIN_FRAME_SIZE).expect("a valid frame").expect("a complete frame");
            assert_eq!(whole, bytes.len());
            let has_id = frame.payload.ends_with(engine_id.as_bytes()) && length > 0;
            assert!(length == 0 || length > 160 || has_id, "{length}");
        }
    }

    fn item(name: &str, value: TypedData<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        write_item(name.as_bytes(), value, &mut out);
        out
    }

    #[track_caller]
    fn check(items: &[Vec<u8>], expected: Result<(bool, Option<u32>, Option<bool>), StatusCode>) {
        let found = AgentHello::read(&items.concat(), OFFERED);
        let found = found.map(|hello| (hello.has_version, hello.max_frame_size, hello.pipelining));
        assert_eq!(found, expected);
    }

    #[test]
    fn versions_are_read_like_haproxys() {
        let check_version =
            |text: &str, expected| check(&[item("version", TypedData::Text(text.as_bytes()))], expected);
        for text in ["2.0", "  2.0  ", "\t2.0\t", "2.00", "02.0"] {
            check_version(text, Ok((true, None, None)));
        }
        for text in ["1.0", "2.1", "3.0"] {
            check_version(text, Err(StatusCode::UnsupportedVersion));
        }
        for text in ["2.0, 1.0", "1.0,2.0", "2", "2.x", "2.0x", "", "2 . 0", "99999999999.0", "2.", "+2.0"] {
            check_version(text, Err(StatusCode::InvalidFrame));
        }
        let version = |text| item("version", TypedData::Text(text));
        check(&[version(b"2.0"), version(b"1.0")], Err(StatusCode::UnsupportedVersion));
        check(&[item("version", TypedData::Binary(b"2.0"))], Err(StatusCode::InvalidFrame));
        check(&[item("VERSION", TypedData::Text(b"2.0"))], Ok((false, None, None)));
    }

    #[test]
    fn frame_sizes_are_integers_of_any_type_within_the_bounds() {
        let check_size = |value, expected| check(&[item("max-frame-size", value)], expected);
        for value in
            [TypedData::Int32(1000), TypedData::Uint32(1000), TypedData::Int64(1000), TypedData::Uint64(1000)]
        {
            check_size(value, Ok((false, Some(1000), None)));
        }
        for size in [256, 16380] {
            check_size(TypedData::Uint32(size), Ok((false, u32::try_from(size).ok(), None)));
        }
        for size in [0, 255, 16381, (1 << 32) + 1000, u64::MAX] {
            check_size(TypedData::Uint32(size), Err(StatusCode::InvalidFrameSize));
        }
        check_size(TypedData::Int32(-1), Err(StatusCode::InvalidFrameSize));
        for value in [TypedData::Text(b"1000"), TypedData::Bool(true), TypedData::Null] {
            check_size(value, Err(StatusCode::InvalidFrame));
        }
    }

    #[test]
    fn capabilities_are_a_list_with_spaces() {
        let check_list = |text: &str, expected| {
            check(
                &[item("capabilities", TypedData::Text(text.as_bytes()))],
                Ok((false, None, Some(expected))),
            );
        };
        check_list("pipelining", true);
        check_list("async , pipelining ,x", true);
        check_list("", false);
        check_list("pipelining2,Pipelining,pipe lining", false);
        check(&[item("capabilities", TypedData::Binary(b""))], Err(StatusCode::InvalidFrame));
    }

    #[test]
    fn unknown_items_are_skipped_and_malformed_ones_are_not() {
        check(&[item("x", TypedData::Uint32(7))], Ok((false, None, None)));
        check(&[item("", TypedData::Uint32(7))], Err(StatusCode::InvalidFrame));
        let version = item("version", TypedData::Text(b"2.0"));
        check(&[b"\x01x\x0a".to_vec(), version, b"\x01y\x0f".to_vec()], Ok((true, None, None)));
        check(&[b"\x07version\x0a".to_vec()], Err(StatusCode::InvalidFrame));
        check(&[b"\x05ab".to_vec()], Err(StatusCode::InvalidFrame));
        check(&[], Ok((false, None, None)));
    }
}
