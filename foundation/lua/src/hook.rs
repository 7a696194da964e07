//! The hook of all coroutines, which ends slices and runs, and the signal handler that sets it.

use std::ffi::c_int;

use mlua_sys as ffi;

use weir_sys::signal::Signal;

use crate::limits::{EVENTS, Interrupt, RunLimits};
use crate::raw::RawState;
use crate::watch;

/// How runs are interrupted.
pub(crate) const INTERRUPT: Interrupt = Interrupt { hook, on_signal };

/// It changes atomic values, and sets a hook, which Lua allows in a handler (manual, `lua_sethook`).
extern "C" fn on_signal(_: Signal) {
    if let Some(running) = watch::fired() {
        running.hook().set(hook, EVENTS, 1);
    }
}

/// How the hook leaves.
enum HookExit {
    Continue,
    Yield,
    /// The error is at the top of the stack.
    Raise,
}

unsafe extern "C-unwind" fn hook(state: *mut ffi::lua_State, event: *mut ffi::lua_Debug) {
    let Some(raw) = RawState::new(state) else { return };
    // SAFETY: Lua passes a valid record.
    let event = unsafe { (*event).event };
    match check(raw, event) {
        HookExit::Continue => {}
        HookExit::Yield => {
            raw.raise_yield_of_hook();
        }
        HookExit::Raise => raw.raise(),
    }
}

fn check(raw: RawState, event: c_int) -> HookExit {
    let limits = RunLimits::of(raw);
    if limits.is_expired() {
        return expire(limits, raw);
    }
    let is_late = limits.clock.is_late();
    if limits.meter.is_on() {
        limits.meter.sample(raw, &limits.clock);
    }
    let is_at_instruction = event == ffi::LUA_HOOKCOUNT;
    // A coroutine of the script's own would yield to the script.
    let can_yield = raw.is_yieldable() && limits.is_driven(raw);
    if can_yield && is_at_instruction {
        let is_whole = limits.has_used_slice();
        end_slice(limits, raw);
        if !is_whole && !is_late {
            return HookExit::Continue;
        }
        limits.interrupt(is_late);
        return HookExit::Yield;
    }
    if can_yield {
        // Only instructions can yield: the next one does.
        return HookExit::Continue;
    }
    if is_late {
        return expire(limits, raw);
    }
    if is_at_instruction || !limits.is_running() {
        end_slice(limits, raw);
    } else {
        // A function of C that calls others may never come to an instruction: a call ends the slice, too, and its hook stays.
        limits.begin_slice();
    }
    HookExit::Continue
}

fn end_slice(limits: &RunLimits, raw: RawState) {
    limits.reset_hook(raw);
    limits.begin_slice();
}

/// Raises the error of a run that is late. A script may catch it: every instruction raises it from then on.
fn expire(limits: &RunLimits, raw: RawState) -> HookExit {
    limits.expire(raw);
    limits.push_timeout(raw);
    HookExit::Raise
}
