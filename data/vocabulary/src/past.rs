//! Facts about a server connection that remain after it is closed.

use weir_mux::StreamConnector;
use weir_net::ConnectionFault;
use weir_sys::Address;

/// Facts about a closed server connection.
#[derive(Clone, Debug)]
pub struct PastConnection {
    pub own_address: Option<Address>,
    /// The remote address, if the server's address may have changed since.
    pub peer: Option<Address>,
    /// Whether the connection was ever established.
    pub stood: bool,
    /// Whether another stream used it before.
    pub reused: bool,
    /// Whether it used HTTP/2.
    pub http2: bool,
    /// Whether it used TLS.
    pub secured: bool,
    /// The fault that closed it or prevented it.
    pub fault: Option<ConnectionFault>,
}

impl PastConnection {
    /// Collects the facts about a connection that is about to be closed.
    pub fn of(connector: &StreamConnector, stood: bool, reused: bool) -> Self {
        let (own_address, fault) = (connector.local_address(), connector.fault_of_connection());
        let secured = connector.tls().is_some();
        PastConnection {
            own_address,
            peer: None,
            stood,
            reused,
            http2: connector.shared().is_some(),
            secured,
            fault,
        }
    }
}
