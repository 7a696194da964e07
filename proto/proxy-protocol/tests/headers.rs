//! Headers both ways: tables of accepted and rejected ones, and every cut.

use std::net::SocketAddr;

use proptest::prelude::*;
use weir_proxy_protocol::tlv;
use weir_proxy_protocol::{
    ClientAddresses, HeaderCommand, HeaderVersion, ProxyError, ProxyHeader, Ssl, Tlv, Tlvs, Transport, V2,
    parse, write_v1, write_v2,
};

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Parses, and checks that a header that comes in two parts is the same.
fn parsed(bytes: &[u8]) -> Result<Option<ProxyHeader<'_>>, ProxyError> {
    let whole = parse(bytes);
    if let Ok(Some(header)) = whole {
        for cut in 0..header.length {
            assert_eq!(parse(&bytes[..cut]), Ok(None), "cut at {cut} of {bytes:?}");
        }
        assert_eq!(parse(&bytes[..header.length]), whole);
    }
    whole
}

fn inet(source: &str, destination: &str) -> ClientAddresses<'static> {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    ClientAddresses::Inet { source: address(source), destination: address(destination) }
}

#[track_caller]
fn check_v1(line: &str, want: Result<ClientAddresses<'static>, ProxyError>) {
    let bytes = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
    let header = parsed(&bytes);
    match want {
        Err(error) => assert_eq!(header, Err(error), "{line:?}"),
        Ok(addresses) => {
            let header = header.unwrap().unwrap();
            assert_eq!((header.addresses, header.length), (addresses, line.len()), "{line:?}");
            assert_eq!((header.version, header.command), (HeaderVersion::V1, HeaderCommand::Proxy));
        }
    }
}

#[test]
fn parses_proxy_headers_of_version_1() {
    check_v1("PROXY TCP4 1.2.3.4 5.6.7.8 1 65535\r\n", Ok(inet("1.2.3.4:1", "5.6.7.8:65535")));
    check_v1("PROXY TCP6 ::1 2001:db8::2 0 443\r\n", Ok(inet("[::1]:0", "[2001:db8::2]:443")));
    check_v1("PROXY UNKNOWN\r\n", Ok(ClientAddresses::Unknown));
    check_v1("PROXY UNKNOWN whatever stands here\r\n", Ok(ClientAddresses::Unknown));
    let longest = format!("PROXY TCP6 {0} {0} 65535 65535\r\n", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
    let address = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535";
    check_v1(&longest, Ok(inet(address, address)));
    check_v1(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(91)), Ok(ClientAddresses::Unknown));
    check_v1(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)), Err(ProxyError::LineTooLong));
    for (line, error) in [
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", ProxyError::InvalidLineEnd),
        ("PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::UnknownProtocol),
        ("PROXY tcp4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::UnknownProtocol),
        ("PROXY \r\n", ProxyError::UnknownProtocol),
        ("PROXY TCP4\r\n", ProxyError::InvalidLine),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n", ProxyError::InvalidLine),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n", ProxyError::InvalidLine),
        ("PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::InvalidLine),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n", ProxyError::InvalidLine),
        ("PROXY TCP4 ::1 ::2 1 2\r\n", ProxyError::InvalidAddress),
        ("PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::InvalidAddress),
        ("PROXY TCP4 1.2.3.256 5.6.7.8 1 2\r\n", ProxyError::InvalidAddress),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n", ProxyError::InvalidPort),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n", ProxyError::InvalidPort),
        ("PROXY TCP4 1.2.3.4 5.6.7.8 000001 2\r\n", ProxyError::InvalidPort),
        ("GET / HTTP/1.1\r\n", ProxyError::NotProxy),
        ("PROXI TCP4 1.2.3.4 5.6.7.8 1 2\r\n", ProxyError::NotProxy),
        ("\r\nGET", ProxyError::NotProxy),
    ] {
        check_v1(line, Err(error));
    }
}

/// A header of version 2: command, family, length (the body's if none), body.
fn v2(command: u8, family: u8, length: Option<u16>, body: &[u8]) -> Vec<u8> {
    let length = length.unwrap_or(body.len() as u16).to_be_bytes();
    [SIGNATURE, &[command, family], &length, body].concat()
}

const V4: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 187];

