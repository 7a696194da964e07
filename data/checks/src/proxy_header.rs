//! The PROXY header at the start of check connections.
//!
//! Version 2 has the LOCAL command, because the connection is not a client's. The configured TLVs that need no client follow,
//! as in HAProxy 3.2: a receiver may require a checksum or an operator's TLV from checks too.

use weir_model::{ProxyV2, ProxyV2Tls};
use weir_net::Connection;
use weir_proxy_protocol::{ClientAddresses, HeaderCommand, Ssl, Tlv, Transport, V2, tlv};
use weir_sys::socket;

use crate::context::CheckContext;
use crate::plan::{Dial, Greets};

/// The header of a connection. Empty if the connection needs none.
pub(crate) fn header(dial: &Dial, connection: &Connection, context: &mut CheckContext<'_>) -> Vec<u8> {
    let mut header = Vec::new();
    match dial.greets {
        Greets::No => {}
        Greets::V1 => weir_proxy_protocol::write_v1(ends(connection), &mut header),
        Greets::V2 => write_local(dial.proxy_v2.as_deref(), context, &mut header),
    }
    header
}

fn write_local(fields: Option<&ProxyV2>, context: &mut CheckContext<'_>, out: &mut Vec<u8>) {
    let mut values: Vec<(u8, Vec<u8>)> = Vec::new();
    for (kind, format) in fields.iter().flat_map(|fields| &fields.tlvs) {
        let mut value = Vec::new();
        format.render(context, &mut value);
        values.push((*kind, value));
    }
    if fields.is_some_and(|fields| fields.tls != ProxyV2Tls::default()) {
        let mut value = Vec::new();
        Ssl::write(0, 0, &[], &mut value);
        values.push((tlv::SSL, value));
    }
    let tlvs: Vec<Tlv<'_>> = values.iter().map(|(kind, value)| Tlv { kind: *kind, value }).collect();
    let local = V2 {
        command: HeaderCommand::Local,
        transport: Transport::Unspecified,
        addresses: ClientAddresses::Unknown,
        tlvs: &tlvs,
        checksum: fields.is_some_and(|fields| fields.crc32c),
    };
    if weir_proxy_protocol::write_v2(&local, out).is_err() {
        // The TLVs do not fit, so the header is sent without them.
        let _ = weir_proxy_protocol::write_v2(&V2 { tlvs: &[], ..local }, out);
    }
}

fn ends(connection: &Connection) -> ClientAddresses<'static> {
    let descriptor = connection.descriptor();
    let near = socket::local_address(descriptor).ok().and_then(|address| address.inet());
    let far = socket::peer_address(descriptor).ok().and_then(|address| address.inet());
    match (near, far) {
        (Some(source), Some(destination)) => ClientAddresses::Inet { source, destination },
        _ => ClientAddresses::Unknown,
    }
}
