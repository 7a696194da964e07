//! The state of engines in a stream (SPOE), and the parent of the stream of an exchange. The engines act in
//! [`crate::spoe`].

use std::cell::Cell;
use std::rc::Rc;

use weir_containers::RcRef;
use weir_expr::{Value, VariableId, VariableScope};
use weir_model::SpoeEvent;
use weir_mux::agent::AgentFault;
use weir_spop::AgentLimits;

use crate::errors::MessageDirection;
use crate::instance::WorkerInstance;
use crate::instance::engine::AgentEngine;
use crate::session::ClientSession;
use crate::stream::attached::Attached;
use crate::stream::stream_variables::{StreamVariables, lasts};
use crate::stream::{ProxySide, Stream};

/// Whether an engine of one of the stream's proxies has messages for one of these events.
#[inline]
pub(crate) fn has_events(stream: &Stream, events: &[SpoeEvent]) -> bool {
    let wanted = events.iter().fold(0, |bits, event| bits | 1 << *event as u8);
    (stream.frontend.engine_events | stream.backend.engine_events) & wanted != 0
}

/// The events when the session with a server begins.
pub(crate) const SERVER_SESSION: &[SpoeEvent] = &[SpoeEvent::ServerSession, SpoeEvent::TcpResponse];

/// The events before the `content` rules of one side.
pub(crate) const fn before_content(side: ProxySide) -> &'static [SpoeEvent] {
    match side {
        ProxySide::Frontend => &[SpoeEvent::ClientSession, SpoeEvent::FrontendTcpRequest],
        ProxySide::Backend => &[SpoeEvent::BackendTcpRequest],
    }
}

/// The events before the `http-request` rules of one side.
pub(crate) const fn before_request_rules(side: ProxySide) -> &'static [SpoeEvent] {
    match side {
        ProxySide::Frontend => &[SpoeEvent::FrontendHttpRequest],
        ProxySide::Backend => &[SpoeEvent::BackendHttpRequest],
    }
}

/// The state of one engine in one stream, from its first exchange on.
#[derive(Debug)]
pub(crate) struct EngineState {
    /// The index of the engine's proxy, and the position of its filter there.
    engine: (usize, usize),
    /// An exchange failed, and `continue-on-error` is not set.
    is_off: bool,
    /// Time that the engine has cost the stream so far, in milliseconds.
    total_ms: u64,
}

impl EngineState {
    /// Whether an engine does not act any more in a stream.
    pub(crate) fn is_off(stream: &Stream, engine: (usize, usize)) -> bool {
        let is_off = |state: &EngineState| state.engine == engine && state.is_off;
        stream.attached.as_ref().is_some_and(|attached| attached.engines.iter().any(is_off))
    }

    /// The state of an engine in a stream, created on the first call.
    pub(crate) fn of(stream: &mut Stream, engine: (usize, usize)) -> &mut EngineState {
        let states = &mut Attached::of_stream(stream).engines;
        let at = states.iter().position(|state| state.engine == engine).unwrap_or(states.len());
        if at == states.len() {
            states.push(EngineState { engine, is_off: false, total_ms: 0 });
        }
        &mut states[at]
    }

    /// Records an exchange of `took_ms` milliseconds. Returns the total of the stream.
    pub(crate) fn note(&mut self, ends: bool, took_ms: u64) -> u64 {
        self.is_off = ends;
        self.total_ms = self.total_ms.saturating_add(took_ms);
        self.total_ms
    }
}

/// The parent and the engine of an exchange, for its stream.
pub(crate) struct AgentCall {
    pub(crate) engine: RcRef<WorkerInstance, AgentEngine>,
    pub(crate) parent: LentScopes,
    /// The fault of the last connection to an agent.
    pub(crate) fault: Cell<Option<AgentFault>>,
    /// No messages follow: the connection is opened before the first exchange.
    pub(crate) is_warming: bool,
}

/// The call in the stream of an exchange. `None` in other streams.
pub(crate) fn call(stream: &Stream) -> Option<&AgentCall> {
    stream.attached.as_ref()?.call.as_deref()
}

/// Whether the stream only opens a connection to an agent.
pub(crate) fn is_warming(stream: &Stream) -> bool {
    call(stream).is_some_and(|call| call.is_warming)
}

/// The part of a parent that the rules of an agent's backend see.
pub(crate) struct LentScopes {
    pub(crate) session: Rc<ClientSession>,
    pub(crate) variables: StreamVariables,
    pub(crate) processed: MessageDirection,
}

/// The parent's data, in the stream of an exchange. `None` in other streams.
pub(crate) fn parent(stream: &mut Stream) -> Option<&mut LentScopes> {
    Some(&mut stream.attached.as_mut()?.call.as_mut()?.parent)
}

/// What to negotiate on a new connection to an agent.
pub(crate) fn connection_limits(stream: &Stream) -> AgentLimits<'_> {
    let engine = call(stream).map(|call| &*call.engine);
    AgentLimits {
        max_frame_size: engine.map_or(weir_spop::hello::MIN_FRAME_SIZE, |engine| engine.frame_size),
        pipelining: engine.is_some_and(|engine| engine.config.agent.pipelining),
        engine_id: engine.map_or("", |engine| &engine.id),
        healthcheck: false,
    }
}

/// The reuse key of connections for the stream of an exchange. 0 for other streams.
pub(crate) fn connection_key(stream: &Stream) -> u64 {
    call(stream).map_or(0, |call| call.engine.key)
}

/// How many exchanges the next connection for this stream's engine may carry at once.
pub(crate) fn places(stream: &Stream) -> u32 {
    if connection_limits(stream).pipelining { weir_mux::agent::MAX_EXCHANGES } else { 1 }
}

/// Records why a connection to an agent failed.
pub(crate) fn note_fault(stream: &Stream, fault: AgentFault) {
    if let Some(call) = call(stream) {
        call.fault.set(Some(fault));
    }
}

impl LentScopes {
    /// The value of a variable of a parent's scope (`psess`, `ptxn`, `preq`, `pres`).
    pub(crate) fn variable(&mut self, variable: VariableId) -> Option<Value<'_>> {
        let scope = match variable.scope {
            VariableScope::ParentSession => VariableScope::Session,
            VariableScope::ParentTransaction => VariableScope::Transaction,
            VariableScope::ParentRequest => VariableScope::Request,
            VariableScope::ParentResponse => VariableScope::Response,
            _ => return None,
        };
        let own = VariableId { scope, ..variable };
        match scope {
            VariableScope::Session => self.session.variable(own),
            scope if lasts(scope, self.processed) => self.variables.of(scope)?.get(own),
            _ => None,
        }
    }
}
