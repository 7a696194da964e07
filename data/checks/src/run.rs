//! One check: connects, talks if there is something to say, and concludes.

use weir_backend::{Check, CheckKind, Finding, Server};
use weir_config::model::CheckConnect;

use crate::agent;
use crate::attempt::{Attempt, stands};
use crate::conversation::Conversation;
use crate::plan::CheckPlan;
use crate::process_view::ProcessView;
use crate::program;

/// Checks the server once. Whatever happens is a finding; [`CheckStatus::Unknown`] when there was nothing to check.
pub(crate) async fn run(plan: &CheckPlan, server: &Server, check: &Check, view: &dyn ProcessView) -> Finding {
    let began_us = weir_sched::now_us();
    let attempt = Attempt::new(plan, server, check, view);
    let mut finding = match (&plan.program, &plan.script) {
        _ if plan.kind == CheckKind::Agent => agent::ask(&attempt).await,
        (Some(program), _) => program::run(&attempt, program).await,
        (None, Some(script)) => Conversation::new(&attempt, script).hold().await,
        (None, None) => match attempt.connect(&CheckConnect::default(), None, None).await {
            Ok(mut connection) => {
                connection.say_goodbye();
                Finding::new(stands(&connection))
            }
            Err(finding) => finding,
        },
    };
    finding.duration_ms = weir_sched::now_us().saturating_sub(began_us) / 1000;
    finding
}
