//! Actions on header fields, on the status, and captures.

use std::sync::Arc;

use weir_expr::pattern::regex::Regex;
use weir_expr::{FormatOptions, LogFormat};
use weir_syntax::Word;

use super::{ActionContext, ActionReader, action, sets};
use crate::draft::MAX_CAPTURE;
use crate::model::{Action, Capture, CaptureSlot, HeaderEdit, HeaderEditKind, NameMatch, RulesetKind};
use crate::numbers::integer_in;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    action("add-header", "<name> <fmt>", "X-A %[src]", "add a header field", sets::HTTP, |context, words| {
        let (name, format) = name_and_format(context, words)?;
        Ok(header(name, HeaderEditKind::Add(format)))
    }),
    action(
        "set-header",
        "<name> <fmt>",
        "X-A %[src]",
        "replace header fields by one",
        sets::HTTP,
        |context, words| {
            let (name, format) = name_and_format(context, words)?;
            Ok(header(name, HeaderEditKind::Set(format)))
        },
    ),
    action(
        "del-header",
        "<name> [ -m <meth> ]",
        "X- -m beg",
        "remove header fields",
        sets::HTTP,
        |context, words| {
            let name = words.expect("expects at least 1 argument.")?;
            let matching =
                if words.take_if("-m") { name_match(context, name, words)? } else { NameMatch::Exact };
            Ok(header(name, HeaderEditKind::Delete(matching)))
        },
    ),
    action(
        "replace-header",
        "<name> <match-regex> <replace-fmt>",
        "Cookie a=(.*) b=\\1",
        "replace in whole header fields",
        sets::HTTP,
        |context, words| {
            let (name, pattern, replacement) = name_and_replacement(context, words)?;
            Ok(header(name, HeaderEditKind::ReplaceField { pattern, replacement }))
        },
    ),
    action(
        "replace-value",
        "<name> <match-regex> <replace-fmt>",
        "X-Forwarded-For ^192(.*)$ 172\\1",
        "replace in each value of header fields",
        sets::HTTP,
        |context, words| {
            let (name, pattern, replacement) = name_and_replacement(context, words)?;
            Ok(header(name, HeaderEditKind::ReplaceValue { pattern, replacement }))
        },
    ),
    action(
        "early-hint",
        "<name> <fmt>",
        "Link </a>",
        "send a 103 response with a header",
        sets::HTTP_REQUEST,
        |context, words| {
            let (name, value) = name_and_format(context, words)?;
            Ok(Action::EarlyHint { name: name.text().into(), value: Box::new(value) })
        },
    ),
    action(
        "set-status",
        "<status> [reason <str>]",
        "404 reason Gone",
        "replace the response's status",
        sets::HTTP_RESPONSES,
        |_, words| {
            let word =
                words.expect("expects 1 argument: <status>; or 3 arguments: <status> reason <fmt>.")?;
            let status = word.text().parse().ok().filter(|status| (100..=999).contains(status));
            let status = status
                .ok_or_else(|| fault(word.span(), "expects an integer status code between 100 and 999."))?;
            let mut reason = None;
            if words.take_if("reason") {
                reason = Some(words.expect("'reason' expects a text.")?.text().into());
            }
            Ok(Action::SetStatus { status, reason })
        },
    ),
    action(
        "capture",
        "<sample> { len <length> | id <id> }",
        "src len 20",
        "keep a sample for the logs",
        sets::CAPTURES,
        read_capture,
    ),
];

fn header(name: &Word, edit: HeaderEditKind) -> Action {
    Action::Header(Box::new(HeaderEdit { name: name.text().into(), edit }))
}

fn name_and_format<'l>(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'l>,
) -> Parsed<(&'l Word, LogFormat)> {
    let expects = "expects exactly 2 arguments.";
    let name = words.expect(expects)?;
    if let Some(odd) = name.text().chars().find(|character| is_forbidden(*character)) {
        let message = format!("header name '{name}' contains forbidden character '{odd}'.");
        context.line.warn(name.span(), message);
    }
    let value = words.take().ok_or_else(|| words.fault(expects))?;
    let format = context.line.expressions().format_with(value, context.points, FormatOptions::HTTP)?;
    Ok((name, format))
}

