//! Cookies of both messages.

use weir_expr::SampleType::{Int, Str};
use weir_expr::{
    ArgKind, ArgSpec, Args, FetchCursor, FetchDecl, FetchResult, Needs, SampleType, Value, scratch,
};
use weir_http::cookie::{Cookie, RequestCookies, ResponseCookies};
use weir_http::{Head, KnownName};

use super::headers::delimiter;
use super::values::{leading_number, made, number};
use super::{FetchRow, row, valid};
use crate::view::{FetchView, MessageSide};

const NAME: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

const fn request(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).args(NAME).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST)
}

const fn response(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).args(NAME).valid(valid::RESPONSE).needs(Needs::HTTP_RESPONSE)
}

const VALUE: &str = "The last cookie of a name in the request, or the first of all";
const VALUE_S: &str = "The last cookie of a name that the response sets, or the first of all";
const COUNT: &str = "How many cookies of a name, or of any, the request has";
const COUNT_S: &str = "How many cookies of a name, or of any, the response sets";
const NUMBER: &str = "A cookie of the request as a number";
const NUMBER_S: &str = "A cookie that the response sets as a number";

pub(super) const ROWS: &[FetchRow] = &[
    row(request("req.cook", Str, VALUE), |view, args, cursor| {
        cookie(view, MessageSide::Request, args, cursor, as_text)
    }),
    row(request("cook", Str, VALUE), |view, args, cursor| {
        cookie(view, MessageSide::Request, args, cursor, as_text)
    }),
    row(response("res.cook", Str, VALUE_S), |view, args, cursor| {
        cookie(view, MessageSide::Response, args, cursor, as_text)
    }),
    row(response("scook", Str, VALUE_S), |view, args, cursor| {
        cookie(view, MessageSide::Response, args, cursor, as_text)
    }),
    row(
        FetchDecl::new("cookie", Str, "The last cookie of a name in the message, or the first of all")
            .args(NAME)
            .valid(valid::MESSAGE)
            .needs(Needs::HTTP_REQUEST.or(Needs::HTTP_RESPONSE)),
        |view, args, cursor| cookie(view, MessageSide::Current, args, cursor, as_text),
    ),
    row(request("req.cook_cnt", Int, COUNT), |view, args, _| count(view, MessageSide::Request, args)),
    row(request("cook_cnt", Int, COUNT), |view, args, _| count(view, MessageSide::Request, args)),
    row(response("res.cook_cnt", Int, COUNT_S), |view, args, _| count(view, MessageSide::Response, args)),
    row(response("scook_cnt", Int, COUNT_S), |view, args, _| count(view, MessageSide::Response, args)),
    row(request("req.cook_val", Int, NUMBER), |view, args, cursor| {
        cookie(view, MessageSide::Request, args, cursor, as_number)
    }),
    row(request("cook_val", Int, NUMBER), |view, args, cursor| {
        cookie(view, MessageSide::Request, args, cursor, as_number)
    }),
    row(response("res.cook_val", Int, NUMBER_S), |view, args, cursor| {
        cookie(view, MessageSide::Response, args, cursor, as_number)
    }),
    row(response("scook_val", Int, NUMBER_S), |view, args, cursor| {
        cookie(view, MessageSide::Response, args, cursor, as_number)
    }),
    row(
        request("req.cook_names", Str, "The names of all cookies of the request, joined"),
        |view, args, _| names(view, MessageSide::Request, args),
    ),
    row(
        response("res.cook_names", Str, "The names of all cookies that the response sets, joined"),
        |view, args, _| names(view, MessageSide::Response, args),
    ),
];

/// The header field that carries cookies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CookieField {
    Cookie,
    SetCookie,
}

impl CookieField {
    fn of(side: MessageSide) -> CookieField {
        if side == MessageSide::Response { CookieField::SetCookie } else { CookieField::Cookie }
    }

    fn name(self) -> &'static [u8] {
        match self {
            CookieField::Cookie => b"cookie",
            CookieField::SetCookie => b"set-cookie",
        }
    }

    fn known(self) -> KnownName {
        match self {
            CookieField::Cookie => KnownName::Cookie,
            CookieField::SetCookie => KnownName::SetCookie,
        }
    }

    /// The first cookie in a line or in the rest of one.
    fn first(self, line: &[u8]) -> Option<Cookie<'_>> {
        match self {
            CookieField::Cookie => RequestCookies::new(line).next(),
            CookieField::SetCookie => ResponseCookies::new(line).next(),
        }
    }
}

