//! Prompts, payloads, help, and invalid input.

mod toy;

use proptest::prelude::*;
use toy::{Toy, converse, toy};
use weir_cli::Level;
use weir_cli::command::{MASTER, WORKER};
use weir_cli::help;
use weir_cli::{CliSession, SessionSettings, TransportAction, keyword_dump};
use weir_cli::{SessionMode, SessionModes};

fn admin() -> SessionSettings {
    SessionSettings { level: Level::Admin, ..SessionSettings::default() }
}

fn say(toy: &mut Toy, input: &str) -> String {
    converse(toy, admin(), input.as_bytes(), usize::MAX, usize::MAX)
}

fn check(input: &str, expected: &str) {
    assert_eq!(say(&mut toy(), input), expected, "to {input:?}");
}

#[test]
fn the_prompt_command_selects_interactive_and_timed_modes() {
    check("prompt\n", "\n> ");
    check("prompt\nshow version\n", "\n> 3.5-weir\n\n> ");
    check("prompt\r\nshow version\r\n", "\n> 3.5-weir\n\n> ");
    check("prompt\nset timeout cli 10;show version;prompt\n", "\n> \n3.5-weir\n\n\n");
    // Without a prompt, a session executes one line and ignores further input.
    check("show version\nshow version\n", "3.5-weir\n\n");
    check("prompt\nprompt\nshow version\n", "\n> \n");
    check("prompt i\nprompt n\nshow version\n", "\n\n");
    check("add map m.map <<\na b\n\nshow version\n", "\n");
    // An empty command has an empty output.
    check("\n", "\n");
    check(" \t\n", "\n");
    check(";\n", "\n\n");
    check("show version;;show version\n", "3.5-weir\n\n\n3.5-weir\n\n");
    check("prompt\n\n \n", "\n> \n> \n> ");
    check("prompt\nquit\n", "\n> ");
    check("prompt; quit; show version\n", "\n");
    check("prompt i\nshow version\nshow version\n", "\n3.5-weir\n\n3.5-weir\n\n");
    check("prompt p timed\nshow version\n", "\n[2:03:04:05]> 3.5-weir\n\n[2:03:04:05]> ");
    // `prompt timed` implies a prompt unless another mode is given, and toggles the time. Repeating the word changes nothing.
    check("prompt timed\nprompt timed\n", "\n[2:03:04:05]> \n> ");
    check("prompt timed timed\n", "\n[2:03:04:05]> ");
    check("prompt\nprompt timed\n", "\n> \n[2:03:04:05]> ");
    check("prompt i timed\nshow version\nprompt p\n", "\n3.5-weir\n\n\n[2:03:04:05]> ");
    check("prompt timed n\nshow version\n", "\n");
    // An invalid argument is ignored.
    assert!(say(&mut toy(), "prompt p foo\nshow version\n").ends_with("p->n.\n\n"));
    let help = say(&mut toy(), "prompt help\n");
    assert!(
        help.starts_with("Usage: prompt [help | n | i | p | timed]*\n") && help.ends_with("p->n.\n\n"),
        "{help}"
    );
}

#[test]
fn a_payload_ends_at_an_empty_line_and_runs_only_when_complete() {
    check("prompt\nadd map m.map <<\na b\n\nshow version\n", "\n> + + \n> 3.5-weir\n\n> ");
    check(
        "prompt i;show version; add map m.map <<\na b\nc d\n\nshow map m.map\n",
        "\n3.5-weir\n\n\n0x000000001001 a b\n0x000000001002 c d\n\n",
    );
    // Incomplete input is not executed.
    let mut toy = toy();
    assert_eq!(say(&mut toy, "add map m.map <<\na b\n"), "");
    assert_eq!(say(&mut toy, "show version"), "");
    assert!(toy.sets[1].entries.is_empty());
}

/// A process with the command `show mine` of a script.
fn with_script() -> Toy {
    let view = weir_cli::target::ScriptCommandView {
        name: "show mine".into(),
        usage: "show mine, all of it".into(),
    };
    Toy { script: Some(view), ..toy() }
}

