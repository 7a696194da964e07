//! The arguments of redirections, for `redirect` lines and for rules.

use weir_expr::{EvaluationPoints, FormatOptions, LogFormat};

use crate::draft::LineContext;
use crate::words::{Parsed, Words, fault};
use weir_model::{Redirect, RedirectCookie, RedirectKind};

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
