//! The parts of a message: priority, date, host, program, and the text.
//!
//! ```text
//!  <134>1 2026-11-20T13:05:05Z host prog 42 ID7 [a@1 b="c"] text    RFC 5424
//!  <134>Nov 20 13:05:05 host prog[42]: text                         RFC 3164
//!  <134>text                                                        a priority alone
//!  text                                                             nothing
//! ```
//! Messages that `syslog(3)` sends to a daemon on the same machine lack a host after the date: `prog[42]:` is then
//! taken for the host, as HAProxy does, so that a chain of relays delivers it unchanged.

use crate::stamp::{self, RFC3164_LENGTH, Stamp};

/// The kind of header of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderShape {
    /// At most a priority.
    #[default]
    Plain,
    Rfc3164,
    Rfc5424,
}

/// A parsed message. Every part is a part of `whole`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyslogMessage<'a> {
    /// The received message, without the newlines at its end.
    pub whole: &'a [u8],
    /// The number in angle brackets: eight times the facility, plus the level. Non-conforming senders go up to 999.
    pub priority: Option<u16>,
    /// Offset in `whole` after the priority.
    pub after_priority: usize,
    /// The kind of header after the priority.
    pub shape: HeaderShape,
    pub stamp: Stamp<'a>,
    /// The host that sent it.
    pub host: Option<&'a [u8]>,
    /// Offset in `whole` of the host, or of the dash in its place.
    pub host_at: usize,
    pub tag: Option<&'a [u8]>,
    pub process_id: Option<&'a [u8]>,
    /// RFC 5424's MSGID.
    pub message_id: Option<&'a [u8]>,
    /// RFC 5424's structured data, brackets included.
    pub structured_data: Option<&'a [u8]>,
    pub text: &'a [u8],
}

impl<'a> SyslogMessage<'a> {
    /// Parses a message. Anything that is not a known header is text.
    pub fn parse(bytes: &'a [u8]) -> Self {
        let SyslogMessage { whole, .. } = Self::unparsed(bytes);
        let Some((priority, rest)) = priority(whole) else { return Self::unparsed(bytes) };
        let after_priority = whole.len() - rest.len();
        let parsed = rfc5424(rest)
            .or_else(|| rfc3164(rest))
            .unwrap_or(SyslogMessage { text: rest, ..SyslogMessage::default() });
        SyslogMessage {
            whole,
            priority: Some(priority),
            after_priority,
            host_at: parsed.host_at + after_priority,
            ..parsed
        }
    }

    /// A message that is all text (`option dont-parse-log`).
    pub fn unparsed(bytes: &'a [u8]) -> Self {
        let end = bytes.iter().rposition(|byte| *byte != b'\n').map_or(0, |last| last + 1);
        SyslogMessage { whole: &bytes[..end], text: &bytes[..end], ..SyslogMessage::default() }
    }
}

/// The number in `<134>`, and the rest.
fn priority(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let inside = bytes.strip_prefix(b"<")?;
    let digits = inside.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..=3).contains(&digits) {
        return None;
    }
    let number = inside[..digits].iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0'));
    Some((number, inside[digits..].strip_prefix(b">")?))
}

/// RFC 5424, section 6: `1 TIMESTAMP HOSTNAME APP-NAME PROCID MSGID STRUCTURED-DATA [MSG]`.
fn rfc5424(bytes: &[u8]) -> Option<SyslogMessage<'_>> {
    let mut rest = bytes.strip_prefix(b"1 ")?;
    let stamp = match field(&mut rest)? {
        b"-" => Stamp::Unknown,
        date if stamp::is_iso(date) => Stamp::Iso(date),
        _ => return None,
    };
    let host_at = bytes.len() - rest.len();
    let host = said(field(&mut rest)?);
    let tag = said(field(&mut rest)?);
    let process_id = said(field(&mut rest)?);
    let message_id = said(field(&mut rest)?);
    let (data, rest) = rest.split_at(structured_data(rest)?);
    let text = match rest {
        [] => rest,
        [b' ', text @ ..] => text,
        _ => return None,
    };
    Some(SyslogMessage {
        shape: HeaderShape::Rfc5424,
        stamp,
        host,
        host_at,
        tag,
        process_id,
        message_id,
        structured_data: said(data),
        text,
        ..SyslogMessage::default()
    })
}

/// Takes the next word and the space behind it.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let space = memchr::memchr(b' ', rest).filter(|length| *length > 0)?;
    let word = &rest[..space];
    *rest = &rest[space + 1..];
    Some(word)
}

fn said(word: &[u8]) -> Option<&[u8]> {
    (word != b"-").then_some(word)
}

