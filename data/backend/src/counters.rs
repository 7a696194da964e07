//! Counters of proxies, listeners and servers (design D9).
//!
//! [`ObjectCounters`] holds one block per worker: counters, rates and averages that only this worker writes, with plain
//! stores. A worker's block is allocated at its first write. Readers sum the blocks. Maxima of sums are updated when a
//! second ends or when they are read. The rows in `counters/rows.rs` define the counters of each kind of object.

mod average;
mod latency;
mod rate;
mod rows;

use std::marker::PhantomData;
use std::sync::{Mutex, PoisonError};

use weir_sync::{Counter, LazyBox, LazyPerWorker};

use average::Averages;
pub use average::{Phase, Phases};
pub use latency::{LatencyHistograms, LatencyReading, PhaseDurations};
use rate::{SecondCounts, SecondsStart};
pub use rows::{
    BackendCounter, CounterSet, FrontendCounter, FrontendRate, ListenerCounter, ProcessCounter, ProcessRate,
    ServerCounter,
};

use crate::sync::{AtomicU32, Ordering, raise};

/// The counters of a frontend.
pub type FrontendCounters = ObjectCounters<FrontendCounter, { FrontendCounter::COUNT }, 3>;
/// The counters of a backend.
pub type BackendCounters = ObjectCounters<BackendCounter, { BackendCounter::COUNT }, 1>;
/// The counters of a server.
pub type ServerCounters = ObjectCounters<ServerCounter, { ServerCounter::COUNT }, 1>;
/// The counters of a listener.
pub type ListenerCounters = ObjectCounters<ListenerCounter, { ListenerCounter::COUNT }, 1>;
/// The counters of the process as a whole.
pub type ProcessRates = ObjectCounters<ProcessCounter, { ProcessCounter::COUNT }, { ProcessRate::COUNT }>;

/// The counters, rates and averages of one object. `C` enumerates the counters. `COUNTERS` and `RATES` are their numbers.
pub struct ObjectCounters<C, const COUNTERS: usize, const RATES: usize> {
    workers: LazyPerWorker<WorkerBlock<COUNTERS, RATES>>,
    rate_maxima: [AtomicU32; RATES],
    rate_starts: [SecondsStart; RATES],
    /// Latency measurements of servers that were deleted or cleared.
    absorbed: Mutex<Option<Box<LatencyReading>>>,
    counters: PhantomData<C>,
}

struct WorkerBlock<const COUNTERS: usize, const RATES: usize> {
    counters: [Counter; COUNTERS],
    rates: [SecondCounts; RATES],
    phases: Averages,
    latencies: LazyBox<LatencyHistograms>,
    /// Time of the last session, in milliseconds plus one. 0 means never.
    last_session: Counter,
    log_lines: Counter,
    presence: WorkerPresence,
    levels: [Counter; CurrentCount::COUNT],
}

/// Gauges, summed over the workers. `clear counters` does not reset them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentCount {
    Http2Connections,
    Http2Streams,
}

impl CurrentCount {
    const COUNT: usize = CurrentCount::Http2Streams as usize + 1;
}

impl<C: CounterSet, const COUNTERS: usize, const RATES: usize> ObjectCounters<C, COUNTERS, RATES> {
    /// Zeroed counters for `workers` workers, at least one.
    #[must_use]
    pub fn new(workers: usize) -> Self {
        Self {
            workers: LazyPerWorker::new(workers),
            rate_maxima: std::array::from_fn(|_| AtomicU32::new(0)),
            rate_starts: std::array::from_fn(|_| SecondsStart::default()),
            absorbed: Mutex::default(),
            counters: PhantomData,
        }
    }

    /// Adds to a counter. Call it only on this worker.
    #[inline]
    pub fn add(&self, worker: usize, counter: C, amount: u64) {
        self.block(worker).counters[counter.position()].add(amount);
    }

    /// Adds to several counters. Call it only on this worker.
    #[inline]
    pub fn add_all<const N: usize>(&self, worker: usize, amounts: [(C, u64); N]) {
        let counters = &self.block(worker).counters;
        for (counter, amount) in amounts {
            counters[counter.position()].add(amount);
        }
    }

    /// Adds one to a counter. Call it only on this worker.
    #[inline]
    pub fn increment(&self, worker: usize, counter: C) {
        self.add(worker, counter, 1);
    }

    /// Adds `by` to a gauge. Call it only on this worker.
    pub fn change(&self, worker: usize, level: CurrentCount, by: i64) {
        self.block(worker).levels[level as usize].add(by as u64);
    }

    /// The current value of a gauge.
    #[must_use]
    pub fn level(&self, level: CurrentCount) -> u64 {
        let values = self.workers.iter().map(|block| block.levels[level as usize].value());
        values.fold(0, u64::wrapping_add)
    }

