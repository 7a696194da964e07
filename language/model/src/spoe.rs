//! Engines that offload the processing of streams to agents: the files that `filter spoe` lines name (SPOE 1.2, section 2).
//!
//! An engine has one agent, its messages and its groups. A message is sent at an event, or as a part of a group by the action
//! `send-spoe-group`. The backend of the agent is in [`Mode::Spop`](crate::Mode::Spop).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use weir_expr::{Condition, EvaluationPoint, Expr, Location, Needs, Reference, VariableId};
use weir_fingerprint::{Canonical, FormEncoder};

use super::log::LogTargets;
use super::visit::Visit;

/// One engine: `filter spoe [engine <name>] config <file>`.
#[derive(Clone, Debug, Canonical)]
pub struct SpoeEngine {
    /// The name that rules use: that of the `filter` line, else the agent's. Unique among the filters of a proxy.
    pub name: Box<str>,
    /// The file as written on the `filter` line.
    #[canonical(skip = "a place in a file")]
    pub file: Box<str>,
    pub agent: SpoeAgent,
    /// The messages that the agent or one of its groups uses.
    pub messages: Vec<SpoeMessage>,
    /// The groups that the agent handles.
    pub groups: Vec<SpoeGroup>,
}

/// A `spoe-agent` section.
#[derive(Clone, Debug, Canonical)]
pub struct SpoeAgent {
    pub name: Box<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `use-backend`. The target is the position of the backend, set when the configuration is finished.
    pub backend: Arc<Reference>,
    /// `option var-prefix`, by default the agent's name: the part of variable names between the scope and the name that the agent sends.
    pub variable_prefix: Box<str>,
    /// `option pipelining`, on by default: a connection carries several exchanges at once.
    pub pipelining: bool,
    /// `option continue-on-error`: an error does not disable the engine for the rest of the transaction.
    pub continue_on_error: bool,
    /// `option force-set-var`: the agent may set variables that no expression of the configuration mentions.
    pub force_set_variables: bool,
    /// `option set-on-error`: receives the code of an error (SPOE 1.2, 2.2). In the scope of the transaction, with the prefix.
    pub set_on_error: Option<VariableId>,
    /// `option set-process-time`: receives the duration of the last event or group in milliseconds. In the scope of the transaction.
    pub set_process_time: Option<VariableId>,
    /// `option set-total-time`: receives the sum of all durations in milliseconds. In the scope of the transaction.
    pub set_total_time: Option<VariableId>,
    /// `register-var-names`: names that the agent may set, with the prefix and without a scope. They are interned.
    pub registered_names: Vec<Box<str>>,
    /// `timeout processing`: the longest duration of one event or group. None for no limit.
    pub processing_timeout: Option<Duration>,
    /// `max-frame-size` in bytes, without the four bytes of the length. None for the size of a buffer minus 4.
    pub max_frame_size: Option<u32>,
    /// `log`.
    pub log_targets: LogTargets,
    /// `option dontlog-normal`: exchanges without an error are not logged.
    pub dont_log_normal: bool,
    /// The messages of each event.
    pub events: SpoeEventTable,
}

/// The positions of the messages of each event, in sending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Canonical)]
pub struct SpoeEventTable([Vec<u16>; SpoeEvent::ALL.len()]);

impl SpoeEventTable {
    /// The positions in [`SpoeEngine::messages`] of the messages that are sent at an event.
    pub fn of(&self, event: SpoeEvent) -> &[u16] {
        &self.0[event as usize]
    }

    /// Adds a message to an event.
    pub fn add(&mut self, event: SpoeEvent, message: u16) {
        self.0[event as usize].push(message);
    }

    /// Whether a message is sent at any event.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Vec::is_empty)
    }
}

/// A `spoe-message` section.
#[derive(Clone, Debug, Canonical)]
pub struct SpoeMessage {
    pub name: Box<str>,
    /// Location of the section.
    #[canonical(skip = "a place in a file")]
    pub at: Location,
    /// `args`: a message has one value for each, NULL for an expression without a result.
    pub arguments: Vec<SpoeArgument>,
    /// `event`. None for a message that only groups send.
    pub event: Option<SpoeEvent>,
    /// The condition of `event`. As in HAProxy, it applies in a group, too. None for always.
    pub condition: Option<Condition>,
}

