//! The states of a process, from the parser's first `lua-load` to the end.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use weir_config::scripts::{
    FilterId, ModuleKind, ScriptAction, ScriptFile, ScriptFilter, ScriptHost, ServiceKind,
};
use weir_expr::{ScriptName, ScriptNames};
use weir_lua::{LuaError, LuaErrorKind, MemoryBudget, RunBounds, RunSlice, ScriptCosts};
use weir_model::ScriptSettings;
use weir_sched::{Class, WorkKind};

use crate::api;
use crate::busy::BusyCalls;
use crate::cells::{Held, Place, StateCell, lock};
use crate::commands::WorkerCommands;
use crate::declare::{self, CHUNK, FilterDeclaration};
use crate::events::Subscriptions;
use crate::held::{HeldBytes, ScriptMemory};
use crate::logger::ScriptLogger;
use crate::network::{ScriptNetwork, SharedNetwork};
use crate::process::ScriptProcess;
use crate::registry::{FunctionKind, Registered, WORD_END};
use crate::resources::ScriptResources;
use crate::state_filters::DeclaredFilter;
use crate::target::ScriptTarget;
use crate::turns::Turn;
use crate::world::NewTask;

/// The scripts of a configuration, and their states.
#[derive(Debug)]
pub struct Scripts {
    resources: Arc<ScriptResources>,
    memory: ScriptMemory,
    costs: Arc<ScriptCosts>,
    network: SharedNetwork,
    started: OnceLock<Started>,
    logger: Arc<ScriptLogger>,
    /// The state of `lua-load`.
    pub(crate) shared: StateCell,
    /// The states of `lua-load-per-thread`. The first one is made while the configuration is read.
    own: Vec<StateCell>,
    loading: Mutex<LoadedFiles>,
    /// Calls that failed because other threads had the state.
    pub(crate) busy: BusyCalls,
}

/// Settings and workers at the end of the configuration.
#[derive(Debug, Default)]
struct Started {
    settings: ScriptSettings,
    /// The workers that share the state of `lua-load`.
    workers: usize,
}

impl Started {
    /// The slice of a state. Counting costs, so it begins with runs that compute for long: a tick of each of them would be too long for the others.
    fn slice(&self, own: Option<usize>, is_long: bool) -> RunSlice {
        let Started { settings, workers } = self;
        let instructions = match own {
            Some(_) => SLICE,
            None => (SLICE / (*workers).max(1) as u32).max(LEAST_SLICE),
        };
        match settings.slice {
            Some(instructions) => RunSlice::Instructions(instructions),
            None if is_long => RunSlice::Instructions(instructions),
            None => RunSlice::Tick { or_instructions: instructions },
        }
    }
}

/// What later states of `lua-load-per-thread` need.
#[derive(Debug, Default)]
struct LoadedFiles {
    per_thread: Vec<OwnedScript>,
    paths: Vec<(String, ModuleKind)>,
    /// The lines with filters of scripts: their names and arguments.
    filters: Vec<(ScriptName, Vec<String>)>,
    has_warned: bool,
}

#[derive(Debug)]
struct OwnedScript {
    path: String,
    text: Vec<u8>,
    arguments: Vec<String>,
}

/// The report of a script that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptFailure {
    /// `Lua function 'name': [state-id 0] runtime error: ...`
    pub message: String,
}

impl ScriptFailure {
    pub(crate) fn new(kind: FunctionKind, name: Option<ScriptName>, thread: usize, error: &LuaError) -> Self {
        let function = described(kind, name);
        // As HAProxy writes them.
        let colon = if kind == FunctionKind::Filter { " :" } else { ":" };
        let what = match (error.kind, &error.message) {
            (LuaErrorKind::Timeout, _) => "execution timeout".to_owned(),
            (LuaErrorKind::Memory, _) => "out of memory error".to_owned(),
            (_, Some(text)) => format!("runtime error: {text}"),
            (_, None) => "unknown runtime error".to_owned(),
        };
        let calls = from_calls(&error.traceback);
        ScriptFailure { message: format!("Lua {function}{colon} [state-id {thread}] {what}{calls}.") }
    }
}

