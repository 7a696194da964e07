//! Rules: an action with its arguments, then `if` or `unless` and a condition.
//!
//! Other crates supply the actions as rows, each with its allowed rulesets and its reader function ([`ActionReader`]). This file has the
//! common parts of all rules: the lookup of the row, the condition, the order of rulesets, and unreachable rules.

mod context;
mod redirect;

use std::time::Duration;

use weir_expr::{EvaluationPoint, EvaluationPoints};
use weir_syntax::{Layout, Span, Word};

pub use crate::draft::MAX_CAPTURE;
pub use crate::draft::action::{ActionContext, ActionReader, ActionTable, ReadAction};
pub(crate) use context::read_table_name;
pub(crate) use redirect::read_redirect;

use crate::draft::order::RuleStep;
use crate::draft::{ConditionList, DraftSection, LineContext};
use crate::numbers::delay_of;
use crate::rows::{Handler, Row};
use crate::words::{Fault, Parsed, Words, fault, not_yet, prefixed, suggesting};
use weir_model::{ProxySection, Rule, RulesetKind, RulesetSet};

/// Sets of rulesets, for the rows of actions.
pub mod sets {
    use weir_model::RulesetKind::*;
    use weir_model::RulesetSet;

    /// All rulesets of `tcp-request` and `tcp-response`.
    pub const TCP: RulesetSet =
        RulesetSet::of(&[TcpRequestConnection, TcpRequestSession, TcpRequestContent, TcpResponseContent]);
    /// `tcp-request connection`.
    pub const CONNECTION: RulesetSet = RulesetSet::of(&[TcpRequestConnection]);
    /// `tcp-request content`.
    pub const TCP_CONTENT: RulesetSet = RulesetSet::of(&[TcpRequestContent]);
    /// `tcp-response content`.
    pub const TCP_RESPONSE: RulesetSet = RulesetSet::of(&[TcpResponseContent]);
    /// All rulesets.
    pub const EVERY: RulesetSet = RulesetSet::of(&super::RulesetKind::ALL);
    /// All except `http-after-response`.
    pub const ALL_BUT_AFTER: RulesetSet = RulesetSet::of(&[
        TcpRequestConnection,
        TcpRequestSession,
        TcpRequestContent,
        TcpResponseContent,
        HttpRequest,
        HttpResponse,
    ]);
    /// All rulesets of `tcp-request` and `tcp-response`, and `http-request`.
    pub const TCP_AND_REQUEST: RulesetSet = RulesetSet::of(&[
        TcpRequestConnection,
        TcpRequestSession,
        TcpRequestContent,
        TcpResponseContent,
        HttpRequest,
    ]);
    /// All rulesets of `tcp-request`, `http-request` and `http-response`.
    pub const TRACKING: RulesetSet = RulesetSet::of(&[
        TcpRequestConnection,
        TcpRequestSession,
        TcpRequestContent,
        HttpRequest,
        HttpResponse,
    ]);
    /// All rulesets of `tcp-request`, and `http-request`.
    pub const REQUESTS: RulesetSet =
        RulesetSet::of(&[TcpRequestConnection, TcpRequestSession, TcpRequestContent, HttpRequest]);
    /// `tcp-request content` and `http-request`.
    pub const CONTENT_REQUESTS: RulesetSet = RulesetSet::of(&[TcpRequestContent, HttpRequest]);
    /// `tcp-request content`, `tcp-response content`, `http-request` and `http-response`.
    pub const CONTENT: RulesetSet =
        RulesetSet::of(&[TcpRequestContent, TcpResponseContent, HttpRequest, HttpResponse]);
    /// The rulesets of [`CONTENT`], and `http-after-response`.
    pub const CONTENT_AND_AFTER: RulesetSet = RulesetSet::of(&[
        TcpRequestContent,
        TcpResponseContent,
        HttpRequest,
        HttpResponse,
        HttpAfterResponse,
    ]);
    /// `tcp-request content` and all HTTP rulesets.
    pub const CAPTURES: RulesetSet =
        RulesetSet::of(&[TcpRequestContent, HttpRequest, HttpResponse, HttpAfterResponse]);
    /// `http-request`, `http-response` and `http-after-response`.
    pub const HTTP: RulesetSet = RulesetSet::of(&[HttpRequest, HttpResponse, HttpAfterResponse]);
    /// `http-request`.
    pub const HTTP_REQUEST: RulesetSet = RulesetSet::of(&[HttpRequest]);
    /// `http-response`.
    pub const HTTP_RESPONSE: RulesetSet = RulesetSet::of(&[HttpResponse]);
    /// `http-after-response`.
    pub const HTTP_AFTER_RESPONSE: RulesetSet = RulesetSet::of(&[HttpAfterResponse]);
    /// `http-request` and `http-response`.
    pub const HTTP_MESSAGES: RulesetSet = RulesetSet::of(&[HttpRequest, HttpResponse]);
    /// `http-response` and `http-after-response`.
    pub const HTTP_RESPONSES: RulesetSet = RulesetSet::of(&[HttpResponse, HttpAfterResponse]);
}

