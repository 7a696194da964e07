//! Which messages are compressed, and what changes in their heads (manual, "compression algo"; RFC 9110).

use std::sync::Arc;

use weir_compression::preferred_algorithm;
use weir_http::{Head, KnownName, Method, NoRoom, Version};
use weir_model::CompressionAlgorithm;
use weir_mux::Message;

/// The algorithm that the client of a request prefers.
pub(super) fn accepted_algorithm(
    request: &Message,
    algorithms: &[CompressionAlgorithm],
) -> Option<CompressionAlgorithm> {
    let (head, raw) = (&request.head, request.bytes());
    preferred_algorithm(head.lines(raw, b"accept-encoding"), algorithms)
}

/// Whether the message's media type begins with one of these. An empty list matches every type. Multipart bodies are never compressed,
/// nor is gRPC, which compresses its messages itself.
pub(super) fn has_type(message: &Message, types: &[Arc<str>]) -> bool {
    let Some(value) = message.head.find_known(message.bytes(), KnownName::ContentType) else {
        return types.is_empty();
    };
    let value = value.trim_ascii_start();
    let begins_with =
        |prefix: &[u8]| value.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let is_grpc =
        begins_with(GRPC) && matches!(value.get(GRPC.len()), None | Some(b'+' | b';' | b' ' | b'\t'));
    !begins_with(b"multipart")
        && !is_grpc
        && (types.is_empty() || types.iter().any(|prefix| begins_with(prefix.as_bytes())))
}

const GRPC: &[u8] = b"application/grpc";

/// Whether the response of this request may be compressed.
pub(super) fn may_request_get(request: &Message) -> bool {
    let (head, raw) = (&request.head, request.bytes());
    head.version() >= Version::HTTP_11
        && !matches!(head.method(), Method::Head | Method::Connect)
        && head.find_known(raw, KnownName::Range).is_none()
        && !is_old_browser(request)
}

/// Whether the client is an old browser that accepts codings which it cannot decode: Mozilla/4, except Internet Explorer 6 of Windows XP
/// SP2 and its successors.
fn is_old_browser(request: &Message) -> bool {
    let Some(agent) = request.head.find_line(request.bytes(), b"user-agent", 1) else { return false };
    if !agent.starts_with(b"Mozilla/4") {
        return false;
    }
    let after = |text: &[u8]| {
        let at = agent.windows(text.len()).position(|part| part == text)?;
        agent.get(at + text.len()).copied()
    };
    match after(b"MSIE ") {
        Some(b'6') => after(b"SV1").is_none(),
        Some(version) => version < b'7' && after(b"MSIE 1").is_none(),
        None => true,
    }
}

/// Whether this response may be compressed.
pub(super) fn may_response_change(response: &Message) -> bool {
    let (head, raw) = (&response.head, response.bytes());
    matches!(head.status(), 200..=203)
        && head.version() >= Version::HTTP_11
        && is_transformable(response)
        && match head.count_lines(raw, b"etag") {
            0 => true,
            1 => head.find_known(raw, KnownName::Etag).is_some_and(is_valid_tag),
            _ => false,
        }
}

/// Whether this request may be compressed.
pub(super) fn may_request_change(request: &Message) -> bool {
    request.head.version() >= Version::HTTP_11
        && request.head.method() != Method::Connect
        && !request.head.has(request.bytes(), b"content-range")
        && is_transformable(request)
}

/// Whether the message is without a content coding, and does not forbid one.
fn is_transformable(message: &Message) -> bool {
    let (head, raw) = (&message.head, message.bytes());
    let mut directives = head.values(raw, b"cache-control");
    head.find_known(raw, KnownName::ContentEncoding).is_none()
        && !directives.any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
}

/// An entity tag (RFC 9110, 8.8.3).
fn is_valid_tag(tag: &[u8]) -> bool {
    let opaque = tag.strip_prefix(b"W/").unwrap_or(tag);
    opaque.len() >= 2 && opaque.starts_with(b"\"") && opaque.ends_with(b"\"")
}