/// A function in messages: `function 'name'`, or `task`.
pub(crate) fn described(kind: FunctionKind, name: Option<ScriptName>) -> String {
    let noun = kind.noun();
    let Some(name) = name.map(weir_expr::expr::script::text_of) else { return noun.to_owned() };
    match kind {
        FunctionKind::HttpService | FunctionKind::TcpService => format!("{noun} '<{name}>'"),
        FunctionKind::Command => format!("{noun} '<{}>'", name.replace(WORD_END, ".")),
        _ => format!("{noun} '{}'", name.strip_prefix("lua.").unwrap_or(name)),
    }
}

/// The calls of a traceback.
fn calls(traceback: &str) -> impl Iterator<Item = &str> {
    let lines = traceback.lines().map(str::trim);
    // Our own code is not shown.
    lines.filter(|line| !line.is_empty() && *line != "stack traceback:" && !line.starts_with(&CHUNK[1..]))
}

/// The calls of a run that failed, in one line: ` from a, b`. Three dots stand for calls that tail calls replaced.
fn from_calls(traceback: &str) -> String {
    let calls: Vec<String> = calls(traceback).map(of_line).collect();
    let calls = calls.join(", ").replace(", (...tail calls...)", " ...");
    if calls.is_empty() { String::new() } else { format!(" from {calls}") }
}

/// The calls of a file that failed, in one line: `, called from a, b`.
fn called_from(traceback: &str) -> String {
    let calls: Vec<&str> = calls(traceback).collect();
    if calls.is_empty() { String::new() } else { format!(", called from {}", calls.join(", ")) }
}

/// A call of a traceback as HAProxy writes it: a function without a name by its line, one of a library by its kind.
fn of_line(call: &str) -> String {
    if let Some((place, name)) = call.split_once("in function '") {
        return match name.rsplit_once('.') {
            Some((_, field)) => format!("{place}in field '{field}"),
            None => format!("{place}in global '{name}"),
        };
    }
    let Some((place, function)) = call.split_once("in function <") else { return call.to_owned() };
    match function.strip_suffix('>').and_then(|function| function.rsplit_once(':')) {
        Some((_, line)) => format!("{place}in function line {line}"),
        None => call.to_owned(),
    }
}

impl Scripts {
    /// Without scripts. `workers` is the largest number of workers.
    pub fn new(resources: ScriptResources, workers: usize) -> Self {
        Scripts {
            resources: Arc::new(resources),
            memory: ScriptMemory {
                states: Arc::new(MemoryBudget::unlimited()),
                held: Arc::new(MemoryBudget::new(MOST_HELD)),
                tasks: Arc::new(MemoryBudget::new(MOST_TASKS)),
            },
            costs: Arc::default(),
            network: SharedNetwork::default(),
            started: OnceLock::new(),
            logger: Arc::default(),
            shared: StateCell::default(),
            own: (0..workers).map(|_| StateCell::default()).collect(),
            loading: Mutex::default(),
            busy: BusyCalls::default(),
        }
    }

    /// Whether any script was loaded.
    pub fn is_empty(&self) -> bool {
        self.shared.is_empty() && self.own.first().is_none_or(StateCell::is_empty)
    }

