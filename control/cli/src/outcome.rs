//! What a command answers with.

use std::borrow::Cow;

use crate::level::Severity;
use crate::modes::PERMISSION_DENIED;
use crate::target::{ServerKey, Target};

/// How far a long answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more: make room and call again.
    More,
    /// Another worker has to be asked first: the target wakes the session's task when it answered.
    Pending,
    /// Nothing for now: the session's task is woken when there is more. Whatever the client says ends the answer.
    Watch,
    /// That was all.
    Done,
}

/// A long answer, written a piece at a time.
pub trait Stream {
    /// Appends to `out` until it holds at least `enough` bytes, one line more than that at most, or all is said.
    fn advance(&mut self, target: &mut dyn Target, enough: usize, out: &mut Vec<u8>) -> Step;
}

/// What a command answers with. An empty line follows everything but [`Outcome::Quit`].
pub enum Outcome {
    /// Nothing but the empty line: it was done.
    Nothing,
    /// A message. Texts end with a newline as the reference prints them; a few do not, and then no empty line follows.
    Message(Severity, Cow<'static, str>),
    /// A text without severity.
    Text(String),
    /// A long answer.
    Stream(Box<dyn Stream>),
    /// Nothing for a while.
    Wait {
        /// At most so long, in milliseconds.
        delay_ms: u64,
        /// Until this holds.
        until: Option<WaitCondition>,
    },
    /// Nothing, not even the empty line.
    Silence,
    /// The listening sockets: the transport passes them.
    HandOver,
    /// The end of the session.
    Quit,
}

/// What `wait` may wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitCondition {
    /// A server can be deleted.
    Removable(ServerKey),
}

impl Outcome {
    /// The command was refused.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Outcome::Message(Severity::Error, text.into())
    }

    /// What everybody hears who asks for more than their level.
    pub(crate) fn denied() -> Self {
        Outcome::error(PERMISSION_DENIED)
    }

    /// It was done, with a remark.
    pub fn warning(text: impl Into<Cow<'static, str>>) -> Self {
        Outcome::Message(Severity::Warning, text.into())
    }

    /// A short answer.
    pub fn info(text: impl Into<Cow<'static, str>>) -> Self {
        Outcome::Message(Severity::Info, text.into())
    }
}
