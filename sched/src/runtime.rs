//! Starting and joining workers.

use crate::commons::{Commons, Membership};
use crate::driver::{Clock, Poller, SystemClock, WorkerBell};
use crate::policy::SchedulerTuning;
use crate::profile::ProfileSettings;
use crate::shared::SharedSide;
use crate::watchdog::{Stall, Watchdog};
use crate::worker::{Worker, WorkerParts};
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use weir_sys::poll::{Epoll, Wakener};
use weir_sys::{Errno, Result, process, random};

/// Settings of the workers.
#[derive(Debug, Clone)]
pub struct RuntimeSettings {
    /// How many workers (`nbthread`).
    pub threads: usize,
    /// The processors of each worker (`cpu-map`); an absent or empty entry leaves the choice to the kernel.
    pub processors: Vec<Vec<usize>>,
    /// The most events that one call of the poller returns (`tune.maxpollevents`).
    pub most_poll_events: usize,
    /// Depth, classes and latency.
    pub tuning: SchedulerTuning,
    /// The profiling settings at startup.
    pub profiling: ProfileSettings,
}

impl Default for RuntimeSettings {
    fn default() -> Self {
        Self {
            threads: 1,
            processors: Vec::new(),
            most_poll_events: 200,
            tuning: SchedulerTuning::default(),
            profiling: ProfileSettings::default(),
        }
    }
}

/// The workers of a process.
#[derive(Debug)]
pub struct Runtime {
    handle: RuntimeHandle,
    threads: Vec<JoinHandle<()>>,
}

/// Reaches the workers of a runtime from any thread.
#[derive(Clone)]
pub struct RuntimeHandle {
    workers: Arc<[Arc<SharedSide>]>,
    commons: Arc<Commons>,
}

impl Runtime {
    /// Starts the workers. After all are set up, `init` runs on each worker, with the worker's number, before its event
    /// loop. If one cannot be set up, all end and its error is returned.
    pub fn start(settings: &RuntimeSettings, init: impl Fn(usize) + Send + Sync + 'static) -> Result<Self> {
        let (workers, commons, memberships) = shared_sides(settings.threads, settings.tuning, kernel_bell)?;
        let now_ns = weir_sys::time::monotonic_ns();
        workers.iter().for_each(|shared| shared.set_profiling(settings.profiling, FIRST_WISH, now_ns));
        let init = Arc::new(init);
        let (report, reports) = mpsc::channel();
        let decision = Arc::new(StartDecision::default());
        let mut runtime = Self {
            handle: RuntimeHandle { workers: workers.clone(), commons: commons.clone() },
            threads: Vec::new(),
        };
        let mut result = Ok(());
        for ((index, shared), membership) in workers.iter().enumerate().zip(memberships) {
            let body = {
                let (settings, peers) = (settings.clone(), workers.clone());
                let commons = commons.clone();
                let (init, report, decision) = (init.clone(), report.clone(), decision.clone());
                move || {
                    let worker = set_up(&settings, index, peers, commons, membership);
                    let sent = report.send(worker.as_ref().map(drop).map_err(|error| *error));
                    if let (Ok(worker), Ok(())) = (worker, sent) {
                        live(worker, &decision, &*init);
                    }
                }
            };
            match std::thread::Builder::new().name(format!("worker-{index}")).spawn(body) {
                Ok(thread) => runtime.threads.push(thread),
                Err(error) => {
                    shared.retire();
                    result = Err(Errno::from_io_error(&error).unwrap_or(Errno::AGAIN));
                }
            }
        }
        drop(report);
        for _ in &runtime.threads {
            // A thread that ends without a report has panicked during set-up.
            result = result.and(reports.recv().unwrap_or(Err(Errno::CANCELED)));
        }
        decision.make(result.is_ok());
        match result {
            Ok(()) => Ok(runtime),
            Err(error) => runtime.join().and(Err(error)),
        }
    }

    /// Requests all workers to stop, each after its scheduling round. Their tasks are dropped.
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Watches the workers until the returned watchdog is dropped. `report` is called for a worker that made no
    /// progress for `warn_after`. A worker that computes for a second without progress is reported again, and the
    /// process is aborted. In a computation with a limit of its own ([`limited`](crate::limited)), it may compute for `limited_for`, if
    /// that is longer.
    pub fn watch(
        &self,
        warn_after: std::time::Duration,
        limited_for: std::time::Duration,
        report: impl Fn(&Stall) + Send + 'static,
    ) -> Result<Watchdog> {
        Watchdog::start(self.handle.workers.clone(), (warn_after, limited_for), report)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))
    }

    /// A handle to the workers. It does not prevent [`join`](Self::join).
    pub fn handle(&self) -> RuntimeHandle {
        self.handle.clone()
    }

    /// Waits until all workers have ended. [`Errno::CANCELED`] if one panicked outside a task.
    pub fn join(self) -> Result<()> {
        let mut result = Ok(());
        for thread in self.threads {
            result = result.and(thread.join().map_err(|_| Errno::CANCELED));
        }
        result
    }
}

impl RuntimeHandle {
    /// Requests all workers to stop.
    pub fn stop(&self) {
        self.workers.iter().for_each(|shared| shared.request_stop());
    }

    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// Calls `look` with the counters of a worker.
    pub fn activity<R>(&self, worker: usize, look: impl FnOnce(&crate::Activity) -> R) -> Option<R> {
        self.workers.get(worker).map(|shared| look(&shared.activity))
    }