/// One argument of a message.
#[derive(Clone, Debug, Canonical)]
pub struct SpoeArgument {
    /// The name in the frame. May be empty.
    pub name: Box<str>,
    pub value: Arc<Expr>,
}

/// A `spoe-group` section.
#[derive(Clone, Debug, PartialEq, Eq, Canonical)]
pub struct SpoeGroup {
    pub name: Box<str>,
    /// The positions of its messages in [`SpoeEngine::messages`], in sending order.
    pub messages: Vec<u16>,
}

impl SpoeEngine {
    /// Whether a message of the engine reads the body of requests.
    pub fn reads_request_body(&self) -> bool {
        self.messages.iter().any(SpoeMessage::reads_request_body)
    }

    /// Whether a message of the engine reads the body of responses.
    pub fn reads_response_body(&self) -> bool {
        self.messages.iter().any(SpoeMessage::reads_response_body)
    }

    /// Visits the references in arguments and conditions. The backend of the agent is not among them.
    pub fn visit_references(&self, visit: Visit<'_>) {
        for message in &self.messages {
            message.arguments.iter().for_each(|argument| argument.value.visit_references(visit));
            if let Some(condition) = &message.condition {
                condition.visit_all_references(visit);
            }
        }
    }
}

impl SpoeMessage {
    /// Whether an argument or the condition reads the body of the request.
    pub fn reads_request_body(&self) -> bool {
        self.needs(Needs::HTTP_REQUEST_BODY)
    }

    /// Whether an argument or the condition reads the body of the response.
    pub fn reads_response_body(&self) -> bool {
        self.needs(Needs::HTTP_RESPONSE_BODY)
    }

    fn needs(&self, needs: Needs) -> bool {
        self.condition.as_ref().is_some_and(|condition| condition.needs(needs))
            || self.arguments.iter().any(|argument| argument.value.decl().needs.intersects(needs))
    }
}

/// A moment in the life of a stream at which messages are sent (SPOE 1.2, 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Canonical)]
#[repr(u8)]
pub enum SpoeEvent {
    /// `on-client-session`: the session of a client begins.
    ClientSession,
    /// `on-frontend-tcp-request`: before the frontend's `tcp-request content` rules.
    FrontendTcpRequest,
    /// `on-backend-tcp-request`: before the backend's `tcp-request content` rules.
    BackendTcpRequest,
    /// `on-frontend-http-request`: before the frontend's `http-request` rules.
    FrontendHttpRequest,
    /// `on-backend-http-request`: before the backend's `http-request` rules.
    BackendHttpRequest,
    /// `on-server-session`: the session with a server begins.
    ServerSession,
    /// `on-tcp-response`: before `tcp-response content` rules.
    TcpResponse,
    /// `on-http-response`: before `http-response` rules.
    HttpResponse,
}

impl SpoeEvent {
    /// Every event, in the order of a stream.
    pub const ALL: [SpoeEvent; 8] = [
        SpoeEvent::ClientSession,
        SpoeEvent::FrontendTcpRequest,
        SpoeEvent::BackendTcpRequest,
        SpoeEvent::FrontendHttpRequest,
        SpoeEvent::BackendHttpRequest,
        SpoeEvent::ServerSession,
        SpoeEvent::TcpResponse,
        SpoeEvent::HttpResponse,
    ];

