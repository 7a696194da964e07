//! `Queue`: values that functions of scripts pass to each other, first in, first out.

use std::sync::Arc;

use weir_lua::{LuaCall, LuaKind, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult};
use crate::alarms::QueueWaiter;
use crate::wait::ScriptWait;
use crate::world::World;

pub(super) static CLASS: ClassDecl = ClassDecl::new(
    "Queue",
    &[("size", size), ("push", push), ("pop", pop), ("pop_wait", pop_wait), ("alarm", alarm)],
);

/// `core.queue()`. Its items are elements of the object. The object's numbers are those of the last item that was taken, and of the last one
/// that was added.
pub(super) fn new(call: &ApiCall<'_>) -> ApiResult {
    LateClass::Queue.push(call, 0);
    call.parts(-1).set_second(0);
    call.results(1)
}

/// The last item that was taken, and the last one that was added.
fn ends(call: &ApiCall<'_>) -> Result<(i64, i64), Misuse> {
    let taken = LateClass::Queue.number(call, 1)?;
    Ok((taken, call.parts(1).second().unwrap_or(taken).max(taken)))
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
    call.push_value(1);
    call.push_value(2);
    call.set_index(added + 1);
    call.pop(1);
    // Without memory for the item, the call ends above. Then the queue must not count it.
    call.parts(1).set_second(added + 1);
    if let Some(number) = waiters_of(call) {
        call.host().alarms.borrow_mut().ring(number);
    }
    call.push_boolean(true);
    call.results(1)
}

fn pop(call: &ApiCall<'_>) -> ApiResult {
    if !take(call)? {
        call.push_nil();
    }
    call.results(1)
}

/// Pushes the next item, and removes it from the queue. False, without a push, if the queue is empty.
fn take(call: &ApiCall<'_>) -> Result<bool, Misuse> {
    let (taken, added) = ends(call)?;
    if taken == added {
        return Ok(false);
    }
    call.parts(1).set_first(taken + 1);
    call.push_index(1, taken + 1);
    call.push_value(1);
    call.push_nil();
    call.set_index(taken + 1);
    // The object is above the item.
    call.pop(1);
    Ok(true)
}

/// `queue:pop_wait()`: the next item, once there is one.
fn pop_wait(call: &ApiCall<'_>) -> ApiResult {
    ends(call)?;
    if !call.can_wait() {
        return Err(Misuse::text("pop_wait() may only be used within task context (requires yielding)"));
    }
    if take(call)? {
        return call.results(1);
    }
    enlist(call);
    call.wait(ScriptWait::Item)
}

/// Pushes the item for a function that waits for one. `None` if another run took it: the run waits further.
pub(crate) fn settle_pop(call: &LuaCall<'_, World>) -> Option<Result<(), Misuse>> {
    match take(call) {
        Ok(true) => Some(Ok(())),
        Ok(false) => {
            enlist(call);
            None
        }
        Err(misuse) => Some(Err(misuse)),
    }
}

/// `queue:alarm()`: the next item wakes the run, for `core.wait`.
fn alarm(call: &ApiCall<'_>) -> ApiResult {
    ends(call)?;
    if !call.can_wait() {
        return Err(Misuse::text("alarm() may only be used within task context (requires yielding)"));
    }
    enlist(call);
    call.results(0)
}

/// Wakes the run at the next item of the queue in argument 1.
fn enlist(call: &ApiCall<'_>) {
    let world = call.host();
    let number = match waiters_of(call) {
        Some(number) => number,
        None => {
            let number = world.alarms.borrow_mut().number();
            call.push_value(1);
            call.push_integer(number);
            call.parts(-2).attach();
            call.pop(1);
            number
        }
    };
    let waiter = Arc::clone(world.waiter.borrow_mut().get_or_insert_with(QueueWaiter::new));
    world.alarms.borrow_mut().enlist(number, &waiter);
}

/// The number of the waiters of the queue in argument 1. `None` if no run has waited for it.
fn waiters_of(call: &ApiCall<'_>) -> Option<i64> {
    call.parts(1).push_attached();
    let number = call.integer(-1);
    call.pop(1);
    number
}
