//! The runtime API: commands from operators and scripts to a running process, and its answers.
//!
//! A [`CliSession`] is one conversation. It takes bytes and returns bytes, so it can be used behind a unix socket, a TCP
//! port or in a test; it never touches a descriptor, a clock or a thread. Commands are rows ([`command::Command`]): name,
//! syntax, level, help, function. They act on live objects through the traits in [`target`], which `control/observe`
//! implements; all wording and syntax is here.
//!
//! Long answers are written a bounded piece at a time ([`CliSession::run`]), so a dump of thousands of servers neither holds a
//! worker nor fills its memory.
//!
//! Begin with [`CliSession`], then [`target::CommandTarget`].

pub mod command;
mod commands;
mod help;
pub mod level;
pub mod line;
pub mod modes;
pub mod outcome;
pub mod session;
pub mod target;

pub use command::Command;
pub use commands::{
    PROMPT_HELP, choose_severity_output, choose_timeout, commands, find_command, help, keyword_dump, switch,
    unknown,
};
pub use level::{Level, Severity, SeverityOutput};
pub use modes::{PERMISSION_DENIED, SessionMode, SessionModes};
pub use outcome::{AnswerStep, AnswerStream, CommandOutcome, WaitCondition};
pub use session::{CliSession, SessionSettings, TransportAction};
pub use target::CommandTarget;
