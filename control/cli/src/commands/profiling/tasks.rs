//! The table of `show profiling tasks`: one line per kind of work and waker.

use std::cmp::Reverse;
use std::fmt::Write;

use super::{ProfileOrder, View, human::time_cell};
use crate::target::{Span, TaskLine, TaskProfile};

pub(super) fn write(profile: TaskProfile, view: View, text: &mut String) {
    let Span { over_ms, ago_ms } = profile.span;
    let _ = writeln!(text, "Tasks activity over {} till {} ago:", seconds(over_ms), seconds(ago_ms));
    text.push_str(
        "  function                      calls   cpu_tot   cpu_avg   lkw_avg   lkd_avg   mem_avg   lat_avg\n",
    );
    let lines = if view.aggregate { aggregate(profile.lines) } else { profile.lines };
    for line in with_totals(sorted(lines, view.order), view).iter().take(view.lines) {
        write_line(line, text);
    }
}

pub(super) fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03} sec", milliseconds / 1000, milliseconds % 1000)
}

fn sorted(mut lines: Vec<TaskLine>, order: ProfileOrder) -> Vec<TaskLine> {
    // Break ties by name and caller, so that outputs are comparable.
    lines.sort_by(|a, b| (&a.function, &a.caller).cmp(&(&b.function, &b.caller)));
    match order {
        ProfileOrder::Usage => lines.sort_by_key(|line| Reverse(line.calls)),
        ProfileOrder::Time => lines.sort_by_key(|line| Reverse(line.cpu_ns)),
        ProfileOrder::Address => lines.sort_by_key(|line| line.address),
        ProfileOrder::Caller => lines.sort_by(|a, b| a.caller.cmp(&b.caller)),
    }
    lines
}

/// Combines the lines of each function.
fn aggregate(lines: Vec<TaskLine>) -> Vec<TaskLine> {
    let mut functions: Vec<TaskLine> = Vec::new();
    for line in lines {
        match functions.iter_mut().find(|known| known.address == line.address) {
            Some(known) => add(known, &line),
            None => functions.push(TaskLine { caller: None, ..line }),
        }
    }
    functions
}

/// Sorts by address, so that the lines of a function are adjacent, and appends the sum of each function.
fn with_totals(lines: Vec<TaskLine>, view: View) -> Vec<TaskLine> {
    if view.order != ProfileOrder::Address || view.aggregate {
        return lines;
    }
    let mut whole = Vec::new();
    for function in lines.chunk_by(|a, b| a.address == b.address) {
        whole.extend_from_slice(function);
        if function.len() > 1 {
            let mut total = TaskLine { caller: Some(TOTAL.to_owned()), ..function[0].clone() };
            function[1..].iter().for_each(|line| add(&mut total, line));
            whole.push(total);
        }
    }
    whole
}

fn add(sum: &mut TaskLine, line: &TaskLine) {
    sum.calls += line.calls;
    sum.cpu_ns += line.cpu_ns;
    sum.latency_ns += line.latency_ns;
    sum.latencies += line.latencies;
    sum.lock_wait_ns += line.lock_wait_ns;
    sum.lock_held_ns += line.lock_held_ns;
    sum.memory_ns += line.memory_ns;
}

fn write_line(line: &TaskLine, text: &mut String) {
    let average = |sum: u64, count: u64| time_cell(sum.checked_div(count).unwrap_or(0));
    // A long name takes space from the count, so that the columns stay aligned.
    let width = NAME_AND_CALLS.saturating_sub(line.function.len());
    let _ = write!(
        text,
        "  {}{:>width$}{}{}{}{}{}{}",
        line.function,
        line.calls,
        time_cell(line.cpu_ns),
        average(line.cpu_ns, line.calls),
        average(line.lock_wait_ns, line.calls),
        average(line.lock_held_ns, line.calls),
        average(line.memory_ns, line.calls),
        average(line.latency_ns, line.latencies),
    );
    let _ = match line.caller.as_deref() {
        Some(TOTAL) => writeln!(text, " {TOTAL}"),
        Some(caller) => writeln!(text, " <- {caller}"),
        None => {
            text.truncate(text.trim_end().len());
            writeln!(text)
        }
    };
}

