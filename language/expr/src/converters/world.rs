//! Converters that read or change something outside the sample: variables, captures, named objects.

use std::borrow::Cow;

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::bound::AtBound;
use crate::context::{CaptureSide, Context, ObjectLookup};
use crate::error::show;
use crate::sample::SampleType::{Any, Bin, Bool, Int, Same, Str};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;
use crate::variables::{SetCondition, borrow};

pub(super) const ROWS: &[Converter] = &[
    Converter::new(
        "add_item",
        Str,
        Str,
        Run::Context(add_item),
        "Appends a delimiter, a variable and a text where they make sense",
    )
    .args(2, &[ArgKind::Str, ArgKind::Str, ArgKind::Str])
    .check(check_add_item)
    .at_bound(AtBound::CUT_TEXT),
    Converter::new(
        "capture-req",
        Str,
        Str,
        Run::Context(capture_req),
        "Stores the text in a capture slot of the request",
    )
    .args(1, &[ArgKind::Int])
    .check(check_slot),
    Converter::new(
        "capture-res",
        Str,
        Str,
        Run::Context(capture_res),
        "Stores the text in a capture slot of the response",
    )
    .args(1, &[ArgKind::Int])
    .check(check_slot),
    Converter::new("concat", Str, Str, Run::Context(concat), "Appends a text, a variable and a text")
        .args(1, &[ArgKind::Str, ArgKind::Str, ArgKind::Str])
        .check(check_concat)
        .at_bound(AtBound::CUT_TEXT),
    Converter::new("debug", Any, Same, Run::Context(debug), "Reports the sample to an event sink")
        .args(0, &[ArgKind::Str, ArgKind::Str]),
    Converter::new("fe_exists", Str, Bool, Run::Context(fe_exists), "Whether a frontend of that name exists"),
    Converter::new(
        "nbsrv",
        Str,
        Int,
        Run::Context(nbsrv),
        "The number of usable servers of the backend of that name",
    ),
    Converter::new(
        "secure_memcmp",
        Bin,
        Bool,
        Run::Context(secure_memcmp),
        "Whether a variable has the same bytes, in constant time",
    )
    .args(1, &[ArgKind::Str])
    .check(check_variable),
    Converter::new("set-var", Any, Any, Run::Context(set_var), "Stores the sample in a variable")
        .args(1, &[ArgKind::Str, ArgKind::Str, ArgKind::Str, ArgKind::Str, ArgKind::Str])
        .check(check_set_var),
    Converter::new("srv_is_up", Str, Bool, Run::Context(srv_is_up), "Whether the server of that name is up"),
    Converter::new(
        "srv_queue",
        Str,
        Int,
        Run::Context(srv_queue),
        "The number of requests queued on the server of that name",
    ),
    Converter::new(
        "strcmp",
        Str,
        Int,
        Run::Context(strcmp),
        "Compares with a variable: negative, zero or positive",
    )
    .args(1, &[ArgKind::Str])
    .check(check_variable),
    Converter::new("unset-var", Any, Any, Run::Context(unset_var), "Forgets a variable")
        .args(1, &[ArgKind::Str])
        .check(check_unset_var),
];

/// Replaces the text of an argument by the variable with this name. A missing argument stays missing.
fn intern(args: &mut Args, index: usize, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let text = show(args.str(index).unwrap_or_default()).into_owned();
    let arg = match &*text {
        "" => Arg::Absent,
        name => Arg::Variable(
            scope.variables.intern(name).map_err(|_| format!("failed to register variable name '{name}'"))?,
        ),
    };
    args.set(index, arg);
    Ok(())
}

fn check_variable(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    intern(args, 0, scope)?;
    if args.has(0) { Ok(()) } else { Err("missing variable name".into()) }
}

fn check_concat(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    intern(args, 1, scope)
}

fn check_add_item(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    intern(args, 1, scope)?;
    match args.has(1) || args.str(2).is_some_and(|suffix| !suffix.is_empty()) {
        true => Ok(()),
        false => Err("one of the optional arguments has to be nonempty".into()),
    }
}

fn check_slot(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.int(0).unwrap_or(-1) {
        0.. => Ok(()),
        _ => Err("the capture slot must be positive".into()),
    }
}

fn check_unset_var(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let name = show(args.str(0).unwrap_or_default()).into_owned();
    args.set(0, Arg::Variable(scope.variables.intern(&name)?));
    Ok(())
}

fn check_set_var(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    let mut condition = SetCondition::ALWAYS;
    for index in 1..args.len() {
        let word = show(args.str(index).unwrap_or_default()).into_owned();
        condition = condition.with_word(&word)?;
    }
    let name = show(args.str(0).unwrap_or_default()).into_owned();
    args.set(0, Arg::Variable(scope.variables.intern(&name)?));
    args.set(1, Arg::Custom(std::sync::Arc::new(condition)));
    Ok(())
}

