//! Commands of scripts: their runs, as answers of the runtime API.

use std::any::Any;
use std::ops::Range;

use weir_cli::target::{ScriptCommandRun, ScriptCommandStep, ScriptCommandTarget, ScriptCommandView};
use weir_expr::context::DetachedContext;
use weir_expr::pattern::regex::Regex;
use weir_expr::{
    Args, Context, FetchCursor, FetchIndex, FetchResult, ProcessFacts, ScriptName, SetCondition, TimeZone,
    Value, VariableId, VariableScope, WallTime,
};
use weir_http::Head;
use weir_sched::Tick;
use weir_scripts::{
    ChannelState, FilterTurn, ReceiveAmount, RequestLinePart, ScriptChannels, ScriptRun, ScriptSide,
    ScriptStep, ScriptTarget, StreamSetting, VisitAll,
};

use super::{LiveProcess, LiveTarget, now_ms};

impl ScriptCommandTarget for LiveTarget {
    fn script_commands(&self) -> Vec<ScriptCommandView> {
        let Some(scripts) = &self.live.record.scripts else { return Vec::new() };
        let commands = scripts.commands(weir_sched::worker_index());
        let view = |command: &weir_scripts::ScriptCommand| ScriptCommandView {
            name: command.words.join(" "),
            usage: command.usage.clone(),
        };
        commands.iter().map(view).collect()
    }

    fn script_command_length(&self, words: &[String]) -> Option<usize> {
        let commands = self.live.record.scripts.as_ref()?.commands(weir_sched::worker_index());
        commands.find(words).map(|command| command.words.len())
    }

    fn run_script_command(&mut self, words: &[String]) -> Option<Box<dyn ScriptCommandRun>> {
        let scripts = self.live.record.scripts.as_ref()?;
        let run = ScriptRun::of_command(scripts, weir_sched::worker_index(), words)?;
        Some(Box::new(ScriptAnswer {
            run,
            client: CommandClient::new(&self.live),
            wants: CommandWait::Nothing,
            held: Vec::new(),
            reads_at_end: 0,
        }))
    }
}

/// A command that runs.
struct ScriptAnswer {
    run: ScriptRun,
    client: CommandClient,
    wants: CommandWait,
    /// Bytes that were read for a call that timed out.
    held: Vec<u8>,
    /// How often the script has read nothing at the end.
    reads_at_end: u32,
}

/// A wait of the script for its client.
enum CommandWait {
    Nothing,
    Bytes { amount: ReceiveAmount, until: Tick, taken: Vec<u8>, is_last: bool },
    Room { bytes: Vec<u8>, given: usize },
}

impl ScriptCommandRun for ScriptAnswer {
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> ScriptCommandStep {
        for _ in 0..MOST_STEPS {
            if let Some(step) = self.serve(enough, out) {
                return step;
            }
            match self.run.step(Some(&mut self.client)) {
                ScriptStep::Ended(_) => return ScriptCommandStep::Done,
                ScriptStep::Pause => return ScriptCommandStep::More,
                ScriptStep::Wait(at) => return ScriptCommandStep::Until { at_ms: at.as_ms() },
                ScriptStep::Receive(amount, until) => {
                    // The session passes input before the next step.
                    self.begin_read(amount, until);
                    return ScriptCommandStep::More;
                }
                ScriptStep::Send(bytes) => self.wants = CommandWait::Room { bytes, given: 0 },
                ScriptStep::Answer(_) | ScriptStep::Channel(..) => {
                    self.run.refuse("commands run without a stream");
                }
            }
        }
        ScriptCommandStep::More
    }

    fn read(&mut self, input: &[u8], is_last: bool) -> usize {
        let CommandWait::Bytes { amount, taken, is_last: has_ended, .. } = &mut self.wants else { return 0 };
        let count = if taken.len() > MOST_HELD { 0 } else { amount.wanted(taken, input) };
        taken.extend_from_slice(&input[..count]);
        *has_ended = is_last && count == input.len();
        count
    }
}

impl ScriptAnswer {
    /// Serves the wait for the client. `None` once the script can go on.
    fn serve(&mut self, enough: usize, out: &mut Vec<u8>) -> Option<ScriptCommandStep> {
        match std::mem::replace(&mut self.wants, CommandWait::Nothing) {
            CommandWait::Nothing => None,
            CommandWait::Room { bytes, given } => {
                let end = bytes.len().min(given + enough.saturating_sub(out.len()));
                out.extend_from_slice(&bytes[given..end]);
                if end < bytes.len() {
                    self.wants = CommandWait::Room { bytes, given: end };
                    return Some(ScriptCommandStep::More);
                }
                self.run.sent(end);
                None
            }
            CommandWait::Bytes { amount, until, taken, is_last } => self.give(amount, until, taken, is_last),
        }
    }

    fn begin_read(&mut self, amount: ReceiveAmount, until: Tick) {
        let mut taken = Vec::new();
        let count = amount.wanted(&taken, &self.held);
        taken.extend(self.held.drain(..count));
        self.wants = CommandWait::Bytes { amount, until, taken, is_last: false };
    }

    /// Gives the script its bytes, if they are enough.
    fn give(
        &mut self,
        amount: ReceiveAmount,
        until: Tick,
        taken: Vec<u8>,
        is_last: bool,
    ) -> Option<ScriptCommandStep> {
        let ends = is_last && taken.is_empty();
        self.reads_at_end += u32::from(ends);
        if self.reads_at_end > MOST_READS_AT_END {
            self.run.refuse("the client has ended, and the script goes on to read");
        } else if taken.len() > MOST_HELD || !self.run.holds(taken.len() + self.held.len()) {
            self.run.refuse("the client sent more than a script may read at once");
        } else if amount == ReceiveAmount::There {
            self.run.give((!taken.is_empty()).then_some(taken));
        } else if is_last || amount.is_enough(&taken) {
            self.run.give(Some(taken));
        } else if until <= weir_sched::now() {
            self.held = taken;
            self.run.give(None);
        } else {
            self.wants = CommandWait::Bytes { amount, until, taken, is_last };
            return Some(ScriptCommandStep::Input { until_ms: until.as_ms() });
        }
        None
    }
}

