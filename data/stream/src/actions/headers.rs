//! Actions on header fields, on the status, and captures.

use std::sync::Arc;

use weir_config::numbers::integer_in;
use weir_config::rules::{ActionContext, MAX_CAPTURE, action, sets};
use weir_config::words::{Parsed, Word, Words, fault};
use weir_expr::context::CaptureSide;
use weir_expr::pattern::regex::{self, Groups, Regex};
use weir_expr::{Expr, FormatOptions, LogFormat};
use weir_fingerprint::Canonical;
use weir_http::values::ListMembers;
use weir_http::{Method, NoRoom, Version, status, uri};
use weir_model::{RulesetKind, Visit};
use weir_mux::Message;

use super::{ActionResult, ActionRow, RuleContext, StreamAction};
use crate::stream::Stream;

pub(super) const ROWS: &[ActionRow] = &[
    action("add-header", "<name> <fmt>", "X-A %[src]", "add a header field", sets::HTTP, |context, words| {
        let (name, format) = name_and_format(context, words)?;
        Ok(HeaderEdit::new(name, Edit::Add(format)).into_action())
    }),
    action(
        "set-header",
        "<name> <fmt>",
        "X-A %[src]",
        "replace header fields by one",
        sets::HTTP,
        |context, words| {
            let (name, format) = name_and_format(context, words)?;
            Ok(HeaderEdit::new(name, Edit::Set(format)).into_action())
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
            Ok(HeaderEdit::new(name, Edit::Delete(matching)).into_action())
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
            Ok(HeaderEdit::new(name, Edit::ReplaceField { pattern, replacement }).into_action())
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
            Ok(HeaderEdit::new(name, Edit::ReplaceValue { pattern, replacement }).into_action())
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
            Ok(EarlyHint { name: name.text().into(), value }.into_action())
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
            Ok(SetStatus { status, reason }.into_action())
        },
    ),
    action(
        "capture",
        "<sample> { len <length> | id <id> }",
        "src len 20",
        "keep a sample for the logs",
        sets::CAPTURES,
        |context, words| Ok(Capture::read(context, words)?.into_action()),
    ),
];

fn name_and_format<'l>(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'l>,
) -> Parsed<(&'l Word, LogFormat)> {
    let expects = "expects exactly 2 arguments.";
    let name = words.expect(expects)?;
    if let Some(odd) = name.text().chars().find(|character| is_forbidden(*character)) {
        let message = format!("header name '{name}' contains forbidden character '{odd}'.");
        context.warn(name.span(), message);
    }
    let value = words.take().ok_or_else(|| words.fault(expects))?;
    Ok((name, context.format(value, FormatOptions::HTTP)?))
}

/// Whether an ASCII character is invalid in a field name (RFC 9110, 5.6.2). Non-ASCII characters do not cause a warning, as in HAProxy.
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
    let pattern = context.regex(pattern, false)?;
    Ok((name, pattern, context.format(replacement, FormatOptions::HTTP)?))
}

fn name_match(context: &ActionContext<'_, '_>, name: &Word, words: &mut Words<'_>) -> Parsed<NameMatch> {
    let method = words.expect("'-m' expects a matching method.")?;
    Ok(match method.text() {
        "str" => NameMatch::Exact,
        "beg" => NameMatch::Prefix,
        "end" => NameMatch::Suffix,
        "sub" => NameMatch::Substring,
        // Field names are case-insensitive (RFC 9110, 5.1).
        "reg" => NameMatch::Regex(context.regex(name, true)?),
        _ => {
            let message = format!("-m with unsupported matching method '{method}'.");
            return Err(fault(method.span(), message));
        }
    })
}

/// `add-header`, `set-header`, `del-header`, `replace-header`, `replace-value`: a change to the fields with a name.
#[derive(Debug, Canonical)]
struct HeaderEdit {
    name: Box<str>,
    edit: Edit,
}

#[derive(Debug, Canonical)]
enum Edit {
    Add(LogFormat),
    /// Replaces all fields with the name by one field.
    Set(LogFormat),
    /// Removes every field with a matching name.
    Delete(NameMatch),
    /// Replaces a match in the whole value of each field.
    ReplaceField {
        pattern: Arc<Regex>,
        /// The new value. `\1` and so on insert capture groups.
        replacement: LogFormat,
    },
    /// Replaces a match in each comma-separated value of each field.
    ReplaceValue {
        pattern: Arc<Regex>,
        /// The new value. `\1` and so on insert capture groups.
        replacement: LogFormat,
    },
}

/// How `del-header` compares names (`-m`).
#[derive(Debug, Canonical)]
enum NameMatch {
    /// Equal, ignoring case.
    Exact,
    Prefix,
    Suffix,
    Substring,
    Regex(Arc<Regex>),
}

impl HeaderEdit {
    fn new(name: &Word, edit: Edit) -> Self {
        HeaderEdit { name: name.text().into(), edit }
    }

