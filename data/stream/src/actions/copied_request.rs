//! The head of a sub-request: the fields of the client's request, with changes.

use weir_config::rules::ActionContext;
use weir_config::words::{Parsed, Words, fault};
use weir_expr::scratch::Scratch;
use weir_expr::{FormatOptions, LogFormat};
use weir_fingerprint::Canonical;
use weir_http::values::ListMembers;
use weir_http::{HeadFlags, KnownName, is_token, uri};
use weir_model::Visit;
use weir_mux::Message;

use crate::stream::Stream;

/// `hdr <name> <fmt>`: a field of the sub-request, in place of the client's.
#[derive(Debug, Canonical)]
pub(super) struct OwnHeader {
    name: Box<str>,
    value: LogFormat,
}

impl OwnHeader {
    /// Reads the arguments of `hdr`.
    pub(super) fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        let expects = "'hdr' expects a name and a format.";
        let name = words.expect(expects)?;
        let name = checked_name(name.text()).map_err(|message| fault(name.span(), message))?;
        let value = words.expect(expects)?;
        Ok(OwnHeader { name, value: context.format(value, FormatOptions::HTTP)? })
    }

    pub(super) fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// Reads a list of field names, separated by commas, as the argument of `keyword`.
pub(super) fn read_names(words: &mut Words<'_>, keyword: &str) -> Parsed<Vec<Box<str>>> {
    let expects = format!("'{keyword}' expects header names, separated by commas.");
    let word = words.expect(&expects)?;
    let names = word.text().split(',').map(checked_name);
    names.collect::<Result<_, _>>().map_err(|message| fault(word.span(), message))
}

/// A field name that a rule may set or remove. The names that frame a message or belong to one connection are refused.
fn checked_name(name: &str) -> Result<Box<str>, String> {
    if !is_token(name.as_bytes()) {
        return Err(format!("'{name}' is not a valid header name."));
    }
    if belongs_to_connection(KnownName::from_bytes(name.as_bytes())) || name.eq_ignore_ascii_case("expect") {
        return Err(format!(
            "'{name}' belongs to one connection or frames a message, and cannot be used here."
        ));
    }
    Ok(name.into())
}

/// Whether a field does not go to another connection: hop-by-hop fields (RFC 9110, 7.6.1), and those that frame a body.
pub(super) fn belongs_to_connection(name: KnownName) -> bool {
    matches!(
        name,
        KnownName::Connection
            | KnownName::ContentLength
            | KnownName::Http2Settings
            | KnownName::KeepAlive
            | KnownName::ProxyConnection
            | KnownName::Te
            | KnownName::Trailer
            | KnownName::TransferEncoding
            | KnownName::Upgrade
    )
}

/// Removes the fields that the client's Connection names, as a proxy has to (RFC 9110, 7.6.1). So the servers of the request and of the
/// sub-request see the same fields, and no field that is added later is dropped on the way.
pub(super) fn remove_named_by_connection(message: &mut Message) {
    if !message.head.flags().contains(HeadFlags::CONNECTION_OTHER) {
        return;
    }
    let (head, raw) = message.edit();
    let is_option = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"close") || belongs_to_connection(KnownName::from_bytes(name))
    };
    let named = head.values(raw, b"connection").filter(|name| !is_option(name));
    let named: Vec<Box<[u8]>> = named.map(Into::into).collect();
    head.remove_matching(raw, |name| named.iter().any(|other| other.eq_ignore_ascii_case(name)));
    let lines: Vec<usize> = head.positions(raw, b"connection").collect();
    for at in lines.into_iter().rev() {
        let value = head.field_value(raw, at).unwrap_or_default();
        let options: Vec<&[u8]> = ListMembers::new(value).filter(|name| is_option(name)).collect();
        let options = options.join(&b", "[..]);
        if options.is_empty() || head.replace_value(at, &options).is_err() {
            head.remove_at(at);
        }
    }
}

/// Whether two field names are equal for a server that takes `_` for `-`, as CGI does.
pub(super) fn is_same_name(name: &[u8], other: &[u8]) -> bool {
    let folded = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.iter().zip(other).all(|(one, other)| folded(one) == folded(other))
}

/// Whether the stream's request is itself a sub-request that came back over the network, too often to send another one. Each sub-request
/// adds one more `CDN-Loop` (RFC 8586).
pub(super) fn is_in_loop(stream: &Stream) -> bool {
    let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
    head.values(raw, b"cdn-loop").filter(|value| *value == LOOP).count() >= MOST_LOOPS
}

/// The value that a sub-request adds to `CDN-Loop`.
const LOOP: &[u8] = b"weir";
/// One instance may ask another that asks a third one.
const MOST_LOOPS: usize = 2;

