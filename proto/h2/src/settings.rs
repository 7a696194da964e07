//! SETTINGS (RFC 9113, 6.5): the limits that each end accepts.

use crate::error::ErrorCode;
use crate::frame::{self, DEFAULT_MAX_PAYLOAD};
use crate::window::{DEFAULT_WINDOW, MAX_WINDOW};

/// The peer's settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerSettings {
    /// Size of the peer's HPACK decoder table in bytes.
    pub header_table_size: u32,
    /// Initial send window of each new stream in bytes.
    pub initial_window: u32,
    /// Bytes of payload in a frame.
    pub max_payload: u32,
    /// Limit of concurrent streams that this end opens.
    pub concurrent_streams: u32,
    /// Whether the peer accepts extended CONNECT (RFC 8441).
    pub extended_connect: bool,
}

impl Default for PeerSettings {
    fn default() -> PeerSettings {
        PeerSettings {
            header_table_size: 4096,
            initial_window: DEFAULT_WINDOW,
            max_payload: DEFAULT_MAX_PAYLOAD,
            concurrent_streams: u32::MAX,
            extended_connect: false,
        }
    }
}

/// Bytes of one setting: a 16-bit identifier and a 32-bit value.
pub const ENTRY: usize = 6;
/// The largest payload that the length field of a frame can express.
pub const MAX_PAYLOAD: u32 = (1 << 24) - 1;

pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
pub(crate) const ENABLE_PUSH: u16 = 2;
pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
pub(crate) const MAX_FRAME_SIZE: u16 = 5;
pub(crate) const MAX_HEADER_LIST_SIZE: u16 = 6;
pub(crate) const ENABLE_CONNECT_PROTOCOL: u16 = 8;

impl PeerSettings {
    /// Applies one entry.
    ///
    /// # Errors
    /// The code of the connection error, if the value is invalid (RFC 9113, 6.5.2).
    pub fn apply(&mut self, entry: &[u8; ENTRY]) -> Result<(), ErrorCode> {
        let value = frame::number(&entry[2..]);
        match u16::from_be_bytes([entry[0], entry[1]]) {
            HEADER_TABLE_SIZE => self.header_table_size = value,
            MAX_CONCURRENT_STREAMS => self.concurrent_streams = value,
            ENABLE_PUSH | ENABLE_CONNECT_PROTOCOL if value > 1 => return Err(ErrorCode::Protocol),
            // Extended CONNECT cannot be disabled again (RFC 8441, 3).
            ENABLE_CONNECT_PROTOCOL if value == 0 && self.extended_connect => {
                return Err(ErrorCode::Protocol);
            }
            ENABLE_CONNECT_PROTOCOL => self.extended_connect = value == 1,
            INITIAL_WINDOW_SIZE if value > MAX_WINDOW => return Err(ErrorCode::FlowControl),
            INITIAL_WINDOW_SIZE => self.initial_window = value,
            MAX_FRAME_SIZE if !(DEFAULT_MAX_PAYLOAD..=MAX_PAYLOAD).contains(&value) => {
                return Err(ErrorCode::Protocol);
            }
            MAX_FRAME_SIZE => self.max_payload = value,
            _ => {}
        }
        Ok(())
    }
}

/// Appends a SETTINGS frame with these entries.
pub(crate) fn write(out: &mut Vec<u8>, entries: &[(u16, u32)]) {
    frame::write_header(out, entries.len() * ENTRY, 4, 0, 0);
    for (identifier, value) in entries {
        out.extend_from_slice(&identifier.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Appends the acknowledgement of the peer's SETTINGS.
pub(crate) fn write_acknowledgement(out: &mut Vec<u8>) {
    frame::write_header(out, 0, 4, frame::ACK, 0);
}
