//! Error codes (RFC 9113, 7), and their scope: a stream or the connection.

use std::fmt;

/// Why a stream or a connection ended, as in RST_STREAM and GOAWAY.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum ErrorCode {
    NoError = 0,
    /// The peer violated the protocol.
    Protocol = 1,
    Internal = 2,
    /// The peer sent more than a window admits.
    FlowControl = 3,
    /// SETTINGS were not acknowledged in time.
    SettingsTimeout = 4,
    /// A frame on a stream that is closed for receiving.
    StreamClosed = 5,
    /// A frame of a wrong size.
    FrameSize = 6,
    /// The stream was not processed: the request may be retried.
    RefusedStream = 7,
    /// The stream is not needed any more.
    Cancel = 8,
    /// A header block that cannot be decoded.
    Compression = 9,
    /// A tunnel's connection failed.
    Connect = 10,
    /// The peer causes excessive load.
    EnhanceYourCalm = 11,
    /// The transport is not safe enough.
    InadequateSecurity = 12,
    /// The request must be sent over HTTP/1.1.
    Http11Required = 13,
}

impl ErrorCode {
    /// The code of a number on the wire. Unknown numbers count as INTERNAL_ERROR (RFC 9113, 7).
    pub fn from_wire(number: u32) -> ErrorCode {
        use ErrorCode::*;
        const ALL: [ErrorCode; 14] = [
            NoError,
            Protocol,
            Internal,
            FlowControl,
            SettingsTimeout,
            StreamClosed,
            FrameSize,
            RefusedStream,
            Cancel,
            Compression,
            Connect,
            EnhanceYourCalm,
            InadequateSecurity,
            Http11Required,
        ];
        ALL.get(number as usize).copied().unwrap_or(Internal)
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorCode::NoError => "NO_ERROR",
            ErrorCode::Protocol => "PROTOCOL_ERROR",
            ErrorCode::Internal => "INTERNAL_ERROR",
            ErrorCode::FlowControl => "FLOW_CONTROL_ERROR",
            ErrorCode::SettingsTimeout => "SETTINGS_TIMEOUT",
            ErrorCode::StreamClosed => "STREAM_CLOSED",
            ErrorCode::FrameSize => "FRAME_SIZE_ERROR",
            ErrorCode::RefusedStream => "REFUSED_STREAM",
            ErrorCode::Cancel => "CANCEL",
            ErrorCode::Compression => "COMPRESSION_ERROR",
            ErrorCode::Connect => "CONNECT_ERROR",
            ErrorCode::EnhanceYourCalm => "ENHANCE_YOUR_CALM",
            ErrorCode::InadequateSecurity => "INADEQUATE_SECURITY",
            ErrorCode::Http11Required => "HTTP_1_1_REQUIRED",
        })
    }
}

/// The scope of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Connection(ErrorCode),
    Stream(u32, ErrorCode),
}
