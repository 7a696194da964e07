//! The live objects, as commands see them. `control/runtime` implements these traits; tests have a toy implementation.
//!
//! Objects are named by small keys that the target hands out and checks again at each use: between two commands, or two
//! pieces of a long answer, anything may come and go. Views are plain structs, filled from the live object.

mod patterns;
mod process;
mod proxies;
mod sessions;

pub use patterns::{
    Found, Lookup, Pattern, PatternKind, PatternSet, PatternTarget, SetKey, VersionError, Which,
};
pub use process::{
    Activity, ActivityRow, CliSocket, Limit, ProcessTarget, TaskRow, Tasks, ThreadView, VariableSource,
};
pub use proxies::{
    AddressChange, BackendKey, CapturedError, Direction, ErrorFilter, FrontendKey, FrontendRefusal,
    PortSetting, ProxyTarget, ServerConnections, ServerKey, ServerRefusal, ServerState, ServerView,
};
pub use sessions::{NextSession, SessionFilter, SessionTarget, SessionView, Shutdown};

/// A place between two objects of a listing. Zero is the beginning; the rest is the target's business.
pub type Place = u64;

/// Everything that commands act on.
pub trait Target: ProcessTarget + ProxyTarget + PatternTarget + SessionTarget {}

impl<T: ProcessTarget + ProxyTarget + PatternTarget + SessionTarget> Target for T {}
