//! `HTTPMessage`: the message that a function of a filter sees.

use weir_http::KnownName;
use weir_lua::{LuaKind, Misuse};

use super::channel::{self, ChannelObject, read_part};
use super::http::{self, Heads, head};
use super::{ApiCall, ApiMember, ApiResult, expect_count, on_stream};
use crate::channel::ReadUnit;
use crate::filter_turn::{FilterTurn, NewLength};
use crate::message::ScriptSide;
use crate::target::{RequestLinePart, ScriptTarget};

pub(super) const METHODS: &[ApiMember] = &[
    ("add_header", |call| http::edit_field(call, Heads::Message, http::ADD, "add_header")),
    ("append", channel::append),
    ("body", |call| read_part(call, ReadUnit::Bytes, "body")),
    ("del_header", |call| http::del_header(call, Heads::Message, "del_header")),
    ("eom", ends),
    ("forward", channel::forward),
    ("get_headers", |call| http::headers(call, Heads::Message, "get_headers")),
    ("get_stline", start_line),
    ("input", |call| channel::integer(call, "input", |state| state.input)),
    ("insert", channel::insert),
    ("is_full", |call| channel::boolean(call, "is_full", |state| state.is_full)),
    ("is_resp", channel::is_resp),
    ("may_recv", may_receive),
    ("output", |call| channel::integer(call, "output", |state| state.output)),
    ("prepend", channel::prepend),
    ("remove", channel::remove),
    ("rep_header", |call| http::replace(call, Heads::Message, false, "rep_header")),
    ("rep_value", |call| http::replace(call, Heads::Message, true, "rep_value")),
    ("send", channel::send),
    ("set", channel::set),
    ("set_body_len", set_length),
    ("set_eom", |call| set_end(call, true, "set_eom")),
    ("set_header", |call| http::edit_field(call, Heads::Message, http::SET, "set_header")),
    ("set_method", |call| set_line(call, RequestLinePart::Method, "set_method")),
    ("set_path", |call| set_line(call, RequestLinePart::Path, "set_path")),
    ("set_query", |call| set_line(call, RequestLinePart::Query, "set_query")),
    ("set_status", set_status),
    ("set_uri", |call| set_line(call, RequestLinePart::Uri, "set_uri")),
    ("unset_eom", |call| set_end(call, false, "unset_eom")),
];

/// A member: a method, or `channel`, which is made when a script first reads it.
pub(super) fn index(call: &ApiCall<'_>) -> ApiResult {
    let message = ChannelObject::of_message(call, 1)?;
    if call.kind(2) != LuaKind::String {
        call.push_nil();
        return call.results(1);
    }
    let name = call.bytes(2).unwrap_or_default();
    if name != b"channel" {
        call.push_reference(call.host().filters.message_methods());
        call.push_field(-1, name);
        return call.results(1);
    }
    let classes = call.host().classes();
    let class = match message.side {
        ScriptSide::Request => classes.request_channel,
        ScriptSide::Response => classes.response_channel,
    };
    call.push_object(class, message.number, 0);
    // The field stays in the table.
    call.push_value(1);
    call.push_value(-2);
    call.set_field(name);
    call.push_value(-2);
    call.results(1)
}

/// `message:get_stline()`.
fn start_line(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 1..=1, "get_stline")?;
    let message = ChannelObject::of_message(call, 1)?;
    on_stream(call, message.number, |target, stack| {
        let (head, raw) = head(target, message.side)?;
        let version = head.version().wire();
        let set = |name: &str, value: &[u8]| {
            stack.push_bytes(value);
            stack.set_field(name.as_bytes());
        };
        stack.push_table(0, 3);
        set("version", &version);
        match message.side {
            ScriptSide::Request => {
                set("method", head.method_text(raw));
                set("uri", head.uri(raw));
            }
            ScriptSide::Response => {
                set("code", head.status().to_string().as_bytes());
                set("reason", head.reason(raw));
            }
        }
        Ok(())
    })?;
    call.results(1)
}

