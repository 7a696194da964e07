//! Flow-control windows (RFC 9113, 5.2 and 6.9).

/// The initial size of a window in bytes (RFC 9113, 6.9.2).
pub(crate) const DEFAULT_WINDOW: u32 = 65_535;
/// The largest window in bytes (RFC 9113, 6.9.1).
pub(crate) const MAX_WINDOW: u32 = 0x7fff_ffff;

/// How many bytes one end may still send. A change of settings may make it negative (RFC 9113, 6.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowWindow(i32);

/// A window would leave its valid range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overflow;

impl FlowWindow {
    pub(crate) fn new(size: u32) -> FlowWindow {
        FlowWindow(size.min(MAX_WINDOW) as i32)
    }

    /// How many bytes may be sent.
    #[inline]
    pub(crate) fn open(self) -> usize {
        self.0.max(0) as usize
    }

    /// Its size in bytes, which may be negative.
    pub(crate) fn size(self) -> i32 {
        self.0
    }

    /// Adds a WINDOW_UPDATE's increment.
    #[inline]
    pub(crate) fn widen(&mut self, increment: u32) -> Result<(), Overflow> {
        let wider = i64::from(self.0) + i64::from(increment);
        self.0 = i32::try_from(wider).map_err(|_| Overflow)?;
        Ok(())
    }

    /// Subtracts sent bytes.
    #[inline]
    pub(crate) fn use_up(&mut self, count: u32) -> Result<(), Overflow> {
        if i64::from(count) > i64::from(self.0.max(0)) {
            return Err(Overflow);
        }
        self.0 -= count as i32;
        Ok(())
    }

    /// Adjusts the window to a change of the initial size.
    pub(crate) fn shift(&mut self, before: u32, after: u32) -> Result<(), Overflow> {
        let shifted = i64::from(self.0) + i64::from(after) - i64::from(before);
        self.0 = i32::try_from(shifted).map_err(|_| Overflow)?;
        Ok(())
    }
}

/// Initial receive window of the peer's streams. Until the peer acknowledges the latest SETTINGS, the largest one that it may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialWindow {
    /// Size in bytes, stored without alignment, because every idle connection holds it.
    size: [u8; 4],
    unacknowledged: UnacknowledgedSettings,
}

/// SETTINGS of this end that the peer has not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnacknowledgedSettings {
    First,
    /// Later ones, with a wider window.
    Wider,
    Nothing,
}

impl InitialWindow {
    /// The window in the first SETTINGS. The peer may use the default until it receives them (RFC 9113, 6.5.3).
    pub(crate) fn new(first: u32) -> InitialWindow {
        InitialWindow {
            size: first.max(DEFAULT_WINDOW).to_ne_bytes(),
            unacknowledged: UnacknowledgedSettings::First,
        }
    }

    /// In bytes.
    pub(crate) fn size(self) -> u32 {
        u32::from_ne_bytes(self.size)
    }

    /// Bytes by which the window exceeds that in the first SETTINGS.
    pub(crate) fn raised(self, first: u32) -> u32 {
        if self.unacknowledged == UnacknowledgedSettings::First { 0 } else { self.size() - first }
    }

    /// Whether settings were not acknowledged.
    pub(crate) fn awaits_acknowledgement(self) -> bool {
        self.unacknowledged != UnacknowledgedSettings::Nothing
    }

    /// Records that SETTINGS with this wider window are sent. No stream may be receiving.
    pub(crate) fn raise(&mut self, size: u32) {
        *self = InitialWindow { size: size.to_ne_bytes(), unacknowledged: UnacknowledgedSettings::Wider };
    }

    /// Records an acknowledgement of SETTINGS. For the first SETTINGS, returns the initial window before and after.
    pub(crate) fn acknowledged(&mut self, first: u32) -> Option<(u32, u32)> {
        let before = self.size();
        if std::mem::replace(&mut self.unacknowledged, UnacknowledgedSettings::Nothing)
            != UnacknowledgedSettings::First
        {
            return None;
        }
        self.size = first.to_ne_bytes();
        Some((before, first))
    }
}

/// Consumed bytes for which no WINDOW_UPDATE was sent yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowDebt(u32);

impl WindowDebt {
    /// Adds consumed bytes; returns the increment to send, once it is `part` of a window and so worth a frame.
    #[inline]
    pub(crate) fn add(&mut self, count: u32, part: u32) -> Option<u32> {
        self.add_until(count, |owed| owed >= part)
    }

    /// Adds consumed bytes of a window that several streams share; returns the increment to send, once it is `part` of
    /// the window or at least as large as the peer's remaining window (`open`). Unread bytes of some streams reduce the
    /// window of the others, which continue with half of the rest at a time.
    #[inline]
    pub(crate) fn add_shared(&mut self, count: u32, open: usize, part: u32) -> Option<u32> {
        self.add_until(count, |owed| owed >= part || owed as usize >= open)
    }

