//! Settings of profiling and of the watchdog's warnings.

use std::time::Duration;

use weir_fingerprint::Canonical;

/// The settings of `profiling.*` and `warn-blocked-traffic-after`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct Profiling {
    /// `profiling.tasks`: whether tasks are measured.
    pub tasks: TaskProfiling,
    /// `profiling.tasks lock`: time spent on locks, too.
    pub locks: bool,
    /// `profiling.tasks memory`: time spent in the allocator, too.
    pub memory_time: bool,
    /// `profiling.memory`: whether memory is counted by call site.
    pub memory: bool,
    /// `warn-blocked-traffic-after`: how long a worker may make no progress before a warning.
    pub warn_blocked_after: Duration,
}

/// Whether tasks are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum TaskProfiling {
    Off,
    /// On a worker while it is slow.
    #[default]
    Auto,
    On,
}

impl Default for Profiling {
    fn default() -> Self {
        Profiling {
            tasks: TaskProfiling::Auto,
            locks: false,
            memory_time: false,
            memory: false,
            warn_blocked_after: WARN_BLOCKED_AFTER,
        }
    }
}

/// The manual's default of `warn-blocked-traffic-after`.
const WARN_BLOCKED_AFTER: Duration = Duration::from_millis(100);
