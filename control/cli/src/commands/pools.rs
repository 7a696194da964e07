//! `show pools`: the workers' memory pools (management manual, 9.3).

use std::cmp::Reverse;
use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::CommandOutcome;
use crate::target::{PoolUse, PoolView};

pub(super) static COMMANDS: &[Command] = &[Command {
    name: "show pools",
    syntax: "show pools [by*] [match <pfx>] [nb]",
    level: Level::User,
    flags: WORKER,
    help: "show the use of memory pools (by* = byname, bysize, byusage; detailed: of each thread)",
    run: Some(show_pools),
}];

/// The parsed options.
#[derive(Debug, Default)]
struct View<'a> {
    order: PoolOrder,
    detailed: bool,
    prefix: &'a str,
    /// Maximum number of pools to list. 0 for all.
    most: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PoolOrder {
    /// In the order of the process's list.
    #[default]
    None,
    Name,
    /// By object size, largest first.
    Size,
    /// By used memory, largest first, without unused pools.
    Usage,
}

impl<'a> View<'a> {
    /// Parses the options. `None` for an unknown word.
    fn parse(words: &'a [String]) -> Option<Self> {
        let mut view = View::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "byname" => view.order = PoolOrder::Name,
                "bysize" => view.order = PoolOrder::Size,
                "byusage" => view.order = PoolOrder::Usage,
                "detailed" => view.detailed = true,
                "match" => view.prefix = words.next()?,
                number => view.most = number.parse().ok()?,
            }
        }
        Some(view)
    }
}

fn show_pools(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let Some(view) = View::parse(arguments.from(0)) else {
        return CommandOutcome::error(
            "Expects either 'byname', 'bysize', 'byusage', 'match <pfx>', 'detailed', or a max number of output lines.\n",
        );
    };
    CommandOutcome::Text(text(context.target.pools(), &view))
}

fn text(mut pools: Vec<PoolView>, view: &View<'_>) -> String {
    pools.retain(|pool| pool.name.starts_with(view.prefix));
    match view.order {
        PoolOrder::None => {}
        PoolOrder::Name => pools.sort_by_key(|pool| pool.name),
        PoolOrder::Size => pools.sort_by_key(|pool| Reverse(pool.size)),
        PoolOrder::Usage => {
            pools.retain(|pool| of_all(pool).allocated > 0);
            pools.sort_by_key(|pool| Reverse(of_all(pool).allocated.saturating_mul(pool.size)));
        }
    }
    let mut text = String::from("Dumping pools usage");
    if view.most > 0 {
        let _ = write!(text, " (limited to the first {} entries)", view.most);
    }
    text.push_str(". Use SIGQUIT to flush them.\n");
    let most = if view.most > 0 { view.most } else { usize::MAX };
    for pool in pools.iter().take(most) {
        let PoolView { name, size, threads } = pool;
        let _ = writeln!(text, "  - Pool {name} ({size} bytes) : {}", line(&of_all(pool), *size));
        for (thread, part) in threads.iter().enumerate().filter(|_| view.detailed) {
            let _ = writeln!(text, "      >  thread {} : {}", thread + 1, line(part, *size));
        }
    }
    let bytes = |counter: fn(&PoolUse) -> u64| -> u64 {
        pools.iter().map(|pool| counter(&of_all(pool)).saturating_mul(pool.size)).sum()
    };
    let (allocated, used) = (bytes(|all| all.allocated), bytes(|all| all.used));
    let kept = allocated.saturating_sub(used);
    let count = pools.len();
    let _ = writeln!(
        text,
        "Total: {count} pools, {allocated} bytes allocated, {used} used (~{kept} by thread caches)."
    );
    text
}

/// Writes one line. The difference between allocated and used memory is in the workers' free lists.
fn line(part: &PoolUse, size: u64) -> String {
    let PoolUse { allocated, used, needed, failures } = part;
    let (bytes, kept) = (allocated.saturating_mul(size), allocated.saturating_sub(*used));
    format!(
        "{allocated} allocated ({bytes} bytes), {used} used (~{kept} by thread caches), needed_avg {needed}, {failures} failures, 1 users"
    )
}

fn of_all(pool: &PoolView) -> PoolUse {
    pool.threads.iter().fold(PoolUse::default(), |all, part| PoolUse {
        allocated: all.allocated.saturating_add(part.allocated),
        used: all.used.saturating_add(part.used),
        needed: all.needed.saturating_add(part.needed),
        failures: all.failures.saturating_add(part.failures),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(name: &'static str, size: u64, allocated: u64) -> PoolView {
        PoolView { name, size, threads: vec![PoolUse { allocated, ..PoolUse::default() }] }
    }

    fn shown(words: &str) -> Option<Vec<String>> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let pools = vec![pool("c", 10, 100), pool("a", 30, 0), pool("b", 20, 60)];
        let text = text(pools, &View::parse(&words)?);
        let names = text.lines().filter_map(|line| line.strip_prefix("  - Pool ")?.split(' ').next());
        Some(names.map(str::to_owned).collect())
    }

    /// Management guide, 9.3, "show pools": the orders, the prefix and the number of entries, in any order of options.
    #[test]
    fn show_pools_options_select_and_sort_pools() {
        for (words, expected) in [
            ("", "c a b"),
            ("byname", "a b c"),
            ("bysize", "a b c"),
            ("byusage", "b c"),
            ("byname byusage", "b c"),
            ("1 byusage", "b"),
            ("byusage 1 match c", "c"),
            ("match a byusage", ""),
            ("0", "c a b"),
            ("9", "c a b"),
        ] {
            assert_eq!(shown(words).map(|names| names.join(" ")).as_deref(), Some(expected), "{words}");
        }
        for wrong in ["foo", "match", "-1", "byname x", "1x"] {
            assert_eq!(shown(wrong), None, "{wrong}");
        }
        // The total covers all matching pools, not only those shown.
        let first = View { most: 1, ..View::default() };
        let text = text(vec![pool("a", 1, 1), pool("b", 1, 1)], &first);
        assert!(text.starts_with(
            "Dumping pools usage (limited to the first 1 entries). Use SIGQUIT to flush them.\n"
        ));
        assert!(text.contains("Total: 2 pools, 2 bytes allocated"), "{text}");
    }
}
