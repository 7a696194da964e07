//! When client connections close during a soft stop (`close-spread-time`).
//!
//! Each session has its own fixed time within the window. So busy and idle connections close evenly over the window, and clients do not
//! all reconnect at once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_model::CloseSpread;

/// The configured window, and the start of the soft stop.
#[derive(Debug)]
pub struct ClosingWindow {
    /// `close-spread-time`.
    pub spread: CloseSpread,
    began_ms: AtomicU64,
}

impl ClosingWindow {
    /// The window before a soft stop.
    pub fn new(spread: CloseSpread) -> Self {
        ClosingWindow { spread, began_ms: AtomicU64::new(u64::MAX) }
    }

    /// Records the start of the soft stop.
    pub fn begin(&self, now_ms: u64) {
        self.began_ms.store(now_ms, Relaxed);
    }

    /// Whether a session accepted at `accepted_us` must have closed by now. Valid only during a soft stop.
    pub fn is_due(&self, accepted_us: u64, now_ms: u64) -> bool {
        match self.spread {
            CloseSpread::AtOnce => true,
            CloseSpread::Never => false,
            CloseSpread::Over(window) => {
                let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX).max(1);
                now_ms.saturating_sub(self.began_ms.load(Relaxed)) >= mixed(accepted_us) % window_ms
            }
        }
    }
}

/// A multiplicative hash that spreads neighbouring numbers.
fn mixed(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Checks how many of a thousand sessions, accepted a millisecond apart, close within `after_ms`.
    #[track_caller]
    fn check(spread: CloseSpread, after_ms: u64, expected: std::ops::RangeInclusive<usize>) {
        let closing = ClosingWindow::new(spread);
        closing.begin(5_000);
        let due = (0..1000).filter(|number| closing.is_due(number * 1000, 5_000 + after_ms)).count();
        assert!(expected.contains(&due), "{due} after {after_ms} ms");
    }

    #[test]
    fn close_spread_time_spreads_connection_closes_over_its_duration() {
        check(CloseSpread::AtOnce, 0, 1000..=1000);
        check(CloseSpread::Never, 1_000_000, 0..=0);
        let window = CloseSpread::Over(Duration::from_secs(10));
        check(window, 0, 0..=2);
        check(window, 2_500, 200..=300);
        check(window, 5_000, 450..=550);
        check(window, 7_500, 700..=800);
        check(window, 10_000, 1000..=1000);
    }
}
