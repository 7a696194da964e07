//! Weights and slot limits that depend on time and load.
//!
//! A server has an initial weight (configuration), a user weight (runtime API) and an effective
//! one, which slow start scales. Effective weights count in sixteenths so that a ramp has steps
//! even for weight 1.

use crate::settings::MAXIMUM_WEIGHT;

/// Sixteenths in one unit of weight.
pub const WEIGHT_SCALE: u32 = 16;

/// The progress of a slow start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// Milliseconds since the server came up.
    pub elapsed_ms: u64,
    /// Milliseconds that the whole ramp takes. 0 disables it.
    pub duration_ms: u64,
}

impl Ramp {
    /// No slow start, or one that is over.
    pub const OVER: Self = Self { elapsed_ms: 0, duration_ms: 0 };

    /// Whether the slow start is over.
    #[must_use]
    pub const fn is_over(self) -> bool {
        self.elapsed_ms >= self.duration_ms
    }

    /// The share of `full` at this point of the ramp, growing linearly from 1.
    #[must_use]
    pub fn share_of(self, full: u32) -> u32 {
        if self.is_over() || full == 0 {
            return full;
        }
        let share = u128::from(full) * u128::from(self.elapsed_ms) / u128::from(self.duration_ms);
        // The share is less than `full`, because the ramp is not over. So it fits.
        u32::try_from(share).unwrap_or(full).max(1)
    }

    /// The throttle percentage that statistics show while a server starts.
    #[must_use]
    pub fn percentage(self) -> u32 {
        self.share_of(100)
    }
}

/// The effective weight in sixteenths.
#[must_use]
pub fn effective(user_weight: u32, ramp: Ramp) -> u32 {
    ramp.share_of(user_weight.min(MAXIMUM_WEIGHT) * WEIGHT_SCALE)
}

/// An effective weight in the units that an operator configures, rounded up.
#[must_use]
pub const fn displayed(effective: u32) -> u32 {
    effective.div_ceil(WEIGHT_SCALE)
}

/// A new weight from the runtime API or an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightChange {
    /// In units, 0 to 256.
    Absolute(u32),
    /// In per cent of the configured weight. The result is capped at 256.
    Percentage(u32),
}

impl WeightChange {
    /// Parses `<weight>` or `<weight>%`, with or without a sign.
    ///
    /// # Errors
    /// HAProxy's error text.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const EMPTY: &str = "Empty weight string empty or preceded by garbage";
        const RELATIVE: &str = "Relative weight must be positive.";
        const ABSOLUTE: &str = "Absolute weight can only be between 0 and 256 inclusive.";
        if text.is_empty() {
            return Err("Require <weight> or <weight%>.");
        }
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let (digits, rest) = unsigned.split_at(unsigned.bytes().take_while(u8::is_ascii_digit).count());
        if digits.is_empty() {
            return Err(EMPTY);
        }
        // A number that overflows is out of every range.
        let number = digits.parse().unwrap_or(u32::MAX);
        let is_negative = text.starts_with('-') && number > 0;
        match rest {
            "%" if is_negative => Err(RELATIVE),
            "%" => Ok(Self::Percentage(number)),
            _ if is_negative => Err(ABSOLUTE),
            "" if number <= MAXIMUM_WEIGHT => Ok(Self::Absolute(number)),
            "" => Err(ABSOLUTE),
            _ => Err("Trailing garbage in weight string"),
        }
    }

    /// The resulting user weight.
    #[must_use]
    pub fn apply(self, initial: u32) -> u32 {
        match self {
            Self::Absolute(weight) => weight.min(MAXIMUM_WEIGHT),
            Self::Percentage(percentage) => {
                let weight = u64::from(initial) * u64::from(percentage) / 100;
                u32::try_from(weight).unwrap_or(MAXIMUM_WEIGHT).min(MAXIMUM_WEIGHT)
            }
        }
    }
}

