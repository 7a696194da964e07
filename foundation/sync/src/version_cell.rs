//! A snapshot with many readers and rare replacements.

use arc_swap::{ArcSwap, Guard};
use std::sync::Arc;

/// The current version of an immutable value. Readers never block, and keep the version that they loaded.
#[derive(Debug, Default)]
pub struct VersionCell<T>(ArcSwap<T>);

impl<T> VersionCell<T> {
    /// Creates the cell with its first version.
    pub fn new(value: T) -> Self {
        Self(ArcSwap::from_pointee(value))
    }

    /// The current version, for short use.
    #[inline]
    pub fn load(&self) -> Guard<Arc<T>> {
        self.0.load()
    }

    /// The current version, for long use.
    pub fn load_full(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Replaces the current version and returns the former one.
    pub fn publish(&self, value: T) -> Arc<T> {
        self.0.swap(Arc::new(value))
    }

    /// Replaces the current version with the result of `change`. `change` runs again if another thread was faster.
    pub fn update(&self, mut change: impl FnMut(&T) -> T) -> Arc<T> {
        self.0.rcu(|current| change(current))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_its_version_after_an_update() {
        let published = VersionCell::new(1);
        let old = published.load_full();
        published.publish(2);
        published.update(|value| value * 10);
        assert_eq!((*old, **published.load()), (1, 20));
    }
}
