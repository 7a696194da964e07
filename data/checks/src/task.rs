//! The task of a check. In a loop it sleeps, chooses a worker, waits for its turn, runs the check and reports. A panic ends
//! only the current run.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_backend::{CheckFinding, CheckKind, CheckStatus, OperationalState, Server, ServerCheck};
use weir_sched::{Class, Tick, WorkKind, caught, now};

use crate::load::{CheckLoad, CheckStep, take_apart};
use crate::plan::CheckPlan;
use crate::process_view::ProcessView;
use crate::run;
use crate::schedule::{beginning, first_delay_ms, in_phase, is_missed, next, patience};

/// All checks of a process, and their number on each worker.
pub struct Checks {
    /// The check counts of the workers.
    pub load: CheckLoad,
    /// The checks of the configuration.
    plans: Vec<Arc<CheckPlan>>,
    view: Box<dyn ProcessView>,
    /// `max-spread-checks`, in milliseconds.
    most_spread_ms: Option<u64>,
}

impl std::fmt::Debug for Checks {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Checks").field("plans", &self.plans.len()).finish_non_exhaustive()
    }
}

impl Checks {
    /// Checks that are not started yet.
    pub fn new(
        plans: Vec<CheckPlan>,
        load: CheckLoad,
        most_spread_ms: Option<u64>,
        view: Box<dyn ProcessView>,
    ) -> Self {
        Checks { load, plans: plans.into_iter().map(Arc::new).collect(), view, most_spread_ms }
    }

    /// Starts the configured checks assigned to the current worker. Call it once on each worker.
    pub fn start(self: &Arc<Self>) {
        let (worker, workers) = (weir_sched::worker_index(), weir_sched::worker_count().max(1));
        let shortest = self.plans.iter().map(|plan| plan.intervals.usual_ms).min().unwrap_or(0);
        for (rank, plan) in self.plans.iter().enumerate().skip(worker).step_by(workers) {
            let delay = first_delay_ms(rank, self.plans.len(), shortest, self.most_spread_ms);
            self.begin(Arc::clone(plan), now().after(delay));
        }
    }

    /// Starts a check of an added server, at a random time within its first interval.
    pub fn add(self: &Arc<Self>, plan: CheckPlan) {
        let delay = weir_sched::random() % plan.intervals.usual_ms.max(1);
        self.begin(Arc::new(plan), now().after(delay));
    }

    fn begin(self: &Arc<Self>, plan: Arc<CheckPlan>, at: Tick) {
        weir_sched::spawn(&CHECK, Class::Normal, run(Arc::clone(self), plan, at, false));
    }
}

/// Checks a server repeatedly from `at` on, until the server is removed or the check moves to another worker.
async fn run(checks: Arc<Checks>, plan: Arc<CheckPlan>, mut at: Tick, mut adopted: bool) {
    be_woken(&plan);
    let mut has_waited = false;
    loop {
        sleep(&plan, beginning(at, plan.intervals.usual_ms)).await;
        let Some(server) = plan.backend.server(plan.server) else { return };
        let Some(check) = server.check(plan.kind) else { return };
        // After a suspend all checks are due. Each waits for its usual time, but only once, because a worker may always be late.
        let interval = plan.intervals.of(check);
        if is_missed(at, interval, now()) && !std::mem::replace(&mut has_waited, true) {
            at = in_phase(at, interval, now());
            continue;
        }
        has_waited = false;
        let may_move = !std::mem::take(&mut adopted);
        if is_due(&plan, &server, check) {
            let worker = weir_sched::worker_index();
            if may_move && has_moved(&checks, &plan, worker) {
                return;
            }
            take_apart(CheckStep::Begin, patience(now(), plan.intervals.usual_ms)).await;
            let turn = checks.load.turn(worker).await;
            check.record().running = true;
            // `caught` keeps the state of a running check out of the sleeping task.
            let judged = caught(judge(&checks, &plan, &server, check)).await;
            drop(turn);
            if judged.is_err() {
                note_panic(check);
            }
        }
        if server.operational_state(now().as_ms()) == OperationalState::Starting {
            // Each check updates weights and limits of slow starts (manual, "slowstart").
            plan.backend.tick(now().as_ms());
        }
        let interval = plan.intervals.vary(plan.intervals.of(check), weir_sched::random());
        check.record().hurries = false;
        at = next(at, interval, now());
    }
}

