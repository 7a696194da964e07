//! `filter` and `core.register_filter`: the filters of scripts (Lua API, "Filter class").

use weir_lua::{LuaReference, Misuse};

use super::channel::ChannelObject;
use super::core::{name, needs_loading, wake_time};
use super::messages::{self, METHODS};
use super::{ApiCall, ApiMember, ApiResult, expect_count, indexed_class, table};
use crate::world::ScriptState;

/// `filter.FLT_CFG_FL_HTX`: the filter sees streams of HTTP.
pub(crate) const FLAG_HTTP: i64 = 1;

/// What callbacks return, and the flag of filters.
pub(super) const CONSTANTS: &[(&str, i64)] =
    &[("CONTINUE", 1), ("WAIT", 0), ("ERROR", -1), ("FLT_CFG_FL_HTX", FLAG_HTTP)];

pub(super) const FUNCTIONS: &[ApiMember] = &[
    ("register_data_filter", |call| want_payload(call, true, "register_data_filter")),
    ("unregister_data_filter", |call| want_payload(call, false, "unregister_data_filter")),
    ("wake_time", wake_time),
];

/// `core.register_filter(name, class, function)`.
pub(super) fn register(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 3..=3, "register_filter")?;
    needs_loading(call, "register_filter")?;
    let name = name(call)?;
    call.expect_table(2)?;
    call.expect_function(3)?;
    let keep = |index| {
        call.push_value(index);
        call.keep()
    };
    let (class, function) = (keep(2), keep(3));
    call.host().registry.add_filter(&name, class, function);
    call.results(0)
}

/// `filter.register_data_filter(filter, channel)`, `filter.unregister_data_filter(filter, channel)`.
fn want_payload(call: &ApiCall<'_>, wants: bool, name: &str) -> ApiResult {
    expect_count(call, 2..=2, name)?;
    let filters = &call.host().filters;
    let Some(running) = filters.running() else {
        return Err(Misuse::text(format!("'{name}' is only available in a function of a filter")));
    };
    if !is_same(call, 1, running) {
        return Err(Misuse::argument(1, "the filter of this function expected"));
    }
    filters.register(ChannelObject::of(call, 2)?.side, wants);
    call.results(0)
}

/// Whether an argument is a kept value.
fn is_same(call: &ApiCall<'_>, index: i32, reference: LuaReference) -> bool {
    call.push_reference(reference);
    let is_same = call.is_same(index, -1);
    call.pop(1);
    is_same
}

/// The classes of `HTTPMessage`, of requests and of responses, and their methods.
pub(crate) fn message_classes(state: &mut ScriptState) -> ([LuaReference; 2], LuaReference) {
    let methods = state.with_stack(|stack| table(stack, METHODS));
    let mut class = || indexed_class(state, "HTTPMessage", messages::index, methods);
    let classes = [class(), class()];
    (classes, methods)
}
