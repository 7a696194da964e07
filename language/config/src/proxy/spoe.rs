//! `filter spoe` and `send-spoe-group`: engines that offload the processing of streams to agents (SPOE 1.2, section 2).
//!
//! The rows of the filter and of the action are in the crate that runs them. They read their arguments with [`read_engine`] and
//! [`read_group_use`]. An engine has a file of its own, in the syntax of configuration files, with scopes:
//!
//! ```text
//! filter spoe engine e config FILE ─► [e] ─► spoe-agent ──► settings, use-backend
//!                                              ├─ messages ─► spoe-message ─► args, event, acl
//!                                              └─ groups ───► spoe-group ───► messages
//! ```
//!
//! Backends and names of groups are resolved later: backends may follow, and an action may precede the engine that it names.

mod agent;
mod assemble;
mod file;
mod message;
#[cfg(test)]
mod tests;

pub(crate) use agent::SPOE_AGENT_KEYWORDS;
pub(crate) use message::{SPOE_GROUP_KEYWORDS, SPOE_MESSAGE_KEYWORDS};

use std::sync::Arc;

use weir_syntax::{Diagnostic, Diagnostics, Layout, Span, Word};

use super::resolve::ProxyPositions;
use super::{Draft, ProxyParser};
use crate::draft::action::ActionContext;
use crate::draft::filter::FilterContext;
use crate::draft::spoe::{PendingEngine, PendingGroupUse};
use crate::words::{Fault, Parsed, Words, fault};
use weir_model::{Mode, SpoeEngine, SpoeGroupUse};

/// Reads the arguments of `filter spoe`: `[engine <name>] config <file>`, to the end of the line.
///
/// Reads the file too. Faults in the file are reported at their places in it.
///
/// # Errors
/// A fault of the line, also if the file has faults. Faults that need the whole configuration (the backend of the agent, duplicate names)
/// are reported at the end of the section or of the configuration.
pub fn read_engine(context: &mut FilterContext<'_, '_>, words: &mut Words<'_>) -> Parsed<SpoeEngine> {
    let (mut name, mut path) = (None, None);
    while let Some(word) = words.take() {
        let value = match word.text() {
            "engine" => &mut name,
            "config" => &mut path,
            other => {
                let nearest = weir_syntax::did_you_mean(other, ["engine", "config"]);
                let message = format!("'filter' : unknown keyword '{word}'");
                return Err(crate::words::suggesting(fault(word.span(), message), nearest));
            }
        };
        *value = Some(words.expect(&format!("'filter' : 'spoe' : '{word}' option without value"))?);
    }
    let Some(path) = path else {
        return Err(words.fault("'filter' : 'spoe' : missing config file"));
    };
    if let Some(stranger) = name.and_then(|name| stranger_in(name.text()).map(|stranger| (name, stranger))) {
        let (name, stranger) = stranger;
        let message =
            format!("'filter' : 'spoe' : character '{stranger}' is not permitted in an engine's name.");
        return Err(fault(name.span(), message));
    }
    let engine = file::read(context.line, name, path)?;
    context.line.draft.pending.engines.push(PendingEngine {
        name: engine.name.clone(),
        agent: engine.agent.name.clone(),
        backend: Arc::clone(&engine.agent.backend),
        at: engine.agent.at.to_string(),
        span: name.unwrap_or(path).span(),
    });
    Ok(engine)
}

/// Reads the arguments of `send-spoe-group`: `<engine> <group>`. The proxy must have the engine, on any line.
///
/// # Errors
/// A missing argument. Unknown names are reported at the end of the section.
pub fn read_group_use(
    context: &mut ActionContext<'_, '_>,
    words: &mut Words<'_>,
) -> Parsed<Arc<SpoeGroupUse>> {
    let expects = "expects 2 arguments: <engine-id> <group-id>.";
    let (engine, group) = (words.expect(expects)?, words.expect(expects)?);
    let used = Arc::new(SpoeGroupUse::new(engine.text(), group.text()));
    context.line.draft.pending.spoe_groups.push(PendingGroupUse {
        used: Arc::clone(&used),
        points: context.points,
        engine: engine.span(),
        group: group.span(),
    });
    Ok(used)
}

/// Checks the names of a section's engines, and resolves the groups of its rules.
pub(super) fn settle(draft: &mut Draft, diagnostics: &mut Diagnostics) {
    let engines = &draft.pending.engines;
    for (index, engine) in engines.iter().enumerate() {
        if engines[..index].iter().any(|other| other.name == engine.name) {
            let message =
                format!("Proxy '{}': duplicated name for SPOE engine '{}'.", draft.proxy.name, engine.name);
            diagnostics.push(Diagnostic::alert(engine.span, message).layout(Layout::Bare));
        }
    }
    for pending in std::mem::take(&mut draft.pending.spoe_groups) {
        if let Err(fault) = settle_group(draft, &pending) {
            diagnostics.push(*fault);
        }
    }
}

