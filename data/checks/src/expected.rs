//! Matches received data with the expectation of a rule. Nothing here waits. The caller retries when more bytes arrive.

use weir_http::Head;
use weir_model::{CheckText, Expect, Expected, HeaderMatch, TextMatch};

use crate::context::CheckContext;
use crate::own;

/// The result of examining the received data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Examination {
    /// The expected data was found.
    Found,
    /// The expected data is missing.
    Absent,
    /// The expected data may still arrive.
    Later,
    /// The conclusion of an option's own dialogue.
    Own(own::Conclusion),
}

/// Examines the payload of `context`. `complete`: no more bytes will arrive.
pub(crate) fn look(expect: &Expect, context: &mut CheckContext<'_>, complete: bool) -> Examination {
    if let Expected::Own(own) = expect.what {
        return match own::look(own, context.payload(), complete) {
            Some(conclusion) => Examination::Own(conclusion),
            None => Examination::Later,
        };
    }
    if !complete && context.payload().len() < expect.min_receive.unwrap_or(0) as usize {
        return Examination::Later;
    }
    let found = match &expect.what {
        Expected::Status(ranges) => {
            let status = context.response.as_ref().map_or(0, |response| u32::from(response.head.status()));
            return conclude(ranges.iter().any(|(first, last)| (*first..=*last).contains(&status)));
        }
        Expected::StatusRegex(regex) => {
            let status = context.response.as_ref().map_or(0, |response| response.head.status());
            return conclude(regex.is_match(status.to_string().as_bytes()));
        }
        Expected::Header(wanted) => return conclude(has_header(wanted, context)),
        Expected::Text(text) | Expected::Binary(text) => contains(context.payload(), text),
        Expected::TextFormat(format) => {
            let mut text = Vec::new();
            format.render(context, &mut text);
            contains(context.payload(), &text)
        }
        Expected::HexFormat(format) => {
            let mut digits = Vec::new();
            format.render(context, &mut digits);
            // Invalid digits match nothing.
            from_hex(&digits).is_some_and(|bytes| contains(context.payload(), &bytes))
        }
        Expected::Regex(regex) => regex.is_match(context.payload()),
        Expected::HexRegex(regex) => regex.is_match(&to_hex(context.payload())),
        Expected::Own(_) => false,
    };
    // Without `min-recv`, the rest may still arrive (manual, "min-recv").
    if !found && !complete && expect.min_receive.is_none() {
        return Examination::Later;
    }
    conclude(found)
}

fn conclude(found: bool) -> Examination {
    if found { Examination::Found } else { Examination::Absent }
}

/// The expected bytes, for messages.
pub(crate) fn in_words(what: &Expected) -> String {
    match what {
        Expected::Text(text) => format!("'{}'", String::from_utf8_lossy(text)),
        Expected::Binary(_) => "(binary)".to_owned(),
        Expected::TextFormat(_) => "(log-format string)".to_owned(),
        Expected::HexFormat(_) => "(log-format binary)".to_owned(),
        Expected::Regex(_) => "(regex)".to_owned(),
        Expected::HexRegex(_) => "(binary regex)".to_owned(),
        // These are appended to "content" verbatim.
        Expected::Status(_) => "(status codes)".to_owned(),
        Expected::StatusRegex(_) => " (regex)".to_owned(),
        Expected::Header(_) => " (header pattern)".to_owned(),
        _ => String::new(),
    }
}

/// The rule, for messages.
pub(crate) fn rule_in_words(what: &Expected) -> String {
    match what {
        Expected::Text(text) => format!("expect string '{}'", String::from_utf8_lossy(text)),
        other => format!("expect {}", in_words(other).trim_matches(['(', ')', ' '])),
    }
}

fn contains(payload: &[u8], text: &[u8]) -> bool {
    text.is_empty() || payload.windows(text.len()).any(|window| window == text)
}

/// Decodes hexadecimal digits.
pub(crate) fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)).collect()
}

fn to_hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]).collect()
}

fn has_header(wanted: &HeaderMatch, context: &mut CheckContext<'_>) -> bool {
    let name = ExpectedText::of(&wanted.name, context);
    let value = wanted.value.as_ref().map(|value| ExpectedText::of(value, context));
    let Some(response) = &context.response else { return false };
    let (head, raw): (&Head, &[u8]) = (&response.head, response.bytes());
    head.fields(raw).any(|(field, text)| {
        name.matches(&field.to_ascii_lowercase(), true)
            && value.as_ref().is_none_or(|value| {
                if wanted.is_full {
                    return value.matches(text.trim_ascii(), false);
                }
                text.split(|byte| *byte == b',').any(|part| value.matches(part.trim_ascii(), false))
            })
    })
}

/// A rendered text to compare with.
struct ExpectedText<'m> {
    how: &'m TextMatch,
    text: Vec<u8>,
}

impl<'m> ExpectedText<'m> {
    fn of(how: &'m TextMatch, context: &mut CheckContext<'_>) -> Self {
        let text = match how {
            TextMatch::Equal(text)
            | TextMatch::Begin(text)
            | TextMatch::End(text)
            | TextMatch::Inside(text) => render(text, context),
            TextMatch::Regex(_) => Vec::new(),
        };
        ExpectedText { how, text }
    }

    /// Matches a subject. With `lowered`, the comparison ignores case.
    fn matches(&self, subject: &[u8], lowered: bool) -> bool {
        let text = if lowered { self.text.to_ascii_lowercase() } else { self.text.clone() };
        match self.how {
            TextMatch::Equal(_) => subject == text,
            TextMatch::Begin(_) => subject.starts_with(&text),
            TextMatch::End(_) => subject.ends_with(&text),
            TextMatch::Inside(_) => contains(subject, &text),
            TextMatch::Regex(regex) => regex.is_match(subject),
        }
    }
}

/// Renders a string to send, with the current values of its expressions.
pub(crate) fn render(text: &CheckText, context: &mut CheckContext<'_>) -> Vec<u8> {
    match text {
        CheckText::Fixed(bytes) => bytes.to_vec(),
        CheckText::Format(format) => {
            let mut out = Vec::new();
            format.render(context, &mut out);
            out
        }
    }
}

/// An expression's value as a number.
pub(crate) fn number(expression: &weir_expr::Expr, context: &mut CheckContext<'_>) -> Option<i64> {
    match expression.evaluate_as(context, weir_expr::SampleType::Int).sample()?.value {
        weir_expr::Value::Int(number) => Some(number),
        _ => None,
    }
}
