//! The limits on the work of compression: `maxcomprate`, `maxcompcpuusage`, and the time of one turn.

use std::cell::Cell;

use weir_backend::counters::ProcessRate;
use weir_compression::BodyEncoder;
use weir_model::CompressionAlgorithm;

use crate::instance::WorkerInstance;

/// Whether a limit is reached, so that new bodies are not compressed.
pub(super) fn is_limited(instance: &WorkerInstance) -> bool {
    exceeds_rate(instance) || exceeds_cpu(instance)
}

/// Whether a level may have to change: there is a limit, and more than one level.
pub(super) fn may_adjust(instance: &WorkerInstance) -> bool {
    let tuning = instance.encoders.tuning();
    let rate = instance.compression.rate_limit.load(std::sync::atomic::Ordering::Relaxed);
    tuning.level > 1 && (rate > 0 || tuning.cpu_limit < 100)
}

/// Changes the level of a body that was just flushed: one less if a limit is reached, otherwise one more (manual, "maxcomprate").
pub(super) fn adjust(encoder: &mut BodyEncoder, instance: &WorkerInstance) {
    if !may_adjust(instance) {
        return;
    }
    let most = instance.encoders.tuning().level;
    let level = match is_limited(instance) {
        true => encoder.level() - 1,
        false => encoder.level() + 1,
    };
    let level = level.clamp(1, most);
    if level != encoder.level() {
        encoder.set_level(level);
        encoder.renew();
    }
}

fn exceeds_rate(instance: &WorkerInstance) -> bool {
    let limit = instance.compression.rate_limit.load(std::sync::atomic::Ordering::Relaxed);
    limit > 0 && {
        let rate = instance.rates.rate(ProcessRate::CompressedIn, weir_sched::now().as_ms());
        u64::from(rate) > u64::from(limit) * 1024
    }
}

fn exceeds_cpu(instance: &WorkerInstance) -> bool {
    let limit = u32::from(instance.encoders.tuning().cpu_limit);
    limit < 100 && busy_percent() > limit
}

thread_local! {
    /// The last measurement: time and idle time in nanoseconds, and the usage until then in per cent.
    static MEASURED: Cell<(u64, u64, u32)> = const { Cell::new((0, 0, 0)) };
}

/// Per cent of the last period that this worker was busy.
fn busy_percent() -> u32 {
    let (began, idle_before, percent) = MEASURED.get();
    let now = weir_sched::now().as_ms();
    let passed = now.saturating_sub(began);
    if passed < PERIOD_MS {
        return percent;
    }
    let idle = weir_sched::activity(weir_sched::worker_index(), |activity| activity.idle_ns.value());
    let idle = idle.unwrap_or_default();
    let idle_ms = idle.saturating_sub(idle_before) / 1_000_000;
    let percent = (100 - (idle_ms * 100 / passed).min(100)) as u32;
    MEASURED.set((now, idle, percent));
    percent
}

/// The usage is measured twice a second.
const PERIOD_MS: u64 = 500;

/// The estimated CPU time of an encoder in microseconds per kilobyte, and the bytes that it may encode at once.
pub(super) fn cost(encoder: &BodyEncoder) -> (u32, usize) {
    let costs: &[u32] = match encoder.algorithm() {
        CompressionAlgorithm::Identity => return (0, usize::MAX),
        CompressionAlgorithm::Brotli => &BROTLI,
        _ => &DEFLATE,
    };
    let cost = costs[usize::from(encoder.level()).min(costs.len()) - 1];
    (cost, (LONGEST_PART_US / cost).max(1) as usize * 1024)
}

/// By level: rounded up from text (`doc/design/2026-11-30-compression-spike.md`), the levels that were not measured are estimates.
/// Zstandard counts as deflate.
const DEFLATE: [u32; 9] = [4, 9, 11, 13, 14, 16, 24, 40, 60];
const BROTLI: [u32; 6] = [6, 13, 14, 21, 110, 130];

/// No part takes longer.
const LONGEST_PART_US: u32 = 400;
