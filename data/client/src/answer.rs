//! What comes of a request.

use std::fmt;

use weir_mux::Message;
use weir_net::Fault;
use weir_tls::Why;

/// What came.
#[derive(Debug)]
pub struct Answer {
    /// The head.
    pub head: Message,
    /// The body, decoded.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a field; the first one if there are several.
    pub fn field<'a>(&'a self, name: &'a [u8]) -> Option<&'a [u8]> {
        self.head.head.find(self.head.bytes(), name, 1)
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The host has no address, or nobody is asked for it.
    UnknownHost,
    /// No connection came to stand.
    NoConnection(Fault),
    /// It took too long.
    NoConnectionInTime,
    /// TLS cannot be spoken: its authorities could not be loaded.
    NoTls,
    /// The handshake failed.
    Handshake(Why),
    /// The connection broke.
    Broken(Fault),
    /// The server closed before its answer was whole.
    Cut,
    /// The answer took too long.
    NoAnswerInTime,
    /// The answer breaks the protocol.
    Malformed,
    /// The answer is too large.
    TooLarge,
}

impl Failure {
    /// Whether nothing of the request can have reached anybody.
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
