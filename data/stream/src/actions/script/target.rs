//! Streams as scripts see them, and the functions of scripts on streams.

use std::any::Any;
use std::sync::Arc;

use weir_backend::Priority;
use weir_events::Level;
use weir_expr::pattern::regex::Regex;
use weir_expr::{ArgKind, Args, Context, FetchResult, ScriptName, Value};
use weir_http::{BodySize, Head};
use weir_net::ReceiveOutcome;
use weir_sched::Tick;
use weir_scripts::{
    FilterTurn, FunctionKind, RequestLinePart, ScriptReply, ScriptResult, ScriptRun, ScriptSide, ScriptStep,
    ScriptTarget, Scripts, StreamSetting, VisitAll,
};

use super::channel::{ChannelWait, relay_meanwhile};
use crate::actions;
use crate::deadlines::{Waits, While};
use crate::drive::{DriveStep, drive_withheld, waits_until};
use crate::ending::During;
use crate::stream::{PhaseResult, Stream};

/// The scripts of the process.
pub(crate) fn scripts(stream: &Stream) -> Option<Arc<Scripts>> {
    stream.frontend.instance().hooks.scripts.clone()
}

/// Evaluates a fetch of a script.
#[cold]
pub(crate) fn script_fetch(stream: &mut Stream, name: ScriptName, args: &Args) -> FetchResult<'static> {
    let Some(scripts) = scripts(stream) else { return FetchResult::Missing };
    let worker = weir_sched::worker_index();
    if stream.rules.may_suspend && scripts.is_busy(worker, FunctionKind::Fetch, name) {
        stream.rules.awaits_scripts = true;
        return FetchResult::Later;
    }
    scripts.fetch(worker, name, args, stream)
}

/// Evaluates a converter of a script.
#[cold]
pub(crate) fn script_converter(
    stream: &mut Stream,
    name: ScriptName,
    value: Value<'static>,
    args: &Args,
) -> Option<Value<'static>> {
    scripts(stream)?.convert(weir_sched::worker_index(), name, value, args, stream)
}

/// Runs an action of a script. The stream does the waits of the script.
pub(crate) async fn act(
    stream: &mut Stream,
    name: ScriptName,
    arguments: &[Box<str>],
    during: During,
) -> PhaseResult<ScriptResult> {
    loop {
        let run = scripts(stream).and_then(|scripts| {
            ScriptRun::of_action(&scripts, weir_sched::worker_index(), name, arguments, stream)
        });
        let Some(mut run) = run else { return Ok(ScriptResult::Continue) };
        let mut call = None;
        match drive_withheld(stream, |stream| advance(stream, &mut run, &mut call, during)).await? {
            ScriptResult::Again(at) => await_next_run(stream, at, during).await?,
            result => return Ok(result),
        }
    }
}

/// Lets an action go on, until it has ended or waits. `call` is its call that waits for a channel.
fn advance(
    stream: &mut Stream,
    run: &mut ScriptRun,
    call: &mut Option<ChannelWait>,
    during: During,
) -> PhaseResult<DriveStep<ScriptResult>> {
    for _ in 0..MOST_CALLS {
        if let Some(waiting) = call {
            if let Some(waits) = waiting.advance(stream, run, during)? {
                return relay_meanwhile(stream, waits, during).map(DriveStep::Wait);
            }
            *call = None;
        }
        match run.step(Some(stream)) {
            ScriptStep::Ended(result) => return Ok(DriveStep::Done(result)),
            ScriptStep::Pause => return Ok(DriveStep::Wait(YIELD)),
            ScriptStep::Wait(at) => {
                let waits = waits_until(stream, at, during)?;
                return relay_meanwhile(stream, waits, during).map(DriveStep::Wait);
            }
            ScriptStep::Channel(side, waiting) => *call = Some(ChannelWait::new(side, waiting)),
            ScriptStep::Receive(..) | ScriptStep::Send(_) | ScriptStep::Answer(_) => {
                run.refuse("an action has no client of its own");
            }
        }
    }
    Ok(DriveStep::Wait(YIELD))
}

/// After so many calls that ended at once, other tasks run.
const MOST_CALLS: u32 = 32;

/// Waits before an action that returned `act.YIELD` runs again: for the time, or for an event, as more bytes of the client.
async fn await_next_run(stream: &mut Stream, at: Tick, during: During) -> PhaseResult {
    let limit = stream.frontend.instance().limits.head_limit();
    let mut has_waited = false;
    let ended = stream
        .drive(
            While::until(Tick::NEVER),
            |stream, _| {
                let has_bytes = matches!(stream.client.receive(limit), ReceiveOutcome::Bytes(_));
                if has_bytes || std::mem::replace(&mut has_waited, true) {
                    return Ok(DriveStep::Done(()));
                }
                Ok(DriveStep::Wait(waits_until(stream, at, during)?))
            },
            |_, _, _| Ok(()),
        )
        .await;
    stream.response.body.resume_at(None);
    ended
}

/// Other tasks run first.
pub(super) const YIELD: Waits = Waits {
    client_sends: false,
    client_takes: false,
    server_sends: false,
    server_takes: false,
    withheld: false,
    yields: true,
};

