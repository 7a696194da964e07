//! `Reply`: an answer that a script makes, for `txn:done`.

use weir_http::status;
use weir_lua::{LuaKind, LuaStack, Misuse};

use super::values::strings_in_order;
use super::{ApiCall, ApiMember, ApiResult};
use crate::wait::ScriptReply;

pub(super) const METHODS: &[ApiMember] = &[
    ("set_status", set_status),
    ("add_header", add_header),
    ("del_header", del_header),
    ("set_body", set_body),
];

/// `txn:reply([table])`.
pub(super) fn new(call: &ApiCall<'_>) -> ApiResult {
    let given = match call.kind(2) {
        LuaKind::Table => read_reply(call, 2)?,
        _ => ScriptReply { status: 200, ..ScriptReply::default() },
    };
    call.push_table(0, 4);
    call.push_integer(given.status.into());
    call.set_field(b"status");
    call.push_bytes(given.reason.as_deref().unwrap_or(status::redirect_reason(given.status).as_bytes()));
    call.set_field(b"reason");
    call.push_table(0, 0);
    for (name, value) in &given.headers {
        append(call, name, value);
    }
    call.set_field(b"headers");
    if !given.body.is_empty() {
        call.push_bytes(&given.body);
        call.set_field(b"body");
    }
    call.set_metatable(call.host().classes().reply);
    call.results(1)
}

/// Adds a value to the list of a name, in the table at the top.
pub(super) fn append(call: &ApiCall<'_>, name: &[u8], value: &[u8]) {
    let table = call.count();
    call.push_field(table, name);
    if call.kind(-1) != LuaKind::Table {
        call.push_table(1, 0);
        call.push_value(table);
        call.push_value(-2);
        call.set_field(name);
        call.push_value(-2);
    }
    let next = call.length(-1) as i64 + 1;
    call.push_bytes(value);
    call.set_index(next);
    // The list, and what stood there before.
    call.pop(call.count() - table);
}

/// `reply:set_status(status [, reason])`: false if it is not a status.
fn set_status(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let number = call.expect_integer(2)?;
    let reason = if call.is_nil(3) { None } else { Some(call.expect_bytes(3)?) };
    let status = valid_status(number).ok();
    if let Some(status) = status {
        call.push_value(1);
        call.push_integer(status.into());
        call.set_field(b"status");
        call.push_bytes(reason.unwrap_or(status::redirect_reason(status).as_bytes()));
        call.set_field(b"reason");
    }
    call.push_boolean(status.is_some());
    call.results(1)
}

/// `reply:set_body(text)`.
fn set_body(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let body = call.expect_bytes(2)?;
    call.push_value(1);
    call.push_bytes(body);
    call.set_field(b"body");
    call.push_boolean(true);
    call.results(1)
}

/// `reply:add_header(name, value)`.
fn add_header(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let (name, value) = (call.expect_bytes(2)?, call.expect_bytes(3)?);
    push_headers(call);
    append(call, name, value);
    call.push_boolean(true);
    call.results(1)
}

/// `reply:del_header(name)`.
fn del_header(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let name = call.expect_bytes(2)?;
    push_headers(call);
    call.push_nil();
    call.set_field(name);
    call.push_boolean(true);
    call.results(1)
}

/// Pushes the table of headers of the reply in argument 1.
fn push_headers(call: &ApiCall<'_>) {
    call.push_field(1, b"headers");
    if call.kind(-1) != LuaKind::Table {
        call.push_table(0, 1);
        call.push_value(1);
        call.push_value(-2);
        call.set_field(b"headers");
        call.push_value(-2);
    }
}

fn valid_status(number: i64) -> Result<u16, Misuse> {
    let status = u16::try_from(number).ok().filter(|status| (100..=599).contains(status));
    status.ok_or_else(|| Misuse::text(format!("{number} is not a status of a response")))
}

/// The reply in a table: its fields `status`, `reason`, `headers` and `body`.
pub(super) fn read_reply(call: &ApiCall<'_>, index: i32) -> Result<ScriptReply, Misuse> {
    let mut reply = ScriptReply { status: 200, ..ScriptReply::default() };
    call.push_field(index, b"status");
    if matches!(call.kind(-1), LuaKind::Integer | LuaKind::Float)
        && let Some(number) = call.integer(-1)
    {
        reply.status = valid_status(number)?;
    }
    call.push_field(index, b"reason");
    let text = |call: &ApiCall<'_>| match call.kind(-1) {
        LuaKind::String => call.bytes(-1).map(<[u8]>::to_vec),
        _ => None,
    };
    reply.reason = text(call).filter(|reason| !reason.is_empty());
    call.push_field(index, b"body");
    reply.body = text(call).unwrap_or_default();
    call.push_field(index, b"headers");
    if call.kind(-1) == LuaKind::Table {
        read_headers(call, &mut reply)?;
    }
    Ok(reply)
}

/// Adds the headers of the table at the top.
pub(super) fn read_headers(stack: &LuaStack<'_>, reply: &mut ScriptReply) -> Result<(), Misuse> {
    stack.each_pair(-1, |stack| read_header(stack, reply))
}

/// One pair of the headers: a name, and its value or a table of values.
fn read_header(stack: &LuaStack<'_>, reply: &mut ScriptReply) -> Result<(), Misuse> {
    let name = stack.bytes(-2).unwrap_or_default().to_vec();
    if !weir_http::is_token(&name) {
        return Err(Misuse::text(format!("'{}' is not a name of a header", String::from_utf8_lossy(&name))));
    }
    let mut add = |value: &[u8]| -> Result<(), Misuse> {
        if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return Err(Misuse::text("the value of a header has a line end or a NUL"));
        }
        reply.headers.push((name.clone(), value.to_vec()));
        Ok(())
    };
    if stack.kind(-1) != LuaKind::Table {
        return stack.bytes(-1).map_or(Ok(()), &mut add);
    }
    strings_in_order(stack)?.try_for_each(|value| add(&value))
}
