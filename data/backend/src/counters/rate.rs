//! Events per second over several workers, and the highest number in one second.
//!
//! `weir_events::Rate` measures one writer. Here the sum over workers needs an exact maximum, although no
//! thread observes each increment of the sum. So all workers count by the same seconds and keep the
//! counts of the last two seconds, each packed with its second into one word for atomic reads. Before a
//! worker overwrites an old count, that second's sum was applied to the maximum. The seconds of a rate begin with its first event
//! after a rest, as HAProxy's do: a short burst counts in full for one second, and is not cut by a border.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Where the seconds of a rate begin: milliseconds after those of the clock.
#[derive(Default)]
pub(super) struct SecondsStart(AtomicU32);

impl SecondsStart {
    /// The time by the seconds of the rate.
    #[inline]
    pub(super) fn time(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(u64::from(self.0.load(Ordering::Relaxed)))
    }

    /// Lets the seconds begin now. Call it only while no count is of the current second or the one before. A second keeps its
    /// number, or gets a higher one.
    pub(super) fn begin(&self, now_ms: u64) {
        let before = self.0.load(Ordering::Relaxed);
        // Another worker may have done it meanwhile, and counted.
        let _ = self.0.compare_exchange(
            before,
            (now_ms % SECOND_MS) as u32,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

/// The counts of the last two seconds with events, indexed by the second's parity.
#[derive(Default)]
pub(super) struct SecondCounts([AtomicU64; 2]);

impl SecondCounts {
    /// Whether the next event at this time counts in the same second as a former one.
    #[inline]
    pub(super) fn is_counting(&self, time: u64) -> bool {
        let (counted, count) = unpack(self.slot(second_of(time)).load(Ordering::Relaxed));
        counted == second_of(time) && count > 0
    }

    /// The ended second that the next event at this time will overwrite, if any.
    pub(super) fn ended_second(&self, time: u64) -> Option<u32> {
        let second = second_of(time);
        let (counted, count) = unpack(self.slot(second).load(Ordering::Relaxed));
        (counted != second && count > 0).then_some(counted)
    }

    /// Whether nothing was counted in the current second and the one before.
    pub(super) fn rests(&self, time: u64) -> bool {
        let second = second_of(time);
        self.of_second(second) == 0 && self.of_second(second.wrapping_sub(1)) == 0
    }

    /// Counts events. Call it only on the owning worker.
    pub(super) fn add(&self, events: u32, time: u64) {
        let second = second_of(time);
        let count = self.of_second(second).saturating_add(events);
        self.slot(second).store(u64::from(second) << 32 | u64::from(count), Ordering::Relaxed);
    }

    pub(super) fn of_second(&self, second: u32) -> u32 {
        let (counted, count) = unpack(self.slot(second).load(Ordering::Relaxed));
        if counted == second { count } else { 0 }
    }

    /// The seconds of the two counts kept.
    pub(super) fn seconds(&self) -> [u32; 2] {
        [0, 1].map(|parity: usize| unpack(self.0[parity].load(Ordering::Relaxed)).0)
    }

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }

    fn slot(&self, second: u32) -> &AtomicU64 {
        &self.0[(second & 1) as usize]
    }
}

/// The events of all workers in the second that ends now: the events of the current second, plus the
/// share of the previous one that still falls into it.
pub(super) fn read<'a>(workers: impl Iterator<Item = &'a SecondCounts>, time: u64) -> u32 {
    let second = second_of(time);
    let (current, previous) = workers.fold((0u64, 0u64), |(current, previous), counts| {
        let before = counts.of_second(second.wrapping_sub(1));
        (current + u64::from(counts.of_second(second)), previous + u64::from(before))
    });
    // A single event counts in full for two seconds. Otherwise the rate would alternate between 1 and 0.
    if current == 0 && previous <= 1 {
        return previous as u32;
    }
    let rest = SECOND_MS - time % SECOND_MS;
    u32::try_from(current + previous * rest / SECOND_MS).unwrap_or(u32::MAX)
}

const SECOND_MS: u64 = 1_000;

fn second_of(time: u64) -> u32 {
    // Wraps after 136 years of uptime.
    (time / SECOND_MS) as u32
}

fn unpack(slot: u64) -> (u32, u32) {
    ((slot >> 32) as u32, slot as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_maximum_rate_is_known_when_the_slot_of_a_second_is_reused() {
        let counts = SecondCounts::default();
        assert_eq!(counts.ended_second(10_500), None, "nothing was counted");
        counts.add(1, 10_500);
        assert_eq!(
            [10_900, 11_500, 12_000].map(|now_ms| counts.ended_second(now_ms)),
            [None, None, Some(10)]
        );
    }

    #[test]
    fn the_previous_second_counts_for_the_part_not_yet_elapsed() {
        let counts = SecondCounts::default();
        (0..100).for_each(|_| counts.add(1, 10_500));
        for (now_ms, expected) in
            [(10_500, 100), (10_999, 100), (11_000, 100), (11_250, 75), (11_990, 1), (12_000, 0), (99_000, 0)]
        {
            assert_eq!(read([&counts].into_iter(), now_ms), expected, "at {now_ms}");
        }
    }

    #[test]
    fn an_event_counts_until_the_end_of_the_next_second() {
        let counts = SecondCounts::default();
        counts.add(1, 7_999);
        assert_eq!(read([&counts].into_iter(), 8_999), 1);
        assert_eq!(read([&counts].into_iter(), 9_000), 0);
    }
}
