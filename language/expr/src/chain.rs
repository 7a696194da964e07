//! A chain of converters without a fetch, applied to a given text.

use std::borrow::Cow;
use std::fmt;

use weir_fingerprint::Canonical;

use crate::context::FetchResult;
use crate::error::{ParseError, show};
use crate::expr::{Call, MAX_CONVERTERS, apply_pure};
use crate::sample::{Sample, SampleFlags, SampleType, Value};
use crate::scope::ExpressionScope;

/// A list of converters that need only a value, not a stream.
#[derive(Clone, Canonical)]
pub struct Chain {
    calls: Box<[Call]>,
    #[canonical(skip = "as written; the calls have the meaning")]
    text: Box<str>,
}

impl Chain {
    /// No converter: the result is the text itself.
    pub fn empty() -> Self {
        Chain { calls: Box::default(), text: "".into() }
    }

    /// Parses the whole of `words[at]`: converters with commas between them.
    ///
    /// # Errors
    /// If a converter is unknown, needs a stream, or cannot take the output type of the previous converter. If the last converter's
    /// output cannot be cast to a string.
    pub fn parse(words: &[&[u8]], at: usize, scope: &ExpressionScope<'_>) -> Result<Self, ParseError> {
        let word = words.get(at).copied().unwrap_or_default();
        let (mut calls, mut output, mut start) = (Vec::new(), SampleType::Str, 0);
        while start < word.len() {
            if calls.len() == MAX_CONVERTERS {
                return Err(ParseError::new(at, "too many converters in one expression"));
            }
            let (call, end) = Call::parse(word, start, at, output, scope)?;
            if !call.converter.is_pure(&call.args) {
                let message =
                    format!("converter '{}' needs a stream and cannot be used here", call.converter.name);
                return Err(ParseError::new(at, message).at(start..end));
            }
            if word.get(end).is_some_and(|byte| *byte != b',') {
                let message = format!("missing comma after conversion keyword '{}'", call.converter.name);
                return Err(ParseError::new(at, message).at(end..word.len()));
            }
            output = match call.converter.output {
                SampleType::Same => output,
                other => other,
            };
            calls.push(call);
            start =
                word[end..].iter().position(|byte| *byte != b',').map_or(word.len(), |commas| end + commas);
        }
        if !output.casts_to(SampleType::Str) {
            let message =
                format!("the last converter gives {}, which does not convert to a string", output.name());
            return Err(ParseError::new(at, message));
        }
        Ok(Chain { calls: calls.into(), text: show(word).into() })
    }

    /// Converts `text` to a string. None if a converter fails.
    pub fn apply<'t>(&'t self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        let sample = Sample { value: Value::from(text), flags: SampleFlags::empty() };
        match apply_pure(&self.calls, sample) {
            FetchResult::Sample(sample) => match sample.value.cast(SampleType::Str)? {
                Value::Str(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chain({})", self.text)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Fixture;

    #[track_caller]
    fn check(converters: &str, text: &str, expected: &str) {
        let found = Fixture::new().chain(converters).map(|chain| {
            let made = chain.apply(text.as_bytes());
            made.map_or("-".to_owned(), |made: std::borrow::Cow<'_, [u8]>| made.escape_ascii().to_string())
        });
        assert_eq!(
            found.unwrap_or_else(|error| format!("error: {}", error.message)),
            expected,
            "{converters}"
        );
    }

    #[test]
    fn a_converter_chain_converts_a_string_in_order() {
        check("", "as it is", "as it is");
        check("field(-2,\\\")", "x \"GET / HTTP/1.1\" y", "GET / HTTP/1.1");
        check("word(2,' '),upper", "one two", "TWO");
        check("field(9,' ')", "one two", "-");
        check("length", "four", "4");
        check("field(1, ),,length,", "four x", "4");
    }

    #[test]
    fn a_converter_chain_rejects_unknown_malformed_and_impure_converters() {
        check("upperr", "", "error: unknown converter 'upperr'");
        check("upper)", "", "error: missing comma after conversion keyword 'upper'");
        check("set-var(txn.a)", "", "error: converter 'set-var' needs a stream and cannot be used here");
    }
}
