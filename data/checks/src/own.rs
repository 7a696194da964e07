//! The expectations of the built-in dialogues of options: MySQL, PostgreSQL, Redis, LDAP, SMTP, SPOP.
//!
//! Pure functions of the received bytes. Each returns its conclusion, or `None` while it needs more bytes.

use weir_backend::CheckStatus;
use weir_model::OwnExpected;
use weir_spop::{AgentHello, FrameError, SpopFrameKind, StatusCode, frame};

/// The conclusion of a built-in dialogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conclusion {
    /// Whether the dialogue continues.
    pub(crate) is_well: bool,
    /// The status of the check, if the dialogue ends here.
    pub(crate) status: CheckStatus,
    /// The status code of the response.
    pub(crate) code: u16,
    pub(crate) detail: String,
}

impl Conclusion {
    fn well(code: u16, detail: impl Into<String>) -> Self {
        Conclusion { is_well: true, status: CheckStatus::L7Ok, code, detail: detail.into() }
    }

    fn invalid(detail: impl Into<String>) -> Self {
        Conclusion { is_well: false, status: CheckStatus::L7Response, code: 0, detail: detail.into() }
    }

    fn refused(code: u16, detail: impl Into<String>) -> Self {
        Conclusion { is_well: false, status: CheckStatus::L7Status, code, detail: detail.into() }
    }
}

/// Examines the received bytes. `complete`: no more bytes will arrive.
pub(crate) fn look(what: OwnExpected, came: &[u8], complete: bool) -> Option<Conclusion> {
    let found = match what {
        OwnExpected::MysqlGreeting => mysql_packet(came, mysql_greeting),
        OwnExpected::MysqlAnswer => behind_greeting(came).and_then(|came| mysql_packet(came, mysql_answer)),
        OwnExpected::LdapBind => ldap_bind(came),
        OwnExpected::SmtpReply => smtp_reply(came, complete),
        OwnExpected::PostgresqlAnswer => postgresql_answer(came, complete),
        OwnExpected::RedisPong => redis_pong(came, complete),
        OwnExpected::SpopHello => spop_hello(came, complete),
    };
    found.or_else(|| complete.then(|| Conclusion::invalid("")))
}

/// Applies `judge` to the first packet. `None` while it is incomplete.
fn mysql_packet(came: &[u8], judge: fn(&[u8]) -> Conclusion) -> Option<Conclusion> {
    split_mysql_packet(came).map(|(packet, _)| judge(packet))
}

/// The bytes after the greeting, which is the first packet.
fn behind_greeting(came: &[u8]) -> Option<&[u8]> {
    split_mysql_packet(came).map(|(_, rest)| rest)
}

/// A packet and the rest: three bytes of length, a sequence number, and that many bytes.
fn split_mysql_packet(came: &[u8]) -> Option<(&[u8], &[u8])> {
    let [a, b, c, _, rest @ ..] = came else { return None };
    let length = usize::from(*a) | usize::from(*b) << 8 | usize::from(*c) << 16;
    rest.split_at_checked(length)
}

/// The greeting: a protocol version (any), then the server's version, terminated by a zero byte. Or an error packet.
fn mysql_greeting(packet: &[u8]) -> Conclusion {
    match packet {
        [0xff, ..] => mysql_error(packet),
        [_, rest @ ..] if rest.contains(&0) => {
            let version = rest.split(|byte| *byte == 0).next().unwrap_or_default();
            Conclusion::well(0, String::from_utf8_lossy(version))
        }
        _ => Conclusion::invalid("MySQL handshake packet not understood"),
    }
}

/// The response to a user name: an error packet, or any other packet, which keeps the result of the greeting.
fn mysql_answer(packet: &[u8]) -> Conclusion {
    match packet {
        [0xff, ..] => mysql_error(packet),
        [_, ..] => Conclusion::well(0, ""),
        [] => Conclusion::invalid("MySQL sent an empty packet"),
    }
}

