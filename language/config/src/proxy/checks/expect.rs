//! `expect`.

use std::sync::Arc;

use weir_expr::pattern::regex::Regex;
use weir_syntax::Word;

use super::send::hex;
use super::{CheckRuleKind, comment, expression, format};
use crate::numbers::integer_in;
use crate::proxy::LineContext;
use crate::words::{Parsed, Words, fault, suggesting};
use weir_model::{CheckAction, CheckRule, CheckText, Expect, ExpectStatus, Expected, HeaderMatch, TextMatch};

pub(super) fn read(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    kind: CheckRuleKind,
) -> Parsed<CheckRule> {
    let keyword = format!("{} expect", kind.word());
    let mut reader = ExpectReader { context, kind, keyword: &keyword, found: None, inverted: false };
    let mut expect = Draft::default();
    let mut said = None;
    if words.at_end() {
        return Err(words.fault(format!("'{keyword}' : expects at least a matching pattern as arguments.")));
    }
    while let Some(word) = words.take() {
        match word.text() {
            "comment" => said = Some(comment(words, &keyword)?),
            "min-recv" => {
                let missing = format!("'{keyword}' : 'min-recv' expects a integer as argument.");
                let count: i32 = integer_in(words.expect(&missing)?, "min-recv", -1..=i32::MAX)?;
                expect.min_receive = u32::try_from(count).ok();
            }
            "ok-status" => expect.ok_status = Some(status(words, &keyword, "ok-status", OK)?),
            "error-status" => expect.error_status = Some(status(words, &keyword, "error-status", ERROR)?),
            "tout-status" => expect.timeout_status = Some(status(words, &keyword, "tout-status", TIMEOUT)?),
            "on-success" => expect.on_success = Some(reader.format(words, "on-success")?),
            "on-error" => expect.on_error = Some(reader.format(words, "on-error")?),
            "status-code" => {
                if words.at_end() {
                    return Err(words
                        .fault(format!("'{keyword}' : 'status-code' expects an expression as argument.")));
                }
                expect.status_code = Some(expression(reader.context, words)?);
            }
            _ => reader.pattern(word, words)?,
        }
    }
    let (inverted, found) = (reader.inverted, reader.found);
    let Some(what) = found else {
        return Err(words.fault(format!("'{keyword}' : expects at least a matching pattern as arguments.")));
    };
    let Draft { min_receive, ok_status, error_status, timeout_status, on_success, on_error, status_code } =
        expect;
    let expect = Expect {
        inverted,
        what,
        min_receive,
        ok_status,
        error_status,
        timeout_status,
        on_success,
        on_error,
        status_code,
    };
    Ok(CheckRule { comment: said, step: 0, action: CheckAction::Expect(Arc::new(expect)) })
}

/// The options of a line besides the pattern.
#[derive(Default)]
struct Draft {
    min_receive: Option<u32>,
    ok_status: Option<ExpectStatus>,
    error_status: Option<ExpectStatus>,
    timeout_status: Option<ExpectStatus>,
    on_success: Option<Arc<weir_expr::LogFormat>>,
    on_error: Option<Arc<weir_expr::LogFormat>>,
    status_code: Option<Arc<weir_expr::Expr>>,
}

/// Reads the pattern of a line.
struct ExpectReader<'r, 'c> {
    context: &'r LineContext<'c>,
    kind: CheckRuleKind,
    keyword: &'r str,
    found: Option<Expected>,
    inverted: bool,
}

impl ExpectReader<'_, '_> {
    fn format(&self, words: &mut Words<'_>, name: &str) -> Parsed<Arc<weir_expr::LogFormat>> {
        let missing = format!("'{}' : '{name}' expects a string as argument.", self.keyword);
        let word = words.take().ok_or_else(|| words.fault(missing))?;
        Ok(Arc::new(format(self.context, word)?))
    }