/// The length of `-` or of `[...][...]`; values are quoted, and a backslash escapes the next byte.
fn structured_data(bytes: &[u8]) -> Option<usize> {
    if bytes.first() == Some(&b'-') {
        return Some(1);
    }
    let (mut inside, mut quoted, mut escaped) = (false, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match (inside, quoted, byte) {
            _ if escaped => escaped = false,
            (true, true, b'\\') => escaped = true,
            (true, _, b'"') => quoted = !quoted,
            (true, false, b']') => inside = false,
            (true, ..) => {}
            (false, _, b'[') => inside = true,
            (false, ..) => return (at > 0).then_some(at),
        }
    }
    (!inside && !bytes.is_empty()).then_some(bytes.len())
}

/// RFC 3164, section 4.1: `Mmm dd hh:mm:ss HOSTNAME TAG: MSG`.
fn rfc3164(bytes: &[u8]) -> Option<SyslogMessage<'_>> {
    let date = stamp::rfc3164(bytes)?;
    let mut rest = bytes[RFC3164_LENGTH..].strip_prefix(b" ")?;
    let host = field(&mut rest)?;
    let message = SyslogMessage {
        shape: HeaderShape::Rfc3164,
        stamp: Stamp::Rfc3164(date),
        host: Some(host),
        host_at: RFC3164_LENGTH + 1,
        ..SyslogMessage::default()
    };
    Some(match tag(rest) {
        Some((tag, process_id, text)) => SyslogMessage { tag: Some(tag), process_id, text, ..message },
        None => SyslogMessage { text: rest, ..message },
    })
}

