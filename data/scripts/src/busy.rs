//! Calls that cannot wait, while other threads have their state.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::cells::MOMENT;

/// Calls that failed because other threads had their state.
#[derive(Debug, Default)]
pub(crate) struct BusyCalls {
    count: AtomicU64,
    /// The second of the last report about them, since the epoch.
    reported: AtomicU64,
}

impl BusyCalls {
    /// Counts a call. Returns a report, for the first one of each second.
    pub(crate) fn note(&self, function: &str) -> Option<String> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let second = weir_sched::wall_us() / 1_000_000;
        let is_first = self.reported.swap(second, Ordering::Relaxed) != second;
        is_first.then(|| {
            let moment = MOMENT.as_millis();
            format!(
                "Lua {function}: other threads had the state of 'lua-load' for more than {moment} ms; {count} calls have failed so far."
            )
        })
    }
}
