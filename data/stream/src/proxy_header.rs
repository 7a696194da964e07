//! The PROXY protocol: headers from clients (`accept-proxy`), and for servers (`send-proxy`).

use weir_model::ProxyV2Tls;
use weir_proxy_protocol::{ClientAddresses, HeaderCommand, Ssl, Tlv, Transport, V2, tlv};
use weir_sys::Address;
use weir_tls::inspect::{CertificateDetails, Party};
use weir_tls::{Facts, ciphers};

use weir_vocabulary::ProxyFields;

use crate::session::ClientSession;
use crate::stream::Stream;

/// Sets the session's addresses to the header's.
pub(crate) fn adopt(session: &ClientSession, header: &weir_proxy_protocol::ProxyHeader<'_>) {
    if header.command == HeaderCommand::Proxy
        && let ClientAddresses::Inet { source, destination } = header.addresses
    {
        session.replace_addresses(source.into(), destination.into());
    }
    let fields = header.tlvs.iter().map(|tlv| (tlv.kind, tlv.value.into())).collect();
    session.keep_proxy_header(ProxyFields { fields });
}

/// Writes a header of version 1.
pub(crate) fn write_v1(stream: &Stream, out: &mut Vec<u8>) {
    let (source, destination) = endpoints(stream);
    weir_proxy_protocol::write_v1(addresses(&source, &destination), out);
}

/// Writes a header of version 2.
pub(crate) fn write_v2(stream: &mut Stream, out: &mut Vec<u8>) {
    let known = stream.as_server_phase().known_server();
    let fields = known.as_ref().and_then(|known| known.settings.proxy_v2.clone()).unwrap_or_default();
    let mut values: Vec<(u8, Vec<u8>)> = Vec::new();
    let client = stream.client.tls();
    if let Some(protocol) = client.and_then(|facts| facts.protocol.as_deref()) {
        values.push((tlv::ALPN, protocol.to_vec()));
    }
    if fields.authority {
        let server_name =
            client.and_then(|facts| facts.server_name.as_deref()).map(|name| name.as_bytes().to_vec());
        let authority = server_name.or_else(|| received(&stream.session, tlv::AUTHORITY));
        values.extend(authority.map(|authority| (tlv::AUTHORITY, authority)));
    }
    if fields.unique_id
        && let Some(id) = stream.log_line().unique_id()
    {
        values.push((tlv::UNIQUE_ID, id[..id.len().min(tlv::MAX_UNIQUE_ID)].to_vec()));
    }
    for (kind, format) in &fields.tlvs {
        values.push((*kind, stream.format(format).into_vec()));
    }
    if fields.tls != ProxyV2Tls::default() {
        values.push((tlv::SSL, of_tls(stream.client.tls(), fields.tls)));
    }
    let (source, destination) = endpoints(stream);
    let tlvs: Vec<Tlv<'_>> = values.iter().map(|(kind, value)| Tlv { kind: *kind, value }).collect();
    let header = V2 {
        command: HeaderCommand::Proxy,
        transport: Transport::Stream,
        addresses: addresses(&source, &destination),
        tlvs: &tlvs,
        checksum: fields.crc32c,
    };
    if weir_proxy_protocol::write_v2(&header, out).is_err() {
        // The TLVs do not fit. The header is written with the addresses only, which servers need most.
        let _ = weir_proxy_protocol::write_v2(&V2 { tlvs: &[], ..header }, out);
    }
}

/// The client's TLS TLV (PROXY protocol, 2.2.5).
fn of_tls(client: Option<&Facts>, wanted: ProxyV2Tls) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(facts) = client else {
        Ssl::write(0, 0, &[], &mut out);
        return out;
    };
    let mut values: Vec<(u8, String)> = Vec::new();
    values.extend(facts.version_name().map(|name| (tlv::SSL_VERSION, name.to_owned())));
    let mut bits = Ssl::USED;
    if let Some(certificate) = facts.peer_certificates.first() {
        bits |= Ssl::CERTIFICATE_IN_SESSION;
        if !facts.resumed {
            bits |= Ssl::CERTIFICATE_ON_CONNECTION;
        }
        let name = CertificateDetails::of(certificate).filter(|_| wanted.common_name);
        let name = name.and_then(|certificate| certificate.attribute(Party::Subject, "CN", 1));
        values.extend(name.map(|name| (tlv::SSL_CN, name)));
    }
    let shown = facts.certificate.as_ref().and_then(|certificate| CertificateDetails::of(certificate.own()));
    if let Some(certificate) = shown {
        if wanted.key {
            values.extend(certificate.key_in_short().map(|kind| (tlv::SSL_KEY_ALGORITHM, kind)));
        }
        if wanted.signature {
            values.push((tlv::SSL_SIGNATURE_ALGORITHM, certificate.signature_algorithm()));
        }
    }
    if let Some(cipher) = facts.cipher.and_then(ciphers::name_of).filter(|_| wanted.cipher) {
        values.push((tlv::SSL_CIPHER, cipher.to_owned()));
    }
    let values: Vec<Tlv<'_>> =
        values.iter().map(|(kind, value)| Tlv { kind: *kind, value: value.as_bytes() }).collect();
    let verify = facts.verified.map_or(0, |verified| verified.code);
    Ssl::write(bits, verify.into(), &values, &mut out);
    out
}

/// The value of a TLV of the client's own PROXY header. `None` without it.
pub(crate) fn received(session: &ClientSession, kind: u8) -> Option<Vec<u8>> {
    let header = session.proxy_header();
    header.as_ref()?.fields.iter().find(|field| field.0 == kind).map(|field| field.1.to_vec())
}

fn endpoints(stream: &Stream) -> (Address, Address) {
    (stream.source().clone(), stream.destination().clone())
}

fn addresses<'a>(source: &Address, destination: &Address) -> ClientAddresses<'a> {
    match (source.inet(), destination.inet()) {
        (Some(source), Some(destination)) => ClientAddresses::Inet { source, destination },
        _ => ClientAddresses::Unknown,
    }
}
