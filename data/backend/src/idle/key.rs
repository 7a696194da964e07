//! The properties of an idle connection that must match a request.

use std::hash::{BuildHasher, Hash, RandomState};
use std::net::SocketAddr;

/// The properties of a connection that depend on the request. Connections to one server differ only in these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionParts<'a> {
    /// The source address of the connection (`source ... usesrc`).
    pub source: Option<SocketAddr>,
    /// The destination, if it depends on the request (`set-dst`, address `0.0.0.0`).
    pub destination: Option<SocketAddr>,
    /// The PROXY protocol header at the start of the connection.
    pub announced: Option<&'a [u8]>,
    /// The server name in TLS (SNI).
    pub server_name: Option<&'a [u8]>,
    /// `pool-conn-name`.
    pub name: Option<&'a [u8]>,
    /// The mark and the type of service set on the socket.
    pub marks: Option<(Option<u32>, Option<u8>)>,
}

/// Makes connection keys. The hash has a random seed, so an attacker cannot choose a server name that collides
/// with another one and shares its connections.
#[derive(Clone, Debug, Default)]
pub struct ConnectionKeys(RandomState);

impl ConnectionKeys {
    /// The key for these parts. 0 if no property depends on the request.
    #[must_use]
    pub fn key(&self, parts: &ConnectionParts<'_>) -> u64 {
        if *parts == ConnectionParts::default() { 0 } else { self.0.hash_one(parts).max(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_with_different_sni_or_name_have_different_keys() {
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
