//! Arguments of several actions: numbers, delays and sizes, known now or when the rule runs.

use std::sync::Arc;
use std::time::Duration;

use weir_config::model::Visit;
use weir_config::numbers::delay_of;
use weir_config::rules::ActionContext;
use weir_config::words::{Parsed, Words};
use weir_expr::{Expr, FormatOptions, LogFormat};

use crate::stream::Stream;

/// An integer.
#[derive(Debug)]
pub(super) enum Number {
    /// Known now.
    Fixed(u32),
    /// An expression that gives an integer.
    Expression(Arc<Expr>),
}

/// A delay.
#[derive(Debug)]
pub(super) enum DelayOrExpression {
    /// Known now.
    Fixed(Duration),
    /// An expression that gives milliseconds.
    Expression(Arc<Expr>),
}

/// A size.
#[derive(Debug)]
pub(super) enum SizeOrExpression {
    /// Known now.
    Fixed(u64),
    /// An expression that gives bytes.
    Expression(Arc<Expr>),
}

impl Number {
    /// The number, if the expression gives one.
    pub fn value(&self, stream: &mut Stream) -> Option<i64> {
        match self {
            Number::Fixed(number) => Some(i64::from(*number)),
            Number::Expression(expression) => stream.evaluate_number(expression),
        }
    }

    pub fn visit_references(&self, visit: Visit<'_>) {
        if let Number::Expression(expression) = self {
            expression.visit_references(visit);
        }
    }
}

impl DelayOrExpression {
    /// Reads a delay if a digit follows, else an expression.
    pub fn read(context: &ActionContext<'_, '_>, words: &mut Words<'_>, keyword: &str) -> Parsed<Self> {
        if at_digit(words) {
            let word = words.expect("expects a delay.")?;
            return Ok(DelayOrExpression::Fixed(delay_of(words, word, keyword)?));
        }
        Ok(DelayOrExpression::Expression(context.expression(words)?))
    }

    /// The delay, if the expression gives one.
    pub fn value(&self, stream: &mut Stream) -> Option<Duration> {
        match self {
            DelayOrExpression::Fixed(delay) => Some(*delay),
            DelayOrExpression::Expression(expression) => stream
                .evaluate_number(expression)
                .and_then(|ms| u64::try_from(ms).ok())
                .map(Duration::from_millis),
        }
    }

    pub fn visit_references(&self, visit: Visit<'_>) {
        if let DelayOrExpression::Expression(expression) = self {
            expression.visit_references(visit);
        }
    }
}

impl SizeOrExpression {
    /// The size, if the expression gives one.
    pub fn value(&self, stream: &mut Stream) -> Option<u64> {
        match self {
            SizeOrExpression::Fixed(size) => Some(*size),
            SizeOrExpression::Expression(expression) => {
                stream.evaluate_number(expression).and_then(|size| u64::try_from(size).ok())
            }
        }
    }

    pub fn visit_references(&self, visit: Visit<'_>) {
        if let SizeOrExpression::Expression(expression) = self {
            expression.visit_references(visit);
        }
    }
}

/// Whether a number follows.
pub(super) fn at_digit(words: &Words<'_>) -> bool {
    words.peek_text().starts_with(|first: char| first.is_ascii_digit())
}

/// Reads a format that is the only argument.
pub(super) fn only_format(context: &ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<LogFormat> {
    let expects = "expects exactly 1 argument <format>.";
    let word = words.expect(expects)?;
    if !words.at_end() && !words.at_condition() {
        return Err(words.fault(expects));
    }
    context.format(word, FormatOptions::HTTP)
}
