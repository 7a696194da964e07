//! `txn.f` and `txn.sf`: the fetches of the language, as methods. Dots and dashes of their names are underscores.

use std::sync::Arc;

use weir_expr::expr::script::ScriptConversion;
use weir_expr::{
    ArgKind, ArgSpec, EvaluationPoints, Expr, ExpressionScope, FetchResult, Location, Reference, SampleType,
    Value, Warnings,
};
use weir_lua::{Function, LuaKind, LuaReference, LuaStack, Misuse};

use super::values::{push_text, push_value};
use super::{ApiCall, ApiResult, on_stream};
use crate::world::{ScriptState, World};

/// The two classes of fetches, for `f` and `sf`. They share a method for each fetch.
pub(super) fn classes(state: &mut ScriptState) -> [LuaReference; 2] {
    let names: Vec<&str> = state.host().resources.registry.fetches().iter().map(|decl| decl.name).collect();
    twin_classes(state, "Fetches", &names, fetch)
}

/// Two classes with the same methods: a function with a number for each of these words.
pub(super) fn twin_classes(
    state: &mut ScriptState,
    name: &'static str,
    words: &[&str],
    function: Function<World>,
) -> [LuaReference; 2] {
    state.with_stack(|stack| {
        stack.push_table(0, words.len());
        for (number, word) in words.iter().enumerate() {
            stack.push_function::<World>(function, number as i64);
            stack.set_field(member_name(word).as_bytes());
        }
        let methods = stack.keep();
        let class = || {
            stack.push_table(0, 1);
            stack.push_reference(methods);
            stack.set_field(b"__index");
            super::keep_class(stack, name)
        };
        [class(), class()]
    })
}

/// The number of the object of a call, and whether it is of the second one of two classes.
pub(super) fn twin_object(
    call: &ApiCall<'_>,
    classes: [LuaReference; 2],
    name: &'static str,
) -> Result<(i64, bool), Misuse> {
    let found = call.object_of(1, classes).map(|(position, number)| (number, position == 1));
    found.ok_or_else(|| call.wrong_kind(1, name))
}

/// The name in scripts of a word of the language.
pub(super) fn member_name(word: &str) -> String {
    word.replace(['.', '-'], "_")
}

fn fetch(call: &ApiCall<'_>) -> ApiResult {
    let classes = call.host().classes();
    let (number, is_text) = twin_object(call, [classes.fetches, classes.string_fetches], "Fetches")?;
    let (name, arguments) = call.host().fetches[call.number_of_function() as usize];
    check_arguments(call, arguments, 2)?;
    let text = written(call, name, 2)?;
    let expression = expression(call, &text)?;
    let keeps = call.host().settings.keeps_booleans == Some(true);
    on_stream(call, number, |target, stack| {
        target.resolve(&mut |visit| expression.visit_references(visit));
        check_names(arguments, 2, |visit| expression.visit_references(visit))?;
        let value = match expression.evaluate(target.context()) {
            FetchResult::Sample(sample) => Some(sample.value),
            FetchResult::Missing | FetchResult::Later => None,
        };
        match value {
            value if is_text => push_text(stack, value),
            Some(value) => push_value(stack, &value, keeps),
            None => stack.push_nil(),
        }
        Ok(())
    })?;
    call.results(1)
}

/// Checks the number of the arguments of a fetch or a converter, and those that have to be integers. Argument `first` is the first one. The
/// messages are those of HAProxy.
pub(super) fn check_arguments(call: &ApiCall<'_>, spec: ArgSpec, first: i32) -> Result<(), Misuse> {
    let count = usize::try_from(call.count() - first + 1).unwrap_or(0);
    let place = |position: usize| first + position as i32;
    if count > spec.kinds.len() {
        return Err(Misuse::argument(place(spec.kinds.len()), "Last argument expected"));
    }
    // A frontend that is not named is that of the stream.
    if count < spec.required && spec.kinds[count] != ArgKind::Frontend {
        return Err(Misuse::argument(place(count), "Mandatory argument expected"));
    }
    for (position, kind) in spec.kinds.iter().enumerate().take(count) {
        let index = place(position);
        let may_lack = position >= spec.required && call.is_nil(index);
        if *kind == ArgKind::Int && !may_lack && call.integer(index).is_none() {
            return Err(Misuse::argument(index, "integer expected"));
        }
    }
    Ok(())
}

