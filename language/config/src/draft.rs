//! A proxy section and a line of it, during parsing.

pub(crate) mod action;
pub(crate) mod filter;
pub(crate) mod log_notes;
pub(crate) mod order;
pub(crate) mod spoe;
pub(crate) mod stream_keywords;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use weir_expr::{AclTable, EvaluationPoints, Reference};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Line, Span, Word};

use self::log_notes::LogNotes;
use self::order::RuleMemory;
use self::spoe::{PendingEngine, PendingGroupUse};
use self::stream_keywords::StreamKeywords;
use crate::engine_files::EngineFiles;
use crate::expressions::{ExpressionParser, Notes, WrittenReference};
use crate::resources::Resources;
use crate::words::Fault;
use weir_model::{
    ErrorReply, FilterDirection, Location, Proxy, ProxySection, RulesetKind, Settings, StickTable,
};

/// A section during parsing.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) section: DraftSection,
    pub(crate) span: Span,
    /// The resulting proxy. A `defaults` section uses only its name, location, settings and rules.
    pub(crate) proxy: Proxy,
    /// Settings that are not part of the model.
    pub(crate) extras: Extras,
    pub(crate) acls: AclTable,
    /// References that are resolved later.
    pub(crate) pending: PendingReferences,
    /// Single-value keywords that this section has set.
    pub(crate) specified: Vec<&'static str>,
    /// Declared servers by name: line, index.
    pub(crate) server_names: HashMap<Box<str>, (u32, u32)>,
    /// The conditions of the section's rules, checked after all its ACLs are known.
    pub(crate) conditions: Vec<WrittenCondition>,
    /// Notes from the parsing of expressions.
    pub(crate) notes: RefCell<Notes>,
    /// State of the warnings about the order of rules.
    pub(crate) rule_memory: RuleMemory,
    /// Notes for the checks of `mode log`.
    pub(crate) logs: LogNotes,
    /// The comment for the next check rule: keyword and text.
    pub(crate) pending_comment: Option<(&'static str, Arc<str>)>,
    /// Names with a refused declaration.
    pub(crate) refused: RefusedNames,
}

impl Draft {
    pub(crate) fn new(section: DraftSection, name: &str, at: Location, span: Span) -> Self {
        let kind = match section {
            DraftSection::Proxy(section) => section,
            DraftSection::Defaults { .. } => ProxySection::Listen,
        };
        Draft {
            section,
            span,
            proxy: Proxy::new(name.into(), kind, at),
            extras: Extras::default(),
            acls: AclTable::default(),
            pending: PendingReferences::default(),
            specified: Vec::new(),
            server_names: HashMap::new(),
            conditions: Vec::new(),
            notes: RefCell::default(),
            rule_memory: RuleMemory::default(),
            logs: LogNotes::default(),
            pending_comment: None,
            refused: RefusedNames::default(),
        }
    }
}

/// Settings of a draft that are not in the model and that a `defaults` section can set too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// The steps of `errorfile` and similar words, in order.
    pub(crate) error_steps: Arc<Vec<ErrorStep>>,
    /// The word that chose the log line, with its location, for warnings.
    pub(crate) log_line_word: Option<(&'static str, Span)>,
}

/// One line that sets error messages.
#[derive(Clone, Debug)]
pub(crate) enum ErrorStep {
    /// Sets the reply for a status.
    Set(u16, ErrorReply),
    /// Takes the messages of an `http-errors` section, for some statuses or for all that it has.
    Section {
        name: Arc<str>,
        /// The statuses. Empty for all.
        statuses: Vec<u16>,
        /// The span of the section's name.
        span: Span,
        /// The location for messages.
        at: Location,
    },
}

