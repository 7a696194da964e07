//! Passwords with a costly hash, verified without blocking the worker.
//!
//! The stream computes the hash as heavy work, a few rounds per scheduling round (R44). A rule condition that needs a verdict is
//! suspended, and resumed with the verdict. Formats, arguments of actions and the choice of a backend or server cannot be suspended.
//! The passwords that they may need are verified ahead, as [`UsedUserlists`] lists them. The stream keeps its verdicts, so it computes
//! each hash once.
//!
//! Fetches never compute a hash. Without a verdict they fail: the client aborted during the verification, or a rule changed the
//! credentials later.

use weir_containers::PooledFuture;
use weir_expr::{Suspension, Truth};
use weir_model::password::Verification;
use weir_model::{Action, Rule, UsedUserlists};
use weir_sched::Class;

use crate::deadlines::{Waits, While};
use crate::drive::DriveStep;
use crate::ending::{By, During};
use crate::reservation;
use crate::stream::password_verdicts::{KEPT_VERDICTS, PasswordQuestion};
use crate::stream::{PhaseResult, ProxySide, Stream, StreamError};
use weir_vocabulary::fetch::auth;

/// Verifies the request's user and password in the userlists selected by `choose` from those that a proxy uses, for expressions that
/// cannot be suspended.
///
/// Boxed, because few proxies use userlists. The others check the list first.
#[cold]
pub(crate) fn verify_ahead<'s>(
    stream: &'s mut Stream,
    side: ProxySide,
    choose: for<'l> fn(&'l UsedUserlists) -> &'l [u32],
) -> PooledFuture<'s, PhaseResult> {
    let lists = stream.proxy(side).part(|proxy| choose(&proxy.used_userlists));
    PooledFuture::new(async move { verify_in_lists(stream, &lists).await })
}

/// Verifies passwords ahead for an action of a rule that applies.
pub(crate) async fn verify_for_action(stream: &mut Stream, action: &Action) -> PhaseResult {
    verify_in_lists(stream, &action.used_userlists()).await
}

async fn verify_in_lists(stream: &mut Stream, lists: &[u32]) -> PhaseResult {
    for list in lists {
        let Some((hash, candidate)) = auth::costly_password(stream, *list) else { continue };
        let question = stream.captures.passwords_mut().question(hash, candidate);
        if let Some(question) = question {
            answer(stream, question).await?;
        }
    }
    Ok(())
}

/// Whether a rule applies. If its condition was suspended, the caller awaits [`settle`].
pub(crate) fn rule_applies(stream: &mut Stream, rule: &Rule) -> Result<Truth, Suspension> {
    resume(stream, rule, Suspension::BEGINNING)
}

fn resume(stream: &mut Stream, rule: &Rule, from: Suspension) -> Result<Truth, Suspension> {
    let Some(condition) = &rule.condition else { return Ok(Truth::True) };
    stream.rules.may_suspend = true;
    let applies = condition.resume(from, stream);
    stream.rules.may_suspend = false;
    applies
}

/// Evaluates a suspended condition to its end.
pub(crate) async fn settle(stream: &mut Stream, rule: &Rule, mut at: Suspension) -> PhaseResult<Truth> {
    // The bound prevents an endless loop: the stream drops old verdicts, so a condition with many passwords could be suspended forever.
    for _ in 0..KEPT_VERDICTS {
        let awaits_scripts = std::mem::take(&mut stream.rules.awaits_scripts);
        if awaits_scripts {
            reservation::reserve(stream).await?;
        } else {
            let Some(question) = stream.captures.passwords_mut().take_pending() else { break };
            answer(stream, question).await?;
        }
        let applies = resume(stream, rule, at);
        if awaits_scripts {
            reservation::end(true);
        }
        match applies {
            Ok(applies) => return Ok(applies),
            Err(next) => at = next,
        }
    }
    let rest = rule.condition.as_ref().map(|condition| condition.resume(at, stream));
    Ok(rest.and_then(Result::ok).unwrap_or(Truth::Maybe))
}

/// Verifies a password and keeps the verdict.
async fn answer(stream: &mut Stream, question: PasswordQuestion) -> PhaseResult {
    let is_right = verify(stream, &question).await?;
    stream.captures.passwords_mut().keep(&question, is_right);
    Ok(())
}

async fn verify(stream: &mut Stream, question: &PasswordQuestion) -> PhaseResult<bool> {
    let mut verification = Verification::new(&question.hash, &question.candidate);
    let usual = weir_sched::set_class(Class::Heavy);
    let result = stream
        .drive_on(
            While::client(stream.timeouts.client, weir_sched::now()),
            Some(NEXT_TURN),
            |stream, _| {
                if stream.client_left() {
                    return Err(StreamError::close(By::Client, During::Request));
                }
                Ok(match verification.advance(ROUNDS_PER_TURN) {
                    Some(is_right) => DriveStep::Done(is_right),
                    None => DriveStep::Wait(NEXT_TURN),
                })
            },
            |_, _, _| Ok(false),
        )
        .await;
    weir_sched::set_class(usual);
    result
}

const NEXT_TURN: Waits = Waits { yields: true, ..Waits::ONCE };

/// Rounds of SHA-512 per scheduling round, about 60 microseconds. Other tasks wait no longer than for a small response.
const ROUNDS_PER_TURN: u32 = 128;
