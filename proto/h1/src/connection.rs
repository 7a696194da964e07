//! Whether a connection persists after a request and its response, and the `Connection` field for it (RFC 9112, 9.3).
//!
//! Client and server connections persist independently: a close on one side does not close the other. So `close` and
//! `keep-alive` are not forwarded. The proxy announces the state of its own connections. One exception avoids edits in
//! the common case: `keep-alive` between HTTP/1.1 peers only repeats the default and is kept.

use weir_http::values::ListMembers;
use weir_http::{Field, Head, HeadFlags, KnownName, NoRoom, ValueEdit, Version};

use crate::framing::BodyFraming;

/// How connections are to be used (`option http-keep-alive`, `http-server-close`, `httpclose`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum PersistenceMode {
    /// Both connections stay open if the messages allow it.
    #[default]
    KeepAlive,
    /// The client side stays open, the server side closes.
    ServerClose,
    Close,
}

/// The option to announce in a `Connection` field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announce {
    /// `close`
    Close,
    /// `keep-alive`, needed when one of the peers is HTTP/1.0.
    KeepAlive,
    /// Nothing: HTTP/1.1 connections persist by default.
    Nothing,
}

/// Whether the sender of this message keeps its connection open, by the message's version and fields.
#[inline]
pub fn wants_persistence(head: &Head) -> bool {
    let flags = head.flags();
    !flags.intersects(HeadFlags::CONNECTION_CLOSE | HeadFlags::DOUBTFUL)
        && (head.version().is_11_or_later() || flags.contains(HeadFlags::CONNECTION_KEEP_ALIVE))
}

/// Whether the client's connection may serve another request after this exchange, once its bodies are complete.
#[inline]
pub fn client_persists(request: &Head, response_framing: BodyFraming, mode: PersistenceMode) -> bool {
    mode != PersistenceMode::Close && is_delimited(response_framing) && wants_persistence(request)
}

/// Whether the server's connection may serve another request after this exchange, once its bodies are complete.
#[inline]
pub fn server_persists(response: &Head, response_framing: BodyFraming, mode: PersistenceMode) -> bool {
    mode == PersistenceMode::KeepAlive && is_delimited(response_framing) && wants_persistence(response)
}

/// The announcement to the server with a request. A request with ambiguous framing ([`HeadFlags::DOUBTFUL`]) is the
/// last on its connection in any mode, because the server may read a longer or shorter body.
#[inline]
pub fn announcement_to_server(request: &Head, mode: PersistenceMode) -> Announce {
    match mode {
        _ if request.flags().intersects(HeadFlags::DOUBTFUL) => Announce::Close,
        PersistenceMode::ServerClose | PersistenceMode::Close => Announce::Close,
        PersistenceMode::KeepAlive if request.version().is_11_or_later() => Announce::Nothing,
        PersistenceMode::KeepAlive => Announce::KeepAlive,
    }
}

/// The announcement to the client with a final response. `persists` is the result of [`client_persists`].
#[inline]
pub fn announcement_to_client(request: &Head, response: &Head, persists: bool) -> Announce {
    if !persists
        && response.version() < Version::HTTP_11
        && !response.flags().contains(HeadFlags::CONNECTION_KEEP_ALIVE)
    {
        // HTTP/1.0 already implies the close.
        Announce::Nothing
    } else if !persists {
        Announce::Close
    } else if request.version() < Version::HTTP_11 || response.version() < Version::HTTP_11 {
        Announce::KeepAlive
    } else {
        Announce::Nothing
    }
}

/// Whether a rule wrote `close` into the head. A peer's field concerns its own connection; a field written by a rule concerns
/// the connection that the message goes to.
#[inline]
pub fn requests_close(head: &Head, raw: &[u8]) -> bool {
    let written = |field: &&Field| field.known == KnownName::Connection && field.value.is_edited();
    head.is_edited()
        && head.index().iter().filter(written).any(|field| {
            ListMembers::new(head.span_text(raw, field.value)).any(|token| token.eq_ignore_ascii_case(CLOSE))
        })
}

/// Whether this request allows its response to be `101 Switching Protocols`. A server may ignore the offer of an HTTP/1.0 client
/// (RFC 9110, 7.8); if it accepts, both sides speak another protocol from then on.
#[inline]
pub fn may_switch_protocols(request: &Head) -> bool {
    request.flags().contains(HeadFlags::CONNECTION_UPGRADE | HeadFlags::HAS_UPGRADE)
}

