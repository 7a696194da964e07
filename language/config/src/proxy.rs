//! The proxy sections: `defaults`, `frontend`, `backend`, `listen`.
//!
//! [`ProxyParser`] takes one line at a time. A section line begins a draft, a copy of a `defaults` section. The following lines change
//! the draft, each through the row of its keyword. The next section line, or the end of the configuration, completes it. Drafts only read
//! `defaults` sections (R29): a draft owns its settings, and shares large parts behind `Arc`. Names that may precede their declaration
//! (backends, servers, `http-errors` sections) are recorded, and resolved in [`ProxyParser::finish`].

pub mod application;
pub(crate) mod balancing;
mod captures;
pub(crate) mod checks;
mod compression;
mod errors;
pub(crate) mod filters;
mod finish;
mod general;
pub(crate) mod health_section;
mod keywords;
mod log_mode;
mod logging;
mod mail;
mod options;
mod outliers;
mod resolve;
mod routing;
pub mod spoe;
mod stats;
mod sticking;
mod tables;
#[cfg(test)]
mod tests;
mod timeouts;

use std::collections::HashMap;
use std::sync::Arc;

use weir_expr::AclTable;
use weir_syntax::{Diagnostic, Diagnostics, FileId, Layout, Line, SourceMap, Span, Word};

pub use crate::draft::filter::{FilterContext, FilterReader, FilterTable, ReadFilter};
pub use filters::{filter, implied_filter};
pub use finish::OtherSections;
pub use keywords::{PROXY_KEYWORDS, ProxyReader};
pub use logging::read_log_target;
pub(crate) use logging::read_log_target_words;
pub use options::{OPTIONS, OptionKind, OptionReader};
pub(crate) use tables::check_counters;

use crate::draft::stream_keywords::StreamKeywords;
use crate::draft::{
    BACKENDS, ConditionList, DEFAULTS, Draft, DraftSection, Extras, FRONTENDS, LineContext, NAMED_DEFAULTS,
    PROXIES, PendingReferences, RefusedNames, Sections,
};
use crate::engine_files::EngineFiles;
use crate::expressions::WrittenReference;
use crate::global::GLOBAL_KEYWORDS;
use crate::resources::Resources;
use crate::rows::{Handler, Row};
use crate::sections::nearest_phrase;
use crate::words::{Fault, Parsed, Words, fault, is_name_character, not_yet, suggesting};
use weir_model::{Location, LogTarget, Proxy, ProxyIndex, ProxySection, RulesetKind, Rulesets};

/// Reads the proxy sections of a configuration.
pub struct ProxyParser<'r> {
    resources: Resources<'r>,
    keywords: &'r StreamKeywords,
    engine_files: Option<&'r EngineFiles<'r>>,
    files: HashMap<FileId, Arc<str>>,
    defaults: Vec<DefaultsSection>,
    /// `healthcheck` sections, stored as proxies.
    health_sections: Vec<FinishedProxy>,
    /// The `defaults` section of proxies without `from`: the last one.
    implicit_defaults: Option<usize>,
    finished: Vec<FinishedProxy>,
    current: Option<Draft>,
}

/// A complete `defaults` section.
#[derive(Debug)]
struct DefaultsSection {
    /// The name. Empty for an unnamed section.
    name: Box<str>,
    /// The section in the form of a proxy, without its rules.
    finished: FinishedProxy,
    rules: Option<Arc<Rulesets>>,
    uses: DefaultsUses,
    /// Location of another section with the same name.
    twin: Option<Location>,
}

impl DefaultsSection {
    /// Whether the section has rules of one of these kinds.
    fn has_rules(&self, kinds: &[RulesetKind]) -> bool {
        self.rules.as_ref().is_some_and(|rules| kinds.iter().any(|kind| !rules.get(*kind).is_empty()))
    }
}

/// The proxies that used a `defaults` section.
#[derive(Clone, Copy, Debug, Default)]
struct DefaultsUses {
    explicitly: bool,
    by_frontend: bool,
    by_backend: bool,
}

/// A completely parsed proxy, with references that can be resolved only after all proxies are parsed.
#[derive(Debug)]
struct FinishedProxy {
    proxy: Proxy,
    span: Span,
    extras: Extras,
    pending: PendingReferences,
    /// The section's ACLs, kept if they refer to other objects.
    acls: Option<AclTable>,
    references: Vec<WrittenReference>,
    refused: RefusedNames,
}

