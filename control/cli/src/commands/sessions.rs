//! `show sess`, `shutdown session`.

use std::fmt::Write;

use weir_events::WallTime;

use crate::command::{Command, CommandArguments, CommandContext, WORKER};
use crate::commands::conversation::duration_ms;
use crate::commands::{answer, backend, date, frontend, server};
use crate::level::{Level, Severity, SeverityOutput};
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CommandTarget, ListPosition, NextSession, SessionFilter, SessionView, Shutdown};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "show sess",
        syntax: "show sess [help|<id>|all] [opts...]",
        level: Level::Operator,
        flags: WORKER,
        help: "list the sessions, or show one in detail",
        run: Some(show),
    },
    Command {
        name: "shutdown session",
        syntax: "shutdown session [id]",
        level: Level::Admin,
        flags: WORKER,
        help: "end one session",
        run: Some(shutdown),
    },
];

const SHOW_HELP: &str = "\
Usage: show sess [<id> | all | help] [<options>*]
Lists sessions, one line each; with an identifier or 'all', in detail. Options:
  older <age>        only those that began so long ago, or before (seconds unless a unit follows)
  frontend <name>    only those of this frontend
  backend <name>     only those of this backend
  server <bk>/<srv>  only those on this server
  show-uri           the request lines, too, as far as something logs them
  susp               only those with broken invariants, of which there are none
Only one of 'frontend', 'backend' and 'server' may be given.
Programs that read the reference's lines find all its fields. Those without a counterpart here read nought or nothing:
ts, epoch, rate, cpu, lat, f, i, an, wex, and the flags behind the states of scf and scb.
";

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    answer(|| {
        let mut words =
            arguments.from(0).iter().map(String::as_str).filter(|word| !word.is_empty()).peekable();
        let mut filter = SessionFilter::default();
        let (mut detail, mut suspicious) = (false, false);
        match words.peek().copied() {
            Some("help") => return Ok(CommandOutcome::Text(SHOW_HELP.to_owned())),
            Some("all") => {
                detail = true;
                words.next();
            }
            Some(word) if word.starts_with("0x") => {
                filter.id = Some(identifier(word).unwrap_or(0));
                detail = true;
                words.next();
            }
            _ => {}
        }
        while let Some(option) = words.next() {
            let mut value = |missing| words.next().ok_or_else(|| CommandOutcome::error(missing));
            match option {
                "susp" => suspicious = true,
                "show-uri" => filter.with_request_line = true,
                "frontend" | "backend" | "server"
                    if filter.frontend.is_some() || filter.backend.is_some() || filter.server.is_some() =>
                {
                    return Err(CommandOutcome::error(
                        "Only one of backend, frontend or server may be set.\n",
                    ));
                }
                "older" => {
                    let age = value("Expects a minimum age (in seconds by default).\n")?;
                    let age_ms =
                        duration_ms(age, 1000).ok_or_else(|| CommandOutcome::error("Invalid age.\n"))?;
                    filter.older_ms = Some(age_ms);
                }
                "frontend" => {
                    let name = value("Missing frontend name.\n")?;
                    frontend(context, name)?;
                    filter.frontend = Some(name.to_owned());
                }
                "backend" => {
                    let name = value("Missing backend name.\n")?;
                    backend(context, name)?;
                    filter.backend = Some(name.to_owned());
                }
                "server" => {
                    let name = value("Missing server name (<backend>/<server>).\n")?;
                    server(context, name)?;
                    filter.server = Some(name.to_owned());
                }
                _ => {
                    let text = format!("Unsupported option '{option}', try 'help' for more info.\n");
                    return Err(CommandOutcome::error(text));
                }
            }
        }
        if suspicious {
            // weir closes faulty sessions immediately, so the list is always empty.
            return Ok(CommandOutcome::Nothing);
        }
        filter.with_streams = detail;
        Ok(CommandOutcome::Stream(Box::new(ShowSessions { filter, detail, place: 0, shown: 0 })))
    })
}

