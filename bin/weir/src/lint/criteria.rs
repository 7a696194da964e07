//! Conditions that never match: operators mistaken for patterns, and paths without a leading slash.

use weir_syntax::{Line, Word};

use super::LintSubject;
use crate::findings::Finding;

/// Patterns that can never match.
pub(super) fn unmatched(subject: &LintSubject<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for line in subject.lines {
        for criterion in criteria(line) {
            found.extend(operator(subject, line, &criterion));
            found.extend(paths(subject, line, &criterion));
        }
    }
    found
}

/// A fetch with its flags and patterns, from an `acl` line or a condition.
struct AclTest<'l> {
    /// The fetch with its arguments, without converters.
    fetch: &'l str,
    converters: Vec<&'l str>,
    /// The match method after `-m`.
    method: Option<&'l str>,
    /// The inline patterns, with their positions. Patterns of files are not included.
    patterns: Vec<(usize, &'l Word)>,
}

impl<'l> AclTest<'l> {
    fn new(words: &'l [Word], first: usize) -> Option<Self> {
        let (expression, rest) = words.split_first()?;
        let mut parts = split_converters(expression.text()).into_iter();
        let fetch = parts.next()?;
        let converters = parts.map(name).collect();
        let (mut method, mut patterns) = (None, Vec::new());
        let mut rest = rest.iter().enumerate().map(|(index, word)| (first + 1 + index, word));
        while let Some((index, word)) = rest.next() {
            match word.text() {
                "-m" => method = rest.next().map(|(_, word)| word.text()),
                "-f" | "-u" => drop(rest.next()),
                "--" => {
                    patterns.extend(rest);
                    break;
                }
                flag if patterns.is_empty() && flag.len() == 2 && flag.starts_with('-') => {}
                _ => patterns.push((index, word)),
            }
        }
        Some(AclTest { fetch, converters, method, patterns })
    }
}

/// The tests of a line: of an `acl` line, or those in braces.
fn criteria(line: &Line) -> Vec<AclTest<'_>> {
    let words = line.words();
    if line.keyword().is("acl") {
        return words.get(2..).and_then(|words| AclTest::new(words, 2)).into_iter().collect();
    }
    let is = |word: &Word, text| !word.is_quoted() && word.is(text);
    let mut found = Vec::new();
    let mut from = None;
    for (index, word) in words.iter().enumerate() {
        if is(word, "{") || is(word, "!{") {
            from = Some(index + 1);
        } else if is(word, "}")
            && let Some(first) = from.take()
        {
            found.extend(AclTest::new(&words[first..index], first));
        }
    }
    found
}

/// Splits `fetch(args),converter(args)` at the commas outside parentheses.
fn split_converters(expression: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0_u32, 0);
    for (at, byte) in expression.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&expression[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&expression[start..]);
    parts
}

/// The name of a fetch or converter, without arguments.
fn name(part: &str) -> &str {
    part.split('(').next().unwrap_or_default()
}

/// `hdr(host) = x`, `path == /x`: operators apply only to numbers.
fn operator(subject: &LintSubject<'_>, line: &Line, criterion: &AclTest<'_>) -> Option<Finding> {
    let is_text = TEXTS.contains(&name(criterion.fetch))
        && criterion.converters.is_empty()
        && criterion.method.is_none_or(|method| method == "str");
    let [(index, first), _, ..] = criterion.patterns[..] else { return None };
    let sign = SIGNS.contains(&first.text());
    if first.is_quoted() || !(sign || (is_text && WORDS.contains(&first.text()))) {
        return None;
    }
    let message = format!(
        "'{}' is a pattern of '{}', not an operator: leave it out. Texts that are equal match.",
        first.text(),
        criterion.fetch
    );
    Some(subject.finding(OPERATOR, line.span_at(index), message))
}

/// `path_beg admin`: every path begins with a slash.
fn paths(subject: &LintSubject<'_>, line: &Line, criterion: &AclTest<'_>) -> Vec<Finding> {
    let begins = match (name(criterion.fetch), criterion.method) {
        ("path_beg", None) | ("path" | "pathq", None | Some("str" | "beg")) => true,
        ("path_beg", Some(method)) => matches!(method, "str" | "beg"),
        _ => false,
    };
    let keeps = criterion.converters.iter().all(|converter| KEEP_FIRST.contains(converter));
    let wrong = |(_, word): &&(usize, &Word)| !word.text().starts_with('/') && !SIGNS.contains(&word.text());
    let wrong = criterion.patterns.iter().filter(|_| begins && keeps).filter(wrong);
    wrong
        .map(|(index, word)| {
            let message = format!(
                "'{}' matches no '{}': every path begins with a slash. Was '/{}' meant?",
                word.text(),
                criterion.fetch,
                word.text()
            );
            subject.finding(PATH, line.span_at(*index), message)
        })
        .collect()
}

/// Operator signs, of numbers and of other languages, that are mistaken for patterns.
const SIGNS: [&str; 10] = ["=", "==", "===", "!=", "~", "=~", "!~", "~=", "<", ">"];
/// Comparison operators for numbers.
const WORDS: [&str; 8] = ["eq", "ne", "gt", "ge", "lt", "le", "is", "equals"];
/// Fetches that return text.
const TEXTS: [&str; 16] = [
    "hdr",
    "req.hdr",
    "res.hdr",
    "req.fhdr",
    "res.fhdr",
    "path",
    "pathq",
    "url",
    "method",
    "base",
    "query",
    "cook",
    "req.cook",
    "ssl_fc_sni",
    "req.ssl_sni",
    "req.body",
];
/// Converters that keep a leading slash.
const KEEP_FIRST: [&str; 3] = ["lower", "upper", "url_dec"];

const OPERATOR: &str = "C707";
const PATH: &str = "C708";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converters_are_split_outside_of_parentheses() {
        assert_eq!(split_converters("path,regsub(a,b),lower"), ["path", "regsub(a,b)", "lower"]);
        assert_eq!(split_converters("hdr(host)"), ["hdr(host)"]);
        assert_eq!(name("hdr(host)"), "hdr");
    }
}