#[test]
fn commands_of_scripts_read_input_and_are_listed() {
    // The bytes behind those that the command took are further commands.
    let said = "prompt\nshow mine; show version\nits line\nshow version\n";
    let expected = "\n> its line\n\n3.5-weir\n\n> 3.5-weir\n\n> ";
    for piece in [1, 3, 1000] {
        assert_eq!(converse(&mut with_script(), admin(), said.as_bytes(), piece, usize::MAX), expected);
    }
    assert_eq!(converse(&mut with_script(), admin(), b"show mine\nno end", 4, usize::MAX), "no end\n");
    for words in ["help show mine", "show mime"] {
        let listed = converse(&mut with_script(), admin(), format!("{words}\n").as_bytes(), 64, usize::MAX);
        assert!(listed.contains("\n  show mine, all of it\n"), "{listed}");
    }
}

#[test]
fn a_command_that_reads_waits_for_input_until_a_time() {
    let mut session = CliSession::new(admin());
    session.feed(b"show mine\nno");
    let (mut toy, mut out) = (with_script(), Vec::new());
    assert_eq!(session.run(&mut toy, 0, usize::MAX, &mut out), TransportAction::NeedInputUntil(7));
    session.feed(b"w\n");
    assert_eq!(session.run(&mut toy, 0, usize::MAX, &mut out), TransportAction::Close);
    assert_eq!(out, b"now\n\n");
}

#[test]
fn a_session_without_prompt_ends_after_one_line() {
    let mut session = CliSession::new(admin());
    let mut out = Vec::new();
    assert_eq!(session.run(&mut toy(), 0, usize::MAX, &mut out), TransportAction::NeedInput);
    session.feed(b"show version\nshow ver");
    assert_eq!(session.run(&mut toy(), 0, usize::MAX, &mut out), TransportAction::Close);
    assert_eq!(out, b"3.5-weir\n\n");
}

/// After a few of many commands sent at once, the session yields, so that other tasks run.
#[test]
fn a_cli_session_yields_between_many_short_commands() {
    let mut session = CliSession::new(admin());
    session.feed(format!("prompt i\n{}", "show version\n".repeat(500)).as_bytes());
    let (mut turns, mut answered) = (0, 0);
    loop {
        let mut out = Vec::new();
        let status = session.run(&mut toy(), 0, usize::MAX, &mut out);
        let answers = out.iter().filter(|byte| **byte == b'\n').count() / 2;
        assert!(answers <= 32, "{answers} in one turn");
        answered += answers;
        turns += 1;
        match status {
            TransportAction::More => {}
            other => break assert_eq!(other, TransportAction::NeedInput),
        }
    }
    assert!(answered == 500 && turns > 15, "{answered} in {turns} turns");
}

#[test]
fn set_timeout_cli_changes_the_idle_timeout() {
    let mut session = CliSession::new(admin());
    assert_eq!(session.timeout_ms(), Some(10_000));
    session.feed(b"prompt i; set timeout cli 60\n");
    session.run(&mut toy(), 0, usize::MAX, &mut Vec::new());
    assert_eq!(session.timeout_ms(), Some(60_000));
}

#[test]
fn a_line_or_payload_above_the_limit_ends_the_session() {
    let settings = SessionSettings { longest_line: 100, longest_payload: 50, ..admin() };
    let long = [b'x'; 150];
    assert_eq!(converse(&mut toy(), settings, &long, 64, usize::MAX), "The line is too long.\n\n");
    let payload = "add map m.map <<\nkey value that is long\nkey value that is long\nkey value that is long\n\nshow version\n";
    assert_eq!(
        converse(&mut toy(), settings, payload.as_bytes(), 64, usize::MAX),
        "The payload is too long.\n\n"
    );
}

#[test]
fn lines_of_a_refused_payload_are_not_executed_as_commands() {
    let settings = SessionSettings { longest_payload: 50, ..admin() };
    let announced = "prompt i\nadd map m.map <<\n";
    let lines = "show version\n".repeat(100);
    let said = converse(&mut toy(), settings, format!("{announced}{lines}").as_bytes(), 64, usize::MAX);
    assert_eq!(said, "\nThe payload is too long.\n\n");
    // The same if the command itself cannot be parsed.
    let words = "w ".repeat(65);
    let said = say(&mut toy(), &format!("prompt i\nadd map m.map {words}<<\n{lines}"));
    assert_eq!(said, "\nToo many words, the limit is 64.\n\n");
    let said = say(&mut toy(), &format!("prompt i\nadd map m.map {words}\nshow version\n"));
    assert_eq!(said, "\nToo many words, the limit is 64.\n\n3.5-weir\n\n");
}

