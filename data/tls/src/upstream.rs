//! TLS settings for connections to one server.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use weir_sync::VersionCell;

use weir_tls_session::TlsSession;
use weir_tls_session::{SessionFailure, Why};

/// TLS settings for connections to a server.
#[derive(Clone, Debug)]
pub struct UpstreamTls {
    /// Settings for connections with SNI.
    pub named: Arc<ClientConfig>,
    /// Settings for connections without SNI, which can verify only a configured name.
    pub nameless: Arc<ClientConfig>,
    /// Whether early data may be sent (`allow-0rtt`).
    pub early_data: bool,
}

impl UpstreamTls {
    /// Creates the session of a new connection, with `name` as SNI, if given.
    ///
    /// # Errors
    /// When `name` is not a valid host name.
    fn session(&self, name: Option<&[u8]>, offer: Offer<'_>) -> Result<TlsSession, SessionFailure> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            // rustls needs a name. An address is never sent as SNI.
            let nobody = ServerName::IpAddress(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
            return TlsSession::client(offer.with(&self.nameless), nobody);
        };
        let wrong = SessionFailure::because(Why::WrongName);
        let name = std::str::from_utf8(name).map_err(|_| wrong)?;
        let parsed = ServerName::try_from(name.to_owned()).map_err(|_| wrong)?;
        let mut session = TlsSession::client(offer.with(&self.named), parsed)?;
        session.note_name(name);
        Ok(session)
    }
}

/// The host of an HTTP authority, if it is valid as SNI. An address is not (RFC 6066, 3).
pub fn host_name(authority: &[u8]) -> Option<&[u8]> {
    let (host, _) = weir_http::uri::host_and_port(authority);
    match ServerName::try_from(std::str::from_utf8(host).ok()?) {
        Ok(ServerName::DnsName(_)) => Some(host),
        _ => None,
    }
}

/// The ALPN protocols that a connection offers.
#[derive(Clone, Copy, Debug)]
enum Offer<'p> {
    /// The protocols of the server's settings.
    Usual,
    /// Like `Usual`, with early data, unless HTTP/2 may be selected: early data is sent before the server selects a protocol.
    Early,
    /// Only this protocol. Without ALPN if the settings list none.
    Alone(&'p [u8]),
    /// The protocols of the settings except HTTP/2.
    WithoutHttp2,
    These(&'p [Box<str>]),
}

impl Offer<'_> {
    fn with(self, config: &Arc<ClientConfig>) -> Arc<ClientConfig> {
        let usual = &config.alpn_protocols;
        if matches!(self, Offer::Early) && usual.iter().all(|name| name != b"h2") {
            let mut config = ClientConfig::clone(config);
            config.enable_early_data = true;
            return Arc::new(config);
        }
        let protocols = match self {
            Offer::Alone(protocol) if !usual.is_empty() => vec![protocol.to_vec()],
            Offer::WithoutHttp2 if usual.iter().any(|name| name == b"h2") => {
                usual.iter().filter(|name| *name != b"h2").cloned().collect()
            }
            Offer::Usual | Offer::Early | Offer::Alone(_) | Offer::WithoutHttp2 => {
                return Arc::clone(config);
            }
            Offer::These(protocols) => protocols.iter().map(|name| name.as_bytes().to_vec()).collect(),
        };
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = protocols;
        Arc::new(config)
    }
}

/// TLS settings for connections to a server, which may change at run time.
#[derive(Debug)]
pub struct LiveUpstream {
    needs: VersionCell<UpstreamTls>,
    carries_traffic: AtomicBool,
    /// Whether no runtime command has changed it.
    is_as_configured: AtomicBool,
}

impl LiveUpstream {
    /// The configured settings. If traffic does not use TLS, only health checks use them.
    pub fn new(upstream: UpstreamTls, carries_traffic: bool) -> LiveUpstream {
        LiveUpstream {
            needs: VersionCell::new(upstream),
            carries_traffic: AtomicBool::new(carries_traffic),
            is_as_configured: AtomicBool::new(true),
        }
    }

    /// Whether traffic uses TLS.
    pub fn carries_traffic(&self) -> bool {
        self.carries_traffic.load(Ordering::Relaxed)
    }

    /// Enables or disables TLS for the traffic of new connections (`set server ssl`).
    pub fn set_carries_traffic(&self, yes: bool) {
        self.carries_traffic.store(yes, Ordering::Relaxed);
        self.is_as_configured.store(false, Ordering::Relaxed);
    }

    /// Whether no runtime command has changed the use of TLS.
    pub fn is_as_configured(&self) -> bool {
        self.is_as_configured.load(Ordering::Relaxed)
    }

    /// Creates the session of a new connection, with `name` as SNI, if given. With `protocol` it offers only that protocol, if the
    /// settings have any.
    ///
    /// # Errors
    /// When `name` is not a valid host name.
    pub fn session(
        &self,
        name: Option<&[u8]>,
        protocol: Option<&[u8]>,
    ) -> Result<TlsSession, SessionFailure> {
        self.needs.load().session(name, protocol.map_or(Offer::Usual, Offer::Alone))
    }

    /// Creates the session of a new connection for a first request that may be sent as early data. If the settings allow early data
    /// and a ticket from the server permits it, the session is established at once ([`Facts::early`](crate::Facts::early)).
    ///
    /// # Errors
    /// When `name` is not a valid host name.
    pub fn early_session(&self, name: Option<&[u8]>) -> Result<TlsSession, SessionFailure> {
        let needs = self.needs.load();
        needs.session(name, if needs.early_data { Offer::Early } else { Offer::Usual })
    }

    /// Creates the session of a health check. It offers the check's protocols if set, otherwise the protocols of the server's
    /// traffic. HTTP/2 is offered only if `http2`: the check must support it.
    ///
    /// # Errors
    /// When `name` is not a valid host name.
    pub fn check_session(
        &self,
        name: Option<&[u8]>,
        protocols: Option<&[Box<str>]>,
        http2: bool,
    ) -> Result<TlsSession, SessionFailure> {
        let usual = if http2 { Offer::Usual } else { Offer::WithoutHttp2 };
        self.needs.load().session(name, protocols.map_or(usual, Offer::These))
    }

    /// Replaces the settings for new connections on all workers.
    pub fn publish(&self, upstream: UpstreamTls) {
        self.needs.publish(upstream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sni_is_sent_for_host_names_but_not_for_addresses() {
        let check = |authority: &str, expected: Option<&str>| {
            assert_eq!(host_name(authority.as_bytes()), expected.map(str::as_bytes), "{authority}");
        };
        check("a.example", Some("a.example"));
        check("A.example:8443", Some("A.example"));
        check("localhost", Some("localhost"));
        check("10.0.0.1:443", None);
        check("[::1]:443", None);
        check("", None);
        check("a b", None);
        check(":443", None);
    }
}
