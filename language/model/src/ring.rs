//! Rings: buffers of events that logs and traces go to, and the servers that they are forwarded to.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use weir_fingerprint::{Canonical, unordered};

use super::{Location, LogHeader, ServerAddress, ServerSettings};

/// A `ring` section.
#[derive(Clone, Debug, Canonical)]
pub struct Ring {
    /// Its name, for `ring@`.
    pub name: Arc<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `description`. The ring's name if not set.
    pub description: Arc<str>,
    /// `format`: the header for messages of `log` lines without a format. None for [`LogHeader::Local`].
    pub header: Option<LogHeader>,
    /// `maxlen`: longest message in bytes. Longer ones are cut.
    pub length_max: u32,
    /// `size`, in bytes.
    pub size: u64,
    /// `backing-file`: the file that stores the ring.
    pub file: Option<PathBuf>,
    /// `timeout connect`.
    pub connect_timeout: Option<Duration>,
    /// `timeout server`: time without a byte accepted by a server.
    pub server_timeout: Option<Duration>,
    /// The servers that get a copy of each event.
    #[canonical(with = unordered)]
    pub servers: Vec<RingServer>,
}

impl Ring {
    /// The smallest and the default size in bytes.
    pub const SIZE: u64 = 16_384;
    /// The largest size: half of a process's address space. The allocation itself may still fail.
    pub const SIZE_MAX: u64 = 1 << 46;
    /// The default of `maxlen` in bytes.
    pub const LENGTH: u32 = 1024;

    /// A ring with default settings.
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
#[derive(Clone, Debug, Canonical)]
pub struct RingServer {
    pub name: Arc<str>,
    pub address: ServerAddress,
    /// The other settings of the server's line, such as `log-proto`. Stream settings are ignored.
    pub settings: ServerSettings,
}

/// A line of a `traces` section: the words of a `trace` command.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct TraceLine {
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The words after `trace`.
    pub words: Vec<Box<str>>,
}
