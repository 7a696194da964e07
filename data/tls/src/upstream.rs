//! What connections to one server need for TLS.

use std::net::Ipv4Addr;
use std::sync::Arc;

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
    pub fn session(&self, name: Option<&[u8]>) -> Result<Session, Failure> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            // A name is needed to begin; an address is never sent as one.
            let nobody = ServerName::IpAddress(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED).into());
            return Session::client(Arc::clone(&self.nameless), nobody);
        };
        let wrong = Failure::because(Why::WrongName);
        let name = std::str::from_utf8(name).map_err(|_| wrong)?;
        let parsed = ServerName::try_from(name.to_owned()).map_err(|_| wrong)?;
        let mut session = Session::client(Arc::clone(&self.named), parsed)?;
        session.note_name(name);
        Ok(session)
    }
}

/// What connections to a server need, which changes while it runs.
#[derive(Debug)]
pub struct LiveUpstream(Published<Upstream>);

impl LiveUpstream {
    /// As the configuration has it.
    pub fn new(upstream: Upstream) -> LiveUpstream {
        LiveUpstream(Published::new(upstream))
    }

    /// The session of a new connection, which asks for `name`, if there is one.
    ///
    /// # Errors
    /// When that is no name of a host.
    pub fn session(&self, name: Option<&[u8]>) -> Result<Session, Failure> {
        self.0.load().session(name)
    }

    /// What connections need from now on, those of all workers.
    pub fn publish(&self, upstream: Upstream) {
        self.0.publish(upstream);
    }
}
