//! Rings: buffers of events that logs and traces go to, and the servers that they are forwarded to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::{Location, LogHeader, ServerAddress, ServerSettings};

/// A `ring` section.
#[derive(Clone, Debug)]
pub struct Ring {
    /// What `ring@` names it by.
    pub name: Arc<str>,
    /// Where it was written.
    pub at: Location,
    /// `description`; the name until given.
    pub description: Arc<str>,
    /// `format`: what precedes messages whose `log` line does not say; [`LogHeader::Local`] until given.
    pub header: Option<LogHeader>,
    /// `maxlen`: longer messages are cut.
    pub length_max: u32,
    /// `size`, in bytes.
    pub size: u64,
    /// `backing-file`: the file that it is kept in.
    pub file: Option<PathBuf>,
    /// `timeout connect`.
    pub connect_timeout: Option<Duration>,
    /// `timeout server`: how long a server may take nothing.
    pub server_timeout: Option<Duration>,
    /// The servers that get a copy.
    pub servers: Vec<RingServer>,
}

impl Ring {
    /// The smallest size, and the size of a ring that does not say.
    pub const SIZE: u64 = 16_384;
    /// The largest size: half of what a process can address. Whether there is so much memory is the kernel's to say.
    pub const SIZE_MAX: u64 = 1 << 46;
    /// How long messages may be until `maxlen` says.
    pub const LENGTH: u32 = 1024;

    /// A ring with nothing said.
    pub fn new(name: &str, at: Location) -> Self {
        Ring {
            name: name.into(),
            at,
            description: name.into(),
            header: None,
            length_max: Self::LENGTH,
            size: Self::SIZE,
            file: None,
            connect_timeout: None,
            server_timeout: None,
            servers: Vec::new(),
        }
    }
}

/// A server that a ring is forwarded to.
#[derive(Clone, Debug)]
pub struct RingServer {
    /// Its name.
    pub name: Arc<str>,
    /// Where it is.
    pub address: ServerAddress,
    /// What else its line says, `log-proto` among it. What concerns streams has no effect.
    pub settings: ServerSettings,
}

/// How messages are told from one another on a connection (RFC 6587).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// Each ends with a newline.
    #[default]
    Legacy,
    /// Each begins with its length.
    OctetCount,
}

/// A line of a `traces` section: the words of a `trace` command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    /// Where it was written.
    pub at: Location,
    /// What follows `trace`.
    pub words: Vec<Box<str>>,
}