#[test]
fn parses_proxy_headers_of_version_2() {
    let bytes = v2(0x21, 0x11, None, V4);
    let header = parsed(&bytes).unwrap().unwrap();
    assert_eq!(header.addresses, inet("1.2.3.4:80", "5.6.7.8:443"));
    assert_eq!(
        (header.transport, header.command, header.length),
        (Transport::Stream, HeaderCommand::Proxy, 28)
    );

    let mut body = vec![0; 36];
    body[15] = 1;
    body[31] = 2;
    body[33] = 3;
    let bytes = v2(0x21, 0x22, None, &body);
    let header = parsed(&bytes).unwrap().unwrap();
    assert_eq!((header.addresses, header.transport), (inet("[::1]:3", "[::2]:0"), Transport::Datagram));

    let mut body = vec![0; 216];
    body[..4].copy_from_slice(b"/a/b");
    body[108..111].copy_from_slice(b"\0cd");
    let bytes = v2(0x21, 0x31, None, &body);
    let unix = ClientAddresses::Unix { source: b"/a/b", destination: b"\0cd" };
    assert_eq!(parsed(&bytes).unwrap().unwrap().addresses, unix);

    // Addresses and TLVs are skipped with LOCAL.
    let unix = [b'x'; 216];
    for (family, body) in [
        (0, &b""[..]),
        (0, b"junk"),
        (0x11, V4),
        (0x11, b"short"),
        (0x22, &[1; 36]),
        (0x31, &unix),
        (0x13, V4),
        (0x41, V4),
        (0xff, b""),
    ] {
        let bytes = v2(0x20, family, None, body);
        assert_eq!(parse(&bytes[..14]), Ok(None), "{family:x}");
        let header = parsed(&bytes).unwrap().unwrap();
        assert_eq!((header.command, header.addresses), (HeaderCommand::Local, ClientAddresses::Unknown));
        assert_eq!(header.length, bytes.len());
    }
    let bytes = v2(0x21, 0, None, &[]);
    assert_eq!(parsed(&bytes).unwrap().unwrap().addresses, ClientAddresses::Unknown);
}

#[test]
fn rejects_invalid_proxy_headers_of_version_2() {
    let with = |tlvs: &[u8]| v2(0x21, 0x11, None, &[V4, tlvs].concat());
    for (bytes, error) in [
        (v2(0x11, 0x11, None, V4), ProxyError::UnsupportedVersion),
        (v2(0x31, 0x11, None, V4), ProxyError::UnsupportedVersion),
        (v2(0x22, 0x11, None, V4), ProxyError::UnknownCommand),
        (v2(0x21, 0x41, None, V4), ProxyError::UnknownFamily),
        (v2(0x21, 0x13, None, V4), ProxyError::UnknownFamily),
        (v2(0x21, 0x11, Some(11), V4), ProxyError::TruncatedAddresses),
        (v2(0x21, 0x21, None, V4), ProxyError::TruncatedAddresses),
        (with(&[4]), ProxyError::TruncatedTlv),
        (with(&[4, 0, 1]), ProxyError::TruncatedTlv),
        (with(&[3, 0, 3, 0, 0, 0]), ProxyError::InvalidChecksum),
        (with(&[3, 0, 4, 0, 0, 0, 0]), ProxyError::ChecksumMismatch),
        (with(&[&[5, 0, 129][..], &[0; 129]].concat()), ProxyError::UniqueIdTooLong),
        (with(&[0x20, 0, 4, 0, 0, 0, 0]), ProxyError::InvalidSsl),
        (with(&[0x20, 0, 6, 0, 0, 0, 0, 0, 1]), ProxyError::InvalidSsl),
        (b"\r\n\r\n\0\r\nQUIT ".to_vec(), ProxyError::NotProxy),
    ] {
        assert_eq!(parsed(&bytes), Err(error), "{bytes:?}");
    }
    // An error in the first bytes is reported without waiting for the rest.
    assert_eq!(parse(&v2(0x11, 0, None, &[])[..13]), Err(ProxyError::UnsupportedVersion));
    assert_eq!(parse(&v2(0x21, 0x99, None, &[])[..14]), Err(ProxyError::UnknownFamily));
}

