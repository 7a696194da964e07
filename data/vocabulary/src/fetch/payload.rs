//! Raw bytes (layer 6): their length, blocks of them, the RDP cookie.
//!
//! They exist only in TCP mode, until they are forwarded. In HTTP mode only the length is defined.

use weir_expr::SampleType::{Bin, Bool, Int, Str};
use weir_expr::{
    Arg, ArgKind, ArgSpec, Args, ExpressionScope, FetchDecl, FetchResult, Needs, Sample, SampleFlags,
    SampleType, Value,
};
use weir_http::Kind;
use weir_mux::Message;

use super::rdp;
use super::values::{number, text, truth};
use super::{FetchRow, row, valid};
use crate::view::{Absent, AvailableBody, FetchView, MessageSide};

const BLOCK: ArgSpec = ArgSpec::new(2, &[ArgKind::Int, ArgKind::Int]);
const VALUE: ArgSpec = ArgSpec::new(2, &[ArgKind::Int, ArgKind::Int, ArgKind::Str]);
const NAME: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

const fn request(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::REQUEST).needs(Needs::L6_REQUEST)
}

const fn response(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).valid(valid::RESPONSE).needs(Needs::L6_RESPONSE)
}

const fn either(name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    let needs = Needs::L6_REQUEST.or(Needs::L6_RESPONSE);
    FetchDecl::new(name, output, help).valid(valid::MESSAGE).needs(needs)
}

const LENGTH: &str = "How many bytes of the request are there";
const A_BLOCK: &str = "Bytes of the request: offset and length, 0 for all that follows";
const A_VALUE: &str = "Bytes of the request whose number stands at an offset, in so many bytes";
const IS_HTTP: &str = "Whether the request is HTTP";
const RDP_COOKIE: &str = "The cookie that a remote desktop client sends, by name";
const RDP_COUNT: &str = "How many cookies of that name a remote desktop client sends";

pub(super) const ROWS: &[FetchRow] = &[
    row(request("req.len", Int, LENGTH), |view, _, _| length(view, MessageSide::Request)),
    row(request("req_len", Int, LENGTH), |view, _, _| length(view, MessageSide::Request)),
    row(response("res.len", Int, "How many bytes of the response are there"), |view, _, _| {
        length(view, MessageSide::Response)
    }),
    row(request("req.payload", Bin, A_BLOCK).args(BLOCK).check(check_block), |view, args, _| {
        block(view, MessageSide::Request, args)
    }),
    row(
        response("res.payload", Bin, "Bytes of the response: offset and length, 0 for all that follows")
            .args(BLOCK)
            .check(check_block),
        |view, args, _| block(view, MessageSide::Response, args),
    ),
    row(
        either("payload", Bin, "Bytes of the message: offset and length, 0 for all that follows")
            .args(BLOCK)
            .check(check_block),
        |view, args, _| block(view, MessageSide::Current, args),
    ),
    row(request("req.payload_lv", Bin, A_VALUE).args(VALUE).check(check_value), |view, args, _| {
        value(view, MessageSide::Request, args)
    }),
    row(
        response(
            "res.payload_lv",
            Bin,
            "Bytes of the response whose number stands at an offset, in so many bytes",
        )
        .args(VALUE)
        .check(check_value),
        |view, args, _| value(view, MessageSide::Response, args),
    ),
    row(
        either("payload_lv", Bin, "Bytes of the message whose number stands at an offset, in so many bytes")
            .args(VALUE)
            .check(check_value),
        |view, args, _| value(view, MessageSide::Current, args),
    ),
    row(proto_http("req.proto_http"), |view, _, _| is_http(view)),
    row(proto_http("req_proto_http"), |view, _, _| is_http(view)),
    row(request("req.rdp_cookie", Str, RDP_COOKIE).args(NAME), |view, args, _| rdp_cookie(view, args)),
    row(request("rdp_cookie", Str, RDP_COOKIE).args(NAME), |view, args, _| rdp_cookie(view, args)),
    row(request("req.rdp_cookie_cnt", Int, RDP_COUNT).args(NAME), |view, args, _| {
        rdp_cookie_count(view, args)
    }),
    row(request("rdp_cookie_cnt", Int, RDP_COUNT).args(NAME), |view, args, _| rdp_cookie_count(view, args)),
];

