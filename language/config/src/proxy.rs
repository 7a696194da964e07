//! The proxy sections: `defaults`, `frontend`, `backend`, `listen`.
//!
//! [`ProxyParser`] takes one line at a time. A section line begins a draft that starts as a copy of what a `defaults`
//! section says; the lines that follow change it, each through the row of its keyword; the next section line, or the
//! end, completes it. `defaults` sections are read-only for everybody else (R29): a draft owns its settings, and shares
//! what is large behind `Arc`. Names that may be written before what they name (backends, servers, `http-errors`
//! sections) are remembered, and resolved in [`ProxyParser::finish`].

pub(crate) mod balancing;
mod captures;
mod errors;
pub(crate) mod filters;
mod finish;
mod general;
mod keywords;
mod log_mode;
mod logging;
mod options;
mod resolve;
mod routing;
mod stats;
#[cfg(test)]
mod tests;
mod timeouts;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_expr::{AclTable, Loader, PatternStore, Places, Registry, VariableNames};
use weir_syntax::{Diagnostic, Diagnostics, FileId, Layout, Line, SourceMap, Span, Word};

pub(crate) use captures::MAX_CAPTURE;
pub use filters::{FILTERS, FilterReader};
pub use finish::BindContext;
pub use keywords::{PROXY_KEYWORDS, ProxyReader};
pub(crate) use logging::log_header;
pub use logging::read_log_target;
pub(crate) use logging::read_log_target_words;
pub use options::{OPTIONS, OptionKind, OptionReader};

use crate::expressions::{Expressions, Notes, WrittenReference};
use crate::model::{
    Captures, FilterDirection, Location, Proxy, ProxyIndex, ProxySection, RulesetKind, Rulesets, Settings,
};
use crate::rows::Handler;
use crate::rules::RuleMemory;
use crate::words::{Fault, Parsed, Words, fault, not_yet, suggesting};

/// What parsing takes from outside: the known expressions, and the files that lines name.
#[derive(Clone, Copy)]
pub struct Resources<'r> {
    /// The fetches and ACL keywords that expressions may use.
    pub registry: &'r Registry,
    /// The maps and ACL files.
    pub patterns: &'r PatternStore,
    /// The names of variables.
    pub variables: &'r VariableNames,
    /// Where files come from.
    pub loader: &'r dyn Loader,
}

/// Reads the proxy sections of a configuration.
pub struct ProxyParser<'r> {
    resources: Resources<'r>,
    files: HashMap<FileId, Arc<str>>,
    defaults: Vec<DefaultsSection>,
    /// The `defaults` section that proxies without `from` take: the last one.
    implicit_defaults: Option<usize>,
    finished: Vec<Finished>,
    current: Option<Draft>,
}

/// A complete `defaults` section.
#[derive(Debug)]
struct DefaultsSection {
    /// Empty if it has none.
    name: Box<str>,
    /// The section as if it were a proxy, without its rules.
    finished: Finished,
    rules: Option<Arc<Rulesets>>,
    uses: DefaultsUses,
    /// Another section of the same name.
    twin: Option<Location>,
}

impl DefaultsSection {
    /// Whether the section has rules of one of these kinds.
    fn has_rules(&self, kinds: &[RulesetKind]) -> bool {
        self.rules.as_ref().is_some_and(|rules| kinds.iter().any(|kind| !rules.get(*kind).is_empty()))
    }
}

/// Who took a `defaults` section.
#[derive(Clone, Copy, Debug, Default)]
struct DefaultsUses {
    explicitly: bool,
    by_frontend: bool,
    by_backend: bool,
}

/// What a draft has beside the proxy's settings, and a `defaults` section can give too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// What `errorfile` and relatives said, in order.
    pub(crate) error_steps: Arc<Vec<errors::ErrorStep>>,
    /// Which word chose the log line, and where, for warnings.
    pub(crate) log_line_word: Option<(&'static str, Span)>,
}

/// A proxy that is read to its end, with what can only be settled when all are.
#[derive(Debug)]
struct Finished {
    proxy: Proxy,
    span: Span,
    extras: Extras,
    pending: Pending,
    /// The section's ACLs, if they refer to other objects.
    acls: Option<AclTable>,
    references: Vec<WrittenReference>,
    refused: Refused,
}

