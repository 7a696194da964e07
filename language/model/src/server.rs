//! Servers: the `server`, `server-template` and `default-server` lines.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_expr::{Expr, Location, LogFormat};
use weir_fingerprint::{Canonical, FormEncoder, Referent};

use super::address::{Host, IpNetwork, ServerAddress, SocksProxy, Source};
use super::check::CheckSettings;
use super::log::Framing;
use super::names;
use super::protocol::Protocol;
use super::tls::ServerTls;

/// One server of a backend. A `server-template` line creates several.
#[derive(Clone, Debug)]
pub struct Server {
    /// Its name, unique in its backend.
    pub name: Box<str>,
    /// Location of the line.
    pub at: Location,
    pub address: ServerAddress,
    /// Whether the server receives datagrams instead of a connection: a log server with `udp@` or `uxdg@`.
    pub datagrams: bool,
    /// The identifier: `id`, or the lowest free one. Never 0 once the configuration is complete.
    pub id: u32,
    /// Whether the line sets the identifier.
    pub id_is_forced: bool,
    /// `guid`: a name that is unique in the whole process.
    pub guid: Option<Box<str>>,
    /// Whether the server came from a `server-template` line.
    pub from_template: bool,
    /// Whether another part of the configuration refers to the server, so that it cannot be removed.
    pub is_referenced: bool,
    /// The server that `track` names: the position of its proxy, and its position in that proxy. None without `track`.
    pub leader: Option<(u32, u32)>,
    /// Settings that `default-server` can also give.
    pub settings: ServerSettings,
}

/// The identifier is encoded only if the line sets it. An automatic one follows from the order of the backend's servers.
impl Canonical for Server {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let Server {
            name,
            at: _,
            address,
            datagrams,
            id,
            id_is_forced,
            guid,
            from_template,
            // Derived from other objects.
            is_referenced: _,
            leader,
            settings,
        } = self;
        out.begin("Server");
        out.field("name", name);
        out.field("address", address);
        out.field("udp", datagrams);
        out.field("id", &id_is_forced.then_some(*id));
        out.field("guid", guid);
        out.field("server-template", from_template);
        out.field_with("track", |out| {
            leader.is_some().encode(out);
            if let Some((proxy, server)) = *leader {
                out.referent(Referent::Server(proxy, server));
            }
        });
        out.flat("", settings);
    }
}

/// Settings of a `server` line, which a `default-server` line can also give.
#[derive(Clone, Debug, Canonical)]
pub struct ServerSettings {
    /// `shard`: the part of the keys that a peer gets. 0 for all keys.
    pub shard: u32,
    /// `weight`, 0 to 256.
    pub weight: u16,
    /// `non-stick`: `stick` rules do not store this server.
    pub non_stick: bool,
    /// `backup`: used only when no other server is left.
    pub backup: bool,
    /// `disabled`: starts in maintenance.
    pub disabled: bool,
    /// `maxconn`: concurrent connections. 0 for no limit.
    pub maxconn: u32,
    /// `minconn`: the limit at low load. It grows to `maxconn` with the backend's load. 0 for off.
    pub minconn: u32,
    /// `maxqueue`: requests in the server's queue. 0 for no limit.
    pub maxqueue: u32,
    /// `slowstart`: time until the full weight after the server came up. Zero for off.
    pub slowstart: Duration,
    /// `cookie`: the server's value in the persistence cookie.
    pub cookie: Option<Arc<str>>,
    /// `redir`: GET and HEAD requests are redirected to this prefix instead of being forwarded.
    pub redirect_prefix: Option<Arc<str>>,
    /// `send-proxy`, `send-proxy-v2`.
    pub send_proxy: Option<SendProxy>,
    /// `proxy-v2-options`, `set-proxy-v2-tlv-fmt`: the additional fields of a version 2 header.
    pub proxy_v2: Option<Arc<ProxyV2>>,
    /// `source`.
    pub source: Option<Arc<Source>>,
    /// `socks4`: the proxy that connections are made through.
    pub socks4: Option<Arc<SocksProxy>>,
    /// `proto`: the forced protocol.
    pub protocol: Option<Protocol>,
    /// `ws`: the HTTP version for WebSocket.
    pub web_socket: WebSocket,
    /// `idle-ping`: interval of pings on an idle HTTP/2 connection. None for no pings.
    pub idle_ping: Option<Duration>,
    /// `tcp-ut`: how long sent data may stay unacknowledged.
    pub tcp_user_timeout: Option<Duration>,
    /// Connections speak MPTCP: the address has `mptcp@`.
    pub multipath: bool,
    /// `tfo`: TCP Fast Open.
    pub tcp_fast_open: bool,
    /// `max-reuse`: how often a connection is reused. None for no limit, 0 for never.
    pub max_reuse: Option<u32>,
    /// `strict-maxconn`: `maxconn` counts idle connections too.
    pub strict_maxconn: bool,
    /// `pool-max-conn`: idle connections to keep. None for no limit, 0 for none.
    pub pool_max_connections: Option<u32>,
    /// `pool-low-conn`: with fewer idle connections, workers do not take connections of each other.
    pub pool_low_connections: u32,
    /// `pool-purge-delay`: interval at which half of the connections that stayed idle are closed. Zero for never.
    pub pool_purge_delay: Duration,
    /// `pool-conn-name`: an idle connection is reused only for requests with an equal value of this expression.
    pub pool_connection_name: Option<Arc<Expr>>,
    /// `log-proto`: how log messages are delimited, for a log server.
    pub framing: Framing,
    /// `log-bufsize`: size in bytes of the ring that queues messages for a log server. None for `tune.bufsize`.
    pub log_buffer: Option<u64>,
    /// `hash-key`: what determines the server's positions on the consistent hash ring.
    pub hash_key: HashKey,
    /// Its health checks.
    #[canonical(flat)]
    pub check: CheckSettings,
    /// `init-addr`: sources of the first address of a host name, in order of preference. Empty for `last,libc`.
    pub initial_address: Arc<[InitialAddress]>,
    /// How the server's name is resolved at run time.
    #[canonical(flat)]
    pub resolution: ServerResolution,
    /// `ssl` and the words that belong to it.
    pub tls: Option<Arc<ServerTls>>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        ServerSettings {
            shard: 0,
            weight: 1,
            non_stick: false,
            backup: false,
            disabled: false,
            maxconn: 0,
            minconn: 0,
            maxqueue: 0,
            slowstart: Duration::ZERO,
            cookie: None,
            redirect_prefix: None,
            send_proxy: None,
            proxy_v2: None,
            source: None,
            socks4: None,
            protocol: None,
            web_socket: WebSocket::Auto,
            idle_ping: None,
            tcp_user_timeout: None,
            multipath: false,
            tcp_fast_open: false,
            max_reuse: None,
            strict_maxconn: false,
            pool_max_connections: None,
            pool_low_connections: 0,
            pool_purge_delay: Duration::from_secs(5),
            pool_connection_name: None,
            framing: Framing::Legacy,
            log_buffer: None,
            hash_key: HashKey::Id,
            check: CheckSettings::default(),
            initial_address: Arc::from([]),
            resolution: ServerResolution::default(),
            tls: None,
        }
    }
}

