//! A test of the manual: each configuration keyword with arguments that are valid, missing, too many, out of range and of the wrong
//! kind, and in sections where it is not allowed.
//!
//! `tests/manual.tsv` has a row per line: the manual's section, the configuration section, the line, its result (`ok`, `warning`,
//! `error`), the result of HAProxy 3.2 with the reason if it differs, and the beginning of the first message.

use weir_observe::messages::{Messages, Verbosity};

use crate::arguments::Arguments;
use crate::configuration::{self, ReadOutcome, load};
use crate::memory_files::sources;

const TABLE: &str = include_str!("../tests/manual.tsv");

const DEFAULTS: &str =
    "defaults\n    mode http\n    timeout client 1s\n    timeout server 1s\n    timeout connect 1s\n";
const FRONTEND: &str = "frontend f\n    bind 127.0.0.1:1\n";
const TO_BACKEND: &str = "    default_backend b\n";
const BACKEND: &str = "backend b\n    server s 127.0.0.1:2\n";
const LISTEN: &str = "listen l\n    bind 127.0.0.1:1\n    server s 127.0.0.1:2\n";

/// The configuration that contains a line. The rest of it does not cause messages.
pub(crate) fn written(place: &str, line: &str) -> String {
    let complete = format!("{DEFAULTS}{FRONTEND}{TO_BACKEND}{BACKEND}");
    let line = format!("    {line}\n");
    match place {
        "global" => format!("global\n{line}{complete}"),
        "defaults" => format!("{DEFAULTS}{line}{FRONTEND}{TO_BACKEND}{BACKEND}"),
        "named defaults" => {
            let (defaults, frontend) =
                (DEFAULTS.replace("defaults", "defaults d"), FRONTEND.replace("f\n", "f from d\n"));
            format!("{defaults}{line}{frontend}")
        }
        "frontend" => format!("{DEFAULTS}{FRONTEND}{line}{TO_BACKEND}{BACKEND}"),
        "backend" => format!("{complete}{line}"),
        "listen" => format!("{DEFAULTS}{LISTEN}{line}{BACKEND}"),
        "tcp" => format!("{}{LISTEN}{line}{BACKEND}", DEFAULTS.replace("http", "tcp")),
        "bind" => format!("{DEFAULTS}{} {}{BACKEND}", FRONTEND.trim_end(), line.trim_start()),
        "server" => format!("{} {}", complete.trim_end(), line.trim_start()),
        "default-server" => format!(
            "{DEFAULTS}{FRONTEND}{TO_BACKEND}backend b\n    default-server {}    server s 127.0.0.1:2\n",
            line.trim_start()
        ),
        "userlist" => format!("{complete}userlist u\n{line}    user z insecure-password z\n"),
        "http-errors" => format!("{complete}http-errors e\n{line}"),
        "ring" => format!("{complete}ring buf\n{line}"),
        "log-forward" => format!("{complete}log-forward lf\n    bind 127.0.0.1:3\n{line}"),
        "traces" => format!("{complete}traces\n{line}"),
        other => panic!("no section is called {other}"),
    }
}

/// Parses a configuration. Returns the result and the messages.
pub(crate) fn read(text: &str) -> (&'static str, String) {
    let sources = sources(text);
    let arguments =
        Arguments { check: true, quiet: true, files: vec!["t.cfg".into()], ..Arguments::default() };
    let messages = Messages::new();
    messages.set_verbosity(Verbosity::Quiet);
    let verdict = match load(&sources, &arguments, None, &messages) {
        ReadOutcome::Refused => "error",
        _ if messages.warned() => "warning",
        _ => "ok",
    };
    (verdict, messages.startup_logs())
}

/// The parsed configuration as comparable text. `None` if it is rejected.
pub(crate) fn understood(text: &str) -> Option<String> {
    configuration::understood(&sources(text)).map(|config| format!("{config:?}"))
}

/// Whether a line describes a problem, rather than announcing or counting problems.
fn is_message(line: &str) -> bool {
    let of_all = ["Error(s) found in", "Fatal errors found", "weir version", "path to executable"];
    (line.starts_with("[ALERT]") || line.starts_with("[WARNING]"))
        && !of_all.iter().any(|text| line.contains(text))
}

#[test]
fn each_manual_line_is_accepted_or_rejected_as_its_table_states() {
    let mut faults = Vec::new();
    let mut without_code = Vec::new();
    let mut rows = 0;
    for row in TABLE.lines().filter(|row| !row.starts_with('#')) {
        let columns: Vec<&str> = row.split('\t').collect();
        let [_, place, line, expected, difference, message] = columns[..] else {
            panic!("six columns: {row}")
        };
        rows += 1;
        let (verdict, said) = read(&written(place, line));
        let message = message.replace("CFG", "t.cfg");
        if verdict != expected || !said.contains(&message) {
            faults.push(format!("{place} | {line}: {verdict}, not {expected} '{message}'\n{said}"));
        }
        let other = |said: &&str| crate::problems::code_of(said) == "C000";
        without_code.extend(said.lines().filter(|line| is_message(line)).filter(other).map(str::to_owned));
        // Every difference needs a reason.
        assert!(
            difference.is_empty() || difference.split_once(": ").is_some_and(|(_, why)| why.len() > 1),
            "{row}"
        );
    }
    assert!(rows > 3000, "{rows} rows");
    assert!(
        without_code.is_empty(),
        "{} lack a code of their own:\n{}",
        without_code.len(),
        without_code.join("\n")
    );
    assert!(faults.is_empty(), "{} of {rows}:\n{}", faults.len(), faults.join("\n"));
}
