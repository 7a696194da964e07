//! Actions on the processing of the stream: logs, timeouts, retries, priorities, waits.

use std::sync::Arc;
use std::time::Duration;

use weir_backend::Priority;
use weir_config::numbers::{delay_of, integer_in, size_of};
use weir_config::rows::DefaultValue::Described;
use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault, not_yet};
use weir_containers::PooledFuture;
use weir_expr::Expr;
use weir_fingerprint::Canonical;
use weir_model::ValueHelp;
use weir_model::{RulesetKind, Severity, Visit};

use super::arguments::{Delay, Number, Size, at_digit};
use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::deadlines::{TimeoutName, Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::filters::limit_bandwidth;
use crate::stream::attempts::Replay;
use crate::stream::{PhaseResult, Stream, StreamError};

pub(super) const ROWS: &[ActionRow] = &[
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
                ("silent", _) => Ok(SetLogLevel(None).into_action()),
                (_, Some(level)) => Ok(SetLogLevel(Some(level)).into_action()),
                (_, None) => Err(fault(word.span(), expects)),
            }
        },
    )
    .values(LOG_LEVELS),
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
            Ok(SetNice(nice as i16).into_action())
        },
    ),
    action(
        "set-timeout",
        "{ client | connect | queue | server | tarpit | tunnel } { <timeout> | <expr> }",
        "server 5s",
        "replace a timeout of the stream",
        sets::HTTP_MESSAGES,
        |context, words| Ok(SetTimeout::read(context, words)?.into_action()),
    ),
    action(
        "set-retries",
        "{ <int> | <expr> }",
        "3",
        "replace the number of retries",
        sets::CONTENT_REQUESTS,
        |context, words| Ok(SetRetries::read(context, words)?.into_action()),
    ),
    action(
        "set-priority-class",
        "<expr>",
        "int(1)",
        "class in the queues of servers",
        sets::CONTENT_REQUESTS,
        |context, words| Ok(SetPriorityClass(context.expression(words)?).into_action()),
    ),
    action(
        "set-priority-offset",
        "<expr>",
        "int(10)",
        "advance in the queues of servers",
        sets::CONTENT_REQUESTS,
        |context, words| Ok(SetPriorityOffset(context.expression(words)?).into_action()),
    ),
    action(
        "set-bandwidth-limit",
        "<name> [limit {<expr> | <size>}] [period {<expr> | <time>}]",
        "a limit 1k period 5s",
        "limit the speed of the stream by a bwlim filter",
        sets::CONTENT,
        |context, words| Ok(SetBandwidthLimit::read(context, words)?.into_action()),
    )
    .default(Described("the limit and the period of the `filter` line")),
    action("disable-l7-retry", "", "", "do not send the request again", sets::HTTP_REQUEST, |_, _| {
        Ok(DisableL7Retry.into_action())
    }),
    action(
        "wait-for-body",
        "time <time> [ at-least <bytes> ]",
        "time 1s at-least 1k",
        "wait for the body",
        sets::HTTP_MESSAGES,
        |_, words| Ok(WaitForBody::read(words)?.into_action()),
    )
    .default(Described("the whole body, or as much as a buffer holds")),
    action(
        "wait-for-handshake",
        "",
        "",
        "wait until the client has proven that its early data are its own",
        sets::HTTP_REQUEST,
        |_, _| Ok(WaitForHandshake.into_action()),
    ),
    action("pause", "{ <timeout> | <expr> }", "100ms", "wait", sets::HTTP_MESSAGES, |context, words| {
        Ok(Pause(Delay::read(context, words, "pause")?).into_action())
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
                "on" => Ok(StrictMode(true).into_action()),
                "off" => Ok(StrictMode(false).into_action()),
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
        Ok(DoLog.into_action())
    }),
];

const LOG_LEVELS: &[ValueHelp] = &[
    ("emerg", "the gravest"),
    ("alert", "grave"),
    ("crit", "critical"),
    ("err", "an error"),
    ("warning", "a warning"),
    ("notice", "worth a note"),
    ("info", "usual"),
    ("debug", "for debugging"),
    ("silent", "write no line"),
];

