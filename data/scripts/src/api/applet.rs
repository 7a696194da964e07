//! `AppletHTTP` and `AppletTCP`: the client of a service.

use std::time::Duration;

use weir_http::{Version, status};
use weir_lua::{LuaKind, LuaStack, Misuse};

use super::http::push_fields;
use super::reply::{append, read_headers};
use super::txn::{set_var, unset_var, value_of_variable};
use super::{ApiCall, ApiMember, ApiResult, expect_count, on_stream};
use crate::message::ScriptSide;
use crate::target::ScriptTarget;
use crate::wait::{ReceiveAmount, ScriptReply, ScriptWait};
use crate::world::Classes;

pub(super) const HTTP_METHODS: &[ApiMember] = &[
    ("getline", |call| receive(call, ReceiveAmount::Line)),
    ("receive", receive_http),
    ("send", send_http),
    ("set_status", set_status),
    ("add_header", add_header),
    ("start_response", start_response),
    ("get_priv", private),
    ("set_priv", keep_private),
    ("get_var", value_of_variable),
    ("set_var", set_var),
    ("unset_var", unset_var),
];

pub(super) const TCP_METHODS: &[ApiMember] = &[
    ("getline", |call| receive(call, ReceiveAmount::Line)),
    ("receive", receive_tcp),
    ("try_receive", |call| receive(call, ReceiveAmount::There)),
    ("send", send_tcp),
    ("get_priv", private),
    ("set_priv", keep_private),
    ("get_var", value_of_variable),
    ("set_var", set_var),
    ("unset_var", unset_var),
];

/// Pushes the object of a service of TCP.
pub(crate) fn push_tcp(stack: &LuaStack<'_>, classes: &Classes, number: i64) {
    stack.push_object(classes.applet_tcp, number, 0);
    stack.push_table(0, 1);
    stack.parts(-2).attach();
}

/// Pushes the object of a service of HTTP.
pub(crate) fn push_http(stack: &LuaStack<'_>, classes: &Classes, number: i64) {
    stack.push_object(classes.applet_http, number, 0);
    stack.push_table(0, 4);
    stack.parts(-2).attach();
    stack.push_table(0, 2);
    stack.set_field(b"response");
}

/// A member of an applet: a method, or a field that is made when a script first reads it.
pub(super) fn index(call: &ApiCall<'_>) -> ApiResult {
    let classes = call.host().classes();
    let (number, methods, is_http) = match call.object(1, classes.applet_http) {
        Some(number) => (number, classes.applet_http_methods, true),
        None => {
            let number = call.object(1, classes.applet_tcp).ok_or_else(|| call.wrong_kind(1, "Applet"))?;
            (number, classes.applet_tcp_methods, false)
        }
    };
    if call.kind(2) != LuaKind::String {
        call.push_nil();
        return call.results(1);
    }
    call.push_reference(methods);
    let name = call.bytes(2).unwrap_or_default();
    call.push_field(-1, name);
    if !call.is_nil(-1) {
        return call.results(1);
    }
    let class = match name {
        b"f" => Some(classes.fetches),
        b"sf" => Some(classes.string_fetches),
        b"c" => Some(classes.converters),
        b"sc" => Some(classes.string_converters),
        _ => None,
    };
    match class {
        Some(class) => call.push_object(class, number, 0),
        None if is_http && REQUEST_FIELDS.contains(&name) => {
            on_stream(call, number, |target, stack| {
                push_request_field(stack, target, name);
                Ok(())
            })?;
        }
        None => return call.results(1),
    }
    // The field stays in the table.
    call.push_value(1);
    call.push_value(-2);
    call.set_field(name);
    call.push_value(-2);
    call.results(1)
}

const REQUEST_FIELDS: [&[u8]; 6] = [b"method", b"version", b"path", b"qs", b"length", b"headers"];

/// Pushes a part of the request, or nil.
fn push_request_field(stack: &LuaStack<'_>, target: &mut dyn ScriptTarget, name: &[u8]) {
    if name == b"length" {
        return stack.push_integer(i64::try_from(target.body_length()).unwrap_or(i64::MAX));
    }
    let Some((head, raw)) = target.head(ScriptSide::Request) else { return stack.push_nil() };
    let path = Some(head.path(raw)).filter(|path| path.starts_with(b"/"));
    let text = match name {
        b"method" => Some(head.method_text(raw)),
        b"version" if head.version() >= Version::HTTP_11 => Some(&b"HTTP/1.1"[..]),
        b"version" => Some(&b"HTTP/1.0"[..]),
        b"path" => path,
        b"qs" => path.map(|_| head.query(raw).unwrap_or_default()),
        _ => return push_fields(stack, head, raw),
    };
    text.map_or_else(|| stack.push_nil(), |text| stack.push_bytes(text));
}