/// An implemented action. `read` takes the words after its name.
pub const fn action(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    rulesets: RulesetSet,
    read: ReadAction,
) -> Row<ActionReader> {
    Row::ready(name, arguments, example, help, ActionReader { rulesets, read })
}

/// The points where the expressions of a ruleset are evaluated, in a section of this kind.
pub(crate) fn points_of(kind: RulesetKind, section: DraftSection) -> EvaluationPoints {
    let (frontend, backend) = match kind {
        RulesetKind::TcpRequestConnection => (EvaluationPoint::FrontendConnection, None),
        RulesetKind::TcpRequestSession => (EvaluationPoint::FrontendSession, None),
        RulesetKind::TcpRequestContent => {
            (EvaluationPoint::FrontendRequestContent, Some(EvaluationPoint::BackendRequestContent))
        }
        RulesetKind::TcpResponseContent => {
            (EvaluationPoint::FrontendResponseContent, Some(EvaluationPoint::BackendResponseContent))
        }
        RulesetKind::HttpRequest => {
            (EvaluationPoint::FrontendRequestHeader, Some(EvaluationPoint::BackendRequestHeader))
        }
        RulesetKind::HttpResponse | RulesetKind::HttpAfterResponse => {
            (EvaluationPoint::FrontendResponseHeader, Some(EvaluationPoint::BackendResponseHeader))
        }
    };
    let mut points = EvaluationPoints::NONE;
    if section != DraftSection::Proxy(ProxySection::Backend) {
        points = points.or(EvaluationPoints::only(frontend));
    }
    if section != DraftSection::Proxy(ProxySection::Frontend)
        && let Some(backend) = backend
    {
        points = points.or(EvaluationPoints::only(backend));
    }
    points
}

/// The limit of rules in a ruleset.
const MAX_RULES: usize = 1 << 20;

/// Reads a rule of the given kind.
pub(crate) fn read_rule(context: &mut LineContext<'_>, words: &mut Words<'_>, kind: RulesetKind) -> Parsed {
    let line = words.line();
    let (row, word) = find_action(context, words, kind)?;
    let name = format!("{} {word}", kind.keyword());
    let subject = format!("{} '{}'", context.draft.section.noun(), context.name());
    let parsing = format!("error detected in {subject} while parsing '{name}' rule : ");
    let reader = match row.handler {
        Handler::Ready(reader) if reader.rulesets.contains(kind) => reader,
        Handler::Ready(_) => return Err(unknown_action(context, word, kind)),
        Handler::NotYet => {
            return Err(not_yet(word.span(), word.text().split('(').next().unwrap_or(row.name)));
        }
        Handler::Removed(instead) => return Err(fault(word.span(), format!("'{name}' : {instead}"))),
    };
    let points = points_of(kind, context.draft.section);
    let mut action_context = ActionContext { line: context, kind, points, word };
    let action = (reader.read)(&mut action_context, words).map_err(|fault| prefixed(fault, &parsing))?;
    if !words.at_end() && !words.at_condition() {
        let mut fault = words.fault(if kind.is_http() {
            format!(
                "'{name}' expects either 'if' or 'unless' followed by a condition but found '{}'.",
                words.peek_text()
            )
        } else {
            format!("'{name}' only accepts 'if' or 'unless', in {subject} (got '{}')", words.peek_text())
        });
        if kind.is_http() {
            fault.layout = Layout::ParsingTight;
        }
        return Err(fault);
    }
    let span = words.here();
    let failed = match kind.is_http() {
        true => format!("error detected while parsing an '{name}' condition : "),
        false => {
            let test = words.peek_text();
            format!("'{name}' : error detected in {subject} while parsing '{test}' condition : ")
        }
    };
    let condition =
        context.expressions().condition(words, points).map_err(|fault| prefixed(fault, &failed))?;
    let index = context.draft.proxy.rules.get(kind).len();
    context.note_condition(condition.is_some(), (ConditionList::Rules(kind), index), points, span);
    let rule = Rule { action, condition, at: context.at.clone() };
    add_rule(context, kind, rule, line.span())
}

