//! Chunks at every cut, and each refusal.

use proptest::prelude::*;

use super::*;
use crate::chunk_encoder::{CHUNK_END, ChunkHeader, LAST_CHUNK};

/// A decoded body: its payload, its trailers, how many bytes it took; or `None` while it is not complete.
type DecodedBody = (Vec<u8>, Vec<u8>, usize);

fn decode(bytes: &[u8], pieces: &[usize]) -> Result<Option<DecodedBody>, ChunkError> {
    let moved = decode_or_skip(bytes, pieces, false);
    assert_eq!(decode_or_skip(bytes, pieces, true), moved);
    moved
}

fn decode_or_skip(bytes: &[u8], pieces: &[usize], may_skip: bool) -> Result<Option<DecodedBody>, ChunkError> {
    let mut decoder = ChunkDecoder::new();
    let (mut payload, mut trailers, mut at) = (Vec::new(), Vec::new(), 0);
    for end in pieces.iter().copied().chain([bytes.len()]) {
        let mut part = bytes[at..end].to_vec();
        let advance = decoder.decode(&mut part, may_skip)?;
        let part = &part[advance.skipped..];
        assert!(may_skip || advance.skipped == 0);
        at += advance.skipped + advance.consumed + advance.removed;
        payload.extend_from_slice(&part[..advance.payload]);
        trailers.extend_from_slice(&part[advance.trailers.clone()]);
        assert_eq!(advance.consumed, advance.payload + advance.trailers.len());
        if advance.done {
            // The bytes after the body have moved up behind it.
            assert_eq!(part[advance.consumed..part.len() - advance.removed], bytes[at..end]);
            return Ok(Some((payload, trailers, at)));
        }
        assert_eq!(at, end);
    }
    Ok(None)
}

/// The forwarded bytes of a body, how many bytes it took, how much of it was payload, and whether it ended.
type ForwardedBody = (Vec<u8>, usize, usize, bool);

fn pass(bytes: &[u8], pieces: &[usize]) -> Result<ForwardedBody, ChunkError> {
    let mut decoder = ChunkDecoder::new();
    let (mut passed, mut at, mut payload) = (Vec::new(), 0, 0);
    for end in pieces.iter().copied().chain([bytes.len()]) {
        let mut part = bytes[at..end].to_vec();
        let advance = decoder.validate(&mut part)?;
        at += advance.consumed + advance.removed;
        payload += advance.payload;
        passed.extend_from_slice(&part[..advance.consumed]);
        if advance.done {
            // The bytes after the body have moved up behind it.
            assert_eq!(part[advance.consumed..part.len() - advance.removed], bytes[at..end]);
            return Ok((passed, at, payload, true));
        }
        assert_eq!(at, end);
    }
    Ok((passed, at, payload, false))
}

#[track_caller]
fn check(bytes: &str, want: Result<Option<(&str, &str)>, ChunkError>) {
    let bytes = bytes.as_bytes();
    let whole = decode(bytes, &[]);
    let seen = whole.as_ref().map(|body| {
        body.as_ref().map(|(payload, trailers, _)| {
            (std::str::from_utf8(payload).unwrap(), std::str::from_utf8(trailers).unwrap())
        })
    });
    assert_eq!(seen, want.as_ref().map(|body| *body), "{:?}", String::from_utf8_lossy(bytes));
    for cut in 0..bytes.len() {
        assert_eq!(decode(bytes, &[cut]), whole, "cut at {cut}");
    }
    let every: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(decode(bytes, &every), whole);
    let passed = pass(bytes, &every);
    assert_eq!(passed, pass(bytes, &[]));
    assert_eq!(ChunkDecoder::may_begin(bytes), passed.is_ok());
    match (passed, whole) {
        (Ok((passed, used, payload, true)), Ok(Some(body))) => {
            assert_eq!((used, payload), (body.2, body.0.len()));
            // The forwarded bytes decode to the same body, and nothing more is removed from them.
            assert_eq!(decode(&passed, &[]), Ok(Some((body.0, body.1, passed.len()))));
            assert_eq!(pass(&passed, &[]).map(|again| again.0), Ok(passed));
        }
        (Ok((_, _, _, false)), Ok(None)) => {}
        (Err(one), Err(other)) => assert_eq!(one, other),
        (one, other) => panic!("{one:?} but {other:?}"),
    }
}

