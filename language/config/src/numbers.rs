//! Numbers, times and sizes in words of the configuration.
//!
//! HAProxy parses many numbers with `atol`, which returns 0 for "abc". Here, an invalid number is an error.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use weir_syntax::units::{TimeUnit, parse_size, parse_time_prefix};
use weir_syntax::{Diagnostic, Word};

use crate::words::{Parsed, Words, fault};

/// Reads an integer in `range` as the argument of `keyword`.
pub(crate) fn integer<T>(words: &mut Words<'_>, keyword: &str, range: RangeInclusive<T>) -> Parsed<T>
where
    T: FromStr + PartialOrd + std::fmt::Display + Copy,
{
    let missing = format!("'{keyword}' expects an integer argument.");
    let word = words.expect(&missing)?;
    integer_in(word, keyword, range)
}

/// Parses `word` as an integer in `range`.
pub fn integer_in<T>(word: &Word, keyword: &str, range: RangeInclusive<T>) -> Parsed<T>
where
    T: FromStr + PartialOrd + std::fmt::Display + Copy,
{
    let digits = word.text().strip_prefix('-').unwrap_or(word.text());
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(fault(
            word.span(),
            format!("'{keyword}' expects an integer argument, which '{word}' is not."),
        ));
    }
    match word.text().parse::<T>() {
        Ok(value) if range.contains(&value) => Ok(value),
        _ => Err(fault(
            word.span(),
            format!(
                "'{keyword}' : invalid value '{word}', allowed range is {}..{}.",
                range.start(),
                range.end()
            ),
        )),
    }
}

/// A number in decimal, hexadecimal (`0x`) or octal (`0`), for packet marks and types of service.
pub fn prefixed_integer(text: &str) -> Option<u32> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return u32::from_str_radix(digits, 16).ok();
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.len() > 1 && text.starts_with('0') {
        return u32::from_str_radix(&text[1..], 8).ok();
    }
    text.parse().ok()
}

/// Parses `word` as a delay. Milliseconds without a unit.
pub fn delay_of(words: &Words<'_>, word: &Word, keyword: &str) -> Parsed<Duration> {
    duration(words, word, keyword, TimeUnit::Milliseconds)
}

/// Parses `word` as a delay. Seconds without a unit.
pub(crate) fn seconds_of(words: &Words<'_>, word: &Word, keyword: &str) -> Parsed<Duration> {
    duration(words, word, keyword, TimeUnit::Seconds)
}

/// Text after the unit, as in `30sec`, only causes a warning, as in HAProxy 3.2.
fn duration(words: &Words<'_>, word: &Word, keyword: &str, unit: TimeUnit) -> Parsed<Duration> {
    let text = word.text();
    let (count, length) = parse_time_prefix(text, unit)
        .map_err(|error| fault(word.span(), error.describe(keyword, text, unit)))?;
    if let Some(character) = text[length..].chars().next() {
        let message = format!(
            "unexpected character '{character}' after the timer value '{text}' of '{keyword}': '{}' is used. The units \
             are us, ms, s, m, h and d.",
            &text[..length]
        );
        words.line().remark(Diagnostic::warning(word.span_of(length..text.len()), message));
    }
    Ok(Duration::from_micros(count.saturating_mul(unit.microseconds())))
}

/// Parses `word` as a size. Bytes without a unit.
pub fn size_of(word: &Word, keyword: &str) -> Parsed<u64> {
    parse_size(word.text()).map_err(|error| fault(word.span(), error.describe(keyword, word.text())))
}
