//! Argument types shared by several actions: numbers, delays and sizes, fixed or evaluated when the rule runs.

use std::sync::Arc;
use std::time::Duration;

use weir_config::numbers::delay_of;
use weir_config::rules::ActionContext;
use weir_config::words::{Parsed, Words};
use weir_expr::{Expr, FormatOptions, LogFormat};
use weir_fingerprint::Canonical;
use weir_model::Visit;

use crate::stream::Stream;

/// A fixed argument, or an expression evaluated when the rule runs.
#[derive(Debug, Canonical)]
pub(super) enum Argument<T> {
    Fixed(T),
    /// An expression with an integer value.
    Expression(Arc<Expr>),
}

/// An integer.
pub(super) type Number = Argument<i64>;
/// A delay. An expression gives milliseconds.
pub(super) type Delay = Argument<Duration>;
/// A size in bytes.
pub(super) type Size = Argument<u64>;

impl<T: Copy> Argument<T> {
    /// The fixed value, or the expression's integer converted by `made`. `None` if the expression fails or the integer is out of range.
    fn given(&self, stream: &mut Stream, made: fn(i64) -> Option<T>) -> Option<T> {
        match self {
            Argument::Fixed(known) => Some(*known),
            Argument::Expression(expression) => stream.evaluate_number(expression).and_then(made),
        }
    }

    pub(super) fn visit_references(&self, visit: Visit<'_>) {
        if let Argument::Expression(expression) = self {
            expression.visit_references(visit);
        }
    }
}

impl Number {
    /// The number. `None` if the expression fails.
    pub(super) fn value(&self, stream: &mut Stream) -> Option<i64> {
        self.given(stream, Some)
    }
}

impl Delay {
    /// Parses a delay if the next word starts with a digit, else an expression.
    pub(super) fn read(
        context: &ActionContext<'_, '_>,
        words: &mut Words<'_>,
        keyword: &str,
    ) -> Parsed<Self> {
        if at_digit(words) {
            let word = words.expect("expects a delay.")?;
            return Ok(Argument::Fixed(delay_of(words, word, keyword)?));
        }
        Ok(Argument::Expression(context.expression(words)?))
    }

    /// The delay. `None` if the expression fails or is negative.
    pub(super) fn value(&self, stream: &mut Stream) -> Option<Duration> {
        self.given(stream, |ms| u64::try_from(ms).ok().map(Duration::from_millis))
    }
}

impl Size {
    /// The size in bytes. `None` if the expression fails or is negative.
    pub(super) fn value(&self, stream: &mut Stream) -> Option<u64> {
        self.given(stream, |size| u64::try_from(size).ok())
    }
}

/// Whether the next word starts with a digit.
pub(super) fn at_digit(words: &Words<'_>) -> bool {
    words.peek_text().starts_with(|first: char| first.is_ascii_digit())
}

/// Parses a log format that is the only argument.
pub(super) fn only_format(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<LogFormat> {
    let expects = "expects exactly 1 argument <format>.";
    let word = words.expect(expects)?;
    if !words.at_end() && !words.at_condition() {
        return Err(words.fault(expects));
    }
    context.format(word, FormatOptions::HTTP)
}
