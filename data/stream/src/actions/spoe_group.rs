//! `send-spoe-group`: sends the messages of a group to an agent, and waits for its answer (manual, 4.4).

use std::sync::Arc;

use weir_config::proxy::spoe::read_group_use;
use weir_config::rules::{action, sets};
use weir_containers::PooledFuture;
use weir_fingerprint::Canonical;
use weir_model::SpoeGroupUse;

use super::{ActionResult, ActionRow, RuleContext, StreamAction, Verdict};
use crate::spoe::{self, ExchangeCause};
use crate::stream::Stream;

pub(super) const ROWS: &[ActionRow] = &[action(
    "send-spoe-group",
    "<engine-name> <group-name>",
    "check addresses",
    "send the messages of a group to an agent",
    sets::CONTENT,
    |context, words| Ok(SendSpoeGroup { group: read_group_use(context, words)? }.into_action()),
)];

#[derive(Debug, Canonical)]
struct SendSpoeGroup {
    group: Arc<SpoeGroupUse>,
}

impl StreamAction for SendSpoeGroup {
    #[cold]
    fn run<'s>(&'s self, stream: &'s mut Stream, rule: RuleContext<'s>) -> ActionResult<'s> {
        let proxy = stream.proxy(rule.key.side).clone();
        let target = self.group.target();
        let engine =
            target.and_then(|(filter, _)| proxy.engines.iter().position(|engine| engine.filter == filter));
        let (Some(engine), Some((_, group))) = (engine, target) else {
            return ActionResult::Done(Verdict::Next);
        };
        ActionResult::Await(PooledFuture::new(async move {
            spoe::ask(stream, &proxy, engine, ExchangeCause::Group(group, &self.group.group)).await?;
            Ok(Verdict::Next)
        }))
    }
}
