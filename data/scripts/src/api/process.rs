//! Functions of `core` about the process.

use weir_expr::VariableScope;
use weir_lua::{LuaStack, Misuse};

use super::values::push_value;
use super::{ApiCall, ApiResult};
use crate::process::{ScriptProcess, StatsValue};

/// The process.
pub(super) fn process<'c>(call: &ApiCall<'c>) -> Result<&'c dyn ScriptProcess, Misuse> {
    let process = call.host().resources.process.get();
    process.ok_or_else(|| Misuse::text("the process is not there while the configuration is read"))
}

/// `core.get_var(name)`: a variable of scope `proc`.
pub(super) fn variable(call: &ApiCall<'_>) -> ApiResult {
    if call.count() != 1 {
        return Err(Misuse::text("'get_var' needs 1 arguments"));
    }
    let name = String::from_utf8_lossy(call.expect_bytes(1)?);
    if !name.starts_with("proc.") {
        return Err(Misuse::text(
            "'get_var': Only 'proc.' scope allowed to be retrieved in 'core.get_var()'.",
        ));
    }
    let world = call.host();
    let process = process(call)?;
    let variable =
        world.resources.variables.find(&name).filter(|known| known.scope == VariableScope::Process);
    match variable.and_then(|variable| process.variable(variable)) {
        Some(value) => push_value(call, &value, world.settings.keeps_booleans == Some(true)),
        None => call.push_nil(),
    }
    call.results(1)
}

/// `core.get_info()`: the fields of `show info`.
pub(super) fn info(call: &ApiCall<'_>) -> ApiResult {
    let process = process(call)?;
    call.push_table(0, 64);
    process.info(&mut |name, value| set_statistic(call, name, value));
    call.results(1)
}

/// `core.disable_legacy_mailers()`: a script sends the mails of `email-alert` itself.
pub(super) fn disable_mailers(call: &ApiCall<'_>) -> ApiResult {
    if !call.host().is_loading.get() {
        return Err(Misuse::text("disable_legacy_mailers: not available outside of init or body context"));
    }
    call.host().resources.process.take_over_mails();
    call.results(0)
}

/// Sets a field of the table at the top.
pub(super) fn set_statistic(stack: &LuaStack<'_>, name: &str, value: StatsValue<'_>) {
    match value {
        StatsValue::Integer(number) => stack.push_integer(number),
        StatsValue::Text(text) => stack.push_bytes(text.as_bytes()),
    }
    stack.set_field(name.as_bytes());
}
