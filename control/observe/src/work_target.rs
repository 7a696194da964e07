//! Implements [`WorkTarget`]: activity, profiling and memory of the workers.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use weir_cli::target::{
    Activity, ActivityRow, Measuring, MemoryLine, MemoryProfile, PoolUse, PoolView, ProfilingChange,
    ProfilingState, ScriptCostLine, ScriptProfile, Span, TaskLine, TaskProfile, TaskRow, Tasks, ThreadView,
    WorkTarget,
};
use weir_containers::PoolCounters;
use weir_memory::CallSite;
use weir_sched::{Cause, Class, ProfileMode, QueueView, TaskKey, Tick, WaitingKind, WakeOrigin, WorkKind};
use weir_scripts::{CostKind, CostLine};

use super::activity::ACTIVITY;
use super::pulse::AVERAGED;
use super::{LiveTarget, now_ms};

impl WorkTarget for LiveTarget {
    fn activity(&self) -> Activity {
        let workers = self.live.instance.process_counters.len();
        let rows = ACTIVITY.iter().map(|row| {
            let values: Vec<u64> = (0..workers).map(|worker| (row.counter)(&self.live, worker)).collect();
            let sum = values.iter().fold(0, |sum: u64, value| sum.wrapping_add(*value));
            let total = if row.average { sum / values.len().max(1) as u64 } else { sum };
            ActivityRow { name: row.name, total, values }
        });
        Activity {
            thread: weir_sched::worker_index() as u32 + 1,
            threads: workers as u32,
            uptime_us: now_ms().saturating_sub(self.live.record.started_ms) * 1000,
            rows: rows.collect(),
        }
    }

    fn tasks(&mut self) -> Option<Tasks> {
        let answers = self.take_census()?;
        let mut kinds: Vec<WaitingKind> = Vec::new();
        let waiting = answers.iter().flatten().flat_map(|answer| &answer.waiting);
        for kind in waiting {
            match kinds.iter_mut().find(|known| std::ptr::eq(known.kind, kind.kind)) {
                Some(known) => known.merge(kind),
                None => kinds.push(*kind),
            }
        }
        kinds.sort_by_key(|kind| (std::cmp::Reverse(kind.places), kind.kind.name));
        let row = |kind: &WaitingKind| TaskRow {
            kind: kind.kind.name.to_owned(),
            places: kind.places,
            latency_ns: kind.latency_ns,
            latencies: kind.latencies,
            calls: kind.calls,
        };
        Some(Tasks {
            running: kinds.iter().map(|kind| kind.places).sum(),
            threads: answers.len() as u32,
            rows: kinds.iter().map(row).collect(),
        })
    }

    fn threads(&mut self) -> Option<Vec<ThreadView>> {
        let answers = self.take_census()?;
        Some(answers.iter().enumerate().map(|(worker, answer)| view(worker, answer.as_ref())).collect())
    }

    fn profiling(&self) -> ProfilingState {
        ProfilingState {
            tasks: match weir_sched::profiling().mode {
                ProfileMode::Off => Measuring::Off,
                ProfileMode::Auto => Measuring::Auto,
                ProfileMode::On => Measuring::On,
            },
            running: weir_sched::queues().profiled,
            memory: weir_memory::is_counting(),
        }
    }

    fn set_profiling(&mut self, change: ProfilingChange) {
        let mut settings = weir_sched::profiling();
        match change {
            ProfilingChange::Memory(on) => return weir_memory::count(on),
            ProfilingChange::Tasks(Measuring::Off) => settings.mode = ProfileMode::Off,
            ProfilingChange::Tasks(Measuring::Auto) => settings.mode = ProfileMode::Auto,
            ProfilingChange::Tasks(Measuring::On) => {
                settings.mode = ProfileMode::On;
                self.live.record.scripts.iter().for_each(|scripts| scripts.costs().clear());
            }
            ProfilingChange::Locks(on) => settings.locks = on,
            ProfilingChange::MemoryTime(on) => settings.memory = on,
        }
        measure(settings);
        weir_sched::set_profiling(settings);
    }

