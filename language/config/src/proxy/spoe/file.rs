//! The file of an engine: its scopes and its sections (SPOE 1.2, 2.1).

use std::cell::RefCell;
use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Line, LineReader, Span, Word, did_you_mean};

use super::agent::AgentDraft;
use super::message::{GroupDraft, MessageDraft, SPOE_GROUP_KEYWORDS, SPOE_MESSAGE_KEYWORDS};
use super::{assemble, stranger_in};
use crate::draft::LineContext;
use crate::engine_files::EngineFiles;
use crate::expressions::Notes;
use crate::reply::cannot_open;
use crate::resources::Resources;
use crate::rows::{Handler, Table};
use crate::sections::{EngineSection, engine_section, engine_section_names};
use crate::words::{Parsed, Words, fault, not_yet, suggesting, tight};
use weir_model::{Location, SpoeEngine};

/// Reads the engine `name` from the file `path`. Without a name, the engine has the name of its agent.
pub(super) fn read(context: &mut LineContext<'_>, name: Option<&Word>, path: &Word) -> Parsed<SpoeEngine> {
    let Some(files) = context.engine_files else {
        return Err(not_yet(path.span(), "filter spoe outside of a configuration file"));
    };
    let bytes =
        context.resources.loader.read(path.text(), MAX_ENGINE_FILE).map_err(|error| {
            fault(path.span(), format!("'filter' : 'spoe' : {}", cannot_open(path, &error)))
        })?;
    let Some(id) = files.sources.include(path.text(), bytes) else {
        return Err(fault(path.span(), "'filter' : 'spoe' : too many different config files."));
    };
    let alerts = context.diagnostics.alert_count();
    let mut reader = EngineReader {
        files,
        resources: context.resources,
        notes: &context.draft.notes,
        scope: name.map(Word::text),
        file: path.text().into(),
        in_scope: name.is_none(),
        scopes: Vec::new(),
        sections: EngineDraft::default(),
        current: None,
    };
    let mut lines = LineReader::of_file(files.sources, id);
    while let Some(line) = files.world.with_environment(|environment| {
        let line = lines.next_line(environment, files.conditions, context.diagnostics)?;
        Some(crate::address::variables::expanded(line, environment))
    }) {
        if line.is_cut() {
            continue;
        }
        if let Err(fault) = reader.line(&line) {
            context.diagnostics.push(*fault);
        }
        line.take_remarks().into_iter().for_each(|remark| context.diagnostics.push(remark));
    }
    let EngineReader { sections, scopes, file, .. } = reader;
    let failed = || fault(path.span(), format!("'filter' : Error(s) found in configuration file {path}"));
    if context.diagnostics.alert_count() > alerts {
        return Err(failed());
    }
    let Some(agent) = sections.agent else {
        return Err(no_agent(name, path, &scopes));
    };
    let log_targets = agent.settled_logs(&files.global_logs());
    let scene = assemble::Scene {
        name,
        file: &file,
        proxy: &context.draft.proxy.name,
        is_frontend: context.draft.section.is_frontend(),
        variables: context.resources.variables,
    };
    let engine =
        assemble::engine(agent, sections.messages, sections.groups, log_targets, &scene, context.diagnostics);
    match engine {
        Some(engine) if context.diagnostics.alert_count() == alerts => Ok(engine),
        _ => Err(failed()),
    }
}

/// The largest file of an engine, in bytes.
const MAX_ENGINE_FILE: u64 = 1 << 24;
/// The limit of messages and of groups in one engine.
const MAX_SECTIONS: usize = 1024;
/// The limit of scopes that are remembered for a message.
const MAX_SCOPES: usize = 64;

/// The error for a file without an agent in the scope of the engine.
fn no_agent(name: Option<&Word>, path: &Word, scopes: &[Box<str>]) -> crate::words::Fault {
    let message = format!("'filter' : No SPOE agent found in file {path}");
    let scopes = || scopes.iter().map(|scope| &**scope);
    let Some(name) = name else {
        let mut fault = fault(path.span(), message);
        if let Some(scope) = scopes().next() {
            fault.note = Some(format!("its sections are in scopes: 'engine {scope}' selects one"));
        }
        return fault;
    };
    let nearest = did_you_mean(name.text(), scopes());
    let mut fault = suggesting(fault(name.span(), message), nearest);
    fault.note = Some(match scopes().any(|scope| scope == name.text()) {
        true => format!("the scope '[{name}]' lacks a 'spoe-agent' section"),
        false => format!("the file lacks the scope '[{name}]'"),
    });
    fault
}

/// The sections of one engine during parsing.
#[derive(Debug, Default)]
struct EngineDraft {
    agent: Option<AgentDraft>,
    messages: Vec<MessageDraft>,
    groups: Vec<GroupDraft>,
}

/// Reads the lines of a file.
struct EngineReader<'r> {
    files: &'r EngineFiles<'r>,
    resources: Resources<'r>,
    notes: &'r RefCell<Notes>,
    /// The scope to read. None for the lines outside of all scopes.
    scope: Option<&'r str>,
    file: Arc<str>,
    in_scope: bool,
    /// The scopes seen so far.
    scopes: Vec<Box<str>>,
    sections: EngineDraft,
    /// The kind of the current section.
    current: Option<EngineSection>,
}

/// The surroundings of a line for the readers of keywords.
pub(crate) struct LineScope<'s> {
    pub(super) resources: Resources<'s>,
    pub(super) notes: &'s RefCell<Notes>,
    pub(super) at: &'s Location,
    /// `tune.bufsize` in bytes.
    pub(super) buffer_size: u32,
}