    fn apply(&self, stream: &mut Stream, request: bool) -> bool {
        let name = self.name.as_bytes();
        match &self.edit {
            Edit::Add(value) => {
                let value = stream.format(value);
                message(stream, request).head.add(name, &value).is_ok()
            }
            Edit::Set(value) => {
                let value = stream.format(value);
                let (head, raw) = message(stream, request).edit();
                head.set(raw, name, &value).is_ok()
            }
            Edit::Delete(matching) => {
                let (head, raw) = message(stream, request).edit();
                head.remove_matching(raw, |candidate| matching_name(matching, name, candidate));
                true
            }
            Edit::ReplaceField { pattern, replacement } => {
                let template = stream.format(replacement);
                replace_in_fields(message(stream, request), name, pattern, &template, false)
            }
            Edit::ReplaceValue { pattern, replacement } => {
                let template = stream.format(replacement);
                replace_in_fields(message(stream, request), name, pattern, &template, true)
            }
        }
    }
}

impl StreamAction for HeaderEdit {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        let request = rule.is_request();
        let applied = self.apply(stream, request);
        if applied && request && self.name.eq_ignore_ascii_case("host") {
            return ActionResult::of(follow_host(stream));
        }
        ActionResult::of(applied)
    }

    fn visit_references(&self, visit: Visit<'_>) {
        match &self.edit {
            Edit::Add(format) | Edit::Set(format) => format.visit_references(visit),
            Edit::ReplaceField { replacement, .. } | Edit::ReplaceValue { replacement, .. } => {
                replacement.visit_references(visit);
            }
            Edit::Delete(_) => {}
        }
    }
}

/// The message that the rule changes.
fn message(stream: &mut Stream, request: bool) -> &mut Message {
    if request { &mut stream.request.message } else { &mut stream.response.message }
}

/// Replaces the host of an absolute target with the new `Host`, because servers prefer the target's host (RFC 9112, 3.2.2). With
/// `CONNECT`, the port stays if `Host` does not contain one. Returns false if the new host is invalid in a target.
pub(super) fn follow_host(stream: &mut Stream) -> bool {
    let (head, raw) = stream.request.message.edit();
    let target = head.uri(raw);
    let (form, connects) = (uri::form(target), head.method() == Method::Connect);
    if form != uri::TargetForm::Absolute && !(connects && form == uri::TargetForm::Authority) {
        return true;
    }
    let Some(host) = head.positions(raw, b"host").last().and_then(|at| head.field_value(raw, at)) else {
        return true;
    };
    let authority = uri::authority(target).unwrap_or_default();
    let start = uri::scheme(target).map_or(0, |scheme| scheme.len() + b"://".len());
    let mut host = host.to_vec();
    if uri::named_host(&host) != Some(&host[..]) || !host.iter().all(u8::is_ascii_graphic) {
        return false;
    }
    if connects
        && uri::host_and_port(&host).1.is_none()
        && let Some(port) = uri::host_and_port(authority).1
    {
        host.extend_from_slice(format!(":{port}").as_bytes());
    }
    let end = start + authority.len();
    head.splice_uri(raw, start, end, &host).is_ok()
}

/// Replaces the matches of a regular expression in the fields with a name: in the whole value, or in each member of a list. Returns false
/// without room.
pub(super) fn replace_in_fields(
    message: &mut Message,
    name: &[u8],
    pattern: &Regex,
    template: &[u8],
    each: bool,
) -> bool {
    let mut groups = pattern.groups();
    replace_fields(message, name, |value| match each {
        true => replace_each(value, pattern, &mut groups, template),
        false => replace_whole(value, pattern, &mut groups, template),
    })
}

/// Replaces the values of the fields with a name. Returns false without room.
fn replace_fields(
    message: &mut Message,
    name: &[u8],
    mut replace: impl FnMut(&[u8]) -> Option<Vec<u8>>,
) -> bool {
    for position in 0..message.head.len() {
        let (head, raw) = message.edit();
        if !head.field_name(raw, position).is_some_and(|candidate| candidate.eq_ignore_ascii_case(name)) {
            continue;
        }
        let Some(value) = head.field_value(raw, position) else { continue };
        if let Some(value) = replace(value)
            && let Err(NoRoom) = head.replace_value(position, &value)
        {
            return false;
        }
    }
    true
}

fn matching_name(matching: &NameMatch, name: &[u8], candidate: &[u8]) -> bool {
    let same = |part: Option<&[u8]>| part.is_some_and(|part| part.eq_ignore_ascii_case(name));
    match matching {
        NameMatch::Exact => candidate.eq_ignore_ascii_case(name),
        NameMatch::Prefix => same(candidate.get(..name.len())),
        NameMatch::Suffix => same(candidate.len().checked_sub(name.len()).map(|start| &candidate[start..])),
        NameMatch::Substring => name.is_empty() || candidate.windows(name.len()).any(|part| same(Some(part))),
        NameMatch::Regex(pattern) => pattern.is_match(candidate),
    }
}