#[test]
fn decodes_chunked_bodies_with_trailers() {
    check("0\r\n\r\n", Ok(Some(("", ""))));
    check("3\r\nabc\r\n0\r\n\r\n", Ok(Some(("abc", ""))));
    check("3\r\nabc\r\n00A\r\n0123456789\r\n000\r\n\r\nGET", Ok(Some(("abc0123456789", ""))));
    check("3;ext=1;x=\"a b\"\r\nabc\r\n0 ;y\r\n\r\n", Ok(Some(("abc", ""))));
    check("3  \r\nabc\r\n0\r\n\r\n", Ok(Some(("abc", ""))));
    check("1\r\na\r\n0\r\nX: y\r\nZ:\r\n\r\n", Ok(Some(("a", "X: y\r\nZ:\r\n"))));
    check("3\r\nab", Ok(None));
    check("", Ok(None));
}

#[test]
fn removes_chunk_extensions() {
    #[track_caller]
    fn check(bytes: &str, want: &str) {
        let passed = pass(bytes.as_bytes(), &[]).unwrap().0;
        assert_eq!(String::from_utf8(passed).unwrap(), want);
    }
    check("3;a=b\r\nabc\r\n0\r\n\r\nGET", "3\r\nabc\r\n0\r\n\r\n");
    check(
        "3 ; a = \"x;y\"\r\nabc\r\n1\t\r\nd\r\n0;z\r\nX: y\r\n\r\n",
        "3\r\nabc\r\n1\r\nd\r\n0\r\nX: y\r\n\r\n",
    );
    check("3;\r\nabc\r\n0;\u{e9}\r\n\r\n", "3\r\nabc\r\n0\r\n\r\n");
    check("3;a", "3");
}

#[test]
fn chunk_extensions_are_limited_relative_to_the_payload() {
    let body = |payload: usize, chunks: usize| {
        let chunk = format!("{payload:x};{}\r\n{}\r\n", "e".repeat(85), "p".repeat(payload));
        decode(format!("{}0\r\n\r\n", chunk.repeat(chunks)).as_bytes(), &[]).map(drop)
    };
    // Signed chunks carry 8 kB at least.
    assert_eq!(body(8192, 300), Ok(()));
    assert_eq!(body(1, 150), Ok(()));
    assert_eq!(body(1, 300), Err(ChunkError::ExtensionTooLong));
}

#[test]
fn payload_of_plain_chunks_raises_the_limit_of_extensions() {
    let signed = format!("1;{}\r\np\r\n", "e".repeat(85)).repeat(150);
    let plain = format!("1000\r\n{}\r\n", "p".repeat(4096)).repeat(40);
    let body = format!("{signed}{plain}{signed}0\r\n\r\n");
    assert!(decode(body.as_bytes(), &[]).is_ok());
    assert!(pass(body.as_bytes(), &[]).is_ok());
    assert_eq!(
        decode(format!("{signed}{signed}0\r\n\r\n").as_bytes(), &[]),
        Err(ChunkError::ExtensionTooLong)
    );
}

