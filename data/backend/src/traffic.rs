//! Statistics of a server's traffic, for `outlier-ejection` and `balance latency`.
//!
//! Each worker counts its own requests and is the only writer of its counts. A server has statistics only if a setting
//! needs them.

use weir_sync::LazyPerWorker;

use crate::health::Observation;
use crate::outlier::{OutlierRules, TrafficWindow};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// One connection or response, as an observation of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficSample {
    pub observation: Observation,
    /// The number of the calling worker. No other worker may use it.
    pub worker: usize,
    /// Response time of the server, in milliseconds. 0 if unknown.
    pub took_ms: u32,
}

#[derive(Default)]
pub(crate) struct ServerTraffic {
    tallies: Tallies,
    /// Consecutive errors over all workers. A success resets the count.
    errors_in_a_row: AtomicU32,
    /// The sums at the start of the current interval. Written by the worker that ends an interval.
    mark: TrafficTally,
    ejection: Ejection,
}

/// One tally for each worker that had traffic.
struct Tallies(LazyPerWorker<TrafficTally>);

impl Default for Tallies {
    fn default() -> Self {
        Tallies(LazyPerWorker::new(1))
    }
}

/// The counts of one worker.
#[derive(Default)]
struct TrafficTally {
    well: AtomicU64,
    errors: AtomicU64,
    took_ms: AtomicU64,
    /// The moving average of the response time, in 1/1024 ms. 0 before the first response.
    pace: AtomicU64,
    pace_at_ms: AtomicU64,
}

/// Whether a server is ejected. Written under the backend's lock.
#[derive(Default)]
struct Ejection {
    /// End of the ejection. 0 while not ejected.
    until_ms: AtomicU64,
    /// The duration of the last ejection, 0 before the first. `ended_ms` is its end.
    lasted_ms: AtomicU64,
    ended_ms: AtomicU64,
    /// The number of consecutive ejections before the last one, each soon after the other.
    former: AtomicU32,
    total: AtomicU64,
}

impl ServerTraffic {
    pub(crate) fn new(workers: usize) -> Self {
        ServerTraffic { tallies: Tallies(LazyPerWorker::new(workers)), ..ServerTraffic::default() }
    }

