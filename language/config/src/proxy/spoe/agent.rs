//! The `spoe-agent` section (SPOE 1.2, 2.2).

use std::sync::Arc;
use std::time::Duration;

use weir_syntax::{Diagnostic, Layout, Line, Word, did_you_mean};

use super::file::{LineScope, read_names};
use super::{WrittenName, stranger_in_variable};
use crate::numbers::{delay_of, integer_in};
use crate::proxy::read_log_target_words;
use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row, Table};
use crate::sections::engine_section_names;
use crate::words::{Fault, Parsed, Words, fault, suggesting, tight};
use weir_model::{Location, LogTarget, LogTargets};

/// Reads a line of a `spoe-agent` section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpoeAgentReader {
    read: ReadAgent,
    /// Reads the line after `no`. None if the word cannot be negated.
    no: Option<ReadAgent>,
}

type ReadAgent = fn(&mut AgentDraft, &LineScope<'_>, &mut Words<'_>) -> Parsed;

const fn keyword(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: ReadAgent,
) -> Row<SpoeAgentReader> {
    Row::ready(name, arguments, example, help, SpoeAgentReader { read, no: None })
}

const fn negatable(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: ReadAgent,
    no: ReadAgent,
) -> Row<SpoeAgentReader> {
    Row::ready(name, arguments, example, help, SpoeAgentReader { read, no: Some(no) })
}

