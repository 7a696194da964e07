//! The framing of a body (RFC 9112, 6.3).

use weir_http::{BodySize, Head, HeadFlags, Kind, KnownName, Method, NoRoom, body, status};

/// How the body after a head is delimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyFraming {
    None,
    /// A body of this many bytes, at least one.
    Length(u64),
    Chunked,
    /// The body ends when the connection closes. Responses only.
    UntilClose,
    /// The connection becomes a tunnel: bytes are forwarded unchanged in both directions.
    Tunnel,
}

impl BodyFraming {
    /// The framing of a body of this size, for a received head or one made here.
    #[inline]
    pub fn of(size: BodySize, head: &Head) -> Self {
        match size {
            BodySize::None => BodyFraming::None,
            BodySize::Known(length) => BodyFraming::Length(length),
            BodySize::Unknown if head.flags().contains(HeadFlags::CHUNKED) => BodyFraming::Chunked,
            BodySize::Unknown => BodyFraming::UntilClose,
            BodySize::Tunnel => BodyFraming::Tunnel,
        }
    }
}

/// The framing of a request.
#[inline]
pub fn request_framing(head: &Head) -> BodyFraming {
    BodyFraming::of(BodySize::of_request(head), head)
}

/// The framing of a response to a request with this method.
#[inline]
pub fn response_framing(head: &Head, request_method: Method) -> BodyFraming {
    BodyFraming::of(BodySize::of_response(head, request_method), head)
}

/// Restores the framing fields of an edited head: rules may have changed these fields or the status, but not the body.
/// A response without a body gets a length of 0, unless its status implies the lack of a body.
#[inline]
pub fn restate(head: &mut Head, raw: &[u8], framing: BodyFraming) -> Result<(), NoRoom> {
    if !head.is_edited() || states(head, raw, framing) {
        return Ok(());
    }
    rewrite(head, framing)
}

/// Whether the fields state exactly this framing.
fn states(head: &Head, raw: &[u8], framing: BodyFraming) -> bool {
    let wanted = length_field(head, framing);
    let (mut lengths, mut codings) = (0, 0);
    for field in head.index() {
        match field.known {
            KnownName::ContentLength => {
                if body::length(head.span_text(raw, field.value)).is_none_or(|said| Some(said) != wanted) {
                    return false;
                }
                lengths += 1;
            }
            // Received fields were validated by the parser; fields written by rules were not.
            KnownName::TransferEncoding if field.value.is_edited() => return false,
            KnownName::TransferEncoding => codings += 1,
            _ => {}
        }
    }
    let owes_length = match framing {
        BodyFraming::Length(_) => true,
        BodyFraming::None => head.kind() == Kind::Response && wanted.is_some(),
        _ => false,
    };
    (lengths == 1 || (lengths == 0 && !owes_length))
        && codings == usize::from(framing == BodyFraming::Chunked)
}

/// The `Content-Length` to write, if one is allowed.
fn length_field(head: &Head, framing: BodyFraming) -> Option<u64> {
    match framing {
        BodyFraming::Length(length) => Some(length),
        BodyFraming::None if head.kind() == Kind::Response && status::is_bodyless(head.status()) => None,
        BodyFraming::None => Some(0),
        BodyFraming::Chunked | BodyFraming::UntilClose | BodyFraming::Tunnel => None,
    }
}

