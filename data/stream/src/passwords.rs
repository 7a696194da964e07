//! Passwords with a costly hash, verified without blocking the worker.
//!
//! A condition that needs such a password is suspended: the fetch leaves a question, and its value comes later. The stream then computes
//! the hash as heavy work, a few rounds per turn (R44), and resumes the condition with the verdict. Each stream asks one
//! question at a time, so memory and work are bounded by the streams. The last verdicts of the worker are kept for later rules of
//! the same streams; they hold a keyed hash of the candidate, not the password.
//!
//! Only conditions of rules can be suspended. Formats, actions and other conditions compute an unknown verdict at once.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher as _, RandomState};
use std::mem::ManuallyDrop;

use weir_config::model::Rule;
use weir_config::password::{Password, PasswordHash, Verification};
use weir_expr::{Suspension, Truth};
use weir_sched::{Class, Tick};

use crate::deadlines::{Waits, While};
use crate::drive::Step;
use crate::ending::{By, During};
use crate::stream::{Phase, Stream, StreamError};

/// Whether `candidate` is the password; none while the condition is suspended for the answer.
pub(crate) fn verdict(stream: &Stream, password: &'static Password, candidate: &[u8]) -> Option<bool> {
    let Some(hash) = password.costly() else { return Some(password.verify(candidate)) };
    let question = PasswordQuestion { stream: stream.serial, hash, candidate: candidate.into() };
    VERDICTS.with_borrow_mut(|verdicts| {
        let known = verdicts.find(&question);
        if known.is_none() && stream.rules.may_suspend {
            verdicts.pending = Some(question);
            return None;
        }
        Some(known.unwrap_or_else(|| {
            let is_right = hash.verify(candidate);
            verdicts.keep(&question, is_right);
            is_right
        }))
    })
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

/// Whether the stream has a question without an answer.
pub(crate) fn is_pending(stream: &Stream) -> bool {
    VERDICTS.with_borrow(|verdicts| {
        verdicts.pending.as_ref().is_some_and(|question| question.stream == stream.serial)
    })
}

/// Evaluates a suspended condition to its end.
pub(crate) async fn settle(stream: &mut Stream, rule: &'static Rule, mut at: Suspension) -> Phase<Truth> {
    // The worker forgets verdicts: a condition with many passwords could be suspended for ever.
    for _ in 0..MOST_SUSPENSIONS {
        let question = VERDICTS.with_borrow_mut(|verdicts| verdicts.pending.take());
        let Some(question) = question else { break };
        let is_right = verify(stream, &question).await?;
        VERDICTS.with_borrow_mut(|verdicts| verdicts.keep(&question, is_right));
        match resume(stream, rule, at) {
            Ok(applies) => return Ok(applies),
            Err(next) => at = next,
        }
    }
    let rest = rule.condition.as_ref().map(|condition| condition.resume(at, stream));
    Ok(rest.and_then(Result::ok).unwrap_or(Truth::Maybe))
}

async fn verify(stream: &mut Stream, question: &PasswordQuestion) -> Phase<bool> {
    let mut verification = Verification::new(question.hash, &question.candidate);
    let usual = weir_sched::set_class(Class::Heavy);
    let result = stream
        .drive_on(
            While::until(Tick::NEVER),
            Some(NEXT_TURN),
            |stream, _| {
                if stream.client.is_broken() {
                    return Err(StreamError::close(By::Client, During::Request));
                }
                Ok(match verification.advance(ROUNDS_PER_TURN) {
                    Some(is_right) => Step::Done(is_right),
                    None => Step::Wait(NEXT_TURN),
                })
            },
            |_, _, _| Ok(false),
        )
        .await;
    weir_sched::set_class(usual);
    result
}

const NEXT_TURN: Waits = Waits { yields: true, ..Waits::ONCE };

/// About 60 microseconds of SHA-512: others wait no longer for it than for a small response.
const ROUNDS_PER_TURN: u32 = 128;

/// Conditions rarely ask for more than one password.
const MOST_SUSPENSIONS: usize = 8;

/// How many verdicts a worker remembers.
const KEPT_VERDICTS: usize = 64;

/// A password to verify.
struct PasswordQuestion {
    /// The number of the stream.
    stream: u64,
    hash: &'static PasswordHash,
    candidate: Box<[u8]>,
}

struct Verdict {
    stream: u64,
    hash: &'static PasswordHash,
    /// The keyed hash of the candidate.
    candidate: u64,
    is_right: bool,
}

/// The questions and verdicts of a worker.
#[derive(Default)]
struct PasswordVerdicts {
    pending: Option<PasswordQuestion>,
    verdicts: VecDeque<Verdict>,
    key: RandomState,
}

impl PasswordVerdicts {
    fn find(&self, question: &PasswordQuestion) -> Option<bool> {
        let candidate = self.key.hash_one(&question.candidate);
        let is_same = |verdict: &&Verdict| {
            verdict.stream == question.stream
                && std::ptr::eq(verdict.hash, question.hash)
                && verdict.candidate == candidate
        };
        self.verdicts.iter().find(is_same).map(|verdict| verdict.is_right)
    }

    fn keep(&mut self, question: &PasswordQuestion, is_right: bool) {
        if self.verdicts.len() == KEPT_VERDICTS {
            self.verdicts.pop_front();
        }
        let candidate = self.key.hash_one(&question.candidate);
        let &PasswordQuestion { stream, hash, .. } = question;
        self.verdicts.push_back(Verdict { stream, hash, candidate, is_right });
    }
}

thread_local! {
    static VERDICTS: RefCell<ManuallyDrop<PasswordVerdicts>> = RefCell::default();
}
