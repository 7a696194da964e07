//! Flow-control windows (RFC 9113, 5.2 and 6.9).

/// The initial size of a window in bytes (RFC 9113, 6.9.2).
pub const DEFAULT_WINDOW: u32 = 65_535;
/// The largest window in bytes (RFC 9113, 6.9.1).
pub const MAX_WINDOW: u32 = 0x7fff_ffff;

/// How many bytes one end may still send. A change of settings may make it negative (RFC 9113, 6.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window(i32);

/// A window would leave its valid range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overflow;

impl Window {
    pub fn new(size: u32) -> Window {
        Window(size.min(MAX_WINDOW) as i32)
    }

    /// How many bytes may be sent.
    #[inline]
    pub fn open(self) -> usize {
        self.0.max(0) as usize
    }

    /// Its size in bytes, which may be negative.
    pub fn size(self) -> i32 {
        self.0
    }

    /// Adds a WINDOW_UPDATE's increment.
    #[inline]
    pub fn widen(&mut self, increment: u32) -> Result<(), Overflow> {
        let wider = i64::from(self.0) + i64::from(increment);
        self.0 = i32::try_from(wider).map_err(|_| Overflow)?;
        Ok(())
    }

    /// Subtracts sent bytes.
    #[inline]
    pub fn use_up(&mut self, count: u32) -> Result<(), Overflow> {
        if i64::from(count) > i64::from(self.0.max(0)) {
            return Err(Overflow);
        }
        self.0 -= count as i32;
        Ok(())
    }

    /// Adjusts the window to a change of the initial size.
    pub fn shift(&mut self, before: u32, after: u32) -> Result<(), Overflow> {
        let shifted = i64::from(self.0) + i64::from(after) - i64::from(before);
        self.0 = i32::try_from(shifted).map_err(|_| Overflow)?;
        Ok(())
    }
}

/// Bytes that were consumed and not given back yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owed(u32);

impl Owed {
    /// Adds consumed bytes; returns the increment to send, once it is half of a window and so worth a frame.
    #[inline]
    pub fn add(&mut self, count: u32, window: u32) -> Option<u32> {
        self.0 = self.0.saturating_add(count);
        (self.0 > 0 && self.0 >= window / 2).then(|| std::mem::take(&mut self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_be_negative_but_never_too_large_rfc_9113_6_9() {
        let mut window = Window::new(10);
        assert_eq!(window.use_up(11), Err(Overflow));
        assert_eq!(window.use_up(10), Ok(()));
        assert_eq!(window.shift(10, 4), Ok(()));
        assert_eq!((window.open(), window.use_up(0)), (0, Ok(())));
        assert_eq!(window.use_up(1), Err(Overflow));
        assert_eq!(window.widen(7), Ok(()));
        assert_eq!(window.open(), 1);
        assert_eq!(window.widen(MAX_WINDOW), Err(Overflow));
        assert_eq!(window.widen(MAX_WINDOW - 1), Ok(()));
        assert_eq!(window.shift(0, 1), Err(Overflow));
        assert_eq!(Window::new(u32::MAX).open(), MAX_WINDOW as usize);
    }

    #[test]
    fn windows_are_given_back_by_halves() {
        let mut owed = Owed::default();
        let given: Vec<_> = (0..6).filter_map(|_| owed.add(30, 100)).collect();
        assert_eq!(given, [60, 60, 60]);
        assert_eq!(owed.add(0, 0), None, "a frame that gives nothing is an error");
    }
}
