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

/// The window of each new stream of the peer: the widest one that the peer may use, until it acknowledged the latest settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitialWindow {
    /// A number of bytes. Without alignment, because every idle connection holds it.
    size: [u8; 4],
    unacknowledged: UnacknowledgedSettings,
}

/// The settings of this end that were not acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UnacknowledgedSettings {
    First,
    /// Later ones, with a wider window.
    Wider,
    Nothing,
}

impl InitialWindow {
    /// That of the first settings. The peer may use the default before it knows these (RFC 9113, 6.5.3).
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

    /// By how many bytes it is wider than in the first settings.
    pub(crate) fn raised(self, first: u32) -> u32 {
        if self.unacknowledged == UnacknowledgedSettings::First { 0 } else { self.size() - first }
    }

    /// Whether settings were not acknowledged.
    pub(crate) fn awaits_acknowledgement(self) -> bool {
        self.unacknowledged != UnacknowledgedSettings::Nothing
    }

    /// Settings with this wider window are sent, while no stream receives.
    pub(crate) fn raise(&mut self, size: u32) {
        *self = InitialWindow { size: size.to_ne_bytes(), unacknowledged: UnacknowledgedSettings::Wider };
    }

    /// The peer acknowledged settings. For the first ones, returns the windows of streams before and after.
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

/// Bytes that were consumed and not given back yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowDebt(u32);

impl WindowDebt {
    /// Adds consumed bytes; returns the increment to send, once it is `part` of a window and so worth a frame.
    #[inline]
    pub(crate) fn add(&mut self, count: u32, part: u32) -> Option<u32> {
        self.add_until(count, |owed| owed >= part)
    }

    /// Adds consumed bytes of a window that several streams share; returns the increment to send, once it is `part` of
    /// the window or the peer may send no more than that without it. Bytes that some streams hold unread are missing
    /// for the others, which continue with half of the rest at a time.
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

/// Whether the peer is so far away that the initial window, filled once in each round trip, makes it slow. The first SETTINGS
/// measure that, and then PING.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Distance {
    /// When SETTINGS or PING were sent: the low bits of a time that is not 0.
    sent_ms: u32,
    /// Whether the answer is still to come.
    is_pending: bool,
    way: PeerDistance,
}

/// The known distance to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum PeerDistance {
    #[default]
    Unknown,
    /// All answers came late.
    Far,
    /// An answer came soon, once: only a busy machine makes a short way seem long.
    Near,
}

impl Distance {
    /// Whether to measure now: all answers have arrived, the last measurement is old, and none showed that the peer is
    /// near.
    pub(crate) fn begin_probe(&mut self, now_ms: u64) -> bool {
        let now_ms = low_bits(now_ms);
        let is_recent = self.sent_ms > 0 && now_ms.wrapping_sub(self.sent_ms) < EVERY_MS;
        if self.is_pending || is_recent || self.way == PeerDistance::Near {
            return false;
        }
        (self.sent_ms, self.is_pending) = (now_ms, true);
        true
    }

    /// The answer came.
    pub(crate) fn answered(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.is_pending) {
            // An answer that takes a month may seem to come at once.
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

/// How often the distance is measured at most, in milliseconds.
const EVERY_MS: u32 = 1000;
/// The shortest round trip of a peer that is far, in milliseconds: one initial window in this time is 16 MB/s.
pub(crate) const FAR_MS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_measured_by_one_ping_at_a_time() {
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
    fn a_window_may_be_negative_but_never_too_large_rfc_9113_6_9() {
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
    fn windows_are_given_back_by_parts() {
        let mut owed = WindowDebt::default();
        let given: Vec<_> = (0..6).filter_map(|_| owed.add(30, 50)).collect();
        assert_eq!(given, [60, 60, 60]);
        assert_eq!(owed.add(0, 0), None, "a frame that gives nothing is an error");
    }
}