/// `set-log-level`. `None` for `silent`.
#[derive(Debug, Canonical)]
struct SetLogLevel(Option<Severity>);

impl StreamAction for SetLogLevel {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        stream.log.level = Some(self.0.map(crate::log::level));
        ActionResult::NEXT
    }
}

/// `set-nice`.
#[derive(Debug, Canonical)]
struct SetNice(i16);

impl StreamAction for SetNice {
    fn run<'s>(&'s self, _: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        weir_sched::set_nice(self.0);
        ActionResult::NEXT
    }
}

/// `set-timeout`.
#[derive(Debug, Canonical)]
struct SetTimeout {
    timeout: TimeoutName,
    value: Delay,
}

impl SetTimeout {
    fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
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
        let lacking = match timeout {
            TimeoutName::Client => (!context.is_in_frontend()).then_some("frontend"),
            TimeoutName::Tarpit => None,
            _ => (!context.is_in_backend()).then_some("backend"),
        };
        if let Some(lacking) = lacking.filter(|_| !context.is_in_defaults()) {
            let message = format!("'{}' has no {lacking} capability.", context.section_name());
            return Err(fault(word.span(), message));
        }
        let value = Delay::read(context, words, "set-timeout")?;
        Ok(SetTimeout { timeout, value })
    }
}

