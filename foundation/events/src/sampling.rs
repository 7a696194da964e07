//! `sample <ranges>:<size>`: sends only messages at certain positions of a repeating cycle.
//!
//! Positions count from 1. `1:3` sends the first of every three, `2-3,6:8` sends the second, third and sixth of every eight.

use std::fmt;

/// Maximum number of ranges, which bounds the work per message.
pub const MAX_RANGES: usize = 64;

/// The positions of each cycle to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleRanges {
    /// First and last position, both included, in ascending order, without overlap.
    ranges: Vec<(u32, u32)>,
    size: u32,
}

/// The fault in a `sample` argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingError {
    /// No `:` between ranges and size.
    MissingSize,
    /// The size is not a positive number.
    BadSize,
    /// A range is not `<low>` or `<low>-<high>` with positive numbers and low ≤ high.
    BadRange,
    Overlap,
    /// A range ends beyond the size.
    BeyondSize,
    /// More than [`MAX_RANGES`] ranges.
    TooMany,
}

impl fmt::Display for SamplingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingSize => "expects '<ranges>:<sample_size>'",
            Self::BadSize => "the sample size must be a positive integer",
            Self::BadRange => "a range is '<low>' or '<low>-<high>', counted from 1",
            Self::Overlap => "sampling ranges must not overlap",
            Self::BeyondSize => "a sampling range ends beyond the sample size",
            Self::TooMany => "too many sampling ranges",
        })
    }
}

impl std::error::Error for SamplingError {}

impl SampleRanges {
    /// Parses `<range>[,<range>...]:<size>`.
    pub fn parse(text: &str) -> Result<Self, SamplingError> {
        let (ranges, size) = text.split_once(':').ok_or(SamplingError::MissingSize)?;
        let size = number(size).ok_or(SamplingError::BadSize)?;
        let mut parsed = Vec::new();
        for range in ranges.split(',') {
            if parsed.len() == MAX_RANGES {
                return Err(SamplingError::TooMany);
            }
            parsed.push(range_of(range).ok_or(SamplingError::BadRange)?);
        }
        parsed.sort_unstable();
        if parsed.windows(2).any(|pair| pair[1].0 <= pair[0].1) {
            return Err(SamplingError::Overlap);
        }
        if parsed.last().is_some_and(|last| last.1 > size) {
            return Err(SamplingError::BeyondSize);
        }
        Ok(Self { ranges: parsed, size })
    }

    /// Whether to send message `number`, counted from 0.
    pub fn takes(&self, number: u64) -> bool {
        let place = (number % u64::from(self.size)) as u32 + 1;
        self.ranges.iter().any(|&(low, high)| (low..=high).contains(&place))
    }
}

fn range_of(text: &str) -> Option<(u32, u32)> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (number(low)?, number(high)?);
    (low <= high).then_some((low, high))
}

/// A positive number without sign.
fn number(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let ranges = SampleRanges::parse(text).unwrap();
        let taken: String =
            (0..expected.len() as u64).map(|n| if ranges.takes(n) { 'x' } else { '.' }).collect();
        assert_eq!(taken, expected, "{text}");
    }

    #[test]
    fn sample_ranges_repeat_with_their_cycle() {
        check("1:3", "x..x..x..");
        check("2-3:3", ".xx.xx");
        check("2-3,6,8:8", ".xx..x.x.xx..x.x");
        check("8,6,2-3:8", ".xx..x.x");
        check("1:1", "xxxx");
    }

    #[test]
    fn invalid_sample_ranges_give_specific_errors() {
        for (text, expected) in [
            ("1-3", SamplingError::MissingSize),
            ("1:0", SamplingError::BadSize),
            ("1:x", SamplingError::BadSize),
            ("0:3", SamplingError::BadRange),
            (":3", SamplingError::BadRange),
            ("3-2:3", SamplingError::BadRange),
            ("+1:3", SamplingError::BadRange),
            ("1-2,2-3:3", SamplingError::Overlap),
            ("4:3", SamplingError::BeyondSize),
        ] {
            assert_eq!(SampleRanges::parse(text), Err(expected), "{text}");
        }
    }
}