impl EngineReader<'_> {
    fn line(&mut self, line: &Line) -> Parsed {
        if line.keyword().text().starts_with('[') {
            return self.begin_scope(line);
        }
        if !self.in_scope {
            return Ok(());
        }
        let at = Location::new(self.file.clone(), line.span().line);
        if let Some(section) = engine_section(line.text(0)) {
            self.current = None;
            self.begin_section(section, line, at)?;
            self.current = Some(section);
            return Ok(());
        }
        let scope = LineScope {
            resources: self.resources,
            notes: self.notes,
            at: &at,
            buffer_size: self.files.buffer_size(),
        };
        let EngineDraft { agent, messages, groups } = &mut self.sections;
        match (self.current, agent, messages.last_mut(), groups.last_mut()) {
            (Some(EngineSection::Agent), Some(agent), ..) => {
                if line.keyword().is("log") {
                    self.files.note_log_target(line.text(1), line.span_at(1));
                }
                agent.line(&scope, line)
            }
            (Some(EngineSection::Message), _, Some(message), _) => {
                let (read, mut words) = keyword(&SPOE_MESSAGE_KEYWORDS, "spoe-message", line)?;
                read(message, &scope, &mut words)
            }
            (Some(EngineSection::Group), .., Some(group)) => {
                let (read, mut words) = keyword(&SPOE_GROUP_KEYWORDS, "spoe-group", line)?;
                read(group, &scope, &mut words)
            }
            _ => {
                let word = line.keyword();
                let message = format!("unknown keyword '{word}' out of section.");
                let nearest = did_you_mean(word.text(), engine_section_names());
                let diagnostic = Diagnostic::alert(word.span(), message).layout(Layout::ParsingTight);
                Err(Box::new(diagnostic.suggestion(nearest)))
            }
        }
    }

    /// Reads `[<name>]`. The scope ends at the next one.
    fn begin_scope(&mut self, line: &Line) -> Parsed {
        self.current = None;
        self.in_scope = false;
        let word = line.keyword();
        if let Some(extra) = line.get(1) {
            let message = format!("'{extra}' is not permitted after the scope declaration '{word}'.");
            return Err(fault(extra.span(), message));
        }
        let name = word.text().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let Some(name) = name else {
            return Err(fault(word.span(), "a scope declaration ends with ']'."));
        };
        if name.is_empty() {
            return Err(fault(word.span(), "empty scope name is forbidden."));
        }
        if let Some(stranger) = stranger_in(name) {
            let message = format!("character '{stranger}' is not permitted in a scope name.");
            return Err(fault(word.span(), message));
        }
        if self.scopes.len() < MAX_SCOPES {
            self.scopes.push(name.into());
        }
        self.in_scope = self.scope == Some(name);
        Ok(())
    }

    fn begin_section(&mut self, section: EngineSection, line: &Line, at: Location) -> Parsed {
        let keyword = line.keyword();
        let mut words = Words::new(line, 1);
        let name = words.expect(&format!("missing name for {keyword} section."))?;
        words.end(keyword.text())?;
        if let Some(stranger) = stranger_in(name.text()) {
            let message = format!("character '{stranger}' is not permitted in '{keyword}' name '{name}'.");
            return Err(tight(fault(name.span(), message)));
        }
        let EngineDraft { agent, messages, groups } = &mut self.sections;
        let twin = match section {
            EngineSection::Agent => {
                if let Some(other) = agent {
                    let message = format!("another spoe-agent section was declared at {}.", other.at);
                    return Err(fault(keyword.span(), message));
                }
                *agent = Some(AgentDraft::new(name, at));
                return Ok(());
            }
            EngineSection::Message => messages.iter().find(|other| other.is(name)).map(|other| &other.at),
            EngineSection::Group => groups.iter().find(|other| other.is(name)).map(|other| &other.at),
        };
        if let Some(twin) = twin {
            let message =
                format!("{keyword} section '{name}' has the same name as another one declared at {twin}.");
            return Err(fault(name.span(), message));
        }
        if messages.len().max(groups.len()) >= MAX_SECTIONS {
            return Err(fault(keyword.span(), format!("more than {MAX_SECTIONS} {keyword} sections.")));
        }
        match section {
            EngineSection::Group => groups.push(GroupDraft::new(name, at)),
            _ => messages.push(MessageDraft::new(name, at)),
        }
        Ok(())
    }
}

/// The reader of a line's keyword, and the words after it.
fn keyword<'l, F: Copy>(table: &'static Table<F>, section: &str, line: &'l Line) -> Parsed<(F, Words<'l>)> {
    if let Some((row, count)) = table.find_phrase(line, 0)
        && let Handler::Ready(read) = row.handler
    {
        return Ok((read, Words::new(line, count)));
    }
    let word = line.keyword();
    let known = table.rows().map(|row| row.name).chain(engine_section_names());
    let message = format!("unknown keyword '{word}' in {section} section.");
    Err(suggesting(fault(word.span(), message), did_you_mean(word.text(), known)))
}

/// Reads names into a list. Refuses one that the list has already.
pub(super) fn read_names(list: &mut Vec<super::WrittenName>, kind: &str, words: &mut Words<'_>) -> Parsed {
    while let Some(word) = words.take() {
        if list.iter().any(|known| *known.text == *word.text()) {
            return Err(fault(word.span(), format!("{kind} '{word}' already used.")));
        }
        if list.len() >= MAX_SECTIONS {
            return Err(fault(word.span(), format!("more than {MAX_SECTIONS} names.")));
        }
        list.push(super::WrittenName::of(word));
    }
    Ok(())
}

/// Reports a fault of the whole file.
pub(super) fn alert(diagnostics: &mut Diagnostics, span: Span, message: String, nearest: Option<&str>) {
    diagnostics.push(Diagnostic::alert(span, message).suggestion(nearest.map(str::to_owned)));
}