/// The current number of slots of a server. [`u32::MAX`] is unlimited.
///
/// Between `minconn` and `maxconn` the limit follows the backend's load, as a share of `fullconn`
/// (manual, "fullconn"). A slow start scales the result. The limit is never 0, so a server without
/// requests always accepts one. The queue's progress relies on that.
#[must_use]
pub fn slot_limit(minimum: u32, maximum: u32, backend_load: u32, full: u32, ramp: Ramp) -> u32 {
    let maximum = maximum.max(minimum);
    if maximum == 0 {
        return u32::MAX;
    }
    let limit = if minimum == 0 || minimum == maximum || full == 0 || backend_load >= full {
        maximum
    } else {
        let on_the_ramp = u64::from(backend_load) * u64::from(maximum) / u64::from(full);
        minimum.max(u32::try_from(on_the_ramp).unwrap_or(maximum))
    };
    ramp.share_of(limit).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_start_raises_the_weight_linearly() {
        let at = |elapsed_ms| effective(10, Ramp { elapsed_ms, duration_ms: 1_000 });
        assert_eq!([at(0), at(1), at(500), at(999), at(1_000), at(9_999)], [1, 1, 80, 159, 160, 160]);
        assert_eq!(Ramp { elapsed_ms: 250, duration_ms: 1_000 }.percentage(), 25);
        assert_eq!(effective(0, Ramp { elapsed_ms: 500, duration_ms: 1_000 }), 0);
    }

    #[test]
    fn the_dynamic_maxconn_follows_the_load_of_the_backend() {
        #[track_caller]
        fn check(minimum: u32, maximum: u32, load: u32, full: u32, expected: u32) {
            assert_eq!(slot_limit(minimum, maximum, load, full, Ramp::OVER), expected);
        }
        check(0, 0, 50, 100, u32::MAX);
        check(0, 10, 0, 100, 10);
        check(10, 0, 0, 100, 10);
        check(100, 1000, 0, 10_000, 100);
        check(100, 1000, 1_000, 10_000, 100);
        check(100, 1000, 5_000, 10_000, 500);
        check(100, 1000, 10_000, 10_000, 1000);
        check(100, 1000, 20_000, 10_000, 1000);
        check(100, 1000, 5, 0, 1000);
        check(20, 10, 0, 100, 20);
        assert_eq!(slot_limit(0, 10, 0, 0, Ramp { elapsed_ms: 0, duration_ms: 5 }), 1);
        assert_eq!(slot_limit(0, 10, 0, 0, Ramp { elapsed_ms: 3, duration_ms: 6 }), 5);
    }

    #[test]
    fn weight_percentages_apply_to_the_configured_weight() {
        assert_eq!(WeightChange::Percentage(50).apply(10), 5);
        assert_eq!(WeightChange::Percentage(0).apply(10), 0);
        assert_eq!(WeightChange::Percentage(u32::MAX).apply(256), 256);
        assert_eq!(WeightChange::Absolute(300).apply(1), 256);
    }

    /// The results of HAProxy 3.2, for operators and agents.
    #[test]
    fn parses_absolute_and_relative_weights() {
        use WeightChange::{Absolute, Percentage};
        for (text, expected) in [
            ("0", Ok(Absolute(0))),
            ("256", Ok(Absolute(256))),
            ("+5", Ok(Absolute(5))),
            ("-0", Ok(Absolute(0))),
            ("257", Err("Absolute")),
            ("99999999999999999999", Err("Absolute")),
            ("-5", Err("Absolute")),
            ("-5x", Err("Absolute")),
            ("50%", Ok(Percentage(50))),
            ("+5%", Ok(Percentage(5))),
            ("-0%", Ok(Percentage(0))),
            ("99999999999999999999%", Ok(Percentage(u32::MAX))),
            ("-5%", Err("Relative")),
            ("", Err("Require")),
            ("%", Err("Empty")),
            ("-", Err("Empty")),
            ("+%", Err("Empty")),
            ("-x", Err("Empty")),
            ("x", Err("Empty")),
            ("10x", Err("Trailing")),
            ("5%%", Err("Trailing")),
            ("0x10", Err("Trailing")),
        ] {
            match (WeightChange::parse(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{text}: {found}"),
                (found, expected) => panic!("{text}: {found:?} instead of {expected:?}"),
            }
        }
        assert_eq!(Percentage(200).apply(10), 20);
        assert_eq!(Percentage(u32::MAX).apply(10), MAXIMUM_WEIGHT);
    }
}