const fn proto_http(name: &'static str) -> FetchDecl {
    FetchDecl::new(name, Bool, IS_HTTP).valid(valid::STREAM).needs(Needs::L6_REQUEST)
}

fn length<'c>(view: &mut dyn FetchView, side: MessageSide) -> FetchResult<'c> {
    let length = match view.side(side) {
        MessageSide::Request if view.is_known(MessageSide::Request) => {
            size_of(view.request_body()) + view.message(MessageSide::KeptRequest).map_or(0, measure)
        }
        MessageSide::Response if view.is_known(MessageSide::Response) => {
            size_of(view.response_body()) + view.message(MessageSide::Response).map_or(0, measure)
        }
        side => view.raw_input(side).len(),
    };
    let flags = if view.may_wait() { SampleFlags::MAY_CHANGE } else { SampleFlags::empty() };
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    FetchResult::Sample(Sample::new(Value::Int(length)).with(flags).with(SampleFlags::VOLATILE))
}

fn size_of(body: Result<AvailableBody<'_>, Absent>) -> usize {
    body.map_or(0, |body| body.bytes.len())
}

/// The length of a message's head in HAProxy's internal representation: without white space and line ends, plus a constant
/// ([`AROUND_HEAD`]) for start line and end.
fn measure(message: &Message) -> usize {
    let (head, raw) = (&message.head, message.bytes());
    let version = head.version().wire().len();
    let start_line = match head.kind() {
        Kind::Request => head.method_text(raw).len() + head.uri(raw).len() + version,
        Kind::Response => version + "200".len() + head.reason(raw).len(),
    };
    let fields = head.fields(raw).map(|(name, value)| name.len() + value.len());
    AROUND_HEAD + start_line + fields.sum::<usize>()
}

const AROUND_HEAD: usize = 21;
/// The part of the HTTP/2 preface that looks like a request head.
const PREFACE_HEAD: usize = "PRI * HTTP/2.0\r\n\r\n".len();

fn block<'c>(view: &'c dyn FetchView, side: MessageSide, args: &Args) -> FetchResult<'c> {
    if view.speaks_http() {
        return FetchResult::Missing;
    }
    let [offset, length] = [0, 1].map(|index| size_argument(args, index));
    if offset.saturating_add(length) > view.objects().buffer_size() {
        return FetchResult::Missing;
    }
    let input = view.raw_input(side);
    let found = match length {
        0 => input.get(offset..).filter(|rest| !rest.is_empty()),
        length => input.get(offset..offset + length),
    };
    let Some(bytes) = found else { return view.absent().into() };
    // Without a length, the block grows with every received byte.
    let grows = length == 0 && view.may_wait();
    let flags = if grows { SampleFlags::MAY_CHANGE } else { SampleFlags::empty() };
    FetchResult::Sample(Sample::new(Value::bin(bytes)).with(flags).with(SampleFlags::VOLATILE))
}

fn value<'c>(view: &'c dyn FetchView, side: MessageSide, args: &Args) -> FetchResult<'c> {
    if view.speaks_http() {
        return FetchResult::Missing;
    }
    let value = LengthValue {
        length_at: size_argument(args, 0),
        length_size: size_argument(args, 1),
        value_at: args.int(2),
        relative: args.int(3) == Some(1),
    };
    match value.find(view.raw_input(side), view.objects().buffer_size()) {
        Ok(bytes) => FetchResult::Sample(Sample::new(Value::bin(bytes)).with(SampleFlags::VOLATILE)),
        Err(Absent::Later) => view.absent().into(),
        Err(Absent::Missing) => FetchResult::Missing,
    }
}

fn size_argument(args: &Args, index: usize) -> usize {
    // Checked when the argument was parsed.
    args.int(index).and_then(|value| usize::try_from(value).ok()).unwrap_or(0)
}

/// The position of a value that has its length before it in the input.
#[derive(Clone, Copy, Debug)]
struct LengthValue {
    length_at: usize,
    length_size: usize,
    /// The offset of the value. `None` if it directly follows the length.
    value_at: Option<i64>,
    /// Whether `value_at` counts from the end of the length.
    relative: bool,
}