    /// Ends the reading of the configuration: makes the states of all workers.
    ///
    /// # Errors
    /// The message of a script that failed.
    pub fn start(&self, settings: &ScriptSettings, workers: usize) -> Result<(), String> {
        let _ = self.started.set(Started { settings: settings.clone(), workers });
        self.memory.states.set_limit(memory_of(settings));
        self.memory.held.set_limit(memory_of(settings).min(MOST_HELD));
        if self.is_empty() {
            return Ok(());
        }
        let loading = self.loading();
        if !loading.per_thread.is_empty() {
            for (worker, cell) in self.own.iter().enumerate().take(workers).skip(1) {
                self.ensure(cell, worker + 1, &loading.paths, settings)?;
                for script in &loading.per_thread {
                    let arguments: Vec<&str> = script.arguments.iter().map(String::as_str).collect();
                    run_file(cell, &script.path, &script.text, &arguments)?;
                }
                for (number, (name, arguments)) in (0..).zip(&loading.filters) {
                    declare_filter(cell, FilterId(number), *name, arguments).transpose()?;
                }
            }
        }
        Ok(())
    }

    /// Runs the functions of `core.register_init`, with a process that does not serve yet.
    ///
    /// # Errors
    /// The message of a script that failed.
    pub fn initialize(&self, process: Arc<dyn ScriptProcess>) -> Result<(), String> {
        self.resources.process.start(process);
        for cell in std::iter::once(&self.shared).chain(&self.own) {
            let mut state = lock(&cell.state);
            let Some(state) = state.as_deref_mut() else { continue };
            for init in state.host().registry.take_inits() {
                state
                    .call(init, None, RunBounds::NONE, |_| {}, |_| ())
                    .map_err(|error| format!("Lua init: runtime error: {error}"))?;
            }
            state.host().is_loading.set(false);
            let _ = cell.functions.set(state.host().registry.functions());
            let _ = cell.filters.set(state.host().filters.declared());
            let _ = cell.commands.set(state.host().registry.commands());
        }
        Ok(())
    }

    /// Sets the process that serves from now on.
    pub fn serve(&self, process: Arc<dyn ScriptProcess>) {
        self.resources.process.serve(process);
    }

    /// Whether a script sends the mails of `email-alert` itself (`core.disable_legacy_mailers`).
    pub fn sends_mails(&self) -> bool {
        self.resources.process.has_taken_over_mails()
    }

