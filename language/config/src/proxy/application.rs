//! `use-fcgi-app` and `filter fcgi-app`: the FastCGI application of a backend (manual, 10.1.2 and 9.5).
//!
//! The row of the filter is in the crate that runs streams. Both lines name the application. The filter also says where the application
//! acts among the other filters of the proxy. Names are resolved at the end of the configuration, since sections may follow.

pub mod section;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Span, did_you_mean};

use super::finish::OtherSections;
use super::keywords::strict_keyword;
use super::{BACKENDS, ProxyParser, ProxyReader};
use crate::draft::filter::FilterContext;
use crate::rows::Row;
use crate::words::{Parsed, Words, fault};
use weir_model::{Mode, Protocol, Proxy};

pub(super) const KEYWORDS: &[Row<ProxyReader>] = &[strict_keyword(
    "use-fcgi-app",
    "<name>",
    "php",
    "FastCGI application of the backend",
    BACKENDS,
    |context, words| {
        let name = words.expect("'use-fcgi-app' expects <name> as argument")?;
        let pending = &mut context.draft.pending.application;
        if pending.as_ref().is_some_and(|(other, _)| **other != *name.text()) {
            let message = "'use-fcgi-app' : only one fcgi-app supported per backend";
            return Err(fault(name.span(), message));
        }
        *pending = Some((name.text().into(), name.span()));
        // HAProxy ignores further words.
        if let Some(word) = words.peek() {
            context.warn(word.span(), format!("'use-fcgi-app' : '{word}' is ignored."));
        }
        Ok(())
    },
)];

/// Reads the arguments of `filter fcgi-app`: the name of the application.
///
/// # Errors
/// A missing name, or words after it. An unknown name is reported at the end of the configuration.
pub fn read_application_filter(
    context: &mut FilterContext<'_, '_>,
    words: &mut Words<'_>,
) -> Parsed<Box<str>> {
    let name = words.expect("'filter' : fcgi-app : expects a <name> argument")?;
    if let Some(word) = words.peek() {
        return Err(fault(word.span(), format!("'filter fcgi-app' : unknown keyword '{word}'.")));
    }
    let uses = &mut context.line.draft.pending.application_filters;
    uses.push((name.text().into(), name.span()));
    Ok(name.text().into())
}

impl ProxyParser<'_> {
    /// Resolves the applications of backends.
    pub(super) fn settle_applications(
        &mut self,
        sections: &OtherSections<'_>,
        diagnostics: &mut Diagnostics,
    ) {
        for finished in &mut self.finished {
            let proxy = &mut finished.proxy;
            let filters = std::mem::take(&mut finished.pending.application_filters);
            let used = finished.pending.application.take();
            let Some((name, span)) = used.as_ref().or(filters.first()) else {
                if !finished.refused.applications {
                    check_servers_without_application(proxy, finished.span, diagnostics);
                }
                continue;
            };
            let found = sections.applications.iter().find(|section| section.application.name == *name);
            proxy.settings.application = found.map(|section| Arc::clone(&section.application));
            if proxy.settings.disabled {
                continue;
            }
            let mut alert = |span: Span, message: String, note: Option<&str>, nearest: Option<&str>| {
                let mut alert = Diagnostic::alert(span, message).layout(Layout::Bare);
                alert.note = note.map(str::to_owned);
                diagnostics.push(alert.suggestion(nearest.map(str::to_owned)));
            };
            let who = &proxy.name;
            for (_, span) in filters.iter().filter(|(other, _)| other != name) {
                let message = format!("proxy '{who}' : only one fcgi-app supported per backend.");
                alert(*span, message, None, None);
            }
            if found.is_none() && !(sections.is_refused_application)(name) {
                let known = sections.applications.iter().map(|section| &*section.application.name);
                let message = format!("proxy '{who}' : fcgi-app '{name}' not found.");
                alert(*span, message, None, did_you_mean(name, known));
            }
            if proxy.mode() != Mode::Http {
                let message = format!("proxy '{who}': FCGI application cannot be used in non-HTTP mode.");
                alert(*span, message, None, None);
            } else if servers_with_fcgi(proxy).next().is_none() && !finished.refused.any_server() {
                let message = format!("proxy '{who}': FCGI app configured but no FCGI server found.");
                let note = match proxy.is_backend() {
                    true => "write 'proto fcgi' on the lines of its servers",
                    false => {
                        "a frontend has only clients: an application belongs in the backend with its servers"
                    }
                };
                alert(*span, message, Some(note), None);
            }
            if filters.is_empty() && has_filter_of_unknown_order(proxy) {
                let message = format!(
                    "proxy '{who}': require an explicit filter declaration to use the fcgi-app '{name}'."
                );
                let note = format!(
                    "add 'filter fcgi-app {name}' where the application belongs among the other filters"
                );
                alert(*span, message, Some(&note), None);
            }
        }
    }
}

/// The servers of a proxy that are FastCGI servers.
fn servers_with_fcgi(proxy: &Proxy) -> impl Iterator<Item = &weir_model::Server> {
    proxy.servers.iter().filter(|server| server.settings.protocol == Some(Protocol::Fcgi))
}

/// Whether the proxy has a filter for which the order relative to the application is not known without a line for the application.
fn has_filter_of_unknown_order(proxy: &Proxy) -> bool {
    proxy.filters.iter().any(|filter| !filter.facts().compresses)
}

/// Refuses FastCGI servers of a backend without an application. Other modes refuse them anyway.
fn check_servers_without_application(proxy: &Proxy, span: Span, diagnostics: &mut Diagnostics) {
    if proxy.mode() != Mode::Http {
        return;
    }
    for server in servers_with_fcgi(proxy) {
        let message =
            format!("proxy '{}': FCGI server '{}' without a configured FCGI app.", proxy.name, server.name);
        let note = "write 'use-fcgi-app <name>' in the backend, and a section 'fcgi-app <name>'";
        diagnostics.push(Diagnostic::alert(span, message).layout(Layout::Bare).note(note));
    }
}
