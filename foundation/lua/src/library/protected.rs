//! `xpcall`, and the functions of `debug` that could disable the bounds.

use std::ffi::c_int;

use mlua_sys as ffi;

use super::{Replacements, finalizers};
use crate::frame::{CallFrame, functions};
use crate::limits::RunLimits;
use crate::raw::RawState;
use crate::traceback;

pub(super) const DEBUG_FUNCTIONS: Replacements = &[
    ("sethook", sethook),
    ("setupvalue", setupvalue),
    ("getmetatable", getmetatable),
    ("getregistry", getregistry),
    ("traceback", push_traceback),
];

functions! {
    pub(super) fn xpcall(frame) {
        let count = frame.top();
        frame.check_kind(2, ffi::LUA_TFUNCTION);
        // The handler becomes a closure that calls it.
        frame.push_value(2);
        frame.push_function(handle, 1);
        frame.copy(-1, 2);
        frame.pop(1);
        frame.push_boolean(true);
        frame.push_value(1);
        // Both go below the arguments of the function.
        frame.rotate(3, 2);
        let status = frame.call_protected(count - 2, 2, after_call);
        finish(frame, status, 2)
    }

    /// The handler of an error. Hooks do not work in it if a hook raised the error, and then the run is over.
    fn handle(frame) {
        if !RunLimits::of(*frame).is_expired() {
            frame.set_top(1);
            frame.push_value(RawState::upvalue(1));
            frame.insert(1);
            frame.call_function(1, 1);
        }
        1
    }

    /// `debug.traceback([thread,] [message [, level]])`. A message of another type is the result.
    fn push_traceback(frame) {
        let coroutine = frame.coroutine(1);
        let first = if coroutine.is_some() { 2 } else { 1 };
        let level = if coroutine.is_some() { 0 } else { 1 };
        if !frame.is_missing(first) && frame.kind(first) != ffi::LUA_TSTRING && frame.kind(first) != ffi::LUA_TNUMBER {
            frame.push_value(first);
            return 1;
        }
        let level = frame.optional_integer(first + 1, level);
        let level = c_int::try_from(level).unwrap_or(c_int::MAX);
        let of = coroutine.unwrap_or(*frame);
        match traceback::is_deep(of) {
            true => traceback::push_deep(*frame, of, frame.optional_bytes(first), level),
            false => frame.push_library_traceback(of, first, level),
        }
        1
    }

    fn sethook(frame) {
        frame.raise_text(c"debug.sethook is not available: hooks bound the time of scripts", c"", 0)
    }

    /// The values of a function in C are not for scripts.
    fn setupvalue(frame) {
        frame.check_any(3);
        let index = i32::try_from(frame.check_integer(2)).unwrap_or(i32::MAX);
        frame.check_kind(1, ffi::LUA_TFUNCTION);
        if frame.is_c_function(1) {
            return 0;
        }
        frame.set_top(3);
        if frame.set_upvalue(1, index) { 1 } else { 0 }
    }

    /// The metatable of a value, or the copy of one that is hidden.
    fn getmetatable(frame) {
        frame.check_any(1);
        if !frame.push_metatable(1) {
            frame.push_nil();
        } else if finalizers::is_hidden(frame) {
            frame.push_metafield(1, c"__metatable");
        }
        1
    }

    fn getregistry(frame) {
        frame.raise_text(c"debug.getregistry is not available: values of the host are kept there", c"", 0)
    }
}

unsafe extern "C-unwind" fn after_call(state: *mut ffi::lua_State, status: c_int, skipped: isize) -> c_int {
    CallFrame::new(state).map_or(0, |frame| finish(frame, status, skipped as c_int))
}

/// The results of a protected call, above `skipped` values.
fn finish(frame: CallFrame, status: c_int, skipped: c_int) -> c_int {
    if status == ffi::LUA_OK || status == ffi::LUA_YIELD {
        return frame.top() - skipped;
    }
    frame.push_boolean(false);
    frame.push_value(-2);
    2
}
