//! What a command answers with.

use std::borrow::Cow;

use crate::command::WaitCondition;
use crate::target::Target;

/// What a session may do. Higher levels may do everything that lower ones may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Look at what is not sensitive.
    User,
    /// Look at everything, reset maxima.
    Operator,
    /// Everything.
    Admin,
}

impl Level {
    /// The word of the configuration.
    pub fn name(self) -> &'static str {
        ["user", "operator", "admin"][self as usize]
    }
}

/// How bad a message is, by syslog's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The command was refused.
    Error = 3,
    /// The command was executed, and the operator should look at how.
    Warning = 4,
    /// An answer.
    Info = 6,
}

/// Whether messages begin with their severity (`severity-output` on the socket, `set severity-output`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeverityOutput {
    /// They do not.
    #[default]
    None,
    /// `[3]: `.
    Number,
    /// `[err]: `.
    Text,
}

impl SeverityOutput {
    /// The setting of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "number" => Some(Self::Number),
            "string" => Some(Self::Text),
            _ => None,
        }
    }

    /// What stands before a message of this severity.
    pub fn prefix(self, severity: Severity) -> &'static str {
        match (self, severity) {
            (Self::None, _) => "",
            (Self::Number, Severity::Error) => "[3]: ",
            (Self::Number, Severity::Warning) => "[4]: ",
            (Self::Number, Severity::Info) => "[6]: ",
            (Self::Text, Severity::Error) => "[err]: ",
            (Self::Text, Severity::Warning) => "[warning]: ",
            (Self::Text, Severity::Info) => "[info]: ",
        }
    }
}

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

impl Outcome {
    /// The command was refused.
    pub fn error(text: impl Into<Cow<'static, str>>) -> Self {
        Outcome::Message(Severity::Error, text.into())
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