    /// A counter's sum over all workers.
    #[must_use]
    pub fn sum(&self, counter: C) -> u64 {
        let values = self.workers.iter().map(|block| block.counters[counter.position()].value());
        values.fold(0, u64::wrapping_add)
    }

    /// Counts one event of a rate. Call it only on this worker.
    #[inline]
    pub fn event(&self, worker: usize, rate: impl Into<usize>, now_ms: u64) {
        self.events(worker, rate, 1, now_ms);
    }

    /// Counts several events of a rate. Call it only on this worker.
    #[inline]
    pub fn events(&self, worker: usize, rate: impl Into<usize>, count: u64, now_ms: u64) {
        let rate = rate.into();
        let counts = &self.block(worker).rates[rate];
        let mut time = self.rate_starts[rate].time(now_ms);
        if !counts.is_counting(time) {
            time = self.begin_second(counts, rate, now_ms);
        }
        counts.add(u32::try_from(count).unwrap_or(u32::MAX), time);
    }

    /// A worker counts its first event in a second. Returns the time by the seconds of the rate, which may begin now.
    #[cold]
    fn begin_second(&self, counts: &SecondCounts, rate: usize, now_ms: u64) -> u64 {
        let start = &self.rate_starts[rate];
        let time = start.time(now_ms);
        if self.workers.iter().all(|block| block.rates[rate].rests(time)) {
            start.begin(now_ms);
        }
        let time = start.time(now_ms);
        if let Some(ended) = counts.ended_second(time) {
            self.fold(rate, ended);
        }
        time
    }

    /// Events in the second that ends now.
    #[must_use]
    pub fn rate(&self, rate: impl Into<usize>, now_ms: u64) -> u32 {
        let rate = rate.into();
        rate::read(self.workers.iter().map(|block| &block.rates[rate]), self.rate_starts[rate].time(now_ms))
    }

    /// The most events in one second so far.
    #[must_use]
    pub fn rate_maximum(&self, rate: impl Into<usize>, now_ms: u64) -> u32 {
        let rate = rate.into();
        for block in self.workers.iter() {
            block.rates[rate].seconds().into_iter().for_each(|second| self.fold(rate, second));
        }
        raise(&self.rate_maxima[rate], self.rate(rate, now_ms));
        self.rate_maxima[rate].load(Ordering::Relaxed)
    }

    /// Records the durations of the phases of a finished exchange. Call it only on this worker.
    pub fn record(&self, worker: usize, phases: Phases) {
        self.block(worker).phases.record(phases);
    }

    /// The histograms that a worker records in. Call it only on this worker. An exchange is recorded in its server's histograms,
    /// or in the backend's if no server was assigned. So [`ObjectCounters::latencies`] of a backend excludes its servers'
    /// latencies.
    #[inline]
    pub fn latency_histograms(&self, worker: usize) -> &LatencyHistograms {
        self.block(worker).latencies.value()
    }

    /// Adds the recorded and absorbed histograms to `reading`.
    pub fn latencies(&self, reading: &mut LatencyReading) {
        for latencies in self.workers.iter().filter_map(|block| block.latencies.existing()) {
            latencies.read_into(reading);
        }
        if let Some(absorbed) = &*self.absorbed.lock().unwrap_or_else(PoisonError::into_inner) {
            reading.merge(absorbed);
        }
    }

    /// Absorbs the measurements of a server before it is deleted or cleared, so the backend's totals never decrease.
    pub fn absorb_latencies(&self, server: &ServerCounters) {
        let mut absorbed = self.absorbed.lock().unwrap_or_else(PoisonError::into_inner);
        server.latencies(absorbed.get_or_insert_default());
    }

    /// The average of a phase over about the last 1024 exchanges, in milliseconds.
    #[must_use]
    pub fn average(&self, phase: Phase) -> u32 {
        average::combined(self.workers.iter().map(|block| &block.phases), phase)
    }

    /// The longest duration of a phase, in milliseconds.
    #[must_use]
    pub fn longest(&self, phase: Phase) -> u32 {
        self.workers.iter().map(|block| block.phases.longest(phase)).max().unwrap_or(0)
    }

    /// Records the arrival of a session. Call it only on this worker.
    pub fn session_seen(&self, worker: usize, now_ms: u64) {
        let last = &self.block(worker).last_session;
        let moment = now_ms.saturating_add(1);
        if last.value() != moment {
            last.add(moment.wrapping_sub(last.value()));
        }
    }

    /// Arrival time of the last session. `None` before the first.
    #[must_use]
    pub fn last_session_ms(&self) -> Option<u64> {
        self.workers.iter().map(|block| block.last_session.value()).max().unwrap_or(0).checked_sub(1)
    }