impl From<Draft> for FinishedProxy {
    fn from(draft: Draft) -> Self {
        let Draft { mut proxy, span, extras, pending, acls, notes, refused, .. } = draft;
        // The first push allocates four elements, and most backends of a large configuration have one server.
        proxy.servers.shrink_to_fit();
        let mut refers = false;
        acls.visit_references(&mut |_| refers = true);
        let references = notes.into_inner().references;
        FinishedProxy { proxy, span, extras, pending, acls: refers.then_some(acls), references, refused }
    }
}

impl<'r> ProxyParser<'r> {
    /// The words that begin the sections that this parser reads.
    pub const SECTIONS: [&'static str; 4] = ["defaults", "frontend", "listen", "backend"];

    /// A parser without any section.
    pub fn new(resources: Resources<'r>, keywords: &'r StreamKeywords) -> Self {
        ProxyParser {
            resources,
            keywords,
            engine_files: None,
            files: HashMap::new(),
            defaults: Vec::new(),
            health_sections: Vec::new(),
            implicit_defaults: None,
            finished: Vec::new(),
            current: None,
        }
    }

    /// The parser with the inputs for the files of engines. Without them, it refuses engines.
    pub(crate) fn with_engine_files(mut self, files: &'r EngineFiles<'r>) -> Self {
        self.engine_files = Some(files);
        self
    }

    /// Reserves memory for the number of sections that `sources` seem to have. Growth would hold all of them twice for a moment.
    pub fn reserve(&mut self, sources: &SourceMap) {
        let begins = |line: &[u8]| {
            let first = line.trim_ascii_start().split(u8::is_ascii_whitespace).next();
            first.is_some_and(|word| Self::SECTIONS.iter().any(|section| section.as_bytes() == word))
        };
        let sections = |text: &[u8]| text.split(|byte| *byte == b'\n').filter(|line| begins(line)).count();
        self.finished.reserve(sources.iter().map(|(_, source)| sections(source.bytes())).sum());
    }

    /// Starts the section of a line with one of [`Self::SECTIONS`]. `file` is the name of the line's file.
    ///
    /// After an error in the line, the section is parsed nevertheless, so that its own errors are found too.
    pub fn begin(&mut self, line: &Line, file: &str, diagnostics: &mut Diagnostics) {
        let at = self.location(line.span(), file);
        let header = match SectionHeader::read(line) {
            Ok(header) => header,
            Err(fault) => {
                diagnostics.push(*fault);
                // References to the section resolve, so that this is the only fault.
                let name = line.get(1).unwrap_or(line.keyword());
                SectionHeader { section: section_of(line.text(0), line.len() > 1), name, from: None }
            }
        };
        let mut draft = Draft::new(header.section, header.name.text(), at, line.span());
        if let Err(fault) = self.inherit(&header, &mut draft, diagnostics) {
            diagnostics.push(*fault);
        }
        self.current = Some(draft);
    }

    /// Reads a line of the current section.
    pub fn line(&mut self, line: &Line, file: &str, diagnostics: &mut Diagnostics) {
        let at = self.location(line.span(), file);
        let Some(draft) = &mut self.current else {
            let message = format!("unknown keyword '{}' out of section.", line.keyword());
            diagnostics.push(Diagnostic::alert(line.keyword().span(), message).layout(Layout::ParsingTight));
            return;
        };
        let mut context = LineContext {
            draft,
            resources: self.resources,
            keywords: self.keywords,
            at: &at,
            diagnostics,
            engine_files: self.engine_files,
        };
        let read = read_line(&mut context, line);
        draft.notes.get_mut().warnings.drain(..).for_each(|warning| diagnostics.push(warning));
        if let Err(fault) = read {
            if draft.refused.explains(&fault) {
                return;
            }
            draft.refused.note(line);
            diagnostics.push(*fault);
        }
    }

    fn location(&mut self, span: Span, file: &str) -> Location {
        let file = self.files.entry(span.file).or_insert_with(|| file.into());
        Location::new(file.clone(), span.line)
    }

    /// Completes the current section, if there is one. `global_logs` are the targets of the global sections above it.
    pub fn end_section(&mut self, global_logs: &[Arc<LogTarget>], diagnostics: &mut Diagnostics) {
        let Some(mut draft) = self.current.take() else { return };
        draft.proxy.settings.logging.targets.settle(global_logs);
        finish::end_of_section(&mut draft, self.keywords, diagnostics);
        match draft.section {
            DraftSection::Defaults { .. } => self.end_defaults(draft),
            DraftSection::Proxy(_) => self.finished.push(FinishedProxy::from(draft)),
        }
    }

    fn end_defaults(&mut self, draft: Draft) {
        let named = draft.section == (DraftSection::Defaults { named: true });
        let mut finished = FinishedProxy::from(draft);
        let name: Box<str> = if named { (*finished.proxy.name).into() } else { "".into() };
        if let Some(twin) = self.defaults.iter_mut().find(|other| named && other.name == name) {
            twin.twin = Some(finished.proxy.at.clone());
        }
        let rules = std::mem::take(&mut finished.proxy.rules);
        let has_rules = !rules.is_empty()
            || rules.tcp_request_inspect_delay.is_some()
            || rules.tcp_response_inspect_delay.is_some();
        self.implicit_defaults = Some(self.defaults.len());
        let rules = has_rules.then(|| Arc::new(rules));
        self.defaults.push(DefaultsSection {
            name,
            finished,
            rules,
            uses: DefaultsUses::default(),
            twin: None,
        });
    }

    /// Copies the settings of the `defaults` section into the draft.
    fn inherit(
        &mut self,
        header: &SectionHeader<'_>,
        draft: &mut Draft,
        diagnostics: &mut Diagnostics,
    ) -> Parsed {
        let index = match header.from {
            Some(from) => self.named_defaults(header, from)?,
            // A defaults section starts empty unless it has `from`.
            None if draft.section.is_defaults() => return Ok(()),
            None => match self.implicit_defaults {
                Some(index) => index,
                None => return Ok(()),
            },
        };
        let defaults = &mut self.defaults[index];
        if header.from.is_some() {
            defaults.uses.explicitly = true;
        } else if defaults.uses.explicitly {
            let message = format!(
                "defaults section '{}' (declared at {}) is explicitly referenced by another proxy and implicitly \
                 used here. To avoid any ambiguity don't mix both usage. Add a last defaults section not \
                 explicitly used or always use explicit references.",
                defaults.name, defaults.finished.proxy.at
            );
            diagnostics.warning(draft.span, message);
        }
        draft.proxy.settings = defaults.finished.proxy.settings.clone();
        draft.extras = defaults.finished.extras.clone();
        if draft.section.is_backend() || draft.section.is_defaults() {
            draft.proxy.server_state_file = defaults.finished.proxy.server_state_file.clone();
        }
        if draft.section.is_frontend() {
            // Rules of the `defaults` section may have created slots. The proxy's own slots follow them.
            draft.proxy.captures = defaults.finished.proxy.captures.clone();
        }
        if let Some(rules) = &defaults.rules {
            defaults.uses.by_frontend |= draft.section.is_frontend();
            defaults.uses.by_backend |= draft.section.is_backend();
            Self::may_inherit_rules(draft, defaults)?;
            draft.proxy.inherited_rules = Some(rules.clone());
        }
        Ok(())
    }

    fn may_inherit_rules(draft: &Draft, defaults: &DefaultsSection) -> Parsed {
        let tight = |message: String| {
            Err(Box::new(Diagnostic::alert(draft.span, message).layout(Layout::ParsingTight)))
        };
        match draft.section {
            DraftSection::Defaults { .. } => tight(format!(
                "a defaults section cannot inherit from a defaults section defining TCP/HTTP rules (defaults section at {}).",
                defaults.finished.proxy.at
            )),
            DraftSection::Proxy(ProxySection::Listen) => tight(
                "a listen section cannot inherit from a defaults section defining TCP/HTTP rules.".to_owned(),
            ),
            DraftSection::Proxy(ProxySection::Backend)
                if !defaults.finished.proxy.captures.request.is_empty() =>
            {
                tight(format!(
                    "a backend cannot inherit from a defaults section with rules that capture with 'len' (defaults section at {}).",
                    defaults.finished.proxy.at
                ))
            }
            _ if defaults.uses.by_frontend && defaults.uses.by_backend => tight(format!(
                "frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules (defaults section at {}).",
                defaults.finished.proxy.at
            )),
            DraftSection::Proxy(ProxySection::Frontend)
                if defaults.has_rules(&[RulesetKind::TcpResponseContent]) =>
            {
                tight(format!(
                    "a frontend section cannot inherit from a defaults section defining 'tcp-response content' rules (defaults section at {}).",
                    defaults.finished.proxy.at
                ))
            }
            DraftSection::Proxy(ProxySection::Backend)
                if defaults
                    .has_rules(&[RulesetKind::TcpRequestConnection, RulesetKind::TcpRequestSession]) =>
            {
                tight(format!(
                    "a backend section cannot inherit from a defaults section defining 'tcp-request connection' or 'tcp-request session' rules (defaults section at {}).",
                    defaults.finished.proxy.at
                ))
            }
            _ => Ok(()),
        }
    }

    fn named_defaults(&self, header: &SectionHeader<'_>, from: &Word) -> Parsed<usize> {
        let found = self.defaults.iter().position(|defaults| *defaults.name == *from.text());
        let kind = header.section.noun();
        let Some(index) = found else {
            let names = self.defaults.iter().map(|defaults| &*defaults.name);
            let nearest = weir_syntax::did_you_mean(from.text(), names).map(str::to_owned);
            let message = format!("defaults section '{from}' not found for {kind} '{}'.", header.name);
            return Err(Box::new(Diagnostic::alert(from.span(), message).suggestion(nearest)));
        };
        if let Some(twin) = &self.defaults[index].twin {
            let message = format!(
                "ambiguous defaults section name '{from}' referenced by {kind} '{}' exists at least at {} and {twin}.",
                header.name, self.defaults[index].finished.proxy.at
            );
            return Err(fault(from.span(), message));
        }
        Ok(index)
    }
}

/// A section line: `<section> <name> [from <defaults>]`.
struct SectionHeader<'l> {
    section: DraftSection,
    name: &'l Word,
    from: Option<&'l Word>,
}

