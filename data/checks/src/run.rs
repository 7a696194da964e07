//! One run of a check: connects, runs the dialogue if there is one, reports the finding, and closes the connection.

use std::sync::Arc;

use weir_backend::{CheckFinding, CheckKind, CheckResult, Server, ServerCheck};

use crate::agent;
use crate::attempt::{Attempt, at_first};
use crate::conversation::CheckDialogue;
use crate::plan::CheckPlan;
use crate::process_view::ProcessView;
use crate::program;

/// Checks the server and reports. Every outcome is a finding, [`CheckStatus::Unknown`](weir_backend::CheckStatus::Unknown) if there
/// was nothing to check. A failure that is detected far too late is checked once more: after a suspend, the deadlines of
/// all checks have passed, and responses of servers may still be unread.
pub(crate) async fn run(
    plan: &CheckPlan,
    server: &Arc<Server>,
    check: &ServerCheck,
    view: &dyn ProcessView,
    report: impl FnOnce(CheckFinding),
) {
    let mut is_again = false;
    loop {
        let began_us = weir_sched::now_us();
        let attempt = Attempt::new(plan, server, check, view);
        let finding = once(&attempt).await;
        let is_doubtful = attempt.is_late() && finding.result() == CheckResult::Failed;
        if std::mem::replace(&mut is_again, true) || !is_doubtful {
            let duration_ms = weir_sched::now_us().saturating_sub(began_us) / 1000;
            return report(CheckFinding { duration_ms, ..finding });
        }
    }
}

async fn once(attempt: &Attempt<'_>) -> CheckFinding {
    let plan = attempt.plan;
    match (&plan.program, &plan.script) {
        _ if plan.kind == CheckKind::Agent => agent::query(attempt).await,
        (Some(program), _) => program::run(attempt, program).await,
        (None, Some(script)) if !script.rules.is_empty() => CheckDialogue::new(attempt, script).hold().await,
        (None, script) => {
            attempt.probe().await.map_or_else(|failed| at_first(failed, script.is_some()), CheckFinding::new)
        }
    }
}
