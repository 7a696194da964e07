//! Settings of profiling and of the watchdog's warnings.

use std::time::Duration;

use weir_fingerprint::Canonical;

/// The settings of `profiling.*` and `warn-blocked-traffic-after`.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct Profiling {
    /// `profiling.tasks`: whether tasks are measured.
    pub tasks: TaskProfiling,
    /// `profiling.tasks lock`: also measure time spent on locks.
    pub locks: bool,
    /// `profiling.tasks memory`: also measure time spent in the allocator.
    pub memory_time: bool,
    /// `profiling.memory`: whether memory is counted by call site.
    pub memory: bool,
    /// `warn-blocked-traffic-after`: time without progress of a worker before a warning.
    pub warn_blocked_after: Duration,
}

/// Whether tasks are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Canonical)]
pub enum TaskProfiling {
    Off,
    /// Measure a worker's tasks only while it is slow.
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
