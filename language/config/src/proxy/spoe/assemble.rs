//! An engine from the sections of its file: resolves names, and checks that arguments are available at their events.

use std::collections::HashMap;
use std::sync::Arc;

use weir_expr::{ArgKind, EvaluationPoints, Reference, VariableId, VariableNames};
use weir_syntax::{Diagnostic, Diagnostics, Layout, Word, did_you_mean};

use super::agent::AgentDraft;
use super::file::alert;
use super::message::{GroupDraft, MessageDraft};
use super::{WrittenName, stranger_in_variable};
use weir_model::{LogTargets, SpoeAgent, SpoeEngine, SpoeEventTable, SpoeGroup, SpoeMessage};

/// The surroundings of the engine.
pub(super) struct Scene<'s> {
    /// The name on the `filter` line.
    pub(super) name: Option<&'s Word>,
    pub(super) file: &'s str,
    /// The name of the proxy.
    pub(super) proxy: &'s str,
    /// Whether the proxy accepts connections.
    pub(super) is_frontend: bool,
    pub(super) variables: &'s VariableNames,
}

/// The engine. None if the agent lacks something; every fault is in `diagnostics`.
pub(super) fn engine(
    agent: AgentDraft,
    messages: Vec<MessageDraft>,
    groups: Vec<GroupDraft>,
    log_targets: LogTargets,
    scene: &Scene<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<SpoeEngine> {
    messages.iter().for_each(MessageDraft::seal);
    let mut used = UsedMessages { known: &messages, order: Vec::new() };
    let events = events(&agent, &mut used, scene, diagnostics);
    let groups = used_groups(&agent, &groups, &mut used, diagnostics);
    let order = used.order;
    if order.is_empty() {
        let message = format!(
            "Proxy '{}': No message/group used by SPOE agent '{}' declared at {}.",
            scene.proxy, agent.name.text, agent.at
        );
        diagnostics.push(Diagnostic::warning(agent.name.span, message).layout(Layout::Bare));
    }
    if agent.processing_timeout.is_none() {
        let message = format!(
            "Proxy '{}': missing 'processing' timeout for SPOE agent '{}' declared at {}.\n   | While not properly invalid, you will certainly encounter various problems\n   | with such a configuration. To fix this, please ensure it is set to a non-zero value.",
            scene.proxy, agent.name.text, agent.at
        );
        diagnostics.push(Diagnostic::warning(agent.name.span, message).layout(Layout::Bare));
    }
    let agent = finished_agent(agent, events, log_targets, scene, diagnostics)?;
    let mut messages: Vec<Option<MessageDraft>> = messages.into_iter().map(Some).collect();
    let messages = order.iter().filter_map(|index| messages.get_mut(*index)?.take());
    let messages = messages.map(finished_message).collect();
    let name = scene.name.map_or_else(|| agent.name.clone(), |name| name.text().into());
    Some(SpoeEngine { name, file: scene.file.into(), agent, messages, groups })
}

/// The messages of the file, and the used ones in the order of their first use.
struct UsedMessages<'m> {
    known: &'m [MessageDraft],
    order: Vec<usize>,
}

impl UsedMessages<'_> {
    /// The position among the used messages, and the message. Reports an unknown name; `user` is the section that has it.
    fn resolve(
        &mut self,
        name: &WrittenName,
        user: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<(u16, usize)> {
        let Some(index) = self.known.iter().position(|message| message.name.text == name.text) else {
            let nearest = did_you_mean(&name.text, self.known.iter().map(|message| &*message.name.text));
            let message = format!("{user} uses the undefined SPOE message '{}'.", name.text);
            alert(diagnostics, name.span, message, nearest);
            return None;
        };
        let position = self.order.iter().position(|used| *used == index).unwrap_or_else(|| {
            self.order.push(index);
            self.order.len() - 1
        });
        // The number of sections is limited.
        Some((u16::try_from(position).ok()?, index))
    }
}

fn events(
    agent: &AgentDraft,
    used: &mut UsedMessages<'_>,
    scene: &Scene<'_>,
    diagnostics: &mut Diagnostics,
) -> SpoeEventTable {
    let mut events = SpoeEventTable::default();
    let user = format!("SPOE agent '{}'", agent.name.text);
    for name in &agent.messages {
        let Some((position, index)) = used.resolve(name, &user, diagnostics) else { continue };
        let message = &used.known[index];
        let mut warn = |text: String| {
            let text = format!("Proxy '{}': {text} at {}.", scene.proxy, message.at);
            diagnostics.push(Diagnostic::warning(message.name.span, text).layout(Layout::Bare));
        };
        let Some(draft) = &message.event else {
            warn(format!("Ignore SPOE message '{}' without event", name.text));
            continue;
        };
        if draft.event.is_of_frontend() && !scene.is_frontend {
            warn("frontend event used on a backend proxy".to_owned());
            continue;
        }
        check_event(message, scene, diagnostics);
        events.add(draft.event, position);
    }
    events
}

