//! Calls of functions that do not wait, and the beginning of tasks.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use weir_expr::{Args, FetchResult, ScriptName, Value};
use weir_lua::LuaStack;

use crate::api;
use crate::measure::{FunctionMeasurement, StateWait};
use crate::registry::FunctionKind;
use crate::run::start_tasks;
use crate::scripts::{Entry, ScriptFailure, Scripts, described};
use crate::sockets;
use crate::target::ScriptTarget;
use crate::turns::Turn;
use crate::world::World;

thread_local! {
    /// The scripts with a state that this thread reserved.
    static RESERVED: RefCell<ManuallyDrop<Option<Arc<Scripts>>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

/// Gives the state back that this thread reserved. Nothing happens without one.
pub fn release_reservation() {
    if let Some(scripts) = RESERVED.with_borrow_mut(|reserved| reserved.take()) {
        scripts.shared.release();
    }
}

impl Scripts {
    /// Reserves the shared state for the expressions that follow, which cannot wait. False while another thread has it: the task is woken for its
    /// turn. The thread gives it back by [`release_reservation`], before it runs another task.
    pub fn reserve(self: &Arc<Self>, turn: &mut Option<Turn>) -> bool {
        if self.shared.functions.get().is_none() {
            return true;
        }
        if self.shared.reserve(turn) {
            RESERVED.with_borrow_mut(|reserved| **reserved = Some(Arc::clone(self)));
            return true;
        }
        false
    }

    /// Whether a worker calls one of these fetches and converters in the shared state. Names of its own state have precedence.
    pub fn uses_shared_state(&self, worker: usize, names: &[ScriptName]) -> bool {
        let is_shared = |kind, name| self.place(worker, kind, name).is_some_and(|place| place.own.is_none());
        let mut names = names.iter();
        names.any(|name| is_shared(FunctionKind::Fetch, *name) || is_shared(FunctionKind::Converter, *name))
    }

    /// Prepares a worker: its table of sockets, and the tasks that scripts registered before it ran.
    pub fn begin(self: &Arc<Self>, worker: usize) {
        sockets::start(worker);
        self.take_tasks(worker).into_iter().for_each(|(own, tasks)| start_tasks(self, own, tasks));
    }

    /// Whether another thread has the state of a function now.
    pub fn is_busy(&self, worker: usize, kind: FunctionKind, name: ScriptName) -> bool {
        self.place(worker, kind, name).is_some_and(|place| self.cell(place).is_busy())
    }

    /// Evaluates a fetch of a script.
    pub fn fetch(
        self: &Arc<Self>,
        worker: usize,
        name: ScriptName,
        args: &Args,
        target: &mut (dyn ScriptTarget + 'static),
    ) -> FetchResult<'static> {
        let number = target.number();
        let called = self.call(worker, (FunctionKind::Fetch, name), target, |world| {
            let class = world.classes().txn;
            move |stack| {
                api::push_txn(stack, class, number);
                api::push_arguments(stack, args);
            }
        });
        FetchResult::from(called)
    }

    /// Evaluates a converter of a script.
    pub fn convert(
        self: &Arc<Self>,
        worker: usize,
        name: ScriptName,
        value: Value<'static>,
        args: &Args,
        target: &mut (dyn ScriptTarget + 'static),
    ) -> Option<Value<'static>> {
        self.call(worker, (FunctionKind::Converter, name), target, |world| {
            let keeps = world.settings.keeps_booleans == Some(true);
            move |stack| {
                api::push_value(stack, &value, keeps);
                api::push_arguments(stack, args);
            }
        })
    }

    /// Calls a function of an expression. `None` without a result, and on an error, which is reported.
    fn call<F: FnOnce(&LuaStack<'_>)>(
        self: &Arc<Self>,
        worker: usize,
        (kind, name): (FunctionKind, ScriptName),
        target: &mut (dyn ScriptTarget + 'static),
        arguments: impl FnOnce(&World) -> F,
    ) -> Option<Value<'static>> {
        // An expression of a script does not run scripts: its own state is in use.
        let _entry = Entry::new()?;
        let place = self.place(worker, kind, name)?;
        let mut wait = StateWait::default();
        wait.begin();
        let bounds = self.bounds(place, None, false);
        let Some(mut state) = self.cell(place).hold_soon(bounds) else {
            if let Some(message) = self.busy.note(&described(kind, Some(name))) {
                self.report(Some(target), kind, &ScriptFailure { message });
            }
            return None;
        };
        let waited_ns = wait.end();
        let arguments = arguments(state.host());
        let measured = FunctionMeasurement::begin(&mut state, |state| state.place_of(place.function));
        let called = state
            .call(place.function, Some(&mut *target), bounds, arguments, |results| api::read_result(results));
        if let Some(measured) = measured {
            measured.end(&state, self.costs(), (kind, Some(name)), waited_ns);
        }
        let tasks = state.host().take_tasks();
        drop(state);
        start_tasks(self, place.own, tasks);
        called.unwrap_or_else(|error| {
            let failure = ScriptFailure::new(kind, Some(name), place.thread(), &error);
            self.report(Some(target), kind, &failure);
            None
        })
    }
}