    /// The subscriptions of scripts to events of the process.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.resources.events
    }

    /// Sets the loggers of the global section. Until then, messages of scripts are only printed.
    pub fn log_to(&self, log: impl Fn(u8, &str) -> bool + Send + Sync + 'static) {
        self.logger.set(Box::new(log));
    }

    /// Lets scripts reach other hosts. Called once, before any worker runs.
    pub fn connect(&self, network: ScriptNetwork) {
        let _ = self.network.set(network);
    }

    fn loading(&self) -> MutexGuard<'_, LoadedFiles> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn started(&self) -> &Started {
        self.started.get_or_init(Started::default)
    }

    /// The budgets of the memory of states, of the bytes that wait for scripts, and of tasks. They outlive the scripts, so that a leak shows.
    pub fn budgets(&self) -> [Arc<MemoryBudget>; 3] {
        let ScriptMemory { states, held, tasks } = &self.memory;
        [states, held, tasks].map(Arc::clone)
    }

    /// What scripts cost in runs that were measured (`profiling.tasks`).
    pub fn costs(&self) -> &ScriptCosts {
        &self.costs
    }

    /// A share of the bytes that wait for scripts, empty so far.
    pub(crate) fn held_bytes(&self) -> HeldBytes {
        HeldBytes::new(Arc::clone(&self.memory.held))
    }

    /// The places of tasks.
    pub(crate) fn task_places(&self) -> HeldBytes {
        HeldBytes::new(Arc::clone(&self.memory.tasks))
    }

    pub(crate) fn settings(&self) -> &ScriptSettings {
        &self.started().settings
    }

    /// Makes a state if it is not there yet.
    fn ensure(
        &self,
        cell: &StateCell,
        thread: usize,
        paths: &[(String, ModuleKind)],
        settings: &ScriptSettings,
    ) -> Result<(), String> {
        let mut place = lock(&cell.state);
        if place.is_none() {
            let mut state = api::new_state(
                thread as u32,
                settings,
                &self.resources,
                &self.logger,
                &self.memory,
                &self.network,
            )?;
            state.set_costs(Arc::clone(&self.costs));
            for (pattern, kind) in paths {
                api::prepend_path(&mut state, pattern, *kind);
            }
            *place = Some(Box::new(state));
        }
        Ok(())
    }

    /// Where a function is: in the worker's own state, or in the shared one.
    pub(crate) fn place(&self, worker: usize, kind: FunctionKind, name: ScriptName) -> Option<Place> {
        let find = |cell: &StateCell| cell.functions.get()?.get(&(kind, name)).copied();
        let own = self.own.get(worker).and_then(find);
        let own = own.map(|function| Place { own: Some(worker), function });
        own.or_else(|| find(&self.shared).map(|function| Place { own: None, function }))
    }

    /// The filter of a line in a worker's own state, or in the shared one (`None`).
    pub(crate) fn filter_of(&self, worker: Option<usize>, id: FilterId) -> Option<DeclaredFilter> {
        let cell = match worker {
            Some(worker) => self.own.get(worker)?,
            None => &self.shared,
        };
        *cell.filters.get()?.get(id.0 as usize)?
    }

    /// Takes the tasks that scripts registered before this worker ran, with the numbers of their states. Those of the shared state run on the
    /// first worker.
    pub(crate) fn take_tasks(&self, worker: usize) -> Vec<(Option<usize>, Vec<NewTask>)> {
        let shared = (worker == 0).then_some((None, &self.shared));
        let own = self.own.get(worker).map(|cell| (Some(worker), cell));
        let tasks = |cell: &StateCell| {
            lock(&cell.state).as_deref().map_or(Vec::new(), |state| state.host().take_tasks())
        };
        shared.into_iter().chain(own).map(|(own, cell)| (own, tasks(cell))).collect()
    }

    /// The commands of a worker.
    pub fn commands(&self, worker: usize) -> WorkerCommands<'_> {
        let own = self.own.get(worker).map_or(&[][..], StateCell::commands);
        WorkerCommands { own, shared: self.shared.commands() }
    }

    /// Checks the commands of all states, also while the configuration is read: none may be one that the runtime API has (`is_taken`).
    ///
    /// # Errors
    /// The message about such a command.
    pub fn check_commands(&self, is_taken: impl Fn(&[String]) -> bool) -> Result<(), String> {
        let commands =
            |cell: &StateCell| lock(&cell.state).as_deref().map(|state| state.host().registry.commands());
        let mut all = std::iter::once(&self.shared).chain(&self.own).filter_map(commands).flatten();
        match all.find(|command| is_taken(&command.words)) {
            Some(command) => Err(format!(
                "register_cli: '{}' is a command of the runtime API already; a script's command needs other words",
                command.words.join(" ")
            )),
            None => Ok(()),
        }
    }

    pub(crate) fn cell(&self, place: Place) -> &StateCell {
        place.own.and_then(|worker| self.own.get(worker)).unwrap_or(&self.shared)
    }

    /// The state of a place, in turn. `None` while another thread has it: the current task is woken for its turn.
    pub(crate) fn hold_in_turn(&self, place: Place, turn: &mut Option<Turn>) -> Option<Held<'_>> {
        self.cell(place).hold_in_turn(turn, self.bounds(place, None, false))
    }

    /// Collects the garbage of a state soon: a run left sockets open, and Lua does not know their cost.
    pub(crate) fn collect_soon(self: &Arc<Self>, place: Place) {
        if self.cell(place).collects.swap(true, Ordering::Relaxed) {
            return;
        }
        let scripts = Arc::clone(self);
        weir_sched::spawn(&COLLECTION, Class::Bulk, async move {
            weir_sched::sleep_until(weir_sched::now().after(COLLECTION_DELAY_MS)).await;
            scripts.cell(place).collects.store(false, Ordering::Relaxed);
            let mut turn = None;
            loop {
                if let Some(mut state) = scripts.hold_in_turn(place, &mut turn) {
                    let _entry = Entry::new();
                    state.collect(scripts.bounds(place, None, false));
                    break;
                }
                weir_sched::wait(weir_sched::now().after(COLLECTION_DELAY_MS)).await;
            }
        });
    }

    /// The bounds of a run that may compute for `left` in total. `is_long` if it has used a slice before.
    pub(crate) fn bounds(&self, place: Place, left: Option<Duration>, is_long: bool) -> RunBounds {
        let settings = self.settings();
        let time = match (settings.burst, left) {
            (Some(burst), Some(left)) => Some(burst.min(left)),
            (burst, left) => burst.or(left),
        };
        RunBounds { time, slice: self.started().slice(place.own, is_long) }
    }

    /// Reports a failure of a script: to the loggers of the stream's proxy, or for a service or a task to those of the global section.
    pub(crate) fn report(
        &self,
        target: Option<&mut (dyn ScriptTarget + 'static)>,
        kind: FunctionKind,
        failure: &ScriptFailure,
    ) {
        // As in HAProxy, an error in the log and an alert on the terminal.
        let log = || match target.filter(|_| !kind.is_of_process()) {
            Some(target) => target.log(3, &failure.message),
            None => self.logger.log(3, &failure.message),
        };
        let has_logger = self.settings().logs && log();
        api::print_message(self.settings(), 1, &failure.message, has_logger);
    }

    fn registered(&self, kind: FunctionKind, name: &str) -> Option<Registered> {
        let name = weir_expr::expr::script::name_of(name);
        let find = |cell: &StateCell| {
            lock(&cell.state).as_deref().and_then(|state| state.host().registry.find(kind, name))
        };
        self.own.first().and_then(find).or_else(|| find(&self.shared))
    }
}

