//! Actions that end a ruleset, most of them with a response of the proxy.

use std::sync::Arc;

use weir_expr::{EvaluationPoints, FormatOptions, LogFormat};

use super::{ActionContext, ActionReader, action, sets};
use crate::draft::LineContext;
use crate::model::{Action, Protocol, Redirect, RedirectCookie, RedirectKind, RulesetKind, Service};
use crate::reply::{ReplyRules, read_reply};
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};

/// The arguments of `deny`, `tarpit` and `return`.
const REPLY: &str = "[ status <code> ] [ content-type <type> ] [ { default-errorfiles | errorfile <file> | errorfiles <name> | file <file> | lf-file <file> | string <str> | lf-string <fmt> } ] [ hdr <name> <fmt> ]*";

/// Reads the arguments of `switch-mode`.
fn switch_mode(context: &mut ActionContext<'_, '_>, words: &mut Words<'_>) -> Parsed<Action> {
    let section = context.line.draft.section;
    if section.is_backend() && !section.is_frontend() {
        let message =
            format!("not allowed because backend '{}' has no frontend capability", context.line.name());
        return Err(fault(context.word.span(), message));
    }
    let mode = words.expect("expects a mode as argument.")?;
    if mode.text() != "http" {
        return Err(fault(mode.span(), format!("expects a valid mode (got '{mode}').")));
    }
    if !words.take_if("proto") {
        return Ok(Action::SwitchMode(None));
    }
    let word = words.expect("'proto' expects a protocol as argument.")?;
    match word.text() {
        "h1" => Ok(Action::SwitchMode(Some(Protocol::H1))),
        "h2" => Ok(Action::SwitchMode(Some(Protocol::H2))),
        "none" => Err(fault(word.span(), "MUX protocol 'none' is not compatible with the selected mode.")),
        _ => {
            let message = format!("'proto' expects a valid MUX protocol, if specified (got '{word}')");
            Err(fault(word.span(), message))
        }
    }
}

pub(super) const ACTIONS: &[Row<ActionReader>] = &[
    action("accept", "", "", "go on without the rest of the rules", sets::TCP, |_, _| Ok(Action::Accept)),
    action("allow", "", "", "go on without the rest of the rules", sets::HTTP, |_, _| Ok(Action::Accept)),
    action("close", "", "", "close the server's connection", sets::TCP_RESPONSE, |_, _| Ok(Action::Close)),
    action("reject", "", "", "close the connection without an answer", sets::TCP_AND_REQUEST, |_, _| {
        Ok(Action::Reject)
    }),
    action(
        "switch-mode",
        "http [ proto <name> ]",
        "http proto h2",
        "go on in HTTP",
        sets::TCP_CONTENT,
        switch_mode,
    ),
    action(
        "silent-drop",
        "[ rst-ttl <ttl> ]",
        "rst-ttl 3",
        "close the connection without telling the peer",
        sets::ALL_BUT_AFTER,
        |_, words| {
            let mut reset_ttl = None;
            if words.take_if("rst-ttl") {
                let word = words.expect("missing argument for 'rst-ttl'.")?;
                reset_ttl = word.text().parse::<u8>().ok().filter(|ttl| *ttl > 0);
                if reset_ttl.is_none() {
                    return Err(fault(word.span(), "'rst-ttl' expects a number between 1 and 255."));
                }
            }
            Ok(Action::SilentDrop { reset_ttl })
        },
    ),
    action(
        "deny",
        REPLY,
        "deny_status 429",
        "refuse with an error, without a server",
        sets::HTTP_MESSAGES,
        |context, words| {
            let status = if context.kind == RulesetKind::HttpRequest { 403 } else { 502 };
            let reply = read_reply(context.line, words, &ReplyRules::deny(status, context.points))?;
            Ok(Action::Deny(Box::new(reply)))
        },
    )
    .default(Described("status 403 for a request, 502 for a response")),
    action(
        "tarpit",
        REPLY,
        "deny_status 500",
        "answer with an error, late",
        sets::HTTP_REQUEST,
        |context, words| {
            let reply = read_reply(context.line, words, &ReplyRules::deny(500, context.points))?;
            Ok(Action::Tarpit(Box::new(reply)))
        },
    )
    .default(Described("status 500")),
    action(
        "return",
        REPLY,
        "status 200 content-type text/plain string ok hdr a b",
        "answer the client with this status, headers and body, without a server",
        sets::HTTP_MESSAGES,
        |context, words| {
            let reply = read_reply(context.line, words, &ReplyRules::answer(context.points))?;
            Ok(Action::Return(Box::new(reply)))
        },
    )
    .default(Described("status 200, without a body")),
    action(
        "use-service",
        "<service-name>",
        "prometheus-exporter",
        "let a service answer",
        sets::CONTENT_REQUESTS,
        |context, words| {
            let name = words.expect("'use-service' expects a service name.")?;
            let Some(service) = Service::ALL.into_iter().find(|service| service.name() == name.text()) else {
                return Err(fault(name.span(), format!("'{}' unknown service name.", name.text())));
            };
            if context.kind != RulesetKind::HttpRequest {
                let message = "Prometheus exporter service only available on 'http-request' rulesets";
                return Err(fault(name.span(), message));
            }
            Ok(Action::UseService(service))
        },
    ),
    action("auth", "[realm <realm>]", "realm shop", "ask for credentials", sets::HTTP_REQUEST, |_, words| {
        let mut realm = None;
        if words.take_if("realm") {
            realm = Some(words.expect("missing realm value.")?.text().into());
        }
        Ok(Action::Auth { realm })
    })
    .default(Described("the realm is the name of the proxy")),
    action(
        "redirect",
        "{ location <fmt> | prefix <fmt> | scheme <fmt> } [code <code>] [drop-query] [keep-query] \
         [append-slash] [ignore-empty] [set-cookie <name>[=<value>]] [set-cookie-fmt <fmt>] \
         [clear-cookie <name>[=]]",
        "location /there code 301 ignore-empty",
        "answer with a redirection",
        sets::HTTP_MESSAGES,
        |context, words| {
            let place = words.here();
            let redirect = read_redirect(context.line, words, context.points, true)?;
            // The others are made from the request, which is gone by then (manual, "http-response redirect").
            if context.kind != RulesetKind::HttpRequest && redirect.kind != RedirectKind::Location {
                return Err(fault(place, "a response can only be redirected to a 'location'."));
            }
            Ok(Action::Redirect(Arc::new(redirect)))
        },
    )
    .default(Described("code 302")),
];