    fn pattern(&mut self, word: &Word, words: &mut Words<'_>) -> Parsed {
        let mut name = word.text();
        while let Some(rest) = name.strip_prefix('!') {
            self.inverted = !self.inverted;
            name = rest.trim_start();
        }
        if name.is_empty() && !words.at_end() {
            // The exclamation mark is a separate word.
            let next = words.take().expect("not at the end");
            return self.pattern(next, words);
        }
        let keyword = self.keyword;
        if self.found.is_some() {
            return Err(fault(word.span(), format!("'{keyword}' : only one pattern expected.")));
        }
        let what = match (self.kind, name) {
            (CheckRuleKind::Http, "hdr" | "fhdr") => self.header(name, words)?,
            (CheckRuleKind::Http, "status" | "rstatus")
            | (_, "string" | "rstring" | "string-lf")
            | (CheckRuleKind::Tcp, "binary" | "rbinary" | "binary-lf") => {
                let missing = format!("'{keyword}' : '{name}' expects a <pattern> as argument.");
                let pattern = words.expect(&missing)?;
                self.simple(name, pattern)?
            }
            (kind, _) => {
                let patterns: &[&str] = match kind {
                    CheckRuleKind::Http => {
                        &["string", "rstring", "string-lf", "status", "rstatus", "hdr", "fhdr"]
                    }
                    CheckRuleKind::Tcp => {
                        &["string", "rstring", "string-lf", "binary", "rbinary", "binary-lf"]
                    }
                };
                let message = format!(
                    "'{keyword}' : only supports 'min-recv', 'ok-status', 'error-status', 'tout-status', 'on-success', 'on-error', 'status-code', 'comment' and '[!]{}' but got '{name}' as argument.",
                    patterns.join("', '[!]")
                );
                let nearest = weir_syntax::did_you_mean(name, patterns.iter().copied());
                return Err(suggesting(fault(word.span(), message), nearest));
            }
        };
        self.found = Some(what);
        Ok(())
    }

    fn simple(&self, name: &str, pattern: &Word) -> Parsed<Expected> {
        let keyword = self.keyword;
        Ok(match name {
            "string" => Expected::Text(pattern.bytes().into()),
            "string-lf" => Expected::TextFormat(Arc::new(format(self.context, pattern)?)),
            "binary" => {
                let bytes = hex(pattern.bytes());
                let bytes = bytes.map_err(|why| {
                    fault(pattern.span(), format!("'{keyword}' : invalid binary string ({why})."))
                })?;
                Expected::Binary(bytes.into())
            }
            "binary-lf" => Expected::HexFormat(Arc::new(format(self.context, pattern)?)),
            "rstring" => Expected::Regex(self.regex(pattern, false)?),
            // The digits to match are in upper case, so the pattern ignores case.
            "rbinary" => Expected::HexRegex(self.regex(pattern, true)?),
            "rstatus" => Expected::StatusRegex(self.regex(pattern, false)?),
            _ => Expected::Status(self.statuses(pattern)?),
        })
    }

    fn regex(&self, pattern: &Word, ignore_case: bool) -> Parsed<Arc<Regex>> {
        let regex = Regex::new(pattern.text(), ignore_case, self.context.at);
        regex.map(Arc::new).map_err(|error| {
            fault(pattern.span(), format!("'{}' : regex '{pattern}' is invalid ({error}).", self.keyword))
        })
    }