    fn task_profile(&self) -> TaskProfile {
        let report = weir_sched::profile();
        let now_ns = weir_sched::precise_ns();
        TaskProfile {
            span: span(report.since_ns, report.until_ns, now_ns),
            lines: report.lines.iter().map(task_line).collect(),
        }
    }

    fn script_profile(&self) -> ScriptProfile {
        let Some(scripts) = &self.live.record.scripts else { return ScriptProfile::default() };
        let lines = |kind| scripts.costs().lines(kind).into_iter().map(script_line).collect();
        ScriptProfile {
            functions: lines(CostKind::Function),
            lines: lines(CostKind::Line),
            blocking: lines(CostKind::Blocking),
        }
    }

    fn memory_profile(&mut self) -> Option<MemoryProfile> {
        if !self.places_are_named() {
            return None;
        }
        let report = weir_memory::report();
        let lines = report.lines.into_iter().map(|counters| MemoryLine {
            address: 0,
            caller: match counters.place {
                CallSite::Caller(name) => name,
                CallSite::Other => "[other]".to_owned(),
            },
            context: counters.work.map(str::to_owned),
            method: counters.method.name(),
            allocations: counters.allocations,
            frees: counters.frees,
            allocated_bytes: counters.allocated_bytes,
            freed_bytes: counters.freed_bytes,
        });
        Some(MemoryProfile {
            span: span(report.since_ns, report.until_ns, report.now_ns),
            lines: lines.collect(),
        })
    }

    fn pools(&self) -> Vec<PoolView> {
        let pools = weir_containers::pool_counters();
        let view = |(at, pool): (usize, &PoolCounters)| {
            let of_worker = self.live.record.pulses.iter().map(|pulse| &pulse.pools[at]);
            let size = of_worker.clone().map(|pool| pool.size.load(Relaxed)).max();
            let threads = of_worker.map(|pool| PoolUse {
                allocated: pool.allocated.load(Relaxed),
                used: pool.used.load(Relaxed),
                needed: pool.needed.load(Relaxed) / AVERAGED,
                failures: pool.failures.load(Relaxed),
            });
            // In the first second no worker has published its object size.
            let size = size.filter(|size| *size > 0).unwrap_or(pool.size as u64);
            PoolView { name: pool.name, size, threads: threads.collect() }
        };
        pools.iter().enumerate().map(view).collect()
    }

    fn keep_busy(&mut self, milliseconds: u64) {
        let until_ns = weir_sched::precise_ns().saturating_add(milliseconds.saturating_mul(1_000_000));
        while weir_sched::precise_ns() < until_ns {
            std::hint::spin_loop();
        }
    }
}

impl LiveTarget {
    /// Whether the callers that allocate memory have symbol names. If not, starts a thread that resolves them, because a worker would
    /// be blocked meanwhile. Callers first seen during that time are resolved at the next call.
    fn places_are_named(&mut self) -> bool {
        if let Some(named) = &self.naming {
            let named = named.load(Acquire);
            if named {
                self.naming = None;
            }
            return named;
        }
        if !weir_memory::has_unnamed_places() {
            return true;
        }
        if self.live.record.frontends.is_none() {
            // This process does not serve traffic, so blocking is harmless.
            weir_memory::name_places_here();
            return true;
        }
        let (named, task) = (Arc::new(AtomicBool::new(false)), self.task);
        let theirs = Arc::clone(&named);
        let begun = weir_memory::name_places(move || {
            theirs.store(true, Release);
            weir_sched::wake(task);
        });
        // If the thread cannot be created, callers stay without names.
        self.naming = begun.is_ok().then_some(named);
        self.naming.is_none()
    }
}

/// Enables or disables the measurement of time spent on memory allocation.
pub fn measure(settings: weir_sched::ProfileSettings) {
    weir_memory::measure_time(settings.memory && settings.mode != ProfileMode::Off);
}

/// The running kind of work on this worker, for memory profiles.
pub fn work_name() -> Option<&'static str> {
    weir_sched::running().map(|kind| kind.name)
}

