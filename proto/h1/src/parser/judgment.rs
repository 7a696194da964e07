//! What a whole head must satisfy, once its last field is known.

use weir_http::values::Values;
use weir_http::{Flags, Head, Kind, KnownName, Method, NoRoom, Span, Version, status, uri};

use super::meaning::{Meaning, TransferEncoding};
use super::{Options, Stop, wrong};
use crate::error::HeadErrorKind;

/// Judges a complete head, and makes the edits that it needs to be forwarded safely.
#[inline]
pub(super) fn judge(meaning: &Meaning, raw: &[u8], options: &Options, head: &mut Head) -> Result<(), Stop> {
    let flags = head.flags();
    if flags.contains(Flags::HAS_TRANSFER_ENCODING) {
        transfer_encoding(meaning, options, head)?;
    }
    match head.kind() {
        Kind::Request => request(meaning, raw, options, head),
        Kind::Response => response(meaning, options, head),
    }
}

/// RFC 9112, 6.1 and 6.3: the coding wins over the length, which goes; the connection is not to be trusted further.
#[cold]
fn transfer_encoding(meaning: &Meaning, options: &Options, head: &mut Head) -> Result<(), Stop> {
    let position = meaning.transfer_encoding_position;
    match meaning.transfer_encoding {
        TransferEncoding::Chunked => {}
        TransferEncoding::OthersThenChunked => {
            return wrong(HeadErrorKind::UnsupportedTransferEncoding, position);
        }
        TransferEncoding::None | TransferEncoding::Others => {
            return wrong(HeadErrorKind::ChunkedNotFinal, position);
        }
    }
    head.note(Flags::CHUNKED);
    let mut insecure = !head.version().is_11_or_later();
    if head.flags().contains(Flags::HAS_CONTENT_LENGTH) {
        insecure = true;
        head.remove_known(KnownName::ContentLength);
        head.forget_content_length();
    }
    if insecure && !options.keep_insecure_transfer_encoding {
        head.note(Flags::INSECURE_FRAMING);
    }
    Ok(())
}

#[inline]
fn request(meaning: &Meaning, raw: &[u8], options: &Options, head: &mut Head) -> Result<(), Stop> {
    let flags = head.flags();
    if head.method() == Method::Connect || !head.uri(raw).starts_with(b"/") {
        target(meaning, raw, options, head)?;
    }
    let has_body =
        flags.contains(Flags::HAS_TRANSFER_ENCODING) || head.content_length().is_some_and(|n| n > 0);
    if has_body {
        if head.version() < Version::HTTP_11
            && matches!(head.method(), Method::Get | Method::Head | Method::Delete)
            && !options.accept_payload_with_any_method
        {
            return wrong(
                HeadErrorKind::PayloadForbidden,
                meaning.content_length_position.max(meaning.transfer_encoding_position),
            );
        }
        // A server that switched protocols while a body is under way would leave two readings of it.
        if flags.contains(Flags::HAS_UPGRADE) {
            head.remove_known(KnownName::Upgrade);
            head.unnote(Flags::HAS_UPGRADE | Flags::UPGRADE_WEBSOCKET | Flags::UPGRADE_H2C);
        }
    }
    if head.flags().contains(Flags::UPGRADE_H2C) {
        without_h2c(raw, head).or_else(|_| wrong(HeadErrorKind::TooLong, head.start()))?;
    }
    let websocket = Flags::UPGRADE_WEBSOCKET | Flags::CONNECTION_UPGRADE;
    if head.flags().contains(websocket) && !meaning.websocket_proof {
        if !options.accept_unsafe_violations {
            return wrong(HeadErrorKind::InvalidWebsocketKey, head.end());
        }
        head.note(Flags::VIOLATION);
    }
    Ok(())
}

/// Takes `h2c` out of what the client offers to switch to (RFC 9113, 3.1, has withdrawn it). A server that took it up
/// would speak HTTP/2 through a tunnel, past every rule on requests; an intermediary may drop the offer (RFC 9110, 7.8).
#[cold]
fn without_h2c(raw: &[u8], head: &mut Head) -> Result<(), NoRoom> {
    let mut offers = false;
    let mut position = 0;
    while let Some(field) = head.index().get(position).copied() {
        if field.known != KnownName::Upgrade {
            position += 1;
            continue;
        }
        let is_h2c = |protocol: &[u8]| protocol.eq_ignore_ascii_case(b"h2c");
        let protocols: Vec<&[u8]> = Values::new(head.span_text(raw, field.value)).collect();
        let kept: Vec<&[u8]> =
            protocols.iter().copied().filter(|protocol| !protocol.is_empty() && !is_h2c(protocol)).collect();
        if kept.is_empty() {
            head.remove_at(position);
            continue;
        }
        offers = true;
        if kept.len() < protocols.len() {
            let kept = kept.join(&b", "[..]);
            head.replace_value(position, &kept)?;
        }
        position += 1;
    }
    head.remove(raw, b"http2-settings");
    head.unnote(Flags::UPGRADE_H2C);
    if !offers {
        head.unnote(Flags::HAS_UPGRADE);
    }
    Ok(())
}

