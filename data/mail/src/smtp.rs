//! Delivers one mail (RFC 5321).
//!
//! ```text
//!   connected ──220──► HELO ──250──► MAIL ──250──► RCPT ──250──► DATA ──354──► the mail ──250──► QUIT
//!        any other code, EOF, a fault, the deadline: a `DeliveryFailure`
//! ```
//! Each command is sent after the reply to the previous one: some servers reject pipelining.

use std::fmt;
use std::net::SocketAddr;

use weir_net::{
    ConnectError, ConnectPlan, ConnectTarget, Connection, ConnectionFault, Greeting, ReceiveOutcome,
};
use weir_sched::{Tick, now, wait};
use weir_sys::Address;

/// A mail to one recipient, in plain text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mail {
    /// The address of the sender.
    pub from: String,
    /// The address of the recipient.
    pub to: String,
    /// The host name for HELO.
    pub host_name: String,
    /// The date, in the format of RFC 5322.
    pub date: String,
    pub subject: String,
    pub text: String,
}

/// Why a mail was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryFailure {
    /// The connection could not be established, or it failed.
    Connection(ConnectionFault),
    /// The delivery timed out.
    TimedOut,
    /// The server closed the connection.
    Ended,
    /// The server's reply to this command had an unexpected code.
    Refused {
        command: &'static str,
        /// The first line of the reply.
        reply: String,
    },
    /// The reply exceeds the size limit.
    TooLong,
    /// This process lacked a resource.
    OurOwn,
}

impl fmt::Display for DeliveryFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeliveryFailure::Connection(fault) => write!(formatter, "{fault}"),
            DeliveryFailure::TimedOut => formatter.write_str("it took too long ('timeout mail')"),
            DeliveryFailure::Ended => formatter.write_str("the server closed the connection"),
            DeliveryFailure::Refused { command, reply } => {
                write!(formatter, "the server answered '{reply}' to {command}")
            }
            DeliveryFailure::TooLong => formatter.write_str("the server's reply is too long"),
            DeliveryFailure::OurOwn => formatter.write_str("the delivery itself failed"),
        }
    }
}

/// Delivers a mail within `timeout_ms` milliseconds.
pub(crate) async fn deliver(mail: &Mail, to: SocketAddr, timeout_ms: u64) -> Result<(), DeliveryFailure> {
    let deadline = now().after(timeout_ms);
    let plan = ConnectPlan::to(ConnectTarget::Address(Address::Inet(to)));
    let mut connecting = plan.begin().map_err(DeliveryFailure::Connection)?;
    connecting.stand(Greeting::default(), deadline, || Ok(())).await.map_err(|error| match error {
        ConnectError::Failed(fault) => DeliveryFailure::Connection(fault),
        ConnectError::TimedOut => DeliveryFailure::TimedOut,
    })?;
    let mut session = SmtpSession { connection: connecting.into_connection(), deadline };
    session.expect("the connection", "220").await?;
    session.say("HELO", &format!("HELO {}\r\n", one_line(&mail.host_name)), "250").await?;
    session.say("MAIL", &format!("MAIL FROM:<{}>\r\n", one_line(&mail.from)), "250").await?;
    session.say("RCPT", &format!("RCPT TO:<{}>\r\n", one_line(&mail.to)), "250").await?;
    session.say("DATA", "DATA\r\n", "354").await?;
    session.say("the mail", &content(mail), "250").await?;
    // The server has accepted the mail, so the reply to QUIT is ignored.
    let _ = session.say("QUIT", "QUIT\r\n", "221").await;
    Ok(())
}

/// A connection to a mail server.
struct SmtpSession {
    connection: Connection,
    deadline: Tick,
}

impl SmtpSession {
    async fn say(
        &mut self,
        command: &'static str,
        line: &str,
        expected: &str,
    ) -> Result<(), DeliveryFailure> {
        if self.connection.send_all(line.as_bytes(), self.deadline).await.is_none() {
            return Err(self
                .connection
                .fault()
                .map_or(DeliveryFailure::TimedOut, DeliveryFailure::Connection));
        }
        self.expect(command, expected).await
    }