/// The bytes that all states may use (`tune.lua.maxmem`).
fn memory_of(settings: &ScriptSettings) -> usize {
    match settings.megabytes {
        0 => usize::MAX,
        megabytes => (megabytes as usize) << 20,
    }
}

thread_local! {
    /// Whether this thread runs Lua.
    static IN_LUA: Cell<bool> = const { Cell::new(false) };
}

/// A run of Lua by this thread, which cannot begin another one.
pub(crate) struct Entry(());

impl Entry {
    /// `None` while the thread runs Lua.
    pub(crate) fn new() -> Option<Self> {
        (!IN_LUA.replace(true)).then(|| {
            weir_sched::limited(true);
            Entry(())
        })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        IN_LUA.set(false);
        weir_sched::limited(false);
    }
}

/// Runs a file in a state.
fn run_file(cell: &StateCell, path: &str, text: &[u8], arguments: &[&str]) -> Result<(), String> {
    let mut state = lock(&cell.state);
    let Some(state) = state.as_deref_mut() else { return Ok(()) };
    // Scripts of Unix may begin with the path of their interpreter.
    let text = match text.strip_prefix(b"#") {
        Some(rest) => rest.iter().position(|byte| *byte == b'\n').map_or(&b""[..], |end| &rest[end..]),
        None => text,
    };
    let file = state
        .load(text, &format!("@{path}"))
        .map_err(|error| format!("error in Lua file '{path}': {error}"))?;
    let push =
        |stack: &weir_lua::LuaStack<'_>| arguments.iter().for_each(|one| stack.push_bytes(one.as_bytes()));
    let called = state.call(file, None, RunBounds::NONE, push, |_| ());
    state.forget(file);
    called.map_err(|error| {
        let text = error.message.as_deref().unwrap_or("(the error is not a text)").to_owned();
        let from = called_from(&error.traceback);
        match error.kind {
            LuaErrorKind::Memory => format!("Lua out of memory error: {text}"),
            _ => format!("Lua runtime error: {text}{from}"),
        }
    })
}

