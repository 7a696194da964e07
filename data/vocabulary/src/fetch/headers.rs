//! Header fields of both messages: values by name and occurrence, and lists.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use weir_expr::SampleType::{Addr, Bin, Int, Str};
use weir_expr::{
    ArgKind, ArgSpec, Args, FetchCursor, FetchDecl, FetchResult, Needs, SampleType, Value, scratch,
};
use weir_http::{Head, KnownName, values};

use super::values::{leading_number, made, number};
use super::{FetchRow, row, valid};
use crate::view::{FetchView, MessageSide};

const OCCURRENCE: ArgSpec = ArgSpec::new(0, &[ArgKind::Str, ArgKind::Int]);
const NAME: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

const fn request(name: &'static str, args: ArgSpec, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).args(args).valid(valid::REQUEST).needs(Needs::HTTP_REQUEST)
}

const fn response(name: &'static str, args: ArgSpec, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).args(args).valid(valid::RESPONSE).needs(Needs::HTTP_RESPONSE)
}

const VALUE: &str = "A comma-separated value of a request header, the last one unless told";
const VALUE_S: &str = "A comma-separated value of a response header, the last one unless told";
const LINE: &str = "A whole request header, commas included, the last one unless told";
const LINE_S: &str = "A whole response header, commas included, the last one unless told";
const COUNT: &str = "How many comma-separated values a request header has";
const COUNT_S: &str = "How many comma-separated values a response header has";
const ADDRESS: &str = "A value of a request header as an address";
const ADDRESS_S: &str = "A value of a response header as an address";
const NUMBER: &str = "A value of a request header as a number";
const NUMBER_S: &str = "A value of a response header as a number";

pub(super) const ROWS: &[FetchRow] = &[
    row(request("req.hdr", OCCURRENCE, Str, VALUE), |view, args, cursor| {
        field(view, MessageSide::Request, ValueUnit::Value, args, cursor, as_text)
    }),
    row(response("res.hdr", OCCURRENCE, Str, VALUE_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Value, args, cursor, as_text)
    }),
    row(
        FetchDecl::new(
            "hdr",
            Str,
            "A comma-separated value of a header of the message, the last one unless told",
        )
        .args(OCCURRENCE)
        .valid(valid::MESSAGE)
        .needs(Needs::HTTP_REQUEST.or(Needs::HTTP_RESPONSE)),
        |view, args, cursor| field(view, MessageSide::Current, ValueUnit::Value, args, cursor, as_text),
    ),
    row(response("shdr", OCCURRENCE, Str, VALUE_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Value, args, cursor, as_text)
    }),
    row(
        request("req.fhdr", ArgSpec::new(0, &[ArgKind::Str, ArgKind::Int]), Str, LINE),
        |view, args, cursor| field(view, MessageSide::Request, ValueUnit::Line, args, cursor, as_text),
    ),
    row(response("res.fhdr", OCCURRENCE, Str, LINE_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Line, args, cursor, as_text)
    }),
    row(request("req.hdr_cnt", NAME, Int, COUNT), |view, args, _| {
        count(view, MessageSide::Request, ValueUnit::Value, args)
    }),
    row(request("hdr_cnt", NAME, Int, COUNT), |view, args, _| {
        count(view, MessageSide::Request, ValueUnit::Value, args)
    }),
    row(response("res.hdr_cnt", NAME, Int, COUNT_S), |view, args, _| {
        count(view, MessageSide::Response, ValueUnit::Value, args)
    }),
    row(response("shdr_cnt", NAME, Int, COUNT_S), |view, args, _| {
        count(view, MessageSide::Response, ValueUnit::Value, args)
    }),
    row(
        request("req.fhdr_cnt", NAME, Int, "How many request headers of a name there are"),
        |view, args, _| count(view, MessageSide::Request, ValueUnit::Line, args),
    ),
    row(
        response("res.fhdr_cnt", NAME, Int, "How many response headers of a name there are"),
        |view, args, _| count(view, MessageSide::Response, ValueUnit::Line, args),
    ),
    row(request("req.hdr_ip", OCCURRENCE, Addr, ADDRESS), |view, args, cursor| {
        field(view, MessageSide::Request, ValueUnit::Value, args, cursor, as_address)
    }),
    row(request("hdr_ip", OCCURRENCE, Addr, ADDRESS), |view, args, cursor| {
        field(view, MessageSide::Request, ValueUnit::Value, args, cursor, as_address)
    }),
    row(response("res.hdr_ip", OCCURRENCE, Addr, ADDRESS_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Value, args, cursor, as_address)
    }),
    row(response("shdr_ip", OCCURRENCE, Addr, ADDRESS_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Value, args, cursor, as_address)
    }),
    row(request("req.hdr_val", OCCURRENCE, Int, NUMBER), |view, args, cursor| {
        field(view, MessageSide::Request, ValueUnit::Value, args, cursor, as_number)
    }),
    row(request("hdr_val", OCCURRENCE, Int, NUMBER), |view, args, cursor| {
        field(view, MessageSide::Request, ValueUnit::Value, args, cursor, as_number)
    }),
    row(response("res.hdr_val", OCCURRENCE, Int, NUMBER_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Value, args, cursor, as_number)
    }),
    row(response("shdr_val", OCCURRENCE, Int, NUMBER_S), |view, args, cursor| {
        field(view, MessageSide::Response, ValueUnit::Value, args, cursor, as_number)
    }),
    row(request("req.hdr_names", NAME, Str, "The names of all request headers, joined"), |view, args, _| {
        names(view, MessageSide::Request, args)
    }),
    row(
        response("res.hdr_names", NAME, Str, "The names of all response headers, joined"),
        |view, args, _| names(view, MessageSide::Response, args),
    ),
    row(
        request("req.hdrs", ArgSpec::NONE, Bin, "All request headers and the empty line after them"),
        |view, _, _| lines(view, MessageSide::Request),
    ),
    row(
        response("res.hdrs", ArgSpec::NONE, Bin, "All response headers and the empty line after them"),
        |view, _, _| lines(view, MessageSide::Response),
    ),
    row(
        request(
            "req.hdrs_bin",
            ArgSpec::NONE,
            Bin,
            "All request headers, each name and value after its length",
        ),
        |view, _, _| all(view, MessageSide::Request, write_binary, Value::Bin),
    ),
    row(
        response(
            "res.hdrs_bin",
            ArgSpec::NONE,
            Bin,
            "All response headers, each name and value after its length",
        ),
        |view, _, _| all(view, MessageSide::Response, write_binary, Value::Bin),
    ),
];