    /// Counts a log line. Call it only on this worker.
    pub fn log_line(&self, worker: usize) {
        self.block(worker).log_lines.increment();
    }

    /// The number of log lines: `%lc`.
    #[must_use]
    pub fn log_lines(&self) -> u64 {
        self.workers.iter().map(|block| block.log_lines.value()).sum()
    }

    /// Counts one more concurrent stream on this worker. True if the sum over the workers may be a new maximum and should be
    /// computed: when this worker's own count is a new maximum, and at every [`LOOK_EVERY`]th call.
    #[must_use = "a maximum follows from it"]
    pub(crate) fn enter(&self, worker: usize) -> bool {
        self.block(worker).presence.enter()
    }

    /// Counts one less concurrent stream. `worker` must be the one that counted its entry.
    pub(crate) fn leave(&self, worker: usize) {
        self.block(worker).presence.now.fetch_sub(1, Ordering::SeqCst);
    }

    /// The number of concurrent streams on all workers.
    pub(crate) fn inside(&self) -> u32 {
        let counts = self.workers.iter().map(|block| block.presence.now.load(Ordering::SeqCst));
        counts.fold(0, u32::wrapping_add)
    }

    /// Makes the next [`ObjectCounters::enter`] recompute the maximum.
    pub(crate) fn forget_most_inside(&self) {
        self.workers.iter().for_each(|block| block.presence.most.store(0, Ordering::Relaxed));
    }

    /// `clear counters`: resets maxima.
    pub fn clear_maxima(&self) {
        for block in self.workers.iter() {
            block.phases.clear_longest();
            block.rates.iter().for_each(SecondCounts::clear);
        }
        self.rate_maxima.iter().for_each(|maximum| maximum.store(0, Ordering::Relaxed));
    }

