//! The interface to `weir-expr`: expressions, formats and conditions among the words of a line.

use std::cell::RefCell;
use std::sync::Arc;

use weir_expr::{
    AclTable, ArgKind, Chain, Condition, EvaluationPoint, EvaluationPoints, Expr, ExpressionScope,
    FormatOptions, LogFormat, ParseError, Reference, Warnings,
};
use weir_syntax::{Diagnostic, DiagnosticSeverity, Span, Word};

use crate::resources::Resources;
use crate::words::{Fault, Parsed, Words, fault};
use weir_model::{Location, LogLine, LogLineKind};

/// Parses expressions of a line.
#[derive(Clone, Copy)]
pub(crate) struct ExpressionParser<'r> {
    /// The available resources.
    pub(crate) resources: Resources<'r>,
    /// The ACLs that conditions and the `acl()` fetch may name.
    pub(crate) acls: &'r AclTable,
    pub(crate) at: &'r Location,
    pub(crate) notes: &'r RefCell<Notes>,
}

/// Notes from the parsing of expressions.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// References to other objects, resolved after all objects are known.
    pub references: Vec<WrittenReference>,
    pub warnings: Vec<Diagnostic>,
    /// Fetches of raw bytes in HTTP format strings, with their spans. The proxy's mode is known only later.
    pub bytes_in_text: Vec<(&'static str, Span)>,
}

/// A reference to an object of the configuration, with its location.
#[derive(Clone, Debug)]
pub(crate) struct WrittenReference {
    /// The kind of the object.
    pub kind: ArgKind,
    /// The name of the object. Empty for the current proxy.
    pub name: Box<str>,
    pub span: Span,
}

impl std::fmt::Debug for ExpressionParser<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Expressions({})", self.at)
    }
}

