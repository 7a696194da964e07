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
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `bind`: where senders connect.
    #[canonical(with = bind::encode_labels)]
    pub binds: Vec<Bind>,
    /// `dgram-bind`: where datagrams arrive.
    #[canonical(with = bind::encode_labels)]
    pub datagram_binds: Vec<Bind>,
    /// `backlog`: how many connections may wait to be accepted.
    pub backlog: Option<u32>,
    /// `maxconn`: how many connections there are at once; none for as many as the process has.
    pub maxconn: Option<u32>,
    /// `timeout client`: how long a sender may be silent.
    pub client_timeout: Option<Duration>,
    /// `log`: the targets.
    pub targets: LogTargets,
    /// `option dont-parse-log`: messages are not parsed.
    pub unparsed: bool,
    /// `option assume-rfc6587-ntf`: a message of a connection is a line, whatever it begins with.
    pub lines_only: bool,
    /// `option host`: which host name a forwarded message carries.
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

    /// The lines that make sockets, of either kind.
    pub fn all_binds(&self) -> impl Iterator<Item = &Bind> {
        self.binds.iter().chain(&self.datagram_binds)
    }
}

/// Which host name a forwarded message carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum HostStrategy {
    /// The sender's address, whatever the message says.
    Replace,
    /// The message's own, else the sender's address.
    #[default]
    Fill,
    Keep,
    /// The message's own, a comma, and the sender's address.
    Append,
}