/// The PROXY protocol header at the start of each connection to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum SendProxy {
    V1,
    /// The binary form, with the contents of [`ServerSettings::proxy_v2`].
    V2,
}

/// The additional fields of a version 2 header, besides the addresses.
#[derive(Clone, Debug, Default, Canonical)]
pub struct ProxyV2 {
    /// `crc32c`: a checksum of the header.
    pub crc32c: bool,
    /// `unique-id`: the request's unique identifier.
    pub unique_id: bool,
    /// `authority`: the host name that the client requested.
    pub authority: bool,
    /// Facts about the client's TLS connection.
    pub tls: ProxyV2Tls,
    /// `set-proxy-v2-tlv-fmt(<id>) <fmt>`: further type-length-value fields.
    pub tlvs: Vec<(u8, LogFormat)>,
}

/// Facts about the client's TLS in a version 2 header. Any of them adds the TLS version and whether the client sent a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub struct ProxyV2Tls {
    /// `ssl`: no further facts.
    pub enabled: bool,
    /// `cert-cn`: the common name in the client's certificate.
    pub common_name: bool,
    /// `ssl-cipher`: the cipher.
    pub cipher: bool,
    /// `cert-sig`: the signature algorithm of the certificate that the client received.
    pub signature: bool,
    /// `cert-key`: the key type of that certificate.
    pub key: bool,
}

/// `ws`: the HTTP version for WebSocket requests to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Canonical)]
pub enum WebSocket {
    /// The version of other requests, or HTTP/1.1 if ALPN offers it.
    #[default]
    Auto,
    H1,
    H2,
}

/// The settings of a server's line for resolving its name.
#[derive(Clone, Debug, Default, Canonical)]
pub struct ServerResolution {
    /// `resolvers`: the section with the name servers to query at run time. None without run-time resolution.
    #[canonical(with = names::resolvers)]
    pub section: Option<Arc<str>>,
    /// `resolve-prefer ipv4`: IPv4 addresses are queried first.
    pub prefers_ipv4: bool,
    /// `resolve-net`: addresses in these networks are preferred.
    pub networks: Arc<[IpNetwork]>,
    /// `resolve-opts allow-dup-ip`: servers of the backend may share an address.
    pub allows_duplicates: bool,
    /// `resolve-opts ignore-weight`: weights of SRV records are ignored.
    pub ignores_weight: bool,
}

/// Whether a name denotes a service, with SRV records that list hosts and ports (RFC 2782).
pub fn is_service(host: &Host) -> bool {
    matches!(host, Host::Name { name, .. } if name.starts_with('_'))
}

/// What determines a server's positions on the consistent hash ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum HashKey {
    /// The server's identifier.
    #[default]
    Id,
    Address,
    /// The server's address and port.
    AddressAndPort,
}

/// The source of the states of a backend's servers at start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum ServerStates {
    /// No source.
    #[default]
    None,
    /// The file of `server-state-file`.
    Global,
    /// A separate file for the backend.
    Local,
}

/// A source of a server's first address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
pub enum InitialAddress {
    /// The state file.
    Last,
    /// The system's resolver.
    Libc,
    /// No address: the server starts in maintenance.
    None,
    Ip(IpAddr),
}