fn identifier(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

struct ShowSessions {
    filter: SessionFilter,
    detail: bool,
    place: ListPosition,
    shown: u64,
}

impl AnswerStream for ShowSessions {
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep {
        while out.len() < enough {
            match target.next_session(&self.filter, &mut self.place) {
                NextSession::Session(view) => {
                    self.shown += 1;
                    let text = if self.detail { details(target, &view) } else { line(&view) };
                    out.extend_from_slice(text.as_bytes());
                }
                NextSession::Pending => return AnswerStep::Pending,
                NextSession::None => {
                    if self.shown == 0 && self.filter.id.is_some() {
                        out.extend_from_slice(b"Session not found.\n");
                    }
                    return AnswerStep::Done;
                }
            }
        }
        AnswerStep::More
    }
}

fn expiry(view: &SessionView) -> String {
    match view.expires_ms {
        Some(ms) if ms >= 1000 => format!("{}s", ms / 1000),
        Some(ms) => format!("{ms}ms"),
        None => String::new(),
    }
}

/// The state of the server side in HAProxy's numbers: 0 before a server is needed, 2 in a queue, 3 between connection attempts,
/// 5 while connecting, 8 afterwards.
fn server_state(view: &SessionView) -> u8 {
    match view.phase {
        "idle" | "request" | "tarpit" => 0,
        "queue" => 2,
        "pause" => 3,
        "connect" => 5,
        _ => 8,
    }
}

/// The request line. Characters that could end its quotes or the line are in hexadecimal.
fn uri(view: &SessionView) -> String {
    let Some(line) = &view.request_line else { return String::new() };
    let mut text = String::from(" uri=\"");
    for letter in line.chars() {
        let _ = match letter {
            '"' | '\\' | '\0'..=' ' | '\x7f'.. if letter != ' ' => {
                write!(text, "\\x{:02x}", u32::from(letter))
            }
            _ => write!(text, "{letter}"),
        };
    }
    text.push('"');
    text
}

/// HAProxy's fields in its order. Fields without a counterpart in weir are zero. As in HAProxy, the line of an internal stream lacks
/// source and destination. The details contain them.
fn line(view: &SessionView) -> String {
    let way = view.source.as_ref().map_or_else(String::new, |source| {
        format!(
            "src={source} fe={} be={} srv={} ",
            view.frontend,
            view.backend.as_deref().unwrap_or("<NONE>"),
            view.server.as_deref().unwrap_or("<none>"),
        )
    });
    // weir has only one thread group.
    let descriptor = |fd: Option<i32>| format!("fd=1/{}", fd.unwrap_or(-1));
    // Show the expiry on the side that the nearest timeout belongs to.
    let if_in = |phases: &[&str]| if phases.contains(&view.phase) { expiry(view) } else { String::new() };
    let (from_client, from_server) = (if_in(&["command", "idle", "request"]), if_in(&["headers"]));
    let (waits, connects) = (if_in(&["tarpit"]), if_in(&["queue", "connect", "pause"]));
    format!(
        "0x{:x}: proto={} {way}ts=00 epoch=0 age={}s calls={} rate=0 cpu=0 lat=0 \
         rq[f=00h,i={},an=00h,ax={waits}] rp[f=00h,i={},an=00h,ax=] scf=[8,0h,{},rex={from_client},wex=] scb=[{},1h,{},rex={from_server},wex=] \
         exp={} rc={} c_exp={connects}{}\n",
        view.id,
        view.protocol,
        view.age_ms / 1000,
        view.calls,
        view.request_waiting,
        view.response_waiting,
        descriptor(view.client_fd),
        server_state(view),
        descriptor(view.server_fd),
        expiry(view),
        view.retries,
        uri(view),
    )
}

/// HAProxy's detailed lines, with the available values.
fn details(target: &dyn CommandTarget, view: &SessionView) -> String {
    let mut text = String::new();
    let now = target.wall_time();
    let began_us =
        (now.seconds * 1_000_000 + i64::from(now.micros)).saturating_sub(view.age_ms as i64 * 1000);
    let began = WallTime::from_micros(began_us);
    let date = date(target, began);
    let _ = write!(
        text,
        "0x{:x}: [{date}{:03}] id={} proto={}",
        view.id,
        began.micros % 1000,
        view.number,
        view.protocol
    );
    let _ = match &view.source {
        Some(source) => writeln!(text, " source={source}"),
        None => writeln!(text),
    };
    let (phase, retries, expires) = (view.phase, view.retries, expiry(view));
    let _ = writeln!(text, "  phase={phase}, conn_retries={retries}, exp={expires}{}", uri(view));
    let _ = writeln!(text, "  frontend={}", view.frontend);
    let _ = writeln!(text, "  backend={}", view.backend.as_deref().unwrap_or("<NONE>"));
    let _ = writeln!(text, "  server={}", view.server.as_deref().unwrap_or("<NONE>"));
    let _ = writeln!(text, "  task=(calls={} tid={} age={}s)", view.calls, view.worker, view.age_ms / 1000);
    let sides =
        [("scf", view.client_fd, view.request_waiting), ("scb", view.server_fd, view.response_waiting)];
    for ((name, descriptor, waiting), stream) in sides.into_iter().zip(&view.streams) {
        let _ = write!(text, "  {name}=(fd={} in={waiting})", descriptor.unwrap_or(-1));
        let _ = match stream {
            Some(stream) => writeln!(text, " {stream}"),
            None => writeln!(text),
        };
    }
    text
}

fn shutdown(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    match identifier(arguments.word(0)) {
        None => CommandOutcome::error("Session pointer expected (use 'show sess').\n"),
        Some(id) => {
            CommandOutcome::Stream(Box::new(ShutdownSession { id, marks: context.modes.severity_output }))
        }
    }
}

/// Kills a session, which may be on another worker.
struct ShutdownSession {
    id: u64,
    marks: SeverityOutput,
}

impl AnswerStream for ShutdownSession {
    fn advance(&mut self, target: &mut dyn CommandTarget, _: usize, out: &mut Vec<u8>) -> AnswerStep {
        match target.shutdown_session(self.id) {
            Shutdown::Pending => return AnswerStep::Pending,
            Shutdown::Done => {}
            Shutdown::NotFound => {
                out.extend_from_slice(self.marks.prefix(Severity::Error).as_bytes());
                out.extend_from_slice(b"No such session (use 'show sess').\n");
            }
        }
        AnswerStep::Done
    }
}
