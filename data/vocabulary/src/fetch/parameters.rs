//! Parameters in the query, or in a form in the body.

use std::borrow::Cow;
use std::ops::Range;

use weir_expr::SampleType::{Bin, Int, Str};
use weir_expr::{
    ArgKind, ArgSpec, Args, ExpressionScope, FetchCursor, FetchDecl, FetchResult, Needs, Sample, SampleFlags,
    Value,
};

use super::values::{leading_number, number, text};
use super::{FetchRow, row, valid};
use crate::view::{AvailableBody, FetchView, MessageSide};

/// Name, delimiter, and `i` to ignore case.
const OF_URL: ArgSpec = ArgSpec::new(0, &[ArgKind::Str, ArgKind::Str, ArgKind::Str]);
/// Name, and `i` to ignore case.
const OF_BODY: ArgSpec = ArgSpec::new(0, &[ArgKind::Str, ArgKind::Str]);

const fn of_url(name: &'static str, output: weir_expr::SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help)
        .args(OF_URL)
        .valid(valid::REQUEST)
        .needs(Needs::HTTP_REQUEST)
        .check(check_of_url)
}

const PARAMETER: &str = "A parameter of the query, by name; a character may take the place of '?'";

pub(super) const ROWS: &[FetchRow] = &[
    row(of_url("urlp", Str, PARAMETER), |view, args, cursor| parameter(view, args, cursor, text)),
    row(of_url("url_param", Str, PARAMETER), |view, args, cursor| parameter(view, args, cursor, text)),
    row(of_url("urlp_val", Int, "A parameter of the query as a number"), |view, args, cursor| {
        parameter(view, args, cursor, |value| number(leading_number(value)))
    }),
    row(
        FetchDecl::new("req.body_param", Bin, "A parameter of the form in the request's body, by name")
            .args(OF_BODY)
            .valid(valid::REQUEST)
            .needs(Needs::HTTP_REQUEST_BODY)
            .check(check_of_body),
        of_form,
    ),
];

fn parameter<'c>(
    view: &'c mut dyn FetchView,
    args: &Args,
    cursor: &mut FetchCursor,
    convert: fn(&'c [u8]) -> FetchResult<'c>,
) -> FetchResult<'c> {
    let target = match view.head(MessageSide::Request) {
        Ok((head, raw)) => head.path_and_query(raw),
        Err(absent) => return absent.into(),
    };
    let delimiter = args.str(1).and_then(|text| text.first()).copied().unwrap_or(b'?');
    let Some(begin) = target.iter().position(|byte| *byte == delimiter) else { return FetchResult::Missing };
    let search = ParameterSearch {
        name: args.str(0).unwrap_or_default(),
        any_case: args.has(2),
        delimiter: Some(delimiter),
    };
    match search.next(target, begin + 1, cursor) {
        Some(place) => convert(&target[place]),
        None => FetchResult::Missing,
    }
}

fn of_form<'c>(view: &'c mut dyn FetchView, args: &'c Args, cursor: &mut FetchCursor) -> FetchResult<'c> {
    let AvailableBody { bytes, grows, .. } = match view.request_body() {
        Ok(body) => body,
        Err(absent) => return absent.into(),
    };
    let search =
        ParameterSearch { name: args.str(0).unwrap_or_default(), any_case: args.has(1), delimiter: None };
    let Some(place) = search.next(bytes, 0, cursor) else { return FetchResult::Missing };
    let flags = if grows { SampleFlags::MAY_CHANGE } else { SampleFlags::empty() };
    FetchResult::Sample(Sample::new(Value::Bin(Cow::Borrowed(&bytes[place]))).with(flags))
}

/// The parameters to find.
#[derive(Clone, Copy, Debug)]
struct ParameterSearch<'a> {
    /// The name. Empty for any.
    name: &'a [u8],
    any_case: bool,
    /// A delimiter besides `&` and `;`.
    delimiter: Option<u8>,
}

impl ParameterSearch<'_> {
    /// The range of the next value, from the cursor's position or `begin`, whichever is later.
    fn next(self, parameters: &[u8], begin: usize, cursor: &mut FetchCursor) -> Option<Range<usize>> {
        let mut start = begin.max(cursor.position[0]);
        while start < parameters.len() {
            let rest = &parameters[start..];
            let ends = |byte: &u8| matches!(byte, b'&' | b';') || Some(*byte) == self.delimiter;
            let length = rest.iter().position(ends).unwrap_or(rest.len());
            let equals = rest[..length].iter().position(|byte| *byte == b'=');
            if let Some(equals) = equals.filter(|equals| self.is_name(&rest[..*equals])) {
                if cursor.iterating {
                    cursor.position[0] = start + length + 1;
                    cursor.more = true;
                }
                return Some(start + equals + 1..start + length);
            }
            start += length + 1;
        }
        None
    }

    fn is_name(self, name: &[u8]) -> bool {
        let same = if self.any_case { self.name.eq_ignore_ascii_case(name) } else { self.name == name };
        self.name.is_empty() || same
    }
}

fn check_of_url(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    if args.str(1).is_some_and(|delimiter| delimiter.len() > 1) {
        return Err("a delimiter has one character".into());
    }
    check_case(args, 2)
}

fn check_of_body(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    check_case(args, 1)
}

/// Checks the last argument, `i` to ignore case or empty.
fn check_case(args: &mut Args, index: usize) -> Result<(), String> {
    match args.str(index) {
        None | Some(b"i") => Ok(()),
        Some(b"") => {
            args.set(index, weir_expr::Arg::Absent);
            Ok(())
        }
        Some(other) => {
            Err(format!("unknown option '{}' (expects 'i' to ignore case)", String::from_utf8_lossy(other)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, (name, any_case, delimiter): (&str, bool, Option<u8>), expected: &[&str]) {
        let search = ParameterSearch { name: name.as_bytes(), any_case, delimiter };
        let mut cursor = FetchCursor::every();
        let found = std::iter::from_fn(|| search.next(text.as_bytes(), 0, &mut cursor));
        let found: Vec<_> = found.map(|place| &text[place]).collect();
        assert_eq!(found, expected, "{name} in {text}");
        let first = search.next(text.as_bytes(), 0, &mut FetchCursor::single()).map(|place| &text[place]);
        assert_eq!(first, expected.first().copied());
    }

    /// The results of HAProxy 2.6.
    #[test]
    fn iterates_over_url_parameters_by_name() {
        let query = Some(b'?');
        check("b=1&a=2&a=3&c", ("a", false, query), &["2", "3"]);
        check("b=1&a=2&c", ("", false, query), &["1", "2"]);
        check("A=7&=3", ("a", false, query), &[]);
        check("A=7&=3", ("a", true, query), &["7"]);
        check("A=7&=3", ("", false, query), &["7", "3"]);
        check("a&b", ("", false, query), &[]);
        check("a=", ("a", false, query), &[""]);
        check("b=1?a=2", ("a", false, query), &["2"]);
        check("3?a=1&a=2;b=4", ("a", false, Some(b';')), &["2"]);
        check("b=1&a=2?a=3", ("a", false, None), &["2?a=3"]);
        check("b=1&a=2;a=3", ("a", false, None), &["2", "3"]);
        check("", ("", false, None), &[]);
    }
}
