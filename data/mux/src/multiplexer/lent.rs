//! Growth of receive windows beyond their initial size, over all connections of a worker. Bounded, because peers may
//! fill all of it.

use std::cell::Cell;

thread_local! {
    static TOTAL: Cell<u64> = const { Cell::new(0) };
}

/// Bytes by which the windows of this worker may still grow.
pub(super) fn left() -> u32 {
    MOST.saturating_sub(u32::try_from(TOTAL.get()).unwrap_or(u32::MAX))
}

/// The window growth of one connection.
#[derive(Debug, Default)]
pub(super) struct LentWindow(u32);

impl LentWindow {
    #[inline]
    pub(super) fn set(&mut self, bytes: u32) {
        if self.0 != bytes {
            TOTAL.set(TOTAL.get() - u64::from(self.0) + u64::from(bytes));
            self.0 = bytes;
        }
    }
}

impl Drop for LentWindow {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Limit per worker, in bytes. 45 windows of the default size, or thousands of smaller ones.
const MOST: u32 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_and_return_the_limit_of_window_growth() {
        let (mut one, mut other) = (LentWindow::default(), LentWindow::default());
        one.set(1000);
        other.set(MOST - 1000);
        assert_eq!(left(), 0);
        one.set(400);
        assert_eq!(left(), 600);
        drop(other);
        assert_eq!(left(), MOST - 400);
        drop(one);
        assert_eq!(left(), MOST);
        // Streams may begin with wide windows, more of them than the bound allows to grow.
        let wide = [u32::MAX; 3].map(|bytes| {
            let mut window = LentWindow::default();
            window.set(bytes);
            window
        });
        assert_eq!(left(), 0);
        drop(wide);
        assert_eq!(left(), MOST);
    }
}