/// Edits the head of a response that will be compressed. If it returns false, the head is full, and the response must not be compressed.
pub(super) fn announce_response(response: &mut Message, algorithm: CompressionAlgorithm) -> bool {
    let (head, raw) = response.edit();
    let done =
        add_vary(head, raw).and_then(|()| weaken_tag(head, raw)).and_then(|()| add_coding(head, algorithm));
    if done.is_err() {
        return false;
    }
    if algorithm != CompressionAlgorithm::Identity {
        // Ranges of the compressed bytes are not available, and digests are of the bytes before.
        head.remove(raw, b"accept-ranges");
        remove_digests(head, raw);
    }
    true
}

/// Edits the head of a request that will be compressed. If it returns false, the head is full, and the request must not be compressed.
pub(super) fn announce_request(request: &mut Message, algorithm: CompressionAlgorithm) -> bool {
    let (head, raw) = request.edit();
    if add_coding(head, algorithm).is_err() {
        return false;
    }
    if algorithm != CompressionAlgorithm::Identity {
        remove_digests(head, raw);
    }
    true
}

fn add_coding(head: &mut Head, algorithm: CompressionAlgorithm) -> Result<(), NoRoom> {
    match algorithm {
        CompressionAlgorithm::Identity => Ok(()),
        _ => head.add(b"content-encoding", algorithm.coding().as_bytes()),
    }
}

fn add_vary(head: &mut Head, raw: &[u8]) -> Result<(), NoRoom> {
    let is_covered =
        head.values(raw, b"vary").any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"));
    if is_covered {
        return Ok(());
    }
    let Some(last) = head.positions(raw, b"vary").next_back() else {
        return head.add(b"vary", b"Accept-Encoding");
    };
    let before = head.field_value(raw, last).unwrap_or_default();
    let value = [before, b",Accept-Encoding"].concat();
    head.replace_value(last, &value)
}

/// Makes the entity tag a weak one: other clients get other bytes under it (RFC 9110, 8.8.1).
fn weaken_tag(head: &mut Head, raw: &[u8]) -> Result<(), NoRoom> {
    let Some(at) = head.positions(raw, b"etag").next() else { return Ok(()) };
    let tag = head.field_value(raw, at).unwrap_or_default();
    if tag.starts_with(b"W/") {
        return Ok(());
    }
    let weak = [b"W/", tag].concat();
    head.replace_value(at, &weak)
}

fn remove_digests(head: &mut Head, raw: &[u8]) {
    for name in DIGESTS {
        head.remove(raw, name);
    }
}

/// The fields that have a digest of the body.
pub(super) const DIGESTS: [&[u8]; 4] = [b"content-md5", b"digest", b"content-digest", b"repr-digest"];

/// A client that got a weakened tag sends it back. Its server knows the strong one: If-Match gets the strong tag, since a weak one never
/// matches, and If-None-Match gets both, for servers that compare texts.
pub(super) fn accept_strong_tags(request: &mut Message) {
    let (head, raw) = request.edit();
    for (name, keeps_weak) in [(&b"if-match"[..], false), (b"if-none-match", true)] {
        let positions: Vec<usize> = head.positions(raw, name).collect();
        for at in positions {
            let value = head.field_value(raw, at).unwrap_or_default();
            if !value.windows(3).any(|part| part == b"W/\"") {
                continue;
            }
            let mut edited = Vec::new();
            for tag in weir_http::values::ListMembers::new(value) {
                let strong = tag.strip_prefix(b"W/");
                for tag in
                    [Some(tag).filter(|_| keeps_weak || strong.is_none()), strong].into_iter().flatten()
                {
                    if !edited.is_empty() {
                        edited.extend_from_slice(b", ");
                    }
                    edited.extend_from_slice(tag);
                }
            }
            // Without room the server sees the weak tag only, and answers with the whole representation, or 412.
            let _ = head.replace_value(at, &edited);
        }
    }
}

/// Weakens the tag of a 304 response if the request names the weak one: the client stored the response under it.
pub(super) fn weaken_matched_tag(response: &mut Message, request: &Message) {
    let (head, raw) = response.edit();
    let Some(tag) = head.find_known(raw, KnownName::Etag) else { return };
    let weak = [b"W/", tag].concat();
    if request.head.values(request.bytes(), b"if-none-match").any(|named| named == weak) {
        // Without room the client keeps its copy under the weak tag, too.
        let _ = weaken_tag(head, raw).and_then(|()| add_vary(head, raw));
    }
}

#[cfg(test)]
mod tests;
