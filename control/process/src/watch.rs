//! Reports about stuck workers.
//!
//! Written directly to standard error, because the worker may be stuck in any other output.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use weir_sched::{Runtime, RuntimeHandle, Stall, Watchdog};
use weir_stream::instance::Instance;
use weir_syntax::{DiagnosticSeverity, classic_line};

use weir_observe::work_target::place_of;

/// Watches the workers until the returned guard is dropped. A call of a script may compute for twice `burst` (`tune.lua.burst-timeout`), so
/// that its own limit ends it first.
pub(crate) fn start(
    runtime: &Runtime,
    instance: Arc<Instance>,
    warn_after: Duration,
    burst: Option<Duration>,
) -> weir_sys::Result<Watchdog> {
    let handle = runtime.handle();
    runtime.watch(warn_after, 2 * burst.unwrap_or_default(), move |stall| {
        let streams =
            instance.process_counters.get(stall.worker).map_or(0, |counters| counters.streams_now.value());
        let mut text = classic_line(severity(stall), weir_sys::process::id(), &describe(stall, streams));
        if stall.deadly {
            text.push_str(&everybody(&handle));
        }
        // The watchdog must not block. A warning does not wait for a reader, and the last message waits only briefly.
        let patience_ms = if stall.deadly { LAST_WORDS_MS } else { 0 };
        weir_sys::standard_error::write(text.as_bytes(), patience_ms);
    })
}

/// How long the last message before the process is killed waits for a reader, in milliseconds.
const LAST_WORDS_MS: u32 = 100;

fn severity(stall: &Stall) -> DiagnosticSeverity {
    if stall.deadly { DiagnosticSeverity::Alert } else { DiagnosticSeverity::Warning }
}

fn describe(stall: &Stall, streams: u64) -> String {
    let thread = stall.worker + 1;
    let at = match stall.kind {
        Some(kind) => format!("'{}'", place_of(kind)),
        None => "its own loop".to_owned(),
    };
    let woken =
        stall.woken_at.map_or(String::new(), |place| format!(", woken at {}:{}", place.file(), place.line()));
    let how = if stall.asleep { "waits for the kernel" } else { "computes" };
    let milliseconds = stall.stuck_ns / 1_000_000;
    let mut text = format!(
        "Thread {thread} {how} in {at}{woken} and has not run another task for {milliseconds} ms; {streams} streams \
         wait for it."
    );
    text.push_str(match stall {
        Stall { deadly: true, .. } => " It is stuck: the process ends.",
        Stall { asleep: true, .. } => " A slow disk or an unread pipe can hold it there.",
        _ => {
            " With 'set profiling tasks on', 'show profiling tasks' tells which kind of work takes how long, and what \
             woke it."
        }
    });
    text
}

/// The current work of each worker, one line each, for diagnosis.
fn everybody(handle: &RuntimeHandle) -> String {
    let mut text = String::new();
    for worker in 0..handle.worker_count() {
        let at = handle.running(worker).map_or_else(|| "no task".to_owned(), place_of);
        let counters = handle.activity(worker, |activity| (activity.loops.value(), activity.queued.value()));
        let (loops, queued) = counters.unwrap_or_default();
        let _ = writeln!(
            text,
            "  thread {}: {at}, {loops} event loop iterations, {queued} tasks queued",
            worker + 1
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sched::WorkKind;

    static KIND: WorkKind = WorkKind::new("connection");

    /// The report names the stuck kind of work and its source position.
    #[test]
    fn a_stall_report_names_the_kind_of_work_and_its_source_line() {
        let here = std::panic::Location::caller();
        let stall = Stall {
            worker: 1,
            kind: Some(&KIND),
            woken_at: Some(here),
            stuck_ns: 104_900_000,
            asleep: false,
            deadly: false,
        };
        let text = describe(&stall, 12);
        let line = KIND.place.line();
        let start = format!(
            "Thread 2 computes in 'connection@control/process/src/watch.rs:{line}', woken at control/process/src/watch.rs:{} \
             and has not run another task for 104 ms; 12 streams wait for it.",
            here.line()
        );
        assert!(text.starts_with(&start), "{text}");
        let deadly = describe(&Stall { deadly: true, kind: None, woken_at: None, ..stall }, 0);
        assert!(deadly.starts_with("Thread 2 computes in its own loop and"), "{deadly}");
        assert!(deadly.ends_with("the process ends."), "{deadly}");
        let asleep = describe(&Stall { asleep: true, ..stall }, 0);
        assert!(asleep.starts_with("Thread 2 waits for the kernel in "), "{asleep}");
        // Each report gives advice.
        assert!(text.contains("profiling") && asleep.contains("disk") && !deadly.contains("disk"));
    }
}