    /// The name after `event`.
    pub const fn name(self) -> &'static str {
        match self {
            SpoeEvent::ClientSession => "on-client-session",
            SpoeEvent::FrontendTcpRequest => "on-frontend-tcp-request",
            SpoeEvent::BackendTcpRequest => "on-backend-tcp-request",
            SpoeEvent::FrontendHttpRequest => "on-frontend-http-request",
            SpoeEvent::BackendHttpRequest => "on-backend-http-request",
            SpoeEvent::ServerSession => "on-server-session",
            SpoeEvent::TcpResponse => "on-tcp-response",
            SpoeEvent::HttpResponse => "on-http-response",
        }
    }

    /// The event with this name.
    pub fn from_name(name: &str) -> Option<SpoeEvent> {
        SpoeEvent::ALL.into_iter().find(|event| event.name() == name)
    }

    /// Whether the event happens in the frontend of a stream. It never happens in a `backend` section.
    pub fn is_of_frontend(self) -> bool {
        matches!(
            self,
            SpoeEvent::ClientSession | SpoeEvent::FrontendTcpRequest | SpoeEvent::FrontendHttpRequest
        )
    }

    /// The point where expressions of the event are evaluated: in a proxy that accepts connections, or in a `backend` section.
    ///
    /// As in HAProxy, an engine of a frontend has the information of the frontend only, at all events.
    pub fn point(self, in_frontend: bool) -> EvaluationPoint {
        match (self, in_frontend) {
            (SpoeEvent::ClientSession, _) => EvaluationPoint::FrontendConnection,
            (SpoeEvent::ServerSession, _) => EvaluationPoint::ServerSource,
            (SpoeEvent::FrontendTcpRequest, _) | (SpoeEvent::BackendTcpRequest, true) => {
                EvaluationPoint::FrontendRequestContent
            }
            (SpoeEvent::BackendTcpRequest, false) => EvaluationPoint::BackendRequestContent,
            (SpoeEvent::FrontendHttpRequest, _) | (SpoeEvent::BackendHttpRequest, true) => {
                EvaluationPoint::FrontendRequestHeader
            }
            (SpoeEvent::BackendHttpRequest, false) => EvaluationPoint::BackendRequestHeader,
            (SpoeEvent::TcpResponse, true) => EvaluationPoint::FrontendResponseContent,
            (SpoeEvent::TcpResponse, false) => EvaluationPoint::BackendResponseContent,
            (SpoeEvent::HttpResponse, true) => EvaluationPoint::FrontendResponseHeader,
            (SpoeEvent::HttpResponse, false) => EvaluationPoint::BackendResponseHeader,
        }
    }
}

/// The arguments of the action `send-spoe-group`.
#[derive(Clone, Debug)]
pub struct SpoeGroupUse {
    /// The name of an engine of the same proxy.
    pub engine: Box<str>,
    /// The name of a group of that engine.
    pub group: Box<str>,
    target: OnceLock<(usize, usize)>,
}

impl SpoeGroupUse {
    /// An unresolved use.
    pub fn new(engine: &str, group: &str) -> Self {
        SpoeGroupUse { engine: engine.into(), group: group.into(), target: OnceLock::new() }
    }

    /// Sets the positions of the filter among those of the proxy, and of the group in its engine. Only the first call has an effect.
    pub fn resolve(&self, filter: usize, group: usize) {
        let _ = self.target.set((filter, group));
    }

    /// The positions of the filter in [`Proxy::filters`](crate::Proxy::filters) and of the group in [`SpoeEngine::groups`]. Always set in a
    /// configuration without alerts.
    pub fn target(&self) -> Option<(usize, usize)> {
        self.target.get().copied()
    }
}

/// Encoded as the names: the positions follow from them.
impl Canonical for SpoeGroupUse {
    fn encode(&self, out: &mut FormEncoder<'_>) {
        let SpoeGroupUse { engine, group, target: _ } = self;
        engine.encode(out);
        group.encode(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_name_and_numbered_in_order() {
        for (number, event) in SpoeEvent::ALL.into_iter().enumerate() {
            assert_eq!(SpoeEvent::from_name(event.name()), Some(event));
            assert_eq!(event as usize, number);
        }
        assert_eq!(SpoeEvent::from_name("on-nothing"), None);
        let mut table = SpoeEventTable::default();
        assert!(table.is_empty());
        table.add(SpoeEvent::HttpResponse, 7);
        table.add(SpoeEvent::HttpResponse, 3);
        assert_eq!(table.of(SpoeEvent::HttpResponse), [7, 3]);
        assert!(table.of(SpoeEvent::ClientSession).is_empty() && !table.is_empty());
    }
}
