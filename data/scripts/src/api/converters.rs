//! `txn.c` and `txn.sc`: the converters of the language, as methods. Dots and dashes of their names are underscores.

use weir_expr::converters;
use weir_lua::LuaReference;

use super::fetches::{conversion, member_name, push_converted, written};
use super::values::read_value;
use super::{ApiCall, ApiResult, on_stream};
use crate::world::{ScriptState, World};

/// The class of converters: a method for each.
pub(super) fn class(state: &mut ScriptState) -> LuaReference {
    state.with_stack(|stack| {
        let all = converters::all();
        stack.push_table(0, 1);
        stack.push_table(0, all.len());
        for (number, converter) in all.iter().enumerate() {
            stack.push_function::<World>(convert, number as i64);
            stack.set_field(member_name(converter.name).as_bytes());
        }
        stack.set_field(b"__index");
        super::keep_class(stack, "Converters")
    })
}

fn convert(call: &ApiCall<'_>) -> ApiResult {
    let classes = call.host().classes();
    let (number, is_text) = match call.object(1, classes.converters) {
        Some(number) => (number, false),
        None => match call.object(1, classes.string_converters) {
            Some(number) => (number, true),
            None => return Err(call.wrong_kind(1, "Converters")),
        },
    };
    let names = &call.host().converter_names;
    let name = names.get(call.number_of_function() as usize).copied().unwrap_or_default();
    if call.is_nil(2) {
        return Err(call.wrong_kind(2, "string"));
    }
    let value = read_value(call, 2);
    let text = written(call, name, 3)?;
    let conversion = conversion(call, &text, &value)?;
    let keeps = call.host().settings.keeps_booleans == Some(true);
    on_stream(call, number, |target, stack| {
        target.resolve(&mut |visit| conversion.visit_references(visit));
        let converted = conversion.run(value, target.context());
        push_converted(stack, converted, is_text, keeps);
        Ok(())
    })?;
    call.results(1)
}