/// Makes the filter of a line in a state. `None` if no script of the state registered it.
fn declare_filter(
    cell: &StateCell,
    id: FilterId,
    name: ScriptName,
    arguments: &[String],
) -> Option<Result<FilterDeclaration, String>> {
    let mut state = lock(&cell.state);
    let state = state.as_deref_mut()?;
    let registered = state.host().registry.filter(name)?;
    let text = weir_expr::expr::script::text_of(name);
    let text = text.strip_prefix("lua.").unwrap_or(text);
    let declared = declare::declare(state, id, registered, arguments);
    Some(declared.map_err(|error| format!("Lua filter '{text}' : runtime error : {error}")))
}

impl ScriptNames for Scripts {
    fn has_fetch(&self, name: &str) -> bool {
        name.starts_with("lua.") && self.registered(FunctionKind::Fetch, name).is_some()
    }

    fn has_converter(&self, name: &str) -> bool {
        name.starts_with("lua.") && self.registered(FunctionKind::Converter, name).is_some()
    }
}

impl ScriptHost for Scripts {
    fn load(&self, script: ScriptFile<'_>, settings: &ScriptSettings) -> Result<Vec<String>, String> {
        let mut loading = self.loading();
        let mut warnings = Vec::new();
        if settings.keeps_booleans.is_none() && !std::mem::replace(&mut loading.has_warned, true) {
            warnings.push(BOOLEANS.to_owned());
        }
        let (cell, thread) = match (script.per_thread, self.own.first()) {
            (true, Some(cell)) => (cell, 1),
            _ => (&self.shared, 0),
        };
        self.memory.states.set_limit(memory_of(settings));
        self.memory.held.set_limit(memory_of(settings).min(MOST_HELD));
        self.ensure(cell, thread, &loading.paths, settings)?;
        run_file(cell, script.path, script.text, script.arguments)?;
        if script.per_thread {
            loading.per_thread.push(OwnedScript {
                path: script.path.to_owned(),
                text: script.text.to_vec(),
                arguments: script.arguments.iter().map(|one| (*one).to_owned()).collect(),
            });
        }
        if let Some(state) = lock(&cell.state).as_deref() {
            warnings.extend(state.host().registry.take_warnings());
        }
        Ok(warnings)
    }

    fn prepend_path(&self, pattern: &str, kind: ModuleKind) {
        self.loading().paths.push((pattern.to_owned(), kind));
        for cell in std::iter::once(&self.shared).chain(&self.own) {
            if let Some(state) = lock(&cell.state).as_deref_mut() {
                api::prepend_path(state, pattern, kind);
            }
        }
    }

    fn action(&self, name: &str) -> Option<ScriptAction> {
        let Registered { rulesets, arguments, .. } = self.registered(FunctionKind::Action, name)?;
        Some(ScriptAction { name: weir_expr::expr::script::name_of(name), rulesets, arguments })
    }

    fn service(&self, name: &str, kind: ServiceKind) -> Option<ScriptName> {
        self.registered(FunctionKind::of_service(kind), name)?;
        Some(weir_expr::expr::script::name_of(name))
    }

    fn filter(&self, text: &str, arguments: &[&str]) -> Option<Result<ScriptFilter, String>> {
        let name = weir_expr::expr::script::name_of(text);
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let mut loading = self.loading();
        let id = FilterId(u32::try_from(loading.filters.len()).unwrap_or(u32::MAX));
        let cells = self.own.first().into_iter().chain(std::iter::once(&self.shared));
        let declared = cells.into_iter().find_map(|cell| declare_filter(cell, id, name, &arguments))?;
        loading.filters.push((name, arguments));
        Some(declared.map(|declaration| {
            let warning = declaration.warning(text);
            ScriptFilter { name, id, sees_http: declaration.sees_http(), warning }
        }))
    }
}

