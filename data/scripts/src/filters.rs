//! Filters of scripts (`filter lua.<name>`): one object for each line of the configuration, and one for each stream.
//!
//! ```text
//!   filter lua.NAME args ──► the registered function ──► the filter of the line, in each state
//!   a stream             ──► its `new`               ──► a FilterInstance ──► callbacks
//! ```
//! Callbacks do not wait (Lua API, "Filter class"): a state is held for one call.

use std::sync::Arc;

use weir_config::scripts::FilterId;
use weir_expr::ScriptName;
use weir_lua::{CANNOT_WAIT, LuaCall, LuaError, LuaErrorKind, LuaKind, LuaReference, LuaStack};

use crate::api;
use crate::cells::Place;
use crate::measure::{FunctionMeasurement, StateWait};
use crate::message::ScriptSide;
use crate::registry::FunctionKind;
use crate::run::start_tasks;
use crate::scripts::{Entry, ScriptFailure, Scripts};
use crate::target::ScriptTarget;
use crate::turns::Turn;
use crate::world::{Classes, World};

/// A function of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterCallback {
    New,
    StartAnalyze,
    HttpHeaders,
    HttpPayload,
    HttpEnd,
    TcpPayload,
    EndAnalyze,
}

impl FilterCallback {
    /// The name of the function.
    pub fn name(self) -> &'static str {
        match self {
            FilterCallback::New => "new",
            FilterCallback::StartAnalyze => "start_analyze",
            FilterCallback::HttpHeaders => "http_headers",
            FilterCallback::HttpPayload => "http_payload",
            FilterCallback::HttpEnd => "http_end",
            FilterCallback::TcpPayload => "tcp_payload",
            FilterCallback::EndAnalyze => "end_analyze",
        }
    }

    /// Whether the function gets a message, not a channel.
    fn has_message(self) -> bool {
        matches!(self, FilterCallback::HttpHeaders | FilterCallback::HttpPayload | FilterCallback::HttpEnd)
    }
}

/// How a callback ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterResult {
    /// The filter lacks the function.
    Absent,
    /// It returned nothing.
    Nothing,
    /// It returned a value: an integer, or `None` for anything else.
    Value(Option<i64>),
    /// It failed, which was reported.
    Failed,
}

/// The outcome of a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterOutcome {
    pub result: FilterResult,
    /// After how many milliseconds the filter wants to be called again (`filter.wake_time`).
    pub wake_ms: Option<u64>,
    /// Whether the filter asked for the payload of the request and the response, or does not want it any more.
    pub registered: [Option<bool>; 2],
}

/// The filter of one stream. Dropping it lets Lua collect its object.
#[derive(Debug)]
pub struct FilterInstance {
    scripts: Arc<Scripts>,
    name: ScriptName,
    /// The function that calls callbacks.
    place: Place,
    object: LuaReference,
    /// Whether the object is that of the stream, not of the configuration's line.
    is_own: bool,
    turn: Option<Turn>,
    state_wait: StateWait,
}

impl FilterInstance {
    /// A filter that was not made yet. `None` where the states of this worker lack a filter for the line.
    pub fn new(scripts: &Arc<Scripts>, worker: usize, id: FilterId, name: ScriptName) -> Option<Self> {
        let own = scripts.filter_of(Some(worker), id).map(|found| (Some(worker), found));
        let (own, found) = own.or_else(|| scripts.filter_of(None, id).map(|found| (None, found)))?;
        let place = Place { own, function: found.caller };
        let scripts = Arc::clone(scripts);
        Some(FilterInstance {
            scripts,
            name,
            place,
            object: found.object,
            is_own: false,
            turn: None,
            state_wait: StateWait::default(),
        })
    }