/// The new value. `None` without a match. The replacement replaces the whole value (manual, "replace-header").
fn replace_whole(value: &[u8], pattern: &Regex, groups: &mut Groups, template: &[u8]) -> Option<Vec<u8>> {
    pattern.captures(value, 0, groups)?;
    let mut replaced = Vec::new();
    regex::expand(template, value, groups, &mut replaced);
    Some(replaced)
}

/// The comma-separated values, each with its match replaced. `None` without any match.
fn replace_each(value: &[u8], pattern: &Regex, groups: &mut Groups, template: &[u8]) -> Option<Vec<u8>> {
    let mut replaced = Vec::new();
    let mut changed = false;
    let mut kept_to = 0;
    for item in ListMembers::new(value) {
        let start = item.as_ptr().addr() - value.as_ptr().addr();
        if pattern.captures(item, 0, groups).is_none() {
            continue;
        }
        // Blanks before a replaced value are removed too.
        replaced.extend_from_slice(value[kept_to..start].trim_ascii_end());
        regex::expand(template, item, groups, &mut replaced);
        kept_to = start + item.len();
        changed = true;
    }
    replaced.extend_from_slice(&value[kept_to..]);
    changed.then_some(replaced)
}

/// `early-hint`: a field of a 103 response. Consecutive rules share one response (manual, "early-hint").
#[derive(Debug, Canonical)]
pub(crate) struct EarlyHint {
    name: Box<str>,
    value: LogFormat,
}

impl StreamAction for EarlyHint {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let value = stream.format(&self.value);
        let hints = stream.response.early_hints.get_or_insert_with(|| {
            let mut hints = Box::new(Message::default());
            // An empty head always has room for the status line.
            let _ = hints.head.start_response(Version::HTTP_11, 103, status::reason(103).as_bytes());
            hints
        });
        ActionResult::of(hints.head.add(self.name.as_bytes(), &value).is_ok())
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// `set-status`.
#[derive(Debug, Canonical)]
struct SetStatus {
    status: u16,
    /// The reason phrase. `None` for the standard one.
    reason: Option<Box<str>>,
}

impl StreamAction for SetStatus {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let reason = self.reason.as_deref().unwrap_or_else(|| status::reason(self.status));
        let head = &mut stream.response.message.head;
        let set = head.set_status(self.status).and_then(|()| head.set_reason(reason.as_bytes()));
        stream.response.status = stream.response.message.head.status();
        ActionResult::of(set.is_ok())
    }
}

/// `capture <sample> { len <length> | id <id> }`: stores a sample for the logs.
#[derive(Debug, Canonical)]
pub(super) struct Capture {
    pub value: Arc<Expr>,
    /// Index in the frontend's capture slots of the request or the response.
    pub slot: u32,
}

impl Capture {
    const EXPECTS: &str = "expects <expression> [ 'len' <length> | id <idx> ].";

    fn read(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Self> {
        if words.at_end() || words.at_condition() {
            return Err(words.fault(Self::EXPECTS));
        }
        let value = context.expression(words)?;
        let is_request = matches!(context.kind, RulesetKind::TcpRequestContent | RulesetKind::HttpRequest);
        let keyword = words.take().ok_or_else(|| words.fault(Self::EXPECTS))?;
        let slot = match keyword.text() {
            "len" => Self::read_length(context, words, is_request)?,
            "id" => {
                let word = words.expect(Self::EXPECTS)?;
                let slot = integer_in(word, "id", 0..=i32::MAX as u32)?;
                context.use_capture(is_request, slot, word.span());
                slot
            }
            other => return Err(fault(keyword.span(), format!("expects 'len' or 'id', found '{other}'."))),
        };
        Ok(Capture { value, slot })
    }

    /// Parses a length and declares a slot of that length.
    fn read_length(
        context: &mut ActionContext<'_, '_>,
        words: &mut Words<'_>,
        is_request: bool,
    ) -> Parsed<u32> {
        let word = words.expect(Self::EXPECTS)?;
        if !is_request {
            let message = "'len' makes a slot for requests: use 'declare capture response' and 'id'.";
            return Err(fault(word.span(), message));
        }
        if context.is_in_backend() && !context.is_in_frontend() {
            return Err(fault(word.span(), "'len' needs a proxy with frontend capability: use 'id'."));
        }
        let length_max = integer_in(word, "len", 0..=MAX_CAPTURE)?;
        if length_max == 0 {
            return Err(fault(word.span(), "length must be > 0."));
        }
        Ok(context.add_capture(length_max))
    }
}

impl StreamAction for Capture {
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        if let Some(value) = stream.evaluate_string(&self.value) {
            let side = if rule.is_request() { CaptureSide::Request } else { CaptureSide::Response };
            stream.log_line().store_capture(side, self.slot as usize, &value);
        }
        ActionResult::NEXT
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}
