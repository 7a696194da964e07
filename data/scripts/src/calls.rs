//! Calls of functions that do not wait, and the beginning of tasks.

use std::sync::Arc;

use weir_expr::{Args, FetchResult, ScriptName, Value};
use weir_lua::LuaStack;

use crate::api;
use crate::measure::{FunctionMeasurement, StateWait};
use crate::registry::FunctionKind;
use crate::run::start_tasks;
use crate::scripts::{Entry, ScriptFailure, Scripts};
use crate::sockets;
use crate::target::ScriptTarget;
use crate::world::World;

impl Scripts {
    /// Prepares a worker: its table of sockets, and the tasks that scripts registered before it ran.
    pub fn begin(self: &Arc<Self>, worker: usize) {
        sockets::start(worker);
        self.take_tasks(worker).into_iter().for_each(|(own, tasks)| start_tasks(self, own, tasks));
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
                stack.push_object(class, number);
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
        let mut state = self.hold(place);
        let waited_ns = wait.end();
        let arguments = arguments(state.host());
        let measured = FunctionMeasurement::begin(&mut state, |state| state.place_of(place.function));
        let called = state.call(
            place.function,
            Some(&mut *target),
            self.bounds(place, None, false),
            arguments,
            |results| api::read_result(results),
        );
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
