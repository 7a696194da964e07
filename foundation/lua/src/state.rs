//! A state of Lua, and runs in it.

mod coroutine;

use std::cell::Cell;
use std::ffi::{CString, c_int};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mlua_sys as ffi;

use crate::call::{LuaCall, LuaStack};
use crate::costs::ScriptCosts;
use crate::failure::{LuaError, LuaErrorKind};
use crate::hook::INTERRUPT;
use crate::library;
use crate::limits::{RunBounds, RunLimits, RunSlice};
use crate::memory::{Memory, MemoryBudget};
use crate::places::function_place;
use crate::raw::{REGISTRY, RawState};
use crate::shared::{LuaHost, LuaReference, Shared};
use crate::traceback;

pub use coroutine::{Coroutine, Resumed};

/// A state of Lua: globals, functions and coroutines of one world.
///
/// It may move between threads, together with everything in it: Lua keeps everything inside of it.
pub struct LuaState<H: LuaHost> {
    pub(crate) raw: RawState,
    pub(crate) shared: NonNull<Shared<H>>,
    /// A number that no other state of the process has.
    pub(crate) id: u64,
    /// Coroutines that ended, for the next runs.
    pub(crate) spare: Vec<Coroutine>,
    owns: PhantomData<H>,
}

// SAFETY: only the owner of the state uses it, and Lua keeps everything within the state. References and coroutines are numbers and pointers
// that need the state to be used. The host moves along.
unsafe impl<H: LuaHost + Send> Send for LuaState<H> where H::Wait: Send {}

impl<H: LuaHost> std::fmt::Debug for LuaState<H> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "LuaState({} bytes)", self.memory_used())
    }
}

impl<H: LuaHost> LuaState<H> {
    /// An empty state: without libraries. It takes its memory from `budget`.
    ///
    /// # Errors
    /// If memory is short.
    pub fn new(host: H, budget: Arc<MemoryBudget>) -> Result<Self, LuaError> {
        let shared = Box::new(Shared {
            limits: RunLimits::new(Memory::new(budget), INTERRUPT),
            host,
            target: Cell::new(None),
            wait: Cell::new(None),
            settled: Cell::new(None),
        });
        let shared = NonNull::from(Box::leak(shared));
        // SAFETY: the pointer is that of the box above.
        let memory = unsafe { &raw const (*shared.as_ptr()).limits.memory };
        // SAFETY: the allocator gets its memory, which lives longer than the state.
        let state = unsafe { ffi::lua_newstate(Memory::allocate, memory.cast_mut().cast()) };
        let Some(raw) = RawState::new(state) else {
            // SAFETY: nothing else has the box.
            drop(unsafe { Box::from_raw(shared.as_ptr()) });
            return Err(LuaError { kind: LuaErrorKind::Memory, message: None, traceback: String::new() });
        };
        raw.set_extra(shared.as_ptr().cast());
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Ok(LuaState { raw, shared, id, spare: Vec::new(), owns: PhantomData })
    }

    pub(crate) fn shared(&self) -> &Shared<H> {
        // SAFETY: the box lives as long as the state, and is never borrowed exclusively.
        unsafe { self.shared.as_ref() }
    }

    /// The host.
    pub fn host(&self) -> &H {
        &self.shared().host
    }

