//! The log line of a stream: whether it is still due, and the level.

use weir_events::Level;

/// The state of a stream's log line.
#[derive(Debug, Default)]
pub struct LogRecord {
    /// Whether the line is to be written.
    pub state: LogState,
    /// `set-log-level`. `Some(None)` for `silent`.
    pub level: Option<Option<Level>>,
}

/// Whether a stream's line is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogState {
    /// At the end, or as soon as all values are known.
    #[default]
    Due,
    /// As `Due`, while the response or the first TCP bytes are about to be sent. A line written now counts these bytes.
    Beginning,
    /// The line was written (`option logasap`).
    Written,
    Unwanted,
}

impl LogRecord {
    /// Whether a line is still to be written.
    #[inline]
    pub fn is_due(&self) -> bool {
        matches!(self.state, LogState::Due | LogState::Beginning)
    }

    /// Marks the start of the response, for a line written at that point.
    #[inline]
    pub fn begin(&mut self) {
        if self.state == LogState::Due {
            self.state = LogState::Beginning;
        }
    }

    /// The response has started. A line that was not written by now is written at the end.
    #[inline]
    pub fn begun(&mut self) {
        if self.state == LogState::Beginning {
            self.state = LogState::Due;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_line_not_written_early_is_due_at_the_end() {
        let mut record = LogRecord::default();
        record.begin();
        assert!(record.is_due() && record.state == LogState::Beginning);
        record.begun();
        assert!(record.is_due() && record.state == LogState::Due);
    }

    #[test]
    fn a_written_or_unwanted_log_line_is_never_due() {
        for state in [LogState::Written, LogState::Unwanted] {
            let mut record = LogRecord { state, ..LogRecord::default() };
            record.begin();
            record.begun();
            assert!(!record.is_due() && record.state == state);
        }
    }
}
