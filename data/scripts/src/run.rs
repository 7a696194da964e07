//! Runs of functions that may wait.

use std::sync::Arc;
use std::time::Duration;

use weir_config::scripts::ServiceKind;
use weir_expr::ScriptName;
use weir_lua::{Coroutine, LuaError, LuaErrorKind, LuaKind, LuaStack, Misuse, Resumed};
use weir_sched::{Class, Tick, WorkKind};

use crate::alarms::QueueWaiter;
use crate::api;
use crate::cells::Place;
use crate::channel::ChannelCall;
use crate::events::{NextEvent, QueuedEvent, Subscription};
use crate::held::HeldBytes;
use crate::measure::{FunctionMeasurement, StateWait};
use crate::message::ScriptSide;
use crate::registry::FunctionKind;
use crate::scripts::{Entry, ScriptFailure, Scripts};
use crate::sockets;
use crate::target::ScriptTarget;
use crate::turns::Turn;
use crate::wait::{ReceiveAmount, ScriptJob, ScriptReply, ScriptWait, after};
use crate::world::{NewTask, ScriptState};

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
    /// For an event, or this time. `has_begun` once the driver waits.
    Event {
        until: Tick,
        has_begun: bool,
    },
    /// For an item of a queue.
    Item,
    Job(Box<dyn ScriptJob>),
}

/// Where a run is.
#[derive(Debug)]
enum RunStage {
    /// It begins once it has its state.
    New(Beginning),
    Begun(Coroutine),
    Over,
}

/// The arguments of a run.
#[derive(Debug)]
enum Beginning {
    Action {
        number: i64,
        arguments: Box<[Box<str>]>,
    },
    Service(ServiceKind),
    /// With all words of the line.
    Command(Box<[String]>),
    Task(NewTask),
    /// An event, and the number of its subscription.
    Event(QueuedEvent, i64),
}

/// The results of a wait that has ended.
#[derive(Debug)]
enum Settlement {
    Nothing,
    /// Nil without bytes.
    Bytes(Option<Vec<u8>>),
    Count(usize),
    Refused(&'static str),
    /// The next item of the queue of the function that waits.
    Item,
    Job(Box<dyn ScriptJob>),
}

impl Settlement {
    fn push(self, stack: &LuaStack<'_>) -> Result<(), Misuse> {
        match self {
            Settlement::Nothing | Settlement::Item => {}
            Settlement::Bytes(Some(bytes)) => stack.push_bytes(&bytes),
            Settlement::Bytes(None) => stack.push_nil(),
            Settlement::Count(count) => stack.push_integer(count as i64),
            Settlement::Refused(text) => return Err(Misuse::text(text)),
            Settlement::Job(job) => return job.finish(stack),
        }
        Ok(())
    }
}

/// Why a coroutine stopped.
#[derive(Debug)]
enum RunStop {
    Returned(ScriptResult),
    Interrupted,
    Waits(ScriptWait),
    Failed(LuaError),
    /// Another thread has the state.
    Busy,
    /// The queue is empty again.
    Empty,
}

/// A run of a function. Dropping it ends its coroutine.
#[derive(Debug)]
pub struct ScriptRun {
    scripts: Arc<Scripts>,
    place: Place,
    stage: RunStage,
    /// The results of the wait that has ended, for the function that waits.
    settlement: Option<Settlement>,
    /// Its turn for a state that other threads use.
    turn: Option<Turn>,
    state_wait: StateWait,
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
    /// The bytes of its client that were not given yet.
    held: HeldBytes,
    /// Its alarms in queues.
    waiter: Option<Arc<QueueWaiter>>,
}

impl ScriptRun {
    /// A run of an action, with its arguments of the configuration. `None` if no script registered it in a state of this worker.
    pub fn of_action(
        scripts: &Arc<Scripts>,
        worker: usize,
        name: ScriptName,
        arguments: &[Box<str>],
        target: &dyn ScriptTarget,
    ) -> Option<ScriptRun> {
        let place = scripts.place(worker, FunctionKind::Action, name)?;
        let beginning = Beginning::Action { number: target.number(), arguments: arguments.into() };
        Some(ScriptRun::new(scripts, place, beginning, FunctionKind::Action, Some(name)))
    }

    /// A run of a service. `None` if no script registered it in a state of this worker.
    pub fn of_service(
        scripts: &Arc<Scripts>,
        worker: usize,
        name: ScriptName,
        kind: ServiceKind,
    ) -> Option<ScriptRun> {
        let function = FunctionKind::of_service(kind);
        let place = scripts.place(worker, function, name)?;
        Some(ScriptRun::new(scripts, place, Beginning::Service(kind), function, Some(name)))
    }

