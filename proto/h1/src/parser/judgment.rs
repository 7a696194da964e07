//! Validates a whole head, once its last field is known.

use weir_http::authority::{has_port, host_fault, without_implied_port};
use weir_http::values::ListMembers;
use weir_http::{
    Head, HeadFlags, Kind, KnownName, MessageSpan, Method, NoRoom, ValueEdit, Version, status, uri,
};

use super::meaning::{Meaning, TransferEncoding};
use super::{ParseOptions, ScanStop, wrong};
use crate::error::HeadErrorKind;

/// Validates a complete head, and makes the edits that it needs to be forwarded safely.
#[inline]
pub(super) fn judge(
    meaning: &Meaning,
    raw: &[u8],
    options: &ParseOptions,
    head: &mut Head,
) -> Result<(), ScanStop> {
    let flags = head.flags();
    if flags.contains(HeadFlags::HAS_TRANSFER_ENCODING) {
        transfer_encoding(meaning, options, head)?;
    }
    match head.kind() {
        Kind::Request => request(meaning, raw, options, head),
        Kind::Response => response(meaning, options, head),
    }
}

/// RFC 9112, 6.1 and 6.3: the coding overrides the length, which is removed; the connection must not be reused.
#[cold]
fn transfer_encoding(meaning: &Meaning, options: &ParseOptions, head: &mut Head) -> Result<(), ScanStop> {
    let position = meaning.transfer_encoding_position;
    if meaning.transfer_encoding_tolerated || meaning.transfer_encoding_respelled {
        restate_coding(meaning, head).or_else(|_| wrong(HeadErrorKind::TooLong, position))?;
        if !head.flags().contains(HeadFlags::HAS_TRANSFER_ENCODING) {
            return Ok(());
        }
    }
    match meaning.transfer_encoding {
        TransferEncoding::Chunked => {}
        TransferEncoding::OthersThenChunked => {
            return wrong(HeadErrorKind::UnsupportedTransferEncoding, position);
        }
        TransferEncoding::None | TransferEncoding::Others => {
            return wrong(HeadErrorKind::ChunkedNotFinal, position);
        }
    }
    head.note(HeadFlags::CHUNKED);
    // HTTP/1.0 does not know transfer codings, whatever the options.
    let mut insecure = !head.version().is_11_or_later();
    if head.flags().contains(HeadFlags::HAS_CONTENT_LENGTH) {
        insecure |= !options.keep_insecure_transfer_encoding;
        head.remove_known(KnownName::ContentLength);
        head.forget_content_length();
    }
    if insecure {
        head.note(HeadFlags::INSECURE_FRAMING);
    }
    Ok(())
}

/// Codings are forwarded in an unambiguous form: `chunked` once, in lower case, or none.
fn restate_coding(meaning: &Meaning, head: &mut Head) -> Result<(), NoRoom> {
    if meaning.transfer_encoding_tolerated {
        head.note(HeadFlags::VIOLATION);
    }
    match meaning.transfer_encoding {
        TransferEncoding::None => {
            head.remove_known(KnownName::TransferEncoding);
            head.unnote(HeadFlags::HAS_TRANSFER_ENCODING);
        }
        TransferEncoding::Chunked => {
            head.remove_known(KnownName::TransferEncoding);
            head.add(b"transfer-encoding", b"chunked")?;
        }
        TransferEncoding::OthersThenChunked | TransferEncoding::Others => {}
    }
    Ok(())
}

#[inline]
fn request(meaning: &Meaning, raw: &[u8], options: &ParseOptions, head: &mut Head) -> Result<(), ScanStop> {
    let flags = head.flags();
    if head.method() == Method::Connect || !head.uri(raw).starts_with(b"/") {
        target(meaning, raw, options, head)?;
    }
    if let Some(host) = meaning.host {
        host_is_one(head.span_text(raw, host), host.start())?;
    }
    let has_body =
        flags.contains(HeadFlags::HAS_TRANSFER_ENCODING) || head.content_length().is_some_and(|n| n > 0);
    if has_body {
        let position = meaning.content_length_position.max(meaning.transfer_encoding_position);
        // Some servers would read the body as the first bytes of the tunnel (RFC 9110, 9.3.6).
        if head.method() == Method::Connect {
            return wrong(HeadErrorKind::ConnectWithContent, position);
        }
        if head.version() < Version::HTTP_11
            && matches!(head.method(), Method::Get | Method::Head | Method::Delete)
        {
            if !options.accept_payload_with_any_method {
                return wrong(HeadErrorKind::PayloadForbidden, position);
            }
            head.note(HeadFlags::INSECURE_FRAMING);
        }
    }
    // If a server switched protocols before the end of a body, the body would be ambiguous. An `Upgrade` that `Connection` does not
    // name is not an offer (RFC 9110, 7.8).
    if flags.contains(HeadFlags::HAS_UPGRADE) && (has_body || !flags.contains(HeadFlags::CONNECTION_UPGRADE))
    {
        head.remove_known(KnownName::Upgrade);
        head.unnote(HeadFlags::HAS_UPGRADE | HeadFlags::UPGRADE_WEBSOCKET | HeadFlags::UPGRADE_H2C);
    }
    if head.flags().contains(HeadFlags::UPGRADE_H2C) {
        without_h2c(raw, head).or_else(|_| wrong(HeadErrorKind::TooLong, head.start()))?;
    }
    let websocket = HeadFlags::UPGRADE_WEBSOCKET | HeadFlags::CONNECTION_UPGRADE;
    if head.flags().contains(websocket) && !meaning.websocket_proof {
        if !options.accept_unsafe_violations {
            return wrong(HeadErrorKind::InvalidWebsocketKey, head.end());
        }
        head.note(HeadFlags::VIOLATION);
    }
    Ok(())
}

