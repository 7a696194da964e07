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

/// One health or agent check of one server, as configured.
#[derive(Clone, Debug)]
pub struct CheckPlan {
    pub backend: Arc<Backend>,
    pub server: ServerKey,
    /// Whether this is the server's health check or agent check.
    pub kind: CheckKind,
    pub intervals: Intervals,
    /// The time limits of the check.
    pub timings: Timings,
    /// The connection settings. Servers with equal settings share them.
    pub dial: Arc<Dial>,
    /// `agent-send`: the bytes sent to the agent first.
    pub agent_send: Option<Arc<[u8]>>,
    /// How the check uses the server's idle connections, if at all. Only for HTTP checks.
    pub reuse: Option<ReusePlan>,
    /// The dialogue. `None` if the check only connects.
    pub script: Option<Arc<Script>>,
    /// The program to run instead of a connection.
    pub program: Option<Arc<ProgramPlan>>,
}

/// How a check uses the idle connections of its server's traffic (`check-reuse-pool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReusePlan {
    /// The key of usable connections in their pool.
    pub key: u64,
    /// Whether the traffic may reuse a connection opened by the check.
    pub leaves_own: bool,
}

/// A program that checks a server, and its constant arguments.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// The thread that starts the program.
    pub launcher: Arc<Launcher>,
    /// `external-check command`.
    pub command: Arc<str>,
    /// `external-check path`. Empty if not configured.
    pub path: Arc<str>,
    /// The proxy's numeric identifier.
    pub proxy_id: u32,
    /// The first address of the proxy's listeners. `None` for a backend.
    pub listener: Option<Address>,
    /// Whether the server speaks TLS.
    pub tls: bool,
    /// The server's protocol: `h1`, `h2`, `tcp`, `syslog`.
    pub protocol: &'static str,
}

/// The time limits of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// `timeout connect`, in milliseconds. `None`: only the interval limits the connect.
    pub connect_ms: Option<u64>,
    /// `timeout check`, in milliseconds after the connection is established. `None`: the interval limits the whole check.
    pub check_ms: Option<u64>,
}

/// The connection settings of a check.
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
    /// The PROXY header at the start of connections.
    pub greets: Greets,
    /// The TLVs of a PROXY header of version 2.
    pub proxy_v2: Option<Arc<ProxyV2>>,
    /// The TLS settings, if any connection uses TLS.
    pub tls: Option<CheckTls>,
    /// The protocol of HTTP checks: `check-proto` or the server's `proto`. `None`: ALPN with TLS, otherwise HTTP/1.
    pub protocol: Option<Protocol>,
    /// Limits of HTTP/2 connections.
    pub http2: Http2Bounds,
}

/// The TLS settings of a server's checks.
#[derive(Clone, Debug)]
pub struct CheckTls {
    /// The TLS settings of the server.
    pub upstream: Arc<LiveUpstream>,
    /// Whether connections use TLS by default, without a rule.
    pub is_usual: bool,
    /// `check-sni`: the SNI of these default connections.
    pub server_name: Option<Arc<str>>,
    /// `check-alpn`: the protocols that default connections offer. `None` for the server line's `alpn`.
    pub protocols: Option<Arc<[Box<str>]>>,
    /// Whether connections without a configured SNI use the request's `Host`.
    pub takes_host: bool,
}

/// The PROXY header at the beginning of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Greets {
    /// No header.
    #[default]
    No,
    /// Version 1, with the connection's own addresses.
    V1,
    /// Version 2, with the LOCAL command: a check is not a client's connection.
    V2,
}

impl Dial {
    /// An `Arc` of these settings, or `other` if it is equal, so servers share equal settings. TLS settings are not shared.
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

    /// The target of a server's check. `None` if the address or the port is unknown.
    pub(crate) fn target(&self, server: &Server) -> Option<ConnectTarget> {
        let own = server.address();
        Some(match (self.address, &*own) {
            // A port mapping needs a client's port, so such checks need their own `port`.
            (other, ServerAddress::Inet { ip, port }) => inet(other.or(*ip)?, self.port.or(port.fixed())?)?,
            (Some(ip), _) => inet(ip, self.port?)?,
            (None, ServerAddress::Unix(path)) => ConnectTarget::Address(Address::Unix(path.clone())),
            (None, ServerAddress::Abstract(name)) => {
                ConnectTarget::Address(Address::Abstract(name.clone().into()))
            }
            (None, ServerAddress::Pair(number)) => ConnectTarget::Pair(*number),
        })
    }

    /// A plan to connect to the target. `turn` selects the first source port of a range to try.
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

/// The target of an address. `None` for port 0.
fn inet(ip: IpAddr, port: u16) -> Option<ConnectTarget> {
    (port > 0).then(|| ConnectTarget::Address(Address::Inet(SocketAddr::new(ip, port))))
}