/// Names and positions to resolve after the whole configuration was parsed.
#[derive(Debug, Default)]
pub(crate) struct PendingReferences {
    /// `use_backend` rules: index, name, span.
    pub(crate) use_backend: Vec<(usize, Box<str>, Span)>,
    /// The span of the proxy's own `default_backend`.
    pub(crate) default_backend: Option<Span>,
    /// `use-server` rules: index, name, span.
    pub(crate) use_server: Vec<(usize, Box<str>, Span)>,
    /// Replies that use a message of an `http-errors` section.
    pub(crate) replies: Vec<(Arc<weir_model::ErrorSection>, u16, Span)>,
    /// `capture ... id` of rules: whether for a response, the slot, the span.
    pub(crate) capture_ids: Vec<(bool, u32, Span)>,
    /// `filter-sequence` lines: direction, list, span.
    pub(crate) filter_sequences: Vec<(FilterDirection, Box<str>, Span)>,
    /// `stick-table`.
    pub(crate) table: Option<StickTable>,
    /// `stats show-desc` without a description, which uses the one of the global section.
    pub(crate) global_description: Option<Span>,
    /// The filters named by `set-bandwidth-limit` rules: name, span, and whether the rule sets a limit (or a period).
    pub(crate) bandwidth_limits: Vec<(Box<str>, Span, bool)>,
    /// The backends to which rules send requests of their own.
    pub(crate) subrequests: Vec<SubrequestTarget>,
    /// The engines of `filter spoe` lines.
    pub(crate) engines: Vec<PendingEngine>,
    /// `use-fcgi-app`: name, span.
    pub(crate) application: Option<(Box<str>, Span)>,
    /// `filter fcgi-app` lines: name, span.
    pub(crate) application_filters: Vec<(Box<str>, Span)>,
    /// The groups that `send-spoe-group` rules send.
    pub(crate) spoe_groups: Vec<PendingGroupUse>,
}

/// A backend to which a rule sends requests of its own.
#[derive(Debug)]
pub(crate) struct SubrequestTarget {
    pub(crate) backend: Arc<Reference>,
    /// The name of the rule's action.
    pub(crate) action: Box<str>,
    /// The span of the backend's name.
    pub(crate) span: Span,
}

/// Names with a refused declaration in this section. References to them are not reported.
#[derive(Debug, Default)]
pub(crate) struct RefusedNames {
    pub(crate) servers: HashSet<Box<str>>,
    acls: HashSet<Box<str>>,
    pub(crate) captures: bool,
    pub(crate) table: bool,
    /// Whether a `filter` line was refused, which may have been an engine.
    pub(crate) engines: bool,
    /// Whether a line that may have named a FastCGI application was refused.
    pub(crate) applications: bool,
}

impl RefusedNames {
    pub(crate) fn note(&mut self, line: &Line) {
        match line.text(0) {
            "server" => drop(self.servers.insert(line.text(1).into())),
            "acl" => drop(self.acls.insert(line.text(1).into())),
            "capture" | "declare" => self.captures = true,
            "stick-table" => self.table = true,
            "filter" => (self.engines, self.applications) = (true, true),
            "use-fcgi-app" => self.applications = true,
            _ => {}
        }
    }

    /// Whether the line of any server was refused.
    pub(crate) fn any_server(&self) -> bool {
        !self.servers.is_empty()
    }

    /// Whether the fault is only a reference to a name with a refused declaration.
    pub(crate) fn explains(&self, fault: &Fault) -> bool {
        let Some((_, name)) = fault.message.rsplit_once("no such ACL : '") else { return false };
        name.split_once('\'').is_some_and(|(name, _)| self.acls.contains(name))
    }
}

/// A condition: its position in a list of rules, and its location in the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrittenCondition {
    /// The list of rules, and the position of the rule.
    pub(crate) rule: (ConditionList, usize),
    /// The points where the tests are evaluated.
    pub(crate) points: EvaluationPoints,
    pub(crate) span: Span,
}

/// The lists of rules with conditions to check at the end of the section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConditionList {
    Rules(RulesetKind),
    /// `redirect`.
    Redirect,
    /// `use_backend`.
    UseBackend,
    /// `use-server`.
    UseServer,
    /// `stick`.
    Stick,
}

/// The kinds of proxy sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DraftSection {
    /// `defaults`, and whether it has a name.
    Defaults {
        /// Whether it has a name: rules require one.
        named: bool,
    },
    Proxy(ProxySection),
}

/// A set of sections that support a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sections(u8);

/// `defaults` sections.
pub(crate) const DEFAULTS: Sections = Sections(1);
/// Named `defaults` sections only.
pub(crate) const NAMED_DEFAULTS: Sections = Sections(1 << 1);
/// `frontend` sections.
pub(crate) const FRONTEND: Sections = Sections(1 << 2);
/// `listen` sections.
pub(crate) const LISTEN: Sections = Sections(1 << 3);
/// `backend` sections.
pub(crate) const BACKEND: Sections = Sections(1 << 4);
/// `frontend` and `listen`.
pub(crate) const FRONTENDS: Sections = FRONTEND.or(LISTEN);
/// `backend` and `listen`.
pub(crate) const BACKENDS: Sections = BACKEND.or(LISTEN);
/// All proxies.
pub(crate) const PROXIES: Sections = FRONTENDS.or(BACKENDS);