    /// Makes the object of the stream (`new`). `None` while another thread has the state: the task is woken for its turn.
    pub fn make(&mut self, target: &mut (dyn ScriptTarget + 'static)) -> Option<FilterMade> {
        let called = self.run(FilterCallback::New, ScriptSide::Request, target, |call| {
            let count = call.count();
            let is_table = count > 0 && call.kind(count) == LuaKind::Table;
            is_table.then(|| {
                call.push_value(count);
                call.keep()
            })
        })?;
        Some(match called {
            Ok((Some(object), _)) => {
                (self.object, self.is_own) = (object, true);
                FilterMade::Ready
            }
            Ok((None, _)) => FilterMade::Ignored,
            Err(error) if is_refused_wait(&error) => {
                self.report_wait(FilterCallback::New, target);
                FilterMade::Ignored
            }
            Err(error) => {
                self.report(&error, target);
                FilterMade::Failed
            }
        })
    }

    /// Calls a function of the filter. `None` while another thread has the state: the task is woken for its turn.
    pub fn call(
        &mut self,
        callback: FilterCallback,
        side: ScriptSide,
        target: &mut (dyn ScriptTarget + 'static),
    ) -> Option<FilterOutcome> {
        let called = self.run(callback, side, target, |call| match (call.count(), call.kind(1)) {
            (0, _) => FilterResult::Absent,
            // The callback ended by `core.done`, with the value alone.
            (1, LuaKind::Nil) => FilterResult::Nothing,
            (1, _) => FilterResult::Value(call.integer(1)),
            (_, LuaKind::Integer) if call.integer(1) == Some(0) => FilterResult::Nothing,
            _ => FilterResult::Value(call.integer(2)),
        })?;
        let (result, (wake_ms, registered)) = match called {
            Ok(called) => called,
            Err(error) if is_refused_wait(&error) => {
                self.report_wait(callback, target);
                (FilterResult::Nothing, Default::default())
            }
            Err(error) => {
                self.report(&error, target);
                (FilterResult::Failed, Default::default())
            }
        };
        Some(FilterOutcome { result, wake_ms, registered })
    }

    /// Calls the caller of callbacks, with the object of the filter.
    fn run<R>(
        &mut self,
        callback: FilterCallback,
        side: ScriptSide,
        target: &mut (dyn ScriptTarget + 'static),
        read: impl FnOnce(&LuaCall<'_, World>) -> R,
    ) -> Option<Result<(R, Requests), LuaError>> {
        let _entry = Entry::new();
        let bounds = self.scripts.bounds(self.place, None, false);
        let Some(mut state) = self.scripts.cell(self.place).hold_in_turn(&mut self.turn, bounds) else {
            self.state_wait.begin();
            return None;
        };
        let waited_ns = self.state_wait.end();
        let (object, number) = (self.object, target.number());
        let classes = *state.host().classes();
        let message = state.host().filters.messages(side);
        state.host().filters.begin(object);
        let measured = FunctionMeasurement::begin(&mut state, |_| Some(callback.name().to_owned()));
        let called = state.call(
            self.place.function,
            Some(&mut *target),
            bounds,
            |stack| {
                stack.push_reference(object);
                stack.push_bytes(callback.name().as_bytes());
                if callback != FilterCallback::New {
                    push_arguments(stack, &classes, callback.has_message().then_some(message), side, number);
                }
            },
            read,
        );
        if let Some(measured) = measured {
            let function = (FunctionKind::Filter, Some(self.name));
            measured.end(&state, self.scripts.costs(), function, waited_ns);
        }
        let requests = (state.host().wake_ms.take(), state.host().filters.end());
        let tasks = state.host().take_tasks();
        drop(state);
        start_tasks(&self.scripts, self.place.own, tasks);
        Some(called.map(|read| (read, requests)))
    }

    fn report(&self, error: &LuaError, target: &mut (dyn ScriptTarget + 'static)) {
        let kind = FunctionKind::Filter;
        let failure = ScriptFailure::new(kind, Some(self.name), self.place.thread(), error);
        self.scripts.report(Some(target), kind, &failure);
    }

    /// Reports a filter that keeps bytes although nothing will wake it.
    pub fn report_vain_wait(&self, callback: FilterCallback, target: &mut (dyn ScriptTarget + 'static)) {
        let message = format!(
            "Lua filter '{}': '{}' keeps bytes, but no more can arrive, and it set no wake time.",
            self.short_name(),
            callback.name()
        );
        self.scripts.report(Some(target), FunctionKind::Filter, &ScriptFailure { message });
    }

    /// The name of the filter in its script.
    fn short_name(&self) -> &'static str {
        let name = weir_expr::expr::script::text_of(self.name);
        name.strip_prefix("lua.").unwrap_or(name)
    }

    fn report_wait(&self, callback: FilterCallback, target: &mut (dyn ScriptTarget + 'static)) {
        let what = if callback == FilterCallback::New { "function" } else { "callback" };
        let message = format!(
            "Lua filter '{}': yield functions like core.tcp() or core.sleep() are not allowed from '{}' {what}.",
            self.short_name(),
            callback.name()
        );
        self.scripts.report(Some(target), FunctionKind::Filter, &ScriptFailure { message });
    }
}

impl Drop for FilterInstance {
    fn drop(&mut self) {
        if self.is_own {
            self.scripts.cell(self.place).forget(self.object);
        }
    }
}

/// The end of [`FilterInstance::make`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterMade {
    Ready,
    /// The filter does not want this stream.
    Ignored,
    /// It failed, which was reported.
    Failed,
}

/// `filter.wake_time` and `filter.register_data_filter` of a call.
type Requests = (Option<u64>, [Option<bool>; 2]);

/// Pushes the arguments of a callback: the transaction, and the message or the channel.
fn push_arguments(
    stack: &LuaStack<'_>,
    classes: &Classes,
    message: Option<LuaReference>,
    side: ScriptSide,
    number: i64,
) {
    let channel = match side {
        ScriptSide::Request => classes.request_channel,
        ScriptSide::Response => classes.response_channel,
    };
    api::push_txn(stack, classes.txn, number);
    stack.push_object(message.unwrap_or(channel), number, 0);
}

/// Whether the script tried to wait.
fn is_refused_wait(error: &LuaError) -> bool {
    error.kind == LuaErrorKind::Runtime
        && error.message.as_deref().is_some_and(|message| message.ends_with(CANNOT_WAIT))
}
