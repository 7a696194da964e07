//! Functions of Rust that scripts call, and the frames between Lua and them.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use mlua_sys as ffi;

use super::LuaCall;
use crate::failure::Misuse;
use crate::memory::Memory;
use crate::raw::RawState;
use crate::shared::{LuaHost, Shared};

/// A function of Rust.
pub type Function<H> = fn(&LuaCall<'_, H>) -> Result<CallEnd, Misuse>;

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// With that many results, which are at the top of the stack.
    Return(i32),
    /// With a wait ([`LuaCall::wait`]).
    Wait,
    /// It ends the run, with the value at the top of the stack as its only result ([`LuaCall::end_run`]).
    EndRun,
}

/// How a frame that owns nothing leaves to Lua.
#[derive(Clone, Copy)]
enum FrameExit {
    Return(c_int),
    /// The error is at the top of the stack.
    Raise,
    /// The text about the argument is at the top of the stack.
    RaiseArgument(c_int),
    Yield,
}

/// The C function of every function of Rust.
pub(crate) unsafe extern "C-unwind" fn trampoline<H: LuaHost>(state: *mut ffi::lua_State) -> c_int {
    let Some(raw) = RawState::new(state) else { return 0 };
    match run::<H>(raw) {
        FrameExit::Return(count) => count,
        FrameExit::Raise => raw.raise(),
        FrameExit::RaiseArgument(index) => raw.raise_argument(index),
        FrameExit::Yield => raw.raise_yield(raw.top() as isize, after_wait::<H>),
    }
}

/// Runs a function. Everything of Rust has been dropped when it returns.
fn run<H: LuaHost>(raw: RawState) -> FrameExit {
    let shared = Shared::<H>::of(raw);
    let was_enforced = shared.limits.memory.enforce(false);
    let address = raw.light(RawState::upvalue(1));
    // SAFETY: `push_function` is the only maker of closures of this trampoline, with a function of this host in the first value.
    let function = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function<H>>(address) };
    let ended = catch_unwind(AssertUnwindSafe(|| function(&LuaCall::new(raw, shared))));
    let exit = match ended {
        Ok(Ok(CallEnd::Return(count))) => FrameExit::Return(count),
        Ok(Ok(CallEnd::Wait)) => FrameExit::Yield,
        Ok(Ok(CallEnd::EndRun)) => {
            shared.limits.end_early(raw);
            FrameExit::Raise
        }
        Ok(Err(Misuse::Argument(index, text))) => {
            push_text(raw, text.as_bytes());
            FrameExit::RaiseArgument(index)
        }
        Ok(Err(Misuse::Bare(text))) => {
            push_text(raw, text.as_bytes());
            FrameExit::Raise
        }
        Ok(Err(Misuse::Text(text))) => {
            push_with_position(raw, text.as_bytes());
            FrameExit::Raise
        }
        Err(_) => {
            push_with_position(raw, b"internal error");
            FrameExit::Raise
        }
    };
    shared.limits.memory.enforce(was_enforced);
    let memory = &shared.limits.memory;
    if was_enforced && memory.has_exceeded() && is_still_beyond(raw, memory) {
        push_text(raw, b"not enough memory");
        return FrameExit::Raise;
    }
    exit
}

/// Whether the states use too much although this one has collected its garbage.
#[cold]
fn is_still_beyond(raw: RawState, memory: &Memory) -> bool {
    raw.collect();
    memory.note_shortage();
    memory.is_beyond()
}

/// Runs after a wait: the values above `context` are the results, or one text of an error.
unsafe extern "C-unwind" fn after_wait<H: LuaHost>(
    state: *mut ffi::lua_State,
    _: c_int,
    context: isize,
) -> c_int {
    let Some(raw) = RawState::new(state) else { return 0 };
    match settle::<H>(raw, context as c_int) {
        FrameExit::Return(count) => count,
        _ => raw.raise(),
    }
}

fn settle<H: LuaHost>(raw: RawState, below: c_int) -> FrameExit {
    let shared = Shared::<H>::of(raw);
    match shared.settled.take() {
        Some(true) => return FrameExit::Return(raw.top() - below),
        Some(false) => {
            let text = raw.bytes(-1).unwrap_or_default().to_vec();
            let was_enforced = shared.limits.memory.enforce(false);
            push_with_position(raw, &text);
            shared.limits.memory.enforce(was_enforced);
        }
        // The script itself resumed the coroutine.
        None => {
            let was_enforced = shared.limits.memory.enforce(false);
            push_with_position(raw, b"resumed before its wait has ended");
            shared.limits.memory.enforce(was_enforced);
        }
    }
    FrameExit::Raise
}

fn push_text(raw: RawState, text: &[u8]) {
    raw.reserve(1);
    raw.push_bytes(text);
}

/// Pushes the text behind the position of the script's line that made the call.
fn push_with_position(raw: RawState, text: &[u8]) {
    raw.reserve(2);
    raw.push_position(1);
    let message = [raw.bytes(-1).unwrap_or_default(), text].concat();
    raw.push_bytes(&message);
}