fn span(since_ns: u64, until_ns: u64, now_ns: u64) -> Span {
    if since_ns == 0 {
        return Span::default();
    }
    Span {
        over_ms: until_ns.saturating_sub(since_ns) / 1_000_000,
        ago_ms: now_ns.saturating_sub(until_ns) / 1_000_000,
    }
}

fn task_line(line: &weir_sched::ProfileLine) -> TaskLine {
    TaskLine {
        function: line.kind.name.to_owned(),
        address: std::ptr::from_ref(line.kind).addr(),
        caller: line.origin.map(caller),
        calls: line.calls,
        cpu_ns: line.cpu_ns,
        latency_ns: line.latency_ns,
        latencies: line.latencies,
        lock_wait_ns: line.lock_wait_ns,
        lock_held_ns: line.lock_held_ns,
        memory_ns: line.memory_ns,
    }
}

fn script_line(line: CostLine) -> ScriptCostLine {
    let CostLine { name, place, cost } = line;
    ScriptCostLine {
        name,
        place,
        calls: cost.calls,
        time_ns: cost.time_ns,
        waited_ns: cost.waited_ns,
        allocated: cost.allocated,
    }
}

/// A waker in the format `listener@data/net/src/listener.rs:270 task_wakeup`.
fn caller(origin: WakeOrigin) -> String {
    let (file, line) = (origin.place.file(), origin.place.line());
    let name = match origin.cause {
        Cause::Event => "poll",
        Cause::Deadline => "expire",
        Cause::Yield => "yield",
        _ => stem(file),
    };
    format!("{name}@{file}:{line} {}", origin.cause.name())
}

fn stem(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.strip_suffix(".rs").unwrap_or(name)
}

/// A kind of work with its source position: `cli session@control/process/src/cli_server.rs:202`.
pub fn place_of(kind: &WorkKind) -> String {
    format!("{}@{}:{}", kind.name, kind.place.file(), kind.place.line())
}

fn view(worker: usize, answer: Option<&WorkerAnswer>) -> ThreadView {
    let own = worker == weir_sched::worker_index();
    let published = weir_sched::published(worker);
    let (queues, silent) = match answer {
        Some(answer) => (Some(answer.queues), false),
        None => (published, true),
    };
    let loops = weir_sched::activity(worker, |activity| activity.loops.value());
    let Some(queues) = queues else {
        return ThreadView { number: worker as u32 + 1, silent, ..ThreadView::default() };
    };
    ThreadView {
        number: worker as u32 + 1,
        answering: own,
        silent,
        active: own || silent || queues.queued.iter().any(|queued| *queued > 0),
        queued: queues.queued.map(u64::from),
        wait_queue: queues.timers,
        tasks: queues.tasks,
        loops: loops.unwrap_or(0),
        context_switches: queues.switches,
        profiled: queues.profiled,
        cpu_ns: queues.cpu_ns,
        current: queues.running.filter(|_| own || silent).map(place_of),
    }
}

/// The reply of one worker.
struct WorkerAnswer {
    queues: QueueView,
    waiting: Vec<WaitingKind>,
}

/// A query to all workers about their run queues. Each worker replies between two tasks, so its counts are exact. A worker that
/// does not reply in time is shown with its last published counts.
pub(super) struct Census {
    answers: Arc<Mutex<Vec<Option<WorkerAnswer>>>>,
    deadline: Tick,
}

impl Census {
    fn begin(task: TaskKey) -> Self {
        let workers = weir_sched::worker_count();
        let answers: Arc<Mutex<Vec<Option<WorkerAnswer>>>> =
            Arc::new(Mutex::new(std::iter::repeat_with(|| None).take(workers).collect()));
        for worker in 0..workers {
            if worker == weir_sched::worker_index() {
                lock(&answers)[worker] = Some(WorkerAnswer::now());
                continue;
            }
            let place = Arc::clone(&answers);
            // Fails only if the worker is stopping or its inbox is full. It will not reply then.
            let _ = weir_sched::send_to(worker, move || {
                let answer = WorkerAnswer::now();
                lock(&place)[worker] = Some(answer);
                weir_sched::wake(task);
            });
        }
        let deadline = weir_sched::now().after(PATIENCE_MS);
        if lock(&answers).iter().any(Option::is_none) {
            weir_sched::spawn(&CENSUS, Class::Urgent, async move {
                weir_sched::sleep_until(deadline).await;
                weir_sched::wake(task);
            });
        }
        Self { answers, deadline }
    }

