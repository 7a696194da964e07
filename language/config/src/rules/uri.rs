//! Actions on the method and the target of requests.

use weir_expr::{FormatOptions, LogFormat};

use super::headers::regex;
use super::{ActionContext, ActionReader, action, sets};
use crate::model::{Action, UriNormalizer, UriPart, UriReplacement};
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    action("set-method", "<fmt>", "POST", "replace the method", sets::HTTP_REQUEST, |context, words| {
        Ok(Action::SetMethod(Box::new(format(context, words)?)))
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
        |_, words| Ok(Action::NormalizeUri(normalizer(words)?)),
    ),
];

fn format(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<LogFormat> {
    let expects = "expects exactly 1 argument <format>.";
    let word = words.expect(expects)?;
    if !words.at_end() && !words.at_condition() {
        return Err(words.fault(expects));
    }
    context.line.expressions().format_with(word, context.points, FormatOptions::HTTP)
}

fn set(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>, part: UriPart) -> Parsed<Action> {
    Ok(Action::SetUri { part, value: Box::new(format(context, words)?) })
}

fn replace(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>, part: UriPart) -> Parsed<Action> {
    let expects = "expects exactly 2 arguments <match-regex> and <replace-format>.";
    let pattern = words.expect(expects)?;
    let replacement = words.take().ok_or_else(|| words.fault(expects))?;
    if !words.at_end() && !words.at_condition() {
        return Err(words.fault(expects));
    }
    let pattern = regex(context, pattern)?;
    let replacement =
        context.line.expressions().format_with(replacement, context.points, FormatOptions::HTTP)?;
    Ok(Action::ReplaceUri(Box::new(UriReplacement { part, pattern, replacement })))
}

fn normalizer(words: &mut Words<'_>) -> Parsed<UriNormalizer> {
    let word = words.expect("missing argument <normalizer>.")?;
    Ok(match word.text() {
        "fragment-encode" => UriNormalizer::FragmentEncode,
        "fragment-strip" => UriNormalizer::FragmentStrip,
        "path-merge-slashes" => UriNormalizer::PathMergeSlashes,
        "path-strip-dot" => UriNormalizer::PathStripDot,
        "path-strip-dotdot" => UriNormalizer::PathStripDotDot { full: words.take_if("full") },
        "percent-decode-unreserved" => {
            UriNormalizer::PercentDecodeUnreserved { strict: words.take_if("strict") }
        }
        "percent-to-uppercase" => UriNormalizer::PercentToUppercase { strict: words.take_if("strict") },
        "query-sort-by-name" => UriNormalizer::QuerySortByName,
        _ => return Err(fault(word.span(), format!("unknown normalizer '{word}'."))),
    })
}