impl LengthValue {
    /// The value in `input`. Missing if it cannot be within the first `limit` bytes.
    fn find(self, input: &[u8], limit: usize) -> Result<&[u8], Absent> {
        let length_end = self.length_at.saturating_add(self.length_size);
        let start = match self.value_at {
            None => length_end,
            Some(offset) if self.relative => {
                usize::try_from(offset.saturating_add_unsigned(length_end as u64))
                    .map_err(|_| Absent::Missing)?
            }
            Some(offset) => usize::try_from(offset).map_err(|_| Absent::Missing)?,
        };
        if length_end > limit {
            return Err(Absent::Missing);
        }
        let digits = input.get(self.length_at..length_end).ok_or(Absent::Later)?;
        let length = digits
            .iter()
            .fold(0usize, |length, byte| length.saturating_mul(256).saturating_add(usize::from(*byte)));
        let end = start.saturating_add(length);
        if length == 0 || end > limit {
            return Err(Absent::Missing);
        }
        input.get(start..end).ok_or(Absent::Later)
    }
}

fn check_block(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match (args.int(0), args.int(1)) {
        (Some(offset), Some(length)) if offset >= 0 && length >= 0 => Ok(()),
        _ => Err("offset and length must not be negative".into()),
    }
}

fn check_value(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let (at, size) = (args.int(0).unwrap_or(-1), args.int(1).unwrap_or(0));
    if at < 0 {
        return Err("the offset of the length must not be negative".into());
    }
    if !(1..=8).contains(&size) {
        return Err("a length has 1 to 8 bytes".into());
    }
    let Some(word) = args.str(2) else { return Ok(()) };
    let word = String::from_utf8_lossy(word).into_owned();
    let relative = word.starts_with(['+', '-']);
    let Ok(offset) = word.parse::<i64>() else {
        return Err(format!("'{word}' is no offset: a number, with '+' or '-' before it if it is relative"));
    };
    if relative && at + size + offset < 0 {
        return Err("the value cannot begin before the first byte".into());
    }
    args.set(2, Arg::Int(offset));
    args.set(3, Arg::Int(relative.into()));
    Ok(())
}

fn is_http<'c>(view: &mut dyn FetchView) -> FetchResult<'c> {
    let input = view.raw_input(MessageSide::Request);
    if !view.speaks_http() && input.len() >= PREFACE_HEAD && weir_mux::is_preface(input) {
        return truth(true);
    }
    match view.head(MessageSide::KeptRequest) {
        Ok(_) => truth(true),
        Err(absent) => absent.into(),
    }
}

fn rdp_cookie<'c>(view: &'c dyn FetchView, args: &Args) -> FetchResult<'c> {
    match rdp::cookie(view.raw_input(MessageSide::Request), args.str(0).unwrap_or_default()) {
        rdp::RdpCookie::Value(value) => text(value),
        rdp::RdpCookie::Nothing => FetchResult::Missing,
        rdp::RdpCookie::TooShort => view.absent().into(),
    }
}

fn rdp_cookie_count<'c>(view: &dyn FetchView, args: &Args) -> FetchResult<'c> {
    match rdp::cookie(view.raw_input(MessageSide::Request), args.str(0).unwrap_or_default()) {
        rdp::RdpCookie::Value(_) => number(1),
        rdp::RdpCookie::TooShort if view.may_wait() => FetchResult::Later,
        rdp::RdpCookie::Nothing | rdp::RdpCookie::TooShort => number(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(place: (usize, usize, Option<i64>, bool), input: &[u8], expected: Result<&[u8], Absent>) {
        let (length_at, length_size, value_at, relative) = place;
        assert_eq!(LengthValue { length_at, length_size, value_at, relative }.find(input, 16), expected);
    }

    /// The results of HAProxy 2.6.
    #[test]
    fn payload_lv_reads_a_length_prefixed_value() {
        let input = b"\x03abcdef";
        check((0, 1, None, false), input, Ok(b"abc"));
        check((0, 1, Some(3), false), input, Ok(b"cde"));
        check((0, 2, Some(1), true), input, Err(Absent::Missing));
        check((0, 1, None, false), b"\x03ab", Err(Absent::Later));
        check((0, 1, None, false), b"", Err(Absent::Later));
        check((0, 1, None, false), b"\x00ab", Err(Absent::Missing));
        check((2, 1, Some(-2), true), b"ab\x02cd", Ok(b"b\x02"));
        check((20, 1, None, false), b"ab", Err(Absent::Missing));
        check((0, 8, None, false), b"\xff\xff\xff\xff\xff\xff\xff\xffab", Err(Absent::Missing));
    }
}
