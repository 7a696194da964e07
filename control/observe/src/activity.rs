//! The rows of `show activity`, with one value per worker.

use std::sync::atomic::Ordering::Relaxed;

use weir_checks::CheckCounts;

use super::LiveProcess;

/// A row of `show activity`.
pub(super) struct ActivityValue {
    /// HAProxy's name, if the meaning is the same.
    pub(super) name: &'static str,
    /// Reads the value of a worker.
    pub(super) counter: fn(&LiveProcess, usize) -> u64,
    /// Whether the total is the average of the workers' values rather than the sum.
    pub(super) average: bool,
}

const fn row(name: &'static str, counter: fn(&LiveProcess, usize) -> u64) -> ActivityValue {
    ActivityValue { name, counter, average: false }
}

const fn average(name: &'static str, counter: fn(&LiveProcess, usize) -> u64) -> ActivityValue {
    ActivityValue { name, counter, average: true }
}

/// All rows, in output order.
pub(super) static ACTIVITY: &[ActivityValue] = &[
    row("ctxsw", |_, worker| of_worker(worker, runs)),
    row("tasksw", |_, worker| {
        of_worker(worker, |activity| activity.runs[..2].iter().map(|run| run.value()).sum())
    }),
    row("empty_rq", |_, worker| of_worker(worker, |activity| activity.empty_turns.value())),
    row("long_rq", |_, worker| of_worker(worker, |activity| activity.long_turns.value())),
    row("curr_rq", |_, worker| of_worker(worker, |activity| activity.queued.value())),
    row("loops", |_, worker| of_worker(worker, |activity| activity.loops.value())),
    row("wake_tasks", |_, worker| of_worker(worker, |activity| activity.busy_polls.value())),
    row("wake_remote", |_, worker| of_worker(worker, |activity| activity.remote_wakes.value())),
    row("messages", |_, worker| of_worker(worker, |activity| activity.messages.value())),
    row("poll_io", |_, worker| of_worker(worker, |activity| activity.events.value())),
    row("poll_exp", |_, worker| of_worker(worker, |activity| activity.timers.value())),
    // Task runs by class (R33).
    row("run_urgent", |_, worker| of_worker(worker, |activity| activity.runs[0].value())),
    row("run_normal", |_, worker| of_worker(worker, |activity| activity.runs[1].value())),
    row("run_bulk", |_, worker| of_worker(worker, |activity| activity.runs[2].value())),
    row("run_heavy", |_, worker| of_worker(worker, |activity| activity.runs[3].value())),
    row("tasks_spawned", |_, worker| of_worker(worker, |activity| activity.spawned.value())),
    row("tasks_ended", |_, worker| of_worker(worker, |activity| activity.ended.value())),
    row("tasks_refused", |_, worker| of_worker(worker, |activity| activity.refused.value())),
    row("panics", |_, worker| of_worker(worker, |activity| activity.panics.value())),
    row("streams", |live, worker| of_site(live, worker, |counters| counters.streams.value())),
    row("pool_fail", |live, worker| {
        live.record.pulses.get(worker).map_or(0, |pulse| pulse.buffers_refused.load(Relaxed))
    }),
    row("idle_ms", |_, worker| of_worker(worker, |activity| activity.idle_ns.value() / 1_000_000)),
    row("cpu_ms_tot", |live, worker| {
        live.record.pulses.get(worker).map_or(0, |pulse| pulse.cpu_ns.load(Relaxed) / 1_000_000)
    }),
    average("avg_cpu_pct", |live, worker| {
        live.record
            .pulses
            .get(worker)
            .map_or(0, |pulse| u64::from(100 - pulse.idle_percent.load(Relaxed).min(100)))
    }),
    average("avg_loop_us", |_, worker| of_worker(worker, |activity| activity.loop_ns.value() / 1000)),
    row("accepted", |live, worker| of_site(live, worker, |counters| counters.connections.value())),
    // The distribution of health checks (R90).
    row("check_adopted", |live, worker| of_checks(live, worker, |counts| counts.adopted.load(Relaxed))),
    row("check_started", |live, worker| of_checks(live, worker, |counts| counts.started.load(Relaxed))),
    row("check_active", |live, worker| of_checks(live, worker, |counts| counts.active.load(Relaxed).into())),
    row("check_running", |live, worker| {
        of_checks(live, worker, |counts| counts.running.load(Relaxed).into())
    }),
];

fn of_worker(worker: usize, counter: impl FnOnce(&weir_sched::Activity) -> u64) -> u64 {
    weir_sched::activity(worker, counter).unwrap_or(0)
}

fn of_checks(live: &LiveProcess, worker: usize, counter: fn(&CheckCounts) -> u64) -> u64 {
    live.record.checks.as_ref().and_then(|checks| checks.load.of(worker)).map_or(0, counter)
}

fn runs(activity: &weir_sched::Activity) -> u64 {
    activity.runs.iter().map(|class| class.value()).sum()
}

fn of_site(
    live: &LiveProcess,
    worker: usize,
    counter: fn(&weir_stream::worker::ProcessCounters) -> u64,
) -> u64 {
    live.instance.process_counters.get(worker).map_or(0, |counters| counter(counters))
}