    /// A run of a command, with all words of its line. `None` if no script registered it in a state of this worker.
    pub fn of_command(scripts: &Arc<Scripts>, worker: usize, words: &[String]) -> Option<ScriptRun> {
        let name = scripts.commands(worker).find(words)?.name();
        let place = scripts.place(worker, FunctionKind::Command, name)?;
        Some(ScriptRun::new(
            scripts,
            place,
            Beginning::Command(words.into()),
            FunctionKind::Command,
            Some(name),
        ))
    }

    /// A run of a handler.
    fn of_event(scripts: &Arc<Scripts>, place: Place, event: QueuedEvent, subscription: i64) -> ScriptRun {
        ScriptRun::new(scripts, place, Beginning::Event(event, subscription), FunctionKind::Handler, None)
    }

    /// A run of a task.
    fn of_task(scripts: &Arc<Scripts>, own: Option<usize>, task: NewTask) -> ScriptRun {
        let place = Place { own, function: task.function };
        ScriptRun::new(scripts, place, Beginning::Task(task), FunctionKind::Task, None)
    }

    fn new(
        scripts: &Arc<Scripts>,
        place: Place,
        beginning: Beginning,
        kind: FunctionKind,
        name: Option<ScriptName>,
    ) -> ScriptRun {
        let settings = scripts.settings();
        let limit = match kind {
            FunctionKind::Task | FunctionKind::Handler => settings.task,
            FunctionKind::HttpService | FunctionKind::TcpService | FunctionKind::Command => settings.service,
            _ => settings.session,
        };
        let (scripts, held) = (Arc::clone(scripts), scripts.held_bytes());
        ScriptRun {
            scripts,
            place,
            stage: RunStage::New(beginning),
            settlement: None,
            turn: None,
            state_wait: StateWait::default(),
            kind,
            name,
            waiting: None,
            wake: Tick::NEVER,
            computed: Duration::ZERO,
            limit,
            is_long: false,
            held,
            open_sockets: 0,
            waiter: None,
        }
    }