#[cold]
fn rewrite(head: &mut Head, framing: BodyFraming) -> Result<(), NoRoom> {
    head.remove_known(KnownName::ContentLength);
    head.remove_known(KnownName::TransferEncoding);
    match (framing, length_field(head, framing)) {
        (BodyFraming::Chunked, _) => head.add(b"transfer-encoding", b"chunked"),
        (BodyFraming::None, _) if head.kind() == Kind::Request => Ok(()),
        (_, Some(length)) => head.add(b"content-length", itoa::Buffer::new().format(length).as_bytes()),
        (_, None) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{HeadParser, HeadProgress, ParseOptions};

    const REQUEST: &str = "POST / HTTP/1.1\r\nHost: h\r\n";
    const RESPONSE: &str = "HTTP/1.1 200 OK\r\nServer: s\r\n";
    const LENGTH: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

    /// Checks the framing fields after a rule and [`restate`], in lower case.
    #[track_caller]
    fn check(start: &str, came: &str, rule: impl Fn(&mut Head, &[u8]) -> Result<(), NoRoom>, want: &str) {
        let raw = format!("{start}{came}\r\n").into_bytes();
        let mut head = Head::new();
        let (progress, framing) = if start == REQUEST {
            let progress = HeadParser::default().request(&raw, &ParseOptions::default(), &mut head);
            (progress, request_framing(&head))
        } else {
            let progress = HeadParser::default().response(&raw, &ParseOptions::default(), &mut head);
            (progress, response_framing(&head, Method::Get))
        };
        assert!(matches!(progress, HeadProgress::Complete { .. }), "{progress:?}");
        rule(&mut head, &raw).unwrap();
        restate(&mut head, &raw, framing).unwrap();
        let about = |name: &[u8]| {
            name.eq_ignore_ascii_case(b"content-length") || name.eq_ignore_ascii_case(b"transfer-encoding")
        };
        let left: Vec<String> = head
            .fields(&raw)
            .filter(|(name, _)| about(name))
            .map(|(name, value)| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
                format!("{}: {}", text(name), text(value))
            })
            .collect();
        assert_eq!(left.join(", "), want, "{came:?}");
    }

    #[test]
    fn rules_cannot_change_the_framing_fields_of_a_head() {
        for start in [REQUEST, RESPONSE] {
            let nothing = if start == REQUEST { "" } else { "content-length: 0" };
            let zero = if start == REQUEST { "" } else { "Content-Length: 0\r\n" };
            for (came, said) in
                [(LENGTH, "content-length: 5"), (CHUNKED, "transfer-encoding: chunked"), (zero, nothing)]
            {
                check(start, came, |_, _| Ok(()), said);
                check(start, came, |head, _| head.add(b"x", b"y"), said);
                check(start, came, |head, raw| head.set(raw, b"content-length", b"3"), said);
                check(start, came, |head, raw| head.set(raw, b"content-length", b"x"), said);
                check(start, came, |head, _| head.add(b"content-length", b"5"), said);
                check(start, came, |head, _| head.add(b"content-length", b"4"), said);
                check(
                    start,
                    came,
                    |head, raw| {
                        head.remove(raw, b"content-length");
                        Ok(())
                    },
                    said,
                );
                check(
                    start,
                    came,
                    |head, raw| {
                        head.remove(raw, b"transfer-encoding");
                        Ok(())
                    },
                    said,
                );
                check(start, came, |head, _| head.add(b"transfer-encoding", b"chunked"), said);
                check(start, came, |head, raw| head.set(raw, b"transfer-encoding", b"gzip"), said);
                check(start, came, |head, raw| head.set(raw, b"Transfer-Encoding", b"chunked"), said);
            }
        }
    }

    #[test]
    fn a_response_delimited_by_close_loses_its_framing_fields() {
        check(RESPONSE, "", |head, _| head.add(b"content-length", b"3"), "");
        check(RESPONSE, "", |head, _| head.add(b"transfer-encoding", b"chunked"), "");
    }

    #[test]
    fn a_tunnel_loses_its_framing_fields() {
        let raw = b"HTTP/1.1 200 OK\r\nServer: s\r\n\r\n";
        let mut head = Head::new();
        let _ = HeadParser::default().response(raw, &ParseOptions::default(), &mut head);
        head.add(b"content-length", b"3").unwrap();
        head.add(b"transfer-encoding", b"chunked").unwrap();
        restate(&mut head, raw, BodyFraming::Tunnel).unwrap();
        assert_eq!(head.len(), 1);
    }

    #[test]
    fn a_bodyless_status_loses_its_framing_fields() {
        // The caller drops the received body, and passes `None`.
        let raw = format!("{RESPONSE}{LENGTH}\r\n").into_bytes();
        for (status, want) in [(204, 1), (101, 1), (404, 2)] {
            let mut head = Head::new();
            let _ = HeadParser::default().response(&raw, &ParseOptions::default(), &mut head);
            head.set_status(status).unwrap();
            restate(&mut head, &raw, BodyFraming::None).unwrap();
            assert_eq!(head.len(), want, "{status}");
        }
    }
}