#[test]
fn rejects_invalid_chunked_codings() {
    for (bytes, want) in [
        ("\r\n", ChunkError::InvalidSize),
        (" 3\r\n", ChunkError::InvalidSize),
        ("-3\r\n", ChunkError::InvalidSize),
        ("0x3\r\n", ChunkError::InvalidSize),
        ("3_\r\n", ChunkError::InvalidSize),
        ("3\nabc\r\n", ChunkError::InvalidLineEnd),
        ("3\rabc\r\n", ChunkError::InvalidLineEnd),
        ("3;a\nabc", ChunkError::InvalidLineEnd),
        ("3 a\r\n", ChunkError::InvalidSize),
        ("3\t3\r\n", ChunkError::InvalidSize),
        ("3;a\rb\r\n", ChunkError::InvalidLineEnd),
        ("3;a\u{1}\r\n", ChunkError::InvalidExtension),
        ("3;a\u{0}\r\n", ChunkError::InvalidExtension),
        ("3\r\nabc\n0\r\n\r\n", ChunkError::MissingLineEnd),
        ("3\r\nabcd\r\n", ChunkError::MissingLineEnd),
        ("3\r\nabc\r0", ChunkError::InvalidLineEnd),
        ("0\r\n\n", ChunkError::InvalidLineEnd),
        ("0\r\n\rX", ChunkError::InvalidLineEnd),
        ("0\r\nX : y\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\nX(: y\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\n: y\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\nX: y\r\n fold\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\nX\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\nX: \u{0}\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\nX: y\r\nContent-Length: 3\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\ntransfer-ENCODING: chunked\r\n\r\n", ChunkError::InvalidTrailer),
        ("0\r\nX: y\nZ: z\r\n\r\n", ChunkError::InvalidLineEnd),
        ("0\r\nX: y\rZ: z\r\n\r\n", ChunkError::InvalidLineEnd),
        ("00000000000000003\r\n", ChunkError::SizeTooLarge),
        ("10000000000000000\r\n", ChunkError::SizeTooLarge),
        ("1\r\nx\r\n1;a\r\nz1\r\nx\r\n\r\n0\r\n\r\n", ChunkError::MissingLineEnd),
        ("1\r\nx\r\n1\r\nz1\r\nx\r\n\r\n0\r\n\r\n", ChunkError::MissingLineEnd),
        ("1\r\nx\r\n1\r\nx\r\n2\r\nab\r\n1\r\nab\r\n0\r\n\r\n", ChunkError::MissingLineEnd),
        ("7fffffffffffffff\r\n", ChunkError::SizeTooLarge),
        ("10000000000000\r\n", ChunkError::SizeTooLarge),
        ("0010000000000000\r\n", ChunkError::SizeTooLarge),
    ] {
        check(bytes, Err(want));
    }
    check("fffffffffffff\r\nabc", Ok(None));
    check("000fffffffffffff\r\nabc", Ok(None));
}

#[test]
fn lengths_of_extensions_and_trailers_are_limited() {
    let long = |size: u16| format!("0;{}\r\n\r\n", "x".repeat(usize::from(size) - 1));
    assert!(decode(long(ChunkDecoder::MAX_EXTENSION).as_bytes(), &[]).is_ok());
    let extension = decode(long(ChunkDecoder::MAX_EXTENSION + 1).as_bytes(), &[]);
    assert_eq!(extension, Err(ChunkError::ExtensionTooLong));
    let trailers = "0\r\n".to_owned() + &"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".repeat(600) + "\r\n";
    assert_eq!(decode(trailers.as_bytes(), &[]), Err(ChunkError::TrailersTooLong));
}

#[test]
fn bytes_after_the_last_chunk_are_not_examined() {
    type Pass = fn(&mut ChunkDecoder, &mut [u8]) -> Result<Advance, ChunkError>;
    let passes: [Pass; 2] = [ChunkDecoder::validate, |decoder, bytes| decoder.decode(bytes, true)];
    for pass in passes {
        let mut decoder = ChunkDecoder::new();
        assert!(pass(&mut decoder, &mut b"0\r\n\r\n".to_vec()).is_ok_and(|advance| advance.done));
        assert!(decoder.is_done());
        let nothing = Advance { consumed: 0, skipped: 0, removed: 0, payload: 0, trailers: 0..0, done: true };
        assert_eq!(pass(&mut decoder, &mut b"GET".to_vec()), Ok(nothing));
    }
}