/// Every word of a `spoe-agent` section.
pub(crate) static SPOE_AGENT_KEYWORDS: Table<SpoeAgentReader> = Table::new(&[&[
    keyword("groups", "<grp-name> ...", "late-checks", "groups that the agent handles", |agent, _, words| {
        read_names(&mut agent.groups, "spoe-group", words)
    }),
    negatable(
        "log",
        "{ global | <target> [len <length>] [format <format>] <facility> [<level> [<minlevel>]] }",
        "127.0.0.1:514 local0",
        "where exchanges are logged",
        |agent, scope, words| {
            if words.peek_text() == "global" && words.line().len() == words.position() + 1 {
                agent.log_targets.add_global();
                return Ok(());
            }
            let target = LogTarget { at: Some(scope.at.clone()), ..read_log_target_words(words)? };
            if agent.log_targets.len() == MAX_LOG_TARGETS {
                return Err(fault(words.line().span(), format!("log : more than {MAX_LOG_TARGETS} targets")));
            }
            agent.log_targets.push(target);
            Ok(())
        },
        |agent, _, words| {
            if !words.at_end() {
                return Err(words.fault("log : 'no log' does not expect arguments"));
            }
            agent.log_targets.clear();
            Ok(())
        },
    )
    .default(Described("nothing is logged")),
    keyword(
        "max-frame-size",
        "<number>",
        "4096",
        "largest frame in bytes",
        |agent, scope, words| {
            let word = words.expect("'max-frame-size' expects an integer argument.")?;
            let largest = scope.buffer_size.saturating_sub(FRAME_LENGTH);
            let size = integer_in(word, "max-frame-size", SMALLEST_FRAME..=largest).map_err(|mut fault| {
                fault.message = format!(
                    "'max-frame-size' expects a positive integer argument in the range [{SMALLEST_FRAME}, {largest}]."
                );
                fault
            })?;
            agent.max_frame_size = Some(size);
            words.end("max-frame-size")
        },
    )
    .default(Described("`tune.bufsize` minus 4")),
    keyword(
        "messages",
        "<msg-name> ...",
        "check-request",
        "messages that are sent at their events",
        |agent, _, words| read_names(&mut agent.messages, "spoe-message", words),
    ),
    keyword(
        "option continue-on-error",
        "",
        "",
        "an error ends only the current event",
        |agent, _, words| {
            agent.continue_on_error = true;
            words.end("option continue-on-error")
        },
    )
    .default(Described("an error disables the engine for the rest of the transaction")),
    negatable(
        "option dontlog-normal",
        "",
        "",
        "log only exchanges that failed",
        |agent, _, words| {
            agent.dont_log_normal = true;
            words.end("option dontlog-normal")
        },
        |agent, _, words| {
            agent.dont_log_normal = false;
            words.end("option dontlog-normal")
        },
    )
    .default(Described("off")),
    keyword(
        "option force-set-var",
        "",
        "",
        "let the agent set variables of any name",
        |agent, _, words| {
            agent.force_set_variables = true;
            words.end("option force-set-var")
        },
    )
    .default(Described("off")),
    negatable(
        "option pipelining",
        "",
        "",
        "several exchanges at once on a connection",
        |agent, _, words| {
            agent.pipelining = true;
            words.end("option pipelining")
        },
        |agent, _, words| {
            agent.pipelining = false;
            words.end("option pipelining")
        },
    )
    .default(Described("on")),
    keyword(
        "option set-on-error",
        "<var name>",
        "error",
        "variable for the code of an error, 'txn.<prefix>.<var name>'",
        |agent, _, words| {
            agent.set_on_error = Some(read_variable(words, "option set-on-error")?);
            Ok(())
        },
    ),
    keyword(
        "option set-process-time",
        "<var name>",
        "time",
        "variable for the milliseconds of the last event or group",
        |agent, _, words| {
            agent.set_process_time = Some(read_variable(words, "option set-process-time")?);
            Ok(())
        },
    ),
    keyword(
        "option set-total-time",
        "<var name>",
        "total",
        "variable for the milliseconds of all events and groups",
        |agent, _, words| {
            agent.set_total_time = Some(read_variable(words, "option set-total-time")?);
            Ok(())
        },
    ),
    keyword(
        "option var-prefix",
        "<prefix>",
        "waf",
        "first part of the names of all variables of the agent",
        |agent, _, words| {
            agent.prefix = Some(read_variable(words, "option var-prefix")?);
            Ok(())
        },
    )
    .default(Described("the name of the agent")),
    keyword(
        "register-var-names",
        "<var name> ...",
        "score reason",
        "variables that the agent may set though no expression mentions them",
        |agent, _, words| {
            let missing = "'register-var-names' expects one or more variable names.";
            agent.registered.push(WrittenName::of(words.expect(missing)?));
            while let Some(word) = words.take() {
                if agent.registered.len() >= MAX_REGISTERED {
                    let message = format!("'register-var-names' : more than {MAX_REGISTERED} names.");
                    return Err(fault(word.span(), message));
                }
                agent.registered.push(WrittenName::of(word));
            }
            Ok(())
        },
    ),
    keyword(
        "timeout processing",
        "<timeout>",
        "100ms",
        "longest duration of an event or a group",
        |agent, _, words| {
            let word = words.expect("'timeout processing' expects an integer value (in milliseconds).")?;
            let timeout = delay_of(words, word, "timeout processing")?;
            agent.processing_timeout = (timeout > Duration::ZERO).then_some(timeout);
            words.end("timeout processing")
        },
    )
    .default(Described("none: the timeouts of the backend apply")),
    keyword(
        "use-backend",
        "<backend>",
        "agents",
        "backend with the servers of the agent",
        |agent, _, words| {
            let word = words.expect("'use-backend' expects a backend name.")?;
            words.end("use-backend")?;
            agent.backend = Some(WrittenName::of(word));
            Ok(())
        },
    ),
    keyword("max-waiting-frames", "<number>", "20", IGNORED, ignore_number),
    keyword("maxconnrate", "<number>", "100", IGNORED, ignore_number),
    keyword("maxerrrate", "<number>", "100", IGNORED, ignore_number),
    negatable("option async", "", "", IGNORED, ignore_option, ignore_option),
    negatable("option send-frag-payload", "", "", IGNORED, ignore_option, ignore_option),
    keyword("timeout hello", "<timeout>", "2s", IGNORED, ignore_timeout),
    keyword("timeout idle", "<timeout>", "30s", IGNORED, ignore_timeout),
]]);

/// The help text of the words that SPOE 1.2 lists as deprecated and ignored.
const IGNORED: &str = "accepted for compatibility, no effect";
/// The smallest value of `max-frame-size` in bytes (SPOE 1.2, 3.2).
const SMALLEST_FRAME: u32 = 256;
/// The bytes of a buffer that hold the length of a frame.
const FRAME_LENGTH: u32 = 4;
/// The limit of log targets of an agent.
const MAX_LOG_TARGETS: usize = 256;
/// The limit of registered names of an agent.
const MAX_REGISTERED: usize = 1024;

/// A `spoe-agent` section during parsing.
#[derive(Debug)]
pub(crate) struct AgentDraft {
    pub(super) name: WrittenName,
    pub(super) at: Location,
    pub(super) backend: Option<WrittenName>,
    pub(super) prefix: Option<WrittenName>,
    pub(super) pipelining: bool,
    pub(super) continue_on_error: bool,
    pub(super) force_set_variables: bool,
    pub(super) set_on_error: Option<WrittenName>,
    pub(super) set_process_time: Option<WrittenName>,
    pub(super) set_total_time: Option<WrittenName>,
    pub(super) registered: Vec<WrittenName>,
    pub(super) processing_timeout: Option<Duration>,
    pub(super) max_frame_size: Option<u32>,
    log_targets: LogTargets,
    pub(super) dont_log_normal: bool,
    pub(super) messages: Vec<WrittenName>,
    pub(super) groups: Vec<WrittenName>,
}

