//! When the expiry task of a table has work. Until then the task sleeps and takes no lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// When the expiry task must process a table next, in milliseconds of the table's clock.
///
/// The time is never too late. It may be too early, because a later use extends an entry's lifetime.
#[derive(Default)]
pub(crate) struct DueTime {
    at_ms: AtomicU64,
    wake: OnceLock<WakeCall>,
}

/// Called when work becomes due earlier than recorded.
type WakeCall = Box<dyn Fn() + Send + Sync>;

impl DueTime {
    /// The time of the next work.
    pub(crate) fn at(&self) -> u64 {
        self.at_ms.load(SeqCst)
    }

    /// Records work at this time. Wakes the task if the time is earlier than recorded.
    pub(crate) fn by(&self, at_ms: u64) {
        if self.at() > at_ms
            && self.at_ms.fetch_min(at_ms, SeqCst) > at_ms
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }

    /// Begins a pass over the table. Work recorded from now on is kept for the next pass.
    pub(crate) fn begin(&self) {
        self.at_ms.store(u64::MAX, SeqCst);
    }

    /// Records the time of the next pass, at the end of a pass.
    pub(crate) fn end(&self, at_ms: u64) {
        self.at_ms.fetch_min(at_ms, SeqCst);
    }

    /// Sets how the task is woken. Only the first call has an effect.
    pub(crate) fn on_earlier(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }
}

impl std::fmt::Debug for DueTime {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Due({})", self.at())
    }
}
