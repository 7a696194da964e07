//! The bounds of runs: the part of a state's shared data that does not depend on its host.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::time::Duration;

use mlua_sys as ffi;

use crate::clock::RunClock;
use crate::costs::CostMeter;
use crate::memory::Memory;
use crate::raw::{REGISTRY, RawState};
use crate::watch::{self, Armed};

/// The bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBounds {
    /// How long a run may compute, in CPU time of its thread. `None` without a limit.
    pub time: Option<Duration>,
    /// When a coroutine lets others run.
    pub slice: RunSlice,
}

/// The length of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunSlice {
    /// A tick of the kernel, 1 to 10 ms of CPU time. That many instructions on a system without timers of CPU time. At least 1.
    Tick { or_instructions: u32 },
    /// That many instructions, at least 1, and at most a tick. Counting doubles the cost of computation.
    Instructions(u32),
}

impl RunBounds {
    /// Without limits.
    pub const NONE: RunBounds =
        RunBounds { time: None, slice: RunSlice::Tick { or_instructions: c_int::MAX as u32 } };
}

/// How runs are interrupted.
#[derive(Clone, Copy)]
pub(crate) struct Interrupt {
    pub hook: ffi::lua_Hook,
    /// Sets the hook of the coroutine that runs. It does only things that are safe in signals.
    pub on_signal: watch::OnSignal,
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Interrupt")
    }
}

/// The events of an armed hook: each instruction, and each call, also by functions of C that never return to a script.
pub(crate) const EVENTS: c_int = ffi::LUA_MASKCOUNT | ffi::LUA_MASKCALL;

/// The bounds of a state's runs. Never borrowed exclusively.
#[derive(Debug)]
pub(crate) struct RunLimits {
    pub memory: Memory,
    pub clock: RunClock,
    pub meter: CostMeter,
    interrupt: Interrupt,
    /// The coroutine that the driver resumed, or the state itself.
    driven: Cell<Option<RawState>>,
    /// Whether that is a coroutine.
    is_coroutine: Cell<bool>,
    /// The instructions of a slice, 0 if only the timer ends it.
    instructions: Cell<c_int>,
    /// Whether the timer was armed within the run.
    has_whole_slice: Cell<bool>,
    /// Whether the run has computed for too long.
    expired: Cell<bool>,
    /// Whether the hook yielded.
    interrupted: Cell<bool>,
    /// Whether a function ended the run early. The registry has the result.
    ends_early: Cell<bool>,
}

impl RunLimits {
    pub(crate) fn new(memory: Memory, interrupt: Interrupt) -> Self {
        RunLimits {
            memory,
            interrupt,
            clock: RunClock::new(),
            meter: CostMeter::default(),
            driven: Cell::new(None),
            is_coroutine: Cell::new(false),
            instructions: Cell::new(0),
            has_whole_slice: Cell::new(false),
            expired: Cell::new(false),
            interrupted: Cell::new(false),
            ends_early: Cell::new(false),
        }
    }

    /// The limits of a coroutine's state.
    pub(crate) fn of<'s>(raw: RawState) -> &'s RunLimits {
        let pointer: *const RunLimits = raw.extra().cast();
        // SAFETY: `LuaState::new` wrote the pointer to the shared data, which begin with the limits, and frees them after the state ended.
        unsafe { &*pointer }
    }

    /// Begins a run of `raw`. Returns the outer run of the thread, for [`RunLimits::leave`].
    pub(crate) fn enter(&self, raw: RawState, bounds: RunBounds, can_yield: bool) -> Option<RawState> {
        self.driven.set(Some(raw));
        self.is_coroutine.set(can_yield);
        self.expired.set(false);
        self.interrupted.set(false);
        self.ends_early.set(false);
        self.clock.start(bounds.time);
        let armed = match can_yield || bounds.time.is_some() {
            true => watch::arm(self.interrupt.on_signal),
            false => Armed::Before,
        };
        self.has_whole_slice.set(armed == Armed::Now);
        let instructions = match bounds.slice {
            RunSlice::Tick { .. } if armed != Armed::Never => 0,
            RunSlice::Tick { or_instructions: count } | RunSlice::Instructions(count) => count.max(1),
        };
        self.instructions.set(c_int::try_from(instructions).unwrap_or(c_int::MAX));
        self.reset_hook(raw);
        self.memory.enforce(true);
        watch::enter(raw)
    }

    /// Ends a run.
    pub(crate) fn leave(&self, outer: Option<RawState>) {
        self.memory.enforce(false);
        self.driven.set(None);
        // The limits of an outer run belong to another state.
        let (_, is_due) = watch::switch_to(outer);
        if let (Some(outer), true) = (outer, is_due) {
            outer.hook().set(self.interrupt.hook, EVENTS, 1);
        }
    }

    /// Begins a slice, after the hook has noticed the end of the last one.
    pub(crate) fn begin_slice(&self) {
        watch::slice_has_ended();
        watch::arm(self.interrupt.on_signal);
        self.has_whole_slice.set(true);
    }