/// Checks that the names in the arguments of a fetch or a converter exist.
pub(super) fn check_names(
    spec: ArgSpec,
    first: i32,
    visit_all: impl FnOnce(&mut dyn FnMut(&Reference)),
) -> Result<(), Misuse> {
    let mut missing = None;
    visit_all(&mut |reference| {
        if reference.name.is_some() && reference.target().is_none() {
            let position = spec.kinds.iter().position(|kind| *kind == reference.kind);
            missing = position
                .map(|position| (position, reference.kind, reference.name.clone()))
                .or(missing.take());
        }
    });
    let Some((position, kind, name)) = missing else { return Ok(()) };
    let text = match kind {
        ArgKind::Server => "server doesn't exist".into(),
        ArgKind::Backend => "backend doesn't exist".into(),
        ArgKind::Frontend => "frontend doesn't exist".into(),
        ArgKind::Table => "table doesn't exist".into(),
        _ => format!("unable to find userlist '{}'", name.unwrap_or_default()),
    };
    Err(Misuse::argument(first + position as i32, text))
}

/// The failure of an expression that its parser refused. A check of the arguments has HAProxy's message.
fn refused(message: &str) -> Misuse {
    let check = ["invalid args in fetch method '", "invalid args in converter '"]
        .iter()
        .find_map(|prefix| message.strip_prefix(prefix)?.split_once("' : "));
    match check {
        Some((_, reason)) => Misuse::bare(format!("error in arguments: {reason}")),
        None => Misuse::text(message.to_owned()),
    }
}

/// The text of a fetch or a converter with its arguments, in the form of expressions.
pub(super) fn written(call: &ApiCall<'_>, name: &str, first: i32) -> Result<Vec<u8>, Misuse> {
    let mut text = Vec::with_capacity(name.len() + USUAL_ARGUMENTS);
    text.extend_from_slice(name.as_bytes());
    for index in first..=call.count() {
        text.push(if index == first { b'(' } else { b',' });
        match call.kind(index) {
            LuaKind::String | LuaKind::Integer | LuaKind::Float => {
                write_argument(call.bytes(index).unwrap_or_default(), &mut text);
            }
            LuaKind::Boolean => text.push(b'0' + u8::from(call.boolean(index))),
            LuaKind::Nil => {}
            _ => return Err(call.wrong_kind(index, "string")),
        }
    }
    if call.count() >= first {
        text.push(b')');
    }
    Ok(text)
}

/// Writes an argument in quotes, so that commas, brackets and blanks are of the argument.
fn write_argument(argument: &[u8], out: &mut Vec<u8>) {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+*=".contains(byte);
    if argument.iter().all(is_plain) {
        return out.extend_from_slice(argument);
    }
    out.push(b'\'');
    for byte in argument {
        match byte {
            // The quotes end, an escaped quote follows, and they begin again.
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

/// Calls `parse` with the scope of a script's expressions.
fn with_scope<R>(world: &World, parse: impl FnOnce(&ExpressionScope<'_>) -> R) -> R {
    let (resources, warnings) = (&world.resources, Warnings::new());
    parse(&ExpressionScope {
        registry: &resources.registry,
        patterns: &resources.patterns,
        token_keys: &resources.token_keys,
        variables: &resources.variables,
        acls: None,
        loader: &*resources.files,
        points: EvaluationPoints::ALL,
        warnings: &warnings,
        at: &Location::new("Lua".into(), 0),
    })
}

/// The parsed expression of a text, from the cache.
fn expression(call: &ApiCall<'_>, text: &[u8]) -> Result<Arc<Expr>, Misuse> {
    let world = call.host();
    let mut cache = world.expressions.borrow_mut();
    if let Some(known) = cache.get(text) {
        return known.clone().map_err(|message| refused(&message));
    }
    let parsed = with_scope(world, |scope| Expr::parse_text(text, scope));
    let parsed = parsed.map(Arc::new).map_err(|error| Arc::from(error.message.as_str()));
    // Arguments may come from requests.
    if cache.len() >= MAX_EXPRESSIONS {
        cache.clear();
    }
    cache.insert(text.into(), parsed.clone());
    parsed.map_err(|message: Arc<str>| refused(&message))
}

/// A converter of a text, for values of a type.
pub(super) fn conversion(
    call: &ApiCall<'_>,
    text: &[u8],
    input: &Value<'_>,
) -> Result<ScriptConversion, Misuse> {
    let input = match input {
        Value::Int(_) => SampleType::Int,
        Value::Bool(_) => SampleType::Bool,
        _ => SampleType::Str,
    };
    with_scope(call.host(), |scope| ScriptConversion::parse(text, input, scope))
        .map_err(|error| refused(&error.message))
}

/// Pushes the result of a converter.
pub(super) fn push_converted(
    stack: &LuaStack<'_>,
    value: Option<Value<'_>>,
    is_text: bool,
    keeps_booleans: bool,
) {
    match value {
        value if is_text => push_text(stack, value),
        Some(value) => push_value(stack, &value, keeps_booleans),
        None => stack.push_nil(),
    }
}

/// The usual length of written arguments, in bytes.
const USUAL_ARGUMENTS: usize = 40;
/// Parsed expressions that a state keeps.
const MAX_EXPRESSIONS: usize = 1_024;