impl From<Draft> for Finished {
    fn from(draft: Draft) -> Self {
        let Draft { mut proxy, span, extras, pending, acls, notes, refused, .. } = draft;
        // A vector grows to four at once, and most backends of a large configuration have one server.
        proxy.servers.shrink_to_fit();
        let mut refers = false;
        acls.visit_references(&mut |_| refers = true);
        let references = notes.into_inner().references;
        Finished { proxy, span, extras, pending, acls: refers.then_some(acls), references, refused }
    }
}

/// Names and positions to settle when everything was read.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// `use_backend` rules by index, with the name and its place.
    pub(crate) use_backend: Vec<(usize, Box<str>, Span)>,
    /// The place of the proxy's own `default_backend`.
    pub(crate) default_backend: Option<Span>,
    /// `use-server` rules by index, with the name and its place.
    pub(crate) use_server: Vec<(usize, Box<str>, Span)>,
    /// Replies that take a message from an `http-errors` section.
    pub(crate) replies: Vec<(Arc<crate::model::ErrorSection>, u16, Span)>,
    /// `capture ... id` of rules: for a response, the slot, the place.
    pub(crate) capture_ids: Vec<(bool, u32, Span)>,
    /// `filter-sequence` lines: the direction, the list and its place.
    pub(crate) filter_sequences: Vec<(FilterDirection, Box<str>, Span)>,
    /// The filters that `set-bandwidth-limit` rules name.
    pub(crate) bandwidth_limits: Vec<(Box<str>, Span)>,
}

/// A section while it is read.
#[derive(Debug)]
pub(crate) struct Draft {
    /// What kind.
    pub(crate) section: Section,
    /// The section line.
    pub(crate) span: Span,
    /// What becomes of it. A `defaults` section uses its name, place, settings and rules only.
    pub(crate) proxy: Proxy,
    /// What becomes of it, beside the model.
    pub(crate) extras: Extras,
    /// The section's ACLs.
    pub(crate) acls: AclTable,
    /// What is settled later.
    pub(crate) pending: Pending,
    /// Where servers were declared, by name: the line, the index.
    pub(crate) server_names: HashMap<Box<str>, (u32, u32)>,
    /// The conditions of the section's rules, to be looked at once all its ACLs are known.
    pub(crate) conditions: Vec<WrittenCondition>,
    /// What was noticed in expressions.
    pub(crate) notes: RefCell<Notes>,
    /// What the order of rules has to remember.
    pub(crate) rule_memory: RuleMemory,
    /// What depends on whether log messages are balanced.
    pub(crate) logs: log_mode::LogNotes,
    /// What was written and could not be read.
    pub(crate) refused: Refused,
}

/// The names of what a section declares in lines that were refused. Whoever refers to them is not at fault.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    pub(crate) servers: HashSet<Box<str>>,
    acls: HashSet<Box<str>>,
    pub(crate) captures: bool,
}

impl Refused {
    fn note(&mut self, line: &Line) {
        match line.text(0) {
            "server" => drop(self.servers.insert(line.text(1).into())),
            "acl" => drop(self.acls.insert(line.text(1).into())),
            "capture" | "declare" => self.captures = true,
            _ => {}
        }
    }

    /// Whether the fault is nothing but a name whose own line was refused.
    fn explains(&self, fault: &Fault) -> bool {
        let Some((_, name)) = fault.message.rsplit_once("no such ACL : '") else { return false };
        name.split_once('\'').is_some_and(|(name, _)| self.acls.contains(name))
    }
}

/// Where a condition is, and where it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenCondition {
    /// The list of rules, and the position in it.
    pub(crate) rule: (ConditionList, usize),
    /// Where its tests are evaluated.
    pub(crate) places: Places,
    /// The condition's words.
    pub(crate) span: Span,
}

/// The lists of rules whose conditions are looked at when the section ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConditionList {
    /// A ruleset.
    Rules(RulesetKind),
    /// `redirect`.
    Redirect,
    /// `use_backend`.
    UseBackend,
    /// `use-server`.
    UseServer,
}

