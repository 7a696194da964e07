//! What connections to one server need for TLS.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use weir_sync::Published;

use crate::failure::{Failure, Why};
use crate::session::Session;

/// What connections to a server need.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// For those that ask for a name.
    pub named: Arc<ClientConfig>,
    /// For those that ask for none, and cannot check one but the one that is configured.
    pub nameless: Arc<ClientConfig>,
}

impl Upstream {
    /// The session of a new connection, which asks for `name`, if there is one.
    ///
    /// # Errors
    /// When that is no name of a host.
    fn session(&self, name: Option<&[u8]>, offer: Offer<'_>) -> Result<Session, Failure> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            // A name is needed to begin; an address is never sent as one.
            let nobody = ServerName::IpAddress(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
            return Session::client(offer.with(&self.nameless), nobody);
        };
        let wrong = Failure::because(Why::WrongName);
        let name = std::str::from_utf8(name).map_err(|_| wrong)?;
        let parsed = ServerName::try_from(name.to_owned()).map_err(|_| wrong)?;
        let mut session = Session::client(offer.with(&self.named), parsed)?;
        session.note_name(name);
        Ok(session)
    }
}

/// The host of an HTTP authority if it is a name that a server can be asked for: an address is none (RFC 6066, 3).
pub fn host_name(authority: &[u8]) -> Option<&[u8]> {
    let (host, _) = weir_http::uri::host_and_port(authority);
    match ServerName::try_from(std::str::from_utf8(host).ok()?) {
        Ok(ServerName::DnsName(_)) => Some(host),
        _ => None,
    }
}

/// The protocols that a connection offers.
#[derive(Clone, Copy, Debug)]
enum Offer<'p> {
    /// Those of all connections to the server.
    Usual,
    /// Of those one alone; none where there are none.
    Alone(&'p [u8]),
    /// Those of all connections, without HTTP/2.
    WithoutHttp2,
    /// Others.
    These(&'p [Box<str>]),
}

impl Offer<'_> {
    fn with(self, config: &Arc<ClientConfig>) -> Arc<ClientConfig> {
        let usual = &config.alpn_protocols;
        let protocols = match self {
            Offer::Alone(protocol) if !usual.is_empty() => vec![protocol.to_vec()],
            Offer::WithoutHttp2 if usual.iter().any(|name| name == b"h2") => {
                usual.iter().filter(|name| *name != b"h2").cloned().collect()
            }
            Offer::Usual | Offer::Alone(_) | Offer::WithoutHttp2 => return Arc::clone(config),
            Offer::These(protocols) => protocols.iter().map(|name| name.as_bytes().to_vec()).collect(),
        };
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = protocols;
        Arc::new(config)
    }
}

/// What connections to a server need, which changes while it runs.
#[derive(Debug)]
pub struct LiveUpstream {
    needs: Published<Upstream>,
    carries_traffic: AtomicBool,
}

impl LiveUpstream {
    /// As the configuration has it. Where traffic goes in clear, health checks alone use it.
    pub fn new(upstream: Upstream, carries_traffic: bool) -> LiveUpstream {
        LiveUpstream { needs: Published::new(upstream), carries_traffic: AtomicBool::new(carries_traffic) }
    }

    /// Whether traffic goes over TLS.
    pub fn carries_traffic(&self) -> bool {
        self.carries_traffic.load(Ordering::Relaxed)
    }

    /// Has the traffic of new connections go over TLS, or in clear (`set server ssl`).
    pub fn set_carries_traffic(&self, yes: bool) {
        self.carries_traffic.store(yes, Ordering::Relaxed);
    }

    /// The session of a new connection, which asks for `name`, if there is one. With `protocol` it offers that one alone, where
    /// any are offered.
    ///
    /// # Errors
    /// When that is no name of a host.
    pub fn session(&self, name: Option<&[u8]>, protocol: Option<&[u8]>) -> Result<Session, Failure> {
        self.needs.load().session(name, protocol.map_or(Offer::Usual, Offer::Alone))
    }

    /// The session of a health check, which offers protocols of its own where there are some, and never HTTP/2, which checks
    /// do not speak yet.
    ///
    /// # Errors
    /// When `name` is no name of a host.
    pub fn check_session(
        &self,
        name: Option<&[u8]>,
        protocols: Option<&[Box<str>]>,
    ) -> Result<Session, Failure> {
        self.needs.load().session(name, protocols.map_or(Offer::WithoutHttp2, Offer::These))
    }

    /// What connections need from now on, those of all workers.
    pub fn publish(&self, upstream: Upstream) {
        self.needs.publish(upstream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_can_be_asked_for_and_addresses_cannot() {
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
