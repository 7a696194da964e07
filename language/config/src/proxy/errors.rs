//! Error messages of a proxy: `errorfile`, `errorfiles`, `errorloc`, `http-error`.
//!
//! A later line replaces an earlier one for the same status, and may name an `http-errors` section below it. So the lines are stored as
//! steps, and applied after the whole configuration was parsed.

use std::sync::Arc;

use weir_syntax::Span;

use super::keywords::{EVERYWHERE, keyword};
use super::{LineContext, ProxyReader};
use crate::draft::ErrorStep;
use crate::reply::{ReplyRules, read_error_file, read_reply};
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{ErrorMessage, ErrorReplies, ErrorReply};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "errorfile",
        "<code> <file>",
        "503 /dev/null",
        "a file that holds the response to an error",
        EVERYWHERE,
        |context, words| {
            let expects = "errorfile : expects <status_code> and <file> as arguments.";
            let status = read_status(words, "errorfile", expects)?;
            let path = words.expect(expects)?;
            let message = read_error_file(context.resources.loader, path)
                .map_err(|fault| crate::words::prefixed(fault, "errorfile : "))?;
            add(context, ErrorStep::Set(status, ErrorReply::Message(message)));
            words.end("errorfile")
        },
    ),
    keyword(
        "errorfiles",
        "<name> [<code> ...]",
        "pages 503",
        "responses of an http-errors section",
        EVERYWHERE,
        |context, words| {
            let at = context.at.clone();
            let name = words.expect("errorfiles : expects <name> as argument.")?;
            let mut statuses = Vec::new();
            while !words.at_end() {
                statuses.push(read_status(words, "errorfiles", "errorfiles : expects a status code")?);
            }
            add(context, ErrorStep::Section { name: name.text().into(), statuses, span: name.span(), at });
            Ok(())
        },
    ),
    keyword(
        "errorloc",
        "<code> <url>",
        "503 http://x/",
        "redirect after an error (302)",
        EVERYWHERE,
        |context, words| read_location(context, words, "errorloc", 302),
    ),
    keyword(
        "errorloc302",
        "<code> <url>",
        "503 http://x/",
        "redirect after an error (302)",
        EVERYWHERE,
        |context, words| read_location(context, words, "errorloc302", 302),
    ),
    keyword(
        "errorloc303",
        "<code> <url>",
        "503 http://x/",
        "redirect after an error, to be fetched with GET (303)",
        EVERYWHERE,
        |context, words| read_location(context, words, "errorloc303", 303),
    ),
    keyword(
        "http-error",
        "status <code> [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <str> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*",
        "status 503 content-type text/plain string down hdr x y",
        "the response to an error",
        EVERYWHERE,
        |context, words| {
            if words.peek_text() != "status" {
                return Err(words.fault("http-error : expects at least a <status> as arguments."));
            }
            let span = words.line().span_at(words.position() + 1);
            let reply = read_reply(context, words, &ReplyRules::HTTP_ERROR)
                .map_err(|fault| crate::words::prefixed(fault, "http-error : "))?;
            words.end("http-error")?;
            if !ErrorReplies::STATUSES.contains(&reply.status) {
                return Err(fault(span, format!("http-error: status code '{}' not handled.", reply.status)));
            }
            add(context, ErrorStep::Set(reply.status, ErrorReply::Reply(Arc::new(reply))));
            Ok(())
        },
    ),
];

/// The limit of lines about error messages in a proxy.
const MAX_STEPS: usize = 4096;

fn add(context: &mut LineContext<'_>, step: ErrorStep) {
    let steps = Arc::make_mut(&mut context.draft.extras.error_steps);
    if steps.len() < MAX_STEPS {
        steps.push(step);
    }
}

/// Reads a status for which there are error messages.
pub(crate) fn read_status(words: &mut Words<'_>, keyword: &str, expects: &str) -> Parsed<u16> {
    let word = words.expect(expects)?;
    let status = word.text().parse().ok().filter(|status| ErrorReplies::STATUSES.contains(status));
    status.ok_or_else(|| fault(word.span(), format!("{keyword} : status code '{word}' not handled.")))
}

fn read_location(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    keyword: &str,
    redirect: u16,
) -> Parsed {
    let expects = format!("{keyword} : expects <status_code> and <url> as arguments.");
    let status = read_status(words, keyword, &expects)?;
    let url = words.expect(&expects)?;
    let reply = ErrorReply::Redirect { status: redirect, url: url.text().into() };
    add(context, ErrorStep::Set(status, reply));
    words.end(keyword)
}

/// Applies the steps of a proxy. The error names an unknown section. `warn` receives the sections without a message for a status, which
/// then keeps its previous message.
pub(super) fn run_steps(
    steps: &[ErrorStep],
    section: &dyn Fn(&str) -> Option<Arc<ErrorReplies>>,
    warn: &mut dyn FnMut(String, Span),
) -> Result<ErrorReplies, (String, Span)> {
    let mut replies = ErrorReplies::default();
    for step in steps {
        match step {
            ErrorStep::Set(status, reply) => replies.set(*status, reply.clone()),
            ErrorStep::Section { name, statuses, span, at } => {
                let Some(section) = section(name) else {
                    return Err((format!("unknown http-errors section '{name}' (at {at})"), *span));
                };
                if statuses.is_empty() {
                    section.iter().for_each(|(status, reply)| replies.set(status, reply.clone()));
                }
                for status in statuses {
                    match section.get(*status) {
                        Some(reply) => replies.set(*status, reply.clone()),
                        None => {
                            let message = format!(
                                "status '{status}' not declared in http-errors section '{name}' (at {at})"
                            );
                            warn(message, *span);
                        }
                    }
                }
            }
        }
    }
    Ok(replies)
}

/// The message of a section for a status. None if the section has another kind of reply.
pub(super) fn section_message(section: &ErrorReplies, status: u16) -> Option<Arc<ErrorMessage>> {
    match section.get(status)? {
        ErrorReply::Message(message) => Some(message.clone()),
        ErrorReply::Redirect { .. } | ErrorReply::Reply(_) => None,
    }
}
