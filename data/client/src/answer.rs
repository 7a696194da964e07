//! The result of a request: a response or a failure.

use std::fmt;

use weir_mux::Message;
use weir_net::Fault;
use weir_tls::Why;

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub head: Message,
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a field; the first one if there are several.
    pub fn field<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.head.head.find(self.head.bytes(), name, 1)
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host name does not resolve, or the client lacks a [`Naming`](crate::Naming).
    UnknownHost,
    /// The connection could not be established.
    NoConnection(Fault),
    /// The connect timed out.
    NoConnectionInTime,
    /// TLS is unavailable: its authorities could not be loaded.
    NoTls,
    Handshake(Why),
    Broken(Fault),
    /// The server closed before its response was complete.
    Cut,
    /// The response timed out.
    NoAnswerInTime,
    /// The response breaks the protocol.
    Malformed,
    /// The response is too large.
    TooLarge,
}

impl Failure {
    /// Whether the request cannot have reached a server, so a retry is safe.
    pub(crate) fn is_before_request(self) -> bool {
        matches!(self, Failure::NoConnection(_) | Failure::NoConnectionInTime)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::UnknownHost => formatter.write_str("the host's name cannot be resolved"),
            Failure::NoConnection(fault) | Failure::Broken(fault) => write!(formatter, "{fault}"),
            Failure::NoConnectionInTime => formatter.write_str("no connection in time"),
            Failure::NoTls => formatter.write_str("TLS is disabled: its authorities could not be loaded"),
            Failure::Handshake(_) => formatter.write_str("TLS handshake failure"),
            Failure::Cut => formatter.write_str("the server closed before its answer was whole"),
            Failure::NoAnswerInTime => formatter.write_str("no answer in time"),
            Failure::Malformed => formatter.write_str("the answer is not valid HTTP"),
            Failure::TooLarge => formatter.write_str("the answer is too large"),
        }
    }
}