/// Width of name and count together, as in HAProxy.
const NAME_AND_CALLS: usize = 35;
const TOTAL: &str = "--total--";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(
        function: &str,
        address: usize,
        caller: &str,
        calls: u64,
        cpu_ns: u64,
        latency_ns: u64,
    ) -> TaskLine {
        TaskLine {
            function: function.to_owned(),
            address,
            caller: Some(caller.to_owned()),
            calls,
            cpu_ns,
            latency_ns,
            latencies: calls,
            ..TaskLine::default()
        }
    }

    fn lines() -> Vec<TaskLine> {
        vec![
            line("connection", 1, "poll@w.rs:1 io_wakeup", 4, 14_230, 14_176),
            line("accept", 2, "poll@w.rs:1 io_wakeup", 10, 116_800, 203_900),
            line("connection", 1, "spawn@d.rs:2 task_spawn", 11, 14_890, 28_380),
            line("cli session", 3, "wake@c.rs:9 task_wakeup", 1, 0, 10_370),
        ]
    }

    #[track_caller]
    fn check(words: &str, expected: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let view = View::parse(&words).expect("known words");
        let mut text = String::new();
        let profile = TaskProfile { span: Span { over_ms: 30_390, ago_ms: 0 }, lines: lines() };
        write(profile, view, &mut text);
        let body: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(body, expected.lines().collect::<Vec<_>>(), "{words:?}");
    }

    /// R74: header and columns equal HAProxy's output.
    #[test]
    fn the_task_profile_has_haproxys_columns() {
        let mut text = String::new();
        let mut reference =
            line("sc_conn_io_cb", 1, "sock_conn_iocb@src/sock.c:1149 tasklet_wakeup", 11, 14_890, 28_380);
        reference.latency_ns = 2_580 * 11;
        let profile = TaskProfile { span: Span { over_ms: 30_389, ago_ms: 0 }, lines: vec![reference] };
        write(profile, View::parse(&[]).expect("all"), &mut text);
        assert_eq!(
            text,
            "Tasks activity over 30.389 sec till 0.000 sec ago:\n  \
             function                      calls   cpu_tot   cpu_avg   lkw_avg   lkd_avg   mem_avg   lat_avg\n  \
             sc_conn_io_cb                    11   14.89us   1.353us      -         -         -      2.580us <- \
             sock_conn_iocb@src/sock.c:1149 tasklet_wakeup\n"
        );
    }

    /// R76: a long name takes space from the count.
    #[test]
    fn long_task_names_do_not_shift_the_columns() {
        let mut text = String::new();
        write_line(&line("srv_cleanup_toremove_connections", 1, "x", 751, 39_700_000, 10_540_000), &mut text);
        assert!(text.starts_with("  srv_cleanup_toremove_connections751   39.70ms   52.86us"), "{text}");
    }

    /// R77: the sort orders and the sums.
    #[test]
    fn show_profiling_tasks_sorts_and_sums_lines_by_its_options() {
        let poll = "  connection                        4   14.23us   3.557us      -         -         -      3.544us <- poll@w.rs:1 io_wakeup\n";
        let spawn = "  connection                       11   14.89us   1.353us      -         -         -      2.580us <- spawn@d.rs:2 task_spawn\n";
        let accept = "  accept                           10   116.8us   11.68us      -         -         -      20.39us <- poll@w.rs:1 io_wakeup\n";
        let cli = "  cli session                       1      -         -         -         -         -      10.37us <- wake@c.rs:9 task_wakeup\n";
        let total = "  connection                       15   29.12us   1.941us      -         -         -      2.837us --total--\n";
        let sum = total.replace(" --total--", "");
        check("tasks", &format!("{spawn}{accept}{poll}{cli}"));
        check("tasks bytime", &format!("{accept}{spawn}{poll}{cli}"));
        check("tasks byaddr", &format!("{poll}{spawn}{total}{accept}{cli}"));
        check("tasks byctx", &format!("{accept}{poll}{spawn}{cli}"));
        check("tasks 2", &format!("{spawn}{accept}"));
        let accept = accept.split(" <-").next().expect("a part").to_owned() + "\n";
        let cli = cli.split(" <-").next().expect("a part").to_owned() + "\n";
        check("tasks aggr", &format!("{sum}{accept}{cli}"));
        check("tasks aggr byaddr 2", &format!("{sum}{accept}"));
    }
}