/// The part of a field that counts as one value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ValueUnit {
    /// The text between commas.
    Value,
    Line,
}

/// One value of a field by occurrence. Without an occurrence, an ACL iterates over all values, and others get the last one.
fn field<'c>(
    view: &'c mut dyn FetchView,
    side: MessageSide,
    part: ValueUnit,
    args: &'c Args,
    cursor: &mut FetchCursor,
    convert: fn(&'c [u8]) -> Option<Value<'c>>,
) -> FetchResult<'c> {
    let (head, raw) = match view.head(side) {
        Ok(found) => found,
        Err(absent) => return absent.into(),
    };
    let name = args.str(0).unwrap_or_default();
    let occurrence = args.int(1).unwrap_or(0).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    if occurrence == 0 && cursor.iterating {
        let mut values = FieldValues { head, raw, name, known: KnownName::from_bytes(name), part };
        while let Some(value) = values.next(&mut cursor.position) {
            if let Some(value) = convert(value) {
                // Most fields have one value. Checking for another now saves the caller a call.
                cursor.more = values.place(&mut cursor.position).is_some();
                return FetchResult::value(value);
            }
        }
        return FetchResult::Missing;
    }
    let found = match part {
        ValueUnit::Value => head.find(raw, name, occurrence),
        ValueUnit::Line => head.find_line(raw, name, occurrence).map(values::trim),
    };
    FetchResult::from(found.and_then(convert))
}

/// Iterates over the values of the fields of one name.
struct FieldValues<'a> {
    head: &'a Head,
    raw: &'a [u8],
    name: &'a [u8],
    known: KnownName,
    part: ValueUnit,
}

impl<'a> FieldValues<'a> {
    /// Advances `position` (field index, offset in the field's value) to the next value, unless it is at one, and returns it.
    /// `None` at the end of the head.
    fn place(&self, position: &mut [usize; 2]) -> Option<[usize; 2]> {
        // A position inside a field needs no comparison of the name.
        if let [first, 0] = *position {
            let found = self.head.position_from(self.raw, self.name, self.known, first);
            *position = [found.unwrap_or(usize::MAX), 0];
            found?;
        }
        Some(*position)
    }

