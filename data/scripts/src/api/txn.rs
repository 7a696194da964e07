//! `TXN`: a transaction of a stream.

use weir_expr::{SetCondition, VariableScope};
use weir_lua::{LuaKind, LuaReference, LuaStack, Misuse};

use super::core::{in_one_line, level_of, write_message_of};
use super::reply::read_reply;
use super::values::{push_value, read_value};
use super::{ApiCall, ApiMember, ApiResult, expect_count, on_stream};
use crate::message::ScriptSide;
use crate::target::StreamSetting;
use crate::wait::{ScriptReply, ScriptWait};

pub(super) const METHODS: &[ApiMember] = &[
    ("get_priv", private),
    ("set_priv", set_private),
    ("get_var", value_of_variable),
    ("set_var", set_var),
    ("unset_var", unset_var),
    ("done", done),
    ("reply", reply),
    ("log", log),
    ("deflog", |call| log_at(call, 6, "deflog")),
    ("Debug", |call| log_at(call, 7, "Debug")),
    ("Info", |call| log_at(call, 6, "Info")),
    ("Warning", |call| log_at(call, 4, "Warning")),
    ("Alert", |call| log_at(call, 1, "Alert")),
    ("set_loglevel", set_log_level),
    ("set_tos", |call| set(call, "set_fc_tos", |value| StreamSetting::Tos(value as u8))),
    ("set_fc_tos", |call| set(call, "set_fc_tos", |value| StreamSetting::Tos(value as u8))),
    ("set_mark", |call| set(call, "set_fc_mark", |value| StreamSetting::Mark(value as u32))),
    ("set_fc_mark", |call| set(call, "set_fc_mark", |value| StreamSetting::Mark(value as u32))),
    ("set_priority_class", |call| set(call, "set_priority_class", StreamSetting::PriorityClass)),
    ("set_priority_offset", |call| set(call, "set_priority_offset", StreamSetting::PriorityOffset)),
];

/// Pushes the transaction of a stream. It has room for the fields that most scripts read.
pub(crate) fn push_txn(stack: &LuaStack<'_>, class: LuaReference, number: i64) {
    stack.push_object(class, number, USUAL_FIELDS);
}

/// Such as `sf`, `http` and `f`. With its number, an object has four places.
const USUAL_FIELDS: usize = 3;

/// A member: a method, or a field that is made when a script first reads it.
pub(super) fn index(call: &ApiCall<'_>) -> ApiResult {
    let number = number_of(call)?;
    let classes = call.host().classes();
    if call.kind(2) != LuaKind::String {
        call.push_nil();
        return call.results(1);
    }
    call.push_reference(classes.txn_methods);
    call.member(-1, 2).push();
    let name = call.bytes(2).unwrap_or_default();
    if !call.is_nil(-1) {
        return call.results(1);
    }
    let class = match name {
        b"f" => classes.fetches,
        b"sf" => classes.string_fetches,
        b"c" => classes.converters,
        b"sc" => classes.string_converters,
        b"http" if is_http(call, number) => classes.http,
        b"http_req" | b"http_res" if call.host().filters.running().is_some() => {
            let side = if name == b"http_req" { ScriptSide::Request } else { ScriptSide::Response };
            match is_http(call, number) {
                true => call.host().filters.messages(side),
                false => return call.results(1),
            }
        }
        b"req" => classes.request_channel,
        b"res" => classes.response_channel,
        _ => return call.results(1),
    };
    call.push_object(class, number, 0);
    // The field stays in the table.
    call.push_value(-1);
    call.member(1, 2).set();
    call.results(1)
}

fn number_of(call: &ApiCall<'_>) -> Result<i64, Misuse> {
    call.object(1, call.host().classes().txn).ok_or_else(|| call.wrong_kind(1, "TXN"))
}

/// The stream of an object that has variables: a transaction, or the client of a service.
fn number_with_variables(call: &ApiCall<'_>) -> Result<i64, Misuse> {
    let classes = call.host().classes();
    let of_applet =
        || [classes.applet_http, classes.applet_tcp].iter().find_map(|class| call.object(1, *class));
    call.object(1, classes.txn).or_else(of_applet).ok_or_else(|| call.wrong_kind(1, "TXN"))
}

/// Whether the stream has HTTP messages.
fn is_http(call: &ApiCall<'_>, number: i64) -> bool {
    on_stream(call, number, |target, _| Ok(target.is_http())) == Ok(true)
}

/// `txn:reply([table])`.
fn reply(call: &ApiCall<'_>) -> ApiResult {
    if !is_http(call, number_of(call)?) {
        return Err(Misuse::text("txn object is not an HTTP transaction."));
    }
    super::reply::new(call)
}

/// `txn:get_priv()`.
fn private(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 1..=1, "get_priv")?;
    match call.host().private.find(number_of(call)?) {
        Some(value) => call.push_reference(value),
        None => call.push_nil(),
    }
    call.results(1)
}

/// `txn:set_priv(value)`: the stream keeps the value.
fn set_private(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "set_priv")?;
    let number = number_of(call)?;
    on_stream(call, number, |target, _| {
        call.push_value(2);
        let (before, guard) = call.host().private.set(number, call.keep());
        before.into_iter().for_each(|before| call.forget(before));
        guard.into_iter().for_each(|guard| target.keep(guard));
        Ok(())
    })?;
    call.results(0)
}

