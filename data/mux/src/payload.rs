//! The payload of a body that waits, without its framing.

use std::borrow::Cow;

use weir_h1::{ChunkDecoder, Piece};

/// The payload of framed bytes that were validated before; chunks are joined in the buffer that `room` gives. None if the
/// chunked coding is invalid.
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
