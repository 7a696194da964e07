//! Fills `show info` and the head of the statistics page.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use weir_backend::{ProcessCounter, ProcessRate};
use weir_stats::{FieldValue, InfoField, InfoRow};
use weir_stream::instance::{CompressionLimits, ProxyState};
use weir_stream::worker::ProcessCounters;

use super::pulse::{PoolPulse, Pulse};
use super::{LiveProcess, now_ms};
use weir_assemble::LiveTls;

/// The product name that tools expect: HAProxy's.
const PRODUCT: &str = "HAProxy";

/// Fills all fields.
pub(super) fn fill(live: &LiveProcess, float: bool, info: &mut InfoRow) {
    product(live, info);
    times(live, float, info);
    limits(live, info);
    traffic(live, info);
    work(live, info);
    memory(live, info);
    objects(live, info);
}

fn product(live: &LiveProcess, info: &mut InfoRow) {
    let record = &live.record;
    info.set(InfoField::Name, PRODUCT);
    info.set(InfoField::Version, record.version.as_str());
    info.set(InfoField::ReleaseDate, record.release_date.as_str());
    info.set(InfoField::BuildInfo, record.version.as_str());
    info.set(InfoField::Nbthread, count(live.instance.process_counters.len()));
    info.set(InfoField::NbThreadGroups, 1u32);
    info.set(InfoField::Nbproc, 1u32);
    info.set(InfoField::ProcessNum, 1u32);
    info.set(InfoField::Pid, live.instance.identity.process_id);
    info.set(InfoField::Node, live.instance.identity.node.as_str());
    info.set(InfoField::Description, record.description.as_deref());
    info.set(InfoField::Stopping, u32::from(live.instance.is_stopping()));
    let warnings = record.messages.map_or(0, |messages| {
        messages.startup_logs().lines().filter(|line| line.starts_with("[WARNING]")).count()
    });
    info.set(InfoField::TotalWarnings, count(warnings));
    info.set(InfoField::Tainted, "0");
}

fn times(live: &LiveProcess, float: bool, info: &mut InfoRow) {
    let uptime_ms = now_ms().saturating_sub(live.record.started_ms);
    let seconds = uptime_ms / 1000;
    info.set(InfoField::Uptime, duration(seconds).as_str());
    if float {
        info.set(InfoField::UptimeSec, FieldValue::Float(uptime_ms as f64 / 1000.0));
    } else {
        info.set(InfoField::UptimeSec, narrow(seconds));
    }
    info.set(InfoField::StartTimeSec, narrow(live.instance.identity.started_us / 1_000_000));
    info.set(InfoField::BootTimeMs, live.record.boot_ms.load(Relaxed));
}

/// A duration as `0d 0h00m30s`.
fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    format!("{days}d {}h{:02}m{:02}s", hours % 24, minutes % 60, seconds % 60)
}

fn limits(live: &LiveProcess, info: &mut InfoRow) {
    let recorded = &live.record.limits;
    info.set(InfoField::UlimitN, recorded.open_files);
    info.set(InfoField::Maxsock, recorded.sockets);
    info.set(InfoField::Maxconn, live.instance.limits.connections.load(Relaxed));
    info.set(InfoField::HardMaxconn, recorded.connections_hard);
    info.set(InfoField::Maxpipes, recorded.pipes);
    info.set(InfoField::ConnRateLimit, live.instance.limits.connection_rate.load(Relaxed));
    info.set(InfoField::SessRateLimit, live.instance.limits.session_rate.load(Relaxed));
    info.set(InfoField::MemmaxBytes, narrow(recorded.memory));
    info.set(InfoField::MemmaxMB, narrow(recorded.memory >> 20));
}

