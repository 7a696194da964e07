//! HTTP/1 heads and chunked bodies. The first byte selects the offset of the cut.

use weir_h1::{
    Advance, BodyFraming, ChunkDecoder, ChunkError, HeadParser, HeadProgress, ParseOptions, connection,
    request_framing, response_framing,
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
        let options = ParseOptions { accept_unsafe_violations, ..ParseOptions::default() };
        let mut whole_head = Head::new();
        let whole = parse(kind, &mut HeadParser::default(), bytes, &options, &mut whole_head);
        let (mut parser, mut head) = (HeadParser::default(), Head::new());
        let mut pieces = parse(kind, &mut parser, &bytes[..cut], &options, &mut head);
        if pieces == HeadProgress::Incomplete {
            pieces = parse(kind, &mut parser, bytes, &options, &mut head);
        }
        assert_eq!(whole, pieces, "cut at {cut}");
        match whole {
            HeadProgress::Complete { head_len } => {
                assert!(head_len <= bytes.len() && whole_head.end() == head_len);
                inspect(&mut whole_head, bytes);
            }
            HeadProgress::Error(error) => assert!(error.position <= bytes.len()),
            HeadProgress::Incomplete => {}
        }
    }
}

fn parse(
    kind: Kind,
    parser: &mut HeadParser,
    raw: &[u8],
    options: &ParseOptions,
    head: &mut Head,
) -> HeadProgress {
    match kind {
        Kind::Request => parser.request(raw, options, head),
        Kind::Response => parser.response(raw, options, head),
    }
}

/// Makes all queries and edits of a proxy on a head. Serialized, it must be an equivalent head.
fn inspect(head: &mut Head, raw: &[u8]) {
    let _ = (head.path(raw), head.query(raw), head.path_and_query(raw), head.raw_bytes(raw));
    for (name, value) in head.fields(raw) {
        assert!(!name.is_empty());
        for occurrence in [-2, -1, 0, 1, 2] {
            let _ = (head.find(raw, name, occurrence), head.find_line(raw, name, occurrence));
        }
        let _ = weir_http::cookie::RequestCookies::new(value).count();
        let _ = weir_http::cookie::ResponseCookies::new(value).count();
        let _ = weir_http::auth::basic(value);
    }
    let kind = head.kind();
    let fields = head.fields(raw).count();
    let mut written = Vec::new();
    head.write(raw, &mut written);
    let options = ParseOptions { accept_unsafe_violations: true, ..ParseOptions::default() };
    let mut again = Head::new();
    let progress = parse(kind, &mut HeadParser::default(), &written, &options, &mut again);
    assert_eq!(
        progress,
        HeadProgress::Complete { head_len: written.len() },
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

/// A method of the decoder that consumes body bytes.
type Pass = fn(&mut ChunkDecoder, &mut [u8]) -> Result<Advance, ChunkError>;

/// A chunked body, whole and in two pieces, with its framing and without.
pub fn chunked_body(bytes: &[u8]) {
    let Some((cut, bytes)) = cut(bytes) else { return };
    let (framed, whole) = in_two(ChunkDecoder::validate, bytes, cut);
    let (bare, decoded) = in_two(|decoder, bytes| decoder.decode(bytes, false), bytes, cut);
    assert_eq!(ChunkDecoder::may_begin(bytes), whole.is_ok());
    if let Ok(found) = &whole {
        // The forwarded part must be parsed in the same way by the next hop, without anything to remove.
        let mut passed = framed[..found.consumed].to_vec();
        let again = ChunkDecoder::new().validate(&mut passed);
        assert_eq!(again, Ok(Advance { removed: 0, ..found.clone() }));
    }
    match (whole, decoded) {
        (Ok(whole), Ok(decoded)) => {
            assert_eq!((whole.payload, whole.done), (decoded.payload, decoded.done));
            assert_eq!(framed[whole.trailers], bare[decoded.trailers.clone()]);
            assert_eq!(decoded.consumed, decoded.payload + decoded.trailers.len());
        }
        (whole, decoded) => assert_eq!(whole.err(), decoded.err()),
    }
}

/// Decodes in two pieces. Returns the remaining bytes and the result, which must not depend on the cut.
fn in_two(pass: Pass, bytes: &[u8], cut: usize) -> (Vec<u8>, Result<Advance, ChunkError>) {
    let mut passed = bytes.to_vec();
    let whole = pass(&mut ChunkDecoder::new(), &mut passed);
    let mut decoder = ChunkDecoder::new();
    let (mut first, mut rest) = (bytes[..cut].to_vec(), bytes[cut..].to_vec());
    let pieces = pass(&mut decoder, &mut first).and_then(|found| {
        if found.done {
            return Ok(found);
        }
        assert_eq!(found.consumed + found.removed, cut);
        Ok(found.followed_by(pass(&mut decoder, &mut rest)?))
    });
    assert_eq!(whole, pieces, "cut at {cut}");
    (passed, whole)
}

/// The first byte selects a position in the rest.
fn cut(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&place, rest) = bytes.split_first()?;
    Some((usize::from(place) % (rest.len() + 1), rest))
}