    /// The value at or after `position`. Advances `position` past it.
    fn next(&mut self, position: &mut [usize; 2]) -> Option<&'a [u8]> {
        let [index, from] = self.place(position)?;
        let rest = self.head.field_value(self.raw, index)?.get(from..)?;
        let length = match self.part {
            ValueUnit::Value => values::value_end(rest),
            ValueUnit::Line => rest.len(),
        };
        *position = if length == rest.len() { [index + 1, 0] } else { [index, from + length + 1] };
        // Fields set by rules may have white space around values, which is not part of them (RFC 9110, 5.5).
        Some(values::trim(&rest[..length]))
    }
}

fn as_text(value: &[u8]) -> Option<Value<'_>> {
    Some(Value::str(value))
}

fn as_address(value: &[u8]) -> Option<Value<'_>> {
    parse_ip(value).map(Value::from)
}

fn as_number(value: &[u8]) -> Option<Value<'_>> {
    Some(Value::Int(leading_number(value)))
}

/// Parses an address in the syntax of `Forwarded` (RFC 7239, 6): IPv4, IPv6, or IPv6 in brackets. A port is ignored after IPv4 only
/// (manual, "req.hdr_ip"), so `[::1]:80` is invalid.
pub(super) fn parse_ip(text: &[u8]) -> Option<IpAddr> {
    // Lists have thousands of values, and this rejects most that are not addresses.
    let separator = text.iter().find(|byte| matches!(byte, b'.' | b':'))?;
    if *separator == b'.' {
        return parse_ipv4(text).map(IpAddr::V4);
    }
    let text = std::str::from_utf8(text).ok()?;
    let address = match text.strip_prefix('[') {
        Some(inner) => inner.strip_suffix(']')?,
        None => text,
    };
    address.parse().ok().map(IpAddr::V6)
}

/// Parses an IPv4 address. Leading zeros are accepted, missing numbers are not.
fn parse_ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut rest = text;
    let mut bytes = [0; 4];
    for (index, byte) in bytes.iter_mut().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(b".")?;
        }
        (*byte, rest) = leading_byte(rest)?;
    }
    (rest.is_empty() || rest.strip_prefix(b":").is_some_and(is_port)).then_some(Ipv4Addr::from(bytes))
}

/// The number of one byte at the beginning, and the rest of the text.
fn leading_byte(text: &[u8]) -> Option<(u8, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = text.split_at(digits);
    let number =
        digits.iter().try_fold(0u8, |number, digit| number.checked_mul(10)?.checked_add(digit - b'0'));
    number.filter(|_| !digits.is_empty()).map(|number| (number, rest))
}

fn is_port(text: &[u8]) -> bool {
    let parsed = std::str::from_utf8(text).map(str::parse::<u16>);
    text.iter().all(u8::is_ascii_digit) && matches!(parsed, Ok(Ok(_)))
}

fn count<'c>(view: &mut dyn FetchView, side: MessageSide, part: ValueUnit, args: &Args) -> FetchResult<'c> {
    let name = args.str(0).unwrap_or_default();
    match view.head(side) {
        Ok((head, raw)) => {
            let count = match part {
                ValueUnit::Value => head.count_values(raw, name),
                ValueUnit::Line => head.count_lines(raw, name),
            };
            number(count as i64)
        }
        Err(absent) => absent.into(),
    }
}

/// A value built from all fields.
/// The value is a string (manual, 7.3.6), although the fetch is declared as binary, as in HAProxy: agents read it by its type.
fn lines<'c>(view: &mut dyn FetchView, side: MessageSide) -> FetchResult<'c> {
    all(view, side, write_lines, Value::Str)
}

fn all<'c>(
    view: &mut dyn FetchView,
    side: MessageSide,
    write: fn(&Head, &[u8], &mut Vec<u8>),
    value: fn(Cow<'c, [u8]>) -> Value<'c>,
) -> FetchResult<'c> {
    match view.head(side) {
        Ok((head, raw)) => {
            let mut out = scratch::take();
            write(head, raw, &mut out);
            FetchResult::value(value(Cow::Owned(out)))
        }
        Err(absent) => absent.into(),
    }
}

/// Header names in lower case, as HAProxy shows them for every HTTP version.
fn push_name(name: &[u8], out: &mut Vec<u8>) {
    out.extend(name.iter().map(u8::to_ascii_lowercase));
}

