//! Coroutines: runs that can wait.

use std::ffi::c_int;
use std::ptr::NonNull;

use mlua_sys as ffi;

use crate::call::{LuaCall, LuaStack};
use crate::failure::{LuaError, LuaErrorKind, Misuse};
use crate::limits::{RunBounds, TIMEOUT};
use crate::places::{function_place, outermost_place};
use crate::raw::RawState;
use crate::shared::{LuaHost, LuaReference};
use crate::traceback;

use super::LuaState;

/// A run of a function that may wait. It belongs to its state, and is ended by [`LuaState::end`].
#[derive(Debug)]
pub struct Coroutine {
    raw: RawState,
    /// The number of its state.
    state: u64,
    /// Keeps the coroutine from being collected.
    anchor: LuaReference,
    /// Arguments on the stack for the next resumption.
    pending: c_int,
    /// The outcome of its wait: true with results, false with a text of an error.
    settled: Option<bool>,
    /// The function returned: nothing of it is left but its results.
    has_returned: bool,
}

// SAFETY: it is used only through its state, which is exclusive.
unsafe impl Send for Coroutine {}

/// Why a coroutine stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum Resumed<W> {
    /// The function returned. [`LuaState::results`] has that many results.
    Returned(i32),
    /// It waits. [`LuaState::settle`] gives it the results.
    Waits(W),
    /// It computed for a slice, or yielded without a wait. It goes on when it is resumed.
    Interrupted,
    Failed(LuaError),
}

impl<H: LuaHost> LuaState<H> {
    /// A coroutine that will run a function. `arguments` pushes its arguments.
    pub fn begin(&mut self, function: LuaReference, arguments: impl FnOnce(&LuaCall<'_, H>)) -> Coroutine {
        let mut coroutine = self.spare.pop().unwrap_or_else(|| self.new_coroutine());
        let stack = LuaCall::new(coroutine.raw, self.shared());
        stack.push_reference(function);
        arguments(&stack);
        coroutine.pending = stack.count() - 1;
        coroutine
    }

    fn new_coroutine(&mut self) -> Coroutine {
        self.raw.reserve(1);
        let raw = self.raw.push_thread().unwrap_or(self.raw);
        let anchor = self.stack().keep();
        Coroutine { raw, state: self.id, anchor, pending: 0, settled: None, has_returned: false }
    }

    /// A coroutine of another state has nothing to do here.
    fn check(&self, coroutine: &Coroutine) {
        assert!(coroutine.state == self.id, "a coroutine of this state");
    }

    /// Runs a coroutine until it stops.
    pub fn resume(
        &mut self,
        coroutine: &mut Coroutine,
        target: Option<&mut H::Target>,
        bounds: RunBounds,
    ) -> Resumed<H::Wait> {
        self.check(coroutine);
        let raw = coroutine.raw;
        self.shared().wait.set(None);
        self.shared().settled.set(coroutine.settled.take());
        let outer = self.enter(raw, target.map(NonNull::from), bounds, true);
        let (status, count) = raw.resume(self.raw, std::mem::take(&mut coroutine.pending));
        self.leave(outer);
        let shared = self.shared();
        shared.settled.set(None);
        match status {
            ffi::LUA_OK => {
                coroutine.has_returned = true;
                Resumed::Returned(count)
            }
            ffi::LUA_YIELD if shared.limits.is_interrupted() && shared.limits.is_expired() => {
                Resumed::Failed(self.timeout(raw))
            }
            ffi::LUA_YIELD if shared.limits.is_interrupted() => Resumed::Interrupted,
            ffi::LUA_YIELD => {
                raw.pop(count);
                shared.wait.take().map_or(Resumed::Interrupted, Resumed::Waits)
            }
            _ if shared.limits.take_early_end(raw) => Resumed::Returned(1),
            status => {
                let traceback = self.traceback(raw);
                Resumed::Failed(LuaError { traceback, ..self.take_error(raw, status, false) })
            }
        }
    }

    fn timeout(&mut self, raw: RawState) -> LuaError {
        let traceback = self.traceback(raw);
        LuaError { kind: LuaErrorKind::Timeout, message: Some(TIMEOUT.into()), traceback }
    }

    /// The calls of a coroutine that stopped.
    fn traceback(&mut self, raw: RawState) -> String {
        self.raw.reserve(2);
        traceback::push(self.raw, raw, c"", 0);
        let traceback = String::from_utf8_lossy(self.raw.bytes(-1).unwrap_or_default()).into_owned();
        self.raw.pop(1);
        traceback
    }

    /// `file:line` of the function of a coroutine that has not returned.
    pub fn place_of_run(&self, coroutine: &Coroutine) -> Option<String> {
        self.check(coroutine);
        let raw = coroutine.raw;
        // The function and its arguments are the only values before the run begins.
        outermost_place(raw).or_else(|| function_place(raw, 1))
    }

    /// Gives a coroutine that waits its results, which `push` pushes. An error is raised where the script waits.
    pub fn settle(
        &mut self,
        coroutine: &mut Coroutine,
        push: impl FnOnce(&LuaStack<'_>) -> Result<(), Misuse>,
    ) {
        self.settle_if(coroutine, |call| Some(push(call)));
    }

    /// As [`LuaState::settle`], unless `push` finds that the wait has not ended: then it returns `None`, and leaves nothing on the stack. The
    /// arguments of the function that waits have the indices 1 on. False if the coroutine waits further.
    pub fn settle_if(
        &mut self,
        coroutine: &mut Coroutine,
        push: impl FnOnce(&LuaCall<'_, H>) -> Option<Result<(), Misuse>>,
    ) -> bool {
        self.check(coroutine);
        let stack = LuaCall::new(coroutine.raw, self.shared());
        let top = stack.count();
        let Some(outcome) = push(&stack) else { return false };
        if let Err(Misuse::Text(text) | Misuse::Bare(text) | Misuse::Argument(_, text)) = &outcome {
            coroutine.raw.set_top(top);
            stack.push_bytes(text.as_bytes());
        }
        coroutine.pending = stack.count() - top;
        coroutine.settled = Some(outcome.is_ok());
        true
    }

    /// Reads the results of a coroutine that returned, at indices 1 on.
    pub fn results<R>(&mut self, coroutine: &Coroutine, read: impl FnOnce(&LuaCall<'_, H>) -> R) -> R {
        self.check(coroutine);
        read(&LuaCall::new(coroutine.raw, self.shared()))
    }

    /// Ends a coroutine, whatever it does: variables that are to be closed are, within `bounds`.
    pub fn end(&mut self, coroutine: Coroutine, bounds: RunBounds) {
        self.check(&coroutine);
        if !coroutine.has_returned {
            let outer = self.enter(coroutine.raw, None, bounds, false);
            coroutine.raw.close_thread(self.raw);
            self.leave(outer);
        }
        coroutine.raw.set_top(0);
        self.collect_after_shortage(bounds);
        if self.spare.len() < MAX_SPARE {
            self.spare.push(Coroutine { pending: 0, settled: None, has_returned: false, ..coroutine });
        } else {
            self.forget(coroutine.anchor);
        }
    }
}

/// Coroutines that are kept for later runs.
const MAX_SPARE: usize = 64;