/// An error packet: a two-byte code, an optional six-byte SQL state, and a message.
fn mysql_error(packet: &[u8]) -> Conclusion {
    let code = match packet {
        [_, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    };
    let text = packet.get(3..).unwrap_or_default();
    let text = if text.starts_with(b"#") { text.get(6..).unwrap_or_default() } else { text };
    Conclusion::refused(code, String::from_utf8_lossy(text))
}

/// The detail for a response that is empty or not LDAP.
pub(crate) const NOT_LDAP: &str = "Not LDAPv3 protocol";

/// A bind response with the result code 0 (RFC 4511, 4.2.2).
fn ldap_bind(came: &[u8]) -> Option<Conclusion> {
    let not_ldap = || Some(Conclusion::invalid(NOT_LDAP));
    let (&tag, rest) = came.split_first()?;
    if tag != 0x30 {
        return not_ldap();
    }
    let (length, message) = ber_length(rest)?;
    let message = message.get(..length)?;
    // The message identifier, then the bind response, which begins with the result code.
    let Some(after_id) = message.strip_prefix(&[0x02, 0x01, 0x01]) else { return not_ldap() };
    let Some(response) = after_id.strip_prefix(&[0x61]) else { return not_ldap() };
    let (_, response) = ber_length(response)?;
    match response {
        [0x0a, 0x01, 0, ..] => Some(Conclusion::well(0, "Success")),
        [0x0a, 0x01, code, ..] => Some(Conclusion::refused(
            u16::from(*code),
            "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9",
        )),
        _ => not_ldap(),
    }
}

/// A BER length and the rest.
fn ber_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first < 0x80 {
        return Some((usize::from(first), rest));
    }
    let count = usize::from(first & 0x7f).min(size_of::<usize>() - 1);
    let (digits, rest) = rest.split_at_checked(count)?;
    Some((digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest))
}

/// A reply of one or several lines (RFC 5321, 4.2). A code that begins with 2 is a success.
fn smtp_reply(came: &[u8], complete: bool) -> Option<Conclusion> {
    let mut rest = came;
    loop {
        let (line, next) = match rest.iter().position(|byte| *byte == b'\n') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None if complete => {
                let first = came.split(|byte| *byte == b'\n').next().unwrap_or_default();
                return Some(Conclusion::invalid(String::from_utf8_lossy(first.trim_ascii_end())));
            }
            None => return None,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let code = line.get(..3).and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u16>().ok());
        let Some(code) = code else { return Some(Conclusion::invalid(String::from_utf8_lossy(line))) };
        if line.get(3) != Some(&b'-') {
            let text = String::from_utf8_lossy(line.get(4..).unwrap_or_default());
            return Some(match code {
                200..300 => Conclusion::well(code, text),
                _ => Conclusion::refused(code, text),
            });
        }
        rest = next;
    }
}

/// Any authentication request (`R` in PostgreSQL's "Message Formats"), or an error (`E`), which begins with its severity.
fn postgresql_answer(came: &[u8], complete: bool) -> Option<Conclusion> {
    let unknown = || Conclusion::refused(0, "PostgreSQL unknown error");
    let (head, rest) = match came.split_at_checked(5) {
        Some(parts) => parts,
        None => return (complete && came.first().is_some_and(|kind| *kind != b'E')).then(unknown),
    };
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]).saturating_sub(4);
    match head[0] {
        b'E' => {
            let text = rest.get(1..)?;
            let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
            Some(Conclusion::invalid(String::from_utf8_lossy(text)))
        }
        b'R' if rest.len() >= 4.min(length as usize) => Some(Conclusion::well(0, "PostgreSQL server is ok")),
        b'R' => None,
        _ => Some(unknown()),
    }
}

/// `+PONG`. Other bytes are a failure once the input is complete.
fn redis_pong(came: &[u8], complete: bool) -> Option<Conclusion> {
    const PONG: &[u8] = b"+PONG\r\n";
    if came.windows(PONG.len()).any(|window| window == PONG) {
        return Some(Conclusion::well(0, "Redis server is ok"));
    }
    let first = came.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    (complete && !came.is_empty()).then(|| Conclusion::refused(0, String::from_utf8_lossy(first)))
}

/// An agent's hello: a frame of type 101 (SPOP, 3.2.5).
fn spop_hello(came: &[u8], complete: bool) -> Option<Conclusion> {
    let invalid = || Some(Conclusion::invalid(StatusCode::InvalidFrame.message()));
    let is_over = complete && !came.is_empty();
    if came.len() < SPOP_HEADER {
        return if is_over { invalid() } else { None };
    }
    let frame = match frame::read(came, SPOP_FRAME_SIZE) {
        Ok(Some((frame, length))) if length == came.len() => frame,
        Ok(None) if !is_over => return None,
        Ok(_) | Err(FrameError::TooLarge | FrameError::Malformed) => return invalid(),
    };
    // A DISCONNECT frame is read as a hello that lacks its values. Only the FIN flag is set, and stream and frame IDs are 0.
    let judged = match (frame.kind, frame.flags) {
        _ if !frame.is_of_the_connection() => Err(StatusCode::InvalidFrame),
        (SpopFrameKind::AgentHello | SpopFrameKind::AgentDisconnect, frame::FIN) => spop_agent(frame.payload),
        (SpopFrameKind::AgentHello, 0) => Err(StatusCode::Fragmentation),
        _ => Err(StatusCode::InvalidFrame),
    };
    Some(match judged {
        // The message of HAProxy 2.6, which scripts expect. That of 3.2 is empty.
        Ok(()) => Conclusion::well(0, "SPOA server is ok"),
        Err(code) => Conclusion::invalid(code.message()),
    })
}

