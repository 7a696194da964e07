//! The tables of `show profiling tasks` about scripts: functions, lines, and calls that block their thread. Tables without lines are left out.

use std::fmt::Write;

use super::{ProfileOrder, View, human::time_cell};
use crate::target::{ScriptCostLine, ScriptProfile};

pub(super) fn write(profile: &ScriptProfile, view: View, text: &mut String) {
    let table = |title: &str, columns: &str, lines: &[ScriptCostLine], cells: Cells, text: &mut String| {
        if lines.is_empty() {
            return;
        }
        let _ = writeln!(text, "{title}:\n  {columns}");
        for line in sorted(lines, view.order).into_iter().take(view.lines) {
            let cells = cells(line);
            let place = if line.place.is_empty() { "-" } else { &line.place };
            // A long name takes space from the count, so that the columns stay aligned. One space separates them in any case.
            let width = NAME_AND_CALLS.saturating_sub(line.name.chars().count() + 1);
            let _ = writeln!(text, "  {} {:>width$}{cells} <- {place}", line.name, line.calls);
        }
    };
    let columns = "function                      calls   cpu_tot   cpu_avg   lkw_avg alloc_tot";
    table("Lua functions", columns, &profile.functions, function, text);
    let columns = "                            samples   cpu_tot   cpu_avg";
    table("Lua lines, sampled", columns, &profile.lines, times, text);
    let columns = "function                      calls   blk_tot   blk_avg";
    table("Lua calls that block their thread", columns, &profile.blocking, times, text);
}

/// The cells of a line behind the count.
type Cells = fn(&ScriptCostLine) -> String;

fn times(line: &ScriptCostLine) -> String {
    time_cell(line.time_ns) + &time_cell(average(line.time_ns, line.calls))
}

fn function(line: &ScriptCostLine) -> String {
    let waited = time_cell(average(line.waited_ns, line.calls));
    // In bytes.
    format!("{}{waited}{:>10}", times(line), line.allocated)
}

fn average(sum: u64, count: u64) -> u64 {
    sum.checked_div(count).unwrap_or(0)
}

/// By time, as the profile has them, or by calls or by place.
fn sorted(lines: &[ScriptCostLine], order: ProfileOrder) -> Vec<&ScriptCostLine> {
    let mut lines: Vec<&ScriptCostLine> = lines.iter().collect();
    match order {
        ProfileOrder::Usage => lines.sort_by_key(|line| std::cmp::Reverse(line.calls)),
        ProfileOrder::Time => {}
        ProfileOrder::Address | ProfileOrder::Caller => lines.sort_by(|a, b| a.place.cmp(&b.place)),
    }
    lines
}

/// Width of name and count together.
const NAME_AND_CALLS: usize = 35;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, place: &str, calls: u64, time_ns: u64) -> ScriptCostLine {
        ScriptCostLine {
            name: name.to_owned(),
            place: place.to_owned(),
            calls,
            time_ns,
            waited_ns: 2_000 * calls,
            allocated: 72 * calls,
        }
    }

    #[track_caller]
    fn check(words: &str, profile: &ScriptProfile, expected: &str) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut text = String::new();
        write(profile, View::parse(&words).expect("known words"), &mut text);
        assert_eq!(text, expected, "{words:?}");
    }

    #[test]
    fn long_names_are_separated_from_their_counts() {
        let name = |length| format!("cli '<{}>'", "x".repeat(length));
        let line = |length| line(&name(length), "a.lua:1", 12, 0);
        let functions = vec![line(24), line(25), line(40)];
        let profile = ScriptProfile { functions, ..ScriptProfile::default() };
        let mut text = String::new();
        write(&profile, View::parse(&["bytime".to_owned()]).expect("a known word"), &mut text);
        let shown: Vec<&str> =
            text.lines().skip(2).filter_map(|line| line.split_once(" 12 ")).map(|(name, _)| name).collect();
        assert_eq!(shown, [24, 25, 40].map(|length| format!("  {}", name(length))), "{text}");
    }

    #[test]
    fn scripts_have_tables_of_functions_lines_and_blocking_calls() {
        let profile = ScriptProfile {
            functions: vec![
                line("function 'slow'", "/a.lua:3", 2, 3_400_000),
                line("task", "/a.lua:1", 9, 4_500),
            ],
            lines: vec![line("", "/a.lua:4", 12, 12_000_000)],
            blocking: vec![line("os.execute", "/a.lua:7", 1, 2_000_000_000)],
        };
        let title =
            "Lua functions:\n  function                      calls   cpu_tot   cpu_avg   lkw_avg alloc_tot\n";
        let slow =
            "  function 'slow'                   2   3.400ms   1.700ms   2.000us       144 <- /a.lua:3\n";
        let task =
            "  task                              9   4.500us   500.0ns   2.000us       648 <- /a.lua:1\n";
        let lines = "Lua lines, sampled:\n                              samples   cpu_tot   cpu_avg\n";
        let sample = "                                   12   12.00ms   1.000ms <- /a.lua:4\n";
        let blocking =
            "Lua calls that block their thread:\n  function                      calls   blk_tot   blk_avg\n";
        let call = "  os.execute                        1   2.000s    2.000s  <- /a.lua:7\n";
        let rest = format!("{lines}{sample}{blocking}{call}");
        check("", &profile, &format!("{title}{task}{slow}{rest}"));
        check("bytime", &profile, &format!("{title}{slow}{task}{rest}"));
        check("byaddr", &profile, &format!("{title}{task}{slow}{rest}"));
        check(
            "bytime",
            &ScriptProfile { functions: profile.functions, ..Default::default() },
            &format!("{title}{slow}{task}"),
        );
        check("", &ScriptProfile::default(), "");
    }
}