fn add_rule(context: &mut LineContext<'_>, kind: RulesetKind, rule: Rule, span: Span) -> Parsed {
    context.draft.rule_memory.order(RuleStep::of(kind)).warn(context.diagnostics, span);
    if context.draft.proxy.rules.get(kind).len() >= MAX_RULES {
        return Err(fault(span, format!("more than {MAX_RULES} '{}' rules", kind.keyword())));
    }
    let ends = rule.condition.is_none() && rule.action.facts().is_final;
    if kind.is_http() && context.draft.rule_memory.ended & (1 << kind as u8) != 0 {
        let message = format!(
            "previous '{}' action is final and has no condition attached, further entries are NOOP.",
            kind.keyword()
        );
        context.warn_tight(span, message);
    }
    context.draft.rule_memory.ended |= u8::from(ends) << kind as u8;
    context.draft.proxy.rules.get_mut(kind).push(rule);
    Ok(())
}

fn find_action<'l>(
    context: &LineContext<'_>,
    words: &mut Words<'l>,
    kind: RulesetKind,
) -> Parsed<(&'static Row<ActionReader>, &'l Word)> {
    let Some(word) = words.take() else {
        let message = match kind.is_http() {
            true => format!(
                "'{}' expects an action{}, but got '' (missing argument).",
                kind.keyword(),
                known(context.keywords.actions, kind)
            ),
            false => format!(
                "'{}' expects an action{} in proxy '{}' (got '').",
                kind.keyword(),
                known(context.keywords.actions, kind),
                context.name()
            ),
        };
        return Err(words.fault(message));
    };
    let name = word.text().split('(').next().unwrap_or_default();
    if name.starts_with("lua.") {
        let registered = context.resources.scripts.action(name);
        if registered.is_none_or(|action| !action.rulesets.contains(kind)) {
            return Err(unknown_action(context, word, kind));
        }
    }
    // There is one `track-sc` action for each stick counter of the process.
    let name = match name {
        _ if name.starts_with("track-sc") => "track-sc0",
        _ if name.starts_with("lua.") => "lua.<name>",
        _ => name,
    };
    match context.keywords.actions.find(name) {
        Some(row) => Ok((row, word)),
        None => Err(unknown_action(context, word, kind)),
    }
}

/// The actions of a ruleset, for a message.
fn known(actions: &ActionTable, kind: RulesetKind) -> String {
    let names = actions.rows().filter(|row| stands_in(row, kind)).map(|row| format!("'{}'", row.name));
    format!(" ({})", names.collect::<Vec<_>>().join(", "))
}

fn stands_in(row: &Row<ActionReader>, kind: RulesetKind) -> bool {
    matches!(row.handler, Handler::Ready(reader) if reader.rulesets.contains(kind))
}

fn unknown_action(context: &LineContext<'_>, word: &Word, kind: RulesetKind) -> Fault {
    let name = word.text().split('(').next().unwrap_or_default();
    let names = context.keywords.actions.rows().filter(|row| stands_in(row, kind)).map(|row| row.name);
    let nearest = weir_syntax::did_you_mean(name, names);
    let mut message = format!(
        "'{}' expects an action{}, but got '{word}'",
        kind.keyword(),
        known(context.keywords.actions, kind)
    );
    if !kind.is_http() {
        message = format!("{message} in proxy '{}'", context.name());
    }
    let mut fault = suggesting(fault(word.span(), message), nearest);
    if kind.is_http() {
        fault.layout = Layout::ParsingTight;
    }
    fault
}

/// Reads the delay of `tcp-request inspect-delay` or `tcp-response inspect-delay`. None for zero.
pub(crate) fn read_inspect_delay(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    keyword: &str,
) -> Parsed<Option<Duration>> {
    let expects =
        format!("'{keyword}' expects a positive delay in milliseconds, in proxy '{}'", context.name());
    let word = words.expect(&expects)?;
    let delay = delay_of(words, word, keyword).map_err(|mut fault| {
        fault.message = format!("{expects} ({})", fault.message);
        fault
    })?;
    words.end(keyword)?;
    Ok((delay > Duration::ZERO).then_some(delay))
}
