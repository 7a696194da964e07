//! Encodes the head of a request (RFC 9113, 8.3.1), on the client side.

use weir_hpack::{Encoder, Indexing, Token};
use weir_http::{Head, HeadFlags, KnownName, Method, uri};

use crate::response::FieldFilter;

/// Appends the header block of a request. Its `Host` becomes the authority; `scheme` is used if the target lacks one.
/// Connection-specific fields are omitted. With a `protocol`, the request is an extended CONNECT (RFC 8441, 4).
pub(crate) fn encode(
    head: &Head,
    raw: &[u8],
    scheme: &[u8],
    protocol: Option<&[u8]>,
    encoder: &mut Encoder,
    block: &mut Vec<u8>,
) {
    encoder.begin_block(block);
    let target = head.uri(raw);
    let method: &[u8] = if protocol.is_some() { b"CONNECT" } else { head.method_text(raw) };
    encoder.field(block, Token::Method, b":method", method, Indexing::NotKept);
    if let Some(protocol) = protocol {
        encoder.field(block, Token::Protocol, b":protocol", protocol, Indexing::Kept);
    }
    let host = head.find_known(raw, KnownName::Host);
    let authority = if head.method() == Method::Connect {
        Some(target)
    } else {
        let own = (uri::form(target) == uri::TargetForm::Absolute).then(|| uri::scheme(target)).flatten();
        encoder.field(block, Token::Scheme, b":scheme", own.unwrap_or(scheme), Indexing::Kept);
        encoder.field(block, Token::Path, b":path", head.target_for_http1(target), Indexing::NotKept);
        host.or_else(|| own.and(uri::authority(target)))
    };
    if let Some(authority) = authority {
        encoder.field(block, Token::Authority, b":authority", authority, Indexing::Kept);
    }
    let filter = FieldFilter::of(head);
    for field in head.index() {
        let (name, value) = head.text(raw, field);
        let indexing = match field.known {
            KnownName::Host | KnownName::Http2Settings | KnownName::Te => continue,
            // Only HTTP/1 uses this key (RFC 8441, 5).
            KnownName::SecWebsocketKey if protocol.is_some() => continue,
            KnownName::Cookie | KnownName::Authorization | KnownName::ProxyAuthorization => Indexing::Never,
            KnownName::Accept
            | KnownName::AcceptEncoding
            | KnownName::AcceptLanguage
            | KnownName::CacheControl
            | KnownName::ContentType
            | KnownName::Origin
            | KnownName::UserAgent
            | KnownName::Via
            | KnownName::XForwardedProto => Indexing::Kept,
            _ => Indexing::NotKept,
        };
        filter.encode(head, raw, (field.known, name, value), indexing, encoder, block);
    }
    if head.flags().contains(HeadFlags::TE_TRAILERS) && head.find_known(raw, KnownName::Te).is_some() {
        encoder.field(block, Token::Field(KnownName::Te), b"te", b"trailers", Indexing::NotKept);
    }
}
