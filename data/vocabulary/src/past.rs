//! Facts about a connection to a server that outlast it.

use weir_mux::StreamConnector;
use weir_net::ConnectionFault;
use weir_sys::Address;

/// Facts about a server connection that was closed.
#[derive(Clone, Debug)]
pub struct PastConnection {
    pub own_address: Option<Address>,
    /// Its remote address, if the server may have another one by now.
    pub peer: Option<Address>,
    /// Whether it was ever established.
    pub stood: bool,
    /// Whether another stream had used it before.
    pub reused: bool,
    /// Whether it spoke HTTP/2.
    pub http2: bool,
    /// Whether it spoke TLS.
    pub secured: bool,
    /// The fault that broke it, or prevented it.
    pub fault: Option<ConnectionFault>,
}

impl PastConnection {
    /// The facts to keep about a connection.
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
