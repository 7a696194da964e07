//! The part of a state that Lua's callbacks reach.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::memory::Memory;
use crate::raw::RawState;

/// The types that the embedding crate adds to a state.
pub trait LuaHost: 'static + Sized {
    /// The object that functions act on during a run.
    type Target: ?Sized;
    /// A wait that a function asks its driver for.
    type Wait;
}

/// A value that the state keeps: a number in its registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LuaReference(pub(crate) c_int);

/// The bounds of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunBounds {
    /// How long a run may compute. `None` without a limit.
    pub time: Option<Duration>,
    /// After how many instructions the time is looked at, and a coroutine lets others run. At least 1.
    pub slice: u32,
    /// The limit of the state's memory, in bytes.
    pub memory: usize,
}

impl RunBounds {
    /// Without limits.
    pub const NONE: RunBounds = RunBounds { time: None, slice: 10_000, memory: usize::MAX };
}

/// The part of a state that Lua's callbacks reach. It is never borrowed exclusively.
pub(crate) struct Shared<H: LuaHost> {
    pub memory: Memory,
    pub host: H,
    /// The target of the run. Empty while a function has it.
    pub target: Cell<Option<NonNull<H::Target>>>,
    /// The coroutine that the driver resumed, or the state itself.
    pub current: Cell<Option<RawState>>,
    /// The wait of the coroutine that yielded.
    pub wait: Cell<Option<H::Wait>>,
    /// The outcome of the wait of the coroutine that the driver resumes.
    pub settled: Cell<Option<bool>>,
    /// When the run has computed for too long.
    pub deadline: Cell<Option<Instant>>,
    pub expired: Cell<bool>,
    /// Whether the hook yielded.
    pub interrupted: Cell<bool>,
}

impl<H: LuaHost> Shared<H> {
    pub(crate) fn of<'s>(raw: RawState) -> &'s Self {
        let pointer: *const Self = raw.extra().cast();
        // SAFETY: `LuaState::new` wrote the pointer before anything else ran, and frees it after the state ended.
        unsafe { &*pointer }
    }
}
