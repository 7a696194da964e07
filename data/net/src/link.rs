//! Connections of the process itself that a `server` line describes: to other instances, and to name servers.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_sched::Tick;
use weir_sys::Address;
use weir_tls::LiveUpstream;

use crate::connect::{ConnectError, ConnectOptions, ConnectPlan, ConnectTarget, Greeting, OwnedSource};
use crate::connection::Connection;
use crate::fault::ConnectionFault;

/// How to connect to one peer.
#[derive(Debug)]
pub struct PeerLink {
    pub address: Address,
    /// The SOCKS4 proxy to connect through.
    pub socks4: Option<SocketAddr>,
    pub source: OwnedSource,
    pub options: ConnectOptions,
    /// A PROXY header. Empty for none.
    pub header: Box<[u8]>,
    /// TLS settings. `None` for connections without TLS.
    pub tls: Option<LinkTls>,
}

/// TLS settings of connections.
#[derive(Debug)]
pub struct LinkTls {
    /// The settings of the `server` line.
    pub upstream: Arc<LiveUpstream>,
    /// `sni`: the server name to send.
    pub server_name: Option<Vec<u8>>,
}

impl PeerLink {
    /// A link with default settings.
    pub fn to(address: Address) -> PeerLink {
        PeerLink {
            address,
            socks4: None,
            source: OwnedSource::default(),
            options: ConnectOptions::default(),
            header: Box::default(),
            tls: None,
        }
    }

    /// Opens a connection, with TLS if configured, and sends `hello`.
    ///
    /// # Errors
    /// The connection failed, or `deadline` passed.
    pub async fn open(&self, hello: &[u8], deadline: Tick) -> Result<Connection, ConnectError> {
        let plan = ConnectPlan {
            socks4: self.socks4,
            source: self.source.as_source(),
            options: self.options,
            ..ConnectPlan::to(ConnectTarget::Address(self.address.clone()))
        };
        let mut connecting = plan.begin()?;
        // Without TLS, the hello may be sent together with the header.
        let first = match self.tls {
            Some(_) => self.header.to_vec(),
            None => [&*self.header, hello].concat(),
        };
        let greeting = Greeting { bytes: &first, more: false };
        connecting.stand(greeting, deadline, || Ok::<(), ConnectError>(())).await?;
        let mut connection = connecting.into_connection();
        if let Some(tls) = &self.tls {
            let session =
                tls.upstream.session(tls.server_name.as_deref(), None).map_err(ConnectionFault::Tls)?;
            connection.shake_hands(session, deadline).await.map_err(ConnectionFault::Tls)?;
            connection.send_all(hello, deadline).await.ok_or(ConnectError::TimedOut)?;
        }
        Ok(connection)
    }
}
