//! How the end of a body is found (RFC 9112, 6.3).

use weir_http::{Flags, Head, Method, status};

/// How the body after a head is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// That many bytes (never zero).
    Length(u64),
    /// Chunked coding.
    Chunked,
    /// Everything until the connection closes. Responses only.
    UntilClose,
    /// What follows is no longer HTTP: both ways are forwarded as they come.
    Tunnel,
}

/// The framing of a request. A `CONNECT` has no body: the tunnel begins with the response that accepts it.
#[inline]
pub fn request_framing(head: &Head) -> BodyFraming {
    let flags = head.flags();
    if flags.contains(Flags::CHUNKED) {
        return BodyFraming::Chunked;
    }
    match head.content_length() {
        None | Some(0) => BodyFraming::None,
        Some(length) => BodyFraming::Length(length),
    }
}

/// The framing of a response to a request with this method.
#[inline]
pub fn response_framing(head: &Head, request_method: Method) -> BodyFraming {
    let code = head.status();
    if code == 101 || (request_method == Method::Connect && (200..300).contains(&code)) {
        return BodyFraming::Tunnel;
    }
    if request_method == Method::Head || status::is_bodyless(code) {
        return BodyFraming::None;
    }
    if head.flags().contains(Flags::CHUNKED) {
        return BodyFraming::Chunked;
    }
    if head.flags().contains(Flags::HAS_TRANSFER_ENCODING) {
        return BodyFraming::UntilClose;
    }
    match head.content_length() {
        None => BodyFraming::UntilClose,
        Some(0) => BodyFraming::None,
        Some(length) => BodyFraming::Length(length),
    }
}
