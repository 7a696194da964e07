//! `HTTP`: the heads of both messages of a stream.

use weir_expr::Location;
use weir_expr::pattern::regex::Regex;
use weir_http::{Head, NoRoom, status};
use weir_lua::{LuaStack, Misuse};

use super::channel::ChannelObject;
use super::{ApiCall, ApiMember, ApiResult, expect_count, on_stream};
use crate::message::ScriptSide::{self, Request, Response};
use crate::target::{RequestLinePart, ScriptTarget};

pub(super) const METHODS: &[ApiMember] = &[
    ("req_get_headers", |call| headers(call, Heads::Http(Request), "req_get_headers")),
    ("res_get_headers", |call| headers(call, Heads::Http(Response), "res_get_headers")),
    ("req_add_header", |call| edit_field(call, Heads::Http(Request), ADD, "req_add_hdr")),
    ("res_add_header", |call| edit_field(call, Heads::Http(Response), ADD, "res_add_hdr")),
    ("req_set_header", |call| edit_field(call, Heads::Http(Request), SET, "req_set_hdr")),
    ("res_set_header", |call| edit_field(call, Heads::Http(Response), SET, "res_set_hdr")),
    ("req_del_header", |call| del_header(call, Heads::Http(Request), "req_del_hdr")),
    ("res_del_header", |call| del_header(call, Heads::Http(Response), "res_del_hdr")),
    ("req_rep_header", |call| replace(call, Heads::Http(Request), false, "req_rep_hdr")),
    ("res_rep_header", |call| replace(call, Heads::Http(Response), false, "res_rep_hdr")),
    ("req_rep_value", |call| replace(call, Heads::Http(Request), true, "req_rep_val")),
    ("res_rep_value", |call| replace(call, Heads::Http(Response), true, "res_rep_val")),
    ("req_set_method", |call| set_line(call, Heads::Http(Request), RequestLinePart::Method)),
    ("req_set_path", |call| set_line(call, Heads::Http(Request), RequestLinePart::Path)),
    ("req_set_query", |call| set_line(call, Heads::Http(Request), RequestLinePart::Query)),
    ("req_set_uri", |call| set_line(call, Heads::Http(Request), RequestLinePart::Uri)),
    ("res_set_status", |call| {
        set_status(call, Heads::Http(Response))?;
        call.results(0)
    }),
];

/// What argument 1 has to be.
#[derive(Clone, Copy)]
pub(super) enum Heads {
    /// `HTTP`, for the head of one side.
    Http(ScriptSide),
    /// `HTTPMessage`.
    Message,
}

impl Heads {
    /// The stream of the object, and the side of the head.
    fn find(self, call: &ApiCall<'_>) -> Result<(i64, ScriptSide), Misuse> {
        match self {
            Heads::Http(side) => {
                let number = call.object(1, call.host().classes().http);
                number.map(|number| (number, side)).ok_or_else(|| call.wrong_kind(1, "HTTP"))
            }
            Heads::Message => {
                let message = ChannelObject::of_message(call, 1)?;
                Ok((message.number, message.side))
            }
        }
    }
}

pub(super) const ADD: FieldEdit = |head, _, name, value| head.add(name, value);
pub(super) const SET: FieldEdit = |head, raw, name, value| head.set(raw, name, value);

/// The head of a message, which rules may still change.
pub(super) fn head(target: &mut dyn ScriptTarget, side: ScriptSide) -> Result<(&mut Head, &[u8]), Misuse> {
    let missing = match side {
        Request => "the request cannot be changed any more, or it is not HTTP",
        Response => "there is no HTTP response that can be changed here",
    };
    target.head(side).ok_or(Misuse::text(missing))
}

pub(super) fn headers(call: &ApiCall<'_>, heads: Heads, name: &str) -> ApiResult {
    expect_count(call, 1..=1, name)?;
    let (number, side) = heads.find(call)?;
    on_stream(call, number, |target, stack| {
        let (head, raw) = head(target, side)?;
        push_fields(stack, head, raw);
        Ok(())
    })?;
    call.results(1)
}

/// Pushes all fields: a table of names in lower case, each a table of its values from index 0 on. `Connection` belongs to the connection, not to
/// the message, as in HAProxy.
pub(super) fn push_fields(stack: &LuaStack<'_>, head: &Head, raw: &[u8]) {
    stack.push_table(0, head.len());
    let fields = head.fields(raw).filter(|(name, _)| !name.eq_ignore_ascii_case(b"connection"));
    for (name, value) in fields {
        let name = name.to_ascii_lowercase();
        stack.push_field(-1, &name);
        if stack.is_nil(-1) {
            stack.push_table(0, 1);
            stack.push_bytes(value);
            stack.set_index(0);
            // The nil stays below the new table.
            stack.push_value(-3);
            stack.push_value(-2);
            stack.set_field(&name);
            stack.pop(3);
        } else {
            let next = stack.length(-1) as i64 + 1;
            stack.push_bytes(value);
            stack.set_index(next);
            stack.pop(1);
        }
    }
}

