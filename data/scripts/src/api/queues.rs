//! `Queue`: values that functions of scripts pass to each other, first in, first out.

use weir_lua::{LuaKind, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult};

pub(super) static CLASS: ClassDecl = ClassDecl::new(
    "Queue",
    &[
        ("size", size),
        ("push", push),
        ("pop", pop),
        ("pop_wait", |_| waits("pop_wait")),
        ("alarm", |_| waits("alarm")),
    ],
);

/// `core.queue()`. Its items are elements of the object. The object's numbers are those of the last item that was taken, and of the last one
/// that was added.
pub(super) fn new(call: &ApiCall<'_>) -> ApiResult {
    LateClass::Queue.push(call, 0);
    call.numbers(-1).set_second(0);
    call.results(1)
}

/// The last item that was taken, and the last one that was added.
fn ends(call: &ApiCall<'_>) -> Result<(i64, i64), Misuse> {
    let taken = LateClass::Queue.number(call, 1)?;
    Ok((taken, call.numbers(1).second().unwrap_or(taken).max(taken)))
}

fn size(call: &ApiCall<'_>) -> ApiResult {
    let (taken, added) = ends(call)?;
    call.push_integer(added - taken);
    call.results(1)
}

fn push(call: &ApiCall<'_>) -> ApiResult {
    let (_, added) = ends(call)?;
    if call.count() != 2 || call.kind(2) == LuaKind::Nil {
        return Err(Misuse::text("unexpected argument"));
    }
    call.numbers(1).set_second(added + 1);
    call.push_value(1);
    call.push_value(2);
    call.set_index(added + 1);
    call.push_boolean(true);
    call.results(1)
}

fn pop(call: &ApiCall<'_>) -> ApiResult {
    let (taken, added) = ends(call)?;
    if taken == added {
        call.push_nil();
        return call.results(1);
    }
    call.numbers(1).set_first(taken + 1);
    call.push_index(1, taken + 1);
    call.push_value(1);
    call.push_nil();
    call.set_index(taken + 1);
    // The object is above the item.
    call.push_value(-2);
    call.results(1)
}

/// The failure of a method that waits.
fn waits(name: &str) -> ApiResult {
    Err(Misuse::text(format!("Queue.{name} is not implemented yet")))
}