/// `txn:set_loglevel(level)`: -1 for no line.
fn set_log_level(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "set_loglevel")?;
    let level = call.expect_integer(2)?;
    let level = match level {
        -1 => None,
        0..=7 => Some(level as u8),
        _ => {
            let text = "Bad log level. It must be one of the following value: core.silent(-1), core.emerg(0), core.alert(1), core.crit(2), core.error(3), core.warning(4), core.notice(5), core.info(6) or core.debug(7)";
            return Err(Misuse::argument(2, text));
        }
    };
    change(call, StreamSetting::LogLevel(level))
}

/// Changes a setting of the stream.
fn set(call: &ApiCall<'_>, name: &str, setting: fn(i64) -> StreamSetting) -> ApiResult {
    expect_count(call, 2..=2, name)?;
    let setting = setting(call.expect_integer(2)?);
    change(call, setting)
}

fn change(call: &ApiCall<'_>, setting: StreamSetting) -> ApiResult {
    on_stream(call, number_of(call)?, |target, _| {
        target.set(setting);
        Ok(())
    })?;
    call.results(0)
}

/// The name of a variable in argument 2.
fn variable(call: &ApiCall<'_>) -> Result<String, Misuse> {
    let name = call.expect_bytes(2)?;
    String::from_utf8(name.to_vec()).map_err(|_| Misuse::argument(2, "the name of a variable expected"))
}

pub(super) fn value_of_variable(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "get_var")?;
    let (number, name) = (number_with_variables(call)?, variable(call)?);
    let world = call.host();
    let keeps = world.settings.keeps_booleans == Some(true);
    on_stream(call, number, |target, stack| {
        let found = world.resources.variables.find(&name);
        match found.and_then(|variable| target.context().variable(variable)) {
            Some(value) => push_value(stack, &value, keeps),
            None => stack.push_nil(),
        }
        Ok(())
    })?;
    call.results(1)
}

pub(super) fn set_var(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 3..=4, "set_var")?;
    let (number, name) = (number_with_variables(call)?, variable(call)?);
    let value = read_value(call, 3);
    let only_known = call.boolean(4);
    let world = call.host();
    let is_set = on_stream(call, number, |target, _| {
        let Ok(variable) = world.resources.variables.intern(&name) else { return Ok(false) };
        // As in HAProxy 3.2, variables of other scopes are always set.
        let is_bound = only_known && variable.scope == VariableScope::Process;
        if is_bound && target.context().variable(variable).is_none() {
            return Ok(false);
        }
        Ok(target.context().set_variable(variable, value, SetCondition::ALWAYS))
    })?;
    call.push_boolean(is_set);
    call.results(1)
}

pub(super) fn unset_var(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "unset_var")?;
    let (number, name) = (number_with_variables(call)?, variable(call)?);
    let world = call.host();
    on_stream(call, number, |target, _| {
        if let Some(variable) = world.resources.variables.find(&name) {
            target.context().unset_variable(variable);
        }
        Ok(())
    })?;
    // As in HAProxy, also where the variable was not set.
    call.push_boolean(true);
    call.results(1)
}

/// `txn:done([reply])`: the stream ends here, and the script does not go on.
fn done(call: &ApiCall<'_>) -> ApiResult {
    number_of(call)?;
    if call.kind(2) != LuaKind::Table {
        return call.wait(ScriptWait::Done(None));
    }
    // The request must not pass because its reply is invalid.
    let reply = final_reply(call).unwrap_or_else(|misuse| {
        let (Misuse::Text(text) | Misuse::Bare(text) | Misuse::Argument(_, text)) = misuse;
        write_message_of(call.host(), 3, &format!("Lua: txn:done: {text}; the client gets status 500"));
        ScriptReply { status: 500, ..ScriptReply::default() }
    });
    call.wait(ScriptWait::Done(Some(Box::new(reply))))
}

/// The reply in argument 2.
fn final_reply(call: &ApiCall<'_>) -> Result<ScriptReply, Misuse> {
    let reply = read_reply(call, 2)?;
    match reply.status {
        0..200 => Err(Misuse::text(format!("{} is not the status of a final response", reply.status))),
        _ => Ok(reply),
    }
}

fn log(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 3..=3, "log")?;
    let level = level_of(call, 2)?;
    write_log(call, level, 3)
}

fn log_at(call: &ApiCall<'_>, level: u8, name: &str) -> ApiResult {
    expect_count(call, 2..=2, name)?;
    write_log(call, level, 2)
}

fn write_log(call: &ApiCall<'_>, level: u8, text: i32) -> ApiResult {
    let number = number_of(call)?;
    let text = String::from_utf8_lossy(call.expect_bytes(text)?).into_owned();
    let world = call.host();
    on_stream(call, number, |target, _| {
        let has_logger = world.settings.logs && target.log(level, &in_one_line(&text));
        super::print_message(&world.settings, level, &text, has_logger);
        Ok(())
    })?;
    call.results(0)
}
