//! Notices about changes of a set.

use std::fmt;
use std::sync::OnceLock;

/// A change of the current version of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternEvent {
    /// An entry was added.
    Added,
    /// Entries were deleted.
    Deleted,
    /// Entries have another value.
    Changed,
    /// A version that was prepared became the current one.
    Committed,
    /// All entries were deleted.
    Cleared,
}

/// Called after each change of a set, with its number.
pub type PatternWatcher = Box<dyn Fn(u32, PatternEvent) + Send + Sync>;

/// The watcher of a set, once there is one.
#[derive(Default)]
pub(super) struct WatcherCell(OnceLock<PatternWatcher>);

impl fmt::Debug for WatcherCell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WatcherCell")
    }
}

impl WatcherCell {
    /// Sets the watcher. Only the first call has an effect.
    pub(super) fn set(&self, watcher: impl FnOnce() -> PatternWatcher) {
        self.0.get_or_init(watcher);
    }

    /// Passes a change of the set with this number.
    pub(super) fn notify(&self, number: u32, event: PatternEvent) {
        if let Some(watcher) = self.0.get() {
            watcher(number, event);
        }
    }
}
