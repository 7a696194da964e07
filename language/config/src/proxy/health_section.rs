//! `healthcheck` sections: checks that several servers share, independent of their backends (manual, "healthcheck").
//!
//! The lines are those of a backend: `http-check` and `tcp-check` rules. The word `type` replaces the options.

use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Line};

use super::checks;
use super::keywords::{DEFAULTS_AND_BACKENDS, keyword};
use super::options::OptionKind;
use super::{FinishedProxy, LineContext, OtherSections, ProxyParser, ProxyReader};
use crate::draft::stream_keywords::StreamKeywords;
use crate::draft::{Draft, DraftSection};
use crate::resources::Resources;
use crate::rows::DefaultValue::Described;
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::words::{Parsed, Words, fault, same_section};
use weir_model::{HealthCheck, Location, Proxy, ProxySection};

/// Every word of a `healthcheck` section.
pub(crate) static HEALTHCHECK_KEYWORDS: Table<ProxyReader> =
    Table::new(&[TYPE, checks::KEYWORDS, checks::IN_SECTIONS]);

const TYPE: &[Row<ProxyReader>] = &[keyword(
    "type",
    "<check> [args]",
    "httpchk GET /health",
    "how servers are checked: an option's name, with its arguments",
    DEFAULTS_AND_BACKENDS,
    read_type,
)
.default(Described("`tcp-check`: a connection that is accepted is enough"))];

/// Reads the lines of a section.
#[derive(Debug)]
pub(crate) struct HealthcheckReader {
    draft: Draft,
    /// Whether the section has a `type` line.
    has_type: bool,
}

impl HealthcheckReader {
    /// Starts the section of a section line.
    pub(crate) fn begin(line: &Line, at: Location, known: &[HealthCheck]) -> Parsed<Self> {
        let mut words = Words::new(line, 1);
        let name = words.expect("missing name for healthcheck section.")?;
        words.end("healthcheck")?;
        if let Some(other) = known.iter().find(|section| *section.name == *name.text()) {
            let fault = same_section("healthcheck", name, &other.at);
            return Err(Box::new(fault.layout(Layout::ParsingTight)));
        }
        let section = DraftSection::Proxy(ProxySection::Backend);
        Ok(HealthcheckReader { draft: Draft::new(section, name.text(), at, line.span()), has_type: false })
    }

    /// Reads one line.
    pub(crate) fn line(
        &mut self,
        line: &Line,
        at: &Location,
        resources: Resources<'_>,
        keywords: &StreamKeywords,
        diagnostics: &mut Diagnostics,
    ) {
        let word = line.keyword();
        let Some((row, count)) = HEALTHCHECK_KEYWORDS.find_phrase(line, 0) else {
            let message = format!("unknown keyword '{word}' in 'healthcheck' section");
            let nearest = nearest_phrase(&HEALTHCHECK_KEYWORDS, word.text());
            diagnostics.push(Diagnostic::alert(word.span(), message).suggestion(nearest));
            return;
        };
        let Handler::Ready(reader) = row.handler else { return };
        let mut context =
            LineContext { draft: &mut self.draft, resources, keywords, at, diagnostics, engine_files: None };
        match (reader.read)(&mut context, &mut Words::new(line, count)) {
            Ok(()) => self.has_type |= row.name == "type",
            Err(fault) => diagnostics.push(*fault),
        }
        self.draft.notes.get_mut().warnings.drain(..).for_each(|warning| diagnostics.push(warning));
    }

    /// Ends the section.
    pub(crate) fn end(self, parser: &mut ProxyParser<'_>, diagnostics: &mut Diagnostics) -> HealthCheck {
        let finished = FinishedProxy::from(self.draft);
        let FinishedProxy { proxy, span, .. } = &finished;
        if !self.has_type {
            let message =
                format!("healthcheck section '{}' has no 'type': servers are only connected to.", proxy.name);
            diagnostics.push(Diagnostic::warning(*span, message).layout(Layout::Bare));
        }
        let scripts = Arc::clone(&proxy.settings.checks);
        let section = HealthCheck { name: Arc::clone(&proxy.name), at: proxy.at.clone(), scripts };
        parser.health_sections.push(finished);
        section
    }
}

/// Checks that the sections named by servers exist, and that their checks support the servers' `check-proto`.
pub(super) fn settle(proxy: &Proxy, context: &OtherSections<'_>, diagnostics: &mut Diagnostics) {
    for server in &proxy.servers {
        let said = &server.settings.check;
        let of_section = said.section.as_ref().and_then(|name| (context.health_scripts)(name));
        let scripts = of_section.as_deref().unwrap_or(&proxy.settings.checks);
        if said.enabled && said.protocol.is_some_and(|protocol| !scripts.can_speak(protocol)) {
            let message = format!(
                "config: {} '{}': server '{}' uses an incompatible MUX protocol for the selected check type",
                proxy.section.name(),
                proxy.name,
                server.name
            );
            diagnostics.push(Diagnostic::alert(None, message));
        }
        if let Some(lack) = scripts.lack_of_port(server) {
            let message = format!("config: {} '{}': {lack}", proxy.section.name(), proxy.name);
            diagnostics.push(Diagnostic::alert(None, message));
        }
        let Some(name) = &said.section else { continue };
        if !(context.has_health_check)(name) {
            let message = format!(
                "[{}] : 'server {}/{}' : unable to find healthcheck section '{name}'.",
                server.at, proxy.name, server.name
            );
            diagnostics.push(Diagnostic::alert(None, message));
        }
    }
}

/// The values of `type`. External checks are for backends only.
const TYPES: [&str; 9] = [
    "tcp-check",
    "httpchk",
    "ssl-hello-chk",
    "smtpchk",
    "pgsql-check",
    "redis-check",
    "mysql-check",
    "ldap-check",
    "spop-check",
];

fn read_type(context: &mut LineContext<'_>, words: &mut Words<'_>) -> Parsed {
    let word = words.expect("'type' expects the type of the check as argument.")?;
    let known = checks::OPTIONS.iter().filter(|row| TYPES.contains(&row.name));
    let mut handlers = known.filter(|row| word.is(row.name)).map(|row| &row.handler);
    match handlers.next() {
        Some(Handler::Ready(option)) => match option.kind {
            OptionKind::Positive(read) => read(context, words),
            _ => unreachable!("options that choose a check do not take a prefix"),
        },
        _ => {
            let nearest = weir_syntax::did_you_mean(word.text(), TYPES);
            let message = format!("'type' : unknown check '{word}'; expects one of {}.", TYPES.join(", "));
            Err(crate::words::suggesting(fault(word.span(), message), nearest))
        }
    }
}
