//! Returns the lines of all files, one at a time, as selected by directives (`.if` and others).
//!
//! The caller pulls lines. Between two lines it may change the [`Environment`] (`setenv`), and the next line sees the change.
//! Conditional blocks (manual, section 2.4) and messages (`.notice` and similar) are handled here and never reach the caller.

use crate::condition::{ConditionContext, ConditionError, evaluate_condition};
use crate::diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics, Layout};
use crate::environment::Environment;
use crate::lexer::{LexError, LexFault, Pseudo, lex_line};
use crate::source::{FileId, SourceMap, Span};
use crate::suggest::did_you_mean;
use crate::word::Line;
use memchr::memchr;

/// The most nested `.if` blocks, as in HAProxy.
pub const MAX_CONDITION_NESTING: usize = 100;

/// Reads the lines of the files of a [`SourceMap`].
#[derive(Debug)]
pub struct LineReader<'s> {
    sources: &'s SourceMap,
    files: Vec<FileId>,
    /// Index into `files`.
    current: usize,
    /// The number of the last line read from the current file. 0 before the first line.
    line: u32,
    section: String,
    /// The open `.if` blocks, the innermost last.
    blocks: Vec<ConditionBlock>,
}

/// One open `.if`.
#[derive(Debug, Clone, Copy)]
struct ConditionBlock {
    state: BlockState,
    seen_else: bool,
}

/// ```text
///  .if true  ─► Taking ──.elif/.else──► Taken
///  .if false ─► Waiting ─.elif true/.else─► Taking
///  inside lines that are skipped, or after a broken condition ─► Dead: no branch is ever taken
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockState {
    Taking,
    Taken,
    Waiting,
    Dead,
}

impl<'s> LineReader<'s> {
    /// Reads every file of `sources`, in the order added.
    pub fn new(sources: &'s SourceMap) -> Self {
        let files = sources.iter().map(|(id, _)| id).collect();
        Self { sources, files, current: 0, line: 0, section: String::new(), blocks: Vec::new() }
    }

    /// Reads one file of `sources`.
    pub fn of_file(sources: &'s SourceMap, file: FileId) -> Self {
        Self { sources, files: vec![file], current: 0, line: 0, section: String::new(), blocks: Vec::new() }
    }

    /// Sets the value of `.SECTION`: the section's name, or its kind for a section without a name.
    pub fn set_section(&mut self, name: &str) {
        self.section.clear();
        self.section.push_str(name);
    }

    /// The next line with at least one word. `None` after the last file. Lines with a lexical error are reported and skipped. A new
    /// file starts outside of any section: compare [`Span::file`] of two lines to detect it.
    pub fn next_line(
        &mut self,
        environment: &Environment,
        conditions: &dyn ConditionContext,
        diagnostics: &mut Diagnostics,
    ) -> Option<Line> {
        loop {
            let file = *self.files.get(self.current)?;
            let source = self.sources.get(file)?;
            let Some((raw, terminated)) = source.line(self.line + 1) else {
                self.end_file(file, diagnostics);
                continue;
            };
            self.line += 1;
            if !terminated {
                self.report_truncation(file, raw, diagnostics);
            }
            let Some(line) = self.cut(file, source.name(), raw, environment, diagnostics) else { continue };
            let empty = line.words().iter().position(|word| word.bytes().is_empty());
            let line = match empty {
                Some(index) if self.is_taking() => {
                    diagnostics.push(empty_argument(&line, index, raw));
                    let Some(line) = line.cut_at(index) else { continue };
                    line
                }
                _ => line,
            };
            if line.keyword().text().starts_with('.') {
                self.directive(&line, environment, conditions, diagnostics);
            } else if self.is_taking() {
                return Some(line);
            }
        }
    }

    fn end_file(&mut self, file: FileId, diagnostics: &mut Diagnostics) {
        if !self.blocks.is_empty() {
            let span = Span::new(file, self.line.max(1), 0, 0);
            tight(diagnostics, DiagnosticSeverity::Alert, span, "non-terminated '.if' block.");
            self.blocks.clear();
        }
        self.current += 1;
        self.line = 0;
        self.section.clear();
    }

    fn report_truncation(&self, file: FileId, raw: &[u8], diagnostics: &mut Diagnostics) {
        let span = Span::new(file, self.line, raw.len() as u32, raw.len() as u32);
        let position = raw.len() + 1;
        let message =
            format!("Missing LF on last line, file might have been truncated at position {position}.");
        tight(diagnostics, DiagnosticSeverity::Alert, span, message);
    }

