//! Addresses and networks: `core.parse_addr` and `core.match_addr`.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_expr::pattern::AddressInNetwork;
use weir_lua::{opaque_bytes, push_opaque};

use super::{ApiCall, ApiResult};

/// `core.parse_addr(text)`: a userdata, or nil. A name is not looked up.
pub(super) fn parse_addr(call: &ApiCall<'_>) -> ApiResult {
    match AddressInNetwork::parse(call.expect_bytes(1)?) {
        Ok(network) => push_opaque(call, &encoded(network)),
        Err(_) => call.push_nil(),
    }
    call.results(1)
}

/// `core.match_addr(one, other)`. False for everything but addresses of `core.parse_addr`.
pub(super) fn match_addr(call: &ApiCall<'_>) -> ApiResult {
    let [one, other] = [1, 2].map(|index| opaque_bytes(call, index).and_then(decoded));
    call.push_boolean(one.zip(other).is_some_and(|(one, other)| one.matches(other)));
    call.results(1)
}

fn encoded(network: AddressInNetwork) -> Vec<u8> {
    match network {
        AddressInNetwork::V4(address, mask) => [address.octets(), mask.octets()].concat(),
        AddressInNetwork::V6(address, length) => {
            let mut bytes = address.octets().to_vec();
            bytes.push(length);
            bytes
        }
    }
}

fn decoded(bytes: &[u8]) -> Option<AddressInNetwork> {
    match bytes.len() {
        8 => {
            let address = <[u8; 4]>::try_from(&bytes[..4]).ok()?;
            let mask = <[u8; 4]>::try_from(&bytes[4..]).ok()?;
            Some(AddressInNetwork::V4(Ipv4Addr::from(address), Ipv4Addr::from(mask)))
        }
        17 => {
            let address = <[u8; 16]>::try_from(&bytes[..16]).ok()?;
            Some(AddressInNetwork::V6(Ipv6Addr::from(address), bytes[16]))
        }
        _ => None,
    }
}
