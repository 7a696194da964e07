//! The error output of applications, in log lines (`log-stderr`).

use std::sync::Arc;

use weir_events::Level;
use weir_mux::application::ErrorOutput;

use crate::instance::application::Application;

/// Logs the error output of one connection, line by line.
pub(crate) struct ErrorLog {
    application: Arc<Application>,
    /// The line that has begun.
    line: Vec<u8>,
    /// The second in which lines are counted, and their number.
    second: (u64, u32),
    /// Lines that were dropped since the last one that was logged.
    dropped: u64,
}

impl ErrorLog {
    /// A log for a connection to this application. `None` without `log-stderr`.
    pub(crate) fn of(application: &Arc<Application>) -> Option<Box<dyn ErrorOutput>> {
        if application.log_sinks.is_empty() {
            return None;
        }
        let application = Arc::clone(application);
        Some(Box::new(ErrorLog { application, line: Vec::new(), second: (0, 0), dropped: 0 }))
    }

    /// Logs the line that has begun. In each second, [`MAX_LINES`] are logged and the rest is counted.
    fn end_line(&mut self) {
        if self.line.is_empty() {
            return;
        }
        let second = weir_sched::now_us() / 1_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        if self.second.1 > MAX_LINES {
            self.dropped += 1;
        } else {
            self.report_dropped();
            self.send(&self.line);
        }
        self.line.clear();
    }

    fn report_dropped(&mut self) {
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            self.send(format!("{dropped} lines of the error output were dropped").as_bytes());
        }
    }

    fn send(&self, text: &[u8]) {
        let Application { log_sinks, log_tag, .. } = &*self.application;
        crate::log::send_line(log_sinks, log_tag, Level::Error, text);
    }
}

impl ErrorOutput for ErrorLog {
    fn write(&mut self, text: &[u8], ends: bool) {
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let room = MAX_LINE - self.line.len();
            // As in HAProxy, a control character is a dot: it must not look like the begin of another line.
            let printable = |byte: &u8| if byte.is_ascii_control() { b'.' } else { *byte };
            let text = piece.strip_suffix(b"\n").unwrap_or(piece);
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            self.line.extend(text.iter().take(room).map(printable));
            if piece.ends_with(b"\n") {
                self.end_line();
            }
        }
        if ends {
            self.end_line();
        }
    }
}

impl Drop for ErrorLog {
    fn drop(&mut self) {
        self.end_line();
        self.report_dropped();
    }
}

/// The longest line, in bytes. The rest of a longer one is left out.
const MAX_LINE: usize = 4096;
/// Lines that one connection may log in a second.
const MAX_LINES: u32 = 100;
