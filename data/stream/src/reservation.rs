//! The shared state of scripts, reserved for expressions that cannot wait.

use weir_containers::PooledFuture;
use weir_expr::ScriptName;
use weir_scripts::Turn;

use crate::drive::{DriveStep, drive_withheld, waits_until};
use crate::stream::{PhaseResult, Stream};

/// Whether these fetches and converters of scripts run in the shared state.
#[inline]
pub(crate) fn is_needed(stream: &Stream, names: &[ScriptName]) -> bool {
    !names.is_empty() && uses_shared_state(stream, names)
}

#[cold]
fn uses_shared_state(stream: &Stream, names: &[ScriptName]) -> bool {
    let scripts = stream.frontend.instance().hooks.scripts.as_ref();
    scripts.is_some_and(|scripts| scripts.uses_shared_state(weir_sched::worker_index(), names))
}

/// Reserves the shared state of the scripts for the expressions that follow, until [`end`]. Call that before any wait.
#[cold]
pub(crate) fn reserve(stream: &mut Stream) -> PooledFuture<'_, PhaseResult> {
    PooledFuture::new(async move {
        let Some(scripts) = stream.frontend.instance().hooks.scripts.clone() else { return Ok(()) };
        let mut turn = None;
        if scripts.reserve(&mut turn) {
            return Ok(());
        }
        let during = stream.phase;
        drive_withheld(stream, |stream| match scripts.reserve(&mut turn) {
            true => Ok(DriveStep::Done(())),
            false => waits_until(stream, Turn::retry_at(), during).map(DriveStep::Wait),
        })
        .await
    })
}

/// Gives the state back, if it was reserved.
#[inline]
pub(crate) fn end(is_scripted: bool) {
    if is_scripted {
        weir_scripts::release_reservation();
    }
}
