//! Outages of log targets. Each outage is reported once.

use std::fmt::Display;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use weir_sys::Errno;

/// The error number of a target's current outage, or 0 without an outage. The next line sent ends the outage.
#[derive(Debug, Default)]
pub(crate) struct Outage(AtomicI32);

impl Outage {
    /// Notes a lost line. Reports the first one of an outage. Ignores temporary errors.
    pub(crate) fn begin(&self, target: &dyn Display, error: Errno) {
        if matches!(error, Errno::AGAIN | Errno::NOBUFS | Errno::INTR) {
            return;
        }
        let before = self.0.load(Relaxed);
        let is_first =
            before == 0 && self.0.compare_exchange(0, error.raw_os_error(), Relaxed, Relaxed).is_ok();
        if is_first && let Some(report) = REPORT.get() {
            report(&format!(
                "log target '{target}' cannot be reached ({error}): its lines are lost, and counted in DroppedLogs of \
                 'show info'."
            ));
        }
    }

    /// Notes a line sent. Without an outage, this is only a load.
    pub(crate) fn end(&self) {
        if self.0.load(Relaxed) != 0 {
            self.0.store(0, Relaxed);
        }
    }

    /// The error of the current outage.
    pub(crate) fn error(&self) -> Option<Errno> {
        Some(self.0.load(Relaxed)).filter(|error| *error != 0).map(Errno::from_raw_os_error)
    }
}

/// Sets the callback for reports, one message per outage. Call it once, before the first line.
pub fn report_outages(report: impl Fn(&str) + Send + Sync + 'static) {
    // A second call cannot happen, since the process starts once.
    let _ = REPORT.set(Box::new(report));
}

static REPORT: OnceLock<OutageReporter> = OnceLock::new();

type OutageReporter = Box<dyn Fn(&str) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[test]
    fn each_outage_of_a_log_target_is_reported_once() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&reports);
        report_outages(move |text| {
            // Other tests of this process report their own targets.
            if text.contains("'here'") {
                theirs.lock().unwrap().push(text.to_owned());
            }
        });
        let outage = Outage::default();
        outage.begin(&"here", Errno::AGAIN);
        assert_eq!((outage.error(), reports.lock().unwrap().len()), (None, 0));
        outage.begin(&"here", Errno::NOENT);
        outage.begin(&"here", Errno::CONNREFUSED);
        assert_eq!((outage.error(), reports.lock().unwrap().len()), (Some(Errno::NOENT), 1));
        assert!(reports.lock().unwrap()[0].contains("No such file or directory"));
        outage.end();
        assert_eq!(outage.error(), None);
        outage.begin(&"here", Errno::NOENT);
        assert_eq!(reports.lock().unwrap().len(), 2);
    }
}