    /// Waits for a complete reply with the expected code.
    async fn expect(&mut self, command: &'static str, expected: &str) -> Result<(), DeliveryFailure> {
        loop {
            let input = self.connection.input();
            if let Some((length, last)) = reply(input) {
                let is_right = input[last..length].starts_with(expected.as_bytes());
                let first = input[..length].split(|byte| matches!(byte, b'\r' | b'\n')).next();
                let reply: String = String::from_utf8_lossy(first.unwrap_or_default())
                    .chars()
                    .filter(|character| !character.is_control())
                    .take(LONGEST_SHOWN_REPLY)
                    .collect();
                self.connection.consume(length);
                return if is_right { Ok(()) } else { Err(DeliveryFailure::Refused { command, reply }) };
            }
            match self.connection.receive(LONGEST_REPLY) {
                ReceiveOutcome::Bytes(_) => continue,
                ReceiveOutcome::Nothing => {}
                ReceiveOutcome::End => return Err(DeliveryFailure::Ended),
                ReceiveOutcome::Full => return Err(DeliveryFailure::TooLong),
                ReceiveOutcome::Failed(fault) => return Err(DeliveryFailure::Connection(fault)),
            }
            if self.deadline <= now() {
                return Err(DeliveryFailure::TimedOut);
            }
            wait(self.deadline).await;
        }
    }
}

/// The limit for a reply, in bytes.
const LONGEST_REPLY: usize = 4096;
/// The limit of a reply's text in messages to operators, in characters.
const LONGEST_SHOWN_REPLY: usize = 200;

/// The length of a complete reply, and the offset of its last line: the first without `-` after its code
/// (RFC 5321, 4.2.1).
fn reply(input: &[u8]) -> Option<(usize, usize)> {
    let mut begin = 0;
    loop {
        let end = begin + input[begin..].iter().position(|byte| *byte == b'\n')? + 1;
        if input[begin..end].get(3) != Some(&b'-') {
            return Some((end, begin));
        }
        begin = end;
    }
}

/// The content of the mail after `DATA`, including the terminating dot.
fn content(mail: &Mail) -> String {
    let head = [("From", &mail.from), ("To", &mail.to), ("Date", &mail.date), ("Subject", &mail.subject)];
    let mut text: String =
        head.iter().map(|(name, value)| format!("{name}: {}\r\n", one_line(value))).collect();
    text.push_str("\r\n");
    for line in mail.text.lines() {
        // Dot-stuffing: a line with only a dot would end the mail (RFC 5321, 4.5.2).
        if line.starts_with('.') {
            text.push('.');
        }
        text.push_str(&one_line(line));
        text.push_str("\r\n");
    }
    text.push_str("\r\n.\r\n");
    text
}

/// Replaces control characters such as line breaks, so that a value cannot add header fields.
fn one_line(text: &str) -> String {
    text.replace(|character: char| character.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_last_line_of_an_smtp_reply() {
        assert_eq!(reply(b"250-a\r\n250-b\r\n250 c\r\n220"), Some((21, 14)));
        assert_eq!(reply(b"220 a\n"), Some((6, 0)));
        assert_eq!(reply(b"250-a\r\n250 b"), None);
        assert_eq!(reply(b""), None);
    }

    #[test]
    fn mail_fields_cannot_inject_headers_or_end_the_message() {
        let mail = Mail {
            from: "a@b".to_owned(),
            to: "c@d\r\nBcc: e@f".to_owned(),
            date: "D".to_owned(),
            subject: "S".to_owned(),
            text: "one\n.\n..two\rthree".to_owned(),
            ..Mail::default()
        };
        assert_eq!(
            content(&mail),
            "From: a@b\r\nTo: c@d  Bcc: e@f\r\nDate: D\r\nSubject: S\r\n\r\none\r\n..\r\n...two three\r\n\r\n.\r\n"
        );
    }
}
