//! The interface for readers of actions: expressions, formats, names and facts of the section.

use std::sync::Arc;

use weir_expr::pattern::PatternSet;
use weir_expr::pattern::regex::Regex;
use weir_expr::{ArgKind, Expr, FormatOptions, LogFormat, Reference, VariableId};
use weir_syntax::{Span, Word};

use super::redirect::read_redirect;
use crate::draft::SubrequestTarget;
use crate::draft::action::ActionContext;
use crate::reply::{ReplyRules, read_reply};
use crate::scripts::{ScriptAction, ServiceKind};
use crate::words::{Parsed, Words, fault};
use weir_model::{CaptureSlot, Redirect, Reply};

impl ActionContext<'_, '_> {
    /// The text in parentheses after the action's name.
    pub fn parenthesized(&self) -> Option<&str> {
        self.word.text().split_once('(')?.1.strip_suffix(')')
    }

    /// The section's name.
    pub fn section_name(&self) -> Arc<str> {
        self.line.name()
    }

    /// Whether the rule is in a `defaults` section.
    pub fn is_in_defaults(&self) -> bool {
        self.line.draft.section.is_defaults()
    }

    /// Whether the section accepts connections.
    pub fn is_in_frontend(&self) -> bool {
        self.line.draft.section.is_frontend()
    }

    /// Whether the section has servers.
    pub fn is_in_backend(&self) -> bool {
        self.line.draft.section.is_backend()
    }

    /// Warns about a word.
    pub fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.line.warn(span, message);
    }

    /// Reads an expression, which may be several words long.
    pub fn expression(&self, words: &mut Words<'_>) -> Parsed<Arc<Expr>> {
        self.line.expressions().expression(words, self.points)
    }

    /// Parses a format that is a whole word.
    pub fn format(&self, word: &Word, options: FormatOptions) -> Parsed<LogFormat> {
        self.line.expressions().format_with(word, self.points, options)
    }

    /// Compiles the regular expression in a word.
    pub fn regex(&self, word: &Word, ignore_case: bool) -> Parsed<Arc<Regex>> {
        let regex = Regex::new(word.text(), ignore_case, self.line.expressions().at)
            .map_err(|error| fault(word.span(), format!("regex '{word}' is invalid ({error}).")))?;
        Ok(Arc::new(regex))
    }

    /// Reads the reply of a refusal. Without arguments, it is the proxy's error message for `status`.
    pub fn refusal(&mut self, words: &mut Words<'_>, status: u16) -> Parsed<Reply> {
        read_reply(self.line, words, &ReplyRules::deny(status, self.points))
    }

    /// Reads the reply of a `return`. The default status is 200.
    pub fn answer(&mut self, words: &mut Words<'_>) -> Parsed<Reply> {
        read_reply(self.line, words, &ReplyRules::answer(self.points))
    }

    /// Reads the arguments of a redirection.
    pub fn redirect(&mut self, words: &mut Words<'_>) -> Parsed<Redirect> {
        read_redirect(self.line, words, self.points, true)
    }

    /// The action of a script with this name, with `lua.`.
    pub fn script_action(&self, name: &str) -> Option<ScriptAction> {
        self.line.resources.scripts.action(name)
    }

    /// The service of a script with this name, with `lua.`.
    pub fn script_service(&self, name: &str, kind: ServiceKind) -> Option<weir_expr::ScriptName> {
        self.line.resources.scripts.service(name, kind)
    }

    /// The variable of this name.
    pub fn variable(&self, name: &str) -> Parsed<VariableId> {
        let variable = self.line.resources.variables.intern(name);
        variable.map_err(|message| fault(self.word.span(), message))
    }

    /// The set of patterns of a file, if an earlier line uses it.
    pub fn known_patterns(&self, file: &str) -> Option<Arc<PatternSet>> {
        self.line.resources.patterns.find(file)
    }

    /// The set of patterns of a file that the action changes: of an ACL (keys) or of a map (keys with values).
    pub fn changed_patterns(&self, file: &str, has_values: bool) -> Parsed<Arc<PatternSet>> {
        let resources = self.line.resources;
        let set = resources.patterns.changed(file, has_values, resources.loader);
        set.map_err(|message| fault(self.word.span(), message))
    }

    /// Creates a capture slot for requests. Returns its position.
    pub fn add_capture(&mut self, length_max: u32) -> u32 {
        let slots = &mut self.line.draft.proxy.captures.request;
        slots.push(CaptureSlot { header: None, length_max });
        (slots.len() - 1) as u32
    }

    /// Records the use of a slot, which a later line may declare.
    pub fn use_capture(&mut self, is_request: bool, slot: u32, span: Span) {
        self.line.draft.pending.capture_ids.push((is_request, slot, span));
    }

    /// Reads `table <name>` if it follows. Otherwise, the table is the proxy's own.
    pub fn table(&mut self, words: &mut Words<'_>) -> Parsed<Reference> {
        let table = read_table_name(words)?;
        self.line.note_table(&table, words.line().span());
        Ok(table)
    }

    /// Reads the name of a backend to which the action sends requests of its own. A later section may declare it.
    pub fn backend(&mut self, words: &mut Words<'_>) -> Parsed<Arc<Reference>> {
        let name = words.expect("expects the name of a backend.")?;
        let backend = Arc::new(Reference::new(ArgKind::Backend, Some(name.text())));
        self.line.draft.pending.subrequests.push(SubrequestTarget {
            backend: Arc::clone(&backend),
            action: self.word.text().into(),
            span: name.span(),
        });
        Ok(backend)
    }

    /// Records the name of a bandwidth limit, which a later line may declare.
    pub fn use_bandwidth_limit(&mut self, name: &Word, has_limit: bool) {
        self.line.note_bandwidth_limit(name, has_limit);
    }
}

/// `table <name>`, if it follows.
pub(crate) fn read_table_name(words: &mut Words<'_>) -> Parsed<Reference> {
    let mut name = None;
    if words.take_if("table") {
        name = Some(words.expect("missing table name after 'table'.")?.text());
    }
    Ok(Reference::new(ArgKind::Table, name))
}