    /// Counts an observation and returns the number of consecutive errors, including this one.
    pub(crate) fn note(&self, seen: TrafficSample, now_ms: u64) -> u32 {
        let tally = self.tallies.0.of(seen.worker);
        tally.note(seen, now_ms);
        if seen.observation.is_well() {
            if self.errors_in_a_row.load(Ordering::Relaxed) > 0 {
                self.errors_in_a_row.store(0, Ordering::Relaxed);
            }
            return 0;
        }
        self.errors_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Resets the count of consecutive errors after an ejection.
    pub(crate) fn forget_errors(&self) {
        self.errors_in_a_row.store(0, Ordering::Relaxed);
    }

    /// Ends an interval and returns its counts.
    pub(crate) fn end_window(&self) -> TrafficWindow {
        let all = self.tallies.0.iter().map(TrafficTally::window);
        let all = all.fold(TrafficWindow::default(), |all, own| all.plus(&own));
        let window = all.minus(&self.mark.window());
        self.mark.well.store(all.well, Ordering::Relaxed);
        self.mark.errors.store(all.errors, Ordering::Relaxed);
        self.mark.took_ms.store(all.took_ms, Ordering::Relaxed);
        window
    }

    /// The average response time that this worker measured, in 1/1024 ms. `None` while unknown.
    pub(crate) fn pace(&self, worker: usize, now_ms: u64) -> Option<u64> {
        self.tallies.0.existing(worker)?.pace(now_ms)
    }

    pub(crate) fn is_ejected(&self) -> bool {
        self.ejection.until_ms.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn ejected_until_ms(&self) -> u64 {
        self.ejection.until_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn ejections(&self) -> u64 {
        self.ejection.total.load(Ordering::Relaxed)
    }

    /// Ejects the server and returns the duration in milliseconds.
    pub(crate) fn eject(&self, rules: &OutlierRules, now_ms: u64) -> u64 {
        let ejection = &self.ejection;
        let lasted_ms = ejection.lasted_ms.load(Ordering::Relaxed);
        let well_ms = now_ms.saturating_sub(ejection.ended_ms.load(Ordering::Relaxed));
        // If the server was back for as long as its last ejection, the duration restarts at the shortest.
        let former = match lasted_ms {
            0 => 0,
            _ if well_ms >= lasted_ms => 0,
            _ => ejection.former.load(Ordering::Relaxed).saturating_add(1),
        };
        let duration_ms = rules.duration_ms(former);
        ejection.former.store(former, Ordering::Relaxed);
        ejection.lasted_ms.store(duration_ms, Ordering::Relaxed);
        ejection.total.fetch_add(1, Ordering::Relaxed);
        ejection.until_ms.store(now_ms.saturating_add(duration_ms).max(1), Ordering::Relaxed);
        self.forget_errors();
        duration_ms
    }

    pub(crate) fn end_ejection(&self, now_ms: u64) {
        self.ejection.until_ms.store(0, Ordering::Relaxed);
        self.ejection.ended_ms.store(now_ms, Ordering::Relaxed);
        self.forget_errors();
    }
}

impl TrafficTally {
    /// Counts an observation. Only called by the tally's worker.
    fn note(&self, seen: TrafficSample, now_ms: u64) {
        let add = |counter: &AtomicU64, amount| {
            counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
        };
        let took_ms = u64::from(seen.took_ms);
        if seen.observation.is_well() {
            add(&self.well, 1);
            add(&self.took_ms, took_ms);
        } else {
            add(&self.errors, 1);
        }
        let former = self.pace(now_ms);
        // A fast error does not count as a fast response.
        let sample = match seen.observation.is_well() {
            true => took_ms * UNIT,
            false => {
                (took_ms * UNIT).max(ERROR_MS * UNIT).max(former.unwrap_or(0).saturating_mul(2)).min(MOST)
            }
        };
        let pace = match former {
            None => sample,
            Some(former) => former - former / WINDOW + sample / WINDOW,
        };
        self.pace.store(pace.clamp(1, MOST), Ordering::Relaxed);
        self.pace_at_ms.store(now_ms, Ordering::Relaxed);
    }

    fn window(&self) -> TrafficWindow {
        TrafficWindow {
            well: self.well.load(Ordering::Relaxed),
            errors: self.errors.load(Ordering::Relaxed),
            took_ms: self.took_ms.load(Ordering::Relaxed),
        }
    }

    /// The current average. Without new responses it halves every [`HALF_LIFE_MS`], so a slow server is tried again.
    fn pace(&self, now_ms: u64) -> Option<u64> {
        let pace = self.pace.load(Ordering::Relaxed);
        let silent_ms = now_ms.saturating_sub(self.pace_at_ms.load(Ordering::Relaxed));
        let (halvings, rest) = (silent_ms / HALF_LIFE_MS, silent_ms % HALF_LIFE_MS);
        let halved = u32::try_from(halvings).ok().and_then(|count| pace.checked_shr(count)).unwrap_or(0);
        (pace > 0).then(|| (halved - halved * rest / (2 * HALF_LIFE_MS)).max(1))
    }
}

/// Units of an average per millisecond.
const UNIT: u64 = 1024;
/// Averages cover about this many responses.
const WINDOW: u64 = 8;
/// An error counts as a response time of this many milliseconds, or twice the average if that is more.
const ERROR_MS: u64 = 1_000;
/// Milliseconds without responses after which an average is halved.
const HALF_LIFE_MS: u64 = 10_000;
/// The largest average: ten minutes.
const MOST: u64 = 600_000 * UNIT;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn seen(observation: Observation, took_ms: u32) -> TrafficSample {
        TrafficSample { observation, worker: 0, took_ms }
    }

    fn pace_ms(traffic: &ServerTraffic, now_ms: u64) -> Option<u64> {
        traffic.pace(0, now_ms).map(|pace| pace / UNIT)
    }

    #[test]
    fn the_average_response_time_follows_samples_and_decays() {
        let traffic = ServerTraffic::new(2);
        assert_eq!(pace_ms(&traffic, 0), None);
        traffic.note(seen(Observation::Responded, 100), 0);
        assert_eq!((pace_ms(&traffic, 0), traffic.pace(1, 0)), (Some(100), None));
        assert_eq!([5_000, 10_000, 20_000].map(|now| pace_ms(&traffic, now)), [75, 50, 25].map(Some));
        assert_eq!(traffic.pace(0, u64::MAX), Some(1), "it is known for ever");
        for now in 0..100 {
            traffic.note(seen(Observation::Responded, 20), now);
        }
        assert_eq!(pace_ms(&traffic, 100), Some(19));
        traffic.note(seen(Observation::WrongStatus, 1), 100);
        assert_eq!(pace_ms(&traffic, 100), Some(142));
        for _ in 0..1000 {
            traffic.note(seen(Observation::NoResponse, u32::MAX), 100);
        }
        assert!(traffic.pace(0, 100) <= Some(MOST));
    }

    #[test]
    fn a_traffic_window_counts_results_since_the_previous_window() {
        let traffic = ServerTraffic::new(2);
        traffic.note(seen(Observation::Responded, 7), 0);
        traffic.note(TrafficSample { worker: 1, ..seen(Observation::NoResponse, 9) }, 0);
        assert_eq!(traffic.end_window(), TrafficWindow { well: 1, errors: 1, took_ms: 7 });
        assert_eq!(traffic.end_window(), TrafficWindow::default());
        traffic.note(TrafficSample { worker: 1, ..seen(Observation::Connected, 5) }, 0);
        assert_eq!(traffic.end_window(), TrafficWindow { well: 1, errors: 0, took_ms: 5 });
    }

    #[test]
    fn consecutive_errors_are_counted_over_all_workers() {
        let traffic = ServerTraffic::new(2);
        let note = |observation, worker| traffic.note(TrafficSample { worker, ..seen(observation, 0) }, 0);
        assert_eq!([0, 1, 0].map(|worker| note(Observation::NotConnected, worker)), [1, 2, 3]);
        assert_eq!((note(Observation::Responded, 1), note(Observation::WrongStatus, 0)), (0, 1));
    }
}
