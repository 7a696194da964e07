//! Actions on the method and the target of requests.

use std::sync::Arc;

use weir_config::rules::{ActionContext, action, sets};
use weir_config::words::{Parsed, Words, fault};
use weir_expr::pattern::regex::{self, Regex};
use weir_expr::{FormatOptions, LogFormat};
use weir_fingerprint::{Canonical, FormEncoder};
use weir_http::Method;
use weir_http::normalize::{BrokenSequence, Normalizer};
use weir_model::{Action, ActionFacts, Visit};
use weir_scripts::RequestLinePart;

use super::arguments::only_format;
use super::{ActionResult, ActionRow, RuleContext, StreamAction};
use crate::ending::{By, During};
use crate::stream::{Stream, StreamError};

pub(super) const ROWS: &[ActionRow] = &[
    action("set-method", "<fmt>", "POST", "replace the method", sets::HTTP_REQUEST, |context, words| {
        Ok(SetMethod(only_format(context, words)?).into_action())
    }),
    action("set-path", "<fmt>", "/a", "replace the path", sets::HTTP_REQUEST, |context, words| {
        set(context, words, UriPart::Path)
    }),
    action("set-pathq", "<fmt>", "/a?b", "replace path and query", sets::HTTP_REQUEST, |context, words| {
        set(context, words, UriPart::PathAndQuery)
    }),
    action("set-query", "<fmt>", "a=b", "replace the query", sets::HTTP_REQUEST, |context, words| {
        set(context, words, UriPart::Query)
    }),
    action("set-uri", "<fmt>", "/a?b", "replace the whole target", sets::HTTP_REQUEST, |context, words| {
        set(context, words, UriPart::Uri)
    }),
    action(
        "replace-path",
        "<match-regex> <replace-fmt>",
        "(.*) /a\\1",
        "replace in the path",
        sets::HTTP_REQUEST,
        |context, words| replace(context, words, UriPart::Path),
    ),
    action(
        "replace-pathq",
        "<match-regex> <replace-fmt>",
        "(.*) /a\\1",
        "replace in path and query",
        sets::HTTP_REQUEST,
        |context, words| replace(context, words, UriPart::PathAndQuery),
    ),
    action(
        "replace-uri",
        "<match-regex> <replace-fmt>",
        "(.*) /a\\1",
        "replace in the whole target",
        sets::HTTP_REQUEST,
        |context, words| replace(context, words, UriPart::Uri),
    ),
    action(
        "normalize-uri",
        "{ fragment-encode | fragment-strip | path-merge-slashes | path-strip-dot | path-strip-dotdot [ full ] | percent-decode-unreserved [ strict ] | percent-to-uppercase [ strict ] | query-sort-by-name }",
        "path-strip-dotdot full",
        "bring the target into a canonical form",
        sets::HTTP_REQUEST,
        |_, words| Ok(NormalizeUri(normalizer(words)?).into_action()),
    ),
];

fn set(context: &ActionContext<'_, '_>, words: &mut Words<'_>, part: UriPart) -> Parsed<Action> {
    Ok(SetUri { part, value: only_format(context, words)? }.into_action())
}

fn replace(context: &ActionContext<'_, '_>, words: &mut Words<'_>, part: UriPart) -> Parsed<Action> {
    let expects = "expects exactly 2 arguments <match-regex> and <replace-format>.";
    let pattern = words.expect(expects)?;
    let replacement = words.take().ok_or_else(|| words.fault(expects))?;
    if !words.at_end() && !words.at_condition() {
        return Err(words.fault(expects));
    }
    let pattern = context.regex(pattern, false)?;
    let replacement = context.format(replacement, FormatOptions::HTTP)?;
    Ok(ReplaceUri { part, pattern, replacement }.into_action())
}

fn normalizer(words: &mut Words<'_>) -> Parsed<Normalizer> {
    let word = words.expect("missing argument <normalizer>.")?;
    Ok(match word.text() {
        "fragment-encode" => Normalizer::FragmentEncode,
        "fragment-strip" => Normalizer::FragmentStrip,
        "path-merge-slashes" => Normalizer::PathMergeSlashes,
        "path-strip-dot" => Normalizer::PathStripDot,
        "path-strip-dotdot" => Normalizer::PathStripDotdot { full: words.take_if("full") },
        "percent-decode-unreserved" => {
            Normalizer::PercentDecodeUnreserved { strict: words.take_if("strict") }
        }
        "percent-to-uppercase" => Normalizer::PercentToUppercase { strict: words.take_if("strict") },
        "query-sort-by-name" => Normalizer::QuerySortByName,
        _ => return Err(fault(word.span(), format!("unknown normalizer '{word}'."))),
    })
}

/// `set-method`.
#[derive(Debug, Canonical)]
struct SetMethod(LogFormat);

impl StreamAction for SetMethod {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let method = stream.format(&self.0);
        ActionResult::of(set_method(stream, &method))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.0.visit_references(visit);
    }
}

