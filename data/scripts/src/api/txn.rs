//! `TXN`: a transaction of a stream.

use weir_expr::{SetCondition, VariableScope};
use weir_lua::{LuaKind, LuaReference, Misuse};

use super::core::level_of;
use super::reply::read_reply;
use super::values::{push_value, read_value};
use super::{ApiCall, ApiMember, ApiResult, on_stream};
use crate::wait::ScriptWait;
use crate::world::{ScriptState, World};

pub(super) const METHODS: &[ApiMember] = &[
    ("get_var", value_of_variable),
    ("set_var", set_var),
    ("unset_var", unset_var),
    ("done", done),
    ("reply", super::reply::new),
    ("log", log),
    ("deflog", |call| log_at(call, 6)),
    ("Debug", |call| log_at(call, 7)),
    ("Info", |call| log_at(call, 6)),
    ("Warning", |call| log_at(call, 4)),
    ("Alert", |call| log_at(call, 1)),
];

/// Members that are not there yet.
const NOT_YET: &[&str] = &[
    "get_priv",
    "set_priv",
    "get_headers",
    "set_fc_tos",
    "set_fc_mark",
    "set_loglevel",
    "set_mark",
    "set_priority_class",
    "set_priority_offset",
    "set_tos",
];

/// The class: its fields are made when a script reads them.
pub(super) fn class(state: &mut ScriptState) -> LuaReference {
    state.with_stack(|stack| {
        stack.push_table(0, 1);
        stack.push_function::<World>(index, 0);
        stack.set_field(b"__index");
        super::name_class(stack, "TXN");
        stack.keep()
    })
}

fn index(call: &ApiCall<'_>) -> ApiResult {
    let number = number_of(call)?;
    let classes = call.host().classes();
    if call.kind(2) != LuaKind::String {
        call.push_nil();
        return call.results(1);
    }
    call.push_reference(classes.txn_methods);
    let name = call.bytes(2).unwrap_or_default();
    call.push_field(-1, name);
    if !call.is_nil(-1) {
        return call.results(1);
    }
    let class = match name {
        b"f" => classes.fetches,
        b"sf" => classes.string_fetches,
        b"c" => classes.converters,
        b"sc" => classes.string_converters,
        b"http" => classes.http,
        b"req" => classes.request_channel,
        b"res" => classes.response_channel,
        _ => match NOT_YET.iter().find(|known| known.as_bytes() == name) {
            Some(known) => return Err(Misuse::text(format!("TXN.{known} is not implemented yet"))),
            None => return call.results(1),
        },
    };
    call.push_object(class, number);
    // The field stays in the table.
    call.push_value(1);
    call.push_value(-2);
    call.set_field(name);
    call.push_value(-2);
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

/// The name of a variable in argument 2.
fn variable(call: &ApiCall<'_>) -> Result<String, Misuse> {
    let name = call.expect_bytes(2)?;
    String::from_utf8(name.to_vec()).map_err(|_| Misuse::argument(2, "the name of a variable expected"))
}

pub(super) fn value_of_variable(call: &ApiCall<'_>) -> ApiResult {
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
    let (number, name) = (number_with_variables(call)?, variable(call)?);
    // Nil unsets the variable.
    let value = match call.kind(3) {
        LuaKind::Nil | LuaKind::None => None,
        _ => Some(read_value(call, 3)),
    };
    let only_known = call.boolean(4);
    let world = call.host();
    let is_set = on_stream(call, number, |target, _| {
        let Ok(variable) = world.resources.variables.intern(&name) else { return Ok(false) };
        // As in HAProxy 3.2, variables of other scopes are always set.
        let is_bound = only_known && variable.scope == VariableScope::Process;
        if is_bound && target.context().variable(variable).is_none() {
            return Ok(false);
        }
        Ok(match value {
            Some(value) => target.context().set_variable(variable, value, SetCondition::ALWAYS),
            None => target.context().unset_variable(variable),
        })
    })?;
    call.push_boolean(is_set);
    call.results(1)
}

pub(super) fn unset_var(call: &ApiCall<'_>) -> ApiResult {
    let (number, name) = (number_with_variables(call)?, variable(call)?);
    let world = call.host();
    let is_unset = on_stream(call, number, |target, _| {
        let found = world.resources.variables.find(&name);
        Ok(found.is_some_and(|variable| target.context().unset_variable(variable)))
    })?;
    call.push_boolean(is_unset);
    call.results(1)
}

/// `txn:done([reply])`: the stream ends here, and the script does not go on.
fn done(call: &ApiCall<'_>) -> ApiResult {
    number_of(call)?;
    let reply = match call.kind(2) {
        LuaKind::Table => Some(Box::new(read_reply(call, 2)?)),
        _ => None,
    };
    call.wait(ScriptWait::Done(reply))
}

fn log(call: &ApiCall<'_>) -> ApiResult {
    let level = level_of(call, 2)?;
    write_log(call, level, 3)
}

fn log_at(call: &ApiCall<'_>, level: u8) -> ApiResult {
    write_log(call, level, 2)
}

fn write_log(call: &ApiCall<'_>, level: u8, text: i32) -> ApiResult {
    let number = number_of(call)?;
    let text = String::from_utf8_lossy(call.expect_bytes(text)?).into_owned();
    let world = call.host();
    on_stream(call, number, |target, _| {
        let has_logger = world.settings.logs && target.log(level, &text);
        super::print_message(&world.settings, level, &text, has_logger);
        Ok(())
    })?;
    call.results(0)
}
