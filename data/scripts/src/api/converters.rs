//! `txn.c` and `txn.sc`: the converters of the language, as methods. Dots and dashes of their names are underscores.

use weir_expr::converters;
use weir_lua::LuaReference;

use super::fetches::{
    check_arguments, check_names, conversion, push_converted, twin_classes, twin_object, written,
};
use super::values::read_value;
use super::{ApiCall, ApiResult, on_stream};
use crate::world::ScriptState;

/// The two classes of converters, for `c` and `sc`. They share a method for each converter.
pub(super) fn classes(state: &mut ScriptState) -> [LuaReference; 2] {
    let names: Vec<&str> = converters::all().iter().map(|converter| converter.name).collect();
    twin_classes(state, "Converters", &names, convert)
}

fn convert(call: &ApiCall<'_>) -> ApiResult {
    let classes = call.host().classes();
    let (number, is_text) = twin_object(call, [classes.converters, classes.string_converters], "Converters")?;
    let (name, arguments) = call.host().converters[call.number_of_function() as usize];
    if call.is_nil(2) {
        return Err(call.wrong_kind(2, "string"));
    }
    let value = read_value(call, 2);
    check_arguments(call, arguments, 3)?;
    let text = written(call, name, 3)?;
    let conversion = conversion(call, &text, &value)?;
    let keeps = call.host().settings.keeps_booleans == Some(true);
    on_stream(call, number, |target, stack| {
        target.resolve(&mut |visit| conversion.visit_references(visit));
        check_names(arguments, 3, |visit| conversion.visit_references(visit))?;
        let converted = conversion.run(value, target.context());
        push_converted(stack, converted, is_text, keeps);
        Ok(())
    })?;
    call.results(1)
}
