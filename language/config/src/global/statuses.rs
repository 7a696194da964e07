//! The statuses that count as errors and failures: `http-err-codes` and `http-fail-codes`.

use weir_syntax::Word;

use super::context::GlobalReader;
use crate::rows::DefaultValue::Written;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::StatusCodes;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::<GlobalReader>::ready(
        "http-err-codes",
        "[+-]<range>[,...] [...]",
        "400-499 -450 +500",
        "statuses that count as errors of clients",
        |line, words| change(&mut line.global.error_codes, words, line.keyword),
    )
    .default(Written("400-499")),
    Row::<GlobalReader>::ready(
        "http-fail-codes",
        "[+-]<range>[,...] [...]",
        "-500 +501,505",
        "statuses that count as failures of servers",
        |line, words| change(&mut line.global.failure_codes, words, line.keyword),
    )
    .default(Written("500-599 -501 -505")),
];

fn change(codes: &mut StatusCodes, words: &mut Words<'_>, keyword: &str) -> Parsed {
    if words.at_end() {
        return Err(words.fault(format!("'{keyword}' expects ranges of statuses between 100 and 599.")));
    }
    while let Some(word) = words.take() {
        let (included, ranges) = match word.text().as_bytes().first() {
            Some(b'+') => (true, &word.text()[1..]),
            Some(b'-') => (false, &word.text()[1..]),
            _ => {
                *codes = StatusCodes::NONE;
                (true, word.text())
            }
        };
        for range in ranges.split(',') {
            let (first, last) = bounds(range).ok_or_else(|| invalid(word, range, keyword))?;
            codes.set(first, last, included);
        }
    }
    Ok(())
}

fn bounds(range: &str) -> Option<(u16, u16)> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let status = |text: &str| {
        let digits = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok())?.filter(|status| StatusCodes::RANGE.contains(status))
    };
    let (first, last) = (status(first)?, status(last)?);
    (first <= last).then_some((first, last))
}

fn invalid(word: &Word, range: &str, keyword: &str) -> crate::words::Fault {
    let message = format!("'{keyword}' : '{range}' is not a range of statuses between 100 and 599.");
    fault(word.span(), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_status_ranges_in_ascending_order() {
        let cases = [
            ("400", Some((400, 400))),
            ("400-499", Some((400, 499))),
            ("499-400", None),
            ("600", None),
            ("99", None),
            ("", None),
            ("4x0", None),
            ("400-", None),
        ];
        for (text, expected) in cases {
            assert_eq!(bounds(text), expected, "{text}");
        }
    }
}
