//! The coroutine that the thread runs now, and the timer that interrupts it.
//!
//! ```text
//!   a run begins ──► the timer is armed, if it is not ──► a slice of CPU time passes ──► a signal
//!                                                                                           │
//!                         Lua runs: the hook of the running coroutine is set, and arms again ┤
//!                         Lua does not run: the next run arms again ─────────────────────────┘
//! ```
//!
//! So short runs share one system call for each slice of the thread's CPU time, and a run that computes is traced for one instruction of each slice.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use mlua_sys as ffi;
use weir_sys::process::forks;
use weir_sys::signal::Signal;
use weir_sys::thread_timer::ThreadTimer;

use crate::raw::RawState;

/// The part that the signal handler sees. Only the thread and its handler use it.
struct Watch {
    /// The coroutine that runs, null outside of runs.
    running: AtomicPtr<ffi::lua_State>,
    /// The slice is over, and no hook has noticed yet.
    is_due: AtomicBool,
    /// The forks of the process plus 1, if the timer will fire in this process.
    armed: AtomicU32,
}

thread_local! {
    /// Constant and without a destructor: a signal handler may use it.
    static WATCH: Watch = const {
        Watch { running: AtomicPtr::new(ptr::null_mut()), is_due: AtomicBool::new(false), armed: AtomicU32::new(0) }
    };
    /// Never deleted: a state may be in use until its thread ends, and threads with states last as long as the process.
    static TIMER: RefCell<ManuallyDrop<SliceTimer>> = const { RefCell::new(ManuallyDrop::new(SliceTimer::Untried)) };
}

/// The timer of a thread.
enum SliceTimer {
    Untried,
    /// The system does not have such timers.
    Missing,
    Made(ThreadTimer),
}

/// A signal handler.
pub(crate) type OnSignal = extern "C" fn(Signal);

/// Since when the timer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Armed {
    /// An earlier run armed it.
    Before,
    Now,
    /// The thread cannot have a timer.
    Never,
}

/// Makes sure that the timer fires after a slice. `on_signal` calls only functions that are safe in signals.
#[inline]
pub(crate) fn arm(on_signal: OnSignal) -> Armed {
    let here = forks().wrapping_add(1);
    WATCH.with(|watch| match watch.armed.load(Ordering::Relaxed) == here {
        true => Armed::Before,
        false => set_timer(watch, here, on_signal),
    })
}

#[cold]
fn set_timer(watch: &Watch, here: u32, on_signal: OnSignal) -> Armed {
    // The timer may fire at once.
    watch.armed.store(here, Ordering::Relaxed);
    let is_set = TIMER.with(|timer| timer.borrow_mut().set(on_signal));
    if is_set {
        return Armed::Now;
    }
    watch.armed.store(0, Ordering::Relaxed);
    Armed::Never
}

impl SliceTimer {
    fn set(&mut self, on_signal: OnSignal) -> bool {
        if !matches!(self, SliceTimer::Missing) && !matches!(self, SliceTimer::Made(timer) if timer.is_here())
        {
            // SAFETY: the caller of `arm` vouches for the handler.
            let made = unsafe { ThreadTimer::new(on_signal) };
            *self = made.map_or(SliceTimer::Missing, SliceTimer::Made);
        }
        matches!(self, SliceTimer::Made(timer) if timer.set(SLICE).is_ok())
    }
}

/// Notes that the timer fired. Returns the coroutine that runs. Only for the signal handler.
pub(crate) fn fired() -> Option<RawState> {
    WATCH.with(|watch| {
        watch.armed.store(0, Ordering::Relaxed);
        let running = RawState::new(watch.running.load(Ordering::Relaxed))?;
        watch.is_due.store(true, Ordering::Relaxed);
        Some(running)
    })
}

/// Notes the coroutine that runs from now on. Returns the one that ran.
pub(crate) fn enter(raw: RawState) -> Option<RawState> {
    WATCH.with(|watch| {
        let outer = watch.running.swap(raw.pointer(), Ordering::Relaxed);
        if outer.is_null() {
            watch.is_due.store(false, Ordering::Relaxed);
        }
        RawState::new(outer)
    })
}

/// Notes the coroutine that goes on, if there is one. Returns the one that ran, and whether a slice is over and no hook has noticed.
pub(crate) fn switch_to(raw: Option<RawState>) -> (Option<RawState>, bool) {
    let pointer = raw.map_or(ptr::null_mut(), RawState::pointer);
    WATCH.with(|watch| {
        let outer = watch.running.swap(pointer, Ordering::Relaxed);
        (RawState::new(outer), watch.is_due.load(Ordering::Relaxed))
    })
}

/// The end of the slice has been noticed.
pub(crate) fn slice_has_ended() {
    WATCH.with(|watch| watch.is_due.store(false, Ordering::Relaxed));
}

/// The CPU time of a slice. The kernel ends it at its next tick, after 1 to 10 ms.
const SLICE: Duration = Duration::from_millis(1);