fn traffic(live: &LiveProcess, info: &mut InfoRow) {
    let sum = |counter: fn(&ProcessCounters) -> u64| -> u64 {
        live.instance.process_counters.iter().map(|counters| counter(counters)).fold(0, u64::wrapping_add)
    };
    let now_ms = now_ms();
    let rates = &live.instance.rates;
    info.set(InfoField::CurrConns, live.instance.connections.inside());
    info.set(InfoField::CumConns, narrow(sum(|counters| counters.connections.value())));
    info.set(InfoField::CumReq, narrow(sum(|counters| counters.requests.value())));
    info.set(InfoField::CurrStreams, sum(|counters| counters.streams_now.value()));
    info.set(InfoField::CumStreams, sum(|counters| counters.streams.value()));
    info.set(InfoField::ConnRate, rates.rate(ProcessRate::Connections, now_ms));
    info.set(InfoField::MaxConnRate, rates.rate_maximum(ProcessRate::Connections, now_ms));
    info.set(InfoField::SessRate, rates.rate(ProcessRate::Sessions, now_ms));
    info.set(InfoField::MaxSessRate, rates.rate_maximum(ProcessRate::Sessions, now_ms));
    tls(live, now_ms, info);
    compression(live, now_ms, info);
    info.set(InfoField::MaxconnReached, narrow(rates.sum(ProcessCounter::LimitReached)));
    info.set(InfoField::PipesUsed, narrow(live.instance.pipes.used() as u64));
    info.set(InfoField::PipesFree, narrow(live.instance.pipes.free() as u64));
    info.set(InfoField::TotalBytesOut, sum(|counters| counters.bytes_out.value()));
    info.set(InfoField::TotalSplicedBytesOut, sum(|counters| counters.bytes_spliced.value()));
    info.set(InfoField::AuthRequests, sum(|counters| counters.auth_requests.value()));
    info.set(InfoField::AuthRequestsFailed, sum(|counters| counters.auth_requests_failed.value()));
    info.set(InfoField::Mirrors, sum(|counters| counters.mirrors.value()));
    info.set(InfoField::MirrorsDropped, sum(|counters| counters.mirrors_dropped.value()));
    info.set(InfoField::AgentConnections, sum(|counters| counters.agent_connections.value()));
    info.set(InfoField::LateAgentAnswers, sum(|counters| counters.late_agent_answers.value()));
    info.set(InfoField::BytesOutRate, pulse_sum(live, |pulse| pulse.bytes_out_rate.load(Relaxed)));
}

fn compression(live: &LiveProcess, now_ms: u64, info: &mut InfoRow) {
    let CompressionLimits { rate_limit, memory, .. } = &live.instance.compression;
    let rates = &live.instance.rates;
    info.set(InfoField::CompressBpsIn, rates.rate(ProcessRate::CompressedIn, now_ms));
    info.set(InfoField::CompressBpsOut, rates.rate(ProcessRate::CompressedOut, now_ms));
    info.set(InfoField::CompressBpsRateLim, narrow(u64::from(rate_limit.load(Relaxed)) * 1024));
    info.set(InfoField::ZlibMemUsage, memory.used() as u64);
    info.set(InfoField::MaxZlibMemUsage, memory.limit() as u64);
}

fn tls(live: &LiveProcess, now_ms: u64, info: &mut InfoRow) {
    let rates = &live.instance.rates;
    let (now, total) = weir_net::tls_count::sessions();
    info.set(InfoField::MaxSslConns, weir_net::tls_count::most());
    info.set(InfoField::CurrSslConns, now);
    info.set(InfoField::CumSslConns, narrow(total));
    let rate = rates.rate(ProcessRate::TlsConnections, now_ms);
    let keys = rates.rate(ProcessRate::TlsKeys, now_ms);
    info.set(InfoField::SslRate, rate);
    info.set(InfoField::SslRateLimit, live.instance.limits.tls_rate.load(Relaxed));
    info.set(InfoField::MaxSslRate, rates.rate_maximum(ProcessRate::TlsConnections, now_ms));
    info.set(InfoField::SslFrontendKeyRate, keys);
    info.set(InfoField::SslFrontendMaxKeyRate, rates.rate_maximum(ProcessRate::TlsKeys, now_ms));
    info.set(InfoField::SslBackendKeyRate, rates.rate(ProcessRate::TlsServerKeys, now_ms));
    info.set(InfoField::SslBackendMaxKeyRate, rates.rate_maximum(ProcessRate::TlsServerKeys, now_ms));
    let reused = rate.saturating_sub(keys);
    info.set(InfoField::SslFrontendSessionReusePct, (reused * 100).checked_div(rate).unwrap_or(0));
    let (lookups, misses) = live.record.tls().map(LiveTls::cache_lookups).unwrap_or_default();
    info.set(InfoField::SslCacheLookups, narrow(lookups));
    info.set(InfoField::SslCacheMisses, narrow(misses));
}

fn pulse_sum(live: &LiveProcess, counter: impl Fn(&Pulse) -> u64) -> u64 {
    live.record.pulses.iter().map(|pulse| counter(pulse)).sum()
}

