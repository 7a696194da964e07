//! The properties that an idle connection must share with a request to serve it.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::SocketAddr;

/// The differences between connections to one server, as far as the configuration makes them depend on
/// the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionParts<'a> {
    /// The source address that it is bound to (`source ... usesrc`).
    pub source: Option<SocketAddr>,
    /// The destination, where the request decides it (`set-dst`, address `0.0.0.0`).
    pub destination: Option<SocketAddr>,
    /// The PROXY protocol header that the connection begins with.
    pub announced: Option<&'a [u8]>,
    /// The server name indicated in TLS.
    pub server_name: Option<&'a [u8]>,
    /// `pool-conn-name`.
    pub name: Option<&'a [u8]>,
    /// Marks and type-of-service set on the socket.
    pub marks: Option<(Option<u32>, Option<u8>)>,
}

/// Makes keys. The hash has a random seed, so that an attacker cannot choose a server name that shares the
/// connections of another.
#[derive(Clone, Debug, Default)]
pub struct ConnectionKeys(RandomState);

impl ConnectionKeys {
    /// The key for these parts; 0 when nothing depends on the request.
    #[must_use]
    pub fn key(&self, parts: &ConnectionParts<'_>) -> u64 {
        if *parts == ConnectionParts::default() { 0 } else { self.0.hash_one(parts).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_distinguish_connections() {
        let keys = ConnectionKeys::default();
        let plain = ConnectionParts::default();
        let named = ConnectionParts { server_name: Some(b"example.com"), ..plain };
        let other = ConnectionParts { name: Some(b"example.com"), ..plain };
        assert_eq!(keys.key(&plain), 0);
        assert_ne!(keys.key(&named), keys.key(&plain));
        assert_ne!(keys.key(&named), keys.key(&other));
        assert_eq!(keys.key(&named), keys.clone().key(&named));
    }
}
