//! OCSP responses: lists, shows and replaces them.

use std::fmt::Write;

use weir_formats::CivilTime;

use super::tls::LongText;
use crate::command::{Command, CommandArguments, CommandContext, EXPERT, WORKER};
use crate::level::Level;
use crate::outcome::{AnswerStep, AnswerStream, CommandOutcome};
use crate::target::{CommandTarget, Later, OcspRefusal, OcspUpdate};

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "set ssl ocsp-response",
        syntax: "set ssl ocsp-response <resp|payload>",
        level: Level::Admin,
        flags: WORKER,
        help: "give a certificate a new OCSP response",
        run: Some(set),
    },
    Command {
        name: "show ssl ocsp-response",
        syntax: "show ssl ocsp-response [[text|base64] id]",
        level: Level::Admin,
        flags: WORKER,
        help: "list the OCSP responses, or show one",
        run: Some(show),
    },
    Command {
        name: "show ssl ocsp-updates",
        syntax: "show ssl ocsp-updates",
        level: Level::User,
        flags: WORKER,
        help: "list the OCSP responses that are renewed by themselves",
        run: Some(show_updates),
    },
    Command {
        name: "update ssl ocsp-response",
        syntax: "update ssl ocsp-response <certfile>",
        level: Level::Admin,
        flags: WORKER,
        help: "renew an OCSP response now",
        run: Some(update),
    },
    Command {
        name: "httpclient",
        syntax: "httpclient <method> <uri>",
        level: Level::Admin,
        flags: WORKER | EXPERT,
        help: "send an HTTP request",
        run: Some(request),
    },
];

fn show(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (format, name) = match arguments.word(0) {
        "" => return list(context),
        format @ ("text" | "base64") => (format, arguments.word(1)),
        name => ("text", name),
    };
    if name.is_empty() {
        return CommandOutcome::error("'show ssl ocsp-response [text|base64]' expects a valid certid.\n");
    }
    match context.target.ocsp_response(name, false) {
        None => {
            CommandOutcome::error("'show ssl ocsp-response' expects a valid certid or certificate path.\n")
        }
        Some(response) if format == "base64" => CommandOutcome::Text(response.base64 + "\n"),
        Some(response) => CommandOutcome::Stream(Box::new(LongText::of(response.text))),
    }
}

fn list(context: &CommandContext<'_>) -> CommandOutcome {
    let mut text = String::new();
    for entry in context.target.ocsp_responses() {
        if text.is_empty() {
            text.push_str("# Certificate IDs\n");
        }
        // Writing to memory does not fail.
        let _ = writeln!(text, "Certificate ID key : {}", entry.key);
        let _ = writeln!(text, "Certificate path : {}", entry.path);
        let _ = writeln!(text, " Certificate ID:\n{}", entry.id);
    }
    CommandOutcome::Stream(Box::new(LongText::of(text)))
}

fn show_updates(context: &mut CommandContext<'_>, _: &CommandArguments<'_>) -> CommandOutcome {
    let mut text = HEADINGS.to_owned();
    for update in context.target.ocsp_updates() {
        let renewed = update.renewed.map_or_else(|| "-".to_owned(), date);
        let OcspUpdate { key, path, due, successes, failures, code, text: verdict, .. } = update;
        let due = date(due);
        // Writing to memory does not fail.
        let _ = writeln!(
            text,
            "{key} | {path} | {due} | {renewed} | {successes} | {failures} | {code} | {verdict}"
        );
    }
    CommandOutcome::Stream(Box::new(LongText::of(text)))
}

/// A time in log format, without a time zone.
fn date(seconds: u64) -> String {
    let at = CivilTime::at(i64::try_from(seconds).unwrap_or(i64::MAX), 0);
    let CivilTime { year, day, hour, minute, second, .. } = at;
    format!("{day:02}/{}/{year}:{hour:02}:{minute:02}:{second:02} +0000", at.month_name())
}

const HEADINGS: &str = "OCSP Certid | Path | Next Update | Last Update | Successes | Failures | Last Update Status | Last Update Status (str)\n";

fn update(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let name = arguments.word(0);
    if name.is_empty() {
        return CommandOutcome::error("'update ssl ocsp-response' expects a filename\n");
    }
    match context.target.update_ocsp(name) {
        Ok(later) => CommandOutcome::Stream(Box::new(PendingAnswer(later))),
        Err(why) => CommandOutcome::error(format!("Can't send ocsp request for {name}: {why}!\n")),
    }
}

fn request(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let (method, url) = (arguments.word(0), arguments.word(1));
    if method.is_empty() || url.is_empty() {
        return CommandOutcome::error("'httpclient' expects a method and an URI\n");
    }
    match context.target.request(method, url) {
        Ok(later) => CommandOutcome::Stream(Box::new(PendingAnswer(later))),
        Err(why) => CommandOutcome::error(format!("Can't send the request: {why}.\n")),
    }
}

/// A result that another task prepares.
struct PendingAnswer(Box<dyn Later>);

impl AnswerStream for PendingAnswer {
    fn advance(&mut self, _: &mut dyn CommandTarget, _: usize, out: &mut Vec<u8>) -> AnswerStep {
        match self.0.take() {
            Some(text) => {
                out.extend_from_slice(text.as_bytes());
                AnswerStep::Done
            }
            None => AnswerStep::Pending,
        }
    }
}

fn set(context: &mut CommandContext<'_>, arguments: &CommandArguments<'_>) -> CommandOutcome {
    let text = arguments.payload.unwrap_or_else(|| arguments.word(0));
    if text.is_empty() {
        return CommandOutcome::error("'set ssl ocsp-response' expects response in base64 encoding.\n");
    }
    match context.target.set_ocsp_response(text) {
        Ok(()) => CommandOutcome::info("OCSP Response updated!\n"),
        Err(OcspRefusal::NotBase64) => {
            CommandOutcome::error("'set ssl ocsp-response' received invalid base64 encoded response.\n")
        }
        Err(OcspRefusal::Unfit(why)) => CommandOutcome::error(format!("{why}\n")),
    }
}
