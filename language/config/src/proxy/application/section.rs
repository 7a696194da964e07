//! `fcgi-app` sections: FastCGI applications (manual, 10.1.1).
//!
//! ACLs of an application are private. Names in its expressions are resolved with those of proxies, at the end of the configuration.

use std::cell::RefCell;
use std::sync::Arc;

use weir_expr::pattern::regex::Regex;
use weir_expr::{AclTable, Condition, FormatOptions};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Line, Span, did_you_mean};

use crate::expressions::{ExpressionParser, Notes, WrittenReference, located};
use crate::numbers::integer_in;
use crate::proxy::read_log_target_words;
use crate::resources::Resources;
use crate::rows::DefaultValue::{Described, Written};
use crate::rows::{Handler, Row, Table};
use crate::sections::nearest_phrase;
use crate::words::{Fault, Parsed, Words, fault, is_name_character, prefixed, suggesting, tight};
use weir_model::{FcgiApplication, Location, LogTarget, LogTargets, PassHeader, SetParameter};

/// Reads a line of a `fcgi-app` section.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FcgiAppReader {
    /// Reads the words after the keyword.
    Line(ReadLine),
    /// An option without arguments, which `no` and `default` may precede: its field and its default.
    Flag(fn(&mut FcgiApplication) -> &mut bool, bool),
}

type ReadLine = fn(&mut ApplicationDraft, &LineScope<'_>, &mut Words<'_>) -> Parsed;

/// Every word of a `fcgi-app` section.
pub(crate) static FCGI_APP_KEYWORDS: Table<FcgiAppReader> = Table::new(&[&[
    line(
        "acl",
        "<aclname> <criterion> [flags] [operator] <value> ...",
        "local src 127.0.0.1",
        "a named test for the conditions of this section",
        |draft, scope, words| {
            let at = words.position();
            draft.expressions(scope).acl(words, at).map_err(|error| located(words, error))
        },
    ),
    line(
        "docroot",
        "<path>",
        "/var/www/my-app",
        "folder of the scripts on the host of the application; mandatory",
        |draft, _, words| {
            draft.has_docroot = true;
            draft.application.docroot = words.expect("'docroot' expects <path> as argument.")?.text().into();
            words.end("docroot")
        },
    ),
    line(
        "index",
        "<script-name>",
        "index.php",
        "script of paths that end with a slash",
        |draft, _, words| {
            let name = words.expect("'index' expects <filename> as argument.")?;
            draft.application.index = Some(name.text().into());
            words.end("index")
        },
    ),
    line(
        "log-stderr",
        "{ global | <target> [len <length>] [format <format>] [sample <ranges>:<sample_size>] \
         <facility> [<level> [<minlevel>]] }",
        "127.0.0.1:514 local0",
        "where the error output of the application is logged",
        |draft, scope, words| {
            draft.read_log_target(scope, words).map_err(|mut fault| {
                if let Some(rest) = fault.message.strip_prefix("log : ") {
                    fault.message = format!("log-stderr : {rest}");
                }
                fault
            })
        },
    )
    .default(Described("it is ignored")),
    flag(
        "option get-values",
        "ask the application for its limits when a connection opens",
        |application| &mut application.get_values,
        false,
    )
    .default(Described("off")),
    flag(
        "option keep-conn",
        "let the application keep a connection open after a response",
        |application| &mut application.keeps_connections,
        true,
    )
    .default(Described("on")),
    line("option max-reqs", "<reqs>", "10", "most requests at once on a connection", |draft, _, words| {
        let word = words.expect("'option max-reqs' expects an integer argument.")?;
        let range = 1..=i32::MAX as u32;
        let requests = integer_in(word, "option max-reqs", range)?;
        words.end("option max-reqs")?;
        draft.application.max_requests = requests;
        Ok(())
    })
    .default(Written("1")),
    flag(
        "option mpxs-conns",
        "several requests at once on a connection",
        |application| &mut application.multiplexes,
        false,
    )
    .default(Described("off")),
    line(
        "pass-header",
        "<name> [ { if | unless } <condition> ]",
        "Authorization",
        "pass a header that is left out by default",
        |draft, scope, words| {
            let name = words.expect("'pass-header' expects <name> as arguments.")?;
            let condition = draft.read_condition(&format!("pass-header {name}"), scope, words)?;
            let name = name.bytes().to_ascii_lowercase().into();
            draft.application.pass_headers.push(PassHeader { name, condition });
            Ok(())
        },
    ),
    line(
        "path-info",
        "<regex>",
        "^(/.+\\.php)(/.*)?$",
        "divide a path into the name of the script and the path info",
        |draft, scope, words| {
            let word = words.expect("'path-info' expects <regex> as argument.")?;
            let regex = Regex::new(word.text(), false, scope.at)
                .map_err(|error| fault(word.span(), format!("'path-info' : {error}.")))?;
            words.end("path-info")?;
            draft.application.path_info = Some(Arc::new(regex));
            Ok(())
        },
    ),
    line(
        "set-param",
        "<name> <fmt> [ { if | unless } <condition> ]",
        "REDIRECT_STATUS 200",
        "set a parameter of requests; no effect if the value is empty",
        |draft, scope, words| {
            let missing = "'set-param' expects <name> and <value> as arguments.";
            let (name, value) = (words.expect(missing)?, words.expect(missing)?);
            let subject = format!("set-param {name}");
            let value = draft
                .expressions(scope)
                .format_with(value, FcgiApplication::POINTS, FormatOptions::HTTP)
                .map_err(|fault| prefixed(fault, &format!("'{subject}' : ")))?;
            let condition = draft.read_condition(&subject, scope, words)?;
            let parameter = SetParameter { name: name.text().into(), value: Arc::new(value), condition };
            draft.application.parameters.push(parameter);
            Ok(())
        },
    ),
]]);

