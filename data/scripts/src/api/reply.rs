//! `Reply`: an answer that a script makes, for `txn:done`.

use weir_lua::{LuaKind, LuaStack, Misuse};

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
    if let Some(reason) = &given.reason {
        call.push_bytes(reason);
        call.set_field(b"reason");
    }
    call.push_table(0, 0);
    let names = given.headers.iter().map(|(name, _)| name.to_ascii_lowercase());
    let mut names: Vec<Vec<u8>> = names.collect();
    names.sort();
    names.dedup();
    for name in names {
        call.push_table(0, 1);
        let of_name = given.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(&name));
        for (position, (_, value)) in of_name.enumerate() {
            call.push_bytes(value);
            call.set_index(position as i64);
        }
        call.set_field(&name);
    }
    call.set_field(b"headers");
    call.push_bytes(&given.body);
    call.set_field(b"body");
    call.set_metatable(call.host().classes().reply);
    call.results(1)
}

fn set_status(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let status = status(call.expect_integer(2)?)?;
    call.push_value(1);
    call.push_integer(status.into());
    call.set_field(b"status");
    match call.kind(3) {
        LuaKind::None | LuaKind::Nil => call.push_nil(),
        _ => call.push_bytes(call.expect_bytes(3)?),
    }
    call.set_field(b"reason");
    call.results(0)
}

fn set_body(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    call.push_value(1);
    match call.kind(2) {
        LuaKind::None | LuaKind::Nil => call.push_nil(),
        _ => call.push_bytes(call.expect_bytes(2)?),
    }
    call.set_field(b"body");
    call.results(0)
}

fn add_header(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let name = call.expect_bytes(2)?.to_ascii_lowercase();
    let value = call.expect_bytes(3)?;
    push_headers(call);
    call.push_field(-1, &name);
    if call.kind(-1) != LuaKind::Table {
        call.push_table(0, 1);
        call.push_value(-1);
        let values = call.count();
        // headers[name] = the new table, which stays at the top
        call.push_value(-4);
        call.push_value(values);
        call.set_field(&name);
        call.push_value(values);
    }
    let mut position = 0;
    loop {
        call.push_index(-1, position);
        if call.is_nil(-1) {
            break;
        }
        position += 1;
        call.push_value(-2);
    }
    call.push_value(-2);
    call.push_bytes(value);
    call.set_index(position);
    call.results(0)
}

fn del_header(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let name = call.expect_bytes(2)?.to_ascii_lowercase();
    push_headers(call);
    call.push_nil();
    call.set_field(&name);
    call.results(0)
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

fn status(number: i64) -> Result<u16, Misuse> {
    let status = u16::try_from(number).ok().filter(|status| (100..=599).contains(status));
    status.ok_or_else(|| Misuse::text(format!("{number} is not a status of a response")))
}

/// The reply in a table: its fields `status`, `reason`, `headers` and `body`.
pub(super) fn read_reply(call: &ApiCall<'_>, index: i32) -> Result<ScriptReply, Misuse> {
    let mut reply = ScriptReply { status: 200, ..ScriptReply::default() };
    call.push_field(index, b"status");
    if let Some(number) = call.integer(-1) {
        reply.status = status(number)?;
    }
    call.push_field(index, b"reason");
    reply.reason = call.bytes(-1).map(<[u8]>::to_vec);
    call.push_field(index, b"body");
    reply.body = call.bytes(-1).unwrap_or_default().to_vec();
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
    let mut values = Vec::new();
    stack.each_pair(-1, |stack| {
        let position = stack.integer(-2).unwrap_or(0);
        values.push((position, stack.bytes(-1).unwrap_or_default().to_vec()));
        Ok::<(), Misuse>(())
    })?;
    values.sort();
    values.iter().try_for_each(|(_, value)| add(value))
}