/// Sets the method. The client's request decides whether a tunnel follows, so a rule may not change to or from CONNECT.
fn set_method(stream: &mut Stream, method: &[u8]) -> bool {
    let connects = [stream.request.message.head.method() == Method::Connect, *method == *b"CONNECT"];
    weir_http::is_token(method)
        && connects[0] == connects[1]
        && stream.request.message.head.set_method(method).is_ok()
}

/// Sets a part of the request line for a script. False if the value is invalid, or the head lacks room.
pub(super) fn edit_for_script(stream: &mut Stream, part: RequestLinePart, value: &[u8]) -> bool {
    let part = match part {
        RequestLinePart::Method => return set_method(stream, value),
        RequestLinePart::Path => UriPart::Path,
        RequestLinePart::Query => UriPart::Query,
        RequestLinePart::Uri => UriPart::Uri,
    };
    part.put(stream, value) && part.follow(stream)
}

/// A part of the request's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Canonical)]
enum UriPart {
    Path,
    PathAndQuery,
    Query,
    Uri,
}

impl UriPart {
    fn put(self, stream: &mut Stream, value: &[u8]) -> bool {
        let (head, raw) = stream.request.message.edit();
        let put = match self {
            UriPart::Path => head.set_path(raw, value),
            UriPart::PathAndQuery => head.set_path_and_query(raw, value),
            UriPart::Query => head.set_query(raw, value.strip_prefix(b"?").unwrap_or(value)),
            UriPart::Uri => head.set_uri(value),
        };
        put.is_ok()
    }

    /// Sets `Host` to the host of a new target, so that rules do not have to set both.
    fn follow(self, stream: &mut Stream) -> bool {
        if self != UriPart::Uri {
            return true;
        }
        let target = stream.request.message.head.uri(stream.request.message.bytes());
        let Some(host) = weir_http::uri::named_host(target).map(<[u8]>::to_vec) else { return true };
        let (head, raw) = stream.request.message.edit();
        let position = head.positions(raw, b"host").next();
        match position {
            Some(position) => head.replace_value(position, &host).is_ok(),
            None => head.add(b"host", &host).is_ok(),
        }
    }
}

/// `set-path`, `set-pathq`, `set-query`, `set-uri`.
#[derive(Debug, Canonical)]
struct SetUri {
    part: UriPart,
    value: LogFormat,
}

impl StreamAction for SetUri {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let value = stream.format(&self.value);
        ActionResult::of(self.part.put(stream, &value) && self.part.follow(stream))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.value.visit_references(visit);
    }
}

/// `replace-path`, `replace-pathq`, `replace-uri`.
#[derive(Debug, Canonical)]
struct ReplaceUri {
    /// Never [`UriPart::Query`].
    part: UriPart,
    pattern: Arc<Regex>,
    /// The new value. `\1` and so on insert capture groups.
    replacement: LogFormat,
}

impl StreamAction for ReplaceUri {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let template = stream.format(&self.replacement);
        let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
        let old = match self.part {
            // A target without a path (of a CONNECT, or `*`) stays unchanged: with a path it would be another target.
            UriPart::Path | UriPart::PathAndQuery if head.path(raw).is_empty() => return ActionResult::NEXT,
            UriPart::Path => head.path(raw),
            UriPart::PathAndQuery => head.path_and_query(raw),
            UriPart::Query | UriPart::Uri => head.uri(raw),
        };
        let mut groups = self.pattern.groups();
        if self.pattern.captures(old, 0, &mut groups).is_none() {
            return ActionResult::NEXT;
        }
        let mut new = Vec::with_capacity(old.len());
        regex::expand(&template, old, &groups, &mut new);
        ActionResult::of(self.part.put(stream, &new) && self.part.follow(stream))
    }

    fn visit_references(&self, visit: Visit<'_>) {
        self.replacement.visit_references(visit);
    }
}

/// `normalize-uri`.
#[derive(Debug, Canonical)]
struct NormalizeUri(#[canonical(with = encode_normalizer)] Normalizer);

/// Encodes a normalizer by its `Debug` form, which is complete. The normalizer's crate does not implement the canonical form.
fn encode_normalizer(normalizer: &Normalizer, out: &mut FormEncoder<'_>) {
    out.text(&format!("{normalizer:?}"));
}

impl StreamAction for NormalizeUri {
    fn run<'s>(&'s self, stream: &'s mut Stream, _: RuleContext<'s>) -> ActionResult<'s> {
        let (head, raw) = (&stream.request.message.head, stream.request.message.bytes());
        let mut new = Vec::new();
        match self.0.apply(head.uri(raw), &mut new) {
            Ok(false) => ActionResult::NEXT,
            Ok(true) => ActionResult::of(UriPart::Uri.put(stream, &new)),
            // A strict normalizer found an invalid target (manual, "normalize-uri").
            Err(BrokenSequence) => {
                stream.counts().count_bad_request();
                stream.timers.request = None;
                ActionResult::stop(StreamError::error(400, By::Proxy, During::Request))
            }
        }
    }

    fn facts(&self) -> ActionFacts<'_> {
        let takes_fragments = matches!(self.0, Normalizer::FragmentEncode | Normalizer::FragmentStrip);
        ActionFacts { takes_fragments, ..ActionFacts::NONE }
    }
}