/// Corrects the tokens `close` and `keep-alive` in the `Connection` fields to `announce`. Other tokens are kept. A head
/// that already matches is not edited.
#[inline]
pub fn announce(head: &mut Head, raw: &[u8], announce: Announce) -> Result<(), NoRoom> {
    let (closes, keeps) = tokens(head, raw);
    match announce {
        Announce::Nothing if !closes => Ok(()),
        Announce::Close if closes && !keeps => Ok(()),
        Announce::KeepAlive if keeps && !closes => Ok(()),
        _ => rewrite(head, raw, announce, closes || keeps),
    }
}

/// Whether the head has `close`, and whether it has `keep-alive`. Rules may have changed it since it was parsed.
#[inline]
fn tokens(head: &Head, raw: &[u8]) -> (bool, bool) {
    if !head.is_edited() {
        let flags = head.flags();
        return (
            flags.contains(HeadFlags::CONNECTION_CLOSE),
            flags.contains(HeadFlags::CONNECTION_KEEP_ALIVE),
        );
    }
    let (mut closes, mut keeps) = (false, false);
    for field in head.index().iter().filter(|field| field.known == KnownName::Connection) {
        for token in ListMembers::new(head.span_text(raw, field.value)) {
            closes |= token.eq_ignore_ascii_case(CLOSE);
            keeps |= token.eq_ignore_ascii_case(KEEP_ALIVE);
        }
    }
    (closes, keeps)
}

#[cold]
fn rewrite(head: &mut Head, raw: &[u8], announce: Announce, has_tokens: bool) -> Result<(), NoRoom> {
    if has_tokens {
        remove_tokens(head, raw)?;
    }
    match announce {
        Announce::Close => head.add(NAME, CLOSE),
        Announce::KeepAlive => head.add(NAME, KEEP_ALIVE),
        Announce::Nothing => Ok(()),
    }
}

/// Removes `close` and `keep-alive` from every `Connection` field, and removes fields without other tokens.
fn remove_tokens(head: &mut Head, raw: &[u8]) -> Result<(), NoRoom> {
    head.edit_values(raw, KnownName::Connection, |value| {
        let mut kept = Vec::new();
        let mut removed = false;
        for token in ListMembers::new(value) {
            if token.eq_ignore_ascii_case(CLOSE) || token.eq_ignore_ascii_case(KEEP_ALIVE) {
                removed = true;
            } else if !token.is_empty() {
                kept.extend_from_slice(if kept.is_empty() { b"" } else { b", " });
                kept.extend_from_slice(token);
            }
        }
        match removed {
            false => ValueEdit::Keep,
            true if kept.is_empty() => ValueEdit::Remove,
            true => ValueEdit::Replace(kept),
        }
    })
}

#[inline]
fn is_delimited(framing: BodyFraming) -> bool {
    !matches!(framing, BodyFraming::UntilClose | BodyFraming::Tunnel)
}

const NAME: &[u8] = b"connection";
const CLOSE: &[u8] = b"close";
const KEEP_ALIVE: &[u8] = b"keep-alive";

#[cfg(test)]
mod tests {
    use weir_http::Kind;

    use super::*;
    use crate::framing::response_framing;
    use crate::parser::{HeadParser, HeadProgress, ParseOptions};

    fn parse(kind: Kind, start: &str, fields: &str) -> (Vec<u8>, Head) {
        let raw = format!("{start}\r\n{fields}\r\n").into_bytes();
        let mut head = Head::new();
        let progress = match kind {
            Kind::Request => HeadParser::default().request(&raw, &ParseOptions::default(), &mut head),
            Kind::Response => HeadParser::default().response(&raw, &ParseOptions::default(), &mut head),
        };
        assert!(matches!(progress, HeadProgress::Complete { .. }), "{progress:?}");
        (raw, head)
    }

    const GET_11: &str = "GET / HTTP/1.1";
    const GET_10: &str = "GET / HTTP/1.0";
    const OK_11: &str = "HTTP/1.1 200 OK";
    const OK_10: &str = "HTTP/1.0 200 OK";
    const KEEP: &str = "Connection: keep-alive\r\n";
    const END: &str = "Connection: close\r\n";
    const EMPTY: &str = "Content-Length: 0\r\n";

    /// One request and its response: which sides stay open in each mode, client first.
    #[track_caller]
    fn check(request: (&str, &str), response: (&str, &str), want: [(bool, bool); 3]) {
        let (_, request) = parse(Kind::Request, request.0, request.1);
        let (_, response) = parse(Kind::Response, response.0, response.1);
        let framing = response_framing(&response, request.method());
        let seen =
            [PersistenceMode::KeepAlive, PersistenceMode::ServerClose, PersistenceMode::Close].map(|mode| {
                (client_persists(&request, framing, mode), server_persists(&response, framing, mode))
            });
        assert_eq!(seen, want);
    }