fn section_of(keyword: &str, named: bool) -> DraftSection {
    match keyword {
        "frontend" => DraftSection::Proxy(ProxySection::Frontend),
        "backend" => DraftSection::Proxy(ProxySection::Backend),
        "listen" => DraftSection::Proxy(ProxySection::Listen),
        _ => DraftSection::Defaults { named },
    }
}

impl<'l> SectionHeader<'l> {
    fn read(line: &'l Line) -> Parsed<Self> {
        let keyword = line.text(0);
        let mut words = Words::new(line, 1);
        let mut section = section_of(keyword, false);
        let name = if section.is_defaults() && (words.at_end() || words.peek_text() == "from") {
            line.keyword()
        } else {
            if section.is_defaults() {
                section = DraftSection::Defaults { named: true };
            }
            words.expect(&format!("'{keyword}' expects an <id> argument"))?
        };
        let from = if words.take_if("from") {
            Some(words.expect("'from' expects the name of a defaults section")?)
        } else {
            None
        };
        if let Some(stranger) = name.text().chars().find(|character| !is_name_character(*character)) {
            let message = format!("character '{stranger}' is not permitted in '{keyword}' name '{name}'.");
            return Err(fault(name.span(), message));
        }
        if let Some(address) =
            words.peek().filter(|word| section.is_frontend() && word.bytes().contains(&b':'))
        {
            let message =
                format!("'{keyword}' takes no address: write 'bind {address}' on a line of its own.");
            return Err(fault(address.span(), message));
        }
        words.end(keyword)?;
        Ok(SectionHeader { section, name, from })
    }
}

