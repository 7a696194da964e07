//! Sets of HTTP statuses: which ones count as client errors, and which ones as server failures.

use weir_fingerprint::Canonical;

/// A set of statuses between 100 and 599.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct StatusCodes([u64; 8]);

impl StatusCodes {
    /// The lowest and the highest status that may be in a set.
    pub const RANGE: std::ops::RangeInclusive<u16> = 100..=599;

    /// No status.
    pub const NONE: StatusCodes = StatusCodes([0; 8]);

    /// The default of `http-err-codes`: every 4xx.
    pub fn errors() -> StatusCodes {
        let mut codes = StatusCodes::NONE;
        codes.set(400, 499, true);
        codes
    }

    /// The default of `http-fail-codes`: every 5xx but 501 and 505.
    pub fn failures() -> StatusCodes {
        let mut codes = StatusCodes::NONE;
        codes.set(500, 599, true);
        codes.set(501, 501, false);
        codes.set(505, 505, false);
        codes
    }

    /// Adds or removes the statuses from `first` to `last`.
    pub fn set(&mut self, first: u16, last: u16, included: bool) {
        for status in first.max(*Self::RANGE.start())..=last.min(*Self::RANGE.end()) {
            let bit = usize::from(status - Self::RANGE.start());
            let mask = 1 << (bit % 64);
            match included {
                true => self.0[bit / 64] |= mask,
                false => self.0[bit / 64] &= !mask,
            }
        }
    }

    /// Whether the status is in the set.
    #[inline]
    pub fn contains(&self, status: u16) -> bool {
        let Some(bit) = status.checked_sub(*Self::RANGE.start()).map(usize::from) else { return false };
        self.0.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_error_and_failure_statuses_equal_the_manuals() {
        let (errors, failures) = (StatusCodes::errors(), StatusCodes::failures());
        let all: Vec<u16> = (0..=1000).filter(|status| errors.contains(*status)).collect();
        assert_eq!(all, (400..=499).collect::<Vec<_>>());
        let all: Vec<u16> = (0..=1000).filter(|status| failures.contains(*status)).collect();
        assert_eq!(all, (500..=599).filter(|status| ![501, 505].contains(status)).collect::<Vec<_>>());
    }
}
