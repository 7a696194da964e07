//! Finalizers of scripts (`__gc`).
//!
//! Lua runs them without hooks, so one that loops would never end. A table with a finalizer gets a guard, a userdata that dies together with it,
//! and only the guard has a finalizer that Lua knows. It runs the one of the script in a coroutine, where hooks work.
//!
//! ```text
//!   GUARDS (registry), weak keys: object ──► guard ──► object
//! ```
//!
//! A finalizer that comes outside of a run, or after its end, waits for the next collection.

use mlua_sys as ffi;

use crate::frame::{CallFrame, functions, key};
use crate::limits::RunLimits;
use crate::raw::{REGISTRY, RawState};

/// The guards by their objects.
static GUARDS: u8 = 0;
/// The metatable of guards.
static GUARD_CLASS: u8 = 1;
/// Marks metatables that scripts do not see.
static HIDDEN: u8 = 2;

/// Pushes a function that sets metatables.
pub(super) fn push_setmetatable(raw: RawState, function: ffi::lua_CFunction) {
    raw.push_by_pointer(REGISTRY, key(&GUARDS));
    let is_missing = raw.kind(-1) == ffi::LUA_TNIL;
    raw.pop(1);
    if is_missing {
        push_weak_table(raw);
        raw.set_by_pointer(REGISTRY, key(&GUARDS));
        raw.push_table(0, 1);
        raw.push_function(finalize, 0);
        super::set_field(raw, "__gc");
        raw.set_by_pointer(REGISTRY, key(&GUARD_CLASS));
    }
    raw.push_bytes(b"__gc");
    raw.push_function(function, 1);
}

fn push_weak_table(raw: RawState) {
    raw.push_table(0, 0);
    raw.push_table(0, 1);
    raw.push_bytes(b"k");
    super::set_field(raw, "__mode");
    raw.set_metatable(-2);
}

/// Hides the metatable of files, the only one of Lua's libraries with a finalizer.
pub(super) fn hide_files(raw: RawState) {
    raw.push_bytes(b"FILE*");
    raw.push_value_of_key(REGISTRY);
    hide(raw);
    raw.pop(1);
}

/// Hides the metatable at the top of the stack from scripts, which could give it a finalizer that Lua runs. They see a copy of its methods and its name.
pub(crate) fn hide(raw: RawState) {
    if raw.kind(-1) != ffi::LUA_TTABLE {
        return;
    }
    raw.reserve(4);
    raw.push_boolean(true);
    raw.set_by_pointer(-2, key(&HIDDEN));
    raw.push_table(0, 3);
    for name in ["__index", "__name", "__tostring"] {
        raw.push_bytes(name.as_bytes());
        raw.push_value_of_key(-3);
        super::set_field(raw, name);
    }
    super::set_field(raw, "__metatable");
}

/// Whether the metatable at the top of the stack is hidden.
pub(super) fn is_hidden(frame: CallFrame) -> bool {
    frame.push_by_pointer(-1, key(&HIDDEN));
    let is_hidden = frame.boolean(-1);
    frame.pop(1);
    is_hidden
}

