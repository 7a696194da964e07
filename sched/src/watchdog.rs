//! A thread that detects workers without progress in their event loop.
//!
//! ```text
//!              no progress for the warning's time            and so for a second              and still at the next look
//!   working ─────────────────────────────────────► warned ───────────────────► stuck ──────────────────────────────► dead
//!      ▲                                              │                          │
//!      └──────────────────── progress, or asleep in the poller ─────────────────┘
//! ```
//! Progress is the start of another task, or another iteration of the loop. The time without progress is measured in
//! CPU time of the worker: a worker that gets no processor is not stuck. A computation with a limit of its own, as a call of a script, has the
//! time for that limit. A worker that sleeps in the kernel outside its
//! poller (a slow disk, a lock) also delays traffic, so the watchdog warns about it. It never kills such a worker,
//! because the system call may still return. `/proc` shows whether a thread sleeps, so this warning is not available in
//! a `chroot`: an open directory of `/proc` would be a way out of the jail.

use crate::current_work::CurrentWork;
use crate::shared::SharedSide;
use crate::task::WorkKind;
use std::panic::Location;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use weir_sync::atomic::{AtomicBool, Ordering::Relaxed};
use weir_sys::{process, signal, time};

/// A worker that makes no progress.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// The number of the worker in its runtime, from 0.
    pub worker: usize,
    /// The kind of its running task; `None` outside a task.
    pub kind: Option<&'static WorkKind>,
    /// The source location that woke that task, if profiling is on.
    pub woken_at: Option<&'static Location<'static>>,
    /// Time without progress in nanoseconds.
    pub stuck_ns: u64,
    /// Whether the worker sleeps in the kernel rather than computes.
    pub asleep: bool,
    /// Whether the process is aborted right after this report.
    pub deadly: bool,
}

/// Watches the workers of a runtime until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts the watchdog. `report` is called once for each worker that makes no progress for `warn_after`, and once
    /// more before the process is aborted. `limited_for` is the time after which a computation with a limit of its own is stuck, if
    /// it is longer than that of others.
    pub(crate) fn start(
        workers: Arc<[Arc<SharedSide>]>,
        (warn_after, limited_for): (Duration, Duration),
        report: impl Fn(&Stall) + Send + 'static,
    ) -> std::io::Result<Self> {
        let warn_after_ns =
            u64::try_from(warn_after.as_nanos()).unwrap_or(u64::MAX).clamp(1_000_000, DEADLY_NS);
        let limited_for_ns = u64::try_from(limited_for.as_nanos()).unwrap_or(u64::MAX).max(DEADLY_NS);
        signal::die_with_a_trace_on(DEATH).map_err(std::io::Error::from)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let body = move || {
            let mut watches = vec![WorkerWatch::default(); workers.len()];
            while !stopped.load(Relaxed) {
                for (index, (shared, watch)) in workers.iter().zip(&mut watches).enumerate() {
                    look_after(index, shared, watch, (warn_after_ns, limited_for_ns), &report);
                }
                std::thread::park_timeout(Duration::from_nanos(warn_after_ns));
            }
        };
        let thread = std::thread::Builder::new().name("watchdog".to_owned()).stack_size(STACK).spawn(body)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // `report` may have panicked; ignore it.
            let _ = thread.join();
        }
    }
}

fn look_after(
    index: usize,
    shared: &SharedSide,
    watch: &mut WorkerWatch,
    (warn_after_ns, limited_for_ns): (u64, u64),
    report: &dyn Fn(&Stall),
) {
    let current = &shared.current;
    let thread = current.thread().unwrap_or(0);
    let sleeps = || process::thread_sleeps(thread) == Some(true);
    let deadly_ns = if current.is_limited() { limited_for_ns } else { DEADLY_NS };
    let sight = Sight::of(current, shared.activity.loops.value());
    let finding = watch.look(sight, (warn_after_ns, deadly_ns), sleeps);
    let deadly = match finding {
        WorkerHealth::Well => return,
        WorkerHealth::Warn => false,
        WorkerHealth::Dead => true,
    };
    report(&Stall {
        worker: index,
        kind: current.kind(),
        woken_at: current.woken_by().filter(|_| shared.profile.is_on()),
        stuck_ns: watch.stuck_ns,
        asleep: watch.asleep,
        deadly,
    });
    if deadly {
        // The stuck thread prints its stack and ends the process; if it cannot, this thread does. Memory counting is
        // turned off, since it needs the same lock as the stack trace.
        weir_memory::count(false);
        let _ = signal::send_to_thread(thread, DEATH);
        std::thread::sleep(LAST_WORDS);
        std::process::abort();
    }
}

/// The state kept for a worker between two checks.
#[derive(Debug, Clone, Default)]
struct WorkerWatch {
    /// The previous observation; `None` before the first check. A zero time would not do, because the monotonic clock starts at boot.
    last: Option<Sight>,
    stuck_ns: u64,
    /// The part of `stuck_ns` spent computing.
    computed_ns: u64,
    asleep: bool,
    warned: bool,
    /// Whether `computed_ns` had reached its limit at the last check.
    doomed: bool,
}