/// The kinds of sections that this parser reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Section {
    /// `defaults`, and whether it has a name.
    Defaults {
        /// Whether it has a name, without which it can have no rules.
        named: bool,
    },
    /// A proxy.
    Proxy(ProxySection),
}

/// A set of sections in which a keyword makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections(u8);

/// `defaults` sections.
pub const DEFAULTS: Sections = Sections(1);
/// Named `defaults` sections only.
pub const NAMED_DEFAULTS: Sections = Sections(1 << 1);
/// `frontend` sections.
pub const FRONTEND: Sections = Sections(1 << 2);
/// `listen` sections.
pub const LISTEN: Sections = Sections(1 << 3);
/// `backend` sections.
pub const BACKEND: Sections = Sections(1 << 4);
/// `frontend` and `listen`.
pub const FRONTENDS: Sections = FRONTEND.or(LISTEN);
/// `backend` and `listen`.
pub const BACKENDS: Sections = BACKEND.or(LISTEN);
/// All proxies.
pub const PROXIES: Sections = FRONTENDS.or(BACKENDS);

impl Sections {
    /// Both sets.
    pub const fn or(self, other: Sections) -> Sections {
        Sections(self.0 | other.0)
    }

    /// Whether every section of `other` is in the set.
    pub const fn contains(self, other: Sections) -> bool {
        self.0 & other.0 == other.0
    }

    fn allows(self, section: Section) -> bool {
        match section {
            Section::Defaults { named } => {
                self.contains(DEFAULTS) || (named && self.contains(NAMED_DEFAULTS))
            }
            Section::Proxy(ProxySection::Frontend) => self.contains(FRONTEND),
            Section::Proxy(ProxySection::Listen) => self.contains(LISTEN),
            Section::Proxy(ProxySection::Backend) => self.contains(BACKEND),
        }
    }
}

impl Section {
    /// The word that begins the section.
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            Section::Defaults { .. } => "defaults",
            Section::Proxy(section) => section.name(),
        }
    }

    /// How messages call what the section makes: a `listen` section makes a proxy.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Section::Proxy(ProxySection::Listen) => "proxy",
            other => other.keyword(),
        }
    }

    pub(crate) fn is_defaults(self) -> bool {
        matches!(self, Section::Defaults { .. })
    }

    pub(crate) fn is_defaults_without_name(self) -> bool {
        self == Section::Defaults { named: false }
    }

    pub(crate) fn is_frontend(self) -> bool {
        matches!(self, Section::Proxy(section) if section.is_frontend())
    }

    pub(crate) fn is_backend(self) -> bool {
        matches!(self, Section::Proxy(section) if section.is_backend())
    }
}

/// A line while it is read: the section that it changes, and what it may use.
pub(crate) struct LineContext<'c> {
    /// The section.
    pub(crate) draft: &'c mut Draft,
    /// What comes from outside.
    pub(crate) resources: Resources<'c>,
    /// The line's place.
    pub(crate) at: &'c Location,
    /// Where warnings go. Errors are returned.
    pub(crate) diagnostics: &'c mut Diagnostics,
}

impl<'c> LineContext<'c> {
    /// The settings that the line changes.
    pub(crate) fn settings(&mut self) -> &mut Settings {
        &mut self.draft.proxy.settings
    }

    /// What parses expressions at this line.
    pub(crate) fn expressions(&self) -> Expressions<'_> {
        Expressions {
            resources: self.resources,
            acls: &self.draft.acls,
            at: self.at,
            notes: &self.draft.notes,
        }
    }

    /// Remembers the condition of a rule that is about to be added, to look at when the section ends.
    pub(crate) fn note_condition(
        &mut self,
        exists: bool,
        rule: (ConditionList, usize),
        places: Places,
        span: Span,
    ) {
        if exists {
            self.draft.conditions.push(WrittenCondition { rule, places, span });
        }
    }

    /// The proxy's name.
    pub(crate) fn name(&self) -> Arc<str> {
        self.draft.proxy.name.clone()
    }

    /// Warns about `span`.
    pub(crate) fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.warning(span, message);
    }

    /// Warns in the form that has no space before the colon.
    pub(crate) fn warn_tight(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(span, message).layout(Layout::ParsingTight));
    }
}

