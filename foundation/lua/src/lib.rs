//! Lua 5.4 states, made safe: functions in Rust, coroutines that wait, and bounds of time and memory.
//!
//! ```text
//!   script ──► Function (Rust) ──► LuaCall: arguments, results, the target of the run
//!                  │
//!                  ├── returns, or fails with a text that has the position in the script
//!                  └── waits: the coroutine stops, its driver resumes it with the results
//! ```
//!
//! Begin with [`LuaState`]. A host ([`LuaHost`]) has a target, the object that functions act on, and a type of waits. A run borrows
//! its target for as long as Lua runs: a script never holds anything of Rust, only numbers in tables.
//!
//! **Errors jump.** Lua leaves C functions by `longjmp`, which would skip Rust's destructors. So no call of this crate that Rust makes
//! can raise an error: they are raw accesses, or protected calls, and the allocator refuses memory only while Lua itself runs, never
//! while Rust does. A function of Rust returns its failure as a value; the error is raised by a frame that owns nothing.
//!
//! **Bounds.** A run ends at its limit of CPU time, wherever it computes: a timer of the thread sets the hook of the coroutine that runs ([`watch`]), the
//! hook yields or raises an error ([`hook`]), and functions of the standard libraries that loop without a call are our own ([`library`]).
//!
//! This crate must not know the purpose of weir: no streams, no configuration, no names of functions.

mod call;
mod clock;
mod costs;
mod failure;
mod frame;
mod hook;
mod library;
mod limits;
mod memory;
mod places;
mod raw;
mod shared;
mod state;
mod traceback;
mod watch;

pub use call::{
    CANNOT_WAIT, CallEnd, Function, LuaCall, LuaKind, LuaStack, ObjectParts, TableMember, opaque_bytes,
    push_opaque,
};
pub use costs::{CostKind, CostLine, ScriptCost, ScriptCosts};
pub use failure::{LuaError, LuaErrorKind, Misuse};
pub use limits::{RunBounds, RunSlice};
pub use memory::MemoryBudget;
pub use raw::release;
pub use shared::{LuaHost, LuaReference};
pub use state::{Coroutine, LuaState, Resumed};