    /// `200,201,300-310`.
    fn statuses(&self, pattern: &Word) -> Parsed<Arc<[(u32, u32)]>> {
        let complain = |what: &str| fault(pattern.span(), format!("'{}' : {what}.", self.keyword));
        let number = |text: &str| -> Parsed<u32> {
            if let Some(wrong) = text.chars().find(|character| !character.is_ascii_digit()) {
                return Err(complain(&format!("invalid character '{wrong}' in the list of status codes")));
            }
            text.parse().map_err(|_| complain(&format!("invalid status code '{text}'")))
        };
        let ranges = pattern.text().split(',').map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return Err(complain(&format!("empty range '{part}' in the list of status codes")));
            }
            Ok((first, last))
        });
        ranges.collect::<Parsed<Vec<_>>>().map(Arc::from)
    }

    /// `name [-m <meth>] <name> [value [-m <meth>] <value>]`.
    fn header(&self, word: &str, words: &mut Words<'_>) -> Parsed<Expected> {
        let keyword = self.keyword;
        let name_word = words.peek_text();
        if !matches!(name_word, "name" | "name-lf") {
            return Err(words.fault(format!(
                "'{keyword}' : '{word}' expects at the name keyword as first argument followed by a pattern."
            )));
        }
        let is_format = name_word == "name-lf";
        words.take();
        let name = self.text_match(word, words, is_format, true)?;
        let value = match words.peek_text() {
            text @ ("value" | "value-lf") => {
                words.take();
                Some(self.text_match(word, words, text == "value-lf", false)?)
            }
            _ => None,
        };
        Ok(Expected::Header(Arc::new(HeaderMatch { name, value, is_full: word == "fhdr" })))
    }

    fn text_match(
        &self,
        word: &str,
        words: &mut Words<'_>,
        is_format: bool,
        of_name: bool,
    ) -> Parsed<TextMatch> {
        let keyword = self.keyword;
        let method =
            if words.take_if("-m") { words.take().map_or("", |method| method.text()) } else { "str" };
        if !matches!(method, "str" | "beg" | "end" | "sub" | "reg") {
            return Err(words.fault(format!(
                "'{keyword}' : '{word}' : '-m' only supports 'str', 'beg', 'end', 'sub' or 'reg' (got '{method}')."
            )));
        }
        let pattern = words.expect(&format!("'{keyword}' : '{word}' expects a <pattern> as argument."))?;
        if method == "reg" {
            if is_format {
                return Err(fault(
                    pattern.span(),
                    format!("'{keyword}' : '{word}' : a format cannot be a regular expression."),
                ));
            }
            // Names are case-insensitive.
            return Ok(TextMatch::Regex(self.regex(pattern, of_name)?));
        }
        let text = if is_format {
            CheckText::Format(Arc::new(format(self.context, pattern)?))
        } else {
            CheckText::Fixed(pattern.bytes().into())
        };
        Ok(match method {
            "beg" => TextMatch::Begin(text),
            "end" => TextMatch::End(text),
            "sub" => TextMatch::Inside(text),
            _ => TextMatch::Equal(text),
        })
    }
}

type Choices = (&'static [(&'static str, ExpectStatus)], &'static str);

const OK: Choices = (
    &[
        ("L4OK", ExpectStatus::L4Ok),
        ("L6OK", ExpectStatus::L6Ok),
        ("L7OK", ExpectStatus::L7Ok),
        ("L7OKC", ExpectStatus::L7OkConditional),
    ],
    "'L4OK', 'L6OK', 'L7OK' or 'L7OKC'",
);
const ERROR: Choices = (
    &[
        ("L7OKC", ExpectStatus::L7OkConditional),
        ("L4CON", ExpectStatus::L4Connection),
        ("L6RSP", ExpectStatus::L6Response),
        ("L7RSP", ExpectStatus::L7Response),
        ("L7STS", ExpectStatus::L7Status),
    ],
    "'L4CON', 'L6RSP', 'L7RSP' or 'L7STS'",
);
const TIMEOUT: Choices = (
    &[
        ("L4TOUT", ExpectStatus::L4Timeout),
        ("L6TOUT", ExpectStatus::L6Timeout),
        ("L7TOUT", ExpectStatus::L7Timeout),
    ],
    "'L4TOUT', 'L6TOUT' or 'L7TOUT'",
);

fn status(words: &mut Words<'_>, keyword: &str, name: &str, choices: Choices) -> Parsed<ExpectStatus> {
    let text = words.peek_text();
    let found = choices.0.iter().find(|(word, _)| *word == text).map(|(_, status)| *status);
    let found = found.ok_or_else(|| {
        words.fault(format!("'{keyword}' : '{name}' only supports {} status (got '{text}').", choices.1))
    })?;
    words.take();
    Ok(found)
}
