//! `log-forward` sections: syslog in, log targets out (manual, section "Log forwarding").

use weir_syntax::{Diagnostic, Diagnostics, Line, Span};

use crate::bind::{read_bind, read_datagram_bind};
use crate::numbers::{delay_of, integer};
use crate::proxy::read_log_target_words;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::words::{Parsed, Words, fault, is_name_character, same_section};
use weir_model::{HostStrategy, Location, LogForward};

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct LogForwardReader {
    section: LogForward,
    span: Span,
}

/// Reads one line of the section.
pub(crate) type LogForwardKeyword = fn(&mut LogForward, Location, &mut Words<'_>) -> Parsed;

/// Every word of the section.
pub(crate) static LOG_FORWARD_KEYWORDS: Table<LogForwardKeyword> = Table::new(&[&[
    Row::<LogForwardKeyword>::ready(
        "backlog",
        "<conns>",
        "1000",
        "length of the queue of connections to accept",
        |section, _, words| {
            let backlog = integer(words, "backlog", 0..=i32::MAX as u32)?;
            section.backlog = (backlog > 0).then_some(backlog);
            words.end("backlog")
        },
    )
    .default(Described("that of `maxconn`")),
    Row::ready(
        "bind",
        "<addr> [param*]",
        "127.0.0.1:514",
        "where senders connect, each message framed as it likes",
        |section, at, words| {
            section.binds.push(read_bind(words, "bind", SECTION, at)?);
            Ok(())
        },
    ),
    Row::ready(
        "dgram-bind",
        "<addr> [param*]",
        "127.0.0.1:514",
        "where datagrams of one message each arrive",
        |section, at, words| {
            section.datagram_binds.push(read_datagram_bind(words, "dgram-bind", SECTION, at)?);
            Ok(())
        },
    ),
    Row::ready(
        "log",
        "{ global | <target> [len <length>] [format <format>] [sample <ranges>:<sample_size>] \
         <facility> [<level> [<minlevel>]] }",
        "127.0.0.1:514 local0",
        "where messages go; in their original format by default",
        |section, _, words| {
            if words.take_if("global") {
                section.targets.add_global();
                return words.end("log global");
            }
            let target = read_log_target_words(words)?;
            if section.targets.len() == MOST_TARGETS {
                return Err(fault(words.line().span(), format!("log : more than {MOST_TARGETS} targets")));
            }
            section.targets.push(target);
            Ok(())
        },
    ),
    Row::<LogForwardKeyword>::ready(
        "maxconn",
        "<conns>",
        "100",
        "connections of senders at once",
        |section, _, words| {
            let maxconn = integer(words, "maxconn", 0..=i32::MAX as u32)?;
            section.maxconn = (maxconn > 0).then_some(maxconn);
            words.end("maxconn")
        },
    )
    .default(Written("10")),
    Row::ready(
        "option assume-rfc6587-ntf",
        "",
        "",
        "a message of a connection is a line, whatever it begins with",
        |section, _, words| {
            section.lines_only = true;
            words.end("option assume-rfc6587-ntf")
        },
    ),
    Row::ready(
        "option dont-parse-log",
        "",
        "",
        "messages are text, whatever they begin with",
        |section, _, words| {
            section.unparsed = true;
            words.end("option dont-parse-log")
        },
    ),
    Row::<LogForwardKeyword>::ready(
        "option host",
        "{ replace | fill | keep | append }",
        "keep",
        "the host name of forwarded messages",
        |section, _, words| {
            section.host = match words.peek_text() {
                "replace" => HostStrategy::Replace,
                "fill" => HostStrategy::Fill,
                "keep" => HostStrategy::Keep,
                "append" => HostStrategy::Append,
                other => {
                    return Err(words.fault(format!(
                        "'option host' expects one of 'replace', 'fill', 'keep' or 'append' but got \
                         '{other}'."
                    )));
                }
            };
            words.take();
            words.end("option host")
        },
    )
    .default(Written("fill")),
    Row::<LogForwardKeyword>::ready(
        "timeout client",
        "<timeout>",
        "30s",
        "how long a sender may say nothing",
        |section, _, words| {
            let word = words.expect("missing timeout client value.")?;
            let timeout = delay_of(words, word, "timeout client")?;
            section.client_timeout = (!timeout.is_zero()).then_some(timeout);
            words.end("timeout client")
        },
    )
    .default(Described("none, with a warning")),
]]);

const SECTION: &str = "log-forward";
/// The limit of log targets in one section.
const MOST_TARGETS: usize = 256;

impl LogForwardReader {
    /// Starts the section of a section line.
    pub(crate) fn begin(line: &Line, at: Location, known: &[LogForward]) -> Parsed<Self> {
        let mut words = Words::new(line, 1);
        let name = words.expect("missing name for log-forward section.")?;
        if let Some(stranger) = name.text().chars().find(|character| !is_name_character(*character)) {
            let message = format!("character '{stranger}' is not permitted in 'log-forward' name '{name}'.");
            return Err(fault(name.span(), message));
        }
        words.end(SECTION)?;
        if let Some(twin) = known.iter().find(|other| *other.name == *name.text()) {
            return Err(same_section(SECTION, name, &twin.at));
        }
        Ok(LogForwardReader { section: LogForward::new(name.text(), at), span: line.span() })
    }

    /// Reads one line.
    pub(crate) fn line(&mut self, line: &Line, at: Location, diagnostics: &mut Diagnostics) {
        let keyword = line.keyword();
        let Some((row, count)) = LOG_FORWARD_KEYWORDS.find_phrase(line, 0) else {
            let continuations = LOG_FORWARD_KEYWORDS.continuations(keyword.text());
            let (said, span, nearest) = match continuations.is_empty() {
                true => (
                    keyword.to_string(),
                    keyword.span(),
                    nearest_phrase(&LOG_FORWARD_KEYWORDS, keyword.text()),
                ),
                false => {
                    let second = line.text(1);
                    let nearest = weir_syntax::did_you_mean(second, continuations.iter().copied());
                    (format!("{keyword} {second}"), line.span_at(1), nearest)
                }
            };
            let message = format!("unknown keyword '{said}' in '{SECTION}' section");
            diagnostics.push(Diagnostic::alert(span, message).suggestion(nearest));
            return;
        };
        let Handler::Ready(read) = row.handler else { return };
        if let Err(fault) = read(&mut self.section, at, &mut Words::new(line, count)) {
            diagnostics.push(*fault);
        }
    }

    /// Ends the section.
    pub(crate) fn end(self, diagnostics: &mut Diagnostics) -> LogForward {
        let section = self.section;
        if section.all_binds().next().is_none() {
            let message = format!(
                "log-forward '{}' has no 'bind' or 'dgram-bind' directive: nothing reaches it.",
                section.name
            );
            diagnostics.push(Diagnostic::warning(self.span, message));
        }
        section
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::document::tests::{check, parse_text};
    use weir_model::{HostStrategy, LogForward};

    #[test]
    fn parses_a_log_forward_section_with_all_keywords() {
        let read = parse_text(
            "global\n log 127.0.0.1:514 local0\nlog-forward f\n bind 127.0.0.1:1514 name a\n dgram-bind 127.0.0.1:1514 interface lo\n \
             dgram-bind uxdg@/run/log\n backlog 7\n maxconn 3\n timeout client 5s\n log global\n log 127.0.0.1:515 len 2000 format \
             rfc5424 sample 1:4 local0 notice err\n log ring@r local1\n option dont-parse-log\n option assume-rfc6587-ntf\n option host \
             append\nring r\n",
        );
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.log_forwards[0];
        assert_eq!((section.binds.len(), section.datagram_binds.len(), section.targets.len()), (1, 2, 3));
        assert_eq!((section.backlog, section.maxconn), (Some(7), Some(3)));
        assert_eq!(section.client_timeout, Some(Duration::from_secs(5)));
        assert!(section.unparsed && section.lines_only);
        assert_eq!(section.host, HostStrategy::Append);
    }

    #[test]
    fn log_forward_sections_have_the_manuals_defaults() {
        let read = parse_text("log-forward f\n bind :1514\n");
        assert_eq!(read.messages, [""; 0]);
        let section = &read.config.log_forwards[0];
        assert_eq!((section.maxconn, section.host), (Some(LogForward::MAXCONN), HostStrategy::Fill));
        assert!(section.client_timeout.is_none() && !section.unparsed && !section.lines_only);
    }

    #[test]
    fn log_forward_errors_have_haproxys_messages() {
        check("log-forward\n", &["parsing [test.cfg:1] : missing name for log-forward section."]);
        check(
            "log-forward f g\n",
            &["parsing [test.cfg:1] : 'log-forward' cannot handle unexpected argument 'g'."],
        );
        check(
            "log-forward a/b\n",
            &["parsing [test.cfg:1] : character '/' is not permitted in 'log-forward' name 'a/b'."],
        );
        check(
            "log-forward f\n bind :1514\nlog-forward f\n bind :1515\n",
            &[
                "parsing [test.cfg:3] : log-forward section 'f' has the same name as another log-forward section declared at test.cfg:1.",
            ],
        );
        check(
            "frontend f\n bind :80\n mode http\n timeout client 1s\nlog-forward f\n bind :1515\n",
            &[
                "parsing [test.cfg:5] : log-forward section 'f' has the same name as frontend 'f' declared at test.cfg:1.",
            ],
        );
        check(
            "log-forward f\n",
            &[
                "parsing [test.cfg:1] : log-forward 'f' has no 'bind' or 'dgram-bind' directive: nothing reaches it.",
            ],
        );
        check(
            "log-forward f\n bind foo\n dgram-bind 127.0.0.1\n dgram-bind tcp@127.0.0.1:1515\n bind udp@127.0.0.1:1514\n bind :1514 foo\n dgram-bind :1514 foo\n dgram-bind :1514\n",
            &[
                "parsing [test.cfg:2] : 'bind' : missing port specification in 'foo'",
                "parsing [test.cfg:3] : 'dgram-bind' : missing port specification in '127.0.0.1'",
                "parsing [test.cfg:4] : 'dgram-bind' : stream-type address not acceptable in 'tcp@127.0.0.1:1515'",
                "parsing [test.cfg:5] : 'bind' : dgram-type address not acceptable in 'udp@127.0.0.1:1514'",
                "parsing [test.cfg:6] : 'bind :1514' in section 'log-forward': unknown keyword 'foo'",
                "parsing [test.cfg:7] : 'dgram-bind :1514' in section 'log-forward': unknown keyword 'foo'",
            ],
        );
        check(
            "log-forward f\n dgram-bind :1514\n maxconn\n backlog x\n timeout\n timeout client\n timeout server 5s\n log\n log global x\n option foo\n option hots keep\n option host x\n balance x\n",
            &[
                "parsing [test.cfg:3] : 'maxconn' expects an integer argument.",
                "parsing [test.cfg:4] : 'backlog' expects an integer argument, which 'x' is not.",
                "parsing [test.cfg:5] : unknown keyword 'timeout ' in 'log-forward' section",
                "parsing [test.cfg:6] : missing timeout client value.",
                "parsing [test.cfg:7] : unknown keyword 'timeout server' in 'log-forward' section",
                "parsing [test.cfg:8] : log : expects <address> and <facility> or global as arguments",
                "parsing [test.cfg:9] : 'log global' cannot handle unexpected argument 'x'.",
                "parsing [test.cfg:10] : unknown keyword 'option foo' in 'log-forward' section",
                "parsing [test.cfg:11] : unknown keyword 'option hots' in 'log-forward' section; did you mean 'host' maybe ?",
                "parsing [test.cfg:12] : 'option host' expects one of 'replace', 'fill', 'keep' or 'append' but got 'x'.",
                "parsing [test.cfg:13] : unknown keyword 'balance' in 'log-forward' section",
            ],
        );
        check(
            "log-forward f\n bind :1514\n log ring@nope local0\n",
            &["parsing [test.cfg:3] : log : unknown ring 'nope'"],
        );
    }

    #[test]
    fn log_forward_accepts_tcp_log_targets() {
        let read = parse_text(
            "log-forward f\n bind :1514\n log tcp@127.0.0.1:514 local0\n log uxst@/run/x local0\n",
        );
        assert_eq!(read.messages, [""; 0]);
    }
}