/// Reads the arguments of a redirection. In a `redirect` line (`formats` false) values are plain text.
pub(crate) fn read_redirect(
    context: &mut LineContext<'_>,
    words: &mut Words<'_>,
    points: EvaluationPoints,
    formats: bool,
) -> Parsed<Redirect> {
    let mut target: Option<(RedirectKind, LogFormat)> = None;
    let mut redirect = Redirect {
        kind: RedirectKind::Location,
        value: LogFormat::default(),
        status: 302,
        drop_query: false,
        keep_query: false,
        append_slash: false,
        ignore_empty: false,
        cookie: None,
    };
    while !words.at_condition() {
        let Some(word) = words.take() else { break };
        let keyword = word.text();
        let missing = format!("missing argument for '{keyword}'.");
        match keyword {
            "location" | "prefix" | "scheme" => {
                let value = words.expect(&missing)?;
                let format = match formats {
                    true => context.expressions().format_with(value, points, FormatOptions::HTTP)?,
                    false => context.expressions().literal(value, value.text())?,
                };
                let kind = match keyword {
                    "location" => RedirectKind::Location,
                    "prefix" => RedirectKind::Prefix,
                    _ => RedirectKind::Scheme,
                };
                target = Some((kind, format));
            }
            "set-cookie" | "set-cookie-fmt" | "clear-cookie" => {
                let value = words.expect(&missing)?;
                let format = match keyword {
                    "set-cookie-fmt" => {
                        context.expressions().format_with(value, points, FormatOptions::HTTP)?
                    }
                    _ => context.expressions().literal(value, value.text())?,
                };
                let attributes = match keyword {
                    "clear-cookie" => "; path=/; Max-Age=0;",
                    _ => "; path=/;",
                };
                redirect.cookie = Some(RedirectCookie { format, attributes });
            }
            "code" => redirect.status = read_code(words)?,
            "drop-query" => redirect.drop_query = true,
            "keep-query" => redirect.keep_query = true,
            "append-slash" => redirect.append_slash = true,
            "ignore-empty" => redirect.ignore_empty = true,
            _ => {
                let message = format!(
                    "expects 'code', 'prefix', 'location', 'scheme', 'set-cookie', 'set-cookie-fmt', 'clear-cookie', \
                     'drop-query', 'keep-query', 'ignore-empty' or 'append-slash' (was '{word}')."
                );
                return Err(fault(word.span(), message));
            }
        }
    }
    let (kind, value) = target
        .ok_or_else(|| words.fault("redirection type expected ('prefix', 'location', or 'scheme')."))?;
    (redirect.kind, redirect.value) = (kind, value);
    Ok(redirect)
}

fn read_code(words: &mut Words<'_>) -> Parsed<u16> {
    let value = words.expect("missing HTTP code.")?;
    let status = value.text().parse().ok().filter(|status| [301, 302, 303, 307, 308].contains(status));
    status.ok_or_else(|| {
        let message =
            format!("'code': unsupported HTTP code '{value}' (must be one of 301, 302, 303, 307 or 308).");
        fault(value.span(), message)
    })
}
