//! What a body's bytes carry beside their framing, for who looks at a body that waits.

use std::borrow::Cow;

use weir_h1::{ChunkDecoder, Piece};

/// The payload of framed bytes that were validated before; chunks are joined in the room that `room` gives. None if that is
/// no chunked coding.
pub(crate) fn of_chunked(framed: &[u8], room: impl FnOnce() -> Vec<u8>) -> Option<Cow<'_, [u8]>> {
    let mut decoder = ChunkDecoder::new();
    let mut joined = room();
    let mut rest = framed;
    loop {
        match decoder.piece(rest) {
            Ok(Piece::Payload(place)) => {
                joined.extend_from_slice(&rest[place.clone()]);
                rest = &rest[place.end..];
            }
            Ok(Piece::Trailers(place) | Piece::Extension(place)) => rest = &rest[place.end..],
            Ok(Piece::More | Piece::Done(_)) => return Some(Cow::Owned(joined)),
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn framing_is_no_part_of_a_body() {
        let framed = b"5\r\nb=1&a\r\n6;x=y\r\n=2;a=3\r\n0\r\nT: v\r\n\r\n";
        let whole = of_chunked(framed, Vec::new).expect("a body");
        assert_eq!(&*whole, b"b=1&a=2;a=3");
        for length in 0..framed.len() {
            let part = of_chunked(&framed[..length], Vec::new).expect("a part of a body");
            assert!(whole.starts_with(&part), "{length}");
        }
        assert!(of_chunked(b"x", Vec::new).is_none());
    }
}
