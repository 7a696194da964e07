//! Maintenance of pattern sets: reorganizes large sets in a thread, frees large lists in pieces, and reports regular expression matches
//! that reached a limit.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use weir_events::Level;
use weir_expr::PatternStore;
use weir_expr::pattern::regex::limit::{self, LimitReport, OnLimit};
use weir_expr::pattern::{any_discarded, free_some, take_untidy};
use weir_sched::{Class, WorkKind};
use weir_stream::log::announce;

use super::LiveProcess;

/// Starts the maintenance task on the current worker. One worker is enough.
pub fn start(live: LiveProcess) {
    weir_sched::spawn(&PATTERNS, Class::Bulk, async move {
        let mut next_report = weir_sched::now();
        // Return the memory used for reading large files.
        weir_memory::give_back();
        loop {
            weir_sched::sleep_until(weir_sched::now().after(PERIOD_MS)).await;
            tidy(&live);
            if any_discarded() {
                while free_some(PIECE) {
                    weir_sched::yield_now().await;
                }
                weir_memory::give_back();
            }
            if weir_sched::now() < next_report {
                continue;
            }
            let reports = limit::take_reports();
            if !reports.is_empty() {
                next_report = weir_sched::now().after(REPORT_MS);
            }
            for report in &reports {
                say(&live, &describe(report, limit::on_limit()));
            }
        }
    });
}

/// Reorganizes large changed sets in a low-priority thread. If the thread cannot start, this worker does it: a delay is better than
/// lists that grow with every change.
fn tidy(live: &LiveProcess) {
    static TIDYING: AtomicBool = AtomicBool::new(false);
    if TIDYING.load(Acquire) || !take_untidy() {
        return;
    }
    let tidy_all = |patterns: &PatternStore| {
        patterns.sets().iter().for_each(|set| set.tidy());
        TIDYING.store(false, Release);
    };
    TIDYING.store(true, Relaxed);
    let patterns = Arc::clone(&live.record.patterns);
    let started = weir_sys::thread::start(c"patterns", move || {
        weir_sys::process::give_way();
        tidy_all(&patterns);
    });
    if started.is_err() {
        tidy_all(&live.record.patterns);
    }
}

fn describe(report: &LimitReport, on_limit: OnLimit) -> String {
    let LimitReport { at, pattern, times } = report;
    let matches = if *times == 1 { "1 match".to_owned() } else { format!("{times} matches") };
    let counted = match on_limit {
        OnLimit::NoMatch => "no match",
        OnLimit::Match => "a match",
    };
    format!(
        "[{at}] : the regular expression '{pattern}' met its limit of work: {matches} given up and counted as {counted} \
         (tune.regex.on-limit)."
    )
}

/// Writes to standard error, and once to each log target of the proxies. The text contains the rule's position.
fn say(live: &LiveProcess, text: &str) {
    if let Some(messages) = live.record.messages {
        messages.warning(text);
    }
    let mut seen = HashSet::new();
    for proxy in &live.instance.proxies {
        let new = proxy.log_sinks.iter().filter(|sink| seen.insert(Arc::as_ptr(sink))).count();
        if new > 0 {
            announce(proxy, Level::Warning, text.as_bytes());
        }
    }
}

static PATTERNS: WorkKind = WorkKind::new("patterns");
const PERIOD_MS: u64 = 1_000;
/// Maximum number of entries freed before other tasks run.
const PIECE: usize = 4_096;
/// Minimum interval between reports about one rule, in milliseconds, because clients can trigger them.
const REPORT_MS: u64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_expr::Location;

    #[test]
    fn a_regex_limit_report_names_the_line_and_the_match_result() {
        let mut report =
            LimitReport { at: Location::new("t.cfg".into(), 7), pattern: "^(a+)+$".into(), times: 1 };
        assert_eq!(
            describe(&report, OnLimit::NoMatch),
            "[t.cfg:7] : the regular expression '^(a+)+$' met its limit of work: 1 match given up and counted as no match \
             (tune.regex.on-limit)."
        );
        report.times = 20;
        assert!(describe(&report, OnLimit::Match).contains("20 matches given up and counted as a match"));
    }
}
