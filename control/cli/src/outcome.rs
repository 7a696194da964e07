//! The output of commands.

use std::borrow::Cow;

use crate::level::Severity;
use crate::modes::PERMISSION_DENIED;
use crate::target::{CommandTarget, ScriptCommandRun, ServerKey};

/// The progress of a long answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerStep {
    /// More output follows. Make room and call again.
    More,
    /// Waiting for another worker. The target wakes the session's task when the reply has arrived.
    Pending,
    /// No output for now. Further events wake the session's task. Any input ends the answer.
    Watch,
    /// The answer is complete.
    Done,
}

/// A long answer, written in pieces.
pub trait AnswerStream {
    /// Appends to `out` until it holds at least `enough` bytes plus at most one line, or the answer is complete.
    fn advance(&mut self, target: &mut dyn CommandTarget, enough: usize, out: &mut Vec<u8>) -> AnswerStep;
}

/// The output of a command. An empty line follows, except after [`CommandOutcome::Quit`].
pub enum CommandOutcome {
    /// Success without output: only the empty line follows.
    Nothing,
    /// A message, which ends with a newline, as in HAProxy. After the few messages without one, the empty line
    /// is omitted.
    Message(Severity, Cow<'static, str>),
    /// Output without a severity.
    Text(String),
    Stream(Box<dyn AnswerStream>),
    /// A command of a script.
    Script(Box<dyn ScriptCommandRun>),
    Wait {
        /// The maximum wait, in milliseconds.
        delay_ms: u64,
        /// The condition that ends the wait.
        until: Option<WaitCondition>,
    },
    /// No output, not even the empty line.
    Silence,
    /// The listening sockets. The transport passes them.
    HandOver,
    /// Ends the session.
    Quit,
}

/// The condition that a `wait` command waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// The server can be deleted.
    Removable(ServerKey),
}

impl CommandOutcome {
    /// An error message. The command was refused.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        CommandOutcome::Message(Severity::Error, text.into())
    }

    /// The message for a command above the session's level.
    pub(crate) fn denied() -> Self {
        CommandOutcome::error(PERMISSION_DENIED)
    }

    /// A warning. The command succeeded.
    pub fn warning(text: impl Into<Cow<'static, str>>) -> Self {
        CommandOutcome::Message(Severity::Warning, text.into())
    }

    /// A short message.
    pub fn info(text: impl Into<Cow<'static, str>>) -> Self {
        CommandOutcome::Message(Severity::Info, text.into())
    }
}
