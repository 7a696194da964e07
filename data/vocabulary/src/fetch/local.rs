//! Whether an address belongs to this host.

use std::net::{IpAddr, SocketAddr};

use weir_sys::{Address, socket};

/// Whether an address belongs to this host. UNIX addresses do.
///
/// Instead of listing interfaces, this tries to bind the address: the kernel binds only local ones. With
/// `net.ipv4.ip_nonlocal_bind` it binds any address, so every address counts as local.
pub(super) fn is_local(address: &Address) -> bool {
    let Some(ip) = address.ip() else { return true };
    let ip = match ip {
        IpAddr::V6(mapped) => mapped.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        ip => ip,
    };
    let address = Address::Inet(SocketAddr::new(ip, 0));
    socket::datagram(address.family()).and_then(|probe| socket::bind(&probe, &address)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_this_host_are_local() {
        let inet = |text: &str| Address::Inet(SocketAddr::new(text.parse().expect("an address"), 80));
        assert!(is_local(&inet("127.0.0.1")));
        assert!(is_local(&inet("::ffff:127.0.0.1")));
        assert!(is_local(&Address::Unnamed));
        // Reserved for documentation (RFC 5737), so never local.
        assert!(!is_local(&inet("192.0.2.1")));
    }
}