/// The observation of a worker in one check.
#[derive(Debug, Clone, Copy)]
struct Sight {
    waiting: bool,
    progress: u64,
    cpu_ns: u64,
    at_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerHealth {
    Well,
    Warn,
    Dead,
}

impl Sight {
    fn of(current: &CurrentWork, loops: u64) -> Self {
        Self {
            waiting: current.is_waiting() || current.thread().is_none(),
            progress: current.switches().wrapping_add(loops),
            cpu_ns: current.cpu_ns().unwrap_or(0),
            at_ns: time::monotonic_ns(),
        }
    }
}

impl WorkerWatch {
    fn look(
        &mut self,
        sight: Sight,
        (warn_after_ns, deadly_ns): (u64, u64),
        sleeps: impl FnOnce() -> bool,
    ) -> WorkerHealth {
        let stood = |last: &Sight| !sight.waiting && sight.progress == last.progress;
        let Some(last) = self.last.replace(sight).filter(stood) else {
            *self = Self { last: self.last, ..Self::default() };
            return WorkerHealth::Well;
        };
        let computed_ns = sight.cpu_ns.saturating_sub(last.cpu_ns);
        let elapsed_ns = sight.at_ns.saturating_sub(last.at_ns);
        self.asleep = computed_ns < elapsed_ns / 16 && sleeps();
        self.computed_ns = self.computed_ns.saturating_add(computed_ns);
        // Time in which the worker neither computes nor sleeps does not count: it gets no processor.
        self.stuck_ns = self.stuck_ns.saturating_add(if self.asleep { elapsed_ns } else { computed_ns });
        if self.doomed {
            return WorkerHealth::Dead;
        }
        self.doomed = self.computed_ns >= deadly_ns;
        if self.stuck_ns >= warn_after_ns && !self.warned {
            self.warned = true;
            return WorkerHealth::Warn;
        }
        WorkerHealth::Well
    }
}

/// A worker without progress for this long is stuck: the longest `warn-blocked-traffic-after`. It has until the next
/// check to make progress, so that the warning comes first. Then the process is aborted.
const DEADLY_NS: u64 = 1_000_000_000;
/// The signal that makes a stuck thread print its stack and end the process. The kernel sends it when a CPU time limit
/// is exceeded, which may have the same effect.
const DEATH: signal::Signal = signal::SIGXCPU;
/// Time that the stuck thread has to print its stack.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Stack of the watchdog's thread in bytes: it formats a message at most.
const STACK: usize = 128 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Looks every 100 ms at a worker that makes no progress; of each interval it computes `computed` ms.
    fn findings(computed: u64, sleeps: bool, looks: u64) -> Vec<WorkerHealth> {
        findings_until(DEADLY_NS, computed, sleeps, looks)
    }

    fn findings_until(deadly: u64, computed: u64, sleeps: bool, looks: u64) -> Vec<WorkerHealth> {
        let mut watch = WorkerWatch::default();
        let looks = (1..=looks).map(|look| {
            let sight =
                Sight { waiting: false, progress: 7, cpu_ns: look * computed * MS, at_ns: look * 100 * MS };
            watch.look(sight, (100 * MS, deadly), || sleeps)
        });
        looks.collect()
    }

    #[test]
    fn the_watchdog_warns_once_about_an_endless_computation_and_kills_it() {
        let findings = findings(100, false, 13);
        // The first look only takes the baseline.
        assert_eq!(findings[1], WorkerHealth::Warn);
        assert_eq!(findings.iter().filter(|finding| **finding == WorkerHealth::Warn).count(), 1);
        // A second of computing marks it, the next look kills.
        assert_eq!(findings.iter().position(|finding| *finding == WorkerHealth::Dead), Some(11));
    }

    #[test]
    fn a_computation_with_a_limit_of_its_own_has_its_time() {
        let findings = findings_until(3_000 * MS, 100, false, 40);
        assert_eq!(findings[1], WorkerHealth::Warn);
        assert_eq!(findings.iter().position(|finding| *finding == WorkerHealth::Dead), Some(31));
    }

    #[test]
    fn the_watchdog_only_warns_about_a_worker_blocked_in_the_kernel() {
        let findings = findings(0, true, 60);
        assert_eq!(findings[1], WorkerHealth::Warn);
        assert!(!findings.contains(&WorkerHealth::Dead));
    }

    #[test]
    fn time_before_the_first_watchdog_check_does_not_count_as_stuck() {
        let mut watch = WorkerWatch::default();
        let at = |at_ns| Sight { waiting: false, progress: 0, cpu_ns: 50 * MS, at_ns };
        // A worker that has not begun, on a machine that has run for an hour.
        assert_eq!(watch.look(at(3_600_000 * MS), (100 * MS, DEADLY_NS), || true), WorkerHealth::Well);
        assert_eq!(watch.look(at(3_600_099 * MS), (100 * MS, DEADLY_NS), || true), WorkerHealth::Well);
        assert_eq!(watch.look(at(3_600_100 * MS), (100 * MS, DEADLY_NS), || true), WorkerHealth::Warn);
        assert_eq!(watch.stuck_ns, 100 * MS);
    }

    #[test]
    fn the_watchdog_ignores_a_worker_without_processor_time() {
        assert!(findings(1, false, 60).iter().all(|finding| *finding == WorkerHealth::Well));
    }

    #[test]
    fn progress_or_polling_resets_the_watchdog() {
        let mut watch = WorkerWatch::default();
        for look in 1..200 {
            let sight = Sight {
                waiting: look % 16 == 0,
                progress: look / 8,
                cpu_ns: look * 100 * MS,
                at_ns: look * 100 * MS,
            };
            assert_ne!(watch.look(sight, (100 * MS, DEADLY_NS), || false), WorkerHealth::Dead, "{look}");
        }
        let sight = Sight { waiting: true, progress: 0, cpu_ns: 0, at_ns: 0 };
        assert_eq!(watch.look(sight, (MS, DEADLY_NS), || true), WorkerHealth::Well);
        assert_eq!((watch.stuck_ns, watch.warned), (0, false));
    }
}