const fn line(
    name: &'static str,
    arguments: &'static str,
    example: &'static str,
    help: &'static str,
    read: ReadLine,
) -> Row<FcgiAppReader> {
    Row::ready(name, arguments, example, help, FcgiAppReader::Line(read))
}

const fn flag(
    name: &'static str,
    help: &'static str,
    field: fn(&mut FcgiApplication) -> &mut bool,
    default: bool,
) -> Row<FcgiAppReader> {
    Row::ready(name, "", "", help, FcgiAppReader::Flag(field, default))
}

/// The limit of log targets of an application.
const MAX_LOG_TARGETS: usize = 256;

/// The surroundings of a line.
pub(crate) struct LineScope<'s> {
    pub(crate) resources: Resources<'s>,
    pub(crate) at: &'s Location,
}

/// A `fcgi-app` section during parsing.
#[derive(Debug)]
pub(crate) struct ApplicationDraft {
    application: FcgiApplication,
    span: Span,
    acls: AclTable,
    notes: RefCell<Notes>,
    /// Whether a `docroot` line exists, even a refused one.
    has_docroot: bool,
}

/// A parsed section. The references in its expressions are resolved with those of proxies.
#[derive(Debug)]
pub struct ApplicationSection {
    pub(crate) application: Arc<FcgiApplication>,
    pub(crate) span: Span,
    pub(crate) acls: AclTable,
    pub(crate) references: Vec<WrittenReference>,
}

impl ApplicationDraft {
    /// Starts the section of a section line.
    pub(crate) fn begin(line: &Line, at: Location, known: &[ApplicationSection]) -> Parsed<Self> {
        let mut words = Words::new(line, 1);
        let name = words.expect("'fcgi-app' expects <name> as argument.").map_err(tight)?;
        words.end("fcgi-app")?;
        if let Some(stranger) = name.text().chars().find(|character| !is_name_character(*character)) {
            let message = format!("character '{stranger}' is not permitted in 'fcgi-app' name '{name}'.");
            return Err(tight(fault(name.span(), message)));
        }
        if let Some(twin) = known.iter().find(|other| *other.application.name == *name.text()) {
            let message = format!(
                "fcgi-app section '{name}' has the same name as another one declared at {}.",
                twin.application.at
            );
            return Err(tight(fault(name.span(), message)));
        }
        Ok(ApplicationDraft {
            application: FcgiApplication::new(name.text(), at),
            span: line.span(),
            acls: AclTable::new(),
            notes: RefCell::default(),
            has_docroot: false,
        })
    }

    /// Reads one line.
    pub(crate) fn line(&mut self, line: &Line, scope: &LineScope<'_>, diagnostics: &mut Diagnostics) {
        let read = self.read_line(line, scope);
        diagnostics_of(self.notes.get_mut(), diagnostics);
        if let Err(fault) = read {
            diagnostics.push(*fault);
        }
    }

    fn read_line(&mut self, line: &Line, scope: &LineScope<'_>) -> Parsed {
        let prefix = Some(line.text(0)).filter(|word| matches!(*word, "no" | "default"));
        let first = usize::from(prefix.is_some());
        if prefix.is_some() && line.text(first) != "option" {
            let message = "negation/default is supported for options only.";
            return Err(tight(fault(line.keyword().span(), message)));
        }
        let found = FCGI_APP_KEYWORDS.find_phrase(line, first);
        let Some((row, count)) = found else { return Err(unknown(line, first)) };
        let Handler::Ready(reader) = row.handler else { return Err(unknown(line, first)) };
        let mut words = Words::new(line, first + count);
        match (reader, prefix) {
            (FcgiAppReader::Line(read), None) => read(self, scope, &mut words),
            (FcgiAppReader::Line(_), Some(_)) => {
                let option = row.name.trim_start_matches("option ");
                let message = format!("negation/default is not supported for option '{option}'.");
                Err(tight(fault(line.keyword().span(), message)))
            }
            (FcgiAppReader::Flag(field, default), _) => {
                words.end(row.name)?;
                *field(&mut self.application) = match prefix {
                    None => true,
                    Some("no") => false,
                    Some(_) => default,
                };
                Ok(())
            }
        }
    }

