//! The `bind` line: where a frontend listens, and how.

use std::time::Duration;

use weir_expr::Location;
use weir_fingerprint::{Canonical, FormEncoder};

use super::address::ListenAddress;
use super::protocol::Protocol;
use super::tls::BindTls;

/// One `bind` line. It makes one listener for each port of each of its addresses.
#[derive(Clone, Debug, Canonical)]
pub struct Bind {
    /// Location of the line.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The address word as written: the name of an unnamed listener in `show stat` and logs.
    #[canonical(skip = "the addresses have the meaning")]
    pub spelling: Box<str>,
    /// The addresses of the comma-separated list.
    pub addresses: Vec<ListenAddress>,
    /// `name`, or none.
    pub name: Option<Box<str>>,
    /// `id`: identifier of the first listener. Further listeners count up from it.
    pub id: Option<u32>,
    /// All other words of the line.
    #[canonical(flat)]
    pub options: BindOptions,
}

impl Bind {
    /// The label of the line within its section: `name`, or the address word.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.spelling)
    }
}

/// The words that may follow the addresses, also on `stats socket`.
#[derive(Clone, Debug, Default, Canonical)]
pub struct BindOptions {
    /// `maxconn`: concurrent connections of each listener. None without a limit for the listener.
    pub maxconn: Option<u32>,
    /// `backlog`: length of the accept queue. Overrides the frontend's `backlog`.
    pub backlog: Option<u32>,
    /// `accept-proxy`: every connection begins with a PROXY protocol header.
    pub accept_proxy: bool,
    /// `interface`: accept only packets of this network interface.
    pub interface: Option<Box<str>>,
    /// `mss`: the TCP segment size to announce. A negative value is subtracted from the system's.
    pub mss: Option<i32>,
    /// `tfo`: TCP Fast Open.
    pub tcp_fast_open: bool,
    /// `defer-accept`: accept a connection only after its first data arrived.
    pub defer_accept: bool,
    /// `idle-ping`: interval of pings on an idle HTTP/2 connection. None for no pings.
    pub idle_ping: Option<Duration>,
    /// `nice`: the priority of the streams, from -1024 (soonest) to 1024.
    pub nice: i16,
    /// `transparent`: bind to foreign addresses.
    pub transparent: bool,
    /// `v4v6` or `v6only`: whether an IPv6 listener accepts IPv4 too; none for the system's default.
    pub v4v6: Option<bool>,
    /// Owner and mode of a unix socket.
    pub ownership: SocketOwnership,
    /// `shards`: number of sockets for each listener. None for `tune.listener.default-shards`.
    pub shards: Option<Shards>,
    /// `level`: the permissions of runtime API clients on this socket.
    pub level: Option<Level>,
    /// `severity-output`: how the runtime API marks the severity of its messages.
    pub severity_output: SeverityOutput,
    /// `expose-fd listeners`: pass the listening sockets to a client on request (`-x`).
    pub expose_listeners: bool,
    /// `proto`: the forced protocol.
    pub protocol: Option<Protocol>,
    /// `tcp-ut`: how long sent data may stay unacknowledged.
    pub tcp_user_timeout: Option<Duration>,
    /// `thread`: the workers that accept connections. None for all.
    pub threads: Option<ThreadSet>,
    /// `ssl` and the words that belong to it.
    #[canonical(flat)]
    pub tls: Option<Box<BindTls>>,
}

/// Owner and permissions of a unix socket: `user`/`uid`, `group`/`gid`, `mode`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct SocketOwnership {
    pub user: Option<Account>,
    pub group: Option<Account>,
    pub mode: Option<u32>,
}

/// A user or a group, by number or by a name to look up.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum Account {
    /// `uid 33`.
    Id(u32),
    /// `user www-data`.
    Name(Box<str>),
}

/// Number of sockets of one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum Shards {
    Count(u32),
    /// One for each worker thread.
    ByThread,
    /// One for each thread group.
    ByGroup,
}

/// The permissions of a runtime API client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Canonical)]
pub enum Level {
    User,
    /// May read everything and make safe changes.
    Operator,
    Admin,
}

/// How the runtime API marks the severity of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum SeverityOutput {
    /// The severity is omitted.
    #[default]
    None,
    /// `[3]:`.
    Number,
    /// `[err]:`.
    String,
}

/// The worker threads of a `thread` word.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub enum ThreadSet {
    /// `all`.
    All,
    /// `odd`.
    Odd,
    /// `even`.
    Even,
    /// Inclusive ranges of thread numbers, from 1. A range may be relative to a thread group.
    Ranges(Vec<ThreadRange>),
}

impl ThreadSet {
    /// Whether the set contains an existing thread, if the only thread group has `threads` threads.
    pub fn reaches(&self, threads: u16) -> bool {
        match self {
            ThreadSet::All | ThreadSet::Odd => true,
            ThreadSet::Even => threads >= 2,
            ThreadSet::Ranges(ranges) => ranges
                .iter()
                .any(|range| range.first <= threads && range.group.is_none_or(|group| group == 1)),
        }
    }
}

/// One element of a thread list: `1-4`, `2/1-4`, `2/all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub struct ThreadRange {
    /// The thread group, from 1. None if threads are counted across groups.
    pub group: Option<u16>,
    /// The first thread, counted from 1.
    pub first: u16,
    pub last: u16,
}

/// Encodes only the labels: each line is an object with a fingerprint of its own.
pub(super) fn encode_labels(binds: &[Bind], out: &mut FormEncoder<'_>) {
    out.set(binds.iter().map(Bind::label));
}

pub(super) fn encode_label(bind: &Option<Bind>, out: &mut FormEncoder<'_>) {
    bind.as_ref().map(Bind::label).encode(out);
}