impl<'r> ProxyParser<'r> {
    /// The words that begin the sections that this parser reads.
    pub const SECTIONS: [&'static str; 4] = ["defaults", "frontend", "listen", "backend"];

    /// Nothing read yet.
    pub fn new(resources: Resources<'r>) -> Self {
        ProxyParser {
            resources,
            files: HashMap::new(),
            defaults: Vec::new(),
            implicit_defaults: None,
            finished: Vec::new(),
            current: None,
        }
    }

    /// Makes room for as many sections as `sources` seem to have: growing one by one would hold them twice for a moment.
    pub fn reserve(&mut self, sources: &SourceMap) {
        let begins = |line: &[u8]| {
            let first = line.trim_ascii_start().split(u8::is_ascii_whitespace).next();
            first.is_some_and(|word| Self::SECTIONS.iter().any(|section| section.as_bytes() == word))
        };
        let sections = |text: &[u8]| text.split(|byte| *byte == b'\n').filter(|line| begins(line)).count();
        self.finished.reserve(sources.iter().map(|(_, source)| sections(source.bytes())).sum());
    }

    /// Begins the section of a line whose first word is one of [`Self::SECTIONS`]. `file` is the line's file's name.
    ///
    /// After an error in the line, the section is read all the same, so that its own errors are found too.
    pub fn begin(&mut self, line: &Line, file: &str, diagnostics: &mut Diagnostics) {
        self.end_section(diagnostics);
        let at = self.location(line.span(), file);
        let header = match Header::read(line) {
            Ok(header) => header,
            Err(fault) => {
                diagnostics.push(*fault);
                // What refers to it finds it: this is its one fault.
                let name = line.get(1).unwrap_or(line.keyword());
                Header { section: section_of(line.text(0), line.len() > 1), name, from: None }
            }
        };
        let mut draft = Draft::new(&header, at, line.span());
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
        let mut context = LineContext { draft, resources: self.resources, at: &at, diagnostics };
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

    /// Completes the section that is being read, if any.
    pub fn end_section(&mut self, diagnostics: &mut Diagnostics) {
        let Some(mut draft) = self.current.take() else { return };
        finish::end_of_section(&mut draft, diagnostics);
        match draft.section {
            Section::Defaults { .. } => self.end_defaults(draft),
            Section::Proxy(_) => self.finished.push(Finished::from(draft)),
        }
    }

    fn end_defaults(&mut self, draft: Draft) {
        let named = draft.section == (Section::Defaults { named: true });
        let mut finished = Finished::from(draft);
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

    /// Gives the draft the settings of the `defaults` section that it starts from.
    fn inherit(&mut self, header: &Header<'_>, draft: &mut Draft, diagnostics: &mut Diagnostics) -> Parsed {
        let index = match header.from {
            Some(from) => self.named_defaults(header, from)?,
            // A defaults section starts from nothing unless it says otherwise.
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
            // Rules of the section may have made slots: the proxy's own follow them.
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
            Section::Defaults { .. } => tight(format!(
                "a defaults section cannot inherit from a defaults section defining TCP/HTTP rules (defaults section at {}).",
                defaults.finished.proxy.at
            )),
            Section::Proxy(ProxySection::Listen) => tight(
                "a listen section cannot inherit from a defaults section defining TCP/HTTP rules.".to_owned(),
            ),
            Section::Proxy(ProxySection::Backend) if !defaults.finished.proxy.captures.request.is_empty() => {
                tight(format!(
                    "a backend cannot inherit from a defaults section whose rules capture with 'len' (defaults section at {}).",
                    defaults.finished.proxy.at
                ))
            }
            _ if defaults.uses.by_frontend && defaults.uses.by_backend => tight(format!(
                "frontends and backends cannot inherit from the same defaults section if it defines TCP/HTTP rules (defaults section at {}).",
                defaults.finished.proxy.at
            )),
            Section::Proxy(ProxySection::Frontend)
                if defaults.has_rules(&[RulesetKind::TcpResponseContent]) =>
            {
                tight(format!(
                    "a frontend section cannot inherit from a defaults section defining 'tcp-response content' rules (defaults section at {}).",
                    defaults.finished.proxy.at
                ))
            }
            Section::Proxy(ProxySection::Backend)
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

    fn named_defaults(&self, header: &Header<'_>, from: &Word) -> Parsed<usize> {
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
struct Header<'l> {
    section: Section,
    name: &'l Word,
    from: Option<&'l Word>,
}

fn section_of(keyword: &str, named: bool) -> Section {
    match keyword {
        "frontend" => Section::Proxy(ProxySection::Frontend),
        "backend" => Section::Proxy(ProxySection::Backend),
        "listen" => Section::Proxy(ProxySection::Listen),
        _ => Section::Defaults { named },
    }
}

impl<'l> Header<'l> {
    fn read(line: &'l Line) -> Parsed<Self> {
        let keyword = line.text(0);
        let mut words = Words::new(line, 1);
        let mut section = section_of(keyword, false);
        let name = if section.is_defaults() && (words.at_end() || words.peek_text() == "from") {
            line.keyword()
        } else {
            if section.is_defaults() {
                section = Section::Defaults { named: true };
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
        words.end(keyword)?;
        Ok(Header { section, name, from })
    }
}

/// Whether a name of a proxy, a server or an ACL may have the character.
pub(crate) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.' | ':')
}

impl Draft {
    fn new(header: &Header<'_>, at: Location, span: Span) -> Self {
        let section = match header.section {
            Section::Proxy(section) => section,
            Section::Defaults { .. } => ProxySection::Listen,
        };
        Draft {
            section: header.section,
            span,
            proxy: Proxy {
                name: header.name.text().into(),
                section,
                at,
                id: 0,
                id_is_forced: false,
                server_state_file: None,
                description: None,
                guid: None,
                settings: Settings::default(),
                inherited_rules: None,
                rules: Rulesets::default(),
                binds: Vec::new(),
                default_backend: None,
                use_backend: Vec::new(),
                redirects: Vec::new(),
                monitor_fail: Vec::new(),
                captures: Captures::default(),
                servers: Vec::new(),
                use_server: Vec::new(),
                persist_rules: Vec::new(),
                filters: Vec::new(),
                filter_sequences: crate::model::FilterSequences::default(),
                unpublished: false,
                force_switch: Vec::new(),
            },
            extras: Extras::default(),
            acls: AclTable::default(),
            pending: Pending::default(),
            server_names: HashMap::new(),
            conditions: Vec::new(),
            notes: RefCell::default(),
            rule_memory: RuleMemory::default(),
            logs: log_mode::LogNotes::default(),
            refused: Refused::default(),
        }
    }
}

/// Which prefix a line has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polarity {
    /// None.
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

/// A keyword in a section where it has no meaning: an error in `defaults`, else a warning, and the line is not read.
fn misplaced(context: &mut LineContext<'_>, line: &Line, name: &str, reader: ProxyReader) -> Parsed {
    let span = line.keyword().span();
    let keyword = match line.text(0) {
        "timeout" | "tcp-request" | "tcp-response" | "rate-limit" => name,
        first => first,
    };
    let section = context.draft.section;
    if let Section::Defaults { named } = section {
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
        "timeout" | "rate-limit" | "max-keep-alive-queue" => {
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
        let nearest = PROXY_KEYWORDS
            .nearest_phrase(first)
            .or_else(|| weir_syntax::did_you_mean(first, ["option", "no", "default"]));
        let message = format!("unknown keyword '{first}' in '{}' section", context.draft.section.keyword());
        return suggesting(fault(line.keyword().span(), message), nearest);
    }
    let list: Vec<String> = seconds.iter().map(|second| format!("'{second}'")).collect();
    let nearest = weir_syntax::did_you_mean(line.text(1), seconds.iter().copied());
    let message = format!("'{first}' supports {} (got '{}')", list.join(", "), line.text(1));
    suggesting(fault(line.span_at(1), message), nearest)
}

/// The index of the next proxy, for names that are resolved later.
pub(crate) const UNRESOLVED: ProxyIndex = ProxyIndex(u32::MAX);