/// Whether an ASCII character is invalid in a field name (RFC 9110, 5.6.2). Others cause no warning, as in HAProxy.
fn is_forbidden(character: char) -> bool {
    character.is_ascii() && !character.is_ascii_alphanumeric() && !"!#$%&'*+-.^_`|~".contains(character)
}

fn name_and_replacement<'l>(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'l>,
) -> Parsed<(&'l Word, Arc<Regex>, LogFormat)> {
    let expects = "expects exactly 3 arguments.";
    let name = words.expect(expects)?;
    let pattern = words.expect(expects)?;
    let replacement = words.take().ok_or_else(|| words.fault(expects))?;
    let pattern = regex(context, pattern)?;
    let format = context.line.expressions().format_with(replacement, context.points, FormatOptions::HTTP)?;
    Ok((name, pattern, format))
}

/// Compiles the regular expression in a word.
pub(super) fn regex(context: &ActionContext<'_, '_>, word: &Word) -> Parsed<Arc<Regex>> {
    compiled(context, word, false)
}

fn compiled(context: &ActionContext<'_, '_>, word: &Word, ignore_case: bool) -> Parsed<Arc<Regex>> {
    let regex = Regex::new(word.text(), ignore_case, context.line.expressions().at)
        .map_err(|error| fault(word.span(), format!("regex '{word}' is invalid ({error}).")))?;
    Ok(Arc::new(regex))
}

fn name_match(context: &ActionContext<'_, '_>, name: &Word, words: &mut Words<'_>) -> Parsed<NameMatch> {
    let method = words.expect("'-m' expects a matching method.")?;
    Ok(match method.text() {
        "str" => NameMatch::Exact,
        "beg" => NameMatch::Prefix,
        "end" => NameMatch::Suffix,
        "sub" => NameMatch::Substring,
        // Field names are case-insensitive (RFC 9110, 5.1).
        "reg" => NameMatch::Regex(compiled(context, name, true)?),
        _ => {
            let message = format!("-m with unsupported matching method '{method}'.");
            return Err(fault(method.span(), message));
        }
    })
}

fn read_capture(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Action> {
    let expects = "expects <expression> [ 'len' <length> | id <idx> ].";
    if words.at_end() || words.at_condition() {
        return Err(words.fault(expects));
    }
    let value = context.line.expressions().expression(words, context.points)?;
    let is_request = matches!(context.kind, RulesetKind::TcpRequestContent | RulesetKind::HttpRequest);
    let keyword = words.take().ok_or_else(|| words.fault(expects))?;
    let slot = match keyword.text() {
        "len" => capture_length(context, words, is_request)?,
        "id" => {
            let word = words.expect(expects)?;
            let slot = integer_in(word, "id", 0..=i32::MAX as u32)?;
            context.line.draft.pending.capture_ids.push((is_request, slot, word.span()));
            slot
        }
        other => return Err(fault(keyword.span(), format!("expects 'len' or 'id', found '{other}'."))),
    };
    Ok(Action::Capture(Box::new(Capture { value, slot })))
}

/// Reads a length and makes a slot of it.
fn capture_length(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'_>,
    is_request: bool,
) -> Parsed<u32> {
    let word = words.expect("expects <expression> [ 'len' <length> | id <idx> ].")?;
    let section = context.line.draft.section;
    if !is_request {
        let message = "'len' makes a slot for requests: use 'declare capture response' and 'id'.";
        return Err(fault(word.span(), message));
    }
    if section.is_backend() && !section.is_frontend() {
        return Err(fault(word.span(), "'len' needs a proxy with frontend capability: use 'id'."));
    }
    let length_max = integer_in(word, "len", 0..=MAX_CAPTURE)?;
    if length_max == 0 {
        return Err(fault(word.span(), "length must be > 0."));
    }
    let slots = &mut context.line.draft.proxy.captures.request;
    slots.push(CaptureSlot { header: None, length_max });
    Ok((slots.len() - 1) as u32)
}