    /// The stack of the state itself, outside of runs.
    pub fn stack(&mut self) -> LuaStack<'_> {
        LuaStack::new(self.raw)
    }

    /// Calls `act` with the stack of the state, and removes the values that it left there.
    pub fn with_stack<R>(&mut self, act: impl FnOnce(&LuaStack<'_>) -> R) -> R {
        let top = self.raw.top();
        let result = act(&LuaStack::new(self.raw));
        self.raw.set_top(top);
        result
    }

    /// Opens a standard library, with functions that cannot escape the bounds of a run. False if the name is unknown. `base` and `coroutine` are
    /// two of them.
    pub fn open_library(&mut self, name: &str) -> bool {
        library::open(self.raw, name)
    }

    /// Makes the value at the top of the stack a global, and removes it.
    pub fn set_global(&mut self, name: &[u8]) {
        self.raw.reserve(2);
        self.raw.push_element(REGISTRY, ffi::LUA_RIDX_GLOBALS);
        self.raw.insert(-2);
        self.stack().set_field(name);
        self.raw.pop(1);
    }

    /// Pushes a global, or nil.
    pub fn push_global(&mut self, name: &[u8]) {
        self.raw.reserve(2);
        self.raw.push_element(REGISTRY, ffi::LUA_RIDX_GLOBALS);
        self.stack().push_field(-1, name);
        self.raw.remove(-2);
    }

    /// Compiles a text, and keeps it as a function. `name` is that of messages: `@` and the path of a file.
    ///
    /// # Errors
    /// If it is not Lua.
    pub fn load(&mut self, text: &[u8], name: &str) -> Result<LuaReference, LuaError> {
        let name = CString::new(name.replace('\0', "?")).unwrap_or_default();
        self.raw.reserve(2);
        // The compiler returns its errors.
        let was_enforced = self.shared().limits.memory.enforce(true);
        let status = self.raw.load(text, &name);
        self.shared().limits.memory.enforce(was_enforced);
        match status {
            ffi::LUA_OK => Ok(self.stack().keep()),
            status => Err(self.take_error(self.raw, status, false)),
        }
    }

    /// Forgets a kept value.
    pub fn forget(&mut self, reference: LuaReference) {
        self.raw.forget(reference.0);
    }

    /// Calls a function that cannot wait. `arguments` pushes its arguments, `results` reads its results, at indices 1 on.
    ///
    /// # Errors
    /// If the function raises an error, or exceeds a bound.
    pub fn call<R>(
        &mut self,
        function: LuaReference,
        target: Option<&mut H::Target>,
        bounds: RunBounds,
        arguments: impl FnOnce(&LuaStack<'_>),
        results: impl FnOnce(&LuaCall<'_, H>) -> R,
    ) -> Result<R, LuaError> {
        let raw = self.raw;
        let base = raw.top();
        raw.reserve(2);
        raw.push_function(add_traceback, 0);
        self.stack().push_reference(function);
        arguments(&LuaStack::new(raw));
        let count = raw.top() - base - 2;
        let outer = self.enter(raw, target.map(NonNull::from), bounds, false);
        let status = raw.call(count, ffi::LUA_MULTRET, base + 1);
        self.leave(outer);
        let ended = match status == ffi::LUA_OK || self.shared().limits.take_early_end(raw) {
            true => {
                raw.remove(base + 1);
                Ok(results(&LuaCall::new(raw, self.shared())))
            }
            false => Err(self.take_error(raw, status, true)),
        };
        raw.set_top(base);
        self.collect_after_shortage(bounds);
        ended
    }

    /// Begins a run. Returns the outer one of the thread.
    pub(crate) fn enter(
        &self,
        raw: RawState,
        target: Option<NonNull<H::Target>>,
        bounds: RunBounds,
        can_yield: bool,
    ) -> Option<RawState> {
        let shared = self.shared();
        shared.target.set(target);
        shared.limits.enter(raw, bounds, can_yield)
    }

    /// Ends a run.
    pub(crate) fn leave(&self, outer: Option<RawState>) {
        let shared = self.shared();
        shared.limits.leave(outer);
        shared.target.set(None);
    }

    /// How long the last run has computed. Without waits for other threads; an estimate for runs shorter than a slice.
    pub fn computed(&self) -> Duration {
        self.shared().limits.clock.computed()
    }

    /// Takes the error at the top of a stack. `is_pair` if a handler made it: a text and its traceback.
    pub(crate) fn take_error(&self, raw: RawState, status: c_int, is_pair: bool) -> LuaError {
        let kind = match status {
            _ if self.shared().limits.is_expired() => LuaErrorKind::Timeout,
            ffi::LUA_ERRSYNTAX => LuaErrorKind::Syntax,
            ffi::LUA_ERRMEM => LuaErrorKind::Memory,
            _ => LuaErrorKind::Runtime,
        };
        let text =
            |raw: RawState, index| raw.bytes(index).map(|text| String::from_utf8_lossy(text).into_owned());
        let (message, traceback) = match is_pair && raw.kind(-1) == ffi::LUA_TTABLE && raw.length(-1) == 2 {
            true => {
                raw.reserve(2);
                raw.push_element(-1, 1);
                let message = text(raw, -1);
                raw.push_element(-2, 2);
                let traceback = text(raw, -1).unwrap_or_default();
                raw.pop(2);
                (message, traceback)
            }
            false => (text(raw, -1), String::new()),
        };
        raw.pop(1);
        LuaError { kind, message, traceback }
    }

    /// Sets the place of the costs of runs that are measured. Only the first call has an effect.
    pub fn set_costs(&self, costs: Arc<ScriptCosts>) {
        self.shared().limits.meter.set_costs(costs);
    }

    /// Whether the next runs are measured: their lines, and their calls that block.
    pub fn measure(&self, is_on: bool) {
        self.shared().limits.meter.set_on(is_on);
    }

    /// Bytes that the state allocated so far, also those that were freed again.
    pub fn memory_allocated(&self) -> u64 {
        self.shared().limits.memory.allocated()
    }

    /// `file:line` of a kept function of a script.
    pub fn place_of(&mut self, function: LuaReference) -> Option<String> {
        let top = self.raw.top();
        self.stack().push_reference(function);
        let place = function_place(self.raw, -1);
        self.raw.set_top(top);
        place
    }

    /// Bytes that the state uses.
    pub fn memory_used(&self) -> usize {
        self.shared().limits.memory.used()
    }

    /// Collects the garbage of a run that failed for lack of memory. Lua alone would wait until there is twice as much.
    pub(crate) fn collect_after_shortage(&mut self, bounds: RunBounds) {
        if self.shared().limits.memory.take_shortage() {
            self.collect(bounds);
        }
    }

    /// Collects everything that is not used. Finalizers of the script run, without a target, within `bounds`.
    pub fn collect(&mut self, bounds: RunBounds) {
        let outer = self.enter(self.raw, None, bounds, false);
        self.raw.collect();
        self.leave(outer);
    }
}

impl<H: LuaHost> Drop for LuaState<H> {
    fn drop(&mut self) {
        self.spare.clear();
        // Finalizers run, in coroutines. The thread must not set a hook of the state itself, which is freed.
        let outer = self.enter(self.raw, None, CLOSING, false);
        self.shared().limits.switch_to(None);
        self.raw.close();
        self.leave(outer);
        // SAFETY: the state has ended, so nothing has the pointer any more.
        drop(unsafe { Box::from_raw(self.shared.as_ptr()) });
    }
}

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The bounds of all finalizers of a state that ends.
const CLOSING: RunBounds =
    RunBounds { time: Some(Duration::from_millis(100)), slice: RunSlice::Tick { or_instructions: 1_000 } };

/// The handler of errors of calls: makes a pair of the error and its traceback. The result of a run that ended early stays unchanged.
unsafe extern "C-unwind" fn add_traceback(state: *mut ffi::lua_State) -> c_int {
    let Some(raw) = RawState::new(state) else { return 0 };
    if RunLimits::of(raw).is_early_end(raw) {
        return 1;
    }
    raw.reserve(4);
    raw.push_table(2, 0);
    raw.push_value(1);
    raw.set_index(-2, 1);
    traceback::push(raw, raw, c"", 1);
    raw.set_index(-2, 2);
    1
}