    /// The replies, once all have arrived or the time limit has passed.
    fn take(&self) -> Option<Vec<Option<WorkerAnswer>>> {
        let mut answers = lock(&self.answers);
        let complete = answers.iter().all(Option::is_some) || weir_sched::now() >= self.deadline;
        // Late replies are dropped.
        complete.then(|| answers.iter_mut().map(Option::take).collect())
    }
}

impl WorkerAnswer {
    fn now() -> Self {
        Self { queues: weir_sched::queues(), waiting: weir_sched::waiting() }
    }
}

impl LiveTarget {
    /// The workers' replies. `None` while some are missing. The first call sends the query.
    fn take_census(&mut self) -> Option<Vec<Option<WorkerAnswer>>> {
        let task = self.task;
        let answers = self.census.get_or_insert_with(|| Census::begin(task)).take()?;
        self.census = None;
        Some(answers)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static CENSUS: WorkKind = WorkKind::new("census");
/// Time limit for a worker's reply, in milliseconds. Operators look for workers that take longer between two tasks.
const PATIENCE_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use super::super::fixture::{run_command, with_live};
    use super::*;

    /// R4: the counts are current.
    #[test]
    fn show_threads_reports_current_queue_lengths() {
        with_live(|live| {
            for class in [Class::Urgent, Class::Heavy, Class::Heavy] {
                weir_sched::spawn(&CENSUS, class, async {});
            }
            let threads = run_command(&live, "show threads");
            assert!(threads.starts_with("* Thread 1 : act=1 wq=0 rq=0 tl=1 tlsz=3 rqsz=3\n"), "{threads}");
            assert!(
                threads
                    .contains("\n             queued: urgent=1 normal=0 bulk=0 heavy=2 timers=0 tasks=4\n")
            );
            let tasks = run_command(&live, "show tasks");
            assert!(tasks.starts_with("Running tasks: 3 (1 threads)\n"), "{tasks}");
            assert!(tasks.contains("\n  census                            3 100.0"), "{tasks}");
        });
    }

    /// R73, R77: after profiling is enabled, runs of already existing tasks are listed with their wakers.
    #[test]
    fn set_profiling_tasks_measures_tasks_that_already_run() {
        let done = weir_sched::run(async {
            let live = super::super::fixture::live(super::super::fixture::CONFIGURATION);
            assert_eq!(run_command(&live, "set profiling tasks on"), "\n");
            for _ in 0..3 {
                weir_sched::yield_now().await;
            }
            weir_sched::spawn(&CENSUS, Class::Normal, async {});
            weir_sched::yield_now().await;
            let profile = run_command(&live, "show profiling");
            assert!(profile.starts_with("Per-task CPU profiling              : on "), "{profile}");
            assert!(profile.contains(" <- yield@"), "{profile}");
            assert!(profile.contains(" <- work_target@control/observe/src/work_target.rs:"), "{profile}");
            assert!(profile.contains(" task_spawn\n"), "{profile}");
            assert!(profile.contains("<- Total; Delta_calls="), "{profile}");
            assert_eq!(run_command(&live, "set profiling tasks off"), "\n");
            assert!(
                run_command(&live, "show profiling status")
                    .starts_with("Per-task CPU profiling              : off ")
            );
        });
        assert!(done.expect("a worker").is_some(), "the test ends");
    }

    #[test]
    fn show_activity_reports_counters_of_each_worker() {
        with_live(|live| {
            let activity = run_command(&live, "show activity");
            let names: Vec<&str> =
                activity.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name).collect();
            for name in
                ["ctxsw", "tasksw", "long_rq", "curr_rq", "loops", "avg_loop_us", "run_heavy", "pool_fail"]
            {
                assert!(names.contains(&name), "{name} in {activity}");
            }
            assert!(
                activity.lines().skip(3).filter(|line| !line.is_empty()).all(|line| line.ends_with(" ]"))
            );
        });
    }
}