#[inline]
fn response(meaning: &Meaning, options: &Options, head: &mut Head) -> Result<(), Stop> {
    let flags = head.flags();
    let code = head.status();
    // RFC 9112, 6.3: whatever these say about a length, there is no body.
    if status::is_bodyless(code) && code != 304 {
        bodyless(head);
    }
    if code == 101
        && flags.contains(Flags::UPGRADE_WEBSOCKET | Flags::CONNECTION_UPGRADE)
        && !meaning.websocket_proof
    {
        if !options.accept_unsafe_violations {
            return wrong(HeadErrorKind::InvalidWebsocketKey, head.end());
        }
        head.note(Flags::VIOLATION);
    }
    Ok(())
}

#[cold]
fn bodyless(head: &mut Head) {
    if head.flags().intersects(Flags::HAS_CONTENT_LENGTH | Flags::HAS_TRANSFER_ENCODING) {
        head.remove_known(KnownName::ContentLength);
        head.remove_known(KnownName::TransferEncoding);
        head.forget_content_length();
        head.unnote(Flags::HAS_TRANSFER_ENCODING | Flags::CHUNKED);
    }
}

/// A target that is not a path: its form must fit the method, its authority the `Host` (RFC 9112, 3.2).
#[cold]
fn target(meaning: &Meaning, raw: &[u8], options: &Options, head: &mut Head) -> Result<(), Stop> {
    let target = head.uri(raw);
    let form = uri::form(target);
    let position = head.start();
    let unsafe_accepted = options.accept_unsafe_violations;
    match (head.method(), form) {
        (Method::Connect, uri::Form::Authority) if has_port(target) => {
            head.note(Flags::AUTHORITY_FORM);
        }
        (_, uri::Form::Absolute) => head.note(Flags::ABSOLUTE_FORM),
        (Method::Connect, _) if unsafe_accepted => head.note(Flags::VIOLATION),
        (Method::Connect, _) => return wrong(HeadErrorKind::TargetForm, position),
        (_, uri::Form::Asterisk) => return Ok(()),
        (_, _) if unsafe_accepted => {
            head.note(Flags::VIOLATION);
            return Ok(());
        }
        (_, _) => return wrong(HeadErrorKind::TargetForm, position),
    }
    host_fits(meaning, raw, unsafe_accepted, head)
}

fn host_fits(meaning: &Meaning, raw: &[u8], unsafe_accepted: bool, head: &mut Head) -> Result<(), Stop> {
    let target = head.uri(raw);
    let Some(authority) = uri::authority(target) else { return Ok(()) };
    let authority = uri::without_userinfo(authority);
    let connect = head.method() == Method::Connect;
    // CONNECT has no scheme: the ports of both schemes are the ones that may be left out.
    let implied = match uri::scheme(target) {
        Some(scheme) => uri::default_port(scheme),
        None => [b"80".as_slice(), b"443"].into_iter().find(|port| has_this_port(authority, port)),
    };
    let Some(host_span) = meaning.host else {
        let length = implied.map_or(authority.len(), |port| bare(authority, port).len());
        return if connect { Ok(()) } else { shorten_authority(raw, authority.len() - length, head) };
    };
    let host = head.span_text(raw, host_span);
    let same = match implied {
        Some(port) => bare(authority, port).eq_ignore_ascii_case(bare(host, port)),
        None => authority.eq_ignore_ascii_case(host),
    };
    if !same && unsafe_accepted {
        head.note(Flags::VIOLATION);
    } else if !same {
        return wrong(HeadErrorKind::HostAuthorityMismatch, host_span.start());
    } else if let Some(port) = implied.filter(|port| bare(authority, port).len() != authority.len()) {
        // What CONNECT names is a place to connect to, not a name to compare: it keeps its port.
        if connect {
            let length = uri::without_port(host, port).len();
            narrow_host(raw, host_span, length, head);
            return Ok(());
        }
        let (host_length, authority_length) = (bare(host, port).len(), bare(authority, port).len());
        let dropped = authority.len() - authority_length;
        narrow_host(raw, host_span, host_length, head);
        return shorten_authority(raw, dropped, head);
    }
    Ok(())
}

/// Takes the last `dropped` bytes, a port, from the authority of an absolute target.
fn shorten_authority(raw: &[u8], dropped: usize, head: &mut Head) -> Result<(), Stop> {
    if dropped == 0 {
        return Ok(());
    }
    let end = uri::path_place(head.uri(raw)).start;
    head.splice_uri(raw, end - dropped, end, b"").or_else(|_| wrong(HeadErrorKind::TooLong, head.start()))
}

/// An authority without the port that its scheme implies, or without a colon that no port follows (RFC 3986, 6.2.3):
/// whoever compares hosts sees one form only.
fn bare<'a>(authority: &'a [u8], port: &[u8]) -> &'a [u8] {
    authority.strip_suffix(b":").unwrap_or_else(|| uri::without_port(authority, port))
}

fn has_this_port(authority: &[u8], port: &[u8]) -> bool {
    uri::without_port(authority, port).len() != authority.len()
}

fn narrow_host(raw: &[u8], host_span: Span, length: usize, head: &mut Head) {
    if head.span_text(raw, host_span).len() != length
        && let Some(position) = head.index().iter().position(|field| field.known == KnownName::Host)
    {
        head.narrow_value(position, length);
    }
}

/// Whether this ends with a colon and a port number.
fn has_port(authority: &[u8]) -> bool {
    match memchr::memrchr(b':', authority) {
        Some(colon) => {
            let port = &authority[colon + 1..];
            !port.is_empty() && port.len() <= 5 && port.iter().all(u8::is_ascii_digit) && colon > 0
        }
        None => false,
    }
}