/// The client of a command, as its script sees it: without messages and channels, and with variables of its own.
struct CommandClient {
    live: LiveProcess,
    number: i64,
    context: DetachedContext<'static>,
    /// Objects that live until the command ends.
    kept: Vec<Box<dyn Any>>,
}

impl CommandClient {
    fn new(live: &LiveProcess) -> Self {
        CommandClient {
            live: live.clone(),
            number: weir_stream::worker::next_serial() as i64,
            context: DetachedContext { seed: weir_sched::random(), ..DetachedContext::default() },
            kept: Vec::new(),
        }
    }
}

impl ScriptTarget for CommandClient {
    fn number(&self) -> i64 {
        self.number
    }

    fn context(&mut self) -> &mut dyn Context {
        self
    }

    fn resolve(&self, _: VisitAll<'_>) {}

    fn head(&mut self, _: ScriptSide) -> Option<(&mut Head, &[u8])> {
        None
    }

    fn body_length(&mut self) -> u64 {
        0
    }

    fn edit_request_line(&mut self, _: RequestLinePart, _: &[u8]) -> bool {
        false
    }

    fn follow_host(&mut self) -> bool {
        false
    }

    fn replace_fields(&mut self, _: ScriptSide, _: &[u8], _: &Regex, _: &[u8], _: bool) -> bool {
        false
    }

    fn filter_turn(&mut self) -> Option<&mut FilterTurn> {
        None
    }

    fn is_complete(&self, _: ScriptSide) -> bool {
        true
    }

    fn is_http(&self) -> bool {
        false
    }

    fn set(&mut self, _: StreamSetting) {}

    fn keep(&mut self, object: Box<dyn Any>) {
        self.kept.push(object);
    }

    fn count_failed_rewrite(&mut self) {}

    /// The loggers of the global section have the messages of commands.
    fn log(&mut self, _: u8, _: &str) -> bool {
        false
    }
}

impl ScriptChannels for CommandClient {
    fn channel(&mut self, _: ScriptSide) -> ChannelState {
        ChannelState { is_final: true, ..ChannelState::default() }
    }

    fn incoming(&self, _: ScriptSide) -> Option<&[u8]> {
        None
    }

    fn replace_incoming(&mut self, _: ScriptSide, _: Range<usize>, _: &[u8]) -> bool {
        false
    }

    fn add_outgoing(&mut self, _: ScriptSide, _: &[u8]) -> bool {
        false
    }

    fn forward(&mut self, _: ScriptSide, _: usize) {}
}

impl Context for CommandClient {
    fn fetch<'c>(&'c mut self, _: FetchIndex, _: &'c Args, _: &mut FetchCursor) -> FetchResult<'c> {
        FetchResult::Missing
    }

    fn script_fetch(&mut self, name: ScriptName, args: &Args) -> FetchResult<'static> {
        match self.live.record.scripts.clone() {
            Some(scripts) => scripts.fetch(weir_sched::worker_index(), name, args, self),
            None => FetchResult::Missing,
        }
    }

    fn script_converter(
        &mut self,
        name: ScriptName,
        value: Value<'static>,
        args: &Args,
    ) -> Option<Value<'static>> {
        let scripts = self.live.record.scripts.clone()?;
        scripts.convert(weir_sched::worker_index(), name, value, args, self)
    }

    fn variable(&mut self, variable: VariableId) -> Option<Value<'_>> {
        match variable.scope {
            VariableScope::Process => self.live.instance.variables().get(variable).map(Value::into_owned),
            _ => self.context.variable(variable),
        }
    }

    fn set_variable(&mut self, variable: VariableId, value: Value<'_>, condition: SetCondition) -> bool {
        match variable.scope {
            VariableScope::Process => self.live.instance.variables_mut().set(variable, value, condition),
            _ => self.context.set_variable(variable, value, condition),
        }
    }

    fn unset_variable(&mut self, variable: VariableId) -> bool {
        match variable.scope {
            VariableScope::Process => {
                self.live.instance.variables_mut().unset(variable);
                true
            }
            _ => self.context.unset_variable(variable),
        }
    }

    fn now(&self) -> WallTime {
        weir_sched::wall_time()
    }

    fn time_zone(&self) -> &TimeZone {
        &self.live.instance.identity.time_zone
    }

    fn random(&mut self) -> u64 {
        self.context.random()
    }

    fn process(&self) -> ProcessFacts<'_> {
        process_facts(&self.live)
    }
}

/// The facts about the process in expressions of operators.
pub(super) fn process_facts(live: &LiveProcess) -> ProcessFacts<'_> {
    let instance = &live.instance;
    ProcessFacts {
        hostname: &instance.identity.hostname,
        pid: instance.identity.process_id,
        thread: weir_sched::worker_index() as u32,
        thread_group: 1,
        uptime: now_ms().saturating_sub(live.record.started_ms) / 1000,
        stopping: instance.is_stopping(),
    }
}

/// The most waits of a script that end at once before others run.
const MOST_STEPS: u32 = 1_000;
/// The most bytes that one call of a script reads.
const MOST_HELD: usize = 64 * 1024 * 1024;
/// How often a script may read nothing at the end of its input, so that a careless loop ends.
const MOST_READS_AT_END: u32 = 1_000;
