//! The loggers of the global section.

use std::fmt;
use std::sync::OnceLock;

/// Sends a message of this level of syslog, 0 to 7. False without loggers.
type LogFunction = Box<dyn Fn(u8, &str) -> bool + Send + Sync>;

/// The loggers of the global section, once the process has them.
#[derive(Default)]
pub(crate) struct ScriptLogger(OnceLock<LogFunction>);

impl ScriptLogger {
    pub(crate) fn set(&self, log: LogFunction) {
        let _ = self.0.set(log);
    }

    /// Logs a message. False if no logger takes it.
    pub(crate) fn log(&self, level: u8, text: &str) -> bool {
        self.0.get().is_some_and(|log| log(level, text))
    }
}

impl fmt::Debug for ScriptLogger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ScriptLogger")
    }
}
