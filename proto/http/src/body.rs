//! The size of a message's body, for any HTTP version (RFC 9110, 6.4 and 8.6; RFC 9112, 6.3).

use crate::flags::HeadFlags;
use crate::head::Head;
use crate::method::Method;
use crate::status;

/// The size of the body according to the head. Each version's engine finds the end on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodySize {
    None,
    /// A body of this many bytes, at least one.
    Known(u64),
    /// Not announced. The framing on the wire shows the end.
    Unknown,
    /// The connection becomes a tunnel: bytes are forwarded unchanged in both directions.
    Tunnel,
}

/// The value of a `Content-Length`: a decimal number of at most 63 bits, without sign or space (RFC 9110, 8.6); `None`
/// for anything else.
#[inline]
pub fn length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit)).filter(|sum| *sum <= i64::MAX as u64)
    })
}

impl BodySize {
    /// The size of a request's body. A `CONNECT` never carries a body: the tunnel begins with the response that accepts
    /// it.
    #[inline]
    pub fn of_request(head: &Head) -> Self {
        if head.flags().contains(HeadFlags::CHUNKED) {
            return BodySize::Unknown;
        }
        head.content_length().map_or(BodySize::None, BodySize::of_length)
    }

    /// The size of a response's body, for a request with this method.
    #[inline]
    pub fn of_response(head: &Head, request_method: Method) -> Self {
        let code = head.status();
        if code == 101 || (request_method == Method::Connect && (200..300).contains(&code)) {
            return BodySize::Tunnel;
        }
        if request_method == Method::Head || status::is_bodyless(code) {
            return BodySize::None;
        }
        if head.flags().intersects(HeadFlags::CHUNKED | HeadFlags::HAS_TRANSFER_ENCODING) {
            return BodySize::Unknown;
        }
        head.content_length().map_or(BodySize::Unknown, BodySize::of_length)
    }

    /// The size of a body with this length; [`BodySize::None`] for 0.
    #[inline]
    pub fn of_length(length: u64) -> Self {
        if length == 0 { BodySize::None } else { BodySize::Known(length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::Version;

    fn head(status: u16, flags: HeadFlags, length: Option<u64>) -> Head {
        let mut head = Head::new();
        match status {
            0 => head.start_request(b"POST", b"/", Version::HTTP_11),
            status => head.start_response(Version::HTTP_11, status, b""),
        }
        .expect("room");
        head.note(flags);
        length.into_iter().for_each(|length| head.note_content_length(length));
        head
    }

    #[test]
    fn the_body_size_of_a_request_follows_from_its_head() {
        let of = |flags, length| BodySize::of_request(&head(0, flags, length));
        assert_eq!(of(HeadFlags::NONE, None), BodySize::None);
        assert_eq!(of(HeadFlags::NONE, Some(0)), BodySize::None);
        assert_eq!(of(HeadFlags::NONE, Some(u64::MAX)), BodySize::Known(u64::MAX));
        assert_eq!(of(HeadFlags::CHUNKED, None), BodySize::Unknown);
    }

    #[test]
    fn the_body_size_of_a_response_depends_on_status_and_method() {
        use Method::{Connect, Get, Head as HeadMethod};
        let coded = HeadFlags::HAS_TRANSFER_ENCODING;
        for (method, status, flags, length, size) in [
            (Get, 200, HeadFlags::NONE, Some(5), BodySize::Known(5)),
            (Get, 200, HeadFlags::NONE, Some(0), BodySize::None),
            (Get, 200, HeadFlags::NONE, None, BodySize::Unknown),
            (Get, 200, HeadFlags::CHUNKED, None, BodySize::Unknown),
            (Get, 200, coded, Some(5), BodySize::Unknown),
            (Get, 204, HeadFlags::CHUNKED, Some(5), BodySize::None),
            (Get, 304, HeadFlags::NONE, Some(5), BodySize::None),
            (HeadMethod, 200, HeadFlags::NONE, Some(5), BodySize::None),
            (HeadMethod, 101, HeadFlags::NONE, Some(5), BodySize::Tunnel),
            (Get, 101, HeadFlags::NONE, None, BodySize::Tunnel),
            (Connect, 200, HeadFlags::NONE, Some(5), BodySize::Tunnel),
            (Connect, 299, HeadFlags::CHUNKED, None, BodySize::Tunnel),
            (Connect, 300, HeadFlags::NONE, Some(5), BodySize::Known(5)),
        ] {
            let found = BodySize::of_response(&head(status, flags, length), method);
            assert_eq!(found, size, "{method:?} {status}");
        }
    }

    #[test]
    fn a_content_length_is_a_decimal_number_below_2_63() {
        assert_eq!(length(b"0"), Some(0));
        assert_eq!(length(b"007"), Some(7));
        assert_eq!(length(b"9223372036854775807"), Some(i64::MAX as u64));
        for no in ["", "+1", "1 ", "-1", "9223372036854775808", "18446744073709551616", "1,1", "1x", ":"] {
            assert_eq!(length(no.as_bytes()), None, "{no}");
        }
    }
}