/// The length of a frame without a payload: length, type, flags, stream ID and frame ID. Both IDs are 0.
const SPOP_HEADER: usize = 4 + 1 + 4 + 1 + 1;

/// The largest frame in bytes, as in weir's hello.
const SPOP_FRAME_SIZE: u32 = 16380;

/// Checks an agent's hello. Unlike a connection for traffic, a check requires all three items, as HAProxy 2.6 does.
fn spop_agent(payload: &[u8]) -> Result<(), StatusCode> {
    let hello = AgentHello::read(payload, SPOP_FRAME_SIZE)?;
    if !hello.has_version {
        return Err(StatusCode::VersionMissing);
    }
    hello.max_frame_size.ok_or(StatusCode::FrameSizeMissing)?;
    hello.pipelining.ok_or(StatusCode::CapabilitiesMissing)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(what: OwnExpected, came: &[u8], complete: bool, expected: Option<(bool, u16, &str)>) {
        let found = look(what, came, complete);
        let found = found.as_ref().map(|found| (found.is_well, found.code, &*found.detail));
        assert_eq!(found, expected, "{what:?} {came:?}");
    }

    /// Checks a complete response, and that each of its prefixes is inconclusive.
    #[track_caller]
    fn check_whole(what: OwnExpected, came: &[u8], expected: (bool, u16, &str)) {
        check(what, came, false, Some(expected));
        for length in 0..came.len() {
            let found = look(what, &came[..length], false);
            assert!(found.is_none() || found == look(what, came, false), "{what:?} {length}");
        }
    }

    #[test]
    fn mysql_checks_report_the_version_or_the_error() {
        use OwnExpected::{MysqlAnswer, MysqlGreeting};
        check_whole(MysqlGreeting, b"\x09\0\0\0\x0a8.0.33\0x", (true, 0, "8.0.33"));
        check_whole(MysqlGreeting, b"\x05\0\0\0\xff\x15\x04no", (false, 1045, "no"));
        check_whole(MysqlGreeting, b"\x06\0\0\0\x093.23\0", (true, 0, "3.23"));
        check_whole(MysqlGreeting, b"\x01\0\0\0\x09", (false, 0, "MySQL handshake packet not understood"));
        let answer = |packet: &[u8]| [b"\x09\0\0\0\x0a8.0.33\0x", packet].concat();
        check_whole(MysqlAnswer, &answer(b"\x01\0\0\x02\0"), (true, 0, ""));
        check_whole(MysqlAnswer, &answer(b"\x0b\0\0\x02\xff\x15\x04#28000no"), (false, 1045, "no"));
        check(MysqlAnswer, &answer(b"\x02\0\0\x02\0"), true, Some((false, 0, "")));
    }

    #[test]
    fn smtp_checks_accept_replies_of_several_lines() {
        let check_reply = |came: &[u8], expected| check(OwnExpected::SmtpReply, came, false, expected);
        check_reply(b"220 a ready\r\n", Some((true, 220, "a ready")));
        check_reply(b"250-a\r\n250-b\r\n250 c\r\n", Some((true, 250, "c")));
        check_reply(b"250-a\r\n250 c", None);
        check_reply(b"554 go\r\n", Some((false, 554, "go")));
        check_reply(b"hello\r\n", Some((false, 0, "hello")));
        let check_end = |came: &[u8], text| check(OwnExpected::SmtpReply, came, true, Some((false, 0, text)));
        check_end(b"220 a", "220 a");
        check_end(b"220-a\r\n", "220-a");
        check_end(b"220-a\r\n220 b", "220-a");
    }

    #[test]
    fn postgresql_checks_succeed_with_a_password_request() {
        use OwnExpected::{PostgresqlAnswer, RedisPong};
        check_whole(PostgresqlAnswer, b"R\0\0\0\x08\0\0\0\x03", (true, 0, "PostgreSQL server is ok"));
        check(PostgresqlAnswer, b"E\0\0\0\x30SFATAL\0C", false, Some((false, 0, "FATAL")));
        check(PostgresqlAnswer, b"HTTP/1.1", false, Some((false, 0, "PostgreSQL unknown error")));
        check_whole(RedisPong, b"+PONG\r\n", (true, 0, "Redis server is ok"));
        check(PostgresqlAnswer, b"Rzz", false, None);
        check(PostgresqlAnswer, b"Rzz", true, Some((false, 0, "PostgreSQL unknown error")));
        check(PostgresqlAnswer, b"Ezz", true, Some((false, 0, "")));
        check(RedisPong, b"-ERR no\r\n", false, None);
        check(RedisPong, b"-ERR no\r\n", true, Some((false, 0, "-ERR no")));
    }

    #[test]
    fn ldap_and_spop_checks_parse_framed_answers() {
        let bound = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\x00\x04\x00\x04\x00";
        check_whole(OwnExpected::LdapBind, bound, (true, 0, "Success"));
        let mut refused = *bound;
        refused[9] = 49;
        let text = "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9";
        check(OwnExpected::LdapBind, &refused, false, Some((false, 49, text)));
        check(OwnExpected::LdapBind, b"HTTP", false, Some((false, 0, "Not LDAPv3 protocol")));
        check(OwnExpected::LdapBind, b"\x30\x84\xff\xff\xff\xffx", false, None);
        let hello = |frame: &[u8]| [&[0, 0, 0, frame.len() as u8], frame].concat();
        let invalid_frame = StatusCode::InvalidFrame.message();
        let begin = b"\x65\0\0\0\x01\0\0\x07version\x08\x03".as_slice();
        let rest = b"\x0emax-frame-size\x03\xfc\xf0\x06\x0ccapabilities\x08\0".as_slice();
        // Items of unassigned types do not matter.
        for further in [&b""[..], b"\x01x\x0a", b"\x01x\x0f\x01y\x03\x05"] {
            check_whole(
                OwnExpected::SpopHello,
                &hello(&[begin, b"2.0", rest, further].concat()),
                (true, 0, "SPOA server is ok"),
            );
        }
        let with = |text: &[u8]| [begin, text].concat();
        let (size, rest) = (&b"\x0emax-frame-size"[..], &b"\x0ccapabilities\x08\0"[..]);
        for (frame, why) in [
            (b"\x65\0\0\0\0\0\0".to_vec(), "fragmentation not supported"),
            (b"\x65\0\0\0\x03\0\0".to_vec(), invalid_frame),
            (b"\x65\0\0\0\x01\x01\0".to_vec(), invalid_frame),
            (b"\x67\0\0\0\x01\0\0".to_vec(), invalid_frame),
            (b"\x66\0\0\0\x01\0\0".to_vec(), "version value not found"),
            (b"\x65\0\0\0\x01\0\0".to_vec(), "version value not found"),
            (b"\x65\0\0\0\x01\0\0\0\x03\x01".to_vec(), invalid_frame),
            (with(b"1.0"), "unsupported version"),
            (with(b"2.1"), "unsupported version"),
            (with(b"2.x"), invalid_frame),
            (with(b"2.0"), "max-frame-size value not found"),
            ([&with(b"2.0")[..], size, b"\x03\x01"].concat(), "max-frame-size too big or too small"),
            // One more than 16380.
            (
                [&with(b"2.0")[..], size, b"\x03\xfd\xf0\x06", rest].concat(),
                "max-frame-size too big or too small",
            ),
            ([&with(b"2.0")[..], size, b"\x08\x03100"].concat(), invalid_frame),
            ([&with(b"2.0")[..], size, b"\x03\xfc\xf0\x06"].concat(), "capabilities value not found"),
            (
                [&with(b"2.0")[..], size, b"\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"].concat(),
                invalid_frame,
            ),
        ] {
            check(OwnExpected::SpopHello, &hello(&frame), false, Some((false, 0, why)));
        }
        // More bytes may arrive until the input is complete.
        check(OwnExpected::SpopHello, b"\0\0\0\x01\x67", false, None);
        check(OwnExpected::SpopHello, b"\0\0\0\x01\x67", true, Some((false, 0, invalid_frame)));
    }
}
