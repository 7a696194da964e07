//! `log-forward`: syslog in, log targets out.

use std::sync::Arc;
use std::time::Duration;

use weir_fingerprint::Canonical;

use super::bind;
use super::{Bind, Location, LogTargets};

/// A `log-forward` section.
#[derive(Clone, Debug, Canonical)]
pub struct LogForward {
    pub name: Arc<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `bind`: listeners for connections of senders.
    #[canonical(with = bind::encode_labels)]
    pub binds: Vec<Bind>,
    /// `dgram-bind`: sockets for datagrams of senders.
    #[canonical(with = bind::encode_labels)]
    pub datagram_binds: Vec<Bind>,
    /// `backlog`: length of the accept queue.
    pub backlog: Option<u32>,
    /// `maxconn`: concurrent connections. None for the limit of the process.
    pub maxconn: Option<u32>,
    /// `timeout client`: idle timeout of a sender.
    pub client_timeout: Option<Duration>,
    /// `log`: the targets.
    pub targets: LogTargets,
    /// `option dont-parse-log`: messages are not parsed.
    pub unparsed: bool,
    /// `option assume-rfc6587-ntf`: on a connection, each line is a message, even if it begins with a length.
    pub lines_only: bool,
    /// `option host`: the host name in forwarded messages.
    pub host: HostStrategy,
}

impl LogForward {
    /// The default of `maxconn` (manual, "Log forwarding").
    pub const MAXCONN: u32 = 10;

    /// A section with default settings.
    pub fn new(name: &str, at: Location) -> Self {
        LogForward {
            name: name.into(),
            at,
            binds: Vec::new(),
            datagram_binds: Vec::new(),
            backlog: None,
            maxconn: Some(Self::MAXCONN),
            client_timeout: None,
            targets: LogTargets::default(),
            unparsed: false,
            lines_only: false,
            host: HostStrategy::default(),
        }
    }

    /// The `bind` and `dgram-bind` lines.
    pub fn all_binds(&self) -> impl Iterator<Item = &Bind> {
        self.binds.iter().chain(&self.datagram_binds)
    }
}

/// The host name in a forwarded message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum HostStrategy {
    /// The sender's address.
    Replace,
    /// The host name of the message. Without one, the sender's address.
    #[default]
    Fill,
    Keep,
    /// The host name of the message, a comma, and the sender's address.
    Append,
}