/// Reports arguments that are not available at the message's event, and a test that never matches there.
fn check_event(message: &MessageDraft, scene: &Scene<'_>, diagnostics: &mut Diagnostics) {
    let Some(draft) = &message.event else { return };
    let point = draft.event.point(scene.is_frontend);
    let (event, place) = (draft.event.name(), point.name());
    for (argument, span) in &message.arguments {
        if !argument.value.points().contains(point) {
            let text = format!(
                "argument '{}' of SPOE message '{}' is not available at '{event}' ('{place}').",
                argument.value.decl().name,
                message.name.text
            );
            alert(diagnostics, *span, text, None);
        }
    }
    let condition = draft.condition.as_ref();
    if let Some((name, fetch)) =
        condition.and_then(|condition| condition.conflict(EvaluationPoints::only(point)))
    {
        let subject = if name.is_empty() { "anonymous acl".to_owned() } else { format!("acl '{name}'") };
        let text = format!(
            "{subject} will never match at '{event}' because it uses keyword '{fetch}' which is incompatible with '{place}'"
        );
        diagnostics.warning(draft.span, text);
    }
}

fn used_groups(
    agent: &AgentDraft,
    groups: &[GroupDraft],
    used: &mut UsedMessages<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<SpoeGroup> {
    let mut owners: HashMap<u16, &GroupDraft> = HashMap::new();
    let mut finished = Vec::new();
    for name in &agent.groups {
        let Some(group) = groups.iter().find(|group| group.name.text == name.text) else {
            let nearest = did_you_mean(&name.text, groups.iter().map(|group| &*group.name.text));
            let message =
                format!("SPOE agent '{}' uses the undefined SPOE group '{}'.", agent.name.text, name.text);
            alert(diagnostics, name.span, message, nearest);
            continue;
        };
        let user = format!("SPOE group '{}'", name.text);
        let mut messages = Vec::new();
        for member in &group.messages {
            let Some((position, _)) = used.resolve(member, &user, diagnostics) else { continue };
            if let Some(other) = owners.insert(position, group) {
                let message = format!(
                    "SPOE message '{}' already belongs to the SPOE group '{}' declared at {}.",
                    member.text, other.name.text, other.at
                );
                alert(diagnostics, member.span, message, None);
            }
            messages.push(position);
        }
        finished.push(SpoeGroup { name: name.text.clone(), messages });
    }
    finished
}

fn finished_agent(
    agent: AgentDraft,
    events: SpoeEventTable,
    log_targets: LogTargets,
    scene: &Scene<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<SpoeAgent> {
    let (name, span) = (agent.name.text, agent.name.span);
    let backend = agent.backend.or_else(|| {
        alert(diagnostics, span, format!("No backend declared for SPOE agent '{name}'."), None);
        None
    });
    let prefix = agent.prefix.map_or_else(|| name.clone(), |prefix| prefix.text);
    if stranger_in_variable(&prefix).is_some() {
        let message = format!(
            "Invalid variable prefix '{prefix}' for SPOE agent '{name}'. Use 'option var-prefix' to set it. Only \
             [a-zA-Z0-9_.] chars are supported."
        );
        alert(diagnostics, span, message, None);
        return None;
    }
    let mut intern = |variable: &WrittenName| -> Option<VariableId> {
        let full = format!("{prefix}.{}", variable.text);
        match scene.variables.intern(&format!("txn.{full}")) {
            Ok(known) => Some(known),
            Err(why) => {
                let message = format!("SPOE agent '{name}': failed to register variable {full} ({why}).");
                alert(diagnostics, variable.span, message, None);
                None
            }
        }
    };
    let mut variable = |name: &Option<WrittenName>| name.as_ref().and_then(&mut intern);
    let set_on_error = variable(&agent.set_on_error);
    let set_process_time = variable(&agent.set_process_time);
    let set_total_time = variable(&agent.set_total_time);
    let registered = agent.registered.iter().filter(|written| intern(written).is_some());
    let registered_names = registered.map(|written| format!("{prefix}.{}", written.text).into()).collect();
    Some(SpoeAgent {
        backend: Arc::new(Reference::new(ArgKind::Backend, Some(&backend?.text))),
        name,
        at: agent.at,
        variable_prefix: prefix,
        pipelining: agent.pipelining,
        continue_on_error: agent.continue_on_error,
        force_set_variables: agent.force_set_variables,
        set_on_error,
        set_process_time,
        set_total_time,
        registered_names,
        processing_timeout: agent.processing_timeout,
        max_frame_size: agent.max_frame_size,
        log_targets,
        dont_log_normal: agent.dont_log_normal,
        events,
    })
}

fn finished_message(draft: MessageDraft) -> SpoeMessage {
    let MessageDraft { name, at, arguments, event, .. } = draft;
    let (event, condition) = event.map_or((None, None), |draft| (Some(draft.event), draft.condition));
    let arguments = arguments.into_iter().map(|(argument, _)| argument).collect();
    SpoeMessage { name: name.text, at, arguments, event, condition }
}