#[test]
fn help_with_an_unknown_command_lists_similar_ones() {
    let text = say(&mut toy(), "help show sta\n");
    assert_eq!(
        text,
        "The following commands are valid at this level:\n\
         \x20 show startup-logs                       : print the log messages of the start\n\
         \x20 show stat [desc|json|no-maint|typed|up]*: print the counters of proxies, servers and listeners\n\
         \x20 help [<command>]                        : list all commands, or those that look like this one\n\
         \x20 prompt [help | n | i | p | timed ]*     : keep the connection open after a command, with a prompt\n\
         \x20 quit                                    : close the connection\n\n"
    );
    let text = say(&mut toy(), "sho info\n");
    assert!(
        text.starts_with("Unknown command: 'sho', but maybe one of the following ones is a better match:\n")
    );
    assert!(text.contains("\n  show info [desc|json|typed|float]*      : "), "{text}");
    assert_eq!(text.lines().count(), 1 + 1 + 3 + 1);
    // Words are compared from left to right, up to the first without a similar command.
    for (typed, suggested) in [
        ("set maxconn x", &["set maxconn frontend", "set maxconn global", "set maxconn server"][..]),
        ("set maxcon globl 5", &["set maxconn global"]),
        ("set maxcon globl", &["set maxconn global"]),
        (
            "enable x",
            &["enable agent", "enable dynamic-cookie", "enable frontend", "enable health", "enable server"],
        ),
    ] {
        let text = say(&mut toy(), &format!("{typed}\n"));
        let lines: Vec<&str> = text.lines().collect();
        let listed: Vec<&str> = lines[1..lines.len() - 4].iter().map(|line| line.trim_start()).collect();
        assert!(listed.iter().zip(suggested).all(|(line, name)| line.starts_with(name)), "{typed}: {text}");
        assert!(listed.len() >= suggested.len(), "{typed}: {text}");
    }
    // No command resembles the first word, so the five nearest ones are listed.
    assert_eq!(say(&mut toy(), "xyzzy\n").lines().count(), 1 + 5 + 3 + 1);
    // Experimental commands are listed once the mode is on. Unimplemented commands are never listed.
    let text = say(&mut toy(), "help\n");
    assert!(text.contains("\n  show info ") && text.contains("\n  add acl "), "{text}");
    assert!(!text.contains("set var") && !text.contains("acme"));
    assert!(say(&mut toy(), "experimental-mode on;help\n").contains("\n  set var <name>"));
}

#[test]
fn help_of_a_master_lists_worker_commands_only_when_enabled() {
    let session = CliSession::new(admin());
    let modes = session.into_modes();
    let lists = |side: u8, command: &str| help(&[], &[], side, &modes).contains(&format!("\n  {command}"));
    for (command, alone, opened) in [
        ("reload ", true, true),
        ("show version ", true, true),
        ("show info ", false, true),
        // These are hidden, or useless in a process without traffic.
        ("set maxconn global ", false, false),
        ("debug dev loop ", false, false),
        ("mcli-debug-mode ", false, false),
    ] {
        assert_eq!((lists(MASTER, command), lists(MASTER | WORKER, command)), (alone, opened), "{command}");
    }
    assert!(lists(WORKER, "set maxconn global "));
}

#[test]
fn a_command_is_executed_with_the_modes_of_its_master_session() {
    let modes = CliSession::new(SessionSettings { level: Level::User, ..admin() }).into_modes();
    let mut toy = toy();
    let mut answer = |modes: SessionModes, words: &str, payload: Option<&[u8]>| {
        let words = words.split(' ').map(str::to_owned).collect();
        let mut session = CliSession::of_command(modes, words, payload.map(<[u8]>::to_vec));
        let mut out = Vec::new();
        while session.run(&mut toy, 0, usize::MAX, &mut out) != TransportAction::Close {}
        (String::from_utf8(out).expect("answers are text"), session.into_modes())
    };
    let (denied, modes) = answer(modes, "disable server be/s1", None);
    assert_eq!(denied, "Permission denied\n\n");
    let (_, modes) = answer(modes, "set severity-output number", None);
    let modes = SessionModes { level: Level::Admin, mode: SessionMode::Prompt, ..modes };
    assert_eq!(answer(modes.clone(), "show nosuch; quit", None).1.level, Level::Admin);
    let (denied, modes) = answer(modes, "disable server be/nosuch", None);
    assert_eq!(denied, "[3]: No such server.\n\n");
    assert_eq!(answer(modes.clone(), "add map m.map", Some(b"k1 v1\n")).0, "\n");
    assert_eq!(answer(modes, "add map m.map", Some(b"\xff")).0, "[3]: The payload is not valid UTF-8.\n\n");
}

