//! Engines that send messages about a stream to agents, and apply the actions of the answers (SPOE; manual, 9.3, and SPOE.txt).
//!
//! An engine acts at moments of a stream, beside the rules: before a ruleset, when a server was reached, or where a rule sends a group. It
//! does not see payload, so bodies are spliced and requests retried as without it. For each moment it writes one NOTIFY and waits for the
//! agent's ACK:
//!
//! ```text
//!   moment ── messages that apply ──► exchange: a stream of its own to a server of the agent's backend ──► actions ──► the rules
//!                  └── none: nothing is sent        └── failed: a variable, a log line, the engine is off for this stream
//! ```
//!
//! The exchange runs inside the task of its stream (`exchange.rs`). Agents' connections are shared by all streams of a worker
//! (`server/agents.rs`).

mod actions;
mod connections;
mod exchange;
mod failure;
mod messages;

use std::io::Write as _;

use weir_events::Level;
use weir_expr::{Context as _, SetCondition, Value, VariableId};
use weir_model::FilterDirection;
use weir_model::SpoeEvent;
use weir_mux::agent::AgentFault;

pub(crate) use self::actions::set_early;
pub use self::connections::{dismiss_agents, open_agents, warm_up};
pub(crate) use self::failure::Failure;

use crate::instance::ProxyRef;
use crate::instance::engine::AgentEngine;
use crate::stream::attached::Attached;
use crate::stream::engines::{self, EngineState};
use crate::stream::phases::EnginePhase;
use crate::stream::{PhaseResult, ProxySide, Stream};

/// Why messages are sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ExchangeCause<'c> {
    Event(SpoeEvent),
    /// The position of a group, and its name.
    Group(usize, &'c str),
}

impl ExchangeCause<'_> {
    fn name(&self) -> &str {
        match self {
            ExchangeCause::Event(event) => event.name(),
            ExchangeCause::Group(_, name) => name,
        }
    }
}

impl EnginePhase {
    /// Sends the messages of each event: those of the frontend's engines first, then the backend's.
    #[cold]
    pub(crate) async fn raise(&mut self, events: &[SpoeEvent]) -> PhaseResult {
        for event in events {
            self.raise_on(ProxySide::Frontend, *event).await?;
            if self.stream.has_other_backend() {
                self.raise_on(ProxySide::Backend, *event).await?;
            }
        }
        Ok(())
    }

    /// Sends the messages for the session with a server, and those for the start of its bytes, which HAProxy inspects from this moment. A
    /// retry is not a new session.
    #[cold]
    pub(crate) async fn begin_server_session(&mut self) -> PhaseResult {
        let attached = Attached::of_stream(&mut self.stream);
        if std::mem::replace(&mut attached.has_server_session, true) {
            return Ok(());
        }
        self.raise(engines::SERVER_SESSION).await
    }

    async fn raise_on(&mut self, side: ProxySide, event: SpoeEvent) -> PhaseResult {
        let proxy = self.stream.proxy(side).clone();
        if proxy.engine_events & (1 << event as u8) == 0 {
            return Ok(());
        }
        let direction = match event {
            SpoeEvent::ServerSession | SpoeEvent::TcpResponse | SpoeEvent::HttpResponse => {
                FilterDirection::Response
            }
            _ => FilterDirection::Request,
        };
        for filter in proxy.config.filter_order(direction) {
            if let Some(position) = proxy.engines.iter().position(|engine| engine.filter == filter) {
                ask(&mut self.stream, &proxy, position, ExchangeCause::Event(event)).await?;
            }
        }
        Ok(())
    }
}

/// Sends the messages of one cause to the agent of an engine, and applies its answer. Fails only if the stream itself ends meanwhile.
pub(crate) async fn ask(
    stream: &mut Stream,
    proxy: &ProxyRef,
    position: usize,
    cause: ExchangeCause<'_>,
) -> PhaseResult {
    let Some(engine) = proxy.find_part(|proxy| proxy.engines.get(position)) else { return Ok(()) };
    if EngineState::is_off(stream, (proxy.index, engine.filter)) {
        return Ok(());
    }
    let Some(written) = messages::write(stream, &engine, cause) else { return Ok(()) };
    let began_us = weir_sched::now_us();
    let outcome = match written {
        Ok(payload) => match exchange::run(stream, &engine, &payload).await? {
            Ok(actions) => actions::apply(stream, &engine, &actions),
            Err(failure) => Err(failure),
        },
        Err(failure) => Err(failure),
    };
    let took_ms = weir_sched::now_us().saturating_sub(began_us) / 1_000;
    conclude(stream, proxy, &engine, cause, outcome, took_ms);
    Ok(())
}

/// Sets the variables that report an exchange, and logs it.
fn conclude(
    stream: &mut Stream,
    proxy: &ProxyRef,
    engine: &AgentEngine,
    cause: ExchangeCause<'_>,
    outcome: Result<(), Failure>,
    took_ms: u64,
) {
    let agent = &engine.config.agent;
    let failure = outcome.err();
    let ends = failure.is_some() && !agent.continue_on_error;
    let total_ms = EngineState::of(stream, (proxy.index, engine.filter)).note(ends, took_ms);
    let mut set = |variable: Option<VariableId>, number: u64| {
        if let Some(variable) = variable {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            stream.set_variable(variable, Value::Int(number), SetCondition::ALWAYS);
        }
    };
    set(agent.set_process_time, took_ms);
    set(agent.set_total_time, total_ms);
    if let Some(failure) = failure {
        set(agent.set_on_error, failure.code().into());
        stream.captures.note_engine_failure(|| {
            let (name, moment, words) = (engine.name(), cause.name(), failure.words());
            format!("engine '{name}' failed at {moment} after {took_ms} ms, code {}: {words}", failure.code())
        });
    }
    engine.count(failure.is_some());
    log(stream, engine, cause, failure, took_ms);
}

/// The line of one exchange (SPOE.txt, 4).
fn log(
    stream: &Stream,
    engine: &AgentEngine,
    cause: ExchangeCause<'_>,
    failure: Option<Failure>,
    took_ms: u64,
) {
    if engine.log_sinks.is_empty() || (failure.is_none() && engine.config.agent.dont_log_normal) {
        return;
    }
    let kind = if let ExchangeCause::Event(_) = cause { "EVENT" } else { "GROUP" };
    let name = cause.name();
    let (failed, processed) = engine.totals();
    let code = failure.map_or(0, Failure::code);
    let mut line = crate::recycle::bytes();
    // Writing to memory does not fail.
    let _ = write!(
        line,
        "SPOE: [{}] <{kind}:{name}> sid={} st={code} {took_ms} {failed}/{processed}",
        engine.config.agent.name, stream.serial
    );
    let level = if failure.is_some() { Level::Warning } else { Level::Notice };
    crate::log::send_line(&engine.log_sinks, &engine.log_tag, level, &line);
}

/// The failure of an exchange with an agent, from the fault of its connection.
impl From<AgentFault> for Failure {
    fn from(fault: AgentFault) -> Self {
        Failure::Protocol(fault.status())
    }
}
