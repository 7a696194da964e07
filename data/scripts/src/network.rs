//! The means of scripts to reach other hosts.

use std::sync::{Arc, OnceLock};

use weir_client::Client;
use weir_model::{ScriptSettings, ServerAddress, ServerPort};
use weir_net::endpoint::padded_abstract_name;
use weir_sys::Address;
use weir_tls::LiveUpstream;

/// The means of scripts to reach other hosts: those of the configuration.
#[derive(Debug)]
pub struct ScriptNetwork {
    /// `core.httpclient`.
    pub client: Arc<Client>,
    /// `connect_ssl`. `None` if TLS is not available.
    pub tls: Option<Arc<LiveUpstream>>,
}

/// The network of all states. Empty while the configuration is read.
pub(crate) type SharedNetwork = Arc<OnceLock<ScriptNetwork>>;

/// The most bytes that one call of a script receives: `tune.lua.maxmem`, or a limit of its own.
pub(crate) fn most_received(settings: &ScriptSettings) -> usize {
    match settings.megabytes {
        0 => MOST_RECEIVED,
        megabytes => (megabytes as usize) << 20,
    }
}

/// The address of a peer. The port is 0 if the text lacks one. `None` if it is not a valid address.
pub(crate) fn address(text: &str) -> Option<Address> {
    Some(match weir_config::address::script_address(text)? {
        ServerAddress::Inet { host, port: ServerPort::Fixed(port) } => {
            Address::Inet((host.ip()?, port).into())
        }
        ServerAddress::Inet { host, .. } => Address::Inet((host.ip()?, 0).into()),
        ServerAddress::Unix(path) => Address::Unix(path),
        ServerAddress::Abstract { name, padded: true } => Address::Abstract(padded_abstract_name(&name)),
        ServerAddress::Abstract { name, .. } => Address::Abstract(name),
        ServerAddress::SocketPair(_) => return None,
    })
}

/// The most bytes that one call receives without `tune.lua.maxmem`.
const MOST_RECEIVED: usize = 64 << 20;