fn work(live: &LiveProcess, info: &mut InfoRow) {
    let workers = live.instance.process_counters.len();
    let of_all = |counter: fn(&weir_sched::Activity) -> u64| -> u64 {
        (0..workers).filter_map(|worker| weir_sched::activity(worker, counter)).sum()
    };
    let spawned = of_all(|activity| activity.spawned.value());
    let ended = of_all(|activity| activity.ended.value());
    let (shared, shared_waiting) = weir_sched::shared_tasks();
    let own = spawned.saturating_sub(ended);
    info.set(InfoField::Tasks, narrow(own + u64::from(shared)));
    let queued = of_all(|activity| activity.queued.value());
    info.set(InfoField::RunQueue, narrow(queued + u64::from(shared_waiting)));
    let idle = pulse_sum(live, |pulse| u64::from(pulse.idle_percent.load(Relaxed)));
    info.set(InfoField::IdlePct, narrow(idle / workers.max(1) as u64));
}

/// The totals of `show pools`.
fn memory(live: &LiveProcess, info: &mut InfoRow) {
    let bytes_of = |objects: fn(&PoolPulse) -> &AtomicU64| {
        let bytes = |pool: &PoolPulse| objects(pool).load(Relaxed).saturating_mul(pool.size.load(Relaxed));
        pulse_sum(live, |pulse| pulse.pools.iter().map(bytes).sum())
    };
    let (allocated, used) = (bytes_of(|pool| &pool.allocated), bytes_of(|pool| &pool.used));
    info.set(InfoField::PoolAllocBytes, allocated);
    info.set(InfoField::PoolUsedBytes, used);
    info.set(InfoField::PoolAllocMB, narrow(allocated >> 20));
    info.set(InfoField::PoolUsedMB, narrow(used >> 20));
    let refused = pulse_sum(live, |pulse| pulse.buffers_refused.load(Relaxed));
    info.set(InfoField::PoolFailed, narrow(refused + weir_memory::shortage::shortages().failures));
}

fn objects(live: &LiveProcess, info: &mut InfoRow) {
    let open = live.instance.proxies.iter().filter(|proxy| proxy.state() != ProxyState::Stopped);
    let of_relays = live.record.relays.as_ref().map_or(0, |relays| relays.listeners.len());
    let of_proxies = open.map(|proxy| proxy.listeners.len()).sum::<usize>();
    let of_peers = live.record.peers.listeners.len();
    let peers = live.record.peers.sections.iter();
    let (active, connected) = peers.fold((0, 0), |(active, connected), section| {
        let (tried, met) = section.links();
        (active + tried, connected + met)
    });
    info.set(InfoField::ActivePeers, count(active));
    info.set(InfoField::ConnectedPeers, count(connected));
    let listeners = of_proxies + live.record.cli_sockets.len() + of_relays + of_peers;
    let connections = live.instance.connections.inside() + live.record.cli_connections.inside();
    info.set(InfoField::Listeners, count(listeners));
    info.set(InfoField::Jobs, count(listeners).saturating_add(connections));
    info.set(InfoField::DroppedLogs, narrow(dropped_logs(live)));
    let received = live.record.relays.as_ref().map_or(0, |relays| relays.shared.received());
    info.set(InfoField::CumRecvLogs, narrow(received));
    let (added, freed) = weir_expr::pattern::counts();
    info.set(InfoField::PatternsAdded, added);
    info.set(InfoField::PatternsFreed, freed);
    info.set(InfoField::RegexLimitsReached, weir_expr::pattern::regex::limit::total());
    info.set(InfoField::RegexBudgetsSpent, weir_expr::pattern::regex::budget::exhausted());
}

/// Dropped log messages. Each log target counts once, however many proxies use it.
fn dropped_logs(live: &LiveProcess) -> u64 {
    let of_proxies = live.instance.proxies.iter().flat_map(|proxy| &proxy.log_sinks);
    let mut seen = HashSet::new();
    let of_relays = live.record.relays.iter().flat_map(|relays| &relays.sinks);
    let sinks = of_proxies.chain(&live.record.log_sinks).chain(of_relays).chain(&live.record.peers.sinks);
    let of_sinks: u64 = sinks.filter(|sink| seen.insert(Arc::as_ptr(sink))).map(|sink| sink.dropped()).sum();
    of_sinks + weir_events::connector::installed().map_or(0, |connector| connector.lost())
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The low 32 bits. Monitoring tools expect these counters to wrap around.
fn narrow(number: u64) -> u32 {
    number as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_is_shown_in_days_hours_minutes_and_seconds() {
        for (seconds, expected) in
            [(30, "0d 0h00m30s"), (3_661, "0d 1h01m01s"), (200_000, "2d 7h33m20s"), (0, "0d 0h00m00s")]
        {
            assert_eq!(duration(seconds), expected);
        }
    }
}
