//! The result of a request: a response or a failure.

use std::fmt;

use weir_mux::Message;
use weir_net::ConnectionFault;
use weir_tls::Why;

/// A response with its body.
#[derive(Debug)]
pub struct HttpAnswer {
    pub head: Message,
    /// The whole body, unless the request [accepts a part](crate::AnswerLimits::accepts_part).
    pub body: Vec<u8>,
}

impl HttpAnswer {
    /// The value of a header field. The first one if there are several.
    pub fn field<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.head.head.find(self.head.bytes(), name, 1)
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// The host name does not resolve, or the client lacks a [`HostResolution`](crate::HostResolution).
    UnknownHost,
    /// The connection could not be established.
    NoConnection(ConnectionFault),
    /// The connect timed out.
    NoConnectionInTime,
    /// TLS is unavailable: its authorities could not be loaded.
    NoTls,
    Handshake(Why),
    Broken(ConnectionFault),
    /// The server closed before its response was complete.
    Cut,
    /// The response timed out.
    NoAnswerInTime,
    /// The response breaks the protocol.
    Malformed,
    /// The response is too large.
    TooLarge,
    /// The memory of the process is short.
    NoMemory,
}

impl RequestFailure {
    /// Whether the server ended its response early, or was too slow.
    pub(crate) fn is_of_server(self) -> bool {
        !matches!(self, RequestFailure::TooLarge | RequestFailure::NoMemory)
    }

    /// Whether the request cannot have reached a server, so a retry is safe.
    pub(crate) fn is_before_request(self) -> bool {
        matches!(self, RequestFailure::NoConnection(_) | RequestFailure::NoConnectionInTime)
    }
}

impl fmt::Display for RequestFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestFailure::UnknownHost => formatter.write_str("the host's name cannot be resolved"),
            RequestFailure::NoConnection(fault) | RequestFailure::Broken(fault) => {
                write!(formatter, "{fault}")
            }
            RequestFailure::NoConnectionInTime => formatter.write_str("no connection in time"),
            RequestFailure::NoTls => {
                formatter.write_str("TLS is disabled: its authorities could not be loaded")
            }
            RequestFailure::Handshake(_) => formatter.write_str("TLS handshake failure"),
            RequestFailure::Cut => formatter.write_str("the server closed before its answer was whole"),
            RequestFailure::NoAnswerInTime => formatter.write_str("no answer in time"),
            RequestFailure::Malformed => formatter.write_str("the answer is not valid HTTP"),
            RequestFailure::TooLarge => formatter.write_str("the answer is too large"),
            RequestFailure::NoMemory => formatter.write_str("not enough memory for the answer"),
        }
    }
}