/// The parts of `prog[42]: ` or `prog: `, and the rest.
#[allow(clippy::type_complexity, reason = "three parts that are used once, where they are taken apart")]
fn tag(bytes: &[u8]) -> Option<(&[u8], Option<&[u8]>, &[u8])> {
    let mut rest = bytes;
    let word = field(&mut rest)?.strip_suffix(b":")?;
    let (tag, process_id) = match word.strip_suffix(b"]") {
        None if word.contains(&b'[') => return None,
        None => (word, None),
        Some(word) => {
            let bracket = memchr::memchr(b'[', word)?;
            (&word[..bracket], Some(&word[bracket + 1..]).filter(|id| !id.is_empty()))
        }
    };
    (!tag.is_empty()).then_some((tag, process_id, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(part: Option<&[u8]>) -> String {
        part.map_or("-".into(), |part| String::from_utf8_lossy(part).into_owned())
    }

    /// `priority shape date|host|tag|process|id|data|text`.
    #[track_caller]
    fn check(message: &str, expected: &str) {
        let parsed = SyslogMessage::parse(message.as_bytes());
        let date = match parsed.stamp {
            Stamp::None => "".into(),
            Stamp::Unknown => "-".into(),
            Stamp::Rfc3164(date) | Stamp::Iso(date) => String::from_utf8_lossy(date),
        };
        let priority = parsed.priority.map_or("-".to_owned(), |number| number.to_string());
        let (host, tag, process) = (shown(parsed.host), shown(parsed.tag), shown(parsed.process_id));
        let (id, data) = (shown(parsed.message_id), shown(parsed.structured_data));
        let text = String::from_utf8_lossy(parsed.text);
        let found = format!("{priority} {:?} {date}|{host}|{tag}|{process}|{id}|{data}|{text}", parsed.shape);
        assert_eq!(found, expected, "{message}");
        if let Some(host) = parsed.host {
            assert!(parsed.whole[parsed.host_at..].starts_with(host));
        }
    }

    #[test]
    fn recognises_rfc5424_messages() {
        check(
            "<134>1 2026-11-20T13:05:05.007181+00:00 myhost prog 42 ID47 [ex@1 a=\"b\"] hello there",
            "134 Rfc5424 2026-11-20T13:05:05.007181+00:00|myhost|prog|42|ID47|[ex@1 a=\"b\"]|hello there",
        );
        check("<134>1 - - - - - - hello", "134 Rfc5424 -|-|-|-|-|-|hello");
        check("<0>1 - h p 1 - -", "0 Rfc5424 -|h|p|1|-|-|");
        check("<0>1 - h p 1 - -  two spaces", "0 Rfc5424 -|h|p|1|-|-| two spaces");
        check("<0>1 - h p 1 - [a]", "0 Rfc5424 -|h|p|1|-|[a]|");
        check(
            "<0>1 - h p 1 - [a@1 b=\"\\]\\\"\"][c d=\"[]\"] x",
            "0 Rfc5424 -|h|p|1|-|[a@1 b=\"\\]\\\"\"][c d=\"[]\"]|x",
        );
    }

    #[test]
    fn malformed_rfc5424_messages_are_plain_text() {
        for text in [
            "1 bad stuff",
            "1 bad host prog 42 - - hello",
            "1  2026-11-20T13:05:05Z host prog 42 - - x",
            "2 2026-11-20T13:05:05Z host prog 42 - - x",
            "1 2026-11-20T13:05:05Z host",
            "1 - h p 1 - [a b=\"c\" unterminated",
            "1 - h p 1 - [a]x",
            "1 - h p 1 - x",
            "1 - h p 1 - ",
            "1 - h p 1 ",
        ] {
            check(&format!("<134>{text}"), &format!("134 Plain |-|-|-|-|-|{text}"));
        }
    }

    #[test]
    fn recognises_rfc3164_messages() {
        check(
            "<134>Nov 20 13:05:05 host prog[42]: hello",
            "134 Rfc3164 Nov 20 13:05:05|host|prog|42|-|-|hello",
        );
        check("<134>Nov  5 13:05:05 ::1 a/b: x", "134 Rfc3164 Nov  5 13:05:05|::1|a/b|-|-|-|x");
        check("<134>Nov 20 13:05:05 host prog: ", "134 Rfc3164 Nov 20 13:05:05|host|prog|-|-|-|");
        check("<134>Nov 20 13:05:05 host prog[]: x", "134 Rfc3164 Nov 20 13:05:05|host|prog|-|-|-|x");
        check("<134>Nov 20 13:05:05 host no tag", "134 Rfc3164 Nov 20 13:05:05|host|-|-|-|-|no tag");
        check("<134>Nov 20 13:05:05 host ", "134 Rfc3164 Nov 20 13:05:05|host|-|-|-|-|");
        for text in ["prog[42]:x", "prog[4 2]: x", "[42]: x", "prog[42: x", "prog42]: x", ": x", "prog:"] {
            check(
                &format!("<134>Nov 20 13:05:05 host {text}"),
                &format!("134 Rfc3164 Nov 20 13:05:05|host|-|-|-|-|{text}"),
            );
        }
    }

    #[test]
    fn the_word_after_an_rfc3164_date_is_the_host() {
        check("<134>Nov 20 13:05:05 prog[42]: hello", "134 Rfc3164 Nov 20 13:05:05|prog[42]:|-|-|-|-|hello");
    }

    #[test]
    fn malformed_rfc3164_messages_are_plain_text() {
        for text in [
            "nov 20 13:05:05 host prog[42]: x",
            "Nov 20 13:05:05",
            "Nov 20 13:05:05 ",
            "Nov 20 13:05:05 host",
            "Nov 20 13:05:05  host prog[42]: x",
            "Nov 20 13:05:05.123 host prog[42]: x",
            "Nov 20 2026 13:05:05 host x",
            "hello",
            "",
            " x",
        ] {
            check(&format!("<134>{text}"), &format!("134 Plain |-|-|-|-|-|{text}"));
        }
    }

    #[test]
    fn syslog_priorities_have_one_to_three_digits() {
        check("<0>x", "0 Plain |-|-|-|-|-|x");
        check("<191>x", "191 Plain |-|-|-|-|-|x");
        check("<999>x", "999 Plain |-|-|-|-|-|x");
        for text in
            ["<1234>x", "<>x", "<abc>x", "<134", "< 134>x", "<-1>x", "x", "", "Nov 20 13:05:05 h p: x"]
        {
            check(text, &format!("- Plain |-|-|-|-|-|{text}"));
        }
    }

    #[test]
    fn trailing_newlines_are_removed_from_a_message() {
        check("<6>a\n\n", "6 Plain |-|-|-|-|-|a");
        check("<6>a\nb\n", "6 Plain |-|-|-|-|-|a\nb");
        check("\n\n", "- Plain |-|-|-|-|-|");
        assert_eq!(SyslogMessage::unparsed(b"<6>a\n").text, b"<6>a");
    }

    proptest! {
        /// Nothing is lost: the text is the end of the message, and the parts are in it in order.
        #[test]
        fn the_parts_of_a_syslog_message_are_substrings_in_order(bytes in proptest::collection::vec(prop_oneof![
            Just(b' '), Just(b'-'), Just(b'['), Just(b']'), Just(b'"'), Just(b':'), Just(b'1'), any::<u8>()
        ], 0..80), head in prop_oneof![
            Just(""), Just("<134>"), Just("<134>1 "), Just("<134>1 - "), Just("<134>Nov 20 13:05:05 ")
        ]) {
            let message = [head.as_bytes(), &bytes].concat();
            let parsed = SyslogMessage::parse(&message);
            prop_assert!(parsed.whole.ends_with(parsed.text));
            prop_assert!(message.starts_with(parsed.whole));
            if parsed.shape == HeaderShape::Plain {
                prop_assert_eq!(parsed.whole.len(), parsed.after_priority + parsed.text.len());
            }
            if let Some(host) = parsed.host {
                prop_assert!(parsed.whole[parsed.host_at..].starts_with(host));
            }
        }
    }
}
