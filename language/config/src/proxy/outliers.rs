//! `outlier-ejection`: temporary ejection of servers with worse traffic than the others. An extension of weir.

use std::time::Duration;

use weir_syntax::Word;

use super::LineContext;
use super::ProxyReader;
use super::keywords::{DEFAULTS_AND_BACKENDS, keyword};
use crate::numbers::{delay_of, integer_in};
use crate::rows::DefaultValue::Written;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::OutlierEjection;

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[keyword(
    "outlier-ejection",
    "{ off | [errors <count>] [ratio <percent>] [latency <factor>] [interval <time>] [base <time>] [max \
     <time>] [at-most <percent>] }",
    "errors 5 ratio 20% latency 3x interval 10s base 30s max 5m at-most 30%",
    "which servers take no requests for a while: after <count> errors in a row, with <percent> more \
     errors than the others, when <factor> times as slow",
    DEFAULTS_AND_BACKENDS,
    read_ejection,
)
.default(Written("off"))];

/// The expected arguments, for messages.
const EXPECTS: &str = "'outlier-ejection' expects 'off', or 'errors <count>', 'ratio <percent>' or 'latency <factor>', \
                       and optionally 'interval <time>', 'base <time>', 'max <time>' and 'at-most <percent>'.";

fn read_ejection(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let first = words.expect(EXPECTS)?;
    if first.is("off") {
        context.settings().outlier_ejection = None;
        return words.end("outlier-ejection off");
    }
    let mut ejection = OutlierEjection::default();
    let mut next = Some(first);
    while let Some(word) = next {
        let missing = format!("'outlier-ejection': '{word}' expects a value.");
        match word.text() {
            "errors" => {
                ejection.errors = Some(integer_in(words.expect(&missing)?, "errors", 1..=MOST_ERRORS)?);
            }
            "ratio" => ejection.ratio = Some(percent(words.expect(&missing)?, 1)?),
            "latency" => ejection.latency = Some(factor(words.expect(&missing)?)?),
            "interval" => ejection.interval = time(words, &missing)?,
            "base" => ejection.base = time(words, &missing)?,
            "max" => ejection.longest = Some(time(words, &missing)?),
            "at-most" => ejection.at_most = percent(words.expect(&missing)?, 0)?,
            _ => return Err(fault(word.span(), EXPECTS)),
        }
        next = words.take();
    }
    if ejection.errors.is_none() && ejection.ratio.is_none() && ejection.latency.is_none() {
        return Err(fault(first.span(), EXPECTS));
    }
    if ejection.longest.is_some_and(|longest| longest < ejection.base) {
        let message = "'outlier-ejection': 'max' must not be shorter than 'base'.";
        return Err(fault(first.span(), message));
    }
    context.settings().outlier_ejection = Some(ejection);
    Ok(())
}

/// The largest `errors`.
const MOST_ERRORS: u32 = 1_000_000;

/// `20%` or `20`.
fn percent(word: &Word, least: u32) -> Parsed<u32> {
    let digits = word.text().strip_suffix('%').unwrap_or(word.text());
    let value = digits.parse::<u32>().ok().filter(|value| (least..=100).contains(value));
    value.ok_or_else(|| {
        let message = format!("'outlier-ejection': '{word}' is not a percentage between {least} and 100.");
        fault(word.span(), message)
    })
}

/// `3x`, `3` or `1.5x`, in hundredths.
fn factor(word: &Word) -> Parsed<u32> {
    let text = word.text().strip_suffix('x').unwrap_or(word.text());
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let hundredths = match part.len() {
        0..=2 if part.bytes().all(|byte| byte.is_ascii_digit()) => format!("{part:0<2}").parse::<u32>().ok(),
        _ => None,
    };
    let whole = whole.parse::<u32>().ok().filter(|whole| *whole <= 1_000);
    let value = whole.zip(hundredths).map(|(whole, hundredths)| whole * 100 + hundredths);
    value.filter(|value| *value > 100).ok_or_else(|| {
        let message =
            format!("'outlier-ejection': '{word}' is not a factor above 1 and up to 1000, such as '3x'.");
        fault(word.span(), message)
    })
}

/// A time of at least a millisecond.
fn time(words: &mut Words<'_>, missing: &str) -> Parsed<Duration> {
    let word = words.expect(missing)?;
    let time = delay_of(words, word, "outlier-ejection")?;
    if time.is_zero() {
        return Err(fault(word.span(), "'outlier-ejection': times must be longer than 0."));
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;

    fn ejection(text: &str) -> Option<OutlierEjection> {
        check("backend b", text, &[]).proxies[1].settings.outlier_ejection
    }

    #[track_caller]
    fn refuses(arguments: &str, why: &str) {
        let expected = format!("A parsing [t.cfg:8] : {why}");
        check("backend b", &format!("outlier-ejection {arguments}"), &[&expected]);
    }

    #[test]
    fn parses_outlier_ejection_and_fills_in_defaults() {
        let all = "outlier-ejection errors 5 ratio 20% latency 1.5x interval 5s base 1s max 1m at-most 50%";
        let expected = OutlierEjection {
            errors: Some(5),
            ratio: Some(20),
            latency: Some(150),
            interval: Duration::from_secs(5),
            base: Duration::from_secs(1),
            longest: Some(Duration::from_secs(60)),
            at_most: 50,
        };
        assert_eq!(ejection(all), Some(expected));
        let usual = OutlierEjection { latency: Some(300), ..OutlierEjection::default() };
        assert_eq!(ejection("outlier-ejection latency 3"), Some(usual));
        assert_eq!((usual.interval.as_secs(), usual.base.as_secs(), usual.at_most), (10, 30, 30));
        assert_eq!(ejection("outlier-ejection errors 5 ;; outlier-ejection off"), None);
        assert_eq!(ejection("retries 1"), None);
    }

    #[test]
    fn rejects_invalid_outlier_ejection_values() {
        refuses("", EXPECTS);
        refuses("base 1s", EXPECTS);
        refuses("error 5", EXPECTS);
        refuses("errors", "'outlier-ejection': 'errors' expects a value.");
        refuses("ratio 0%", "'outlier-ejection': '0%' is not a percentage between 1 and 100.");
        refuses("ratio 101", "'outlier-ejection': '101' is not a percentage between 1 and 100.");
        for wrong in ["1x", "1.00x", "0.5x", "1001x", "1.234x", "x", "1.-1", "99999999999999999999"] {
            let why = format!(
                "'outlier-ejection': '{wrong}' is not a factor above 1 and up to 1000, such as '3x'."
            );
            refuses(&format!("latency {wrong}"), &why);
        }
        refuses("errors 5 base 0", "'outlier-ejection': times must be longer than 0.");
        refuses("errors 5 base 10s max 9s", "'outlier-ejection': 'max' must not be shorter than 'base'.");
    }
}
