//! The status codes of DISCONNECT frames.

/// A status code of the specification (SPOE.txt, 3.5). Agents may use others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusCode {
    /// The end of a connection without an error.
    Normal = 0,
    Io = 1,
    Timeout = 2,
    /// A frame is larger than the negotiated size.
    FrameTooBig = 3,
    /// A frame is malformed, or not valid at its moment.
    InvalidFrame = 4,
    VersionMissing = 5,
    FrameSizeMissing = 6,
    CapabilitiesMissing = 7,
    UnsupportedVersion = 8,
    /// A `max-frame-size` below 256, or above the offered one.
    InvalidFrameSize = 9,
    /// A frame without the FIN flag.
    Fragmentation = 10,
    InterlacedFrames = 11,
    /// An ACK frame with IDs that do not belong to a NOTIFY frame.
    FrameIdNotFound = 12,
    Resources = 13,
    Unknown = 99,
}

impl StatusCode {
    /// The text for the `message` of a DISCONNECT frame, as HAProxy's. That of [`StatusCode::Fragmentation`] is HAProxy 2.6's.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            StatusCode::Normal => "normal",
            StatusCode::Io => "I/O error",
            StatusCode::Timeout => "a timeout occurred",
            StatusCode::FrameTooBig => "frame is too big",
            StatusCode::InvalidFrame => "invalid frame received",
            StatusCode::VersionMissing => "version value not found",
            StatusCode::FrameSizeMissing => "max-frame-size value not found",
            StatusCode::CapabilitiesMissing => "capabilities value not found",
            StatusCode::UnsupportedVersion => "unsupported version",
            StatusCode::InvalidFrameSize => "max-frame-size too big or too small",
            StatusCode::Fragmentation => "fragmentation not supported",
            StatusCode::InterlacedFrames => "invalid interlaced frames",
            StatusCode::FrameIdNotFound => "frame-id not found",
            StatusCode::Resources => "resource allocation error",
            StatusCode::Unknown => "an unknown error occurred",
        }
    }

    /// The code on the wire.
    #[must_use]
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The code with this number. `None` for a number that an agent has defined.
    #[must_use]
    pub fn of_number(number: u32) -> Option<StatusCode> {
        const ALL: [StatusCode; 15] = [
            StatusCode::Normal,
            StatusCode::Io,
            StatusCode::Timeout,
            StatusCode::FrameTooBig,
            StatusCode::InvalidFrame,
            StatusCode::VersionMissing,
            StatusCode::FrameSizeMissing,
            StatusCode::CapabilitiesMissing,
            StatusCode::UnsupportedVersion,
            StatusCode::InvalidFrameSize,
            StatusCode::Fragmentation,
            StatusCode::InterlacedFrames,
            StatusCode::FrameIdNotFound,
            StatusCode::Resources,
            StatusCode::Unknown,
        ];
        ALL.into_iter().find(|code| code.number() == number)
    }
}