/// Checks a server once and reports the finding.
async fn judge(checks: &Checks, plan: &CheckPlan, server: &Arc<Server>, check: &ServerCheck) {
    let report = |finding: CheckFinding| {
        check.record().running = false;
        // The finding is dropped if the server entered maintenance meanwhile.
        if is_due(plan, server, check) && finding.status != CheckStatus::Unknown {
            checks.view.news(plan.backend.report(plan.server, plan.kind, finding, now().as_ms()));
        }
    };
    run::run(plan, server, check, &*checks.view, report).await;
}

/// Records the panic of a check. The server's state does not change until the next check.
fn note_panic(check: &ServerCheck) {
    let mut record = check.record();
    record.running = false;
    record.last = CheckFinding {
        detail: "the check itself failed".into(),
        inconclusive: true,
        ..CheckFinding::new(CheckStatus::SocketError)
    };
}

/// Registers the current task to be woken by [`ServerCheck::hurry`].
fn be_woken(plan: &CheckPlan) {
    let task = weir_sched::current();
    if let Some(server) = plan.backend.server(plan.server)
        && let Some(check) = server.check(plan.kind)
    {
        check.record().wake = Some(Box::new(move || weir_sched::wake(task)));
    }
}

/// Sleeps until `at`, or for a short interval after [`ServerCheck::hurry`].
async fn sleep(plan: &CheckPlan, mut at: Tick) {
    while now() < at {
        let Some(server) = plan.backend.server(plan.server) else { return };
        let Some(check) = server.check(plan.kind) else { return };
        if std::mem::take(&mut check.record().hurries) {
            at = at.min(now().after(plan.intervals.fast_ms));
        }
        drop(server);
        weir_sched::wait(at).await;
    }
}

/// Whether a check may run now.
fn is_due(plan: &CheckPlan, server: &Server, check: &ServerCheck) -> bool {
    // An agent check also runs in maintenance, because the agent may end the maintenance it requested.
    check.record().enabled && (plan.kind == CheckKind::Agent || !server.admin_state().is_maintenance())
}

/// Moves a check to a randomly drawn worker if that one has much less load. The check then runs there at once. False if it
/// stays.
fn has_moved(checks: &Arc<Checks>, plan: &Arc<CheckPlan>, worker: usize) -> bool {
    let Some(other) = checks.load.better_place(worker, weir_sched::random()) else { return false };
    let (checks, plan) = (Arc::clone(checks), Arc::clone(plan));
    let adopt = move || {
        if let Some(counts) = checks.load.of(weir_sched::worker_index()) {
            counts.adopted.fetch_add(1, Relaxed);
        }
        weir_sched::spawn(&CHECK, Class::Normal, run(checks, plan, now(), true));
    };
    weir_sched::send_to(other, adopt).is_ok()
}

static CHECK: WorkKind = WorkKind::new("check");

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<F: Future>(_: impl FnOnce(Arc<Checks>, Arc<CheckPlan>, Tick, bool) -> F) -> usize {
        size_of::<F>()
    }

    /// There may be thousands of checks, most of them asleep. A sleeping check must not hold the state of a running one.
    #[test]
    fn a_sleeping_check_uses_little_memory() {
        let (task, plan) = (size_of_future(run), size_of::<CheckPlan>());
        println!("task {task}, plan {plan}, way {}", size_of::<crate::plan::Dial>());
        assert!(task + plan <= 600, "{task} + {plan} bytes");
    }
}