impl AgentDraft {
    pub(super) fn new(name: &Word, at: Location) -> Self {
        AgentDraft {
            name: WrittenName::of(name),
            at,
            backend: None,
            prefix: None,
            pipelining: true,
            continue_on_error: false,
            force_set_variables: false,
            set_on_error: None,
            set_process_time: None,
            set_total_time: None,
            registered: Vec::new(),
            processing_timeout: None,
            max_frame_size: None,
            log_targets: LogTargets::default(),
            dont_log_normal: false,
            messages: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// Reads a line.
    pub(super) fn line(&mut self, scope: &LineScope<'_>, line: &Line) -> Parsed {
        let first = usize::from(line.keyword().is("no"));
        let found = SPOE_AGENT_KEYWORDS.find_phrase(line, first);
        let Some((row, count)) = found else { return Err(unknown(line, first)) };
        let Handler::Ready(reader) = row.handler else { return Err(unknown(line, first)) };
        let mut words = Words::new(line, first + count);
        match (first, reader.no) {
            (0, _) => (reader.read)(self, scope, &mut words),
            (_, Some(no)) => no(self, scope, &mut words),
            (_, None) => {
                let message = match row.name.strip_prefix("option ") {
                    Some(option) => format!("negation is not supported for option '{option}'."),
                    None => "negation is supported for options and log only.".to_owned(),
                };
                Err(tight(fault(line.keyword().span(), message)))
            }
        }
    }

    /// The log targets, with those of `global` in place of `log global`.
    pub(super) fn settled_logs(&self, global: &[Arc<LogTarget>]) -> LogTargets {
        let mut targets = self.log_targets.clone();
        targets.settle(global);
        targets
    }
}

fn unknown(line: &Line, first: usize) -> Fault {
    let Some(word) = line.get(first) else {
        return tight(fault(line.span_at(first), "'no' expects an option or 'log'."));
    };
    let seconds = SPOE_AGENT_KEYWORDS.continuations(word.text());
    if seconds.is_empty() {
        let own = SPOE_AGENT_KEYWORDS.rows().filter_map(|row| row.name.split(' ').next());
        let known = own.chain(engine_section_names());
        let message = format!("unknown keyword '{word}' in spoe-agent section.");
        return suggesting(fault(word.span(), message), did_you_mean(word.text(), known));
    }
    let second = line.text(first + 1);
    let message = match (word.text(), second) {
        ("option", "") => "'option' expects an option name.".to_owned(),
        ("option", _) => format!("option '{second}' is not supported."),
        (first, _) => format!("'{first}' supports 'processing' (got '{second}')."),
    };
    let nearest = did_you_mean(second, seconds.iter().copied());
    suggesting(fault(line.span_at(first + 1), message), nearest)
}

/// Reads the name of a variable, or a part of it.
fn read_variable(words: &mut Words<'_>, keyword: &str) -> Parsed<WrittenName> {
    let word = words.expect(&format!("'{keyword}' expects a value."))?;
    if stranger_in_variable(word.text()).is_some() {
        return Err(tight(fault(word.span(), format!("'{keyword}' only supports [a-zA-Z0-9_.] chars."))));
    }
    words.end(keyword)?;
    Ok(WrittenName::of(word))
}

/// Skips the arguments of a deprecated word, with a warning.
fn ignore_rest(words: &mut Words<'_>) {
    let line = words.line();
    let named = words.position();
    let name: Vec<&str> = (0..named).map(|index| line.text(index)).collect();
    let message = format!("'{}' is deprecated and ignored.", name.join(" "));
    let place = line.keyword().span().to(line.span_at(named.saturating_sub(1)));
    line.remark(Diagnostic::warning(place, message).layout(Layout::Parsing));
    words.seek(line.len());
}

/// Like HAProxy, expects an argument and does not read it.
fn ignore_number(_: &mut AgentDraft, _: &LineScope<'_>, words: &mut Words<'_>) -> Parsed {
    if words.at_end() {
        return Err(words.fault(format!("'{}' expects an integer argument.", words.line().keyword())));
    }
    ignore_rest(words);
    Ok(())
}

fn ignore_option(_: &mut AgentDraft, _: &LineScope<'_>, words: &mut Words<'_>) -> Parsed {
    words.end("option")?;
    ignore_rest(words);
    Ok(())
}

fn ignore_timeout(_: &mut AgentDraft, _: &LineScope<'_>, words: &mut Words<'_>) -> Parsed {
    ignore_rest(words);
    Ok(())
}