/// A head in the form of HTTP/1, as it grows.
pub(super) struct HeadWriter {
    text: Scratch,
}

impl HeadWriter {
    /// Begins a head. `None` if the target is not valid in a request line.
    pub(super) fn begin(method: &[u8], target: &[u8]) -> Option<Self> {
        if target.is_empty() || target.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return None;
        }
        let mut text = Scratch::take();
        for part in [method, b" ", target, b" HTTP/1.1\r\n"] {
            text.extend_from_slice(part);
        }
        Some(HeadWriter { text })
    }

    /// Adds a field. Bytes that would end its line become blanks.
    pub(super) fn add(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(b": ");
        let from = self.text.len();
        self.text.extend_from_slice(value);
        for byte in self.text[from..].iter_mut().filter(|byte| matches!(byte, b'\r' | b'\n' | b'\0')) {
            *byte = b' ';
        }
        self.text.extend_from_slice(b"\r\n");
    }

    /// Adds the fields of the stream's request that may go to another connection and that `skips` does not refuse. `skips` gets the name,
    /// and whether a rule set the value. Fields in `own` are replaced.
    pub(super) fn add_request(
        &mut self,
        stream: &mut Stream,
        own: &[OwnHeader],
        skips: impl Fn(&[u8], KnownName, bool) -> bool,
    ) {
        let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
        let names_others = head.flags().contains(HeadFlags::CONNECTION_OTHER);
        let is_named_by_connection = |name: &[u8]| {
            names_others && head.values(raw, b"connection").any(|other| other.eq_ignore_ascii_case(name))
        };
        let is_own = |name: &[u8]| own.iter().any(|header| header.name.as_bytes().eq_ignore_ascii_case(name));
        for field in head.index() {
            let (name, value) = head.text(raw, field);
            let stays = belongs_to_connection(field.known)
                || field.known == KnownName::Expect
                || is_named_by_connection(name)
                || is_own(name)
                || skips(name, field.known, field.value.is_edited());
            if !stays {
                self.add(name, value);
            }
        }
        if head.find_known(raw, KnownName::Host).is_none()
            && !is_own(b"host")
            && let Some(authority) = uri::authority(head.uri(raw))
        {
            self.add(b"host", authority);
        }
        self.add(b"cdn-loop", LOOP);
        for header in own {
            let value = stream.format(&header.value);
            // A field without a value is omitted, as in a reply.
            if !value.is_empty() {
                self.add(header.name.as_bytes(), &value);
            }
        }
    }

    /// Ends the head.
    pub(super) fn end(mut self) -> Scratch {
        self.text.extend_from_slice(b"\r\n");
        self.text
    }
}

/// Whether one of the fields in `own` has this name.
pub(super) fn sets(own: &[OwnHeader], name: &str) -> bool {
    own.iter().any(|header| header.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_cannot_end_its_line() {
        let mut head = HeadWriter::begin(b"GET", b"/a").expect("a valid target");
        head.add(b"X-A", b"b\r\nX-Evil: c\0");
        assert_eq!(head.end().as_slice(), b"GET /a HTTP/1.1\r\nX-A: b  X-Evil: c \r\n\r\n");
    }

    #[test]
    fn refuses_targets_that_a_request_line_cannot_have() {
        for target in ["", "/a b", "/a\r\nX: y", "/\u{7f}", "/a\0"] {
            assert!(HeadWriter::begin(b"GET", target.as_bytes()).is_none(), "{target:?}");
        }
    }

    #[test]
    fn names_are_equal_for_a_server_of_cgi() {
        assert!(is_same_name(b"Remote_User", b"remote-user"));
        assert!(!is_same_name(b"Remote-Users", b"remote-user"));
        assert!(!is_same_name(b"Remote.User", b"remote-user"));
    }

    #[test]
    fn fields_named_by_connection_are_removed() {
        let text = "GET / HTTP/1.1\r\nConnection: X-A, close\r\nX-A: 1\r\nx-b: 2\r\nConnection: X-B\r\nX-C: 3\r\n\r\n";
        let mut message = Message::default();
        message.read_kept(weir_http::Kind::Request, text.as_bytes()).expect("a head");
        remove_named_by_connection(&mut message);
        let mut written = Vec::new();
        message.write(&mut written);
        assert_eq!(
            String::from_utf8_lossy(&written),
            "GET / HTTP/1.1\r\nConnection: close\r\nX-C: 3\r\n\r\n"
        );
    }

    #[test]
    fn refuses_names_of_the_connection() {
        for name in ["", "a b", "Content-Length", "transfer-encoding", "Connection", "TE", "Expect", "a\r\n"]
        {
            assert!(checked_name(name).is_err(), "{name}");
        }
        assert!(checked_name("Remote-User").is_ok());
    }
}
