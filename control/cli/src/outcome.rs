//! Answers of commands.

use std::borrow::Cow;

use crate::level::Severity;
use crate::modes::PERMISSION_DENIED;
use crate::target::{CommandTarget, ServerKey};

/// The progress of a long answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerStep {
    /// There is more: make room and call again.
    More,
    /// Waiting for another worker: the target wakes the session's task when it has answered.
    Pending,
    /// Empty for now: the session's task is woken by more events. Any input ends the answer.
    Watch,
    /// The answer is complete.
    Done,
}

/// A long answer, written a piece at a time.
pub trait AnswerStream {
    /// Appends to `out` until it holds at least `enough` bytes, at most one line more, or the answer is complete.
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep;
}

/// The answer of a command. An empty line follows all except [`CommandOutcome::Quit`].
pub enum CommandOutcome {
    /// Only the empty line: the command succeeded.
    Nothing,
    /// A message. Texts end with a newline as in HAProxy; a few do not, and then no empty line follows.
    Message(Severity, Cow<'static, str>),
    /// A text without a severity.
    Text(String),
    Stream(Box<dyn AnswerStream>),
    Wait {
        /// The longest wait, in milliseconds.
        delay_ms: u64,
        /// The condition that ends the wait.
        until: Option<WaitCondition>,
    },
    /// Nothing, not even the empty line.
    Silence,
    /// The listening sockets: the transport passes them.
    HandOver,
    /// The end of the session.
    Quit,
}

/// The conditions of `wait`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// A server can be deleted.
    Removable(ServerKey),
}

impl CommandOutcome {
    /// An error message: the command was refused.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        CommandOutcome::Message(Severity::Error, text.into())
    }

    /// The answer to a command above the session's level.
    pub(crate) fn denied() -> Self {
        CommandOutcome::error(PERMISSION_DENIED)
    }

    /// A warning: the command succeeded.
    pub fn warning(text: impl Into<Cow<'static, str>>) -> Self {
        CommandOutcome::Message(Severity::Warning, text.into())
    }

    /// A short answer.
    pub fn info(text: impl Into<Cow<'static, str>>) -> Self {
        CommandOutcome::Message(Severity::Info, text.into())
    }
}
