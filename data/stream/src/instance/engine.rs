//! An engine with its live state, shared by all workers.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, PoisonError, RwLock};

use weir_events::LogSink;
use weir_expr::{VariableId, VariableNames, VariableScope};
use weir_model::{SpoeEngine, SpoeEvent};
use weir_sync::{CachePadded, Counter};

/// An engine with its live state.
pub struct AgentEngine {
    /// The position of its filter in the proxy.
    pub filter: usize,
    pub config: SpoeEngine,
    /// The index of the agent's backend in [`Instance::proxies`](crate::instance::Instance::proxies).
    pub backend: usize,
    /// The messages of each event, by their positions.
    events: [Box<[u16]>; SpoeEvent::ALL.len()],
    /// The `engine-id` that agents get: a UUID.
    pub id: Box<str>,
    /// The reuse key of its connections. Engines of one backend may negotiate differently.
    pub key: u64,
    /// The size of frames offered to agents, in bytes.
    pub frame_size: u32,
    pub log_sinks: Vec<Arc<LogSink>>,
    /// The tag of its log lines.
    pub log_tag: Box<[u8]>,
    /// The names behind the prefix that an agent may set.
    names: HashMap<Box<[u8]>, KnownVariable>,
    /// Names that the agent has created at run time (`option force-set-var`).
    forced: RwLock<HashMap<Box<[u8]>, u32>>,
    variables: Arc<VariableNames>,
    counters: Box<[CachePadded<EngineCounters>]>,
}

/// The name of a variable that the configuration mentions.
#[derive(Clone, Copy, Debug)]
struct KnownVariable {
    number: u32,
    /// Whether an agent may create it in scope `proc`: it is mentioned there, or registered.
    is_of_process: bool,
}

/// The counters of an engine on one worker.
#[derive(Debug, Default)]
struct EngineCounters {
    processed: Counter,
    failed: Counter,
}

/// The parts from which an engine is built.
pub struct EngineParts {
    pub filter: usize,
    pub config: SpoeEngine,
    pub backend: usize,
    /// Whether the proxy is a `listen` section: events of the backend are then sent with those of the frontend.
    pub is_both: bool,
    /// `tune.bufsize`, in bytes.
    pub buffer_size: u32,
    pub log_sinks: Vec<Arc<LogSink>>,
    pub log_tag: Box<[u8]>,
    pub variables: Arc<VariableNames>,
    pub workers: usize,
}

impl AgentEngine {
    /// An engine of these parts.
    pub fn new(parts: EngineParts) -> Self {
        let EngineParts { filter, config, backend, is_both, log_sinks, log_tag, variables, .. } = parts;
        let largest = parts.buffer_size.saturating_sub(LENGTH_FIELD);
        let prefix = format!("{}.", config.agent.variable_prefix);
        let is_registered = |name: &str| {
            config.agent.registered_names.iter().any(|known| known.strip_prefix(&*prefix) == Some(name))
        };
        let names = variables.with_prefix(&prefix).into_iter().map(|(name, number, mentioned)| {
            let is_of_process = mentioned || is_registered(&name);
            (name.into_boxed_bytes(), KnownVariable { number, is_of_process })
        });
        let names = names.collect();
        AgentEngine {
            events: SpoeEvent::ALL.map(|event| messages(&config, event, is_both)),
            frame_size: config.agent.max_frame_size.map_or(largest, |size| size.min(largest)),
            names,
            forced: RwLock::default(),
            counters: (0..parts.workers.max(1)).map(|_| CachePadded::default()).collect(),
            filter,
            config,
            backend,
            id: unique_id().into(),
            // 0 is the key of connections without properties.
            key: random() | 1,
            log_sinks,
            log_tag,
            variables,
        }
    }

    /// The engine's name: that of its filter, else its agent's.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// The messages of an event, by their positions.
    pub(crate) fn messages_of(&self, event: SpoeEvent) -> &[u16] {
        &self.events[event as usize]
    }

