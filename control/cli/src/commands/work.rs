//! Activity of the workers: `show activity`, `show tasks`, `show threads`.

use std::fmt::Write;

use super::profiling::time_cell;
use crate::command::{Command, CommandArguments, CommandContext, EXPERT, SERVING, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CommandTarget, Tasks, ThreadView};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show activity",
        syntax: "show activity [-1|0|thread_num]",
        level: Level::Operator,
        flags: WORKER,
        help: "print the counters of the workers, for development and support",
        run: Some(show_activity),
    },
    Command {
        name: "show tasks",
        syntax: "show tasks",
        level: Level::User,
        flags: WORKER,
        help: "print the tasks in the run queues, by kind",
        run: Some(|_, _| {
            CommandOutcome::Stream(Box::new(CensusAnswer(|target| {
                target.tasks().map(|tasks| of_tasks(&tasks))
            })))
        }),
    },
    Command {
        name: "show threads",
        syntax: "show threads",
        level: Level::User,
        flags: WORKER,
        help: "print the state of each worker",
        run: Some(|_, _| {
            let views: CensusQuery = |target| Some(target.threads()?.iter().map(of_thread).collect());
            CommandOutcome::Stream(Box::new(CensusAnswer(views)))
        }),
    },
    Command {
        name: "debug dev loop",
        syntax: "debug dev loop <ms>",
        level: Level::Admin,
        flags: WORKER | EXPERT | SERVING,
        help: "keep the worker that answers busy, to see the effect on others",
        run: Some(keep_busy),
    },
];

/// An answer composed of the replies of all workers. Pending until all have replied or the time limit has passed.
struct CensusAnswer(CensusQuery);

type CensusQuery = fn(&mut dyn CommandTarget) -> Option<String>;

impl AnswerStream for CensusAnswer {
    fn advance(&mut self, target: &mut dyn CommandTarget, _: usize, out: &mut Vec<u8>) -> AnswerStep {
        match (self.0)(target) {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                AnswerStep::Done
            }
            None => AnswerStep::Pending,
        }
    }
}

fn show_activity(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let activity = context.target.activity();
    let wanted: i64 = match arguments.word(0) {
        "" => -1,
        number => match number.parse() {
            Ok(wanted) if (-1..=i64::from(activity.threads)).contains(&wanted) => wanted,
            _ => return CommandOutcome::error("Expects -1 (all), 0 (sums) or the number of a thread.\n"),
        },
    };
    let now = context.target.wall_time();
    let mut text = String::new();
    let _ = writeln!(text, "thread_id: {} (1..{})", activity.thread, activity.threads);
    let _ = writeln!(text, "date_now: {}.{:06}", now.seconds, now.micros);
    let _ = writeln!(
        text,
        "uptime_now: {}.{:06}",
        activity.uptime_us / 1_000_000,
        activity.uptime_us % 1_000_000
    );
    for row in &activity.rows {
        let _ = match usize::try_from(wanted) {
            Ok(0) => writeln!(text, "{}: {}", row.name, row.total),
            Ok(thread) => {
                writeln!(text, "{}: {}", row.name, row.values.get(thread - 1).copied().unwrap_or(0))
            }
            Err(_) => {
                let values: Vec<String> = row.values.iter().map(u64::to_string).collect();
                writeln!(text, "{}: {} [ {} ]", row.name, row.total, values.join(" "))
            }
        };
    }
    CommandOutcome::Text(text)
}

fn of_tasks(tasks: &Tasks) -> String {
    let calls: u64 = tasks.rows.iter().map(|row| row.calls).sum();
    let mut text = format!("Running tasks: {} ({} threads)\n", tasks.running, tasks.threads);
    text.push_str(
        "  function                     places     %    lat_tot   lat_avg  calls_tot  calls_avg calls%\n",
    );
    for row in &tasks.rows {
        let share = |part: u64, whole: u64| (part as f64 * 100.0) / whole.max(1) as f64;
        let _ = writeln!(
            text,
            "  {:<27} {:>7} {:>5.1} {}{} {:>10} {:>10} {:>6.1}",
            row.kind,
            row.places,
            share(row.places, tasks.running),
            time_cell(row.latency_ns),
            time_cell(row.latency_ns.checked_div(row.latencies).unwrap_or(0)),
            row.calls,
            row.calls.checked_div(row.places).unwrap_or(0),
            share(row.calls, calls),
        );
    }
    text
}

fn of_thread(thread: &ThreadView) -> String {
    let [urgent, normal, bulk, heavy] = thread.queued;
    let lists = urgent + bulk + heavy;
    let flag = |set: bool| u8::from(set);
    let mark = match (thread.answering, thread.silent) {
        (true, _) => '*',
        (_, true) => '>',
        _ => ' ',
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{mark} Thread {} : act={} wq={} rq={} tl={} tlsz={lists} rqsz={}",
        thread.number,
        flag(thread.active),
        flag(thread.wait_queue > 0),
        flag(normal > 0),
        flag(lists > 0),
        normal + lists,
    );
    let _ = writeln!(
        text,
        "      1/{:<4} loops={} ctxsw={} stuck={} prof={} harmless={}",
        thread.number,
        thread.loops,
        thread.context_switches,
        flag(thread.silent),
        flag(thread.profiled),
        flag(!thread.active),
    );
    let _ = writeln!(
        text,
        "             queued: urgent={urgent} normal={normal} bulk={bulk} heavy={heavy} timers={} tasks={}",
        thread.wait_queue, thread.tasks
    );
    let _ = writeln!(text, "             cpu_ns: now={}", thread.cpu_ns);
    let _ = match &thread.current {
        Some(current) => writeln!(text, "             curr_task={current}"),
        None => writeln!(text, "             curr_task=0"),
    };
    text
}

fn keep_busy(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    match arguments.word(0).parse() {
        Ok(milliseconds) if arguments.len() == 1 => {
            context.target.keep_busy(milliseconds);
            CommandOutcome::Nothing
        }
        _ => CommandOutcome::error("Expects for how many milliseconds to keep this worker busy.\n"),
    }
}