impl ExpressionParser<'_> {
    /// The scope for `weir-expr`.
    pub(crate) fn scope<'s>(
        &'s self,
        points: EvaluationPoints,
        warnings: &'s Warnings,
    ) -> ExpressionScope<'s> {
        ExpressionScope {
            warnings,
            registry: self.resources.registry,
            patterns: self.resources.patterns,
            token_keys: self.resources.token_keys,
            variables: self.resources.variables,
            acls: Some(self.acls),
            loader: self.resources.loader,
            points,
            at: self.at,
        }
    }

    /// Reads an expression, which may be several words long.
    pub(crate) fn expression(&self, words: &mut Words<'_>, points: EvaluationPoints) -> Parsed<Arc<Expr>> {
        self.expression_after(words, 0, points)
    }

    /// Reads an expression that begins in the next word, after `skipped` bytes of it.
    pub(crate) fn expression_after(
        &self,
        words: &mut Words<'_>,
        skipped: usize,
        points: EvaluationPoints,
    ) -> Parsed<Arc<Expr>> {
        let mut bytes = words.all_bytes();
        let (first, span) = (words.position(), words.here());
        if let Some(word) = bytes.get_mut(first) {
            *word = word.get(skipped..).unwrap_or_default();
        }
        let length = bytes.get(first).map_or(0, |word| word.len());
        let moved = |mut error: ParseError| {
            if error.word == first && skipped > 0 {
                let range = error.span.take().unwrap_or(0..length);
                error.span = Some(range.start + skipped..range.end + skipped);
            }
            located(words, error)
        };
        let mut at = first;
        let warnings = Warnings::new();
        let expression = Expr::parse(&bytes, &mut at, &self.scope(points, &warnings)).map_err(moved)?;
        self.keep(warnings, moved);
        words.seek(at);
        expression.visit_references(&mut |reference| self.note(reference, span));
        Ok(Arc::new(expression))
    }

    /// Parses converters in one word. None at the end of the line.
    pub(crate) fn converters(&self, words: &mut Words<'_>) -> Parsed<Arc<Chain>> {
        if words.at_end() {
            return Ok(Arc::new(Chain::empty()));
        }
        let warnings = Warnings::new();
        let chain =
            Chain::parse(&words.all_bytes(), words.position(), &self.scope(EvaluationPoints::ALL, &warnings))
                .map_err(|error| located(words, error))?;
        self.keep(warnings, |warning| located(words, warning));
        words.take();
        Ok(Arc::new(chain))
    }

    /// Parses a format that is a whole word.
    pub(crate) fn format(&self, word: &Word, points: EvaluationPoints) -> Parsed<LogFormat> {
        self.format_with(word, points, FormatOptions::PLAIN)
    }

    /// Parses a format with the given rules of quoting.
    pub(crate) fn format_with(
        &self,
        word: &Word,
        points: EvaluationPoints,
        options: FormatOptions,
    ) -> Parsed<LogFormat> {
        let warnings = Warnings::new();
        let format = LogFormat::parse(word.bytes(), options, &self.scope(points, &warnings))
            .map_err(|error| in_word(word, error))?;
        self.keep(warnings, |warning| in_word(word, warning));
        format.visit_references(&mut |reference| self.note(reference, word.span()));
        if options.http {
            let declarations = format.expressions().map(Expr::decl).filter(|decl| decl.needs_bytes());
            self.notes.borrow_mut().bytes_in_text.extend(declarations.map(|decl| (decl.name, word.span())));
        }
        Ok(format)
    }

    /// Parses the format of a body from the file `path`.
    pub(crate) fn format_of_file(
        &self,
        path: &Word,
        text: &[u8],
        points: EvaluationPoints,
    ) -> Parsed<LogFormat> {
        let warnings = Warnings::new();
        let format = LogFormat::parse(text, FormatOptions::BODY, &self.scope(points, &warnings))
            .map_err(|error| fault(path.span(), format!("'{path}' : {}", error.message)))?;
        format.visit_references(&mut |reference| self.note(reference, path.span()));
        Ok(format)
    }

    /// A format of literal text only.
    pub(crate) fn literal(&self, word: &Word, text: &str) -> Parsed<LogFormat> {
        let escaped = text.replace('%', "%%");
        LogFormat::parse(
            escaped.as_bytes(),
            FormatOptions::PLAIN,
            &self.scope(EvaluationPoints::ALL, &Warnings::new()),
        )
        .map_err(|error| in_word(word, error))
    }

    /// The log line of `option tcplog` or `option tcplog clf`, which replaces an HTTP log line in TCP mode.
    pub(crate) fn tcp_line(&self, clf: bool) -> Option<LogLine> {
        let (kind, text) = match clf {
            true => (LogLineKind::TcpClf, weir_expr::format::CLF_TCP),
            false => (LogLineKind::Tcp, weir_expr::format::TCP),
        };
        let warnings = Warnings::new();
        let scope = self.scope(EvaluationPoints::only(EvaluationPoint::Log), &warnings);
        let format = LogFormat::parse(text.as_bytes(), FormatOptions::LOG, &scope).ok()?;
        Some(LogLine::Format { kind, format: Arc::new(format) })
    }

    /// The log line of an `option` such as `httplog`.
    pub(crate) fn builtin_line(&self, word: &Word, kind: LogLineKind) -> Parsed<LogLine> {
        let text = match kind {
            LogLineKind::Http => weir_expr::format::HTTP,
            LogLineKind::Https => weir_expr::format::HTTPS,
            LogLineKind::HttpClf => weir_expr::format::CLF_HTTP,
            LogLineKind::TcpClf => weir_expr::format::CLF_TCP,
            LogLineKind::Tcp | LogLineKind::Custom => weir_expr::format::TCP,
        };
        let warnings = Warnings::new();
        let scope = self.scope(EvaluationPoints::only(EvaluationPoint::Log), &warnings);
        let format = LogFormat::parse(text.as_bytes(), FormatOptions::LOG, &scope)
            .map_err(|error| fault(word.span(), error.message))?;
        Ok(LogLine::Format { kind, format: Arc::new(format) })
    }

    /// Reads `if <condition>` or `unless <condition>` to the end of the line. None if the line ends here.
    pub(crate) fn condition(
        &self,
        words: &mut Words<'_>,
        points: EvaluationPoints,
    ) -> Parsed<Option<Condition>> {
        if words.at_end() {
            return Ok(None);
        }
        let bytes = words.all_bytes();
        let span = words.here();
        let warnings = Warnings::new();
        let condition = Condition::parse(&bytes, words.position(), &self.scope(points, &warnings))
            .map_err(|error| located(words, error))?;
        self.keep(warnings, |warning| located(words, warning));
        words.seek(words.line().len());
        condition.visit_references(&mut |reference| self.note(reference, span));
        Ok(Some(condition))
    }

    /// Reads the test of an `acl` line into the section's ACLs. Word `at` is the name.
    pub(crate) fn acl(&self, words: &Words<'_>, at: usize) -> Result<(), ParseError> {
        let bytes = words.all_bytes();
        let warnings = Warnings::new();
        let span = words.line().span_at(at + 1);
        let mut note = |reference: &Reference| self.note(reference, span);
        self.acls.parse(&bytes, at, &self.scope(EvaluationPoints::ALL, &warnings), &mut note)?;
        self.keep(warnings, |warning| located(words, warning));
        Ok(())
    }

    fn keep(&self, warnings: Warnings, place: impl Fn(ParseError) -> Fault) {
        for warning in warnings.take() {
            let mut diagnostic = *place(warning);
            diagnostic.severity = DiagnosticSeverity::Warning;
            self.notes.borrow_mut().warnings.push(diagnostic);
        }
    }

    fn note(&self, reference: &Reference, span: Span) {
        let name = reference.name.clone().unwrap_or_default();
        self.notes.borrow_mut().references.push(WrittenReference { kind: reference.kind, name, span });
    }
}

/// An error about a word of the line.
pub(crate) fn located(words: &Words<'_>, error: ParseError) -> Fault {
    match words.line().get(error.word) {
        Some(word) => in_word(word, error),
        None => with_help(words.line().span_at(error.word), error),
    }
}

/// An error inside `word`.
pub(crate) fn in_word(word: &Word, error: ParseError) -> Fault {
    let span = error.span.clone().map_or(word.span(), |range| word.span_of(range));
    with_help(span, error)
}

fn with_help(span: Span, error: ParseError) -> Fault {
    let mut message = error.message;
    if !message.ends_with(['.', '?']) {
        message.push('.');
    }
    let mut fault = fault(span, message);
    fault.note = error.note;
    fault.suggestion = error.suggestion;
    fault
}
