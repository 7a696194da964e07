//! PROXY protocol headers.

use weir_proxy_protocol::{HeaderVersion, Tlv, V2, parse, write_v1, write_v2};

/// A header. Every shorter prefix must be incomplete. A valid header must survive writing and parsing.
pub fn proxy_header(bytes: &[u8]) {
    let Ok(Some(header)) = parse(bytes) else { return };
    assert!(header.length <= bytes.len());
    for cut in 0..header.length.min(600) {
        assert_eq!(parse(&bytes[..cut]), Ok(None), "cut at {cut}");
    }
    let mut written = Vec::new();
    match header.version {
        HeaderVersion::V1 => write_v1(header.addresses, &mut written),
        HeaderVersion::V2 => {
            let tlvs: Vec<Tlv<'_>> = header.tlvs.iter().collect();
            let v2 = V2 {
                command: header.command,
                transport: header.transport,
                addresses: header.addresses,
                tlvs: &tlvs,
                checksum: false,
            };
            if write_v2(&v2, &mut written).is_err() {
                return;
            }
        }
    }
    let again = parse(&written).expect("what we write is a header").expect("what we write is complete");
    assert_eq!((again.addresses, again.length), (header.addresses, written.len()));
}