fn set_var(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    let condition = args.custom::<SetCondition>(1).copied().unwrap_or_default();
    context.set_variable(args.variable(0)?, borrow(&value), condition).then_some(value)
}

fn unset_var(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    // The input passes through, whether the variable was set or not.
    context.unset_variable(args.variable(0)?);
    Some(value)
}

/// Appends the text of a variable, if it has a value.
fn append_variable(out: &mut Vec<u8>, args: &Args, index: usize, context: &mut dyn Context) {
    let Some(variable) = args.variable(index) else { return };
    let Some(value) = context.variable(variable).and_then(|value| value.cast(Str)) else { return };
    out.extend_from_slice(value.bytes().unwrap_or_default());
    scratch::recycle(value);
}

/// The bytes of a string in a buffer of their own.
fn buffer(value: Value<'static>) -> Option<Vec<u8>> {
    match value {
        Value::Str(Cow::Owned(bytes)) => Some(bytes),
        Value::Str(Cow::Borrowed(bytes)) => {
            let mut copy = scratch::take();
            copy.extend_from_slice(bytes);
            Some(copy)
        }
        _ => None,
    }
}

fn concat(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    let mut out = buffer(value)?;
    out.extend_from_slice(args.str(0).unwrap_or_default());
    append_variable(&mut out, args, 1, context);
    out.extend_from_slice(args.str(2).unwrap_or_default());
    Some(Value::Str(Cow::Owned(out)))
}

/// Appends an item. Writes the delimiter only between two items.
fn add_item(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    let mut out = buffer(value)?;
    let mut added = scratch::take();
    append_variable(&mut added, args, 1, context);
    added.extend_from_slice(args.str(2).unwrap_or_default());
    if !out.is_empty() && !added.is_empty() {
        out.extend_from_slice(args.str(0).unwrap_or_default());
    }
    out.extend_from_slice(&added);
    scratch::give(added);
    Some(Value::Str(Cow::Owned(out)))
}

fn strcmp(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    let other = context.variable(args.variable(0)?)?.cast(Str)?;
    let (left, right) = (value.bytes()?, other.bytes()?);
    // The difference of the first different bytes, else of the lengths.
    let result = match left.iter().zip(right).find(|(left, right)| left != right) {
        Some((left, right)) => i64::from(*left) - i64::from(*right),
        None => left.len().cmp(&right.len()) as i64,
    };
    Some(Value::Int(result))
}

fn secure_memcmp(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    let other = context.variable(args.variable(0)?)?.cast(Bin)?;
    let (left, right) = (value.bytes()?, other.bytes()?);
    // Compares every byte, so that the time does not depend on the position of a difference.
    let differences = left.iter().zip(right).fold(0u8, |all, (left, right)| all | (left ^ right));
    Some(Value::Bool(left.len() == right.len() && std::hint::black_box(differences) == 0))
}

fn capture_req(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    capture(value, args, context, CaptureSide::Request)
}

fn capture_res(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    capture(value, args, context, CaptureSide::Response)
}

fn capture(
    value: Value<'static>,
    args: &Args,
    context: &mut dyn Context,
    side: CaptureSide,
) -> Option<Value<'static>> {
    let slot = usize::try_from(args.int(0)?).ok()?;
    context.capture(side, slot, value.bytes()?).then_some(value)
}

fn debug(value: Value<'static>, args: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    let mut line = scratch::take();
    line.extend_from_slice(args.str(0).unwrap_or(b"debug"));
    line.extend_from_slice(b": type=");
    line.extend_from_slice(value.kind().name().as_bytes());
    line.extend_from_slice(b" <");
    if let Some(text) = borrow(&value).cast(Str) {
        line.extend_from_slice(text.bytes().unwrap_or_default());
        scratch::recycle(text);
    }
    line.push(b'>');
    context.debug(&show(args.str(1).unwrap_or(b"buf0")), &line);
    scratch::give(line);
    Some(value)
}

fn lookup(value: Value<'static>, context: &mut dyn Context, lookup: ObjectLookup) -> Option<Value<'static>> {
    let found = context.lookup(lookup, value.bytes()?);
    scratch::recycle(value);
    found
}

fn nbsrv(value: Value<'static>, _: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    lookup(value, context, ObjectLookup::UsableServers)
}

fn srv_queue(value: Value<'static>, _: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    lookup(value, context, ObjectLookup::ServerQueue)
}

fn srv_is_up(value: Value<'static>, _: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    lookup(value, context, ObjectLookup::ServerIsUp)
}

fn fe_exists(value: Value<'static>, _: &Args, context: &mut dyn Context) -> Option<Value<'static>> {
    lookup(value, context, ObjectLookup::FrontendExists)
}