functions! {
    pub(super) fn setmetatable(frame) {
        frame.check_kind(1, ffi::LUA_TTABLE);
        check_metatable(frame);
        if frame.push_metafield(1, c"__metatable") {
            frame.raise_text(c"cannot change a protected metatable", c"", 0);
        }
        set(frame);
        1
    }

    pub(super) fn debug_setmetatable(frame) {
        check_metatable(frame);
        if frame.kind(1) == ffi::LUA_TUSERDATA {
            // Lua would run a finalizer of the script for it.
            frame.raise_argument_text(1, c"the metatable of a userdata cannot be changed");
        }
        set(frame);
        1
    }

    /// The finalizer of guards.
    fn finalize(frame) {
        let limits = RunLimits::of(*frame);
        if !limits.is_running() || limits.is_expired() {
            // Once more, at the next collection. Lua ignores it while a state ends.
            frame.set_top(1);
            frame.push_metatable(1);
            frame.set_metatable(1);
            return 0;
        }
        frame.set_top(1);
        frame.push_user_value(1);
        forget_guard(frame);
        if !push_finalizer(frame) {
            return 0;
        }
        let Some(coroutine) = frame.push_thread() else { return 0 };
        frame.push_value(3);
        frame.push_value(2);
        frame.give(coroutine, 2);
        // Also in a function of Rust, where memory is not refused.
        let was_enforced = limits.memory.enforce(true);
        // The coroutine that collects, or none while the state ends.
        let outer = limits.switch_to(Some(coroutine));
        let (status, _) = coroutine.resume(*frame, 1);
        limits.switch_to(outer);
        limits.memory.enforce(was_enforced);
        match status {
            ffi::LUA_OK => 0,
            ffi::LUA_YIELD => frame.raise_text(c"attempt to yield from a finalizer", c"", 0),
            _ => {
                frame.take(coroutine, 1);
                frame.raise()
            }
        }
    }
}

fn check_metatable(frame: CallFrame) {
    if !matches!(frame.kind(2), ffi::LUA_TNIL | ffi::LUA_TTABLE) {
        frame.raise_kind(2, c"nil or table");
    }
    frame.set_top(2);
}

/// Sets the metatable of the first argument to the second one.
fn set(frame: CallFrame) {
    let has_finalizer = frame.kind(2) == ffi::LUA_TTABLE && push_field_gc(frame, 2);
    if has_finalizer && frame.kind(1) == ffi::LUA_TTABLE {
        guard(frame);
        // Lua looks at this field when a metatable is set. Nothing between the two changes allocates.
        set_field_gc(frame, 0);
        frame.push_value(2);
        frame.set_metatable(1);
        set_field_gc(frame, 3);
    } else {
        frame.push_value(2);
        frame.set_metatable(1);
    }
    frame.set_top(1);
}

/// Pushes the field `__gc` of a table. False, without a push, if it is nil.
fn push_field_gc(frame: CallFrame, table: i32) -> bool {
    frame.push_value(RawState::upvalue(1));
    frame.push_value_of_key(table);
    let is_there = frame.kind(-1) != ffi::LUA_TNIL;
    if !is_there {
        frame.pop(1);
    }
    is_there
}

/// Sets the field `__gc` of the metatable to a value of the stack, or to nil with 0. It has been there, so nothing is allocated.
fn set_field_gc(frame: CallFrame, value: i32) {
    frame.push_value(RawState::upvalue(1));
    match value {
        0 => frame.push_nil(),
        value => frame.push_value(value),
    }
    frame.set(2);
}

/// Gives the first argument a guard, if it does not have one.
fn guard(frame: CallFrame) {
    let top = frame.top();
    frame.push_by_pointer(REGISTRY, key(&GUARDS));
    frame.push_value(1);
    frame.push_value_of_key(-2);
    if frame.kind(-1) == ffi::LUA_TNIL {
        frame.pop(1);
        frame.push_value(1);
        frame.push_userdata();
        frame.push_value(1);
        frame.set_user_value(-2);
        frame.push_by_pointer(REGISTRY, key(&GUARD_CLASS));
        frame.set_metatable(-2);
        frame.set(-3);
    }
    frame.set_top(top);
}

/// The object at 2 loses its guard: a finalizer may set a new one.
fn forget_guard(frame: CallFrame) {
    frame.push_by_pointer(REGISTRY, key(&GUARDS));
    frame.push_value(2);
    frame.push_nil();
    frame.set(-3);
    frame.pop(1);
}

/// Pushes the finalizer of the object at 2. False, without a push, if it lacks one.
fn push_finalizer(frame: CallFrame) -> bool {
    if !frame.push_metatable(2) {
        return false;
    }
    frame.push_bytes(b"__gc");
    frame.push_value_of_key(-2);
    frame.remove(-2);
    frame.kind(-1) != ffi::LUA_TNIL
}
