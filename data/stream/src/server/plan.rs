//! The plan of a connection to a server, from the configuration.
//!
//! The options of `server` lines mean the same in backends, rings and log servers. [`options`], [`source`] and [`socks4`] serve all of
//! these. The rest is for streams only.

use std::net::{IpAddr, SocketAddr};

use weir_model::{Host, ServerSettings, TcpKeepAlive, TransparentSource};
use weir_net::{ConnectOptions, ConnectPlan, ConnectTarget, ConnectionSource, SourceAddress};

use crate::instance::KnownServer;
use crate::stream::phases::ServerPhase;

/// The socket options from a `server` line and its proxy.
pub fn options(
    server: Option<&ServerSettings>,
    keep_alive: Option<&TcpKeepAlive>,
    no_linger: bool,
) -> ConnectOptions {
    ConnectOptions {
        keep_alive: keep_alive.map(crate::keepalive::parameters),
        user_timeout: server.and_then(|server| server.tcp_user_timeout),
        multipath: server.is_some_and(|server| server.multipath),
        fast_open: server.is_some_and(|server| server.tcp_fast_open),
        no_linger,
        ..ConnectOptions::default()
    }
}

/// The part of `source` that does not depend on a client. Host names must be resolved already. `turn` selects the first port to try in
/// a port range.
pub fn source(said: &weir_model::Source, turn: u32) -> ConnectionSource<'_> {
    let address = match (&said.transparent, &said.host) {
        (Some(TransparentSource::Address { host: Host::Ip(ip), port }), _) => {
            SourceAddress::Foreign(SocketAddr::new(*ip, *port))
        }
        (_, Host::Ip(ip)) if said.first_port > 0 => {
            SourceAddress::Ports { ip: *ip, first: said.first_port, last: said.last_port, turn }
        }
        (_, Host::Ip(ip)) if !ip.is_unspecified() => SourceAddress::Ip(*ip),
        _ => SourceAddress::Any,
    };
    ConnectionSource { interface: said.interface.as_deref(), address }
}

/// The SOCKS4 proxy of a `server` line. The name must be resolved already.
pub fn socks4(server: &ServerSettings) -> Option<SocketAddr> {
    let proxy = server.socks4.as_deref()?;
    match proxy.host {
        Host::Ip(ip) => Some(SocketAddr::new(ip, proxy.port)),
        Host::Name { .. } => None,
    }
}