fn settle_group(draft: &Draft, pending: &PendingGroupUse) -> Parsed {
    let PendingGroupUse { used, points, .. } = pending;
    let SpoeGroupUse { engine: engine_name, group: group_name, .. } = &**used;
    let proxy = &draft.proxy;
    let engines =
        || proxy.filters.iter().enumerate().filter_map(|(at, filter)| Some((at, filter.facts().spoe?)));
    let Some((filter, engine)) = engines().find(|(_, engine)| engine.name == *engine_name) else {
        if draft.refused.engines {
            return Ok(());
        }
        let message = format!(
            "Proxy '{}': unable to find SPOE engine '{engine_name}' used by the send-spoe-group '{group_name}'.",
            proxy.name
        );
        let nearest = weir_syntax::did_you_mean(engine_name, engines().map(|(_, engine)| &*engine.name));
        return Err(bare(pending.engine, message, nearest));
    };
    let Some(position) = engine.groups.iter().position(|group| group.name == *group_name) else {
        let message = format!(
            "Proxy '{}': unable to find SPOE group '{group_name}' into SPOE engine '{engine_name}' configuration.",
            proxy.name
        );
        let nearest = weir_syntax::did_you_mean(group_name, engine.groups.iter().map(|group| &*group.name));
        return Err(bare(pending.group, message, nearest));
    };
    let messages = engine.groups[position].messages.iter().map(|index| &engine.messages[usize::from(*index)]);
    for message in messages {
        let late = message.arguments.iter().find(|argument| !argument.value.points().intersects(*points));
        if let Some(argument) = late {
            let message = format!(
                "Proxy '{}': Invalid SPOE message '{}' used by SPOE group '{group_name}' at {}: its argument '{}' is not available in this rule.",
                proxy.name,
                message.name,
                message.at,
                argument.value.decl().name
            );
            return Err(bare(pending.group, message, None));
        }
    }
    used.resolve(filter, position);
    Ok(())
}

fn bare(span: Span, message: String, nearest: Option<&str>) -> Fault {
    let diagnostic = Diagnostic::alert(span, message).layout(Layout::Bare);
    Box::new(diagnostic.suggestion(nearest.map(str::to_owned)))
}

impl ProxyParser<'_> {
    /// Resolves the backends of agents. A backend in `mode tcp` becomes one in `mode spop` (manual, "mode").
    ///
    /// Must run before the checks that depend on modes. HAProxy converts a backend when it checks the proxy of the engine, so there the
    /// result depends on the order of sections. Here it does not.
    pub(super) fn settle_engines(&mut self, names: &ProxyPositions, diagnostics: &mut Diagnostics) {
        for index in 0..self.finished.len() {
            for engine in std::mem::take(&mut self.finished[index].pending.engines) {
                if let Err(fault) = self.settle_agent(index, &engine, names) {
                    diagnostics.push(*fault);
                }
            }
        }
    }

    fn settle_agent(&mut self, index: usize, engine: &PendingEngine, names: &ProxyPositions) -> Parsed {
        let proxy = Arc::clone(&self.finished[index].proxy.name);
        let name = engine.backend.name.as_deref().unwrap_or_default();
        let used = format!("used by SPOE agent '{}' declared at {}", engine.agent, engine.at);
        let Some(backend) = names.backend(name) else {
            let message = format!("Proxy '{proxy}': unknown backend '{name}' {used}.");
            return Err(bare(engine.span, message, names.nearest_backend(name).as_deref()));
        };
        let settings = &mut self.finished[backend.get()].proxy.settings;
        if !matches!(settings.mode, Mode::Tcp | Mode::Spop) {
            let message = format!("Proxy '{proxy}': backend '{name}' {used} must use SPOP mode.");
            let mut fault = bare(engine.span, message, None);
            fault.note = Some("write 'mode spop' in the backend".to_owned());
            return Err(fault);
        }
        settings.mode = Mode::Spop;
        engine.backend.resolve((backend.0, 0));
        Ok(())
    }
}

/// The first character that a name of an engine or a scope may not have.
fn stranger_in(name: &str) -> Option<char> {
    name.chars().find(|character| !crate::words::is_name_character(*character))
}

/// The first character that a part of a variable's name may not have.
fn stranger_in_variable(name: &str) -> Option<char> {
    name.chars().find(|character| !character.is_ascii_alphanumeric() && !matches!(character, '_' | '.'))
}

/// A name in a line, to be resolved when the file has ended.
#[derive(Clone, Debug)]
struct WrittenName {
    text: Box<str>,
    span: Span,
}

impl WrittenName {
    fn of(word: &Word) -> Self {
        WrittenName { text: word.text().into(), span: word.span() }
    }
}