    fn expressions<'e>(&'e self, scope: &'e LineScope<'_>) -> ExpressionParser<'e> {
        ExpressionParser { resources: scope.resources, acls: &self.acls, at: scope.at, notes: &self.notes }
    }

    /// Reads a condition to the end of the line. `subject` is the line up to it.
    fn read_condition(
        &self,
        subject: &str,
        scope: &LineScope<'_>,
        words: &mut Words<'_>,
    ) -> Parsed<Option<Condition>> {
        if !words.at_end() && !words.at_condition() {
            let message = format!(
                "'{subject}' expects either 'if' or 'unless' followed by a condition but found '{}'.",
                words.peek_text()
            );
            return Err(fault(words.here(), message));
        }
        let failed = format!("error detected while parsing a '{subject}' condition : ");
        let condition = self.expressions(scope).condition(words, FcgiApplication::POINTS);
        condition.map_err(|fault| prefixed(fault, &failed))
    }

    fn read_log_target(&mut self, scope: &LineScope<'_>, words: &mut Words<'_>) -> Parsed {
        let targets: &mut LogTargets = &mut self.application.log_targets;
        if words.peek_text() == "global" && words.line().len() == words.position() + 1 {
            targets.add_global();
            return Ok(());
        }
        let target = LogTarget { at: Some(scope.at.clone()), ..read_log_target_words(words)? };
        if targets.len() == MAX_LOG_TARGETS {
            return Err(fault(words.line().span(), format!("log : more than {MAX_LOG_TARGETS} targets")));
        }
        targets.push(target);
        Ok(())
    }

    /// Ends the section. `global_logs` are the targets of the global sections above it.
    pub(crate) fn end(
        mut self,
        global_logs: &[Arc<LogTarget>],
        diagnostics: &mut Diagnostics,
    ) -> ApplicationSection {
        self.acls.seal();
        self.application.log_targets.settle(global_logs);
        let FcgiApplication { name, max_requests, multiplexes, get_values, .. } = &self.application;
        let bare = |diagnostic: Diagnostic| diagnostic.layout(Layout::Bare);
        if !self.has_docroot {
            let message = format!("fcgi-app '{name}': no docroot configured.");
            let note = "write 'docroot <path>', the folder of the scripts on the host of the application";
            diagnostics.push(bare(Diagnostic::alert(self.span, message)).note(note));
        }
        if *max_requests > 1 && !multiplexes && !get_values {
            let message =
                format!("fcgi-app '{name}': multiplexing not supported, ignore the option 'max-reqs'.");
            let note = "'option mpxs-conns' says that the application multiplexes connections";
            diagnostics.push(bare(Diagnostic::warning(self.span, message)).note(note));
        }
        for (fetch, span) in &self.notes.borrow().bytes_in_text {
            diagnostics
                .warning(*span, format!("L6 sample fetch <{fetch}> ignored in HTTP log-format string."));
        }
        ApplicationSection {
            application: Arc::new(self.application),
            span: self.span,
            acls: self.acls,
            references: self.notes.into_inner().references,
        }
    }
}

fn diagnostics_of(notes: &mut Notes, diagnostics: &mut Diagnostics) {
    notes.warnings.drain(..).for_each(|warning| diagnostics.push(warning));
}

fn unknown(line: &Line, first: usize) -> Fault {
    let word = line.text(first);
    if word != "option" {
        let message = format!("unknown keyword '{word}' in 'fcgi-app' section");
        let nearest = nearest_phrase(&FCGI_APP_KEYWORDS, word).filter(|nearest| *nearest != word);
        return suggesting(fault(line.keyword().span(), message), nearest);
    }
    let option = line.text(first + 1);
    if option.is_empty() {
        return tight(fault(line.span_at(first + 1), "'option' expects an option name."));
    }
    let nearest = did_you_mean(option, FCGI_APP_KEYWORDS.continuations("option"));
    suggesting(fault(line.span_at(first + 1), format!("unknown option '{option}'.")), nearest)
}

#[cfg(test)]
impl ApplicationSection {
    /// A section with this name and without lines, for tests of proxies.
    pub(crate) fn example(name: &str) -> Self {
        let application = Arc::new(FcgiApplication::new(name, Location::default()));
        let span = Span::new(weir_syntax::SourceMap::new().add("", Vec::new()), 0, 0, 0);
        ApplicationSection { application, span, acls: AclTable::new(), references: Vec::new() }
    }
}
