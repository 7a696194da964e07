//! Faults of connections.

use std::fmt;

use weir_sys::Errno;
use weir_tls::SessionFailure;

/// The reason why a connection broke or could not be opened. Retry rules, termination codes and traces use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionFault {
    /// An error of the socket.
    Io(Errno),
    /// Memory is short, here or in the kernel.
    Shortage,
    /// The SOCKS4 proxy closed the connection before it answered.
    SocksAborted,
    /// The SOCKS4 proxy refused to connect, with this code.
    SocksRefused(u8),
    /// The TLS session failed or was never established.
    Tls(SessionFailure),
    /// The peer did not process the stream. Any request may be retried (RFC 9113, 8.7).
    Refused,
    /// The peer violated the protocol.
    Protocol,
}

impl ConnectionFault {
    /// Whether the cause is a lack of resources in this process or its kernel.
    pub fn is_ours(self) -> bool {
        matches!(
            self,
            ConnectionFault::Shortage
                | ConnectionFault::Io(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL)
        )
    }

    /// Whether the cause is the SOCKS4 proxy, not the server behind it.
    pub fn is_of_proxy(self) -> bool {
        matches!(self, ConnectionFault::SocksAborted | ConnectionFault::SocksRefused(_))
    }

    /// Whether descriptors or memory are short, which closing an idle connection would free.
    pub fn is_lack_of_room(self) -> bool {
        self.is_lack_of_descriptors() || self == ConnectionFault::Shortage
    }

    /// Whether no descriptor is left.
    pub fn is_lack_of_descriptors(self) -> bool {
        matches!(self, ConnectionFault::Io(Errno::MFILE | Errno::NFILE))
    }
}

impl From<Errno> for ConnectionFault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOBUFS | Errno::NOMEM => ConnectionFault::Shortage,
            errno => ConnectionFault::Io(errno),
        }
    }
}

impl fmt::Display for ConnectionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectionFault::Io(errno) => f.write_str(&weir_sys::error_text(errno)),
            ConnectionFault::Shortage => f.write_str("no memory for it"),
            ConnectionFault::SocksAborted => f.write_str("the SOCKS4 proxy did not answer"),
            ConnectionFault::Refused => f.write_str("the peer refused the stream"),
            ConnectionFault::Protocol => f.write_str("the peer broke the protocol"),
            ConnectionFault::Tls(failure) => write!(f, "{failure}"),
            ConnectionFault::SocksRefused(code) => write!(f, "the SOCKS4 proxy refused ({code})"),
        }
    }
}

// Each connection stores two faults, and each idle client a connection.
const _: () = assert!(size_of::<Option<ConnectionFault>>() <= 2 * size_of::<Option<Errno>>());
