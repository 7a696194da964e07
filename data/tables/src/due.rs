//! When the expiry task of a table has work: until then the task sleeps, and takes no lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// When to look at a table again, in milliseconds of its clock.
///
/// It is never later than the work, and may be earlier: an entry that is used lives longer than was known.
#[derive(Default)]
pub(crate) struct DueTime {
    at_ms: AtomicU64,
    wake: OnceLock<WakeCall>,
}

/// Called when there is work earlier than was known.
type WakeCall = Box<dyn Fn() + Send + Sync>;

impl DueTime {
    /// When to look.
    pub(crate) fn at(&self) -> u64 {
        self.at_ms.load(SeqCst)
    }

    /// There is work at that time. Wakes the task if that is earlier than was known.
    pub(crate) fn by(&self, at_ms: u64) {
        if self.at() > at_ms
            && self.at_ms.fetch_min(at_ms, SeqCst) > at_ms
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }

    /// A look at the table begins: work that becomes due from here on is kept for the next time.
    pub(crate) fn begin(&self) {
        self.at_ms.store(u64::MAX, SeqCst);
    }

    /// Sets when to look again, at the end of a look.
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
