//! Calls of functions that do not wait, and the beginning of tasks.

use std::sync::Arc;

use weir_expr::{Args, FetchResult, ScriptName, Value};

use crate::api;
use crate::registry::FunctionKind;
use crate::run::start_tasks;
use crate::scripts::{Entry, ScriptFailure, Scripts};
use crate::sockets;
use crate::target::ScriptTarget;

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
        // An expression of a script does not run scripts: its own state is in use.
        let Some(_entry) = Entry::new() else { return FetchResult::Missing };
        let Some(place) = self.place(worker, FunctionKind::Fetch, name) else { return FetchResult::Missing };
        let number = target.number();
        let mut state = self.hold(place);
        let class = state.host().classes().txn;
        let called = state.call(
            place.function,
            Some(&mut *target),
            self.bounds(place, None, false),
            |stack| {
                stack.push_object(class, number);
                api::push_arguments(stack, args);
            },
            |results| api::read_result(results),
        );
        let tasks = state.host().take_tasks();
        drop(state);
        start_tasks(self, place.own, tasks);
        match called {
            Ok(value) => FetchResult::from(value),
            Err(error) => {
                let failure = ScriptFailure::new(FunctionKind::Fetch, Some(name), place.thread(), &error);
                self.report(Some(target), FunctionKind::Fetch, &failure);
                FetchResult::Missing
            }
        }
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
        let _entry = Entry::new()?;
        let place = self.place(worker, FunctionKind::Converter, name)?;
        let mut state = self.hold(place);
        let keeps = state.host().settings.keeps_booleans == Some(true);
        let called = state.call(
            place.function,
            Some(&mut *target),
            self.bounds(place, None, false),
            |stack| {
                api::push_value(stack, &value, keeps);
                api::push_arguments(stack, args);
            },
            |results| api::read_result(results),
        );
        let tasks = state.host().take_tasks();
        drop(state);
        start_tasks(self, place.own, tasks);
        match called {
            Ok(value) => value,
            Err(error) => {
                let failure = ScriptFailure::new(FunctionKind::Converter, Some(name), place.thread(), &error);
                self.report(Some(target), FunctionKind::Converter, &failure);
                None
            }
        }
    }
}