impl StreamAction for SetTimeout {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        if let Some(delay) = self.value.value(stream) {
            stream.timeouts.set_by_rule(self.timeout, delay);
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// `set-retries`.
#[derive(Debug, Canonical)]
struct SetRetries(Number);

impl SetRetries {
    fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        if context.is_in_defaults() {
            let message = "'set-retries' is not allowed in 'defaults' sections.";
            return Err(fault(context.word.span(), message));
        }
        if !context.is_in_backend() {
            let message = "'set-retries' only available in backend or listen section.";
            return Err(fault(context.word.span(), message));
        }
        if at_digit(words) {
            let word = words.expect("expects a number.")?;
            return Ok(SetRetries(Number::Fixed(
                integer_in(word, "set-retries", 0..=i32::MAX as u32)?.into(),
            )));
        }
        Ok(SetRetries(Number::Expression(context.expression(words)?)))
    }
}

impl StreamAction for SetRetries {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        if let Some(value) = self.0.value(stream) {
            stream.attempts.allow_by_rule(u32::try_from(value.clamp(0, 100)).unwrap_or_default());
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

/// `set-priority-class`.
#[derive(Debug, Canonical)]
struct SetPriorityClass(Arc<Expr>);

impl StreamAction for SetPriorityClass {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        if let Some(class) = stream.evaluate_number(&self.0) {
            let offset = i64::from(stream.choice.priority.offset_ms());
            stream.choice.priority = Priority::new(class, offset);
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

/// `set-priority-offset`.
#[derive(Debug, Canonical)]
struct SetPriorityOffset(Arc<Expr>);

impl StreamAction for SetPriorityOffset {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        if let Some(offset) = stream.evaluate_number(&self.0) {
            let class = i64::from(stream.choice.priority.class());
            stream.choice.priority = Priority::new(class, offset);
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

/// `set-bandwidth-limit <name> [limit <size>] [period <time>]`: missing values come from the `filter` line.
#[derive(Debug, Canonical)]
pub(super) struct SetBandwidthLimit {
    pub filter: Box<str>,
    pub limit: Option<Size>,
    pub period: Option<Delay>,
}

impl SetBandwidthLimit {
    fn read(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        if context.is_in_defaults() {
            let message = "'set-bandwidth-limit' is not allowed in 'defaults' sections.";
            return Err(fault(context.word.span(), message));
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
                    limit = Some(Size::Fixed(size_of(word, option).map_err(unknown)?));
                }
                ("limit", false) => {
                    let value = context.expression(words).map_err(unknown)?;
                    limit = Some(Size::Expression(value));
                }
                _ => period = Some(Delay::read(context, words, option).map_err(unknown)?),
            }
        }
        context.use_bandwidth_limit(name, limit.is_some() || period.is_some());
        Ok(SetBandwidthLimit { filter: name.text().into(), limit, period })
    }
}

impl StreamAction for SetBandwidthLimit {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        let limit = self.limit.as_ref().and_then(|limit| limit.value(stream));
        let period = self.period.as_ref().and_then(|period| period.value(stream));
        let period_ms = period.map(|period| u64::try_from(period.as_millis()).unwrap_or(u64::MAX));
        limit_bandwidth(stream, rule.proxy, &self.filter, limit, period_ms);
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.limit.iter().for_each(|limit| limit.visit_references(visit));
        self.period.iter().for_each(|period| period.visit_references(visit));
    }
}

/// `disable-l7-retry`.
#[derive(Debug, Canonical)]
struct DisableL7Retry;

impl StreamAction for DisableL7Retry {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        stream.attempts.replay = Replay::Forbidden;
        ActionResult::NEXT
    }
}

/// `wait-for-body`.
#[derive(Debug, Canonical)]
struct WaitForBody {
    /// The maximum wait.
    time: Duration,
    /// `at-least`: the wait ends at this many bytes. 0 waits for the whole body or a full buffer.
    at_least: u64,
}

impl WaitForBody {
    fn read(words: &mut Words<'_>) -> Parsed<Self> {
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
        Ok(WaitForBody { time, at_least })
    }
}

impl StreamAction for WaitForBody {
    /// Each kind of wait has a memory block of its own size, so a stream in a tarpit does not pay for the larger wait for a body.
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        let WaitForBody { time, at_least } = *self;
        ActionResult::Await(match rule.kind {
            RulesetKind::HttpResponse => PooledFuture::new(async move {
                stream.inspection().wait_for_response_body(at_least, time).await.map(|()| Verdict::Next)
            }),
            _ => PooledFuture::new(async move {
                stream.inspection().wait_for_body(at_least, Some(time)).await.map(|()| Verdict::Next)
            }),
        })
    }
}

/// `wait-for-handshake`.
#[derive(Debug, Canonical)]
struct WaitForHandshake;

impl StreamAction for WaitForHandshake {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        if !stream.as_inspection().is_early() {
            return ActionResult::NEXT;
        }
        ActionResult::Await(PooledFuture::new(async move {
            stream.inspection().wait_for_handshake().await.map(|()| Verdict::Next)
        }))
    }
}

/// `pause`. An expression gives milliseconds.
#[derive(Debug, Canonical)]
struct Pause(Delay);

impl StreamAction for Pause {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let Some(delay) = self.0.value(stream) else { return ActionResult::NEXT };
        ActionResult::Await(PooledFuture::new(async move {
            let time = While::pause(delay, weir_sched::now());
            pause(stream, time, During::Request).await.map(|()| Verdict::Next)
        }))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

/// Waits for a fixed time. Ends early if the client aborts.
pub(super) fn pause(stream: &mut Stream, time: While, during: During) -> impl Future<Output = PhaseResult> {
    stream.hold_little();
    stream.drive(
        time,
        move |stream, _| {
            let tarpit = during == During::Tarpit;
            if stream.client.is_broken() || (tarpit && stream.client.peer_closed()) {
                stream.rules.denied = tarpit;
                return Err(StreamError::close(By::Client, during));
            }
            Ok(DriveStep::Wait(Waits::ONCE))
        },
        |_, _, _| Ok(()),
    )
}

/// `strict-mode`: whether a failure of a later rule ends the transaction.
#[derive(Debug, Canonical)]
struct StrictMode(bool);

impl StreamAction for StrictMode {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        stream.rules.is_strict = self.0;
        ActionResult::NEXT
    }
}

/// `do-log`: writes a log line now.
#[derive(Debug, Canonical)]
struct DoLog;

impl StreamAction for DoLog {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        stream.log_line().log_now();
        ActionResult::NEXT
    }
}