/// Removes `h2c` from the protocols that the client offers (obsolete: RFC 9113, 3.1). A server that accepted it
/// would speak HTTP/2 through a tunnel, past every rule on requests; an intermediary may drop the offer (RFC 9110, 7.8).
#[cold]
fn without_h2c(raw: &[u8], head: &mut Head) -> Result<(), NoRoom> {
    let mut offers = false;
    head.edit_values(raw, KnownName::Upgrade, |value| {
        let is_h2c = |protocol: &[u8]| protocol.eq_ignore_ascii_case(b"h2c");
        let protocols: Vec<&[u8]> = ListMembers::new(value).collect();
        let kept: Vec<&[u8]> =
            protocols.iter().copied().filter(|protocol| !protocol.is_empty() && !is_h2c(protocol)).collect();
        offers |= !kept.is_empty();
        match kept.len() {
            0 => ValueEdit::Remove,
            count if count < protocols.len() => ValueEdit::Replace(kept.join(&b", "[..])),
            _ => ValueEdit::Keep,
        }
    })?;
    head.remove(raw, b"http2-settings");
    head.unnote(HeadFlags::UPGRADE_H2C);
    if !offers {
        head.unnote(HeadFlags::HAS_UPGRADE);
    }
    Ok(())
}

#[inline]
fn response(meaning: &Meaning, options: &ParseOptions, head: &mut Head) -> Result<(), ScanStop> {
    let flags = head.flags();
    let code = head.status();
    // RFC 9112, 6.3: responses with these statuses never carry a body, whatever their fields announce.
    if status::is_bodyless(code) && code != 304 {
        bodyless(head);
    }
    if code == 101
        && flags.contains(HeadFlags::UPGRADE_WEBSOCKET | HeadFlags::CONNECTION_UPGRADE)
        && !meaning.websocket_proof
    {
        if !options.accept_unsafe_violations {
            return wrong(HeadErrorKind::InvalidWebsocketKey, head.end());
        }
        head.note(HeadFlags::VIOLATION);
    }
    Ok(())
}

#[cold]
fn bodyless(head: &mut Head) {
    if head.flags().intersects(HeadFlags::HAS_CONTENT_LENGTH | HeadFlags::HAS_TRANSFER_ENCODING) {
        head.remove_known(KnownName::ContentLength);
        head.remove_known(KnownName::TransferEncoding);
        head.forget_content_length();
        head.unnote(HeadFlags::HAS_TRANSFER_ENCODING | HeadFlags::CHUNKED);
    }
}

/// Checks a target other than a path: its form must match the method, and its authority the `Host` (RFC 9112, 3.2).
#[cold]
fn target(meaning: &Meaning, raw: &[u8], options: &ParseOptions, head: &mut Head) -> Result<(), ScanStop> {
    let target = head.uri(raw);
    let form = uri::form(target);
    let position = head.start();
    let unsafe_accepted = options.accept_unsafe_violations;
    match (head.method(), form) {
        (Method::Connect, uri::TargetForm::Authority) if has_port(target) => {
            head.note(HeadFlags::AUTHORITY_FORM);
        }
        (Method::Connect, uri::TargetForm::Authority) if unsafe_accepted => head.note(HeadFlags::VIOLATION),
        (Method::Options, uri::TargetForm::Asterisk) => return Ok(()),
        (Method::Connect, _) => return wrong(HeadErrorKind::TargetForm, position),
        (_, uri::TargetForm::Absolute) => head.note(HeadFlags::ABSOLUTE_FORM),
        (_, _) => return wrong(HeadErrorKind::TargetForm, position),
    }
    host_fits(meaning, raw, unsafe_accepted, head)?;
    give_path(raw, head).or_else(|_| wrong(HeadErrorKind::TooLong, position))
}