    fn cut(
        &self,
        file: FileId,
        name: &str,
        raw: &[u8],
        environment: &Environment,
        diagnostics: &mut Diagnostics,
    ) -> Option<Line> {
        if let Some(column) = memchr(0, raw) {
            let span = Span::new(file, self.line, column as u32, column as u32 + 1);
            let message = format!("Stray NUL character at position {}.", column + 1);
            tight(diagnostics, DiagnosticSeverity::Alert, span, message);
            return None;
        }
        let pseudo = Pseudo { file: name, line: self.line, section: &self.section };
        match lex_line(raw, file, pseudo, environment) {
            Ok(words) => {
                let span = words.first()?.span().to(words.last()?.span());
                Line::new(words, span)
            }
            Err(error) => {
                diagnostics.push(lex_diagnostic(&error, file, self.line, raw));
                None
            }
        }
    }

    fn is_taking(&self) -> bool {
        self.blocks.iter().all(|block| block.state == BlockState::Taking)
    }

    fn directive(
        &mut self,
        line: &Line,
        environment: &Environment,
        conditions: &dyn ConditionContext,
        diagnostics: &mut Diagnostics,
    ) {
        let mut judge = |line: &Line| {
            judge(line, environment, conditions).unwrap_or_else(|error| {
                diagnostics.push(*error);
                BlockState::Dead
            })
        };
        match line.keyword().text() {
            ".if" => {
                if self.blocks.len() + 1 >= MAX_CONDITION_NESTING {
                    let message = format!("too many nested '.if', max is {MAX_CONDITION_NESTING}.");
                    tight(diagnostics, DiagnosticSeverity::Alert, line.keyword().span(), message);
                    // The blocks no longer match their `.endif` lines, so the rest of the file cannot be trusted.
                    self.abandon_file();
                    return;
                }
                let state = if self.is_taking() { judge(line) } else { BlockState::Dead };
                self.blocks.push(ConditionBlock { state, seen_else: false });
            }
            ".elif" => match self.blocks.last().copied() {
                None => lone(line, diagnostics),
                Some(block) if block.seen_else => after_else(line, diagnostics),
                Some(block) => {
                    let state = match block.state {
                        BlockState::Waiting => judge(line),
                        BlockState::Taking => BlockState::Taken,
                        other => other,
                    };
                    self.set_innermost(ConditionBlock { state, seen_else: false });
                }
            },
            ".else" => match self.blocks.last().copied() {
                None => lone(line, diagnostics),
                Some(block) if block.seen_else => after_else(line, diagnostics),
                Some(block) => {
                    no_argument(line, diagnostics);
                    let state = match block.state {
                        BlockState::Waiting => BlockState::Taking,
                        BlockState::Taking => BlockState::Taken,
                        other => other,
                    };
                    self.set_innermost(ConditionBlock { state, seen_else: true });
                }
            },
            ".endif" => {
                if self.blocks.pop().is_none() {
                    lone(line, diagnostics);
                } else {
                    no_argument(line, diagnostics);
                }
            }
            _ if !self.is_taking() => {}
            ".diag" => message(line, DiagnosticSeverity::Diag, diagnostics),
            ".notice" => message(line, DiagnosticSeverity::Notice, diagnostics),
            ".warning" => message(line, DiagnosticSeverity::Warning, diagnostics),
            ".alert" => message(line, DiagnosticSeverity::Alert, diagnostics),
            unknown => {
                let text = format!("unknown directive '{unknown}'");
                let nearest = did_you_mean(unknown, DIRECTIVES);
                diagnostics.push(
                    Diagnostic::alert(line.keyword().span(), text)
                        .layout(Layout::ParsingTight)
                        .suggestion(nearest),
                );
            }
        }
    }

    fn set_innermost(&mut self, block: ConditionBlock) {
        if let Some(last) = self.blocks.last_mut() {
            *last = block;
        }
    }

    fn abandon_file(&mut self) {
        self.blocks.clear();
        self.current += 1;
        self.line = 0;
        self.section.clear();
    }
}

