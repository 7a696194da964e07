//! The live objects, as an interface for commands. `control/observe` implements these traits. Tests have a toy implementation.
//!
//! Objects are identified by small keys, which the target creates and validates at each use: any object may be added or removed between
//! two commands, or between two pieces of a long answer. Views are plain structs, copied from the live object.

mod descriptors;
mod patterns;
mod process;
mod proxies;
mod scripts;
mod sessions;
mod tables;
mod tls;
mod work;

pub use descriptors::{DescriptorRole, DescriptorTarget, DescriptorView, NextDescriptor};
pub use patterns::{
    Found, Lookup, Pattern, PatternKind, PatternSet, PatternTarget, SetKey, VersionError, Which,
};
pub use process::{CliSocket, Limit, NameServerView, ProcessTarget, VariableSource};
pub use proxies::{
    AddressChange, BackendKey, CapturedError, CheckKind, CheckRedirection, Direction, ErrorFilter,
    FrontendKey, FrontendRefusal, PortSetting, ProxyTarget, ServerConnections, ServerHealth, ServerKey,
    ServerRefusal, ServerState, ServerView, check_state,
};
pub use scripts::{ScriptCommandRun, ScriptCommandStep, ScriptCommandTarget, ScriptCommandView};
pub use sessions::{NextSession, SessionFilter, SessionTarget, SessionView, Shutdown};
pub use tables::TableTarget;
pub use tls::{
    Later, ListLine, ListRefusal, OcspEntry, OcspRefusal, OcspUpdate, OcspView, ServedName, TicketKeyFile,
    TicketKeyRefusal, TlsFileKind, TlsFileName, TlsFileView, TlsRefusal, TlsTarget,
};
pub use work::{
    Activity, ActivityRow, Measuring, MemoryLine, MemoryProfile, PoolUse, PoolView, ProfilingChange,
    ProfilingState, ScriptCostLine, ScriptProfile, Span, TaskLine, TaskProfile, TaskRow, Tasks, ThreadView,
    WorkTarget,
};

/// A position between two objects of a listing. Zero is the start. The target defines all other values.
pub type ListPosition = u64;

/// All operations that commands need.
pub trait CommandTarget:
    ProcessTarget
    + WorkTarget
    + ProxyTarget
    + PatternTarget
    + SessionTarget
    + DescriptorTarget
    + TableTarget
    + ScriptCommandTarget
    + TlsTarget
{
}

impl<T> CommandTarget for T where
    T: ProcessTarget
        + WorkTarget
        + ProxyTarget
        + PatternTarget
        + SessionTarget
        + DescriptorTarget
        + TableTarget
        + ScriptCommandTarget
        + TlsTarget
{
}
