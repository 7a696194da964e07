//! Values of samples in Lua, and back.

use std::borrow::Cow;

use weir_expr::expr::script::argument_text;
use weir_expr::{Args, SampleType, Value};
use weir_lua::{LuaKind, LuaStack, Misuse};

/// Pushes a value. Booleans become 0 and 1 unless `keeps_booleans` (`tune.lua.bool-sample-conversion`).
pub(crate) fn push_value(stack: &LuaStack<'_>, value: &Value<'_>, keeps_booleans: bool) {
    match value {
        Value::Bool(value) if keeps_booleans => stack.push_boolean(*value),
        Value::Bool(value) => stack.push_integer(i64::from(*value)),
        Value::Int(value) => stack.push_integer(*value),
        Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes) => stack.push_bytes(bytes),
        other => match other.clone().cast(SampleType::Str) {
            Some(Value::Str(text)) => stack.push_bytes(&text),
            _ => stack.push_nil(),
        },
    }
}

/// Pushes a value as a text. Without a value, the text is empty.
pub(crate) fn push_text(stack: &LuaStack<'_>, value: Option<Value<'_>>) {
    match value {
        // A cast to a text would end at the first zero byte.
        Some(Value::Str(bytes) | Value::Bin(bytes) | Value::Method(bytes)) => stack.push_bytes(&bytes),
        value => match value.and_then(|value| value.cast(SampleType::Str)) {
            Some(Value::Str(text)) => stack.push_bytes(&text),
            _ => stack.push_bytes(b""),
        },
    }
}

/// The value of a sample that a script returned. As in HAProxy, a fraction is 0, and nil and values that samples lack are false.
pub(crate) fn read_value(stack: &LuaStack<'_>, index: i32) -> Value<'static> {
    match stack.kind(index) {
        LuaKind::Boolean => Value::Bool(stack.boolean(index)),
        LuaKind::Integer | LuaKind::Float => Value::Int(stack.integer(index).unwrap_or(0)),
        LuaKind::String => Value::Str(Cow::Owned(stack.bytes(index).unwrap_or_default().to_vec())),
        _ => Value::Bool(false),
    }
}

/// The last result of a function, as HAProxy takes it. `None` without results.
pub(crate) fn read_result(results: &LuaStack<'_>) -> Option<Value<'static>> {
    (results.count() > 0).then(|| read_value(results, -1))
}

/// The strings of the table at the top, in the order of their numbers.
pub(super) fn strings_in_order(
    stack: &LuaStack<'_>,
) -> Result<impl Iterator<Item = Vec<u8>> + use<>, Misuse> {
    let mut values = Vec::new();
    stack.each_pair(-1, |stack| {
        let position = stack.integer(-2).unwrap_or(0);
        values.extend(stack.bytes(-1).map(|value| (position, value.to_vec())));
        Ok::<(), Misuse>(())
    })?;
    values.sort();
    Ok(values.into_iter().map(|(_, value)| value))
}

/// Pushes the arguments of a script's fetch or converter.
pub(crate) fn push_arguments(stack: &LuaStack<'_>, args: &Args) {
    for index in 0..args.len() {
        match argument_text(args, index) {
            Some(text) => stack.push_bytes(text),
            None => stack.push_nil(),
        }
    }
}