/// Evaluates the condition of an `.if` or `.elif`: an empty one is false.
fn judge(
    line: &Line,
    environment: &Environment,
    conditions: &dyn ConditionContext,
) -> Result<BlockState, Box<Diagnostic>> {
    // As in HAProxy, the words are joined by single spaces and parsed as one string.
    let text = line.join(1);
    match evaluate_condition(&text, environment, conditions) {
        Ok(true) => Ok(BlockState::Taking),
        Ok(false) => Ok(BlockState::Waiting),
        Err(error) => Err(Box::new(condition_diagnostic(line, &text, &error))),
    }
}

fn condition_diagnostic(line: &Line, text: &str, error: &ConditionError) -> Diagnostic {
    let keyword = line.keyword().text();
    let message = format!("{error} in '{keyword}' at position {}", error.offset + 1);
    let shown = format!("{keyword} {text}");
    Diagnostic::alert(span_of_joined(line, error.offset), message)
        .layout(Layout::ParsingTight)
        .with_excerpt(shown, keyword.len() + 1 + error.offset)
        .note("a condition is made of integers, predicates, '!', '&&', '||' and parentheses")
}

/// The span of byte `offset` in the joined words 1 and after.
fn span_of_joined(line: &Line, mut offset: usize) -> Span {
    for word in line.arguments() {
        let length = word.text().len();
        if offset < length {
            return word.span_of(offset..offset + 1);
        }
        offset -= (length + 1).min(offset);
    }
    line.span().after()
}

fn message(line: &Line, severity: DiagnosticSeverity, diagnostics: &mut Diagnostics) {
    if let Some(extra) = line.get(2) {
        let text = format!(
            "Unexpected argument '{extra}' for '{}'. Use quotes if the message should contain spaces.",
            line.keyword()
        );
        return tight(diagnostics, DiagnosticSeverity::Alert, extra.span(), text);
    }
    let mut diagnostic = Diagnostic::new(severity, line.span(), format!("'{}'.", line.text(1)));
    diagnostic.requested = true;
    diagnostics.push(diagnostic.layout(Layout::ParsingTight));
}

/// The error about an empty word. Without it, an unset variable would change the meaning of a line.
fn empty_argument(line: &Line, index: usize, raw: &[u8]) -> Diagnostic {
    let span = line.span_at(index);
    let message = format!(
        "argument number {index} at position {} is empty and marks the end of the argument list",
        span.start + 1
    );
    let (shown, caret) = shown_line(raw, span.start as usize);
    Diagnostic::alert(span, message)
        .layout(Layout::ParsingTight)
        .with_excerpt(shown, caret)
        .note("a variable that is not set is empty; \"${NAME-default}\" has a default")
}

fn lone(line: &Line, diagnostics: &mut Diagnostics) {
    let text = format!("lone '{}' with no matching '.if'.", line.keyword());
    tight(diagnostics, DiagnosticSeverity::Alert, line.keyword().span(), text);
}

fn after_else(line: &Line, diagnostics: &mut Diagnostics) {
    let text = format!("'{}' after '.else' is not permitted.", line.keyword());
    tight(diagnostics, DiagnosticSeverity::Alert, line.keyword().span(), text);
}

fn no_argument(line: &Line, diagnostics: &mut Diagnostics) {
    if let Some(extra) = line.get(1) {
        let text = format!("Unexpected argument '{extra}' for '{}'.", line.keyword());
        tight(diagnostics, DiagnosticSeverity::Alert, extra.span(), text);
    }
}

fn tight(
    diagnostics: &mut Diagnostics,
    severity: DiagnosticSeverity,
    span: Span,
    message: impl Into<String>,
) {
    diagnostics.push(Diagnostic::new(severity, span, message).layout(Layout::ParsingTight));
}

fn lex_diagnostic(error: &LexError, file: FileId, line: u32, raw: &[u8]) -> Diagnostic {
    let span = Span::new(file, line, error.column, error.column + 1);
    let diagnostic = Diagnostic::alert(span, error.to_string()).layout(Layout::ParsingTight);
    let note = match &error.fault {
        LexFault::TooManyWords(_) | LexFault::LineTooLong => return diagnostic,
        LexFault::UnmatchedQuote => {
            "a quote must be closed on its own line; write \\\" or \\' for the character"
        }
        LexFault::InvalidHexadecimal => "\\x takes two hexadecimal digits; write \\\\ for a backslash",
        LexFault::InvalidVariableName => {
            "a name starts with a letter or '_'; write \\$ for a dollar inside double quotes"
        }
        LexFault::UnmatchedBrace => "expected '}' after the variable's name, its '[*]' or its '-default'",
        LexFault::InvalidExpansion => "'[*]' is the only suffix in brackets",
    };
    let (shown, caret) = shown_line(raw, error.column as usize);
    diagnostic.with_excerpt(shown, caret).note(note)
}

