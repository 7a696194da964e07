//! The settings of a check, as plain values that the caller fills.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use weir_backend::{Backend, CheckKind, Server, ServerAddress, ServerKey};
use weir_model::{Protocol, ProxyV2};
use weir_net::{ConnectOptions, ConnectPlan, ConnectTarget, ConnectionSource, OwnedSource, SourceAddress};
use weir_sys::Address;
use weir_tls::LiveUpstream;

use crate::http2::Http2Bounds;
use crate::launcher::Launcher;
use crate::schedule::Intervals;
use crate::script::Script;

/// One check of one server.
#[derive(Clone, Debug)]
pub struct CheckPlan {
    pub backend: Arc<Backend>,
    pub server: ServerKey,
    /// Which of its checks.
    pub kind: CheckKind,
    pub intervals: Intervals,
    /// How long it may take.
    pub timings: Timings,
    /// How it connects. Servers of one kind share it.
    pub dial: Arc<Dial>,
    /// `agent-send`: the bytes sent to the agent first.
    pub agent_send: Option<Arc<[u8]>>,
    /// How it uses the server's idle connections, if it does. Only HTTP checks do.
    pub reuse: Option<ReusePlan>,
    /// Its dialogue; none where it only connects.
    pub script: Option<Arc<Script>>,
    /// The program to run instead.
    pub program: Option<Arc<ProgramPlan>>,
}

/// How a check uses the idle connections of its server's traffic (`check-reuse-pool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReusePlan {
    /// The key of usable connections in their pool.
    pub key: u64,
    /// Whether a connection opened by the check is like those of the traffic, and is left to it.
    pub leaves_own: bool,
}

/// A program that checks a server, and its constant arguments.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// The thread that starts it.
    pub launcher: Arc<Launcher>,
    /// `external-check command`.
    pub command: Arc<str>,
    /// `external-check path`; empty if not configured.
    pub path: Arc<str>,
    /// The number of the proxy.
    pub proxy_id: u32,
    /// The first address of the proxy's listeners; none for a backend.
    pub listener: Option<Address>,
    /// Whether the server speaks TLS.
    pub tls: bool,
    /// The server's protocol: `h1`, `h2`, `tcp`, `syslog`.
    pub protocol: &'static str,
}

/// How long a check may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// `timeout connect`, in milliseconds; none means that only the interval bounds it.
    pub connect_ms: Option<u64>,
    /// `timeout check`, in milliseconds: counted from the established connection. Without it, the interval bounds the whole check.
    pub check_ms: Option<u64>,
}

/// How a check connects.
#[derive(Clone, Debug, Default)]
pub struct Dial {
    /// `addr`: replaces the server's own address.
    pub address: Option<IpAddr>,
    /// `port`: replaces the server's own port.
    pub port: Option<u16>,
    /// The SOCKS4 proxy to connect through.
    pub socks4: Option<SocketAddr>,
    /// The SOCKS4 proxy of the server's line, for rules with `via-socks4`.
    pub server_socks4: Option<SocketAddr>,
    /// The source address and interface of connections.
    pub source: OwnedSource,
    pub options: ConnectOptions,
    /// The PROXY header that connections begin with.
    pub greets: Greets,
    /// The fields of a header of version 2.
    pub proxy_v2: Option<Arc<ProxyV2>>,
    /// TLS, where some connections speak it.
    pub tls: Option<CheckTls>,
    /// `check-proto`, or the server's `proto`: the protocol of HTTP checks; none means ALPN over TLS, else HTTP/1.
    pub protocol: Option<Protocol>,
    /// Limits of HTTP/2 connections.
    pub http2: Http2Bounds,
}

/// How checks of a server speak TLS.
#[derive(Clone, Debug)]
pub struct CheckTls {
    /// The TLS settings of the server.
    pub upstream: Arc<LiveUpstream>,
    /// Whether connections use TLS by default, without a rule.
    pub is_usual: bool,
    /// `check-sni`: the SNI of those connections.
    pub server_name: Option<Arc<str>>,
    /// `check-alpn`: the protocols that those connections offer; none for the server line's `alpn`.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// Whether connections without a configured SNI use the request's `Host`.
    pub takes_host: bool,
}

/// The PROXY header at the beginning of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greets {
    /// None.
    #[default]
    No,
    /// Version 1, with the connection's own addresses.
    V1,
    /// Version 2, with the LOCAL command: a check is not a client's connection.
    V2,
}

impl Dial {
    /// An `Arc` of this, or `other` if that is equal: servers share equal settings. Those with TLS have their own.
    pub fn shared(self, other: &mut Option<Arc<Dial>>) -> Arc<Dial> {
        match other {
            Some(other) if self.is_like(other) => Arc::clone(other),
            _ => Arc::clone(other.insert(Arc::new(self))),
        }
    }

    fn is_like(&self, other: &Dial) -> bool {
        let Dial {
            address,
            port,
            socks4,
            server_socks4,
            source,
            options,
            greets,
            proxy_v2,
            tls,
            protocol,
            http2,
        } = self;
        let same_fields = match (proxy_v2, &other.proxy_v2) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        };
        (address, port, socks4, server_socks4)
            == (&other.address, &other.port, &other.socks4, &other.server_socks4)
            && (source, options, greets) == (&other.source, &other.options, &other.greets)
            && same_fields
            && (protocol, http2) == (&other.protocol, &other.http2)
            && tls.is_none()
            && other.tls.is_none()
    }

    /// The target of a server's check; none where there is nothing to connect to.
    pub(crate) fn target(&self, server: &Server) -> Option<ConnectTarget> {
        let own = server.address();
        Some(match (self.address, &*own) {
            // A mapping needs a client, so its checks need a port of their own.
            (other, ServerAddress::Inet { ip, port }) => inet(other.or(*ip)?, self.port.or(port.fixed())?)?,
            (Some(ip), _) => inet(ip, self.port?)?,
            (None, ServerAddress::Unix(path)) => ConnectTarget::Address(Address::Unix(path.clone())),
            (None, ServerAddress::Abstract(name)) => {
                ConnectTarget::Address(Address::Abstract(name.clone().into()))
            }
            (None, ServerAddress::Pair(number)) => ConnectTarget::Pair(*number),
        })
    }

    /// A plan to connect there. `turn` selects the first source port of a range to try.
    pub(crate) fn connect_plan(&self, target: ConnectTarget, turn: u32) -> ConnectPlan<'_> {
        let address = match self.source.address {
            SourceAddress::Ports { ip, first, last, .. } => SourceAddress::Ports { ip, first, last, turn },
            other => other,
        };
        ConnectPlan {
            socks4: self.socks4,
            source: ConnectionSource { address, ..self.source.as_source() },
            options: self.options,
            ..ConnectPlan::to(target)
        }
    }
}

/// The target of an address; none for port 0.
fn inet(ip: IpAddr, port: u16) -> Option<ConnectTarget> {
    (port > 0).then(|| ConnectTarget::Address(Address::Inet(SocketAddr::new(ip, port))))
}