/// The warning without `tune.lua.bool-sample-conversion`.
const BOOLEANS: &str = "hlua: please set \"tune.lua.bool-sample-conversion\" tunable to either \"normal\" or \"pre-3.1-bug\" explicitly to avoid ambiguities. This must be set before any \"lua-load\" or \"lua-load-per-thread\" directive. Defaulting to \"pre-3.1-bug\".";
/// Instructions of a slice in a state of one worker (manual, "tune.lua.forced-yield").
const SLICE: u32 = 10_000;
static COLLECTION: WorkKind = WorkKind::new("Lua collection");
/// How long the sockets of a run that has ended stay open, in milliseconds, unless something else collects them. Often enough for descriptors, and rare
/// enough for a large state.
const COLLECTION_DELAY_MS: u64 = 1_000;
/// The most bytes of peers that wait for all scripts, if `tune.lua.maxmem` does not say less.
const MOST_HELD: usize = 256 << 20;
/// The most tasks of scripts.
const MOST_TASKS: usize = 20_000;
/// The least slice in the shared state.
const LEAST_SLICE: u32 = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_reported_in_one_line() {
        let traceback = "\nstack traceback:\n\t[C]: in function 'error'\n\t/a.lua:4: in function </a.lua:3>";
        let error = |kind, message: Option<&str>| LuaError {
            kind,
            message: message.map(str::to_owned),
            traceback: traceback.to_owned(),
        };
        let name = weir_expr::expr::script::name_of("lua.f");
        let shown = |kind, message| {
            ScriptFailure::new(FunctionKind::Fetch, Some(name), 2, &error(kind, message)).message
        };
        let from = "from [C]: in global 'error', /a.lua:4: in function line 3.";
        let begin = "Lua sample-fetch 'f': [state-id 2]";
        assert_eq!(
            shown(LuaErrorKind::Runtime, Some("/a.lua:4: x")),
            format!("{begin} runtime error: /a.lua:4: x {from}")
        );
        assert_eq!(shown(LuaErrorKind::Runtime, None), format!("{begin} unknown runtime error {from}"));
        assert_eq!(shown(LuaErrorKind::Timeout, None), format!("{begin} execution timeout {from}"));
        assert_eq!(shown(LuaErrorKind::Memory, None), format!("{begin} out of memory error {from}"));
    }

    #[test]
    fn files_that_fail_name_their_calls() {
        let traceback = "\nstack traceback:\n\t[C]: in function 'error'\n\t/a.lua:4: in main chunk";
        assert_eq!(called_from(traceback), ", called from [C]: in function 'error', /a.lua:4: in main chunk");
        assert_eq!(called_from("\nstack traceback:"), "");
    }

    #[test]
    fn the_workers_share_a_slice() {
        let slice = |slice, workers, own| {
            let resources = ScriptResources {
                registry: Arc::default(),
                patterns: Arc::default(),
                token_keys: weir_expr::TokenKeys::new(),
                variables: Arc::default(),
                files: Arc::new(weir_syntax::NoFiles),
                events: Arc::default(),
                process: Default::default(),
            };
            let scripts = Scripts::new(resources, 64);
            scripts.start(&ScriptSettings { slice, ..ScriptSettings::default() }, workers).unwrap();
            [scripts.started().slice(own, false), scripts.started().slice(own, true)]
        };
        let tick = |or_instructions| RunSlice::Tick { or_instructions };
        for (workers, instructions) in [(1, 10_000), (2, 5_000), (4, 2_500), (20, 500), (64, 500)] {
            let expected = [tick(instructions), RunSlice::Instructions(instructions)];
            assert_eq!(slice(None, workers, None), expected, "{workers}");
        }
        assert_eq!(slice(None, 64, Some(0)), [tick(10_000), RunSlice::Instructions(10_000)]);
        assert_eq!(slice(Some(300), 64, None), [RunSlice::Instructions(300); 2]);
    }

    #[test]
    fn a_thread_that_runs_lua_begins_no_other_run() {
        let first = Entry::new();
        assert!(first.is_some());
        // An attempt that failed changes nothing for the next one.
        assert!(Entry::new().is_none() && Entry::new().is_none());
        drop(first);
        assert!(Entry::new().is_some());
    }
}
