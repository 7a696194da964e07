//! Runs of functions on a stream.

use std::sync::Arc;
use std::time::Duration;

use weir_expr::ScriptName;
use weir_lua::{Coroutine, LuaKind, LuaStack, Resumed};

use crate::registry::FunctionKind;
use crate::scripts::{Entry, Place, ScriptFailure, Scripts};
use crate::target::ScriptTarget;
use crate::wait::{ScriptReply, ScriptWait};

/// How an action of a script ends: the values of `act`.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptResult {
    /// The next rule follows. Also after an error in the script, as in HAProxy.
    Continue,
    /// No further rules.
    Stop,
    /// An error of the proxy.
    Error,
    /// The stream ends, with a reply of the script if there is one.
    Done(Option<Box<ScriptReply>>),
    /// The message is refused.
    Deny,
    /// The connections are closed.
    Abort,
    /// The message is invalid.
    Invalid,
}

/// The next event of a run.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptStep {
    Ended(ScriptResult),
    /// Let others run, and go on.
    Pause,
    /// Go on after this time.
    Sleep(Duration),
}

/// A run of an action. Dropping it ends its coroutine.
#[derive(Debug)]
pub struct ScriptRun {
    scripts: Arc<Scripts>,
    place: Place,
    coroutine: Option<Coroutine>,
    kind: FunctionKind,
    name: ScriptName,
    /// How long it has computed.
    computed: Duration,
    /// How long it may.
    limit: Option<Duration>,
    /// Whether it has used a slice.
    is_long: bool,
}

impl ScriptRun {
    /// A run of an action, with its arguments of the configuration. `None` if no script registered it in a state of this worker.
    pub fn of_action(
        scripts: &Arc<Scripts>,
        worker: usize,
        name: ScriptName,
        arguments: &[Box<str>],
        target: &mut dyn ScriptTarget,
    ) -> Option<ScriptRun> {
        let place = scripts.place(worker, FunctionKind::Action, name)?;
        let number = target.number();
        let mut state = scripts.hold(place);
        let class = state.host().classes().txn;
        let coroutine = state.begin(place.function, |stack| {
            stack.push_object(class, number);
            for argument in arguments {
                stack.push_bytes(argument.as_bytes());
            }
        });
        drop(state);
        Some(ScriptRun {
            scripts: Arc::clone(scripts),
            place,
            coroutine: Some(coroutine),
            kind: FunctionKind::Action,
            name,
            computed: Duration::ZERO,
            limit: scripts.settings().session,
            is_long: false,
        })
    }

    /// Runs until the script ends or waits.
    pub fn step(&mut self, target: &mut (dyn ScriptTarget + 'static)) -> ScriptStep {
        let Some(coroutine) = &mut self.coroutine else { return ScriptStep::Ended(ScriptResult::Continue) };
        let _entry = Entry::new();
        let mut state = self.scripts.hold(self.place);
        let left = self.limit.map(|limit| limit.saturating_sub(self.computed));
        let bounds = self.scripts.bounds(self.place, left, self.is_long);
        let resumed = state.resume(coroutine, Some(&mut *target), bounds);
        self.computed += state.computed();
        match resumed {
            Resumed::Returned(count) => {
                let result = state.results(coroutine, |stack| read_result(stack, count));
                drop(state);
                self.end();
                ScriptStep::Ended(result)
            }
            Resumed::Interrupted => {
                self.is_long = true;
                ScriptStep::Pause
            }
            Resumed::Waits(ScriptWait::Others) => {
                state.settle(coroutine, |_| Ok(()));
                ScriptStep::Pause
            }
            Resumed::Waits(ScriptWait::Sleep(time)) => {
                state.settle(coroutine, |_| Ok(()));
                ScriptStep::Sleep(time)
            }
            Resumed::Waits(ScriptWait::Done(reply)) => {
                drop(state);
                self.end();
                ScriptStep::Ended(ScriptResult::Done(reply))
            }
            Resumed::Failed(error) => {
                let failure = ScriptFailure::new(self.kind, self.name, self.place.thread(), &error);
                drop(state);
                self.end();
                self.scripts.report(target, &failure);
                ScriptStep::Ended(ScriptResult::Continue)
            }
        }
    }

    fn end(&mut self) {
        if let Some(coroutine) = self.coroutine.take() {
            self.scripts.end(self.place, coroutine);
        }
    }
}

impl Drop for ScriptRun {
    fn drop(&mut self) {
        self.end();
    }
}

/// The result of an action: its last value, an integer of `act`.
fn read_result(stack: &LuaStack<'_>, count: i32) -> ScriptResult {
    if count == 0 || !matches!(stack.kind(-1), LuaKind::Integer | LuaKind::Float) {
        return ScriptResult::Continue;
    }
    match stack.integer(-1) {
        Some(1) => ScriptResult::Stop,
        Some(3) => ScriptResult::Error,
        Some(4) => ScriptResult::Done(None),
        Some(5) => ScriptResult::Deny,
        Some(6) => ScriptResult::Abort,
        Some(7) => ScriptResult::Invalid,
        _ => ScriptResult::Continue,
    }
}