impl ScriptTarget for Stream {
    fn number(&self) -> i64 {
        // Serial numbers are unique in the process, also beside those of commands.
        self.serial as i64
    }

    fn context(&mut self) -> &mut dyn Context {
        self
    }

    fn resolve(&self, visit_all: VisitAll<'_>) {
        let instance = self.frontend.instance();
        visit_all(&mut |reference| {
            let Some(name) = reference.name.as_deref() else { return };
            let target = match reference.kind {
                ArgKind::Frontend => instance.frontends.get(name).map(|index| (*index as u32, 0)),
                ArgKind::Backend => instance.backends.get(name).map(|index| (*index as u32, 0)),
                ArgKind::Table => {
                    let position =
                        instance.tables.iter().position(|table| &*table.declaration().name == name);
                    position.map(|position| (position as u32, 0))
                }
                ArgKind::Server => server_named(self, name),
                ArgKind::UserList => {
                    let position = instance.userlists.iter().position(|list| &*list.name == name);
                    position.map(|position| (position as u32, 0))
                }
                _ => None,
            };
            if let Some(target) = target {
                reference.resolve(target);
            }
        });
    }

    fn head(&mut self, side: ScriptSide) -> Option<(&mut Head, &[u8])> {
        match side {
            ScriptSide::Request if self.request.is_known() && self.server.upstream.is_none() => {
                Some(self.request.message.edit())
            }
            ScriptSide::Response if self.response.message.head.status() > 0 => {
                Some(self.response.message.edit())
            }
            _ => None,
        }
    }

    fn body_length(&mut self) -> u64 {
        match BodySize::of_request(&self.request.message.head) {
            BodySize::Known(length) => length,
            _ => {
                self.request.message.detach(&mut self.client);
                self.request.body.inspect(&mut self.client);
                if self.request.body.is_complete() { self.request.body.payload() } else { 0 }
            }
        }
    }

    fn edit_request_line(&mut self, part: RequestLinePart, value: &[u8]) -> bool {
        actions::uri::edit_for_script(self, part, value)
    }

    fn follow_host(&mut self) -> bool {
        actions::headers::follow_host(self)
    }

    fn replace_fields(
        &mut self,
        side: ScriptSide,
        name: &[u8],
        pattern: &Regex,
        template: &[u8],
        each: bool,
    ) -> bool {
        let message = match side {
            ScriptSide::Request => &mut self.request.message,
            ScriptSide::Response => &mut self.response.message,
        };
        actions::headers::replace_in_fields(message, name, pattern, template, each)
    }

    fn filter_turn(&mut self) -> Option<&mut FilterTurn> {
        self.attached.as_mut()?.turn.as_deref_mut()
    }

    fn is_complete(&self, side: ScriptSide) -> bool {
        match side {
            ScriptSide::Request => self.request.body.is_complete(),
            ScriptSide::Response => self.response.body.is_complete(),
        }
    }

    fn is_http(&self) -> bool {
        self.request.is_known()
    }

    fn set(&mut self, setting: StreamSetting) {
        match setting {
            StreamSetting::LogLevel(level) => self.log.level = Some(level.map(level_of)),
            StreamSetting::Tos(tos) => actions::connection::set_client_tos(self, tos),
            StreamSetting::Mark(mark) => actions::connection::set_client_mark(self, mark),
            StreamSetting::PriorityClass(class) => {
                self.choice.priority = Priority::new(class, self.choice.priority.offset_ms().into());
            }
            StreamSetting::PriorityOffset(offset) => {
                self.choice.priority = Priority::new(self.choice.priority.class().into(), offset);
            }
        }
    }

    fn count_failed_rewrite(&mut self) {
        self.frontend.count_failed_rewrite();
    }

    fn keep(&mut self, object: Box<dyn Any>) {
        self.captures.keep(object);
    }

    fn log(&mut self, level: u8, text: &str) -> bool {
        // The frontend, until a backend is chosen.
        let proxy = self.backend.proxy();
        crate::log::announce(proxy, level_of(level), text.as_bytes());
        !proxy.log_sinks.is_empty()
    }
}

/// The level with this number of syslog.
fn level_of(level: u8) -> Level {
    Level::ALL[usize::from(level.min(7))]
}

/// The server with the name `[backend/]server`.
fn server_named(stream: &Stream, name: &str) -> Option<(u32, u32)> {
    let instance = stream.frontend.instance();
    let (proxy, server) = match name.split_once('/') {
        Some((backend, server)) => (*instance.backends.get(backend)?, server),
        None => (stream.backend.index, name),
    };
    let servers = &instance.proxies.get(proxy)?.config.servers;
    let position = servers.iter().position(|known| &*known.name == server)?;
    Some((proxy as u32, position as u32))
}

/// Prepares the reply of a script.
pub(crate) fn prepare(stream: &mut Stream, reply: ScriptReply) {
    let ScriptReply { status, reason, headers, body } = reply;
    let reason = reason.map(|reason| String::from_utf8_lossy(&reason).into_owned());
    stream.reply_phase().prepare_script_reply(status, reason.as_deref(), &headers, body);
}