impl Sections {
    /// The union of both sets.
    pub const fn or(self, other: Sections) -> Sections {
        Sections(self.0 | other.0)
    }

    /// Whether every section of `other` is in the set.
    pub const fn contains(self, other: Sections) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn allows(self, section: DraftSection) -> bool {
        match section {
            DraftSection::Defaults { named } => {
                self.contains(DEFAULTS) || (named && self.contains(NAMED_DEFAULTS))
            }
            DraftSection::Proxy(ProxySection::Frontend) => self.contains(FRONTEND),
            DraftSection::Proxy(ProxySection::Listen) => self.contains(LISTEN),
            DraftSection::Proxy(ProxySection::Backend) => self.contains(BACKEND),
        }
    }
}

impl DraftSection {
    /// The word that begins the section.
    pub(crate) fn keyword(self) -> &'static str {
        match self {
            DraftSection::Defaults { .. } => "defaults",
            DraftSection::Proxy(section) => section.name(),
        }
    }

    /// The word for the section's object in messages. A `listen` section creates a proxy.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            DraftSection::Proxy(ProxySection::Listen) => "proxy",
            other => other.keyword(),
        }
    }

    pub(crate) fn is_defaults(self) -> bool {
        matches!(self, DraftSection::Defaults { .. })
    }

    pub(crate) fn is_defaults_without_name(self) -> bool {
        self == DraftSection::Defaults { named: false }
    }

    pub(crate) fn is_frontend(self) -> bool {
        matches!(self, DraftSection::Proxy(section) if section.is_frontend())
    }

    pub(crate) fn is_backend(self) -> bool {
        matches!(self, DraftSection::Proxy(section) if section.is_backend())
    }
}

/// A line during parsing: the section that it changes, and the available resources.
pub(crate) struct LineContext<'c> {
    pub(crate) draft: &'c mut Draft,
    pub(crate) resources: Resources<'c>,
    /// The actions and the filters that lines may use.
    pub(crate) keywords: &'c StreamKeywords,
    pub(crate) at: &'c Location,
    /// Receives warnings. Errors are returned.
    pub(crate) diagnostics: &'c mut Diagnostics,
    /// The inputs for the files of engines. None outside of a configuration file.
    pub(crate) engine_files: Option<&'c EngineFiles<'c>>,
}

impl<'c> LineContext<'c> {
    /// The settings that the line changes.
    pub(crate) fn settings(&mut self) -> &mut Settings {
        &mut self.draft.proxy.settings
    }

    /// The parser of expressions for this line.
    pub(crate) fn expressions(&self) -> ExpressionParser<'_> {
        ExpressionParser {
            resources: self.resources,
            acls: &self.draft.acls,
            at: self.at,
            notes: &self.draft.notes,
        }
    }

    /// Records the condition of the next rule, for the check at the end of the section.
    pub(crate) fn note_condition(
        &mut self,
        exists: bool,
        rule: (ConditionList, usize),
        points: EvaluationPoints,
        span: Span,
    ) {
        if exists {
            self.draft.conditions.push(WrittenCondition { rule, points, span });
        }
    }

    /// The proxy's name.
    pub(crate) fn name(&self) -> Arc<str> {
        self.draft.proxy.name.clone()
    }

    /// Records the name of a filter that a rule enables, for the lookup at the end of the section.
    pub(crate) fn note_bandwidth_limit(&mut self, name: &Word, says_limit: bool) {
        self.draft.pending.bandwidth_limits.push((name.text().into(), name.span(), says_limit));
    }

    /// Records the span of a stick-table's name in a rule.
    pub(crate) fn note_table(&mut self, table: &Reference, span: Span) {
        let name = table.name.clone().unwrap_or_default();
        self.draft.notes.get_mut().references.push(WrittenReference { kind: table.kind, name, span });
    }

    /// Whether a line overwrites an earlier line of the same section. As in HAProxy, a line without a change does not count.
    pub(crate) fn overwrites(&mut self, keyword: &'static str, changes: bool) -> bool {
        if self.draft.section.is_defaults() {
            return false;
        }
        let is_known = self.draft.specified.contains(&keyword);
        if changes && !is_known {
            self.draft.specified.push(keyword);
        }
        is_known
    }

    /// Warns about `span`.
    pub(crate) fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.warning(span, message);
    }

    /// Warns in the form without a space before the colon.
    pub(crate) fn warn_tight(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::warning(span, message).layout(Layout::ParsingTight));
    }
}

/// The longest capture in bytes: each stream reserves memory for it.
pub const MAX_CAPTURE: u32 = 65_536;