    /// Runs until the script ends or waits.
    pub fn step(&mut self, mut target: Option<&mut (dyn ScriptTarget + 'static)>) -> ScriptStep {
        for _ in 0..MOST_RESUMPTIONS {
            if let Some(at) = self.wait() {
                return ScriptStep::Wait(at);
            }
            let wait = match self.resume(target.as_deref_mut()) {
                RunStop::Empty => {
                    self.waiting = Some(Waiting::Item);
                    continue;
                }
                RunStop::Busy => return ScriptStep::Wait(Turn::retry_at()),
                RunStop::Returned(result) => {
                    self.end();
                    return ScriptStep::Ended(result);
                }
                RunStop::Interrupted => return ScriptStep::Pause,
                RunStop::Failed(error) => {
                    let failure = ScriptFailure::new(self.kind, self.name, self.place.thread(), &error);
                    self.end();
                    self.scripts.report(target, self.kind, &failure);
                    return ScriptStep::Ended(ScriptResult::Failed);
                }
                RunStop::Waits(wait) => wait,
            };
            match wait {
                ScriptWait::Done(reply) => {
                    self.end();
                    return ScriptStep::Ended(ScriptResult::Done(reply));
                }
                ScriptWait::Others => {
                    self.settlement = Some(Settlement::Nothing);
                    return ScriptStep::Pause;
                }
                ScriptWait::Receive(amount, time) => {
                    return ScriptStep::Receive(amount, time.map_or(Tick::NEVER, after));
                }
                ScriptWait::Send(bytes) => return ScriptStep::Send(bytes),
                ScriptWait::Answer(reply) => return ScriptStep::Answer(reply),
                ScriptWait::Channel(side, call) => return ScriptStep::Channel(side, call),
                ScriptWait::Sleep(time) => self.waiting = Some(Waiting::Until(after(time))),
                ScriptWait::Event(time) => {
                    let until = time.map_or(Tick::NEVER, after);
                    self.waiting = Some(Waiting::Event { until, has_begun: false });
                }
                ScriptWait::Item => self.waiting = Some(Waiting::Item),
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
            Waiting::Until(_) => self.settlement = Some(Settlement::Nothing),
            Waiting::Event { until, has_begun } => {
                if !self.is_rung() && !has_begun {
                    self.waiting = Some(Waiting::Event { until, has_begun: true });
                    return Some(until);
                }
                self.settlement = Some(Settlement::Nothing);
            }
            Waiting::Item => {
                if !self.is_rung() {
                    self.waiting = Some(Waiting::Item);
                    return Some(Tick::NEVER);
                }
                self.settlement = Some(Settlement::Item);
            }
            Waiting::Job(mut job) => {
                if let Some(at) = job.advance() {
                    self.waiting = Some(Waiting::Job(job));
                    return Some(at);
                }
                self.settlement = Some(Settlement::Job(job));
            }
        }
        None
    }

    /// Whether a queue rang since the last call.
    fn is_rung(&self) -> bool {
        self.waiter.as_ref().is_some_and(|waiter| waiter.take())
    }

    /// Gives the function that receives its bytes. Nil without bytes.
    pub fn give(&mut self, bytes: Option<Vec<u8>>) {
        self.settlement = Some(Settlement::Bytes(bytes));
    }

    /// The peer took so many bytes.
    pub fn sent(&mut self, count: usize) {
        self.settlement = Some(Settlement::Count(count));
    }

    /// Counts the bytes of its client that are held for it. False if those of all runs would be too many.
    pub fn holds(&mut self, bytes: usize) -> bool {
        self.held.grow_to(bytes)
    }

    /// The response of the service began.
    pub fn began(&mut self) {
        self.settlement = Some(Settlement::Nothing);
    }

    /// The function that waits fails.
    pub fn refuse(&mut self, text: &'static str) {
        self.settlement = Some(Settlement::Refused(text));
    }

    /// Resumes the coroutine with the results of its wait.
    fn resume(&mut self, mut target: Option<&mut (dyn ScriptTarget + 'static)>) -> RunStop {
        let _entry = Entry::new();
        let Some(mut state) = self.scripts.hold_in_turn(self.place, &mut self.turn) else {
            self.state_wait.begin();
            return RunStop::Busy;
        };
        let waited_ns = self.state_wait.end();
        if let RunStage::New(_) = self.stage {
            let RunStage::New(beginning) = std::mem::replace(&mut self.stage, RunStage::Over) else {
                return RunStop::Returned(ScriptResult::Continue);
            };
            self.stage = RunStage::Begun(begin(&mut state, self.place, beginning, target.as_deref_mut()));
        }
        let RunStage::Begun(coroutine) = &mut self.stage else {
            return RunStop::Returned(ScriptResult::Continue);
        };
        state.host().waiter.replace(self.waiter.take());
        match self.settlement.take() {
            Some(Settlement::Item) if !state.settle_if(coroutine, api::settle_pop) => {
                self.waiter = state.host().waiter.take();
                return RunStop::Empty;
            }
            Some(Settlement::Item) | None => {}
            Some(settlement) => {
                state.settle(coroutine, |stack| settlement.push(stack));
                self.held.release();
            }
        }
        let left = self.limit.map(|limit| limit.saturating_sub(self.computed));
        let bounds = self.scripts.bounds(self.place, left, self.is_long);
        let sockets = sockets::balance();
        let measured = FunctionMeasurement::begin(&mut state, |state| state.place_of_run(coroutine));
        let resumed = state.resume(coroutine, target, bounds);
        if let Some(measured) = measured {
            measured.end(&state, self.scripts.costs(), (self.kind, self.name), waited_ns);
        }
        self.computed += state.computed();
        self.open_sockets += sockets::balance() - sockets;
        self.waiter = state.host().waiter.take();
        let tasks = state.host().take_tasks();
        if let Some(ms) = state.host().wake_ms.take() {
            self.wake = weir_sched::now().after(ms);
        }
        let wake = self.wake;
        let stop = match resumed {
            Resumed::Returned(count) => {
                RunStop::Returned(state.results(coroutine, |stack| read_result(stack, count, wake)))
            }
            Resumed::Interrupted => {
                self.is_long = true;
                RunStop::Interrupted
            }
            Resumed::Waits(wait) => RunStop::Waits(wait),
            Resumed::Failed(error) => RunStop::Failed(error),
        };
        drop(state);
        start_tasks(&self.scripts, self.place.own, tasks);
        stop
    }

    /// Reports a failure before the run begins.
    fn fail(&self, text: &str) {
        let error = LuaError {
            kind: LuaErrorKind::Runtime,
            message: Some(text.to_owned()),
            traceback: String::new(),
        };
        let failure = ScriptFailure::new(self.kind, self.name, self.place.thread(), &error);
        self.scripts.report(None, self.kind, &failure);
    }

    fn end(&mut self) {
        if let RunStage::Begun(coroutine) = std::mem::replace(&mut self.stage, RunStage::Over) {
            let bounds = self.scripts.bounds(self.place, None, false);
            self.scripts.cell(self.place).end(coroutine, bounds);
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

/// The coroutine of a run.
fn begin(
    state: &mut ScriptState,
    place: Place,
    beginning: Beginning,
    target: Option<&mut (dyn ScriptTarget + 'static)>,
) -> Coroutine {
    let classes = *state.host().classes();
    match beginning {
        Beginning::Action { number, arguments } => state.begin(place.function, |stack| {
            api::push_txn(stack, classes.txn, number);
            arguments.iter().for_each(|argument| stack.push_bytes(argument.as_bytes()));
        }),
        Beginning::Service(kind) => state.begin(place.function, |stack| match (kind, target) {
            (ServiceKind::Http, Some(target)) => api::push_http(stack, &classes, target.number()),
            (ServiceKind::Tcp, Some(target)) => api::push_tcp(stack, &classes, target.number()),
            (_, None) => stack.push_nil(),
        }),
        Beginning::Command(words) => state.begin(place.function, |stack| {
            match target {
                Some(target) => api::push_tcp(stack, &classes, target.number()),
                None => stack.push_nil(),
            }
            words.iter().for_each(|word| stack.push_bytes(word.as_bytes()));
        }),
        Beginning::Event(event, subscription) => {
            state.begin(place.function, |call| api::push_event(call, &event, subscription))
        }
        Beginning::Task(task) => {
            let coroutine = state.begin(place.function, |stack| {
                for argument in &task.arguments {
                    match argument {
                        Some(argument) => stack.push_reference(*argument),
                        None => stack.push_nil(),
                    }
                }
            });
            task.references().for_each(|reference| state.forget(reference));
            coroutine
        }
    }
}

/// Starts tasks of a state on this worker. `own` is the number of the worker's own state.
pub(crate) fn start_tasks(scripts: &Arc<Scripts>, own: Option<usize>, tasks: Vec<NewTask>) {
    for mut task in tasks {
        let place = scripts.task_places();
        let has_place = place.grow_to(1);
        let subscription = task.subscription.take();
        let function = task.function;
        let run = ScriptRun::of_task(scripts, own, task);
        if !has_place {
            run.fail("too many tasks");
            subscription.into_iter().for_each(|one| scripts.subscriptions().end(one.number));
            continue;
        }
        match subscription {
            Some(subscription) => {
                let events = Arc::clone(scripts);
                let function = Place { own, function };
                weir_sched::spawn(&HANDLER, Class::Normal, handle(events, function, subscription, place))
            }
            None => weir_sched::spawn(&TASK, Class::Normal, async move {
                finish(run).await;
                drop(place);
            }),
        };
    }
}

/// Runs a function without a stream to its end.
async fn finish(mut run: ScriptRun) {
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
            | ScriptStep::Channel(..) => {
                return;
            }
        }
    }
}

/// Calls a handler with one event after the other, until its subscription ends.
async fn handle(scripts: Arc<Scripts>, place: Place, subscription: Arc<Subscription>, _held: HeldBytes) {
    loop {
        match subscription.next() {
            NextEvent::Event(event) => {
                finish(ScriptRun::of_event(&scripts, place, event, subscription.number)).await;
                weir_sched::yield_now().await;
            }
            NextEvent::Dropped(count) => report_dropped(&scripts, place, count),
            NextEvent::Wait => {
                weir_sched::wait(Tick::NEVER).await;
            }
            NextEvent::Ended => break,
        }
    }
    scripts.cell(place).forget(place.function);
}

fn report_dropped(scripts: &Scripts, place: Place, count: u64) {
    let (noun, thread) = (FunctionKind::Handler.noun(), place.thread());
    let message =
        format!("Lua {noun}: [state-id {thread}] {count} events were dropped: the handler does not keep up.");
    scripts.report(None, FunctionKind::Handler, &ScriptFailure { message });
}

static TASK: WorkKind = WorkKind::new("Lua task");
static HANDLER: WorkKind = WorkKind::new("Lua event handler");

/// The result of an action: its last value, an integer of `act`.
fn read_result(stack: &LuaStack<'_>, count: i32, wake: Tick) -> ScriptResult {
    if count == 0 || !matches!(stack.kind(-1), LuaKind::Integer | LuaKind::Float | LuaKind::String) {
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