#[test]
fn proxy_header_tlvs_survive_a_round_trip() {
    let mut ssl = Vec::new();
    Ssl::write(Ssl::USED, 7, &[Tlv { kind: tlv::SSL_VERSION, value: b"TLSv1.3" }], &mut ssl);
    let tlvs = [
        Tlv { kind: tlv::ALPN, value: b"h2" },
        Tlv { kind: tlv::AUTHORITY, value: b"example.com" },
        Tlv { kind: tlv::UNIQUE_ID, value: &[9; 128] },
        Tlv { kind: tlv::SSL, value: &ssl },
        Tlv { kind: tlv::NETNS, value: b"blue" },
        Tlv { kind: tlv::NOOP, value: b"" },
    ];
    let mut bytes = b"before".to_vec();
    let addresses = inet("1.2.3.4:80", "5.6.7.8:443");
    let (command, transport) = (HeaderCommand::Proxy, Transport::Stream);
    let checksum = true;
    write_v2(&V2 { command, transport, addresses, tlvs: &tlvs, checksum }, &mut bytes).unwrap();
    let bytes = &bytes[6..];
    let header = parsed(bytes).unwrap().unwrap();
    assert_eq!(header.tlvs.find(tlv::AUTHORITY), Some(&b"example.com"[..]));
    assert_eq!(header.tlvs.find(tlv::CRC32C).map(<[u8]>::len), Some(4));
    let ssl = header.tlvs.ssl().unwrap();
    assert_eq!((ssl.client, ssl.verify), (Ssl::USED, 7));
    assert_eq!(ssl.tlvs.find(tlv::SSL_VERSION), Some(&b"TLSv1.3"[..]));
    assert_eq!(header.tlvs.iter().take(6).collect::<Vec<_>>(), tlvs);

    // A flipped bit anywhere makes the checksum wrong, or the header invalid.
    for at in 12..bytes.len() {
        let mut spoilt = bytes.to_vec();
        spoilt[at] ^= 1;
        let kept = parse(&spoilt).is_ok_and(|header| {
            header
                .is_some_and(|header| header.command == HeaderCommand::Proxy && header.tlvs.find(3).is_some())
        });
        assert!(!kept, "byte {at}");
    }
}

#[test]
fn writes_proxy_headers_of_both_versions() {
    let mut out = Vec::new();
    write_v1(inet("1.2.3.4:80", "5.6.7.8:443"), &mut out);
    write_v1(inet("[::1]:80", "[::2]:443"), &mut out);
    write_v1(inet("1.2.3.4:80", "[::2]:443"), &mut out);
    write_v1(ClientAddresses::Unix { source: b"a", destination: b"b" }, &mut out);
    assert_eq!(
        std::str::from_utf8(&out).unwrap(),
        "PROXY TCP4 1.2.3.4 5.6.7.8 80 443\r\nPROXY TCP6 ::1 ::2 80 443\r\n\
         PROXY TCP6 ::ffff:1.2.3.4 ::2 80 443\r\nPROXY UNKNOWN\r\n"
    );
    let mut out = Vec::new();
    let local = V2 {
        command: HeaderCommand::Local,
        transport: Transport::Stream,
        addresses: inet("1.2.3.4:80", "5.6.7.8:443"),
        tlvs: &[],
        checksum: false,
    };
    write_v2(&local, &mut out).unwrap();
    assert_eq!(out, v2(0x20, 0, None, &[]));
    let big = vec![0; 65530];
    let tlvs = [Tlv { kind: tlv::NOOP, value: &big }];
    let mut out = b"kept".to_vec();
    assert!(write_v2(&V2 { command: HeaderCommand::Proxy, tlvs: &tlvs, ..local }, &mut out).is_err());
    assert_eq!(out, b"kept");
}

/// The fuzzer's entry: nothing here may panic, and an accepted header can be written again.
fn replay(bytes: &[u8]) {
    if let Ok(Some(header)) = parse(bytes) {
        assert!(header.length <= bytes.len());
        let tlvs: Vec<Tlv> = header.tlvs.iter().collect();
        let mut again = Vec::new();
        let transport = header.transport;
        let rewritten =
            V2 { command: header.command, transport, addresses: header.addresses, tlvs: &[], checksum: true };
        write_v2(&rewritten, &mut again).unwrap();
        let second = parse(&again).unwrap().unwrap();
        assert_eq!((second.addresses, second.command), (header.addresses, header.command));
        assert_eq!(tlvs.len(), header.tlvs.iter().count());
    }
    let _ = Tlvs::new(bytes).map(|tlvs| tlvs.ssl());
}

proptest! {
    #[test]
    fn parsing_arbitrary_bytes_as_proxy_header_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        replay(&bytes);
        replay(&[SIGNATURE, &bytes].concat());
        replay(&[b"PROXY TCP4 ", &bytes[..]].concat());
    }

    #[test]
    fn parsing_proxy_header_like_bytes_never_panics(command in 0x20u8..0x22, family in 0u8..4, transport in 0u8..3,
                    body in proptest::collection::vec(any::<u8>(), 0..400)) {
        replay(&v2(command, family << 4 | transport, None, &body));
    }
}
