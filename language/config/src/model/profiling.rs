//! What weir measures of itself, and when it warns about itself.

use std::time::Duration;

/// What the `profiling.*` words and their neighbours say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profiling {
    /// `profiling.tasks`: whether the work is measured.
    pub tasks: TaskProfiling,
    /// `profiling.tasks lock`: what it spends on locks, too.
    pub locks: bool,
    /// `profiling.tasks memory`: what it spends on memory, too.
    pub memory_time: bool,
    /// `profiling.memory`: whether memory is counted by who asks for it.
    pub memory: bool,
    /// `warn-blocked-traffic-after`: for how long a worker may not go on before that is said.
    pub warn_blocked_after: Duration,
}

/// Whether work is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskProfiling {
    /// Never.
    Off,
    /// Where and while it is slow.
    #[default]
    Auto,
    /// Always.
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
