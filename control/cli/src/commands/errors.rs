//! `show errors`: rejected messages, with the offending byte.

use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::date;
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CapturedError, CommandTarget, Direction, ErrorFilter, ListPosition};

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show errors",
    syntax: "show errors [<px>] [request|response]",
    level: Level::Operator,
    flags: WORKER,
    help: "show the last invalid request and response of each proxy",
    run: Some(show),
}];

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let mut filter = ErrorFilter::default();
    let proxy = arguments.word(0);
    if !proxy.is_empty() {
        match proxy.parse::<i64>() {
            Ok(id) => filter.proxy_id = u32::try_from(id).ok(),
            Err(_) => match context.target.proxy_id(proxy) {
                Some(id) => filter.proxy_id = Some(id),
                None => return CommandOutcome::error("No such proxy.\n"),
            },
        }
    }
    filter.only = match arguments.word(1) {
        "request" => Some(Direction::Request),
        "response" => Some(Direction::Response),
        _ => None,
    };
    CommandOutcome::Stream(Box::new(ShowErrors { filter, begun: false, place: 0 }))
}

struct ShowErrors {
    filter: ErrorFilter,
    begun: bool,
    place: ListPosition,
}

impl AnswerStream for ShowErrors {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        if !self.begun {
            self.begun = true;
            let now = date(target, target.wall_time());
            let count = target.captured_errors();
            out.extend_from_slice(format!("Total events captured on [{now}] : {count}\n").as_bytes());
        }
        while out.len() < enough {
            let Some(error) = target.next_captured_error(&self.filter, &mut self.place) else {
                return AnswerStep::Done;
            };
            let text = describe(&error, &date(target, error.time));
            out.extend_from_slice(text.as_bytes());
        }
        AnswerStep::More
    }
}

fn describe(error: &CapturedError, date: &str) -> String {
    let mut text = String::new();
    let (side, what, other) = match error.direction {
        Direction::Request => ("frontend", "request", "backend"),
        Direction::Response => ("backend", "response", "frontend"),
    };
    let (name, id) = &error.proxy;
    let _ = writeln!(text, " \n[{date}] {side} {name} (#{id}): invalid {what}");
    let _ = writeln!(
        text,
        "  {other} {}, server {}, event #{}, src {}",
        named(&error.other_side),
        named(&error.server),
        error.number,
        error.source
    );
    let _ = write!(
        text,
        "  buffer starts at 0 (including 0 out), {} free,\n  len {}, wraps at {}, error at position {}",
        error.buffer_free,
        error.bytes.len(),
        error.buffer_size,
        error.position
    );
    for line in &error.details {
        let _ = write!(text, "\n  {line}");
    }
    text.push_str(" :\n  \n");
    dump(&error.bytes, &mut text);
    text
}

fn named(proxy: &Option<(String, u32)>) -> String {
    match proxy {
        Some((name, id)) => format!("{name} (#{id})"),
        None => "<NONE> (#-1)".to_owned(),
    }
}

/// Width of dumped lines after the offset, in columns, to fit a terminal.
const WIDTH: usize = 70;

/// Dumps the bytes with offsets, one output line per input line. Long lines continue after a `+`.
fn dump(bytes: &[u8], text: &mut String) {
    let mut at = 0;
    let mut continued = ' ';
    while at < bytes.len() {
        let _ = write!(text, "  {at:05}{continued} ");
        let mut width = 0;
        continued = '+';
        while at < bytes.len() {
            let shown = escaped(bytes[at]);
            if width + shown.len() > WIDTH {
                break;
            }
            text.push_str(&shown);
            width += shown.len();
            at += 1;
            if bytes[at - 1] == b'\n' {
                continued = ' ';
                break;
            }
        }
        text.push('\n');
    }
}

fn escaped(byte: u8) -> String {
    match byte {
        b'\t' => "\\t".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        0x1b => "\\e".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x20..=0x7e => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_events::WallTime;

    /// The output of the packaged HAProxy for the same bytes.
    const EXPECTED: &str = r#" 
[20/Nov/2026:13:31:46.579] frontend fe (#2): invalid request
  backend <NONE> (#-1), server <NONE> (#-1), event #0, src 127.0.0.1:52856
  buffer starts at 0 (including 0 out), 16196 free,
  len 188, wraps at 16336, error at position 28
  H1 connection flags 0x00000100, H1 stream flags 0x00000810 :
  
  00000  GET / HTTP/1.1\r\n
  00016  Host: a\r\n
  00025  bad header: x\r\n
  00040  Long-line: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
  00110+ yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n
  00173  \x01\e\t\\ "quote\r\n
  00186  \r\n
"#;

    #[test]
    fn show_errors_prints_the_captured_bytes() {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\nbad header: x\r\nLong-line: ".to_vec();
        bytes.extend([b'y'; 120]);
        bytes.extend(b"\r\n\x01\x1b\t\\ \"quote\r\n\r\n");
        let error = CapturedError {
            time: WallTime::default(),
            direction: Direction::Request,
            proxy: ("fe".into(), 2),
            other_side: None,
            server: None,
            number: 0,
            source: "127.0.0.1:52856".into(),
            buffer_free: 16196,
            buffer_size: 16336,
            position: 28,
            details: vec!["H1 connection flags 0x00000100, H1 stream flags 0x00000810".into()],
            bytes,
        };
        assert_eq!(describe(&error, "20/Nov/2026:13:31:46.579"), EXPECTED);
    }
}
