//! The live objects, as commands see them. `control/runtime` implements these traits; tests have a toy implementation.
//!
//! Objects are named by small keys that the target hands out and checks again at each use: between two commands, or two
//! pieces of a long answer, anything may come and go. Views are plain structs, filled from the live object.

mod patterns;
mod process;
mod proxies;
mod sessions;
mod tables;
mod tls;
mod work;

pub use patterns::{
    Found, Lookup, Pattern, PatternKind, PatternSet, PatternTarget, SetKey, VersionError, Which,
};
pub use process::{CliSocket, Limit, NameServerView, ProcessTarget, VariableSource};
pub use proxies::{
    AddressChange, BackendKey, CapturedError, CheckKind, CheckRedirection, Direction, ErrorFilter,
    FrontendKey, FrontendRefusal, PortSetting, ProxyTarget, ServerConnections, ServerHealth, ServerKey,
    ServerRefusal, ServerState, ServerView,
};
pub use sessions::{NextSession, SessionFilter, SessionTarget, SessionView, Shutdown};
pub use tables::TableTarget;
pub use tls::{
    ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspView, ServedName, TicketKeyFile, TicketKeyRefusal,
    TlsFileKind, TlsFileName, TlsFileView, TlsRefusal, TlsTarget,
};
pub use work::{
    Activity, ActivityRow, Measuring, MemoryLine, MemoryProfile, PoolUse, PoolView, ProfilingChange,
    ProfilingState, Span, TaskLine, TaskProfile, TaskRow, Tasks, ThreadView, WorkTarget,
};

/// A place between two objects of a listing. Zero is the beginning; the rest is the target's business.
pub type ListPosition = u64;

/// Everything that commands act on.
pub trait Target:
    ProcessTarget + WorkTarget + ProxyTarget + PatternTarget + SessionTarget + TableTarget + TlsTarget
{
}

impl<T> Target for T where
    T: ProcessTarget + WorkTarget + ProxyTarget + PatternTarget + SessionTarget + TableTarget + TlsTarget
{
}
