//! Encodes the head of a response (RFC 9113, 8.3.2).

use weir_hpack::{Encoder, Indexing, Token};
use weir_http::values::ListMembers;
use weir_http::{Head, HeadFlags, KnownName};

/// Appends the header block of a response. HTTP/1's connection-specific fields are omitted, and names are in lower
/// case. A 101 of an HTTP/1 server accepts the extended CONNECT (RFC 8441, 5).
pub(crate) fn encode(head: &Head, raw: &[u8], encoder: &mut Encoder, block: &mut Vec<u8>) {
    encoder.begin_block(block);
    let switches = head.status() == 101;
    encoder.status(block, if switches { 200 } else { head.status() });
    let filter = FieldFilter::of(head);
    for field in head.index() {
        let (name, value) = head.text(raw, field);
        let indexing = match field.known {
            // This end has already checked it.
            KnownName::SecWebsocketAccept if switches => continue,
            KnownName::SetCookie | KnownName::Authorization | KnownName::ProxyAuthorization => {
                Indexing::Never
            }
            KnownName::Server
            | KnownName::ContentType
            | KnownName::ContentEncoding
            | KnownName::CacheControl
            | KnownName::StrictTransportSecurity
            | KnownName::Vary
            | KnownName::Via => Indexing::Kept,
            _ => Indexing::NotKept,
        };
        filter.encode(head, raw, (field.known, name, value), indexing, encoder, block);
    }
}

/// A filter that omits HTTP/1's connection-specific fields.
#[derive(Clone, Copy)]
pub(crate) struct FieldFilter {
    /// Whether `Connection` names fields.
    names_more: bool,
}

impl FieldFilter {
    pub(crate) fn of(head: &Head) -> Self {
        FieldFilter { names_more: head.flags().contains(HeadFlags::CONNECTION_OTHER) }
    }

    /// Appends a field of this head, its name in lower case, unless it is connection-specific.
    #[inline]
    pub(crate) fn encode(
        self,
        head: &Head,
        raw: &[u8],
        (known, name, value): (KnownName, &[u8], &[u8]),
        indexing: Indexing,
        encoder: &mut Encoder,
        block: &mut Vec<u8>,
    ) {
        if matches!(
            known,
            KnownName::Connection
                | KnownName::KeepAlive
                | KnownName::ProxyConnection
                | KnownName::TransferEncoding
                | KnownName::Upgrade
        ) || (self.names_more && is_named(head, raw, name))
        {
            return;
        }
        let token = Token::Field(known);
        match known {
            KnownName::Other if name.iter().any(u8::is_ascii_uppercase) => {
                encoder.field(block, token, &name.to_ascii_lowercase(), value, indexing);
            }
            KnownName::Other => encoder.field(block, token, name, value, indexing),
            known => encoder.field(block, token, known.as_str().as_bytes(), value, indexing),
        }
    }
}

/// Appends the header block of trailers, given as HTTP/1 field lines.
pub(crate) fn encode_trailers(lines: &[u8], encoder: &mut Encoder, block: &mut Vec<u8>) {
    encoder.begin_block(block);
    for line in lines.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = line[..colon].trim_ascii().to_ascii_lowercase();
        let value = line[colon + 1..].trim_ascii();
        let token = Token::of(&name);
        if token.is_pseudo() || name.is_empty() || value.contains(&0) {
            continue;
        }
        encoder.field(block, token, &name, value, Indexing::NotKept);
    }
}

/// Whether `Connection` names the field (RFC 9110, 7.6.1).
#[cold]
fn is_named(head: &Head, raw: &[u8], name: &[u8]) -> bool {
    head.index().iter().filter(|field| field.known == KnownName::Connection).any(|field| {
        ListMembers::new(head.span_text(raw, field.value)).any(|token| token.eq_ignore_ascii_case(name))
    })
}