    /// Like [`crate::spawn_shared`], from any thread.
    pub fn spawn_shared(
        &self,
        kind: &'static crate::WorkKind,
        workers: &crate::WorkerSet,
        future: impl Future<Output = ()> + Send + 'static,
    ) -> crate::TaskKey {
        self.commons.spawn(kind, workers, Box::pin(future))
    }

    /// How many shared tasks live, and how many of them wait to run.
    pub fn shared_tasks(&self) -> (u32, u32) {
        (self.commons.live(), self.commons.waiting())
    }

    /// The kind of the task that a worker runs now; `None` outside a task.
    pub fn running(&self, worker: usize) -> Option<&'static crate::WorkKind> {
        self.workers.get(worker)?.current.kind()
    }

    /// Runs `work` on a worker, between tasks.
    pub fn send_to(
        &self,
        worker: usize,
        work: impl FnOnce() + Send + 'static,
    ) -> std::result::Result<(), crate::NotDelivered> {
        let shared = self.workers.get(worker).ok_or(crate::NotDelivered)?;
        shared.send(crate::shared::WorkerRequest::Run(Box::new(work)))
    }
}

impl std::fmt::Debug for RuntimeHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({} workers)", self.workers.len())
    }
}

/// Makes the current thread the only worker of a runtime until `future` ends, and returns its output; `None` if the
/// runtime was stopped before. For tests and tools.
pub fn run<T: 'static>(future: impl Future<Output = T> + 'static) -> Result<Option<T>> {
    let poller = Box::new(Epoll::new(RuntimeSettings::default().most_poll_events)?);
    run_on(poller, Box::new(SystemClock), random::number()?, future)
}

pub(crate) fn run_on<T: 'static>(
    poller: Box<dyn Poller>,
    clock: Box<dyn Clock>,
    seed: u64,
    future: impl Future<Output = T> + 'static,
) -> Result<Option<T>> {
    static MAIN: crate::WorkKind = crate::WorkKind::new("main");
    let tuning = SchedulerTuning::default();
    let (peers, commons, mut memberships) = shared_sides(1, tuning, kernel_bell)?;
    let membership = memberships.pop().expect("one worker, one membership");
    let worker = Worker::install(WorkerParts {
        index: 0,
        peers,
        commons,
        membership,
        tuning,
        poller,
        network: None,
        clock,
        seed,
    })?;
    let result = Rc::new(RefCell::new(None));
    let place = result.clone();
    crate::spawn(&MAIN, crate::Class::Normal, async move {
        // Stops the worker even if the future panics. Otherwise the caller would wait for ever.
        let _stop = StopOnDrop;
        let value = future.await;
        *place.borrow_mut() = Some(value);
    });
    worker.run();
    worker.uninstall();
    Ok(result.take())
}

/// The number of the profiling settings that a runtime starts with; later settings get higher ones.
const FIRST_WISH: u32 = 1;

pub(crate) struct StopOnDrop;

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        crate::stop();
    }
}

pub(crate) type Sides = (Arc<[Arc<SharedSide>]>, Arc<Commons>, Vec<Membership>);

pub(crate) fn shared_sides(
    count: usize,
    tuning: SchedulerTuning,
    bell: impl Fn() -> Result<WorkerBell>,
) -> Result<Sides> {
    let mut sides = Vec::new();
    let mut result = Ok(());
    for _ in 0..count.max(1) {
        match bell().and_then(SharedSide::new) {
            Ok(shared) => sides.push(shared),
            Err(error) => result = Err(error),
        }
    }
    let sides: Arc<[Arc<SharedSide>]> = sides.into();
    let founded = result.and_then(|()| Commons::found(&sides, tuning.runqueue_depth));
    let (commons, memberships) = founded.inspect_err(|_| sides.iter().for_each(|side| side.retire()))?;
    Ok((sides, commons, memberships))
}

fn kernel_bell() -> Result<WorkerBell> {
    Wakener::new().map(WorkerBell::Kernel)
}

fn set_up(
    settings: &RuntimeSettings,
    index: usize,
    peers: Arc<[Arc<SharedSide>]>,
    commons: Arc<Commons>,
    membership: Membership,
) -> Result<&'static Worker> {
    let shared = peers[index].clone();
    let install = || {
        if let Some(processors) = settings.processors.get(index).filter(|processors| !processors.is_empty()) {
            process::set_processors(processors)?;
        }
        let poller = Box::new(Epoll::new(settings.most_poll_events)?);
        let (tuning, clock, seed) = (settings.tuning, Box::new(SystemClock), random::number()?);
        Worker::install(WorkerParts {
            index,
            peers,
            commons,
            membership,
            tuning,
            poller,
            network: None,
            clock,
            seed,
        })
    };
    install().inspect_err(|_| shared.retire())
}

/// Runs a worker until it stops, once all workers are set up.
fn live(worker: &Worker, decision: &StartDecision, init: &(dyn Fn(usize) + Send + Sync)) {
    // Unregisters the worker even if `init` panics.
    let _end = EndOnDrop(worker);
    if decision.wait() {
        init(crate::worker_index());
        worker.run();
    }
}

struct EndOnDrop<'a>(&'a Worker);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.uninstall();
    }
}

/// Blocks workers until all of them are set up, or one has failed.
#[derive(Default)]
struct StartDecision {
    decision: Mutex<Option<bool>>,
    decided: Condvar,
}

impl StartDecision {
    fn make(&self, go: bool) {
        *self.decision.lock().unwrap_or_else(PoisonError::into_inner) = Some(go);
        self.decided.notify_all();
    }

    fn wait(&self) -> bool {
        let mut decision = self.decision.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match *decision {
                Some(go) => return go,
                None => decision = self.decided.wait(decision).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
