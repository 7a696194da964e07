//! `filter bwlim-in` and `filter bwlim-out`: limit the bytes per period (manual, 9.7).
//!
//! Credit grows steadily with time. A stream that was quiet keeps at most [`GRAIN_MS`] of it, so in no period more passes
//! than the limit and that credit. Nothing passes at once: the average holds from the first byte on.

use std::cell::Cell;
use std::rc::Rc;

use weir_mux::{Failed, Filter, FilterOutput, More, Passed};
use weir_sched::Tick;

/// A number of bytes per period; neither is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    pub bytes: u64,
    /// The period, in milliseconds.
    pub period_ms: u64,
}

/// The rate in force, none until a rule enables the filter.
pub(crate) type Limit = Rc<Cell<Option<Rate>>>;

/// One direction's limit.
#[derive(Debug)]
pub(crate) struct Bandwidth {
    limit: Limit,
    min_size: u64,
    /// The rate to which `credit` belongs.
    rate: Option<Rate>,
    /// The credit, in bytes times the period, so that nothing is lost to rounding.
    credit: u128,
    /// When `credit` was computed.
    since: Tick,
}

impl Bandwidth {
    /// A limit that rules set. At least `min_size` bytes pass at a time, or all there are.
    pub(super) fn new(limit: Limit, min_size: u64) -> Self {
        Bandwidth { limit, min_size, rate: None, credit: 0, since: Tick::from_ms(0) }
    }

    /// The least that passes at a time, if that much is available.
    fn grain(&self, rate: Rate) -> u64 {
        let grain = u128::from(rate.bytes) * u128::from(GRAIN_MS) / u128::from(rate.period_ms);
        u64::try_from(grain).unwrap_or(u64::MAX).max(self.min_size).max(1)
    }

    /// Updates the credit.
    fn earn(&mut self, rate: Rate, now: Tick) {
        if self.rate != Some(rate) {
            self.rate = Some(rate);
            self.credit = 0;
            self.since = now;
        }
        let earned = u128::from(rate.bytes) * u128::from(now.since(self.since));
        let most = u128::from(self.grain(rate)) * u128::from(rate.period_ms);
        self.credit = (self.credit + earned).min(most);
        self.since = now;
    }
}

impl Filter for Bandwidth {
    fn payload(
        &mut self,
        bytes: &[u8],
        _: More,
        now: Tick,
        _: &mut FilterOutput<'_>,
    ) -> Result<Passed, Failed> {
        Ok(self.admit(bytes, now))
    }
}

impl Bandwidth {
    fn admit(&mut self, bytes: &[u8], now: Tick) -> Passed {
        let Some(rate) = self.limit.get() else { return Passed::all(bytes) };
        self.earn(rate, now);
        let period = u128::from(rate.period_ms);
        let there = bytes.len() as u64;
        let allowed = u64::try_from(self.credit / period).unwrap_or(u64::MAX).min(there);
        let wait_for = |left: u64, credit: u128| {
            let missing = (u128::from(left.min(self.grain(rate))) * period).saturating_sub(credit);
            let wait = missing.div_ceil(u128::from(rate.bytes));
            now.after(u64::try_from(wait).unwrap_or(u64::MAX).max(1))
        };
        if allowed < there.min(self.grain(rate)) {
            return Passed { count: 0, replaced: false, until: wait_for(there, self.credit) };
        }
        let credit = self.credit - u128::from(allowed) * period;
        let until = if allowed == there { Tick::NEVER } else { wait_for(there - allowed, credit) };
        self.credit = credit;
        Passed { count: allowed as usize, replaced: false, until }
    }
}

/// The shortest wait before more passes, in milliseconds: twenty wake-ups a second cost little compared with the bytes moved.
const GRAIN_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(rate: Option<(u64, u64)>, min_size: u64) -> Bandwidth {
        let rate = rate.map(|(bytes, period_ms)| Rate { bytes, period_ms });
        Bandwidth::new(Rc::new(Cell::new(rate)), min_size)
    }

    /// Offers pieces of `piece` bytes until `total` passed: returns the time in ms, and the sizes that passed.
    fn run(filter: &mut Bandwidth, total: usize, piece: usize) -> (u64, Vec<usize>) {
        let began = 1_000_000;
        let (mut now, mut sizes) = (Tick::from_ms(began), Vec::new());
        let bytes = vec![0; piece];
        while sizes.iter().sum::<usize>() < total {
            let there = piece.min(total - sizes.iter().sum::<usize>());
            let passed = filter.admit(&bytes[..there], now);
            if passed.count > 0 {
                sizes.push(passed.count);
            }
            assert!(!passed.replaced);
            if passed.count < there {
                assert!(passed.until > now, "who holds back says until when");
                now = passed.until;
            }
        }
        (now.as_ms() - began, sizes)
    }

    #[track_caller]
    fn check_rate(rate: (u64, u64), total: usize, piece: usize, want_ms: u64) {
        let (took, _) = run(&mut filter(Some(rate), 0), total, piece);
        assert!(took.abs_diff(want_ms) <= want_ms / 100 + 1, "{rate:?} {total}: {took} ms, not {want_ms}");
    }

    #[test]
    fn passes_bytes_at_the_rate() {
        // HAProxy 3.2 takes 2.94 s and 5.87 s for the first two rates.
        check_rate((102_400, 1000), 300_000, 16_384, 2930);
        check_rate((102_400, 1000), 600_000, 16_384, 5860);
        check_rate((102_400, 10_000), 30_000, 16_384, 2930);
        check_rate((1, 1000), 5, 100, 5000);
        check_rate((1, 1), 500, 7, 500);
        check_rate((1_000_000_000, 1000), 50_000_000, 16_384, 50);
        check_rate((3, 7000), 9, 100, 21_000);
        check_rate((u64::MAX, u64::MAX), 10, 100, 10);
    }

    #[test]
    fn holds_nothing_back_without_a_rule() {
        assert_eq!(run(&mut filter(None, 1000), 1_000_000, 1000).0, 0);
    }

    #[test]
    fn a_pause_does_not_allow_a_burst() {
        let mut limited = filter(Some((1000, 1000)), 0);
        let bytes = [0; 2000];
        let now = Tick::from_ms(5000);
        let held = limited.admit(&bytes, now);
        assert_eq!((held.count, held.until), (0, now.after(50)));
        let later = limited.admit(&bytes, now.after(100_000));
        assert_eq!((later.count, later.until), (50, now.after(100_050)));
    }

    #[test]
    fn passes_less_than_the_minimum_only_at_the_end() {
        let (took, sizes) = run(&mut filter(Some((10_000, 1000)), 3000), 10_000, 16_384);
        assert_eq!(sizes, [3000, 3000, 3000, 1000]);
        assert_eq!(took, 1000);
        // More than a period's bytes at a time: the transfer pauses, as the manual warns.
        let (_, sizes) = run(&mut filter(Some((1000, 1000)), 5000), 12_000, 16_384);
        assert_eq!(sizes, [5000, 5000, 2000]);
    }

    #[test]
    fn a_new_rate_applies_from_the_time_it_is_set() {
        let mut limited = filter(Some((100, 1000)), 0);
        run(&mut limited, 100, 100);
        limited.limit.set(Some(Rate { bytes: 10_000, period_ms: 1000 }));
        let (took, _) = run(&mut limited, 10_000, 10_000);
        assert_eq!(took, 1000);
    }
}
