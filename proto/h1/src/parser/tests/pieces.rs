//! Random heads: the result does not depend on how they are cut, and the forwarded head is parsed in the same way.

use proptest::prelude::*;
use weir_http::{HeadFlags, Kind};

use super::{MessageOutcome, SAFE, parse};
use crate::parser::ParseOptions;

/// Fragments with a meaning in a head, so that random heads reach deep code.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let words: Vec<&'static [u8]> = vec![
        b"GET ",
        b"POST ",
        b"CONNECT ",
        b"/",
        b"a:80",
        b"http://a/",
        b" ",
        b"\t",
        b"HTTP/1.1",
        b"HTTP/1.0",
        b"200",
        b"\r\n",
        b"\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b"\0",
        b"Host: a",
        b"Content-Length: ",
        b"Transfer-Encoding: ",
        b"chunked",
        b",",
        b"3",
        b":",
        b"X",
        b"Connection: close",
        b"TE: trailers",
        b"\x80",
        b"Upgrade: websocket",
    ];
    prop_oneof![
        8 => proptest::sample::select(words).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ]
}

fn some_head() -> impl Strategy<Value = Vec<u8>> {
    let start = proptest::sample::select(vec![
        &b"GET / HTTP/1.1\r\n"[..],
        b"HTTP/1.1 200 OK\r\n",
        b"POST / HTTP/1.0\n",
        b"",
        b"\r\n",
    ]);
    (start, proptest::collection::vec(fragment(), 0..24))
        .prop_map(|(start, rest)| [start.to_vec(), rest.concat(), b"\r\n\r\n".to_vec()].concat())
}

proptest! {
    #[test]
    fn a_head_parses_the_same_in_any_pieces(
        raw in some_head(),
        pieces in proptest::collection::vec(0usize..400, 0..6),
        is_request: bool,
        accept_unsafe_violations: bool,
    ) {
        let kind = if is_request { Kind::Request } else { Kind::Response };
        let options = ParseOptions { accept_unsafe_violations, ..SAFE };
        let mut pieces: Vec<usize> = pieces.into_iter().map(|end| end.min(raw.len())).collect();
        pieces.sort_unstable();
        let (whole, _) = parse(kind, &raw, &[], &options);
        let (cut, _) = parse(kind, &raw, &pieces, &options);
        prop_assert_eq!(whole, cut);
    }

    /// The forwarded head is parsed in the same way again.
    #[test]
    fn forwarded_heads_parse_to_the_same_head(raw in some_head(), is_request: bool) {
        let kind = if is_request { Kind::Request } else { Kind::Response };
        if let (MessageOutcome::Forwarded { text, .. }, head) = parse(kind, &raw, &[], &SAFE) {
            let mut bytes = Vec::new();
            head.write(&raw, &mut bytes);
            let (again, head_again) = parse(kind, &bytes, &[], &SAFE);
            prop_assert!(matches!(again, MessageOutcome::Forwarded { .. }), "{:?} -> {:?}: {:?}", raw, text, again);
            let mut bytes_again = Vec::new();
            head_again.write(&bytes, &mut bytes_again);
            prop_assert_eq!(&bytes, &bytes_again);
            prop_assert_eq!(head.content_length(), head_again.content_length());
            prop_assert_eq!(
                head.flags().contains(HeadFlags::CHUNKED),
                head_again.flags().contains(HeadFlags::CHUNKED)
            );
            if !head.is_edited() {
                prop_assert!(!head.raw_bytes(&raw).contains(&0));
                prop_assert_eq!(
                    memchr::memchr_iter(b'\n', head.raw_bytes(&raw)).count(),
                    memchr::memmem::find_iter(head.raw_bytes(&raw), b"\r\n").count()
                );
            }
        }
    }
}