    /// Whether the driver resumed this coroutine, or called the state itself.
    pub(crate) fn is_driven(&self, raw: RawState) -> bool {
        self.driven.get() == Some(raw)
    }

    /// Whether the run is one that can wait, unless a function of C called the script.
    pub(crate) fn runs_coroutine(&self) -> bool {
        self.is_coroutine.get()
    }

    /// Whether there is a run.
    pub(crate) fn is_running(&self) -> bool {
        self.driven.get().is_some()
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.get()
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.get()
    }

    /// Whether the slice that ends began within the run. Otherwise a short run would be interrupted by a timer that an earlier one armed.
    pub(crate) fn has_used_slice(&self) -> bool {
        self.instructions.get() != 0 || self.has_whole_slice.get()
    }

    /// A function ends the run: it raises the value at the top, the result.
    pub(crate) fn end_early(&self, raw: RawState) {
        raw.reserve(1);
        raw.push_value(-1);
        raw.set_by_pointer(REGISTRY, early_result());
        self.ends_early.set(true);
    }

    /// Whether the error at the top is the result of a run that ended early. A script may have caught it, and failed later.
    pub(crate) fn is_early_end(&self, raw: RawState) -> bool {
        if !self.ends_early.get() {
            return false;
        }
        raw.reserve(1);
        raw.push_by_pointer(REGISTRY, early_result());
        let is_result = raw.is_equal(-1, -2);
        raw.pop(1);
        is_result
    }

    /// As [`RunLimits::is_early_end`], when the run is over.
    pub(crate) fn take_early_end(&self, raw: RawState) -> bool {
        let is_result = self.is_early_end(raw);
        if self.ends_early.take() {
            raw.reserve(1);
            raw.push_nil();
            raw.set_by_pointer(REGISTRY, early_result());
        }
        is_result
    }

    /// The hook of the coroutine yields.
    pub(crate) fn interrupt(&self, is_late: bool) {
        self.expired.set(is_late);
        self.interrupted.set(true);
    }

    /// The run is over: the coroutine raises an error at each instruction. Not at calls: the handler of the error is one.
    pub(crate) fn expire(&self, raw: RawState) {
        self.expired.set(true);
        raw.hook().set(self.interrupt.hook, ffi::LUA_MASKCOUNT, 1);
    }

    /// Pushes the error of a run that is late.
    pub(crate) fn push_timeout(&self, raw: RawState) {
        let was_enforced = self.memory.enforce(false);
        raw.reserve(1);
        raw.push_bytes(TIMEOUT.as_bytes());
        self.memory.enforce(was_enforced);
    }

    /// The hook for a slice that begins: one that counts, if slices are counted.
    pub(crate) fn reset_hook(&self, raw: RawState) {
        match self.instructions.get() {
            0 if raw.hook().is_set() => raw.hook().clear(),
            0 => {}
            // A coroutine that the hook interrupted has counted its next instruction.
            count if raw.hook().count() == count => {}
            count => raw.hook().set(self.interrupt.hook, ffi::LUA_MASKCOUNT, count),
        }
    }

    /// Another coroutine goes on, or none. Returns the one that ran.
    pub(crate) fn switch_to(&self, raw: Option<RawState>) -> Option<RawState> {
        let (outer, is_due) = watch::switch_to(raw);
        if let Some(raw) = raw {
            if self.expired.get() {
                self.expire(raw);
            } else if is_due {
                raw.hook().set(self.interrupt.hook, EVENTS, 1);
            } else if self.instructions.get() != 0 && !raw.hook().is_set() {
                self.reset_hook(raw);
            }
        }
        outer
    }
}

/// Counts the steps of a function in C or Rust, and looks at the time now and then.
#[derive(Clone, Copy)]
pub(crate) struct Steps<'l> {
    limits: &'l RunLimits,
    left: u32,
}

impl<'l> Steps<'l> {
    pub(crate) fn new(raw: RawState) -> Steps<'l> {
        Steps { limits: RunLimits::of(raw), left: STEPS }
    }

    /// Counts a step. True if the run is late.
    #[inline]
    pub(crate) fn is_late(&mut self) -> bool {
        self.left -= 1;
        self.left == 0 && self.look()
    }

    /// Counts several steps. True if the run is late.
    pub(crate) fn is_late_after(&mut self, steps: usize) -> bool {
        self.left = self.left.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX)).max(1);
        self.is_late()
    }

    #[cold]
    fn look(&mut self) -> bool {
        self.left = STEPS;
        self.limits.clock.is_late()
    }

    /// Ends the run: its coroutine raises an error. The error is at the top of the stack then.
    pub(crate) fn expire(self, raw: RawState) {
        self.limits.expire(raw);
        self.limits.push_timeout(raw);
    }
}

/// The key of the result of a run that ends early, in the registry.
fn early_result() -> *const c_void {
    ptr::from_ref(&EARLY_RESULT).cast()
}

static EARLY_RESULT: u8 = 5;
/// The text of a run's end.
pub(crate) const TIMEOUT: &str = "execution timeout";
/// Steps between two looks at the clock: some microseconds.
const STEPS: u32 = 1_000;
