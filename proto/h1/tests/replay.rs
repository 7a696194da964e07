//! What a fuzzer calls, and a corpus that is replayed, mutated, in every test run: whatever the bytes, nothing panics,
//! nothing is looked at beyond the buffer, and what one parse says, a parse in pieces says too.

use proptest::prelude::*;
use weir_h1::{
    BodyFraming, ChunkDecoder, Options, Parser, Piece, Progress, connection, request_framing,
    response_framing,
};
use weir_http::{CaseMap, Head, Kind, Method};

/// Both parsers on these bytes, whole and cut at `cut`, and everything that is asked of a head afterwards.
fn replay_head(bytes: &[u8], cut: usize) {
    for kind in [Kind::Request, Kind::Response] {
        for accept_unsafe_violations in [false, true] {
            let options = Options { accept_unsafe_violations, ..Options::default() };
            let mut head = Head::new();
            let whole = parse(kind, &mut Parser::default(), bytes, &options, &mut head);
            let (mut parser, mut pieces_head) = (Parser::default(), Head::new());
            let mut pieces = parse(kind, &mut parser, &bytes[..cut], &options, &mut pieces_head);
            if pieces == Progress::Incomplete {
                pieces = parse(kind, &mut parser, bytes, &options, &mut pieces_head);
            }
            assert_eq!(whole, pieces, "{bytes:?} cut at {cut}");
            match whole {
                Progress::Complete { head_len } => {
                    assert!(head_len <= bytes.len() && head.end() == head_len);
                    ask(&mut head, bytes);
                }
                Progress::Error(error) => assert!(error.position <= bytes.len()),
                Progress::Incomplete => {}
            }
        }
    }
}

fn parse(kind: Kind, parser: &mut Parser, raw: &[u8], options: &Options, head: &mut Head) -> Progress {
    match kind {
        Kind::Request => parser.request(raw, options, head),
        Kind::Response => parser.response(raw, options, head),
    }
}

fn ask(head: &mut Head, raw: &[u8]) {
    let _ = (head.path(raw), head.query(raw), head.path_and_query(raw), head.raw_bytes(raw));
    for (name, value) in head.fields(raw) {
        assert!(!name.is_empty());
        for occurrence in [-2, -1, 0, 1, 2] {
            let _ = (head.find(raw, name, occurrence), head.find_line(raw, name, occurrence));
        }
        let _ = weir_http::cookie::RequestCookies::new(value).count();
        let _ = weir_http::cookie::ResponseCookies::new(value).count();
        let _ = (weir_http::auth::basic(value), weir_http::date::parse(value, 0));
    }
    match head.kind() {
        Kind::Request => {
            let framing = request_framing(head);
            assert!(matches!(framing, BodyFraming::None | BodyFraming::Length(1..) | BodyFraming::Chunked));
        }
        Kind::Response => {
            let _ = response_framing(head, Method::Get);
        }
    }
    for what in [connection::Announce::Nothing, connection::Announce::Close, connection::Announce::KeepAlive]
    {
        let _ = connection::announce(head, raw, what);
    }
    let _ = (head.set_path(raw, b"/new"), head.set_query(raw, b"q"), head.set(raw, b"host", b"h"));
    let (mut out, mut adjusted) = (Vec::new(), Vec::new());
    head.write(raw, &mut out);
    let mut map = CaseMap::default();
    map.insert(b"HOST");
    head.write_adjusted(raw, Some(&map), &mut adjusted);
    assert_eq!(out.len(), adjusted.len());
}

/// Both ways through a chunked body.
fn replay_chunked(bytes: &[u8], cut: usize) {
    let whole = ChunkDecoder::new().advance(bytes);
    let mut decoder = ChunkDecoder::new();
    let pieces = decoder.advance(&bytes[..cut]).and_then(|first| {
        if first.done {
            return Ok(first);
        }
        assert_eq!(first.consumed, cut);
        let mut rest = decoder.advance(&bytes[cut..])?;
        rest.consumed += first.consumed;
        rest.payload += first.payload;
        Ok(rest)
    });
    assert_eq!(whole, pieces, "{bytes:?} cut at {cut}");
    let (mut decoder, mut at, mut payload) = (ChunkDecoder::new(), 0, 0);
    while let Ok(piece) = decoder.piece(&bytes[at..]) {
        match piece {
            Piece::Payload(range) => {
                payload += range.len();
                at += range.end;
            }
            Piece::Trailers(range) => at += range.end,
            Piece::More | Piece::Done(_) => {
                assert_eq!(whole.map(|advance| advance.payload), Ok(payload));
                break;
            }
        }
    }
}

const HEADS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, x\r\n\r\n",
    b"\r\nPOST http://u@a:80/p?q HTTP/1.1\nHost: a:80\r\nContent-Length: 3, 3\r\n\r\nabc",
    b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n\r\n",
    b"PUT /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\nX: a\r\n b\r\n\r\n",
    b"GET /ws HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    b"GET / HTTP/1.1\r\nTE: trailers, x\r\nCookie: a=b; c=\"d;e\"\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b; path=/\r\n\r\n",
    b"HTTP/1.0 204  No Content\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
    b"HTTP/2.0 101 \r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
];

const BODIES: &[&[u8]] = &[
    b"0\r\n\r\n",
    b"3\r\nabc\r\n10;ext=\"x\"\r\n0123456789abcdef\r\n0\r\nX: y\r\nZ: \r\n\r\nnext",
    b"00000000000000A \r\n0123456789\r\n0\r\n\r\n",
];

/// One change to an entry of the corpus.
fn change(bytes: &mut Vec<u8>, (kind, at, byte): (u8, usize, u8)) {
    let at = at % (bytes.len() + 1);
    match kind % 4 {
        0 => bytes.insert(at, byte),
        1 if at < bytes.len() => bytes[at] = byte,
        2 if at < bytes.len() => drop(bytes.remove(at)),
        _ => bytes.extend_from_within(at..),
    }
}

fn mutated(corpus: &'static [&'static [u8]]) -> impl Strategy<Value = (Vec<u8>, usize)> {
    let byte = prop_oneof![any::<u8>(), proptest::sample::select(b"\r\n\0 :,;=\t\"0a/".to_vec())];
    let changes = proptest::collection::vec((any::<u8>(), any::<usize>(), byte), 0..6);
    (proptest::sample::select(corpus), changes, any::<usize>()).prop_map(|(entry, changes, cut)| {
        let mut bytes = entry.to_vec();
        changes.into_iter().for_each(|one| change(&mut bytes, one));
        let cut = cut % (bytes.len() + 1);
        (bytes, cut)
    })
}

#[test]
fn the_corpus_at_every_cut() {
    for bytes in HEADS {
        (0..=bytes.len()).for_each(|cut| replay_head(bytes, cut));
    }
    for bytes in BODIES {
        (0..=bytes.len()).for_each(|cut| replay_chunked(bytes, cut));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn heads((bytes, cut) in mutated(HEADS)) {
        replay_head(&bytes, cut);
    }

    #[test]
    fn chunked_bodies((bytes, cut) in mutated(BODIES)) {
        replay_chunked(&bytes, cut);
    }
}