/// An absolute target without a path means the path `/` (RFC 9110, 4.2.3), and rules see only the form with a path.
/// With `OPTIONS`, it means the server as a whole, unless it has a query (RFC 9112, 3.2.4).
fn give_path(raw: &[u8], head: &mut Head) -> Result<(), NoRoom> {
    let target = head.uri(raw);
    let start = uri::path_place(target).start;
    let whole = start == target.len() && head.method() == Method::Options;
    if uri::form(target) != uri::TargetForm::Absolute || target.get(start) == Some(&b'/') || whole {
        return Ok(());
    }
    head.splice_uri(raw, start, start, b"/")
}

/// Accepts one host, with or without a port, or nothing: no list, and no other part of a target. Names are not validated
/// beyond the bytes that delimit parts of a target (RFC 9112, 3.2; RFC 3986, 3.2.2).
#[inline]
fn host_is_one(host: &[u8], position: usize) -> Result<(), ScanStop> {
    match host_fault(host) {
        None => Ok(()),
        Some(at) => wrong(HeadErrorKind::InvalidHost, position + at),
    }
}

fn host_fits(meaning: &Meaning, raw: &[u8], unsafe_accepted: bool, head: &mut Head) -> Result<(), ScanStop> {
    let target = head.uri(raw);
    let Some(authority) = uri::authority(target) else { return Ok(()) };
    let connect = head.method() == Method::Connect;
    // Bytes at which some parsers end the authority, while others take them for user information.
    let odd = authority.iter().any(|byte| matches!(byte, b',' | b'\\'));
    let authority = uri::without_userinfo(authority);
    if odd || host_is_one(authority, 0).is_err() {
        // According to the manual, the authority of CONNECT is not validated then.
        if !(connect && unsafe_accepted) {
            return wrong(HeadErrorKind::InvalidHost, head.start());
        }
        head.note(HeadFlags::VIOLATION);
        return Ok(());
    }
    // CONNECT lacks a scheme: the default ports of both schemes may be left out.
    let implied = match uri::scheme(target) {
        Some(scheme) => uri::default_port(scheme),
        None => [b"80".as_slice(), b"443"].into_iter().find(|port| has_this_port(authority, port)),
    };
    let Some(host_span) = meaning.host else {
        let length = implied.map_or(authority.len(), |port| without_implied_port(authority, port).len());
        return if connect { Ok(()) } else { shorten_authority(raw, authority.len() - length, head) };
    };
    let host = head.span_text(raw, host_span);
    let same = match implied {
        Some(port) => {
            without_implied_port(authority, port).eq_ignore_ascii_case(without_implied_port(host, port))
        }
        None => authority.eq_ignore_ascii_case(host),
    };
    if !same && unsafe_accepted {
        head.note(HeadFlags::VIOLATION);
    } else if !same {
        return wrong(HeadErrorKind::HostAuthorityMismatch, host_span.start());
    } else if let Some(port) =
        implied.filter(|port| without_implied_port(authority, port).len() != authority.len())
    {
        // The target of CONNECT is an address to connect to, so it keeps its port.
        if connect {
            let length = uri::without_port(host, port).len();
            narrow_host(raw, host_span, length, head);
            return Ok(());
        }
        let (host_length, authority_length) =
            (without_implied_port(host, port).len(), without_implied_port(authority, port).len());
        let dropped = authority.len() - authority_length;
        narrow_host(raw, host_span, host_length, head);
        return shorten_authority(raw, dropped, head);
    }
    Ok(())
}

/// Removes the last `dropped` bytes, a port, from the authority of an absolute target.
fn shorten_authority(raw: &[u8], dropped: usize, head: &mut Head) -> Result<(), ScanStop> {
    if dropped == 0 {
        return Ok(());
    }
    let end = uri::path_place(head.uri(raw)).start;
    head.splice_uri(raw, end - dropped, end, b"").or_else(|_| wrong(HeadErrorKind::TooLong, head.start()))
}

fn has_this_port(authority: &[u8], port: &[u8]) -> bool {
    uri::without_port(authority, port).len() != authority.len()
}

fn narrow_host(raw: &[u8], host_span: MessageSpan, length: usize, head: &mut Head) {
    if head.span_text(raw, host_span).len() != length
        && let Some(position) = head.index().iter().position(|field| field.known == KnownName::Host)
    {
        head.narrow_value(position, length);
    }
}