/// The prefix of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polarity {
    Set,
    /// `no`.
    No,
    /// `default`.
    Default,
}

fn read_line(context: &mut LineContext<'_>, line: &Line) -> Parsed {
    let (polarity, first) = match line.text(0) {
        "no" => (Polarity::No, 1),
        "default" => (Polarity::Default, 1),
        _ => (Polarity::Set, 0),
    };
    match (line.text(first), polarity) {
        ("option", _) => options::read_option(context, line, first, polarity),
        ("log", Polarity::No) => logging::read_no_log(context, &mut Words::new(line, 2)),
        (_, Polarity::Set) => read_keyword(context, line),
        _ => Err(Box::new(
            Diagnostic::alert(
                line.keyword().span(),
                "negation/default currently supported only for options, log, busy-polling, set-dumpable, \
                 strict-limits, insecure-fork-wanted and numa-cpu-mapping.",
            )
            .layout(Layout::ParsingTight),
        )),
    }
}

fn read_keyword(context: &mut LineContext<'_>, line: &Line) -> Parsed {
    let Some((row, length)) = PROXY_KEYWORDS.find_phrase(line, 0) else {
        return Err(unknown_keyword(context, line));
    };
    let span = line.keyword().span();
    match row.handler {
        Handler::Ready(reader) => {
            if !reader.sections.allows(context.draft.section) {
                return misplaced(context, line, row.name, reader);
            }
            context.draft.logs.note_keyword(row.name, span);
            (reader.read)(context, &mut Words::new(line, length))
        }
        Handler::NotYet => Err(not_yet(span.to(line.span_at(length - 1)), row.name)),
        Handler::Removed(instead) => {
            Err(fault(span, format!("the '{}' directive is not supported anymore; {instead}", row.name)))
        }
    }
}

