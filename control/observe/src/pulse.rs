//! Measurements taken by each worker once a second. They need two points in time.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use weir_containers::{BufferPool, POOLS, PoolCounters, pool_counters};
use weir_sched::{Class, WorkKind};

use super::LiveProcess;

/// The last measurements of a worker. Only this worker writes them.
#[derive(Debug)]
pub struct Pulse {
    /// Idle time in the last second, in percent.
    pub idle_percent: AtomicU32,
    /// Bytes sent to clients in the last second.
    pub bytes_out_rate: AtomicU64,
    /// Number of failed buffer allocations.
    pub buffers_refused: AtomicU64,
    /// CPU time used, in nanoseconds.
    pub cpu_ns: AtomicU64,
    /// The worker's pools, in the order of [`pool_counters`].
    pub pools: [PoolPulse; POOLS],
}

/// The use of one memory pool by one worker.
#[derive(Debug, Default)]
pub struct PoolPulse {
    /// Object size, in bytes.
    pub size: AtomicU64,
    /// Objects in use or cached.
    pub allocated: AtomicU64,
    pub used: AtomicU64,
    /// Moving average of `used` over about sixteen seconds, multiplied by sixteen.
    pub needed: AtomicU64,
    /// Number of failed allocations.
    pub failures: AtomicU64,
}

impl PoolPulse {
    fn beat(&self, now: &PoolCounters) {
        let needed = self.needed.load(Relaxed);
        self.needed.store(needed - needed / AVERAGED + now.used, Relaxed);
        self.size.store(now.size as u64, Relaxed);
        self.allocated.store(now.allocated, Relaxed);
        self.used.store(now.used, Relaxed);
        self.failures.store(now.failures, Relaxed);
    }
}

/// Starts the current worker's measurements. Call it once on each worker.
pub fn start(live: LiveProcess) {
    weir_sched::spawn(&PULSE, Class::Bulk, async move {
        let mut last = PulseTotals::now(&live);
        loop {
            weir_sched::sleep_until(weir_sched::now().after(PERIOD_MS)).await;
            let now = PulseTotals::now(&live);
            if let Some(pulse) = live.record.pulses.get(weir_sched::worker_index()) {
                pulse.beat(&last, &now);
            }
            last = now;
            if weir_mux::take_freed() >= WORTH_RETURNING {
                weir_memory::give_back();
            }
            if weir_memory::shortage::is_short_still() {
                reclaim_memory();
                weir_stream::server::idle::give_up_half();
            }
        }
    });
}

/// Frees the current worker's caches, and returns the allocator's free memory to the system.
pub fn reclaim_memory() {
    trim_memory();
    weir_memory::give_back();
}

/// Frees the current worker's caches.
pub fn trim_memory() {
    BufferPool::trim();
    weir_containers::trim_recycled();
    weir_stream::recycle::trim();
    weir_stream::entry::trim();
}

/// Starts the measurements on a worker that has been running since `began_ns`. The first measurement covers the whole time.
pub(super) fn start_late(live: LiveProcess, began_ns: u64) {
    if let Some(pulse) = live.record.pulses.get(weir_sched::worker_index()) {
        pulse.beat(&PulseTotals { at_ns: began_ns, idle_ns: 0, bytes_out: 0 }, &PulseTotals::now(&live));
    }
    start(live);
}

impl Default for Pulse {
    /// The measurements of a worker that has not run yet.
    fn default() -> Self {
        Pulse {
            idle_percent: AtomicU32::new(100),
            bytes_out_rate: AtomicU64::new(0),
            buffers_refused: AtomicU64::new(0),
            cpu_ns: AtomicU64::new(0),
            pools: std::array::from_fn(|_| PoolPulse::default()),
        }
    }
}

impl Pulse {
    fn beat(&self, last: &PulseTotals, now: &PulseTotals) {
        let elapsed_ns = now.at_ns.saturating_sub(last.at_ns).max(1);
        let idle_ns = now.idle_ns.saturating_sub(last.idle_ns).min(elapsed_ns);
        self.idle_percent.store((idle_ns * 100 / elapsed_ns) as u32, Relaxed);
        let sent = now.bytes_out.saturating_sub(last.bytes_out);
        let rate = u128::from(sent) * 1_000_000_000 / u128::from(elapsed_ns);
        self.bytes_out_rate.store(u64::try_from(rate).unwrap_or(u64::MAX), Relaxed);
        let buffers = BufferPool::statistics();
        self.buffers_refused.store(buffers.refused, Relaxed);
        for (pulse, counters) in self.pools.iter().zip(pool_counters()) {
            pulse.beat(&counters);
        }
        self.cpu_ns.store(weir_sys::time::thread_cpu_ns(), Relaxed);
    }
}

/// The totals of a worker at one point in time.
struct PulseTotals {
    at_ns: u64,
    idle_ns: u64,
    bytes_out: u64,
}

impl PulseTotals {
    fn now(live: &LiveProcess) -> Self {
        let worker = weir_sched::worker_index();
        PulseTotals {
            at_ns: weir_sched::precise_ns(),
            idle_ns: weir_sched::activity(worker, |activity| activity.idle_ns.value()).unwrap_or(0),
            bytes_out: live
                .instance
                .process_counters
                .get(worker)
                .map_or(0, |counters| counters.bytes_out.value()),
        }
    }
}

static PULSE: WorkKind = WorkKind::new("pulse");
/// Interval of the measurements, in milliseconds.
const PERIOD_MS: u64 = 1_000;
/// Freed bytes of idle streams in one interval, above which the allocator returns its free memory to the system. That takes
/// milliseconds.
const WORTH_RETURNING: usize = 1024 * 1024;
/// Approximate number of measurements in an average.
pub const AVERAGED: u64 = 16;