/// The line as messages show it: without indentation, with every control character replaced by a space.
fn shown_line(raw: &[u8], column: usize) -> (String, usize) {
    let indentation = raw.iter().take_while(|&&byte| byte == b' ' || byte == b'\t').count().min(column);
    let start = indentation.max(column.saturating_sub(MAX_SHOWN_BYTES / 2));
    let end = raw.len().min(start + MAX_SHOWN_BYTES);
    let shown: String = String::from_utf8_lossy(&raw[start..end])
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    (shown.trim_end().to_string(), column - start)
}

/// The limit of bytes of a line in a message.
const MAX_SHOWN_BYTES: usize = 160;

const DIRECTIVES: [&str; 8] = [".if", ".elif", ".else", ".endif", ".diag", ".notice", ".warning", ".alert"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::StaticFeatures;

    const FEATURES: StaticFeatures<'_> = StaticFeatures { features: &["THREAD"], enabled: &[], tls: None };

    /// All lines and all messages of some files; `setenv <name> <value>` works as in `global`.
    fn read(files: &[&[u8]]) -> (Vec<String>, Vec<String>) {
        let mut sources = SourceMap::new();
        for (index, bytes) in files.iter().enumerate() {
            sources.add(format!("{index}.cfg"), bytes.to_vec());
        }
        let (mut environment, mut diagnostics) = (Environment::new(), Diagnostics::new());
        let mut reader = LineReader::new(&sources);
        let mut lines = Vec::new();
        while let Some(line) = reader.next_line(&environment, &FEATURES, &mut diagnostics) {
            match line.keyword().text() {
                "setenv" => environment.set(line.text(1), line.text(2)),
                "frontend" => reader.set_section(line.text(1)),
                _ => lines.push(line.join(0)),
            }
        }
        let messages = diagnostics.iter().map(|diagnostic| diagnostic.classic_message(&sources)).collect();
        (lines, messages)
    }

    #[track_caller]
    fn check(text: &str, lines: &[&str], messages: &[&str]) {
        let (read_lines, read_messages) = read(&[text.as_bytes()]);
        assert_eq!(read_lines, lines, "{text}");
        assert_eq!(read_messages, messages, "{text}");
    }

    #[test]
    fn expands_variables_set_on_earlier_lines() {
        check("setenv A 1\nx \"$A\"\nsetenv A 2\nx \"$A\"\n", &["x 1", "x 2"], &[]);
        check("x \"<$.SECTION\"\nfrontend f\nx \"$.SECTION:$.LINE\"\n", &["x <", "x f:3"], &[]);
    }

    #[test]
    fn conditional_blocks_select_their_branch() {
        check(".if 1\na\n.else\nb\n.endif\nc\n", &["a", "c"], &[]);
        check(".if 0\na\n.elif 1\nb\n.elif 1\nc\n.else\nd\n.endif\n", &["b"], &[]);
        check(".if 0\n.if 1\na\n.else\nb\n.endif\n.else\nc\n.endif\n", &["c"], &[]);
        check(".if feature(THREAD) && !streq(a , b)\na\n.endif\n", &["a"], &[]);
        check(".if\na\n.endif\n", &[], &[]);
        check(".if 1 # yes\na\n.endif\n", &["a"], &[]);
    }

    #[test]
    fn conditions_in_skipped_blocks_are_not_evaluated() {
        check(".if 0\n.if foo(\nx\n.endif\n.foo\n.alert x\n.else\nz\n.endif\n", &["z"], &[]);
        check(".if 1\na\n.elif foo(\n.endif\n", &["a"], &[]);
    }

    #[test]
    fn an_invalid_condition_takes_no_branch() {
        check(
            "   .if   1 &&   foo\na\n.elif 1\nb\n.else\nc\n.endif\nd\n",
            &["d"],
            &["parsing [0.cfg:1]: unparsable conditional expression 'foo' in '.if' at position 6:\n  \
               .if 1 && foo\n           ^"],
        );
        check(
            ".if 1 2\n.endif\n",
            &[],
            &[
                "parsing [0.cfg:1]: unexpected character '2' at the end of conditional expression '1 2' in '.if' at \
               position 3:\n  .if 1 2\n        ^",
            ],
        );
    }

    #[test]
    fn conditional_blocks_must_be_balanced() {
        check(".endif\n", &[], &["parsing [0.cfg:1]: lone '.endif' with no matching '.if'."]);
        check(".else\n", &[], &["parsing [0.cfg:1]: lone '.else' with no matching '.if'."]);
        check(".elif 1\n", &[], &["parsing [0.cfg:1]: lone '.elif' with no matching '.if'."]);
        check(".if 1\na\n", &["a"], &["parsing [0.cfg:2]: non-terminated '.if' block."]);
        check(
            ".if 1\n.else\n.else\n.elif 1\n.endif x\n",
            &[],
            &[
                "parsing [0.cfg:3]: '.else' after '.else' is not permitted.",
                "parsing [0.cfg:4]: '.elif' after '.else' is not permitted.",
                "parsing [0.cfg:5]: Unexpected argument 'x' for '.endif'.",
            ],
        );
        let nested = |depth: usize| format!("{}a\n{}", ".if 1\n".repeat(depth), ".endif\n".repeat(depth));
        check(&nested(99), &["a"], &[]);
        check(&nested(100), &[], &["parsing [0.cfg:100]: too many nested '.if', max is 100."]);
    }

    #[test]
    fn message_directives_print_their_messages() {
        check(
            ".notice \"hello world\"\n.warning W\n.diag D\n.alert A\n.notice a b\n.notcie x\n",
            &[],
            &[
                "parsing [0.cfg:1]: 'hello world'.",
                "parsing [0.cfg:2]: 'W'.",
                "parsing [0.cfg:3]: 'D'.",
                "parsing [0.cfg:4]: 'A'.",
                "parsing [0.cfg:5]: Unexpected argument 'b' for '.notice'. Use quotes if the message should contain \
                 spaces.",
                "parsing [0.cfg:6]: unknown directive '.notcie'; did you mean '.notice' maybe ?",
            ],
        );
    }

    #[test]
    fn invalid_lines_are_reported_and_skipped() {
        check(
            "   \t  .notice \"a\tb\" c \"d\nx\n",
            &["x"],
            &[
                "parsing [0.cfg:1]: unmatched quote at position 23:\n  .notice \"a b\" c \"d\n                  ^",
            ],
        );
        check("a\nb\0c\nd\n", &["a", "d"], &["parsing [0.cfg:2]: Stray NUL character at position 2."]);
        check(
            "a\n maxconn 100",
            &["a", "maxconn 100"],
            &["parsing [0.cfg:2]: Missing LF on last line, file might have been truncated at position 13."],
        );
        check("a\r\nb\r\n", &["a", "b"], &[]);
        check("", &[], &[]);
    }

    /// As in HAProxy 3.4 and later. HAProxy 3.2 warns and reads the words before the empty one.
    #[test]
    fn empty_arguments_are_rejected() {
        let empty = |line: u32, number: u32, position: u32, text: &str| {
            format!(
                "parsing [0.cfg:{line}]: argument number {number} at position {position} is empty and marks the end of \
                 the argument list:\n  {text}\n  {:1$}^",
                "",
                position as usize - 1
            )
        };
        check(
            "a b\nacl a path_beg \"$UNSET\" x\n.if 0\nx \"\"\n.endif\n\"\" x\n.if \"\"\nb\n.endif\n",
            &["a b", "acl a path_beg"],
            &[
                &empty(2, 3, 16, "acl a path_beg \"$UNSET\" x"),
                &empty(6, 0, 1, "\"\" x"),
                &empty(7, 1, 5, ".if \"\""),
            ],
        );
        check("a \"${UNSET[*]}\" b\nc \"${UNSET[*]}\"\nd \"${UNSET-x}\"\n", &["a b", "c", "d x"], &[]);
    }

    #[test]
    fn sections_and_conditional_blocks_end_with_their_file() {
        let (lines, messages) = read(&[b".if 1\nfrontend f\n", b"b \"$.FILE$.SECTION\"\n"]);
        assert_eq!(lines, ["b 1.cfg"]);
        assert_eq!(messages, ["parsing [0.cfg:2]: non-terminated '.if' block."]);
    }
}
