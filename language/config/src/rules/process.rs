//! Actions on how the stream is handled: logs, timeouts, retries, priorities, waiting.

use super::{ActionContext, ActionReader, action, sets};
use crate::model::{
    Action, BandwidthLimit, DelayOrExpression, Number, RulesetKind, Severity, SizeOrExpression, TimeoutName,
};
use crate::numbers::{delay_of, integer_in, size_of};
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault, not_yet};

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    action(
        "set-log-level",
        "<level>",
        "silent",
        "level of the stream's log",
        sets::CONTENT_AND_AFTER,
        |_, words| {
            let expects = "expects exactly 1 argument (log level name or 'silent').";
            let word = words.expect(expects)?;
            match (word.text(), Severity::from_name(word.text())) {
                ("silent", _) => Ok(Action::SetLogLevel(None)),
                (_, Some(level)) => Ok(Action::SetLogLevel(Some(level))),
                (_, None) => Err(fault(word.span(), expects)),
            }
        },
    )
    .values(&[
        ("emerg", "the gravest"),
        ("alert", "grave"),
        ("crit", "critical"),
        ("err", "an error"),
        ("warning", "a warning"),
        ("notice", "worth a note"),
        ("info", "usual"),
        ("debug", "for debugging"),
        ("silent", "write no line"),
    ]),
    action(
        "set-nice",
        "<nice>",
        "-5",
        "priority of the stream, -1024 (first) to 1024",
        sets::CONTENT,
        |_, words| {
            let word = words.expect("expects exactly 1 argument (integer value).")?;
            // Values out of range are clamped (manual, "set-nice").
            let nice = integer_in(word, "set-nice", i32::MIN..=i32::MAX)?.clamp(-1024, 1024);
            Ok(Action::SetNice(nice as i16))
        },
    ),
    action(
        "set-timeout",
        "{ client | connect | queue | server | tarpit | tunnel } { <timeout> | <expr> }",
        "server 5s",
        "replace a timeout of the stream",
        sets::HTTP_MESSAGES,
        read_timeout,
    ),
    action(
        "set-retries",
        "{ <int> | <expr> }",
        "3",
        "replace the number of retries",
        sets::CONTENT_REQUESTS,
        |context, words| {
            let section = context.line.draft.section;
            if section.is_defaults() {
                return Err(fault(
                    context.word.span(),
                    "'set-retries' is not allowed in 'defaults' sections.",
                ));
            }
            if !section.is_backend() {
                let message = "'set-retries' only available in backend or listen section.";
                return Err(fault(context.word.span(), message));
            }
            if at_digit(words) {
                let word = words.expect("expects a number.")?;
                return Ok(Action::SetRetries(Number::Fixed(integer_in(
                    word,
                    "set-retries",
                    0..=i32::MAX as u32,
                )?)));
            }
            let value = context.line.expressions().expression(words, context.points)?;
            Ok(Action::SetRetries(Number::Expression(value)))
        },
    ),
    action(
        "set-priority-class",
        "<expr>",
        "int(1)",
        "class in the queues of servers",
        sets::CONTENT_REQUESTS,
        |context, words| {
            Ok(Action::SetPriorityClass(context.line.expressions().expression(words, context.points)?))
        },
    ),
    action(
        "set-priority-offset",
        "<expr>",
        "int(10)",
        "advance in the queues of servers",
        sets::CONTENT_REQUESTS,
        |context, words| {
            Ok(Action::SetPriorityOffset(context.line.expressions().expression(words, context.points)?))
        },
    ),
    action(
        "set-bandwidth-limit",
        "<name> [limit {<expr> | <size>}] [period {<expr> | <time>}]",
        "a limit 1k period 5s",
        "limit the speed of the stream by a bwlim filter",
        sets::CONTENT,
        read_bandwidth_limit,
    )
    .default(Described("the limit and the period of the `filter` line")),
    action("disable-l7-retry", "", "", "do not send the request again", sets::HTTP_REQUEST, |_, _| {
        Ok(Action::DisableL7Retry)
    }),
    action(
        "wait-for-body",
        "time <time> [ at-least <bytes> ]",
        "time 1s at-least 1k",
        "wait for the body",
        sets::HTTP_MESSAGES,
        |_, words| read_wait(words),
    )
    .default(Described("the whole body, or as much as a buffer holds")),
    action(
        "wait-for-handshake",
        "",
        "",
        "wait until the client has proven that its early data are its own",
        sets::HTTP_REQUEST,
        |_, _| Ok(Action::WaitForHandshake),
    ),
    action("pause", "{ <timeout> | <expr> }", "100ms", "wait", sets::HTTP_MESSAGES, |context, words| {
        Ok(Action::Pause(delay_or_expression(context, words, "pause")?))
    }),
    action(
        "strict-mode",
        "{ on | off }",
        "on",
        "whether rules that cannot be applied are errors",
        sets::HTTP,
        |_, words| {
            let word = words.expect("expects exactly 1 arguments.")?;
            match word.text() {
                "on" => Ok(Action::StrictMode(true)),
                "off" => Ok(Action::StrictMode(false)),
                _ => {
                    let message = format!("Unexpected value '{word}'. Only 'on' and 'off' are supported.");
                    Err(fault(word.span(), message))
                }
            }
        },
    )
    .default(Described("on")),
    action("do-log", "[profile <log_profile>]", "", "log now", sets::EVERY, |_, words| {
        if words.peek_text() == "profile" {
            return Err(not_yet(words.here(), "do-log profile"));
        }
        Ok(Action::DoLog)
    }),
];

