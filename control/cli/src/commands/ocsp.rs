//! OCSP responses: which there are, what one says, and a new one.

use std::fmt::Write;

use super::tls::Lines;
use crate::command::{Arguments, Command, Context, WORKER};
use crate::level::Level;
use crate::outcome::Outcome;
use crate::target::OcspRefusal;

pub(super) static COMMANDS: &[Command] = &[
    Command {
        name: "set ssl ocsp-response",
        syntax: "set ssl ocsp-response <resp|payload>",
        // What clients are shown is changed.
        level: Level::Operator,
        flags: WORKER,
        help: "give a certificate a new OCSP response",
        run: Some(set),
    },
    Command {
        name: "show ssl ocsp-response",
        syntax: "show ssl ocsp-response [[text|base64] id]",
        level: Level::User,
        flags: WORKER,
        help: "list the OCSP responses, or show one",
        run: Some(show),
    },
];

fn show(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let (format, name) = match arguments.word(0) {
        "" => return list(context),
        format @ ("text" | "base64") => (format, arguments.word(1)),
        name => ("text", name),
    };
    if name.is_empty() {
        return Outcome::error("'show ssl ocsp-response [text|base64]' expects a valid certid.\n");
    }
    match context.target.ocsp_response(name, false) {
        None => Outcome::error("'show ssl ocsp-response' expects a valid certid or certificate path.\n"),
        Some(response) if format == "base64" => Outcome::Text(response.base64 + "\n"),
        Some(response) => Outcome::Stream(Box::new(Lines::of(response.text))),
    }
}

fn list(context: &Context<'_>) -> Outcome {
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
    Outcome::Stream(Box::new(Lines::of(text)))
}

fn set(context: &mut Context<'_>, arguments: &Arguments<'_>) -> Outcome {
    let text = arguments.payload.unwrap_or_else(|| arguments.word(0));
    if text.is_empty() {
        return Outcome::error("'set ssl ocsp-response' expects response in base64 encoding.\n");
    }
    match context.target.set_ocsp_response(text) {
        Ok(()) => Outcome::info("OCSP Response updated!\n"),
        Err(OcspRefusal::NotBase64) => {
            Outcome::error("'set ssl ocsp-response' received invalid base64 encoded response.\n")
        }
        Err(OcspRefusal::Unfit(why)) => Outcome::error(format!("{why}\n")),
    }
}