    /// `clear counters all`: resets everything. Concurrent additions of a worker may remain.
    pub fn clear(&self) {
        self.clear_maxima();
        for block in self.workers.iter() {
            block.counters.iter().for_each(Counter::reset);
            block.phases.clear();
            if let Some(latencies) = block.latencies.existing() {
                latencies.clear();
            }
            block.last_session.reset();
        }
        *self.absorbed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    #[inline]
    fn block(&self, worker: usize) -> &WorkerBlock<COUNTERS, RATES> {
        self.workers.of(worker)
    }

    fn fold(&self, rate: usize, second: u32) {
        let counts = self.workers.iter().map(|block| block.rates[rate].of_second(second));
        raise(&self.rate_maxima[rate], counts.fold(0, u32::saturating_add));
    }
}

impl<const COUNTERS: usize, const RATES: usize> Default for WorkerBlock<COUNTERS, RATES> {
    fn default() -> Self {
        Self {
            counters: std::array::from_fn(|_| Counter::new()),
            rates: std::array::from_fn(|_| SecondCounts::default()),
            phases: Averages::default(),
            latencies: LazyBox::default(),
            last_session: Counter::new(),
            log_lines: Counter::new(),
            presence: WorkerPresence::default(),
            levels: std::array::from_fn(|_| Counter::new()),
        }
    }
}

/// One worker's count of concurrent streams, and when to compute the sum over all workers.
///
/// The worker updates the count for each request. Readers sum over the workers. The maximum of the sum is therefore not
/// exact: the sum is computed at each new maximum of a worker, at every [`LOOK_EVERY`]th entry and at each read. With one
/// worker the maximum is exact.
#[derive(Default)]
struct WorkerPresence {
    /// Updated atomically, because a stream may end on another thread.
    now: AtomicU32,
    most: AtomicU32,
    entries: AtomicU32,
}

/// Low enough to catch lasting peaks, high enough that reading the other workers' cache lines has negligible cost.
const LOOK_EVERY: u32 = 64;

impl WorkerPresence {
    fn enter(&self) -> bool {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        if now > self.most.load(Ordering::Relaxed) {
            self.most.store(now, Ordering::Relaxed);
            return true;
        }
        let entries = self.entries.load(Ordering::Relaxed).wrapping_add(1);
        self.entries.store(entries, Ordering::Relaxed);
        entries.is_multiple_of(LOOK_EVERY)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_counter_value_is_the_sum_over_all_workers() {
        let counters = ServerCounters::new(3);
        counters.add(0, ServerCounter::BytesIn, 40);
        counters.add(2, ServerCounter::BytesIn, 2);
        counters.increment(1, ServerCounter::Retries);
        assert_eq!(counters.sum(ServerCounter::BytesIn), 42);
        assert_eq!(counters.sum(ServerCounter::Retries), 1);
        counters.clear();
        assert_eq!(counters.sum(ServerCounter::BytesIn), 0);
    }

    /// The times of HAProxy 3.2 for four connections.
    #[test]
    fn a_burst_counts_in_full_for_a_second_from_its_first_event_on() {
        let counters = FrontendCounters::new(2);
        let sessions = FrontendRate::Sessions;
        for begin in [10_990, 20_100, 29_999, 40_000] {
            for (worker, later) in [(0, 0), (1, 15), (0, 16), (1, 400)] {
                counters.event(worker, sessions, begin + later);
            }
            let rates = [400, 999, 1_001, 1_251, 1_501, 1_751, 2_000]
                .map(|later| counters.rate(sessions, begin + later));
            assert_eq!(rates, [4, 4, 3, 2, 1, 0, 0], "{begin}");
        }
        // Without a rest, seconds follow one another.
        (0..100).for_each(|at| counters.event(at % 2, sessions, 50_500 + 10 * at as u64));
        assert_eq!([51_499, 51_600, 52_000].map(|at| counters.rate(sessions, at)), [100, 90, 50]);
    }

    #[test]
    fn rates_and_rate_maxima_are_summed_over_all_workers() {
        let counters = FrontendCounters::new(2);
        let sessions = FrontendRate::Sessions;
        for worker in [0, 1, 1] {
            counters.event(worker, sessions, 5_100);
        }
        assert_eq!(counters.rate(sessions, 5_200), 3);
        assert_eq!(counters.rate(sessions, 6_600), 1);
        // Much later, only worker 0 counts. The overwritten counts were already included in the maximum.
        counters.event(0, sessions, 9_000);
        assert_eq!(counters.rate(sessions, 9_000), 1);
        assert_eq!(counters.rate_maximum(sessions, 60_000), 3);
        assert_eq!(counters.rate(FrontendRate::Requests, 5_200), 0);
        counters.clear_maxima();
        assert_eq!(counters.rate_maximum(sessions, 60_000), 0);
    }

    #[test]
    fn backend_latencies_include_removed_servers() {
        let (frontend, backend) = (FrontendCounters::new(2), BackendCounters::new(2));
        let server = ServerCounters::new(2);
        let at = |worker| frontend.latency_histograms(worker);
        let refused = PhaseDurations([0, PhaseDurations::ABSENT, PhaseDurations::ABSENT, 900]);
        LatencyHistograms::record_in_both(at(0), backend.latency_histograms(0), &refused);
        let served = PhaseDurations([0, 40, 3_000, 0]);
        LatencyHistograms::record_in_both(at(1), server.latency_histograms(1), &served);
        at(1).record_local(7);
        let read = |read_into: &dyn Fn(&mut LatencyReading)| {
            let mut reading = LatencyReading::default();
            read_into(&mut reading);
            let count = |phase| reading.of(phase).count();
            [Phase::Queue, Phase::Connect, Phase::Response, Phase::Total].map(count)
        };
        assert_eq!(read(&|reading| frontend.latencies(reading)), [2, 1, 1, 3]);
        assert_eq!(read(&|reading| server.latencies(reading)), [1, 1, 1, 1]);
        assert_eq!(read(&|reading| backend.latencies(reading)), [1, 0, 0, 1]);
        backend.absorb_latencies(&server);
        server.clear();
        backend.absorb_latencies(&server);
        assert_eq!(read(&|reading| backend.latencies(reading)), [2, 1, 1, 2]);
        backend.clear();
        assert_eq!(read(&|reading| backend.latencies(reading)), [0; 4]);
    }

    #[test]
    fn last_session_is_the_latest_time_of_all_workers() {
        let counters = BackendCounters::new(2);
        assert_eq!(counters.last_session_ms(), None);
        counters.session_seen(0, 0);
        assert_eq!(counters.last_session_ms(), Some(0));
        counters.session_seen(1, 77);
        counters.session_seen(0, 50);
        assert_eq!(counters.last_session_ms(), Some(77));
    }

    #[test]
    fn the_session_maximum_is_updated_at_records_and_every_nth_entry() {
        let counters = BackendCounters::new(2);
        assert!(counters.enter(0) && counters.enter(0) && counters.enter(1));
        assert_eq!(counters.inside(), 3);
        let looks = (0..2 * LOOK_EVERY).filter(|_| {
            counters.leave(0);
            counters.enter(0)
        });
        assert_eq!(looks.count(), 2);
        counters.forget_most_inside();
        assert!(counters.enter(1));
        (0..2).for_each(|_| counters.leave(0));
        (0..2).for_each(|_| counters.leave(1));
        assert_eq!(counters.inside(), 0);
    }
}
