//! What a check shall be, as plain values that somebody else fills.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_backend::{Backend, CheckKind, Server, ServerAddress, ServerKey};
use weir_net::{ConnectOptions, ConnectPlan, Source, SourceAddress, Target};
use weir_sys::Address;
use weir_tls::LiveUpstream;

use crate::launcher::Launcher;
use crate::schedule::Intervals;
use crate::script::Script;

/// One check of one server.
#[derive(Clone, Debug)]
pub struct CheckPlan {
    /// The server's backend.
    pub backend: Arc<Backend>,
    /// The server.
    pub server: ServerKey,
    /// Which of its checks.
    pub kind: CheckKind,
    /// How often.
    pub intervals: Intervals,
    /// How long it may take.
    pub timings: Timings,
    /// How it connects. Servers of one kind share it.
    pub dial: Arc<Dial>,
    /// `agent-send`: what the agent is told.
    pub agent_send: Option<Arc<[u8]>>,
    /// How it uses the server's idle connections, if it does. Only HTTP checks do.
    pub reuse: Option<ReusePlan>,
    /// What it says; none where it only connects.
    pub script: Option<Arc<Script>>,
    /// The program that checks instead.
    pub program: Option<Arc<ProgramPlan>>,
}

/// How a check uses the idle connections of its server's traffic (`check-reuse-pool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReusePlan {
    /// Which ones: the key that they have in their pool.
    pub key: u64,
    /// A connection that the check opened is like one of the traffic, and is left to it.
    pub leaves_own: bool,
}

/// A program that checks a server, and what it is told whatever happens.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// Who starts it.
    pub launcher: Arc<Launcher>,
    /// `external-check command`.
    pub command: Arc<str>,
    /// `external-check path`; empty where it is not said.
    pub path: Arc<str>,
    /// The number of the proxy.
    pub proxy_id: u32,
    /// The first address that the proxy listens at; none for a backend.
    pub listener: Option<Address>,
    /// Whether the server speaks TLS.
    pub tls: bool,
    /// What the server speaks: `h1`, `h2`, `tcp`, `syslog`.
    pub protocol: &'static str,
}

/// How long a check may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// `timeout connect`, in milliseconds; none for no bound but the interval.
    pub connect_ms: Option<u64>,
    /// `timeout check`, in milliseconds: after the connection stands. Without it, the interval is for all.
    pub check_ms: Option<u64>,
}

/// How a check connects.
#[derive(Clone, Debug, Default)]
pub struct Dial {
    /// `addr`: elsewhere than the server's own address.
    pub address: Option<IpAddr>,
    /// `port`: elsewhere than the server's own port.
    pub port: Option<u16>,
    /// The SOCKS4 proxy that connects for us.
    pub socks4: Option<SocketAddr>,
    /// The one that the server's line names, for rules that ask for it.
    pub server_socks4: Option<SocketAddr>,
    /// Where connections come from.
    pub source: OwnedSource,
    /// What the kernel is told.
    pub options: ConnectOptions,
    /// The PROXY header that connections begin with.
    pub greets: Greets,
    /// TLS, where some connections speak it.
    pub tls: Option<CheckTls>,
}

/// How checks of a server speak TLS.
#[derive(Clone, Debug)]
pub struct CheckTls {
    /// What connections to the server need.
    pub upstream: Arc<LiveUpstream>,
    /// Whether connections speak it that no rule says otherwise of.
    pub is_usual: bool,
    /// `check-sni`: the name that those ask for.
    pub server_name: Option<Arc<str>>,
    /// `check-alpn`: what those offer; none for what the server's line says.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// Connections that ask for no name ask for that of the request's `Host`.
    pub takes_host: bool,
}

/// A [`Source`] that borrows from nobody.
#[derive(Clone, Debug, Default)]
pub struct OwnedSource {
    /// The interface that connections leave through.
    pub interface: Option<Box<str>>,
    /// Where they come from.
    pub address: SourceAddress,
}

/// Which PROXY header connections begin with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greets {
    /// None.
    #[default]
    No,
    /// Of version 1, with the connection's own ends.
    V1,
    /// Of version 2, which says that nobody is behind it.
    V2,
}

impl Dial {
    /// Where a check of a server goes; none where there is nothing to connect to.
    pub(crate) fn target(&self, server: &Server) -> Option<Target> {
        let own = server.address();
        Some(match (self.address, &*own) {
            (Some(ip), ServerAddress::Ip(own)) => inet(ip, self.port.unwrap_or(own.port()))?,
            (Some(ip), _) => inet(ip, self.port?)?,
            (None, ServerAddress::Ip(own)) => inet(own.ip(), self.port.unwrap_or(own.port()))?,
            (None, ServerAddress::Unix(path)) => Target::Address(Address::Unix(path.clone())),
            (None, ServerAddress::Abstract(name)) => Target::Address(Address::Abstract(name.clone().into())),
            (None, ServerAddress::Pair(number)) => Target::Pair(*number),
            (None, ServerAddress::Unknown) => return None,
        })
    }

    /// A plan to connect there. `turn` chooses the first port of a range that is tried.
    pub(crate) fn connect_plan(&self, target: Target, turn: u32) -> ConnectPlan<'_> {
        let address = match self.source.address {
            SourceAddress::Ports { ip, first, last, .. } => SourceAddress::Ports { ip, first, last, turn },
            other => other,
        };
        ConnectPlan {
            socks4: self.socks4,
            source: Source { interface: self.source.interface.as_deref(), address },
            options: self.options,
            ..ConnectPlan::to(target)
        }
    }
}

/// Port 0 is nowhere.
fn inet(ip: IpAddr, port: u16) -> Option<Target> {
    (port > 0).then(|| Target::Address(Address::Inet(SocketAddr::new(ip, port))))
}