/// An edit of a field: the head, its received bytes, the name and the value.
pub(super) type FieldEdit = fn(&mut Head, &[u8], &[u8], &[u8]) -> Result<(), NoRoom>;

/// Adds or sets a field.
pub(super) fn edit_field(call: &ApiCall<'_>, heads: Heads, edit: FieldEdit, function: &str) -> ApiResult {
    expect_count(call, 3..=3, function)?;
    let (number, side) = heads.find(call)?;
    let (name, value) = (field_name(call, 2)?, field_value(call, 3)?);
    on_stream(call, number, |target, _| {
        let (head, raw) = head(target, side)?;
        match edit(head, raw, name, value) {
            Ok(()) => follow_host(target, side, name),
            Err(NoRoom) => {
                // As in HAProxy, the script goes on: its next lines may deny the request.
                target.count_failed_rewrite();
                Ok(())
            }
        }
    })?;
    call.results(0)
}

pub(super) fn del_header(call: &ApiCall<'_>, heads: Heads, function: &str) -> ApiResult {
    expect_count(call, 2..=2, function)?;
    let ((number, side), name) = (heads.find(call)?, call.expect_bytes(2)?);
    on_stream(call, number, |target, _| {
        let (head, raw) = head(target, side)?;
        head.remove_matching(raw, |candidate| candidate.eq_ignore_ascii_case(name));
        Ok(())
    })?;
    call.results(0)
}

/// Replaces the matches of a regular expression, in each value or in each member of a list.
pub(super) fn replace(call: &ApiCall<'_>, heads: Heads, each: bool, function: &str) -> ApiResult {
    expect_count(call, 4..=4, function)?;
    let (number, side) = heads.find(call)?;
    let (name, pattern) = (field_name(call, 2)?, call.expect_bytes(3)?);
    let template = field_value(call, 4)?;
    let pattern = String::from_utf8_lossy(pattern);
    let regex = Regex::new(&pattern, false, &Location::new("Lua".into(), 0))
        .map_err(|error| Misuse::argument(3, format!("regex '{pattern}' is invalid ({error})")))?;
    on_stream(call, number, |target, _| {
        head(target, side)?;
        match target.replace_fields(side, name, &regex, template, each) {
            true => follow_host(target, side, name),
            false => {
                target.count_failed_rewrite();
                Ok(())
            }
        }
    })?;
    call.results(0)
}

/// Sets a part of the request line.
pub(super) fn set_line(call: &ApiCall<'_>, heads: Heads, part: RequestLinePart) -> ApiResult {
    let ((number, side), text) = (heads.find(call)?, call.expect_bytes(2)?);
    if side == Response {
        return Err(Misuse::text("a response has no request line"));
    }
    // A blank or a control character would end the request line early.
    if text.iter().any(|byte| !byte.is_ascii_graphic() && byte.is_ascii()) {
        return Err(Misuse::argument(2, "a text without blanks and control characters expected"));
    }
    let is_set = on_stream(call, number, |target, _| {
        head(target, Request)?;
        Ok(target.edit_request_line(part, text))
    })?;
    call.push_boolean(is_set);
    call.results(1)
}

pub(super) fn set_status(call: &ApiCall<'_>, heads: Heads) -> Result<(), Misuse> {
    let ((number, side), status) = (heads.find(call)?, call.expect_integer(2)?);
    if side == Request {
        return Err(Misuse::text("a request has no status"));
    }
    let status = u16::try_from(status).ok().filter(|status| (100..=999).contains(status));
    let status = status.ok_or_else(|| Misuse::argument(2, "a status from 100 to 999 expected"))?;
    let reason = if call.is_nil(3) { b"" } else { field_value(call, 3)? };
    let reason = if reason.is_empty() { status::reason(status).as_bytes() } else { reason };
    on_stream(call, number, |target, _| {
        let (head, _) = head(target, Response)?;
        head.set_status(status).map_err(no_room)?;
        head.set_reason(reason).map_err(no_room)
    })
}

/// The name of a field. Others would break the head.
fn field_name<'c>(call: &'c ApiCall<'_>, index: i32) -> Result<&'c [u8], Misuse> {
    let name = call.expect_bytes(index)?;
    match weir_http::is_token(name) {
        true => Ok(name),
        false => Err(Misuse::argument(index, "the name of a header expected")),
    }
}

/// The value of a field. A line end would begin another field.
fn field_value<'c>(call: &'c ApiCall<'_>, index: i32) -> Result<&'c [u8], Misuse> {
    let value = call.expect_bytes(index)?;
    match value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        false => Ok(value),
        true => Err(Misuse::argument(index, "a text without line ends expected")),
    }
}

pub(super) fn no_room(_: NoRoom) -> Misuse {
    Misuse::text("the head of the message would be too large")
}

fn follow_host(target: &mut dyn ScriptTarget, side: ScriptSide, name: &[u8]) -> Result<(), Misuse> {
    if side == Request && name.eq_ignore_ascii_case(b"host") && !target.follow_host() {
        return Err(Misuse::text("the new host is not one of a target"));
    }
    Ok(())
}
