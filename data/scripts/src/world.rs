//! The part of a state that API functions see.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use weir_expr::pattern::PatternIndex;
use weir_expr::pattern::regex::Regex;
use weir_expr::{ArgSpec, Expr};
use weir_lua::{LuaHost, LuaReference, LuaState, MemoryBudget};
use weir_model::ScriptSettings;

use crate::alarms::{QueueAlarms, QueueWaiter};
use crate::events::Subscription;
use crate::logger::ScriptLogger;
use crate::network::SharedNetwork;
use crate::private::PrivateData;
use crate::registry::FunctionRegistry;
use crate::resources::ScriptResources;
use crate::state_filters::StateFilters;
use crate::target::ScriptTarget;
use crate::wait::ScriptWait;

/// A state with the API of scripts.
pub(crate) type ScriptState = LuaState<World>;

/// An expression, or the message of its fault.
pub(crate) type ParsedExpression = Result<Arc<Expr>, Arc<str>>;

/// Compiled regular expressions by their text.
pub(crate) type RegexCache = HashMap<Box<[u8]>, Arc<Regex>>;

/// What API functions find through their call.
pub(crate) struct World {
    /// `core.thread`: 0 in the shared state, else the number of the worker, from 1.
    pub thread: u32,
    pub settings: ScriptSettings,
    pub resources: Arc<ScriptResources>,
    pub logger: Arc<ScriptLogger>,
    pub network: SharedNetwork,
    /// The memory of the bytes of peers that wait for scripts.
    pub held: Arc<MemoryBudget>,
    pub registry: FunctionRegistry,
    pub classes: OnceCell<Classes>,
    pub private: PrivateData,
    /// `act.wake_time` of the run, if it was called since the run was resumed.
    pub wake_ms: Cell<Option<u64>>,
    /// The waiter of the run, if it waited for a queue.
    pub waiter: RefCell<Option<Arc<QueueWaiter>>>,
    /// The waiters of queues.
    pub alarms: RefCell<QueueAlarms>,
    /// Tasks that were registered and did not start yet.
    pub tasks: RefCell<Vec<NewTask>>,
    /// The filters of the configuration's lines.
    pub filters: StateFilters,
    /// Whether the configuration is being read: only then functions are registered.
    pub is_loading: Cell<bool>,
    /// Expressions of `txn.f` and `txn.c`, by text. An error is kept, too.
    pub expressions: RefCell<HashMap<Box<[u8]>, ParsedExpression>>,
    /// Classes that scripts use rarely.
    pub late_classes: [OnceCell<MadeClass>; LATE_CLASSES],
    /// Expressions of `Regex`: those that heed case, and those that ignore it.
    pub regexes: [RefCell<RegexCache>; 2],
    /// The maps of `Map.new`, which are only made while the configuration is read.
    pub maps: RefCell<Vec<Arc<PatternIndex>>>,
    /// The names of fetches and converters with their arguments, in the order of their methods.
    pub fetches: Vec<(&'static str, ArgSpec)>,
    pub converters: Vec<(&'static str, ArgSpec)>,
}

/// A task that did not start yet.
#[derive(Debug)]
pub(crate) struct NewTask {
    pub function: LuaReference,
    /// `None` for nil.
    pub arguments: Vec<Option<LuaReference>>,
    /// The events that the function handles. Without them, it runs once.
    pub subscription: Option<Arc<Subscription>>,
}

impl NewTask {
    /// The kept values.
    pub(crate) fn references(&self) -> impl Iterator<Item = LuaReference> {
        std::iter::once(self.function).chain(self.arguments.iter().copied().flatten())
    }
}

/// The metatables of objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Classes {
    pub txn: LuaReference,
    pub fetches: LuaReference,
    /// `txn.sf`: every result is a text.
    pub string_fetches: LuaReference,
    pub converters: LuaReference,
    /// `txn.sc`: every result is a text.
    pub string_converters: LuaReference,
    pub http: LuaReference,
    pub applet_http: LuaReference,
    pub applet_tcp: LuaReference,
    /// The methods of applets, behind their fields.
    pub applet_http_methods: LuaReference,
    pub applet_tcp_methods: LuaReference,
    pub reply: LuaReference,
    /// `txn.req`.
    pub request_channel: LuaReference,
    /// `txn.res`.
    pub response_channel: LuaReference,
    pub socket: LuaReference,
    pub httpclient: LuaReference,
    /// The methods of `txn`, behind its fields.
    pub txn_methods: LuaReference,
}

/// The number of classes that are made when a script first uses one.
pub(crate) const LATE_CLASSES: usize = 13;

/// A class of objects that was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeClass {
    pub metatable: LuaReference,
    pub methods: LuaReference,
}

impl LuaHost for World {
    type Target = dyn ScriptTarget;
    type Wait = ScriptWait;
}

impl World {
    /// Takes the tasks that did not start yet.
    pub(crate) fn take_tasks(&self) -> Vec<NewTask> {
        self.tasks.take()
    }

    /// The classes. They are made before any script runs.
    pub(crate) fn classes(&self) -> &Classes {
        self.classes.get().expect("a state has its classes")
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "World({})", self.thread)
    }
}