/// Checks the object in argument 1: it belongs to the stream of the run.
fn applet(call: &ApiCall<'_>) -> Result<(), Misuse> {
    let classes = call.host().classes();
    let found = call.object(1, classes.applet_http).or_else(|| call.object(1, classes.applet_tcp));
    on_stream(call, found.ok_or_else(|| call.wrong_kind(1, "Applet"))?, |_, _| Ok(()))
}

fn receive(call: &ApiCall<'_>, amount: ReceiveAmount) -> ApiResult {
    applet(call)?;
    call.wait(ScriptWait::Receive(amount, None))
}

/// The amount in argument 2: everything if it is missing or negative.
fn amount(call: &ApiCall<'_>) -> Result<ReceiveAmount, Misuse> {
    if call.kind(2) == LuaKind::None {
        return Ok(ReceiveAmount::All);
    }
    let size = call.expect_integer(2)?;
    Ok(usize::try_from(size).map_or(ReceiveAmount::All, ReceiveAmount::Exactly))
}

/// `applet:receive([size])`.
fn receive_http(call: &ApiCall<'_>) -> ApiResult {
    if call.arguments() > 2 {
        return Err(Misuse::text("The 'recv' function requires between 1 and 2 arguments."));
    }
    receive(call, amount(call)?)
}

/// `applet:receive([size [, timeout]])`. The timeout is in milliseconds; nothing in time is nil.
fn receive_tcp(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    let amount = amount(call)?;
    let timeout = if call.is_nil(3) { None } else { Some(call.expect_integer(3)?) };
    let timeout = timeout.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    call.wait(ScriptWait::Receive(amount, timeout))
}

fn send_tcp(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    expect_count(call, 2..=2, "send")?;
    call.wait(ScriptWait::Send(call.expect_bytes(2)?.to_vec()))
}

fn send_http(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    let bytes = call.expect_bytes(2)?.to_vec();
    if !has_begun(call) {
        return Err(Misuse::text("Lua: 'send' you must call start_response() before sending data."));
    }
    call.wait(ScriptWait::Send(bytes))
}

fn has_begun(call: &ApiCall<'_>) -> bool {
    call.parts(1).push_attached();
    call.push_field(-1, b"begun");
    call.boolean(-1)
}

/// `applet:set_status(status [, reason])`: false if it is not a status.
fn set_status(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    let status = call.expect_integer(2)?;
    let is_valid = (100..=599).contains(&status);
    let reason = if call.is_nil(3) { None } else { Some(call.expect_bytes(3)?) };
    if reason.is_some_and(|reason| reason.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))) {
        return Err(Misuse::argument(3, "a text without line ends expected"));
    }
    if is_valid {
        call.parts(1).push_attached();
        call.push_integer(status);
        call.set_field(b"status");
        match reason.filter(|reason| !reason.is_empty()) {
            Some(reason) => call.push_bytes(reason),
            None => call.push_nil(),
        }
        call.set_field(b"reason");
    }
    call.push_boolean(is_valid);
    call.results(1)
}

/// `applet:add_header(name, value)`: adds to the table `applet.response`.
fn add_header(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    let (name, value) = (call.expect_bytes(2)?, call.expect_bytes(3)?);
    call.push_field(1, b"response");
    if call.kind(-1) != LuaKind::Table {
        return Err(Misuse::text("Lua: internal error: AppletHTTP['response'] is expected as an array."));
    }
    append(call, name, value);
    call.push_boolean(true);
    call.results(1)
}

/// `applet:start_response()`: the head of the response leaves.
fn start_response(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    if has_begun(call) {
        return Err(Misuse::text("the response has begun already"));
    }
    let mut reply = ScriptReply { status: 200, ..ScriptReply::default() };
    call.push_field(1, b"response");
    if call.kind(-1) == LuaKind::Table {
        read_headers(call, &mut reply)?;
    }
    call.parts(1).push_attached();
    call.push_field(-1, b"status");
    reply.status = call.integer(-1).and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
    if reply.status < 200 {
        return Err(Misuse::text(format!("a service cannot answer with status {}", reply.status)));
    }
    call.push_field(-2, b"reason");
    reply.reason = call.bytes(-1).map(<[u8]>::to_vec);
    call.parts(1).push_attached();
    call.push_boolean(true);
    call.set_field(b"begun");
    if reply.reason.is_none() {
        reply.reason = Some(status::reason(reply.status).as_bytes().to_vec());
    }
    call.wait(ScriptWait::Answer(Box::new(reply)))
}

fn private(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    call.parts(1).push_attached();
    call.push_field(-1, b"private");
    call.results(1)
}

fn keep_private(call: &ApiCall<'_>) -> ApiResult {
    applet(call)?;
    call.parts(1).push_attached();
    if call.arguments() > 1 {
        call.push_value(2);
    } else {
        call.push_nil();
    }
    call.set_field(b"private");
    call.results(0)
}
