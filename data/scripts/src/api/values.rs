//! Values of samples in Lua, and back.

use std::borrow::Cow;

use weir_expr::expr::script::argument_text;
use weir_expr::{Args, SampleType, Value};
use weir_lua::{LuaKind, LuaStack};

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
    match value.and_then(|value| value.cast(SampleType::Str)) {
        Some(Value::Str(text) | Value::Bin(text) | Value::Method(text)) => stack.push_bytes(&text),
        _ => stack.push_bytes(b""),
    }
}

/// The value of a sample that a script returned. `None` for nil and for values that samples lack.
pub(crate) fn read_value(stack: &LuaStack<'_>, index: i32) -> Option<Value<'static>> {
    match stack.kind(index) {
        LuaKind::Boolean => Some(Value::Bool(stack.boolean(index))),
        LuaKind::Integer => stack.integer(index).map(Value::Int),
        LuaKind::Float => stack.number(index).map(|number| Value::Int(number as i64)),
        LuaKind::String => stack.bytes(index).map(|bytes| Value::Str(Cow::Owned(bytes.to_vec()))),
        _ => None,
    }
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