fn set_line(call: &ApiCall<'_>, part: RequestLinePart, name: &str) -> ApiResult {
    expect_count(call, 2..=2, name)?;
    http::set_line(call, Heads::Message, part)
}

fn set_status(call: &ApiCall<'_>) -> ApiResult {
    http::set_status(call, Heads::Message)?;
    call.push_boolean(true);
    call.results(1)
}

/// `message:may_recv()`: whether more of the message may arrive.
fn may_receive(call: &ApiCall<'_>) -> ApiResult {
    push_fact(call, "may_recv", |target, side| target.channel(side).may_receive && !target.is_complete(side))
}

/// `message:eom()`.
fn ends(call: &ApiCall<'_>) -> ApiResult {
    push_fact(call, "eom", |target, side| {
        let of_payload = target.filter_turn().and_then(|turn| turn.payload_of(side));
        let of_payload = of_payload.map(|payload| payload.has_end());
        of_payload.unwrap_or_else(|| target.is_complete(side))
    })
}

/// Returns a fact about the message of a stream.
fn push_fact(
    call: &ApiCall<'_>,
    name: &str,
    fact: impl FnOnce(&mut dyn ScriptTarget, ScriptSide) -> bool,
) -> ApiResult {
    expect_count(call, 1..=1, name)?;
    let message = ChannelObject::of_message(call, 1)?;
    let is_true = on_stream(call, message.number, |target, _| Ok(fact(target, message.side)))?;
    call.push_boolean(is_true);
    call.results(1)
}

/// Runs `act` with the call of the filter that runs.
fn on_turn<R>(
    call: &ApiCall<'_>,
    act: impl FnOnce(&mut FilterTurn, ScriptSide) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    let message = ChannelObject::of_message(call, 1)?;
    on_stream(call, message.number, |target, _| {
        let turn = target.filter_turn().filter(|turn| turn.side == message.side);
        let turn =
            turn.ok_or_else(|| Misuse::text("this is not a function of a filter about the message"))?;
        act(turn, message.side)
    })
}

/// `message:set_eom()`, `message:unset_eom()`.
fn set_end(call: &ApiCall<'_>, is_here: bool, name: &str) -> ApiResult {
    expect_count(call, 1..=1, name)?;
    on_turn(call, |turn, side| match turn.payload_of(side) {
        Some(payload) => {
            payload.set_end(is_here);
            Ok(())
        }
        None => Err(Misuse::text("the payload of the message is not available here")),
    })?;
    call.results(0)
}

/// `message:set_body_len(length)`: a number of bytes, or `"chunked"`.
fn set_length(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "set_body_len")?;
    let length = match call.kind(2) {
        LuaKind::String if call.bytes(2) == Some(b"chunked") => NewLength::Unknown,
        _ => {
            let length = call.integer(2).and_then(|length| u64::try_from(length).ok());
            NewLength::Known(length.ok_or_else(|| {
                Misuse::argument(2, "the number of bytes of the body expected, or \"chunked\"")
            })?)
        }
    };
    let side = on_turn(call, |turn, side| match turn.sees_head {
        true => {
            turn.length = Some(length);
            Ok(side)
        }
        false => Err(Misuse::text("the length of a body is announced with its head, in 'http_headers'")),
    })?;
    announce(call, side, length)?;
    call.push_boolean(true);
    call.results(1)
}

/// Replaces the fields that announce the length of a body. This script and the next filters see them at once; the stream writes them again before
/// it sends the head.
fn announce(call: &ApiCall<'_>, side: ScriptSide, length: NewLength) -> Result<(), Misuse> {
    let message = ChannelObject::of_message(call, 1)?;
    on_stream(call, message.number, |target, _| {
        let (head, _) = head(target, side)?;
        head.remove_known(KnownName::ContentLength);
        head.remove_known(KnownName::TransferEncoding);
        let added = match length {
            NewLength::Unknown => head.add(b"transfer-encoding", b"chunked"),
            NewLength::Known(length) => head.add(b"content-length", length.to_string().as_bytes()),
        };
        added.map_err(http::no_room)
    })
}
