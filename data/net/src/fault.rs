//! Why a connection carries nothing any more.

use std::fmt;

use weir_sys::Errno;
use weir_tls::{Failure, Why};

/// What broke a connection, or keeps it from standing. Rules about retries, termination codes and traces speak of these, not
/// of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The socket says so.
    Io(Errno),
    /// There is no memory for what it carries, here or in the kernel.
    Shortage,
    /// The SOCKS4 proxy went away before it had answered.
    SocksAborted,
    /// The SOCKS4 proxy refused to connect, with this code.
    SocksRefused(u8),
    /// There is no TLS session, or none any more.
    Tls(Why),
    /// The peer did not look at the stream: it may be sent again, whatever it asks for (RFC 9113, 8.7).
    Refused,
    /// What the peer sent breaks the protocol.
    Protocol,
}

impl Fault {
    /// Whether this process or its kernel lacks something, and not the peer.
    pub fn is_ours(self) -> bool {
        matches!(self, Fault::Shortage | Fault::Io(Errno::MFILE | Errno::NFILE | Errno::ADDRNOTAVAIL))
    }

    /// Whether the SOCKS4 proxy is to blame, which is there, and not the server behind it.
    pub fn is_of_proxy(self) -> bool {
        matches!(self, Fault::SocksAborted | Fault::SocksRefused(_))
    }

    /// Whether no descriptor is left for it.
    pub fn is_lack_of_descriptors(self) -> bool {
        matches!(self, Fault::Io(Errno::MFILE | Errno::NFILE))
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::NOBUFS | Errno::NOMEM => Fault::Shortage,
            errno => Fault::Io(errno),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Io(errno) => write!(f, "{errno}"),
            Fault::Shortage => f.write_str("no memory for it"),
            Fault::SocksAborted => f.write_str("the SOCKS4 proxy did not answer"),
            Fault::Refused => f.write_str("the peer refused the stream"),
            Fault::Protocol => f.write_str("the peer broke the protocol"),
            Fault::Tls(why) => write!(f, "{}", Failure::because(*why)),
            Fault::SocksRefused(code) => write!(f, "the SOCKS4 proxy refused ({code})"),
        }
    }
}

// A connection keeps two, and an idle client keeps a connection.
const _: () = assert!(size_of::<Option<Fault>>() <= 2 * size_of::<Option<Errno>>());
