//! The table of `show profiling memory`: one line per caller and method of allocation or release.

use std::cmp::Reverse;
use std::fmt::Write;

use super::tasks::seconds;
use super::{ProfileOrder, View};
use crate::target::{MemoryLine, MemoryProfile, Span};

pub(super) fn write(profile: MemoryProfile, view: View, text: &mut String) {
    let Span { over_ms, ago_ms } = profile.span;
    let _ = writeln!(
        text,
        "Alloc/Free statistics by call place over {} till {} ago:",
        seconds(over_ms),
        seconds(ago_ms)
    );
    text.push_str(HEAD);
    let total = sum(&profile.lines);
    let lines = if view.aggregate { aggregate(profile.lines) } else { profile.lines };
    for line in sorted(lines, view.order).iter().take(view.lines) {
        write_line(line, text);
    }
    write_counters(&total, text);
    let _ = writeln!(
        text,
        " <- Total; Delta_calls={}; Delta_bytes={}",
        delta(total.allocations, total.frees),
        delta(total.allocated_bytes, total.freed_bytes)
    );
}

fn sorted(mut lines: Vec<MemoryLine>, order: ProfileOrder) -> Vec<MemoryLine> {
    let name = |line: &MemoryLine| (line.caller.clone(), line.method, line.context.clone());
    lines.sort_by_cached_key(name);
    match order {
        // Sorted by bytes, then by number of allocations.
        ProfileOrder::Usage | ProfileOrder::Time => {
            lines.sort_by_key(|line| Reverse((line.allocated_bytes.max(line.freed_bytes), line.allocations)));
        }
        ProfileOrder::Address => lines.sort_by_key(|line| line.address),
        ProfileOrder::Caller => lines.sort_by(|a, b| a.context.cmp(&b.context)),
    }
    lines
}

/// One line per caller and method, over all kinds of work.
fn aggregate(lines: Vec<MemoryLine>) -> Vec<MemoryLine> {
    let mut places: Vec<MemoryLine> = Vec::new();
    for line in lines {
        match places.iter_mut().find(|known| known.caller == line.caller && known.method == line.method) {
            Some(known) => add(known, &line),
            None => places.push(MemoryLine { context: None, ..line }),
        }
    }
    places
}

fn sum(lines: &[MemoryLine]) -> MemoryLine {
    let mut total = MemoryLine::default();
    lines.iter().for_each(|line| add(&mut total, line));
    total
}

fn add(sum: &mut MemoryLine, line: &MemoryLine) {
    sum.allocations += line.allocations;
    sum.frees += line.frees;
    sum.allocated_bytes += line.allocated_bytes;
    sum.freed_bytes += line.freed_bytes;
}

fn write_line(line: &MemoryLine, text: &mut String) {
    write_counters(line, text);
    let calls = line.allocations + line.frees;
    let average = (line.allocated_bytes + line.freed_bytes).checked_div(calls).unwrap_or(0);
    let _ = write!(text, " {} {}({average})", line.caller, line.method);
    // A caller that both allocates and frees also shows the difference.
    if line.allocations > 0 && line.frees > 0 {
        let _ = write!(
            text,
            " [delta={}; delta_calls={}]",
            delta(line.allocated_bytes, line.freed_bytes),
            delta(line.allocations, line.frees)
        );
    }
    if let Some(context) = &line.context {
        let _ = write!(text, " [via {context}]");
    }
    text.push('\n');
}

fn write_counters(line: &MemoryLine, text: &mut String) {
    let MemoryLine { allocations, frees, allocated_bytes, freed_bytes, .. } = line;
    let _ = write!(text, "{allocations:>11} {frees:>11} {allocated_bytes:>14} {freed_bytes:>14}|");
}

fn delta(plus: u64, minus: u64) -> i128 {
    i128::from(plus) - i128::from(minus)
}

const HEAD: &str = "         Calls         |         Tot Bytes           |       Caller, method, extra info
<- alloc -> <- free  ->|<-- alloc ---> <-- free ---->|
-----------------------|-----------------------------|  - min caller - | -- by DSO below --
-----------------------|-----------------------------|
";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(caller: &str, context: &str, method: &'static str, counters: [u64; 4]) -> MemoryLine {
        let [allocations, frees, allocated_bytes, freed_bytes] = counters;
        MemoryLine {
            caller: caller.to_owned(),
            address: caller.len(),
            context: Some(context.to_owned()),
            method,
            allocations,
            frees,
            allocated_bytes,
            freed_bytes,
        }
    }

    fn show(words: &str, lines: Vec<MemoryLine>) -> String {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let mut text = String::new();
        write(MemoryProfile { span: Span::default(), lines }, View::parse(&words).expect("known"), &mut text);
        text
    }

    /// R178: an empty table equals HAProxy's output.
    #[test]
    fn an_empty_memory_profile_equals_haproxys() {
        let expected = "Alloc/Free statistics by call place over 0.000 sec till 0.000 sec ago:
         Calls         |         Tot Bytes           |       Caller, method, extra info
<- alloc -> <- free  ->|<-- alloc ---> <-- free ---->|
-----------------------|-----------------------------|  - min caller - | -- by DSO below --
-----------------------|-----------------------------|
          0           0              0              0| <- Total; Delta_calls=0; Delta_bytes=0
";
        assert_eq!(show("memory", Vec::new()), expected);
    }

    /// R178: columns stay aligned for numbers of any size. The limit applies to the lines, but not to the total.
    #[test]
    fn the_line_limit_does_not_change_the_total_of_the_memory_profile() {
        let lines = vec![
            line("parse@h1.rs:7", "connection", "malloc", [3, 0, 300, 0]),
            line("parse@h1.rs:7", "cli session", "malloc", [1, 0, 4_000_000_000, 0]),
            line("drop@h1.rs:99", "connection", "free", [0, 2, 0, 200]),
            line("[other]", "accept", "realloc", [5, 5, 50, 40]),
        ];
        let text = show("memory 1", lines.clone());
        let body: Vec<&str> = text.lines().skip(5).collect();
        assert_eq!(
            body,
            [
                "          1           0     4000000000              0| parse@h1.rs:7 malloc(4000000000) [via cli session]",
                "          9           7     4000000350            240| <- Total; Delta_calls=2; Delta_bytes=4000000110",
            ]
        );
        let text = show("memory aggr", lines.clone());
        assert!(text.contains(
            "          4           0     4000000300              0| parse@h1.rs:7 malloc(1000000075)\n"
        ));
        assert!(text.contains("| [other] realloc(9) [delta=10; delta_calls=0]\n"), "{text}");
        let text = show("memory byctx", lines);
        let contexts: Vec<&str> =
            text.lines().filter_map(|line| line.split_once("[via ")).map(|(_, via)| via).collect();
        assert_eq!(contexts, ["accept]", "cli session]", "connection]", "connection]"]);
        for line in text.lines().skip(5) {
            assert_eq!(line.find('|'), Some(53), "{line}");
        }
    }
}
