//! Points in time, in milliseconds, for timeouts.

/// Milliseconds of the monotonic clock. Later is greater; [`Tick::NEVER`] is the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(u64);

impl Tick {
    /// A deadline that never passes.
    pub const NEVER: Self = Self(u64::MAX);

    /// The time `milliseconds` after the clock's zero.
    pub const fn from_ms(milliseconds: u64) -> Self {
        Self(milliseconds)
    }

    /// Milliseconds since the clock's zero.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// The time `milliseconds` later.
    #[inline]
    #[must_use]
    pub const fn after(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(milliseconds))
    }

    /// The time after an optional timeout. [`Tick::NEVER`] without one.
    #[inline]
    #[must_use]
    pub const fn after_some(self, milliseconds: Option<u64>) -> Self {
        match milliseconds {
            Some(milliseconds) => self.after(milliseconds),
            None => Self::NEVER,
        }
    }

    /// Milliseconds from `earlier` until this point; 0 when it is not earlier.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whether this is [`Tick::NEVER`].
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tick_never_plus_any_delay_is_never() {
        assert!(Tick::NEVER.after(5).is_never() && Tick::from_ms(9).after_some(None).is_never());
        assert_eq!(Tick::from_ms(9).after_some(Some(4)), Tick::from_ms(13));
        assert_eq!(
            (Tick::from_ms(9).since(Tick::from_ms(4)), Tick::from_ms(4).since(Tick::from_ms(9))),
            (5, 0)
        );
    }
}