fn names<'c>(view: &mut dyn FetchView, side: MessageSide, args: &Args) -> FetchResult<'c> {
    let (head, raw) = match view.head(side) {
        Ok(found) => found,
        Err(absent) => return absent.into(),
    };
    let mut out = scratch::take();
    for (name, _) in head.fields(raw) {
        if !out.is_empty() {
            out.push(delimiter(args));
        }
        push_name(name, &mut out);
    }
    made(out)
}

/// The first character of the argument, or a comma.
pub(super) fn delimiter(args: &Args) -> u8 {
    args.str(0).and_then(|text| text.first()).copied().unwrap_or(b',')
}

fn write_lines(head: &Head, raw: &[u8], out: &mut Vec<u8>) {
    for (name, value) in head.fields(raw) {
        push_name(name, out);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

fn write_binary(head: &Head, raw: &[u8], out: &mut Vec<u8>) {
    for (name, value) in head.fields(raw) {
        write_length(name.len() as u64, out);
        push_name(name, out);
        write_length(value.len() as u64, out);
        out.extend_from_slice(value);
    }
    out.extend([0, 0]);
}

/// A SPOE variable-length integer: from 240 on, four bits in the first byte and seven in each further byte.
fn write_length(mut length: u64, out: &mut Vec<u8>) {
    if length < 240 {
        out.push(length as u8);
        return;
    }
    out.push(length as u8 | 240);
    length = (length - 240) >> 4;
    while length >= 128 {
        out.push(length as u8 | 128);
        length = (length - 128) >> 7;
    }
    out.push(length as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        head.start_request(b"GET", b"/", weir_http::Version::HTTP_11).expect("room");
        for (name, value) in fields {
            head.add(name.as_bytes(), value.as_bytes()).expect("room");
        }
        head
    }

    #[test]
    fn a_header_fetch_returns_each_value_of_all_field_lines() {
        let head = head(&[("X", "1, 2"), ("Y", "no"), ("x", "3,"), ("X", "\"a,b\" , c")]);
        let all = |name: &str, part| {
            let (name, mut position) = (name.as_bytes(), [0; 2]);
            let mut values =
                FieldValues { head: &head, raw: b"", name, known: KnownName::from_bytes(name), part };
            let mut found = Vec::new();
            while values.place(&mut position).is_some() {
                let value = values.next(&mut position).expect("it was announced");
                found.push(String::from_utf8(value.to_vec()).expect("text"));
            }
            assert_eq!(values.next(&mut position), None);
            found
        };
        assert_eq!(all("x", ValueUnit::Value), ["1", "2", "3", "", "\"a,b\"", "c"]);
        assert_eq!(all("x", ValueUnit::Line), ["1, 2", "3,", "\"a,b\" , c"]);
        assert_eq!(all("", ValueUnit::Line).len(), 4);
        assert!(all("z", ValueUnit::Value).is_empty());
    }

    #[test]
    fn parses_addresses_of_x_forwarded_for() {
        #[track_caller]
        fn check(text: &str, expected: Option<&str>) {
            assert_eq!(
                parse_ip(text.as_bytes()),
                expected.map(|ip| ip.parse().expect("an address")),
                "{text}"
            );
        }
        check("1.2.3.4", Some("1.2.3.4"));
        check("01.2.3.4", Some("1.2.3.4"));
        check("1.2.3.4:80", Some("1.2.3.4"));
        check("1.2.3.4:00080", Some("1.2.3.4"));
        check("1.2.3.4:65535", Some("1.2.3.4"));
        check("2001:db8::1", Some("2001:db8::1"));
        check("::ffff:1.2.3.4", Some("::ffff:1.2.3.4"));
        check("[2001:db8::1]", Some("2001:db8::1"));
        check("0001.2.3.4", Some("1.2.3.4"));
        for wrong in [
            "",
            "abc",
            "1.2.3",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.4:",
            "1.2.3.4:80a",
            "1.2.3.4:65536",
            "1.2.3.4 x",
            "1..2.3",
            "1",
            "[1.2.3.4]",
            "[2001:db8::1]:443",
            "[::1",
            "[::1]x",
            "[::1]:",
            "1.2.3.4:+1",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn encodes_lengths_as_varints() {
        for (length, expected) in [
            (0u64, &[0u8][..]),
            (239, &[239]),
            (240, &[240, 0]),
            (241, &[241, 0]),
            (256, &[240, 1]),
            (2287, &[255, 127]),
            (2288, &[240, 128, 0]),
        ] {
            let mut out = Vec::new();
            write_length(length, &mut out);
            assert_eq!(out, expected, "{length}");
        }
    }
}
