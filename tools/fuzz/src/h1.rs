//! HTTP/1 heads and chunked bodies. The first byte says where the bytes are cut.

use weir_h1::{
    BodyFraming, ChunkDecoder, Options, Parser, Piece, Progress, connection, request_framing,
    response_framing,
};
use weir_http::{CaseMap, Head, Kind, Method};

/// A request head, whole and in two pieces, with all queries.
pub fn request_head(bytes: &[u8]) {
    head(Kind::Request, bytes);
}

/// A response head, whole and in two pieces, with all queries.
pub fn response_head(bytes: &[u8]) {
    head(Kind::Response, bytes);
}

fn head(kind: Kind, bytes: &[u8]) {
    let Some((cut, bytes)) = cut(bytes) else { return };
    for accept_unsafe_violations in [false, true] {
        let options = Options { accept_unsafe_violations, ..Options::default() };
        let mut whole_head = Head::new();
        let whole = parse(kind, &mut Parser::default(), bytes, &options, &mut whole_head);
        let (mut parser, mut head) = (Parser::default(), Head::new());
        let mut pieces = parse(kind, &mut parser, &bytes[..cut], &options, &mut head);
        if pieces == Progress::Incomplete {
            pieces = parse(kind, &mut parser, bytes, &options, &mut head);
        }
        assert_eq!(whole, pieces, "cut at {cut}");
        match whole {
            Progress::Complete { head_len } => {
                assert!(head_len <= bytes.len() && whole_head.end() == head_len);
                ask(&mut whole_head, bytes);
            }
            Progress::Error(error) => assert!(error.position <= bytes.len()),
            Progress::Incomplete => {}
        }
    }
}

fn parse(kind: Kind, parser: &mut Parser, raw: &[u8], options: &Options, head: &mut Head) -> Progress {
    match kind {
        Kind::Request => parser.request(raw, options, head),
        Kind::Response => parser.response(raw, options, head),
    }
}

/// Makes all queries and edits of a proxy on a head. Serialized, it must be an equivalent head.
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
    let kind = head.kind();
    let fields = head.fields(raw).count();
    let mut written = Vec::new();
    head.write(raw, &mut written);
    let options = Options { accept_unsafe_violations: true, ..Options::default() };
    let mut again = Head::new();
    let progress = parse(kind, &mut Parser::default(), &written, &options, &mut again);
    assert_eq!(
        progress,
        Progress::Complete { head_len: written.len() },
        "{:?}",
        String::from_utf8_lossy(&written)
    );
    assert_eq!(again.fields(&written).count(), fields);
    match kind {
        Kind::Request => {
            let framing = request_framing(head);
            assert!(matches!(framing, BodyFraming::None | BodyFraming::Length(1..) | BodyFraming::Chunked));
            assert_eq!(request_framing(&again), framing);
        }
        Kind::Response => {
            assert_eq!(response_framing(&again, Method::Get), response_framing(head, Method::Get))
        }
    }
    for what in [connection::Announce::Nothing, connection::Announce::Close, connection::Announce::KeepAlive]
    {
        let _ = connection::announce(head, raw, what);
    }
    let _ = (head.set_path(raw, b"/new"), head.set_query(raw, b"q"), head.set(raw, b"host", b"h"));
    let (mut edited, mut adjusted) = (Vec::new(), Vec::new());
    head.write(raw, &mut edited);
    let mut map = CaseMap::default();
    map.insert(b"HOST");
    head.write_adjusted(raw, Some(&map), &mut adjusted);
    assert_eq!(edited.len(), adjusted.len());
}

/// A chunked body, whole, in two pieces and piece by piece.
pub fn chunked_body(bytes: &[u8]) {
    let Some((cut, bytes)) = cut(bytes) else { return };
    let mut passed = bytes.to_vec();
    let whole = ChunkDecoder::new().advance(&mut passed);
    let mut decoder = ChunkDecoder::new();
    let (mut first, mut rest) = (bytes[..cut].to_vec(), bytes[cut..].to_vec());
    let pieces = decoder.advance(&mut first).and_then(|found| {
        if found.done {
            return Ok(found);
        }
        assert_eq!(found.consumed + found.removed, cut);
        Ok(found.followed_by(decoder.advance(&mut rest)?))
    });
    assert_eq!(whole, pieces, "cut at {cut}");
    if let Ok(found) = &whole {
        // The forwarded part must be parsed in the same way by the next hop, without anything to remove.
        passed.truncate(found.consumed);
        let again = ChunkDecoder::new().advance(&mut passed);
        assert_eq!(again, Ok(weir_h1::Advance { removed: 0, ..found.clone() }));
    }
    let (mut decoder, mut at, mut payload) = (ChunkDecoder::new(), 0, 0);
    while let Ok(piece) = decoder.piece(&bytes[at..]) {
        match piece {
            Piece::Payload(range) => {
                payload += range.len();
                at += range.end;
            }
            Piece::Trailers(range) | Piece::Extension(range) => at += range.end,
            Piece::More | Piece::Done(_) => {
                assert_eq!(whole.map(|advance| advance.payload), Ok(payload));
                break;
            }
        }
    }
}

/// The first byte selects a position in the rest.
fn cut(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&place, rest) = bytes.split_first()?;
    Some((usize::from(place) % (rest.len() + 1), rest))
}
