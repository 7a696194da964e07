//! Commands that show the process: version, environment, sockets, backends, workers.

use std::fmt::Write;

use crate::command::{Arguments, Command, Context, MASTER, WORKER};
use crate::outcome::{Level, Outcome, Step, Stream};
use crate::target::{Place, Target};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show version",
        syntax: "show version",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "print the version of the process",
        run: Some(|context, _| Outcome::info(format!("{}\n", context.target.version()))),
    },
    Command {
        name: "show backend",
        syntax: "show backend",
        level: Level::User,
        flags: WORKER,
        help: "list the backends",
        run: Some(|_, _| Outcome::Stream(Box::new(ShowBackends { begun: false, place: 0 }))),
    },
    Command {
        name: "show cli sockets",
        syntax: "show cli sockets",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "list the sockets of the runtime API",
        run: Some(show_cli_sockets),
    },
    Command {
        name: "show env",
        syntax: "show env [var]",
        level: Level::Operator,
        flags: WORKER | MASTER,
        help: "print the environment of the process, or one variable of it",
        run: Some(show_env),
    },
    Command {
        name: "show startup-logs",
        syntax: "show startup-logs",
        level: Level::User,
        flags: WORKER | MASTER,
        help: "print what was logged while the process started",
        run: Some(|context, _| Outcome::Text(context.target.startup_logs())),
    },
    Command {
        name: "show activity",
        syntax: "show activity [-1|0|thread_num]",
        level: Level::User,
        flags: WORKER,
        help: "print what the workers did, for those who develop or support",
        run: Some(show_activity),
    },
    Command {
        name: "show tasks",
        syntax: "show tasks",
        level: Level::User,
        flags: WORKER,
        help: "print what waits in the run queues, by kind",
        run: Some(show_tasks),
    },
    Command {
        name: "show threads",
        syntax: "show threads",
        level: Level::User,
        flags: WORKER,
        help: "print the state of each worker",
        run: Some(show_threads),
    },
];

struct ShowBackends {
    begun: bool,
    place: Place,
}

impl Stream for ShowBackends {
    fn advance(&mut self, target: &mut dyn Target, enough: usize, out: &mut Vec<u8>) -> Step {
        if !self.begun {
            self.begun = true;
            out.extend_from_slice(b"# name\n");
        }
        while out.len() < enough {
            let Some(name) = target.next_backend(&mut self.place) else { return Step::Done };
            out.extend_from_slice(name.as_bytes());
            out.push(b'\n');
        }
        Step::More
    }
}

fn show_cli_sockets(context: &mut Context<'_>, _: &Arguments<'_>) -> Outcome {
    let mut text = String::from("# socket lvl processes\n");
    for socket in context.target.cli_sockets() {
        let _ = writeln!(text, "{} {} all", socket.address, socket.level.name());
    }
    Outcome::Text(text)
}

fn show_env(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let variables = context.target.environment();
    let name = arguments.word(0);
    if name.is_empty() {
        return Outcome::Text(variables.iter().map(|variable| format!("{variable}\n")).collect());
    }
    match variables
        .iter()
        .find(|variable| variable.strip_prefix(name).is_some_and(|rest| rest.starts_with('=')))
    {
        Some(variable) => Outcome::Text(format!("{variable}\n")),
        None => Outcome::error("Variable not found\n"),
    }
}

fn show_activity(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let activity = context.target.activity();
    let wanted: i64 = match arguments.word(0) {
        "" => -1,
        number => match number.parse() {
            Ok(wanted) if (-1..=i64::from(activity.threads)).contains(&wanted) => wanted,
            _ => return Outcome::error("Expects -1 (all), 0 (sums) or the number of a thread.\n"),
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
    Outcome::Text(text)
}

fn show_tasks(context: &mut Context<'_>, _: &Arguments<'_>) -> Outcome {
    let tasks = context.target.tasks();
    let calls: u64 = tasks.rows.iter().map(|row| row.calls).sum();
    let mut text = format!("Running tasks: {} ({} threads)\n", tasks.running, tasks.threads);
    text.push_str(
        "  function                     places     %    lat_tot   lat_avg  calls_tot  calls_avg calls%\n",
    );
    for row in &tasks.rows {
        let share = |part: u64, whole: u64| (part * 100).checked_div(whole).unwrap_or(0);
        let _ = writeln!(
            text,
            "  {:28} {:6} {:5} {:>10} {:>9} {:10} {:10} {:6}",
            row.kind,
            row.places,
            share(row.places, tasks.running),
            "-",
            "-",
            row.calls,
            row.calls.checked_div(row.places).unwrap_or(0),
            share(row.calls, calls),
        );
    }
    Outcome::Text(text)
}

fn show_threads(context: &mut Context<'_>, _: &Arguments<'_>) -> Outcome {
    let mut text = String::new();
    for thread in context.target.threads() {
        let _ = writeln!(
            text,
            "{} Thread {} : act={} wq={} rq={}",
            if thread.answering { '*' } else { ' ' },
            thread.number,
            u8::from(thread.active),
            thread.wait_queue,
            thread.run_queue,
        );
        let _ = writeln!(
            text,
            "      1/{}    loops={} ctxsw={}\n             cpu_ns: now={}",
            thread.number, thread.loops, thread.context_switches, thread.cpu_ns
        );
    }
    Outcome::Text(text)
}