fn at_digit(words: &Words<'_>) -> bool {
    words.peek_text().starts_with(|first: char| first.is_ascii_digit())
}

fn read_timeout(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Action> {
    let expects = "expects exactly 2 arguments.";
    let word = words.expect(expects)?;
    let timeout = match word.text() {
        "client" => TimeoutName::Client,
        "connect" => TimeoutName::Connect,
        "queue" => TimeoutName::Queue,
        "server" => TimeoutName::Server,
        "tarpit" => TimeoutName::Tarpit,
        "tunnel" => TimeoutName::Tunnel,
        _ => {
            let message = format!(
                "'set-timeout' rule supports 'client'/'connect'/'queue'/'server'/'tarpit'/'tunnel' (got '{word}')."
            );
            return Err(fault(word.span(), message));
        }
    };
    let over = matches!(timeout, TimeoutName::Connect | TimeoutName::Queue | TimeoutName::Tarpit);
    if over && context.kind == RulesetKind::HttpResponse {
        return Err(fault(word.span(), format!("'set-timeout {word}' comes too late on a response.")));
    }
    if words.at_end() || words.at_condition() {
        return Err(words.fault(expects));
    }
    let section = context.line.draft.section;
    let lacking = match timeout {
        TimeoutName::Client => (!section.is_frontend()).then_some("frontend"),
        TimeoutName::Tarpit => None,
        _ => (!section.is_backend()).then_some("backend"),
    };
    if let Some(lacking) = lacking.filter(|_| !section.is_defaults()) {
        let message = format!("'{}' has no {lacking} capability.", context.line.name());
        return Err(fault(word.span(), message));
    }
    let value = delay_or_expression(context, words, "set-timeout")?;
    Ok(Action::SetTimeout { timeout, value })
}

fn delay_or_expression(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'_>,
    keyword: &str,
) -> Parsed<DelayOrExpression> {
    if at_digit(words) {
        let word = words.expect("expects a delay.")?;
        return Ok(DelayOrExpression::Fixed(delay_of(words, word, keyword)?));
    }
    let value = context.line.expressions().expression(words, context.points)?;
    Ok(DelayOrExpression::Expression(value))
}

fn read_bandwidth_limit(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Action> {
    if context.line.draft.section.is_defaults() {
        let said = "'set-bandwidth-limit' is not allowed in 'defaults' sections.";
        return Err(fault(context.word.span(), said));
    }
    let name = words.expect("missing bwlim filter name.")?;
    let (mut limit, mut period) = (None, None);
    loop {
        let option = words.peek_text();
        if !matches!(option, "limit" | "period") {
            break;
        }
        words.take();
        let (what, next) = (if option == "limit" { "size" } else { "time" }, words.peek_text());
        let invalid = format!("'{option}': invalid {what} value or unknown fetch method '{next}'.");
        let place = words.here();
        let unknown = |_| fault(place, invalid);
        match (option, at_digit(words)) {
            ("limit", true) => {
                let word = words.expect(next)?;
                limit = Some(SizeOrExpression::Fixed(size_of(word, option).map_err(unknown)?));
            }
            ("limit", false) => {
                let value = context.line.expressions().expression(words, context.points).map_err(unknown)?;
                limit = Some(SizeOrExpression::Expression(value));
            }
            _ => period = Some(delay_or_expression(context, words, option).map_err(unknown)?),
        }
    }
    context.line.note_bandwidth_limit(name, limit.is_some() || period.is_some());
    let filter = name.text().into();
    Ok(Action::SetBandwidthLimit(Box::new(BandwidthLimit { filter, limit, period })))
}

fn read_wait(words: &mut Words<'_>) -> Parsed<Action> {
    let mut time = None;
    let mut at_least = 0;
    loop {
        match words.peek_text() {
            "time" => {
                words.take();
                let word = words.expect("missing argument for 'time'.")?;
                time = Some(delay_of(words, word, "time")?);
            }
            "at-least" => {
                words.take();
                let word = words.expect("missing argument for 'at-least'.")?;
                at_least = size_of(word, "at-least")?;
            }
            "use-large-buffer" => return Err(not_yet(words.here(), "wait-for-body use-large-buffer")),
            _ => break,
        }
    }
    let time = time.ok_or_else(|| words.fault("expects time <time> [ at-least <bytes> ]."))?;
    Ok(Action::WaitForBody { time, at_least })
}