/// The treatment of a keyword that the section does not support: an error in `defaults`, else a warning. The line is not parsed.
fn misplaced(context: &mut LineContext<'_>, line: &Line, name: &str, reader: ProxyReader) -> Parsed {
    let span = line.keyword().span();
    let keyword = match line.text(0) {
        "timeout" | "tcp-request" | "tcp-response" | "rate-limit" => name,
        first => first,
    };
    let section = context.draft.section;
    if let DraftSection::Defaults { named } = section {
        let message = if !named && reader.sections.contains(NAMED_DEFAULTS) {
            format!("'{keyword}' not allowed in anonymous 'defaults' section.")
        } else {
            format!("'{keyword}' not allowed in 'defaults' section.")
        };
        return Err(fault(span, message));
    }
    let lacking = if section.is_frontend() { "backend" } else { "frontend" };
    let who = format!("{} '{}'", section.noun(), context.name());
    if reader.strict {
        return Err(fault(
            span,
            format!("'{keyword}' not allowed because {who} has no {lacking} capability."),
        ));
    }
    let hint = match name {
        "maxconn" => " Maybe you want 'fullconn' instead ?",
        "fullconn" => " Maybe you want 'maxconn' instead ?",
        _ => "",
    };
    let message = match line.text(0) {
        "rate-limit" => format!("{keyword} will be ignored because {who} has no {lacking} capability"),
        "timeout" | "max-keep-alive-queue" => {
            format!("'{keyword}' will be ignored because {who} has no {lacking} capability")
        }
        _ => format!("'{keyword}' ignored because {who} has no {lacking} capability.{hint}"),
    };
    context.warn(span, message);
    Ok(())
}

fn unknown_keyword(context: &LineContext<'_>, line: &Line) -> Fault {
    let first = line.text(0);
    let seconds = PROXY_KEYWORDS.continuations(first);
    if seconds.is_empty() {
        let nearest = nearest_phrase(&PROXY_KEYWORDS, first)
            .or_else(|| weir_syntax::did_you_mean(first, ["option", "no", "default"]));
        let message = format!("unknown keyword '{first}' in '{}' section", context.draft.section.keyword());
        let mut fault = suggesting(fault(line.keyword().span(), message), nearest);
        fault.note = advice(first).map(str::to_owned);
        return fault;
    }
    let list: Vec<String> = seconds.iter().map(|second| format!("'{second}'")).collect();
    let nearest = weir_syntax::did_you_mean(line.text(1), seconds.iter().copied());
    let message = format!("'{first}' supports {} (got '{}')", list.join(", "), line.text(1));
    suggesting(fault(line.span_at(1), message), nearest)
}

/// Advice about words of another section, and about blanks that do not separate words.
fn advice(word: &str) -> Option<&'static str> {
    let is_odd_blank = |letter: char| !letter.is_ascii() && (letter.is_whitespace() || letter == '\u{200b}');
    match word {
        word if word.contains(is_odd_blank) => {
            Some("a no-break space does not separate words: write a blank")
        }
        word if GLOBAL_KEYWORDS.find(word).is_some_and(Row::is_ready) => {
            Some("it is a word of the section 'global'")
        }
        _ => None,
    }
}

/// A proxy index that is resolved later.
pub(crate) const UNRESOLVED: ProxyIndex = ProxyIndex(u32::MAX);