impl ServerPhase {
    /// A plan for a connection to `target`, on a server with these settings.
    pub(super) fn connect_plan<'p>(
        &'p self,
        known: Option<&'p KnownServer<'_>>,
        target: ConnectTarget,
    ) -> ConnectPlan<'p> {
        let settings = &self.stream.backend.config.settings;
        let server = known.map(|known| &known.settings);
        let keep_alive = settings.options.server_keep_alive.then_some(&settings.server_keep_alive);
        ConnectPlan {
            socks4: server.and_then(socks4),
            source: self.source_for_server(known),
            mark: self.stream.server.marks().mark,
            tos: self.stream.server.marks().tos,
            options: ConnectOptions {
                delays_acknowledgement: settings.options.tcp_smart_connect,
                sizes: self.stream.frontend.instance().limits.server_sockets,
                ..options(server, keep_alive, settings.options.no_linger)
            },
            ..ConnectPlan::to(target)
        }
    }

    /// The source address of the connection, which may depend on the client or the request.
    fn source_for_server<'p>(&'p self, known: Option<&'p KnownServer<'_>>) -> ConnectionSource<'p> {
        let Some(said) = self.source_said(known) else { return ConnectionSource::default() };
        let source = source(said, self.stream.serial as u32);
        match said.transparent.as_ref().and_then(|transparent| self.foreign_address(transparent)) {
            Some(foreign) => ConnectionSource { address: SourceAddress::Foreign(foreign), ..source },
            None => source,
        }
    }

    /// The source address, if it depends on the request, and whether it is specific to one client.
    pub(super) fn source_of_client(&self, known: Option<&KnownServer>) -> (Option<SocketAddr>, bool) {
        match self.source_said(known).and_then(|said| said.transparent.as_ref()) {
            None => (None, false),
            Some(transparent) => {
                (self.foreign_address(transparent), matches!(transparent, TransparentSource::Client))
            }
        }
    }

    /// The effective `source`: the server's, else the backend's.
    pub(super) fn source_said<'p>(
        &'p self,
        known: Option<&'p KnownServer<'_>>,
    ) -> Option<&'p weir_model::Source> {
        let of_server = known.and_then(|known| known.settings.source.as_deref());
        of_server.or(self.stream.backend.config.settings.source.as_deref())
    }

    /// The source address that depends on the client or the request.
    fn foreign_address(&self, transparent: &TransparentSource) -> Option<SocketAddr> {
        let client = self.stream.source().inet();
        match transparent {
            TransparentSource::Address { .. } => None,
            TransparentSource::Client => client,
            TransparentSource::ClientAddress => client.map(|client| SocketAddr::new(client.ip(), 0)),
            TransparentSource::Header { name, occurrence } => {
                let value = self.stream.request.message.head.find(
                    self.stream.request.message.bytes(),
                    name.as_bytes(),
                    *occurrence,
                )?;
                let ip: IpAddr = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
                Some(SocketAddr::new(ip, 0))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use weir_model::SocksProxy;

    const IP: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const ANY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);

    fn named() -> Host {
        Host::Name { name: "a.test".into(), family: weir_model::Family::Any }
    }

    #[track_caller]
    fn check(host: Host, ports: (u16, u16), transparent: Option<TransparentSource>, expected: SourceAddress) {
        let interface = Some("lo".into());
        let said =
            weir_model::Source { host, first_port: ports.0, last_port: ports.1, transparent, interface };
        let found = source(&said, 9);
        assert_eq!((found.address, found.interface), (expected, Some("lo")));
    }

    #[test]
    fn source_lines_map_to_local_addresses_port_ranges_or_foreign_addresses() {
        let range = |ip| SourceAddress::Ports { ip, first: 10, last: 20, turn: 9 };
        check(Host::Ip(IP), (0, 0), None, SourceAddress::Ip(IP));
        check(Host::Ip(IP), (10, 20), None, range(IP));
        check(Host::Ip(ANY), (0, 0), None, SourceAddress::Any);
        check(Host::Ip(ANY), (10, 20), None, range(ANY));
        let foreign = Some(TransparentSource::Address { host: Host::Ip(IP), port: 7 });
        check(Host::Ip(ANY), (0, 0), foreign, SourceAddress::Foreign(SocketAddr::new(IP, 7)));
        // Without a client, the configured address is used.
        check(Host::Ip(IP), (0, 0), Some(TransparentSource::Client), SourceAddress::Ip(IP));
        check(named(), (0, 0), None, SourceAddress::Any);
    }

    #[test]
    fn maps_server_settings_to_socket_options() {
        assert_eq!(options(None, None, false), ConnectOptions::default());
        let proxy = |host| Some(Arc::new(SocksProxy { host, port: 1080 }));
        let server = ServerSettings {
            tcp_user_timeout: Some(Duration::from_secs(3)),
            tcp_fast_open: true,
            socks4: proxy(Host::Ip(IP)),
            ..ServerSettings::default()
        };
        let keep_alive = TcpKeepAlive { count: Some(4), ..TcpKeepAlive::default() };
        let found = options(Some(&server), Some(&keep_alive), true);
        assert_eq!((found.user_timeout, found.fast_open), (Some(Duration::from_secs(3)), true));
        assert_eq!(found.keep_alive.map(|parameters| parameters.count), Some(Some(4)));
        assert!(found.no_linger);
        assert_eq!(socks4(&server), Some(SocketAddr::new(IP, 1080)));
        assert_eq!(socks4(&ServerSettings::default()), None);
    }
}