    #[test]
    fn keep_alive_is_decided_separately_for_client_and_server() {
        const NONE: (bool, bool) = (false, false);
        let both = [(true, true), (true, false), NONE];
        let client = [(true, false), (true, false), NONE];
        let server = [(false, true), NONE, NONE];
        check((GET_11, ""), (OK_11, EMPTY), both);
        check((GET_11, ""), (OK_11, "Content-Length: 0\r\nConnection: close\r\n"), client);
        check((GET_11, ""), (OK_10, EMPTY), client);
        check((GET_11, ""), (OK_10, "Content-Length: 0\r\nConnection: keep-alive\r\n"), both);
        check((GET_11, END), (OK_11, EMPTY), server);
        check((GET_10, ""), (OK_11, EMPTY), server);
        check((GET_10, KEEP), (OK_11, EMPTY), both);
        check((GET_11, ""), (OK_11, ""), [NONE; 3]);
        check((GET_11, ""), (OK_11, "Transfer-Encoding: chunked\r\n"), both);
        check((GET_11, ""), ("HTTP/1.1 304 Not Modified", ""), both);
        check(("HEAD / HTTP/1.1", ""), (OK_11, ""), both);
        check(
            ("POST / HTTP/1.1", "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"),
            (OK_11, EMPTY),
            server,
        );
        check((GET_11, ""), (OK_11, "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), client);
    }

    #[track_caller]
    fn announced(fields: &str, what: Announce, want: Option<&str>) {
        let (raw, mut head) = parse(Kind::Request, GET_11, fields);
        announce(&mut head, &raw, what).unwrap();
        assert_eq!(head.is_edited(), want.is_some(), "{fields:?}");
        let mut text = Vec::new();
        head.write(&raw, &mut text);
        let want = format!("{GET_11}\r\n{}\r\n", want.unwrap_or(fields));
        assert_eq!(String::from_utf8(text).unwrap(), want);
        // A second call changes nothing.
        announce(&mut head, &raw, what).unwrap();
        let mut again = Vec::new();
        head.write(&raw, &mut again);
        assert_eq!(String::from_utf8(again).unwrap(), want);
    }

    #[test]
    fn replaces_a_connection_field_that_does_not_match() {
        announced("", Announce::Nothing, None);
        announced("", Announce::Close, Some("connection: close\r\n"));
        announced("", Announce::KeepAlive, Some("connection: keep-alive\r\n"));
        announced(KEEP, Announce::Nothing, None);
        announced(KEEP, Announce::KeepAlive, None);
        announced(KEEP, Announce::Close, Some("connection: close\r\n"));
        announced(END, Announce::Close, None);
        announced(END, Announce::Nothing, Some(""));
        announced(END, Announce::KeepAlive, Some("connection: keep-alive\r\n"));
        announced(
            "A: b\r\nConnection: close, X, keep-alive,Y\r\nConnection: close\r\nC: d\r\n",
            Announce::Nothing,
            Some("A: b\r\nConnection: X, Y\r\nC: d\r\n"),
        );
        announced("Connection: Upgrade\r\n", Announce::Nothing, None);
    }

    #[test]
    fn connection_close_and_keep_alive_are_announced_where_needed() {
        let (_, new) = parse(Kind::Request, GET_11, "");
        let (_, old) = parse(Kind::Request, GET_10, "");
        assert_eq!(announcement_to_server(&new, PersistenceMode::KeepAlive), Announce::Nothing);
        assert_eq!(announcement_to_server(&old, PersistenceMode::KeepAlive), Announce::KeepAlive);
        assert_eq!(announcement_to_server(&new, PersistenceMode::ServerClose), Announce::Close);
        let (_, answer) = parse(Kind::Response, OK_11, EMPTY);
        let (_, old_answer) = parse(Kind::Response, OK_10, EMPTY);
        assert_eq!(announcement_to_client(&new, &answer, true), Announce::Nothing);
        assert_eq!(announcement_to_client(&new, &answer, false), Announce::Close);
        assert_eq!(announcement_to_client(&old, &answer, true), Announce::KeepAlive);
        assert_eq!(announcement_to_client(&new, &old_answer, true), Announce::KeepAlive);
    }

    #[test]
    fn protocol_upgrades_require_connection_upgrade_in_http_1_1() {
        let (_, upgrade) = parse(Kind::Request, GET_11, "Connection: upgrade\r\nUpgrade: foo\r\n");
        let (_, half) = parse(Kind::Request, GET_11, "Upgrade: foo\r\n");
        let (_, old) = parse(Kind::Request, GET_10, "Connection: upgrade\r\nUpgrade: foo\r\n");
        assert_eq!([&upgrade, &half, &old].map(may_switch_protocols), [true, false, true]);
    }
}
