//! Coroutines of scripts. They follow `lcorolib.c`; in addition, the thread knows which one runs.

use std::ffi::c_int;

use mlua_sys as ffi;

use super::Replacements;
use crate::frame::{CallFrame, functions};
use crate::limits::RunLimits;
use crate::raw::RawState;

pub(super) const FUNCTIONS: Replacements = &[("resume", resume), ("wrap", wrap), ("close", close)];

functions! {
    fn resume(frame) {
        let coroutine = check_coroutine(frame);
        match resume_coroutine(frame, coroutine, frame.top() - 1) {
            Ok(count) => {
                frame.push_boolean(true);
                frame.insert(-(count + 1));
                count + 1
            }
            Err(()) => {
                frame.push_boolean(false);
                frame.insert(-2);
                2
            }
        }
    }

    fn wrap(frame) {
        frame.check_kind(1, ffi::LUA_TFUNCTION);
        let Some(coroutine) = frame.push_thread() else { return 0 };
        frame.push_value(1);
        frame.give(coroutine, 1);
        frame.push_function(resume_wrapped, 1);
        1
    }

    /// The function that `wrap` returns.
    fn resume_wrapped(frame) {
        let Some(coroutine) = frame.coroutine(RawState::upvalue(1)) else { return 0 };
        match resume_coroutine(frame, coroutine, frame.top()) {
            Ok(count) => count,
            Err(()) => raise_of_wrapped(frame, coroutine),
        }
    }

    fn close(frame) {
        let coroutine = check_coroutine(frame);
        match status(frame, coroutine) {
            CoroutineStatus::Running => frame.raise_text(c"cannot close a %s coroutine", c"running", 0),
            CoroutineStatus::Normal => frame.raise_text(c"cannot close a %s coroutine", c"normal", 0),
            CoroutineStatus::Stopped => {
                let is_closed = close_coroutine(frame, coroutine) == ffi::LUA_OK;
                frame.push_boolean(is_closed);
                if !is_closed {
                    frame.take(coroutine, 1);
                }
                if is_closed { 1 } else { 2 }
            }
        }
    }
}

enum CoroutineStatus {
    Running,
    /// It resumed the running one.
    Normal,
    /// It has not begun, waits, or has ended.
    Stopped,
}

fn status(frame: CallFrame, coroutine: RawState) -> CoroutineStatus {
    if *frame == coroutine {
        CoroutineStatus::Running
    } else if frame.status_of(coroutine) == ffi::LUA_OK && frame.is_active(coroutine) {
        CoroutineStatus::Normal
    } else {
        CoroutineStatus::Stopped
    }
}

fn check_coroutine(frame: CallFrame) -> RawState {
    match frame.coroutine(1) {
        Some(coroutine) => coroutine,
        None => frame.raise_kind(1, c"thread"),
    }
}

/// Resumes a coroutine with arguments from the top of the stack. Pushes its results, and returns their number, or pushes its error.
fn resume_coroutine(frame: CallFrame, coroutine: RawState, arguments: c_int) -> Result<c_int, ()> {
    let limits = RunLimits::of(*frame);
    if limits.is_expired() {
        limits.expire(*frame);
        limits.push_timeout(*frame);
        return Err(());
    }
    if !coroutine.reserve(arguments) {
        frame.push_bytes(b"too many arguments to resume");
        return Err(());
    }
    frame.give(coroutine, arguments);
    limits.switch_to(Some(coroutine));
    let (status, count) = coroutine.resume(*frame, arguments);
    limits.switch_to(Some(*frame));
    if status != ffi::LUA_OK && status != ffi::LUA_YIELD {
        frame.take(coroutine, 1);
        return Err(());
    }
    if !frame.reserve(count + 1) {
        coroutine.pop(count);
        frame.push_bytes(b"too many results to resume");
        return Err(());
    }
    frame.take(coroutine, count);
    Ok(count)
}

/// Closes a coroutine: its pending variables run.
fn close_coroutine(frame: CallFrame, coroutine: RawState) -> c_int {
    let limits = RunLimits::of(*frame);
    limits.switch_to(Some(coroutine));
    let status = coroutine.close_thread(*frame);
    limits.switch_to(Some(*frame));
    status
}

/// Raises the error at the top of the stack in the caller of a wrapped coroutine.
fn raise_of_wrapped(frame: CallFrame, coroutine: RawState) -> c_int {
    let mut status = frame.status_of(coroutine);
    if status != ffi::LUA_OK && status != ffi::LUA_YIELD {
        status = close_coroutine(frame, coroutine);
        frame.take(coroutine, 1);
    }
    let is_early_end = RunLimits::of(*frame).is_early_end(*frame);
    if status != ffi::LUA_ERRMEM && frame.kind(-1) == ffi::LUA_TSTRING && !is_early_end {
        frame.push_position(1);
        frame.insert(-2);
        frame.concatenate(2);
    }
    frame.raise()
}