    /// Adds consumed bytes of a body that has ended; returns the increment to send once all `missing` bytes of its window are consumed.
    pub(crate) fn add_last(&mut self, count: u32, missing: i64) -> Option<u32> {
        self.add_until(count, |owed| i64::from(owed) == missing)
    }

    #[inline]
    fn add_until(&mut self, count: u32, is_due: impl FnOnce(u32) -> bool) -> Option<u32> {
        self.0 = self.0.saturating_add(count);
        (self.0 > 0 && is_due(self.0)).then(|| std::mem::take(&mut self.0))
    }

    /// How many bytes these are.
    pub(crate) fn bytes(self) -> usize {
        self.0 as usize
    }
}

/// Whether the round trip to the peer is so long that one initial window per round trip limits throughput. Measured
/// with the first SETTINGS, then with PING.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    /// When SETTINGS or PING was sent: the low 32 bits of the time in milliseconds. 0 is unset.
    sent_ms: u32,
    /// Whether the acknowledgement is outstanding.
    is_pending: bool,
    way: PeerDistance,
}

/// The known distance to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PeerDistance {
    #[default]
    Unknown,
    /// All acknowledgements took at least [`FAR_MS`].
    Far,
    /// One acknowledgement took less than [`FAR_MS`]. This is final, because only load makes a short path look long.
    Near,
}

impl Distance {
    /// Whether to measure now: no measurement is pending, the last one is at least [`EVERY_MS`] old, and the peer is not known to be near.
    pub(crate) fn begin_probe(&mut self, now_ms: u64) -> bool {
        let now_ms = low_bits(now_ms);
        let is_recent = self.sent_ms > 0 && now_ms.wrapping_sub(self.sent_ms) < EVERY_MS;
        if self.is_pending || is_recent || self.way == PeerDistance::Near {
            return false;
        }
        (self.sent_ms, self.is_pending) = (now_ms, true);
        true
    }

    /// Records the acknowledgement.
    pub(crate) fn answered(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.is_pending) {
            // The low bits wrap after 49 days, so a very late acknowledgement may look fast.
            let is_late = low_bits(now_ms).wrapping_sub(self.sent_ms) >= FAR_MS;
            self.way = if is_late { PeerDistance::Far } else { PeerDistance::Near };
        }
    }

    pub(crate) fn is_far(&self) -> bool {
        self.way == PeerDistance::Far
    }

    pub(crate) fn is_near(&self) -> bool {
        self.way == PeerDistance::Near
    }
}

/// The low bits of a time in milliseconds, for [`Distance`]; never 0, which means unset.
fn low_bits(now_ms: u64) -> u32 {
    (now_ms as u32).max(1)
}

/// Minimum interval between two measurements of the distance, in milliseconds.
const EVERY_MS: u32 = 1000;
/// The shortest round trip of a peer that is far, in milliseconds: one initial window in this time is 16 MB/s.
pub(crate) const FAR_MS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_round_trip_time_is_measured_by_one_ping_at_a_time() {
        // Also where the low bits of the time begin again.
        for start in [1, (1 << 32) - 2, 1 << 32, (1 << 40) + 7] {
            let (every, far) = (u64::from(EVERY_MS), u64::from(FAR_MS));
            let mut distance = Distance::default();
            assert!(distance.begin_probe(start) && !distance.begin_probe(start + 5000), "one in transit");
            distance.answered(start + far + 1);
            assert!(distance.is_far());
            let again = start + every + 1;
            assert!(!distance.begin_probe(start + every - 1) && distance.begin_probe(again));
            distance.answered(again + far);
            assert!(distance.is_far());
            distance.answered(again + far);
            assert!(
                distance.is_far() && distance.begin_probe(again + 5000),
                "an answer to nothing measures nothing"
            );
            distance.answered(again + 5000 + far - 1);
            assert!(
                !distance.is_far() && !distance.begin_probe(again + 50_000),
                "it is near, whatever another measurement would say"
            );
            let mut distance = Distance::default();
            assert!(distance.begin_probe(start));
            distance.answered(start);
            assert!(!distance.is_far());
        }
    }

    #[test]
    fn a_flow_window_may_be_negative_but_not_too_large_rfc_9113_6_9() {
        let mut window = FlowWindow::new(10);
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
        assert_eq!(FlowWindow::new(u32::MAX).open(), MAX_WINDOW as usize);
    }

    #[test]
    fn window_updates_are_sent_for_parts_of_the_window() {
        let mut owed = WindowDebt::default();
        let given: Vec<_> = (0..6).filter_map(|_| owed.add(30, 50)).collect();
        assert_eq!(given, [60, 60, 60]);
        assert_eq!(owed.add(0, 0), None, "a frame that gives nothing is an error");
    }
}
