//! The part of a state that Lua's callbacks reach.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::NonNull;

use crate::limits::RunLimits;
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

/// The part of a state that Lua's callbacks reach. It is never borrowed exclusively.
#[repr(C)]
pub(crate) struct Shared<H: LuaHost> {
    /// First: callbacks that do not know the host find it by the same pointer.
    pub limits: RunLimits,
    pub host: H,
    /// The target of the run. Empty while a function has it.
    pub target: Cell<Option<NonNull<H::Target>>>,
    /// The wait of the coroutine that yielded.
    pub wait: Cell<Option<H::Wait>>,
    /// The outcome of the wait of the coroutine that the driver resumes.
    pub settled: Cell<Option<bool>>,
}

impl<H: LuaHost> Shared<H> {
    pub(crate) fn of<'s>(raw: RawState) -> &'s Self {
        let pointer: *const Self = raw.extra().cast();
        // SAFETY: `LuaState::new` wrote the pointer before anything else ran, and frees it after the state ended.
        unsafe { &*pointer }
    }
}