proptest! {
    #[test]
    fn decodes_any_encoded_chunked_body(
        chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..6),
        pieces in proptest::collection::vec(0usize..300, 0..8),
        rest in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            bytes.extend_from_slice(ChunkHeader::new(chunk.len() as u64).as_bytes());
            bytes.extend_from_slice(chunk);
            bytes.extend_from_slice(CHUNK_END);
        }
        bytes.extend_from_slice(LAST_CHUNK);
        let length = bytes.len();
        bytes.extend_from_slice(&rest);
        let mut pieces: Vec<usize> = pieces.into_iter().map(|end| end.min(bytes.len())).collect();
        pieces.sort_unstable();
        prop_assert_eq!(decode(&bytes, &pieces), Ok(Some((chunks.concat(), Vec::new(), length))));
        let framed = bytes[..length].to_vec();
        prop_assert_eq!(pass(&bytes, &pieces), Ok((framed, length, chunks.concat().len(), true)));
    }

    #[test]
    fn repeated_equal_chunks_are_decoded_like_all_others(
        parts in proptest::collection::vec(
            proptest::sample::select(vec![
                "1\r\nx\r\n", "1\r\ny\r\n", "1\r\nx\r\n", "2\r\nab\r\n", "02\r\nab\r\n", "1;a\r\nx\r\n", "1;a\r\nx",
                "00000b\r\n1\r\nx\r\n1\r\nx\r\n", "11\r\n17 bytes of a chunk\r\n", "1\r\n", "x", "\r\n", "0\r\n", "0\r\n\r\n",
            ]), 0..12),
        pieces in proptest::collection::vec(0usize..60, 0..4),
    ) {
        let bytes = parts.concat().into_bytes();
        let mut pieces: Vec<usize> = pieces.into_iter().map(|end| end.min(bytes.len())).collect();
        pieces.sort_unstable();
        // A step for each byte knows no last chunk.
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(decode(&bytes, &pieces), decode(&bytes, &every));
        prop_assert_eq!(pass(&bytes, &pieces), pass(&bytes, &every));
        prop_assert_eq!(ChunkDecoder::may_begin(&bytes), pass(&bytes, &every).is_ok());
    }

    #[test]
    fn runs_of_equal_sized_chunks_are_decoded_like_all_others(
        runs in proptest::collection::vec((1usize..40, 1usize..20), 1..4),
        // A byte that replaces one of the encoded bytes.
        wrong in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
        pieces in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let mut bytes = Vec::new();
        for (size, count) in runs {
            for _ in 0..count {
                bytes.extend_from_slice(ChunkHeader::new(size as u64).as_bytes());
                // Chunks differ in their payload.
                let start = bytes.len();
                bytes.extend((0..size).map(|at| (start + at) as u8));
                bytes.extend_from_slice(CHUNK_END);
            }
        }
        bytes.extend_from_slice(LAST_CHUNK);
        if let Some((at, byte)) = wrong {
            *at.get_mut(&mut bytes) = byte;
        }
        let mut pieces: Vec<usize> = pieces.into_iter().map(|end| end.index(bytes.len())).collect();
        pieces.sort_unstable();
        let every: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(decode(&bytes, &pieces), decode(&bytes, &every));
        prop_assert_eq!(pass(&bytes, &pieces), pass(&bytes, &every));
        prop_assert_eq!(ChunkDecoder::may_begin(&bytes), pass(&bytes, &every).is_ok());
    }

    #[test]
    fn a_chunked_body_decodes_the_same_in_any_pieces(
        bytes in proptest::collection::vec(
            proptest::sample::select(vec![b'0', b'3', b'a', b';', b'\r', b'\n', b'\r', b'\n', b' ', b':']), 0..40),
        pieces in proptest::collection::vec(0usize..40, 0..8),
    ) {
        let mut pieces: Vec<usize> = pieces.into_iter().map(|end| end.min(bytes.len())).collect();
        pieces.sort_unstable();
        prop_assert_eq!(decode(&bytes, &pieces), decode(&bytes, &[]));
        prop_assert_eq!(pass(&bytes, &pieces), pass(&bytes, &[]));
        prop_assert_eq!(ChunkDecoder::may_begin(&bytes), pass(&bytes, &[]).is_ok());
    }
}
