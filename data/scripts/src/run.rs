//! Runs of functions that may wait.

use std::sync::Arc;
use std::time::Duration;

use weir_config::scripts::ServiceKind;
use weir_expr::ScriptName;
use weir_lua::{Coroutine, LuaKind, LuaStack, Misuse, Resumed};
use weir_sched::{Class, Tick, WorkKind};

use crate::api;
use crate::channel::ChannelCall;
use crate::registry::FunctionKind;
use crate::scripts::{Entry, Place, ScriptFailure, Scripts};
use crate::sockets;
use crate::target::{ScriptSide, ScriptTarget};
use crate::wait::{ReceiveAmount, ScriptJob, ScriptReply, ScriptWait, after};
use crate::world::NewTask;

/// How a function of a script ends: the values of `act`.
#[derive(Debug, PartialEq, Eq)]
pub enum ScriptResult {
    /// The next rule follows.
    Continue,
    /// The action runs again, at this time at the latest, or once something woke the task.
    Again(Tick),
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
    /// The script failed, which was reported.
    Failed,
}

/// The next event of a run.
#[derive(Debug)]
pub enum ScriptStep {
    Ended(ScriptResult),
    /// Let others run, and go on.
    Pause,
    /// Go on at this time, or once something woke the task.
    Wait(Tick),
    /// Go on with these bytes ([`ScriptRun::give`]), or without them after this time.
    Receive(ReceiveAmount, Tick),
    /// Go on once the client took the bytes ([`ScriptRun::sent`]).
    Send(Vec<u8>),
    /// Go on once the response began ([`ScriptRun::began`]). The body of the reply is empty.
    Answer(Box<ScriptReply>),
    /// Go on with the result of the call: bytes ([`ScriptRun::give`]) or their number ([`ScriptRun::sent`]).
    Channel(ScriptSide, ChannelCall),
}

/// A wait that the run does by itself.
#[derive(Debug)]
enum Waiting {
    Until(Tick),
    Job(Box<dyn ScriptJob>),
}

