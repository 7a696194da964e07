//! `email-alert`: mails about changes of server states.

use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Span};

use super::finish::noun;
use super::keywords::{EVERYWHERE, keyword};
use super::{LineContext, OtherSections, ProxyReader};
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use crate::words::{Parsed, Words};
use weir_model::{MailAlert, Proxy, Severity};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[
    keyword(
        "email-alert from",
        "<emailaddr>",
        "a@example.org",
        "mail alerts: sender",
        EVERYWHERE,
        |context, words| {
            alert(context).from = Some(argument(words, "from")?);
            Ok(())
        },
    ),
    keyword("email-alert level", "<level>", "notice", "mail alerts: level", EVERYWHERE, |context, words| {
        let name = words.peek_text();
        let level = Severity::from_name(name)
            .ok_or_else(|| words.fault(format!("unknown log level '{name}' after 'level'")))?;
        words.take();
        words.end("email-alert")?;
        alert(context).level = Some(level);
        Ok(())
    })
    .default(Described("`alert`"))
    .values(&[
        ("emerg", "the gravest only"),
        ("alert", "and servers that went down"),
        ("crit", "and critical messages"),
        ("err", "and errors"),
        ("warning", "and warnings"),
        ("notice", "and servers that came up"),
        ("info", "and results of health checks"),
        ("debug", "everything"),
    ]),
    keyword(
        "email-alert mailers",
        "<mailersect>",
        "staff",
        "mail alerts: section with the servers",
        EVERYWHERE,
        |context, words| {
            let name = argument(words, "mailers")?;
            alert(context).mailers = Some(name);
            Ok(())
        },
    ),
    keyword(
        "email-alert myhostname",
        "<hostname>",
        "lb1.example.org",
        "mail alerts: our name",
        EVERYWHERE,
        |context, words| {
            alert(context).host_name = Some(argument(words, "myhostname")?);
            Ok(())
        },
    )
    .default(Described("the host name")),
    keyword(
        "email-alert to",
        "<emailaddr>",
        "b@example.org",
        "mail alerts: receiver",
        EVERYWHERE,
        |context, words| {
            alert(context).to = Some(argument(words, "to")?);
            Ok(())
        },
    ),
];

fn alert<'c>(context: &'c mut LineContext<'_>) -> &'c mut MailAlert {
    Arc::make_mut(context.settings().mail_alert.get_or_insert_default())
}

fn argument(words: &mut Words<'_>, after: &str) -> Parsed<Arc<str>> {
    let word = words.expect(&format!("missing argument after '{after}'."))?;
    words.end("email-alert")?;
    if word.text().contains(['\r', '\n', '<', '>']) {
        return Err(crate::words::fault(word.span(), format!("'{word}' cannot be part of a mail.")));
    }
    Ok(word.text().into())
}

/// Checks the mail settings of a proxy. Incomplete ones are dropped (manual, "email-alert").
pub(super) fn settle(
    proxy: &mut Proxy,
    at: Span,
    context: &OtherSections<'_>,
    diagnostics: &mut Diagnostics,
) {
    let Some(alert) = &proxy.settings.mail_alert else { return };
    let section = alert.mailers.as_deref().filter(|_| alert.is_complete());
    match section {
        Some(name) if (context.has_mailers)(name) => {}
        Some(name) => {
            let message = format!("Proxy '{}': unable to find mailers '{name}'.", proxy.name);
            diagnostics.push(Diagnostic::alert(at, message).layout(Layout::Bare));
        }
        None => {
            let message = format!(
                "'email-alert' will be ignored for {} '{}' (the presence any of 'email-alert from', 'email-alert level' \
                 'email-alert mailers', 'email-alert myhostname', or 'email-alert to' requires each of 'email-alert from', \
                 'email-alert mailers' and 'email-alert to' to be present).",
                noun(proxy),
                proxy.name
            );
            diagnostics.push(Diagnostic::warning(at, message).layout(Layout::Bare));
            proxy.settings.mail_alert = None;
        }
    }
}
