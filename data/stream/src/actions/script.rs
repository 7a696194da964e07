//! `lua.<name>`: an action that a script registered.

pub(crate) mod channel;
pub(super) mod service;
pub(super) mod target;

use weir_config::rules::{action, sets};
use weir_config::words::fault;
use weir_containers::PooledFuture;
use weir_expr::ScriptName;
use weir_fingerprint::Canonical;
use weir_model::RulesetKind;
use weir_scripts::ScriptResult;

use super::answers::{count_denied, drop_request};
use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::ending::{By, Ending};
use crate::stream::{Stream, StreamError};

pub(super) const ROWS: &[ActionRow] = &[action(
    "lua.<name>",
    "<arg>*",
    "",
    "run an action of a Lua script, with as many arguments as it was registered with",
    sets::CONTENT_AND_AFTER,
    |context, words| {
        let name = context.word.text();
        let Some(registered) = context.script_action(name) else {
            return Err(fault(context.word.span(), format!("no script registered '{name}'.")));
        };
        let mut arguments = Vec::new();
        for _ in 0..registered.arguments {
            let expects = format!("expect {} arguments", registered.arguments);
            arguments.push(words.expect(&expects)?.text().into());
        }
        Ok(RunScript { text: name.into(), name: registered.name, arguments }.into_action())
    },
)];

#[derive(Debug, Canonical)]
struct RunScript {
    text: Box<str>,
    #[canonical(skip = "follows from the text")]
    name: ScriptName,
    arguments: Vec<Box<str>>,
}

impl StreamAction for RunScript {
    #[cold]
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        ActionResult::Await(PooledFuture::new(async move {
            let result = target::act(stream, self.name, &self.arguments, rule.during()).await?;
            Ok(verdict(stream, rule, result))
        }))
    }
}

/// The consequence of a script's result.
fn verdict(stream: &mut Stream, rule: RuleContext<'_>, result: ScriptResult) -> Verdict {
    let closes = |by| Verdict::Stop(StreamError::close(by, rule.during()));
    match result {
        // An error in the script was logged, and the next rule follows, as in HAProxy.
        ScriptResult::Continue | ScriptResult::Failed | ScriptResult::Again(_) => Verdict::Next,
        ScriptResult::Stop => Verdict::Accept,
        ScriptResult::Error => Verdict::Stop(StreamError::error(500, By::Internal, rule.during())),
        ScriptResult::Abort => closes(By::Proxy),
        ScriptResult::Invalid if rule.kind.is_http() => {
            let status = if rule.is_request() { 400 } else { 502 };
            Verdict::Stop(StreamError::error(status, By::Proxy, rule.during()))
        }
        ScriptResult::Invalid => closes(By::Proxy),
        ScriptResult::Deny if rule.kind.is_http() => {
            count_denied(stream, rule);
            let status = if rule.kind == RulesetKind::HttpRequest { 403 } else { 502 };
            Verdict::Stop(StreamError::error(status, By::Proxy, rule.during()))
        }
        ScriptResult::Deny => match drop_request(stream, rule) {
            ActionResult::Done(verdict) => verdict,
            ActionResult::Await(_) => closes(By::Proxy),
        },
        ScriptResult::Done(Some(reply)) if rule.kind.is_http() || stream.request.is_known() => {
            rule.proxy.count_intercepted();
            target::prepare(stream, *reply);
            Verdict::Stop(StreamError::Reply(Ending::new(By::Local, rule.during())))
        }
        ScriptResult::Done(_) => closes(By::Local),
    }
}