/// A run of a function. Dropping it ends its coroutine.
#[derive(Debug)]
pub struct ScriptRun {
    scripts: Arc<Scripts>,
    place: Place,
    coroutine: Option<Coroutine>,
    kind: FunctionKind,
    /// `None` for a task.
    name: Option<ScriptName>,
    waiting: Option<Waiting>,
    /// `act.wake_time`.
    wake: Tick,
    /// How long it has computed.
    computed: Duration,
    /// How long it may.
    limit: Option<Duration>,
    /// Whether it has used a slice.
    is_long: bool,
    /// How many sockets it made, without those that it closed.
    open_sockets: i64,
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
        Some(ScriptRun::new(scripts, place, coroutine, FunctionKind::Action, Some(name)))
    }

    /// A run of a service. `None` if no script registered it in a state of this worker.
    pub fn of_service(
        scripts: &Arc<Scripts>,
        worker: usize,
        name: ScriptName,
        kind: ServiceKind,
        target: &mut dyn ScriptTarget,
    ) -> Option<ScriptRun> {
        let function = FunctionKind::of_service(kind);
        let place = scripts.place(worker, function, name)?;
        let mut state = scripts.hold(place);
        let classes = *state.host().classes();
        let coroutine = state.begin(place.function, |stack| match kind {
            ServiceKind::Http => api::push_http(stack, &classes, target),
            ServiceKind::Tcp => api::push_tcp(stack, &classes, target.number()),
        });
        drop(state);
        Some(ScriptRun::new(scripts, place, coroutine, function, Some(name)))
    }

    /// A run of a task.
    fn of_task(scripts: &Arc<Scripts>, own: Option<usize>, task: NewTask) -> ScriptRun {
        let place = Place { own, function: task.function };
        let mut state = scripts.hold(place);
        let coroutine = state.begin(task.function, |stack| {
            for argument in &task.arguments {
                match argument {
                    Some(argument) => stack.push_reference(*argument),
                    None => stack.push_nil(),
                }
            }
        });
        task.references().for_each(|reference| state.forget(reference));
        drop(state);
        ScriptRun::new(scripts, place, coroutine, FunctionKind::Task, None)
    }

    fn new(
        scripts: &Arc<Scripts>,
        place: Place,
        coroutine: Coroutine,
        kind: FunctionKind,
        name: Option<ScriptName>,
    ) -> ScriptRun {
        let settings = scripts.settings();
        let limit = match kind {
            FunctionKind::Task => settings.task,
            FunctionKind::HttpService | FunctionKind::TcpService => settings.service,
            _ => settings.session,
        };
        let scripts = Arc::clone(scripts);
        ScriptRun {
            scripts,
            place,
            coroutine: Some(coroutine),
            kind,
            name,
            waiting: None,
            wake: Tick::NEVER,
            computed: Duration::ZERO,
            limit,
            is_long: false,
            open_sockets: 0,
        }
    }

    /// Runs until the script ends or waits.
    pub fn step(&mut self, mut target: Option<&mut (dyn ScriptTarget + 'static)>) -> ScriptStep {
        for _ in 0..MOST_RESUMPTIONS {
            if let Some(at) = self.wait() {
                return ScriptStep::Wait(at);
            }
            let Some(resumed) = self.resume(target.as_deref_mut()) else {
                return ScriptStep::Ended(ScriptResult::Continue);
            };
            let wait = match resumed {
                Resumed::Returned(count) => {
                    let result = self.results(|stack| read_result(stack, count, self.wake));
                    self.end();
                    return ScriptStep::Ended(result.unwrap_or(ScriptResult::Continue));
                }
                Resumed::Interrupted => return ScriptStep::Pause,
                Resumed::Failed(error) => {
                    let failure = ScriptFailure::new(self.kind, self.name, self.place.thread(), &error);
                    self.end();
                    self.scripts.report(target, self.kind, &failure);
                    return ScriptStep::Ended(ScriptResult::Failed);
                }
                Resumed::Waits(wait) => wait,
            };
            match wait {
                ScriptWait::Done(reply) => {
                    self.end();
                    return ScriptStep::Ended(ScriptResult::Done(reply));
                }
                ScriptWait::End => {
                    self.end();
                    return ScriptStep::Ended(ScriptResult::Continue);
                }
                ScriptWait::Others => {
                    self.settle(|_| Ok(()));
                    return ScriptStep::Pause;
                }
                ScriptWait::Receive(amount, time) => {
                    return ScriptStep::Receive(amount, time.map_or(Tick::NEVER, after));
                }
                ScriptWait::Send(bytes) => return ScriptStep::Send(bytes),
                ScriptWait::Answer(reply) => return ScriptStep::Answer(reply),
                ScriptWait::Channel(side, call) => return ScriptStep::Channel(side, call),
                ScriptWait::Sleep(time) => self.waiting = Some(Waiting::Until(after(time))),
                ScriptWait::Job(job) => self.waiting = Some(Waiting::Job(job)),
            }
        }
        ScriptStep::Pause
    }

    /// Goes on with the wait of the run. `None` once the script can go on.
    fn wait(&mut self) -> Option<Tick> {
        match self.waiting.take()? {
            Waiting::Until(at) if at > weir_sched::now() => {
                self.waiting = Some(Waiting::Until(at));
                return Some(at);
            }
            Waiting::Until(_) => self.settle(|_| Ok(())),
            Waiting::Job(mut job) => {
                if let Some(at) = job.advance() {
                    self.waiting = Some(Waiting::Job(job));
                    return Some(at);
                }
                self.settle(|stack| job.finish(stack));
            }
        }
        None
    }

    /// Gives the function that receives its bytes. Nil without bytes.
    pub fn give(&mut self, bytes: Option<&[u8]>) {
        self.settle(|stack| {
            match bytes {
                Some(bytes) => stack.push_bytes(bytes),
                None => stack.push_nil(),
            }
            Ok(())
        });
    }

    /// The peer took so many bytes.
    pub fn sent(&mut self, count: usize) {
        self.settle(|stack| {
            stack.push_integer(count as i64);
            Ok(())
        });
    }

    /// The response of the service began.
    pub fn began(&mut self) {
        self.settle(|_| Ok(()));
    }

    /// The function that waits fails.
    pub fn refuse(&mut self, text: &'static str) {
        self.settle(|_| Err(Misuse::text(text)));
    }

    /// Resumes the coroutine. `None` if it has ended.
    fn resume(&mut self, target: Option<&mut (dyn ScriptTarget + 'static)>) -> Option<Resumed<ScriptWait>> {
        let coroutine = self.coroutine.as_mut()?;
        let _entry = Entry::new();
        let mut state = self.scripts.hold(self.place);
        let left = self.limit.map(|limit| limit.saturating_sub(self.computed));
        let bounds = self.scripts.bounds(self.place, left, self.is_long);
        let sockets = sockets::balance();
        let resumed = state.resume(coroutine, target, bounds);
        self.computed += state.computed();
        self.open_sockets += sockets::balance() - sockets;
        self.is_long |= matches!(resumed, Resumed::Interrupted);
        let tasks = state.host().take_tasks();
        if let Some(ms) = state.host().wake_ms.take() {
            self.wake = weir_sched::now().after(ms);
        }
        drop(state);
        start_tasks(&self.scripts, self.place.own, tasks);
        Some(resumed)
    }

    /// Gives the function that waits its results.
    fn settle(&mut self, push: impl FnOnce(&LuaStack<'_>) -> Result<(), Misuse>) {
        if let Some(coroutine) = &mut self.coroutine {
            self.scripts.hold(self.place).settle(coroutine, push);
        }
    }

    fn results<R>(&self, read: impl FnOnce(&LuaStack<'_>) -> R) -> Option<R> {
        let coroutine = self.coroutine.as_ref()?;
        Some(self.scripts.hold(self.place).results(coroutine, |call| read(call)))
    }

    fn end(&mut self) {
        if let Some(coroutine) = self.coroutine.take() {
            self.scripts.end(self.place, coroutine);
            if self.open_sockets > 0 {
                self.scripts.collect_soon(self.place);
            }
        }
    }
}

impl Drop for ScriptRun {
    fn drop(&mut self) {
        self.end();
    }
}

/// Starts tasks of a state on this worker (`core.register_task`). `own` is the number of the worker's own state.
pub(crate) fn start_tasks(scripts: &Arc<Scripts>, own: Option<usize>, tasks: Vec<NewTask>) {
    for task in tasks {
        let mut run = ScriptRun::of_task(scripts, own, task);
        weir_sched::spawn(&TASK, Class::Normal, async move {
            loop {
                match run.step(None) {
                    ScriptStep::Ended(_) => return,
                    ScriptStep::Wait(at) => {
                        weir_sched::wait(at).await;
                    }
                    ScriptStep::Pause => weir_sched::yield_now().await,
                    // These waits belong to services and actions. Their objects need a stream.
                    ScriptStep::Receive(..)
                    | ScriptStep::Send(_)
                    | ScriptStep::Answer(_)
                    | ScriptStep::Channel(..) => return,
                }
            }
        });
    }
}

static TASK: WorkKind = WorkKind::new("Lua task");

/// The result of an action: its last value, an integer of `act`.
fn read_result(stack: &LuaStack<'_>, count: i32, wake: Tick) -> ScriptResult {
    if count == 0 || !matches!(stack.kind(-1), LuaKind::Integer | LuaKind::Float) {
        return ScriptResult::Continue;
    }
    match stack.integer(-1) {
        Some(1) => ScriptResult::Stop,
        Some(2) => ScriptResult::Again(wake),
        Some(3) => ScriptResult::Error,
        Some(4) => ScriptResult::Done(None),
        Some(5) => ScriptResult::Deny,
        Some(6) => ScriptResult::Abort,
        Some(7) => ScriptResult::Invalid,
        _ => ScriptResult::Continue,
    }
}

/// After so many waits that ended at once, other tasks run.
const MOST_RESUMPTIONS: u32 = 32;