    /// Bit set of the [`SpoeEvent`]s with messages.
    pub fn event_bits(&self) -> u8 {
        let with = SpoeEvent::ALL.iter().filter(|event| !self.events[**event as usize].is_empty());
        with.fold(0, |bits, event| bits | 1 << *event as u8)
    }

    /// A variable that an agent names, without its prefix. `None` if it is unknown.
    pub(crate) fn variable(&self, scope: VariableScope, name: &[u8]) -> Option<VariableId> {
        let known =
            self.names.get(name).filter(|known| known.is_of_process || scope != VariableScope::Process);
        let number = known.map(|known| known.number).or_else(|| {
            // Only a trusted agent pays for the lock.
            let is_trusted = self.config.agent.force_set_variables;
            let forced = is_trusted.then(|| self.forced.read().unwrap_or_else(PoisonError::into_inner));
            forced?.get(name).copied()
        });
        number.map(|name| VariableId { scope, name })
    }

    /// [`variable`](Self::variable), created for a trusted agent (`option force-set-var`). At most [`MAX_FORCED`] names are created.
    pub(crate) fn variable_to_set(&self, scope: VariableScope, name: &[u8]) -> Option<VariableId> {
        let known = self.variable(scope, name);
        if known.is_some() || !self.config.agent.force_set_variables {
            return known;
        }
        let text = std::str::from_utf8(name).ok()?;
        let mut forced = self.forced.write().unwrap_or_else(PoisonError::into_inner);
        if forced.len() >= MAX_FORCED || name.len() > MAX_NAME {
            return None;
        }
        let prefix = &self.config.agent.variable_prefix;
        let variable = self.variables.intern(&format!("{}.{prefix}.{text}", scope.name())).ok()?;
        forced.insert(name.into(), variable.name);
        Some(variable)
    }

    /// Counts an exchange.
    pub(crate) fn count(&self, is_failure: bool) {
        let Some(counters) = self.counters.get(weir_sched::worker_index()) else { return };
        counters.processed.increment();
        if is_failure {
            counters.failed.increment();
        }
    }

    /// The numbers of failed exchanges and of all, over all workers.
    pub fn totals(&self) -> (u64, u64) {
        let add = |(failed, processed), counters: &CachePadded<EngineCounters>| {
            (failed + counters.failed.value(), processed + counters.processed.value())
        };
        self.counters.iter().fold((0, 0), add)
    }
}

/// The messages of an event. In a `listen` section, a request reaches the backend with the frontend, and the backend's events do not
/// happen (SPOE.txt, 3.3). Their messages are sent with those of the frontend's event, as in HAProxy.
fn messages(config: &SpoeEngine, event: SpoeEvent, is_both: bool) -> Box<[u16]> {
    let of = |event| config.agent.events.of(event).iter().copied();
    match (event, is_both) {
        (SpoeEvent::FrontendTcpRequest, true) => of(event).chain(of(SpoeEvent::BackendTcpRequest)).collect(),
        (SpoeEvent::FrontendHttpRequest, true) => {
            of(event).chain(of(SpoeEvent::BackendHttpRequest)).collect()
        }
        (SpoeEvent::BackendTcpRequest | SpoeEvent::BackendHttpRequest, true) => Box::default(),
        _ => of(event).collect(),
    }
}

/// A random UUID of version 4 (RFC 9562, 5.4).
fn unique_id() -> String {
    let bits = (u128::from(random()) << 64) | u128::from(random());
    let version = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let digits = format!("{version:032x}");
    format!("{}-{}-{}-{}-{}", &digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..])
}

/// A number that differs between processes and calls.
fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Bytes of the length before a frame.
const LENGTH_FIELD: u32 = 4;
/// Names that the agents of one engine may create.
const MAX_FORCED: usize = 1_000;
/// The length of a name that an agent creates, in bytes.
const MAX_NAME: usize = 256;
