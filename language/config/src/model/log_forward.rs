//! `log-forward`: syslog in, log targets out.

use std::sync::Arc;
use std::time::Duration;

use super::{Bind, Location, LogTarget};

/// A `log-forward` section.
#[derive(Clone, Debug)]
pub struct LogForward {
    /// Its name.
    pub name: Arc<str>,
    /// Where it was written.
    pub at: Location,
    /// `bind`: where senders connect.
    pub binds: Vec<Bind>,
    /// `dgram-bind`: where datagrams arrive.
    pub datagram_binds: Vec<Bind>,
    /// `backlog`: how many connections may wait to be accepted.
    pub backlog: Option<u32>,
    /// `maxconn`: how many connections there are at once; none for as many as the process has.
    pub maxconn: Option<u32>,
    /// `timeout client`: how long a sender may say nothing.
    pub client_timeout: Option<Duration>,
    /// `log global`: the targets of the global section too.
    pub global: bool,
    /// `log <target>`.
    pub targets: Vec<Arc<LogTarget>>,
    /// `option dont-parse-log`: messages are text, whatever they begin with.
    pub unparsed: bool,
    /// `option assume-rfc6587-ntf`: a message of a connection is a line, whatever it begins with.
    pub lines_only: bool,
    /// `option host`: what is said about the host that a message is from.
    pub host: HostStrategy,
}

impl LogForward {
    /// How many connections there are at once until `maxconn` says (manual, "Log forwarding").
    pub const MAXCONN: u32 = 10;

    /// A section with nothing said.
    pub fn new(name: &str, at: Location) -> Self {
        LogForward {
            name: name.into(),
            at,
            binds: Vec::new(),
            datagram_binds: Vec::new(),
            backlog: None,
            maxconn: Some(Self::MAXCONN),
            client_timeout: None,
            global: false,
            targets: Vec::new(),
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

/// Which host a message is said to be from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostStrategy {
    /// The sender's address, whatever the message says.
    Replace,
    /// What the message says, else the sender's address.
    #[default]
    Fill,
    /// What the message says.
    Keep,
    /// What the message says, a comma, and the sender's address.
    Append,
}