/// Iterates over the cookies of a message. The position can be saved: field index, and offset in the field's value.
struct Cookies<'a> {
    head: &'a Head,
    raw: &'a [u8],
    field: CookieField,
    position: [usize; 2],
}

impl<'a> Iterator for Cookies<'a> {
    type Item = Cookie<'a>;

    fn next(&mut self) -> Option<Cookie<'a>> {
        loop {
            let [from_index, from_offset] = self.position;
            let index =
                self.head.position_from(self.raw, self.field.name(), self.field.known(), from_index)?;
            let line = self.head.field_value(self.raw, index)?;
            let offset = if index == from_index { from_offset } else { 0 };
            if let Some(cookie) = self.field.first(line.get(offset..)?) {
                // After the value, white space and a separator look like an empty pair, which the parser skips.
                self.position = [index, offset + cookie.value_start + cookie.value.len()];
                return Some(cookie);
            }
            self.position = [index + 1, 0];
        }
    }
}

/// A cookie's value. An ACL iterates over all cookies of the name. Others get the last one, or the first cookie without a name.
fn cookie<'c>(
    view: &'c mut dyn FetchView,
    side: MessageSide,
    args: &'c Args,
    cursor: &mut FetchCursor,
    convert: fn(&'c [u8]) -> Value<'c>,
) -> FetchResult<'c> {
    let field = CookieField::of(view.side(side));
    let (head, raw) = match view.head(side) {
        Ok(found) => found,
        Err(absent) => return absent.into(),
    };
    let name = args.str(0).unwrap_or_default();
    let mut cookies = Cookies { head, raw, field, position: cursor.position };
    let mut named = cookies.by_ref().filter(|cookie| name.is_empty() || cookie.name == name);
    let found = match cursor.iterating || name.is_empty() {
        true => named.next(),
        false => named.last(),
    };
    if cursor.iterating && found.is_some() {
        cursor.position = cookies.position;
        cursor.more = true;
    }
    FetchResult::from(found.map(|cookie| convert(cookie.value)))
}

fn as_text(value: &[u8]) -> Value<'_> {
    Value::str(value)
}

fn as_number(value: &[u8]) -> Value<'_> {
    Value::Int(leading_number(value))
}

fn count<'c>(view: &mut dyn FetchView, side: MessageSide, args: &Args) -> FetchResult<'c> {
    let field = CookieField::of(side);
    let name = args.str(0).unwrap_or_default();
    match view.head(side) {
        Ok((head, raw)) => {
            let cookies = Cookies { head, raw, field, position: [0; 2] };
            number(cookies.filter(|cookie| name.is_empty() || cookie.name == name).count() as i64)
        }
        Err(absent) => absent.into(),
    }
}

fn names<'c>(view: &mut dyn FetchView, side: MessageSide, args: &Args) -> FetchResult<'c> {
    let field = CookieField::of(side);
    let (head, raw) = match view.head(side) {
        Ok(found) => found,
        Err(absent) => return absent.into(),
    };
    let mut out = scratch::take();
    for cookie in (Cookies { head, raw, field, position: [0; 2] }) {
        if !out.is_empty() {
            out.push(delimiter(args));
        }
        out.extend_from_slice(cookie.name);
    }
    made(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(field: CookieField, lines: &[&str], expected: &[(&str, &str)]) {
        let mut head = Head::new();
        head.start_request(b"GET", b"/", weir_http::Version::HTTP_11).expect("room");
        for line in lines {
            head.add(field.name(), line.as_bytes()).expect("room");
        }
        let cookies = Cookies { head: &head, raw: b"", field, position: [0; 2] };
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let found: Vec<_> = cookies.map(|cookie| (text(cookie.name), text(cookie.value))).collect();
        let expected: Vec<_> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(found, expected, "{lines:?}");
    }

    #[test]
    fn iterates_over_the_cookies_of_all_field_lines() {
        check(
            CookieField::Cookie,
            &["a=1; b=2; a=3", "c=4; a=x5"],
            &[("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("a", "x5")],
        );
        check(
            CookieField::Cookie,
            &["a=\"x; y\" ; b=", "d", ";;e = 1 ;"],
            &[("a", "\"x; y\""), ("b", ""), ("e", "1")],
        );
        check(
            CookieField::SetCookie,
            &["a=1; path=/; expires=Wed, 21 Oct 2015 07:28:00 GMT", "b=2, c=3; secure"],
            &[("a", "1"), ("b", "2"), ("c", "3")],
        );
        check(CookieField::Cookie, &[], &[]);
    }
}
