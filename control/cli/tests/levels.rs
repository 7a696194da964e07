//! Tests every command on every level (configuration manual, 5.1 `level`; management manual, 9.3).
//!
//! A command not listed here must require level admin, so new commands start restricted.

mod toy;

use toy::{converse, toy};
use weir_cli::command::{EXPERIMENTAL, EXPERT, WORKER};
use weir_cli::{Level, SessionSettings, commands};

/// "Only non-sensitive stats can be read, and no change is allowed", except to the session's own settings.
const USER: &[&str] = &[
    "_getsocks",
    "echo",
    "get weight",
    "help",
    "prompt",
    "quit",
    "set severity-output",
    "set timeout",
    "show backend",
    "show cli level",
    "show cli sockets",
    "show events",
    "show info",
    "show latency",
    "show peers",
    "show pools",
    "show resolvers",
    "show schema json",
    "show servers conn",
    "show servers state",
    "show ssl ca-file",
    "show ssl cert",
    "show ssl crl-file",
    "show ssl ocsp-updates",
    "show ssl providers",
    "show ssl sni",
    "show stat",
    "show table",
    "show tasks",
    "show threads",
    "show trace",
    "show version",
    "user",
];

/// "All data can be read, but only non-sensitive changes are permitted".
const OPERATOR: &[&str] = &[
    "clear counters",
    "clear table",
    "get var",
    "operator",
    "publish backend",
    "set table",
    "set var",
    "show activity",
    "show env",
    "show errors",
    "show fd",
    "show sess",
    "show startup-logs",
    "show timeline",
    "trace",
    "unpublish backend",
];

/// Forms of commands that need a higher level than the command itself.
const FORMS: &[(&str, Level)] = &[
    ("clear counters all", Level::Admin),
    ("clear counters server be/s1", Level::Admin),
    ("clear counters server be/s1 force", Level::Admin),
    ("show events buf0", Level::Operator),
    ("show events buf0 -w", Level::Operator),
];

/// The permission depends on `expose-fd listeners` on the socket's line, not on its level.
const EXPOSED: &str = "_getsocks";

fn run_command(level: Level, line: &str) -> String {
    let settings = SessionSettings { level, ..SessionSettings::default() };
    converse(&mut toy(), settings, format!("{line}\n").as_bytes(), 99, usize::MAX)
}

fn level_of(name: &str) -> Level {
    match name {
        name if USER.contains(&name) => Level::User,
        name if OPERATOR.contains(&name) => Level::Operator,
        _ => Level::Admin,
    }
}

/// Whether the output of one line refuses the command.
fn refuses(answer: &str) -> bool {
    let expert = answer.starts_with("This command is restricted to e") && answer.ends_with(" mode only.\n\n");
    answer == "Permission denied\n\n" || expert
}

#[test]
fn each_command_is_refused_below_its_access_level() {
    let mut walked = Vec::new();
    for command in commands().filter(|command| command.flags & WORKER != 0) {
        let needed = level_of(command.name);
        assert_eq!(command.level, needed, "{}", command.name);
        walked.push(command.name);
        for level in [Level::User, Level::Operator, Level::Admin] {
            let hidden = command.flags & (EXPERT | EXPERIMENTAL) != 0 || command.name == EXPOSED;
            let answer = run_command(level, command.name);
            assert_eq!(refuses(&answer), level < needed || hidden, "{} at {level:?}: {answer}", command.name);
        }
    }
    for name in USER.iter().chain(OPERATOR) {
        assert!(walked.contains(name), "{name} is not a command");
    }
    for (line, needed) in FORMS {
        for level in [Level::User, Level::Operator, Level::Admin] {
            assert_eq!(refuses(&run_command(level, line)), level < *needed, "{line} at {level:?}");
        }
    }
}

/// If a command is refused without arguments, it is also refused with arguments.
#[test]
fn arguments_do_not_permit_a_command_below_its_access_level() {
    for words in ["x", "@1 x", "#0", "*", "#0 x", "m.map a b", "be/s1 x", "on", "0"] {
        for command in commands().filter(|command| command.flags & WORKER != 0) {
            for level in [Level::User, Level::Operator] {
                let line = format!("{} {words}", command.name);
                if level < level_of(command.name) {
                    assert!(refuses(&run_command(level, &line)), "{line} at {level:?}");
                }
            }
        }
    }
}
