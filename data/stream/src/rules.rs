//! Runs rulesets: evaluates rules in order, each with its condition, until one decides.

mod content;

use weir_containers::PooledFuture;
use weir_model::{Action, RulesetKind};

use crate::actions::{self, ActionResult, EarlyHint, RuleContext, Verdict};
use crate::ending::{By, During};
use crate::instance::Proxy;
use crate::passwords;
use crate::reservation;
use crate::stream::rule_state::{RuleKey, RuleList};
use crate::stream::{PhaseResult, ProxySide, Stream, StreamError};

#[derive(Debug)]
pub(crate) enum RulesetResult {
    Continue,
    /// `accept` or `allow`: skip the rest of the rules.
    Accept,
    Stop(StreamError),
}

impl Stream {
    /// Runs the rules of one kind of one proxy.
    #[expect(clippy::manual_async_fn, reason = "an async function stores its arguments twice")]
    pub(crate) fn run_rules(
        &mut self,
        side: ProxySide,
        kind: RulesetKind,
    ) -> impl Future<Output = PhaseResult<RulesetResult>> {
        async move {
            if !self.proxy(side).has_rules(kind) {
                return Ok(RulesetResult::Continue);
            }
            let proxy = self.proxy(side).clone();
            self.rules.is_strict = true;
            for (position, rule) in (0..).zip(proxy.config.rules(kind)) {
                let applies = match passwords::rule_applies(self, rule) {
                    Ok(applies) => applies,
                    Err(at) => PooledFuture::new(passwords::settle(self, rule, at)).await?,
                };
                if !applies.is_true() {
                    continue;
                }
                if needs_preparation(&proxy, kind, position) {
                    prepare_action(self, &proxy, &rule.action, kind, position).await?;
                }
                if self.response.early_hints.is_some()
                    && actions::arguments::<EarlyHint>(&rule.action).is_none()
                {
                    self.send_early_hints();
                }
                let verdict = match self.act(&rule.action, key(side, kind, position), kind, &proxy) {
                    ActionResult::Done(verdict) => verdict,
                    ActionResult::Await(wait) => wait.await?,
                };
                // The key is built twice: a key used on both sides of the wait would take space in the future.
                if let Some(verdict) = self.settle_action(verdict, key(side, kind, position), kind, &proxy) {
                    return Ok(verdict);
                }
            }
            self.send_early_hints();
            Ok(RulesetResult::Continue)
        }
    }

    /// Begins an action, and ends the reservation of the rule.
    ///
    /// Not an async function: its arguments would take space in the callers' futures for the lifetime of a stream.
    fn act<'s>(
        &'s mut self,
        action: &'s Action,
        key: RuleKey,
        kind: RulesetKind,
        proxy: &'s Proxy,
    ) -> ActionResult<'s> {
        let is_scripted = !proxy.scripted.in_action(kind, key.position).is_empty();
        let begun = actions::run(action, self, RuleContext { kind, proxy, key });
        reservation::end(is_scripted);
        begun
    }

    /// Converts an action's verdict to the ruleset's result. `None` if the next rule follows.
    fn settle_action(
        &mut self,
        verdict: Verdict,
        rule: RuleKey,
        kind: RulesetKind,
        proxy: &Proxy,
    ) -> Option<RulesetResult> {
        match verdict {
            Verdict::Next | Verdict::NeedsMore => None,
            Verdict::Accept => {
                self.rules.decided_by = Some(rule);
                Some(RulesetResult::Accept)
            }
            Verdict::Stop(stop) => {
                self.rules.decided_by = Some(rule);
                self.rules.stop_by_rule();
                Some(RulesetResult::Stop(stop))
            }
            Verdict::Failed if !self.rules.is_strict => {
                proxy.count_failed_rewrite();
                None
            }
            Verdict::Failed => Some(RulesetResult::Stop(failed_rule(self, kind, proxy))),
        }
    }

    /// Sends the collected 103 response. HTTP/1.0 clients do not support interim responses.
    fn send_early_hints(&mut self) {
        if let Some(mut hints) = self.response.early_hints.take()
            && self.request.message.head.version().is_11_or_later()
        {
            // A closed client connection is detected when the response is sent.
            let _ = hints.send(&mut self.client, &mut self.scratch, false);
        }
    }
}

/// Whether an action has to be prepared.
#[inline]
fn needs_preparation(proxy: &Proxy, kind: RulesetKind, position: u32) -> bool {
    proxy.used_userlists.in_actions || !proxy.scripted.in_action(kind, position).is_empty()
}

/// Prepares an action of a rule that applies: verifies the passwords that it may need, and reserves the state of its scripts.
#[cold]
fn prepare_action<'s>(
    stream: &'s mut Stream,
    proxy: &'s Proxy,
    action: &'s Action,
    kind: RulesetKind,
    position: u32,
) -> PooledFuture<'s, PhaseResult> {
    PooledFuture::new(async move {
        if proxy.used_userlists.in_actions {
            passwords::verify_for_action(stream, action).await?;
        }
        if reservation::is_needed(stream, proxy.scripted.in_action(kind, position)) {
            reservation::reserve(stream).await?;
        }
        Ok(())
    })
}

fn key(side: ProxySide, kind: RulesetKind, position: u32) -> RuleKey {
    RuleKey { side, list: RuleList::Of(kind), position }
}

/// The result of a failed rule in strict mode.
fn failed_rule(stream: &mut Stream, kind: RulesetKind, proxy: &Proxy) -> StreamError {
    proxy.count_failed_rewrite();
    stream.rules.stop_by_rule();
    let during = if kind == RulesetKind::HttpRequest { During::Request } else { During::Headers };
    StreamError::error(500, By::Internal, during)
}
