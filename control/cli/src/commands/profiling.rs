//! `set profiling`, `show profiling`: the cost of tasks, and memory allocations by caller (R74, R77, R178).

mod human;
mod memory;
mod scripts;
mod tasks;

use std::fmt::Write;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CommandTarget, Measuring, ProfilingChange, ProfilingState};

pub(super) use human::time_cell;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "set profiling",
        syntax: "set profiling <what> {auto|on|off}",
        level: Level::Admin,
        flags: WORKER,
        help: "measure the cost of tasks, or memory by caller",
        run: Some(set_profiling),
    },
    Command {
        name: "show profiling",
        syntax: "show profiling [<what>|<#lines>|<opts>]*",
        level: Level::Admin,
        flags: WORKER,
        help: "print the measurements",
        run: Some(show_profiling),
    },
];

fn set_profiling(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let change = match (arguments.word(0), arguments.word(1)) {
        ("tasks", "on") => ProfilingChange::Tasks(Measuring::On),
        ("tasks", "auto") => ProfilingChange::Tasks(Measuring::Auto),
        ("tasks", "off") => ProfilingChange::Tasks(Measuring::Off),
        ("tasks", word @ ("lock" | "no-lock")) => ProfilingChange::Locks(word == "lock"),
        ("tasks", word @ ("memory" | "no-memory")) => ProfilingChange::MemoryTime(word == "memory"),
        ("tasks", _) => {
            let words = "'on', 'auto', 'off', 'lock', 'no-lock', 'memory' or 'no-memory'";
            return CommandOutcome::error(format!("Expects {words}.\n"));
        }
        ("memory", word @ ("on" | "off")) => ProfilingChange::Memory(word == "on"),
        ("memory", _) => return CommandOutcome::error("Expects either 'on' or 'off'.\n"),
        _ => return CommandOutcome::error("Expects either 'tasks' or 'memory'.\n"),
    };
    context.target.set_profiling(change);
    CommandOutcome::Nothing
}

/// The parsed options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct View {
    status: bool,
    tasks: bool,
    memory: bool,
    order: ProfileOrder,
    /// Whether to combine all callers of a function in one line.
    aggregate: bool,
    /// Maximum number of lines per table.
    lines: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProfileOrder {
    /// By number of calls.
    Usage,
    /// By address. The order is the same in every output.
    Address,
    Time,
    Caller,
}

impl View {
    /// Parses the options. `None` for an unknown word.
    fn parse(words: &[String]) -> Option<Self> {
        let mut view = Self {
            status: true,
            tasks: true,
            memory: true,
            order: ProfileOrder::Usage,
            aggregate: false,
            lines: usize::MAX,
        };
        for word in words {
            match word.as_str() {
                what @ ("all" | "status" | "tasks" | "memory") => {
                    let part = |name| what == "all" || what == name;
                    (view.status, view.tasks, view.memory) = (part("status"), part("tasks"), part("memory"));
                }
                "byaddr" => view.order = ProfileOrder::Address,
                "bytime" => view.order = ProfileOrder::Time,
                "byctx" => view.order = ProfileOrder::Caller,
                "aggr" => view.aggregate = true,
                number => match number.parse().ok()? {
                    0 => view.lines = usize::MAX,
                    lines => view.lines = lines,
                },
            }
        }
        Some(view)
    }
}

fn show_profiling(_: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let Some(view) = View::parse(arguments.from(0)) else {
        return CommandOutcome::error(
            "Expects any of 'all', 'status', 'tasks', 'memory', 'byaddr', 'bytime', 'byctx', 'aggr' and a max number \
             of output lines.\n",
        );
    };
    CommandOutcome::Stream(Box::new(ShowProfiling(view)))
}

/// Shows all measurements of the same moment, after the symbol names of allocating callers are resolved.
struct ShowProfiling(View);

impl AnswerStream for ShowProfiling {
    fn advance(&mut self, target: &mut dyn CommandTarget, _: usize, out: &mut Vec<u8>) -> AnswerStep {
        let view = self.0;
        let mut memory = None;
        if view.memory {
            memory = target.memory_profile();
            if memory.is_none() {
                return AnswerStep::Pending;
            }
        }
        let mut text = String::new();
        if view.status {
            status(target.profiling(), &mut text);
        }
        if view.tasks {
            tasks::write(target.task_profile(), view, &mut text);
            scripts::write(&target.script_profile(), view, &mut text);
        }
        if let Some(profile) = memory {
            memory::write(profile, view, &mut text);
        }
        out.extend_from_slice(text.as_bytes());
        AnswerStep::Done
    }
}

fn status(state: ProfilingState, text: &mut String) {
    let tasks = match (state.tasks, state.running) {
        (Measuring::Off, _) => "off",
        (Measuring::On, _) => "on",
        (Measuring::Auto, true) => "auto-on",
        (Measuring::Auto, false) => "auto-off",
    };
    let memory = if state.memory { "on" } else { "off" };
    let _ = writeln!(
        text,
        "Per-task CPU profiling              : {tasks:<14}# set profiling tasks {{on|auto|off}}"
    );
    let _ =
        writeln!(text, "Memory usage profiling              : {memory:<14}# set profiling memory {{on|off}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Option<View> {
        View::parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    /// R77: the options of `show profiling`, in any order.
    #[test]
    fn parses_show_profiling_options_in_any_order() {
        let all = parse("").expect("everything");
        assert!(all.status && all.tasks && all.memory && !all.aggregate);
        assert_eq!(parse("all"), Some(all));
        let tasks = parse("tasks aggr bytime 5").expect("known words");
        assert!(!tasks.status && tasks.tasks && !tasks.memory && tasks.aggregate);
        assert_eq!((tasks.order, tasks.lines), (ProfileOrder::Time, 5));
        assert_eq!(
            parse("byctx memory 0").map(|view| (view.order, view.lines)),
            Some((ProfileOrder::Caller, usize::MAX))
        );
        assert_eq!(
            parse("3 byaddr status").map(|view| (view.order, view.tasks)),
            Some((ProfileOrder::Address, false))
        );
        for wrong in ["foo", "-1", "tasks 1x", "99999999999999999999999"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
