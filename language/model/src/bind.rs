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
    /// Where it was written.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// The address word as written: the name of an unnamed listener in `show stat` and logs.
    #[canonical(skip = "the addresses have the meaning")]
    pub spelling: Box<str>,
    /// The addresses of the comma-separated list.
    pub addresses: Vec<ListenAddress>,
    /// `name`, or none.
    pub name: Option<Box<str>>,
    /// `id`: the first listener's identifier; the others follow on.
    pub id: Option<u32>,
    /// Everything else.
    #[canonical(flat)]
    pub options: BindOptions,
}

impl Bind {
    /// The label that identifies it in its section: its name, or its address word.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.spelling)
    }
}

/// The words that may follow the addresses, also on `stats socket`.
#[derive(Clone, Debug, Default, Canonical)]
pub struct BindOptions {
    /// `maxconn`: how many connections each listener holds; none for no limit of its own.
    pub maxconn: Option<u32>,
    /// `backlog`: the accept queue's length, before the frontend's own `backlog`.
    pub backlog: Option<u32>,
    /// `accept-proxy`: every connection begins with a PROXY protocol header.
    pub accept_proxy: bool,
    /// `interface`: only packets that come through it.
    pub interface: Option<Box<str>>,
    /// `mss`: the segment size to announce; negative to reduce the natural one.
    pub mss: Option<i32>,
    /// `tfo`: TCP Fast Open.
    pub tcp_fast_open: bool,
    /// `defer-accept`: accept only once data came.
    pub defer_accept: bool,
    /// `idle-ping`: how often an idle HTTP/2 client is pinged; none for never.
    pub idle_ping: Option<Duration>,
    /// `nice`: the priority of the streams, from -1024 (soonest) to 1024.
    pub nice: i16,
    /// `transparent`: bind to foreign addresses.
    pub transparent: bool,
    /// `v4v6` or `v6only`: whether an IPv6 listener accepts IPv4 too; none for the system's default.
    pub v4v6: Option<bool>,
    /// Owner and mode of a unix socket.
    pub ownership: SocketOwnership,
    /// `shards`: into how many sockets each listener splits; none for `tune.listener.default-shards`.
    pub shards: Option<Shards>,
    /// `level`: the permissions of runtime API clients on this socket.
    pub level: Option<Level>,
    /// `severity-output`: how the runtime API marks the severity of its messages.
    pub severity_output: SeverityOutput,
    /// `expose-fd listeners`: pass the listening sockets to a client on request (`-x`).
    pub expose_listeners: bool,
    /// `proto`: the protocol to speak, when forced.
    pub protocol: Option<Protocol>,
    /// `tcp-ut`: how long sent data may stay unacknowledged.
    pub tcp_user_timeout: Option<Duration>,
    /// `thread`: the workers that accept; none for all.
    pub threads: Option<ThreadSet>,
    /// `ssl` and all that goes with it.
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

/// Into how many sockets a listener splits.
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
    /// Read everything, make safe changes.
    Operator,
    Admin,
}

/// How the runtime API marks the severity of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum SeverityOutput {
    /// Not at all.
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
    /// Inclusive ranges of threads, counted from 1, with the group each is relative to, if one was given.
    Ranges(Vec<ThreadRange>),
}

impl ThreadSet {
    /// Whether one of its threads exists, with `threads` threads in the only group.
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
    /// The thread group, counted from 1; none when threads are counted across groups.
    pub group: Option<u16>,
    /// The first thread, counted from 1.
    pub first: u16,
    pub last: u16,
}

/// Lines count where they are objects; here which ones there are.
pub(super) fn encode_labels(binds: &[Bind], out: &mut FormEncoder<'_>) {
    out.set(binds.iter().map(Bind::label));
}

pub(super) fn encode_label(bind: &Option<Bind>, out: &mut FormEncoder<'_>) {
    bind.as_ref().map(Bind::label).encode(out);
}