#[test]
fn the_command_list_equals_haproxys_keyword_dump() {
    let dump = keyword_dump();
    // Remove commands that HAProxy does not have.
    let ours = |line: &&str| ["show latency ", "show timeline "].iter().any(|name| line.starts_with(name));
    let theirs: String = dump.lines().filter(|line| !ours(line)).map(|line| line.to_owned() + "\n").collect();
    assert_eq!(theirs, include_str!("golden/dKall_cli.txt"));
    assert_eq!(dump.lines().filter(ours).count(), 2);
}

#[test]
fn every_command_has_a_help_text_and_a_syntax() {
    for command in weir_cli::commands() {
        assert!(!command.help.is_empty() && command.syntax.starts_with(command.name), "{}", command.name);
        assert!(command.flags & 3 != 0, "{} exists nowhere", command.name);
    }
}

const SCRIPT: &str = "prompt\nadd map m.map <<EOF\nk1 v 1\n\nk2 v2\nEOF\nshow map m.map;get weight be/s1\r\n\
                      set weight be/s1 5%;get weight #3/#1\nset severity-output number;nosuch;show sess\n\
                      show servers state;show stat typed\nwait 5;show version\nuser;show env\nprompt n;show cli level\n";

#[test]
fn answers_do_not_depend_on_how_input_and_output_are_split() {
    let whole = say(&mut toy(), SCRIPT);
    assert!(whole.contains("k2 v2\n") && whole.ends_with("[6]: user\n\n"), "{whole}");
    for piece in 1..SCRIPT.len() {
        // Input is split at every multiple of `piece`, and output at every line.
        assert_eq!(converse(&mut toy(), admin(), SCRIPT.as_bytes(), piece, 1), whole, "pieces of {piece}");
    }
}

#[test]
fn input_may_be_split_at_every_byte() {
    let whole = say(&mut toy(), SCRIPT);
    for at in 0..=SCRIPT.len() {
        let mut toy = toy();
        let mut session = CliSession::new(admin());
        let mut out = Vec::new();
        for part in [&SCRIPT.as_bytes()[..at], &SCRIPT.as_bytes()[at..]] {
            session.feed(part);
            let mut now_ms = 0;
            while let TransportAction::WaitUntil(until) = session.run(&mut toy, now_ms, usize::MAX, &mut out)
            {
                now_ms = until;
            }
        }
        session.end_of_input();
        assert_eq!(session.run(&mut toy, 0, usize::MAX, &mut out), TransportAction::Close);
        assert_eq!(String::from_utf8(out).unwrap(), whole, "split at {at}");
    }
}

/// Command keywords, so that random lines pass the first check.
const WORDS: &[&str] = &[
    "show",
    "set",
    "get",
    "add",
    "del",
    "clear",
    "prepare",
    "commit",
    "map",
    "acl",
    "server",
    "servers",
    "state",
    "stat",
    "info",
    "weight",
    "be/s1",
    "bs/#1",
    "m.map",
    "#0",
    "#5",
    "@0",
    "@1",
    "@x",
    "<<",
    "<<E",
    "E",
    "",
    ";",
    "\n",
    "\r\n",
    "\\",
    "10%",
    "-1",
    "99999999999999999999",
    "typed",
    "json",
    "desc",
    "prompt",
    "i",
    "wait",
    "1",
    "sess",
    "all",
    "0x",
    "0xzz",
    "shutdown",
    "session",
    "sessions",
    "older",
    "errors",
    "env",
    "help",
    "é",
    "\u{0}",
    "maxconn",
    "frontend",
    "fe",
    "global",
    "rate-limit",
    "timeout",
    "cli",
    "var",
    "proc.x",
    "fmt",
    "counters",
    "addr",
    "port",
    "+5",
    "::1",
    "user",
];

proptest! {
    #[test]
    fn arbitrary_input_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1usize..50) {
        converse(&mut toy(), admin(), &bytes, piece, 64);
    }

    #[test]
    fn random_commands_never_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40), piece in 1usize..50) {
        let mut text = words.join(" ");
        text.push('\n');
        converse(&mut toy(), admin(), text.as_bytes(), piece, 64);
    }
}
