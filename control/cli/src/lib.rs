//! The runtime API: the commands of operators and scripts, and their output.
//!
//! A [`CliSession`] takes bytes and returns bytes, so it works behind a UNIX socket, a TCP port or in a test. It never uses a
//! descriptor, a clock or a thread. Commands are table rows ([`command::Command`]): name, syntax, level, help, function. They act on
//! live objects through the traits in [`target`], which `control/observe` implements. This crate contains all wording and syntax.
//!
//! Long answers are written in bounded pieces ([`CliSession::run`]), so a dump of thousands of servers neither blocks a worker nor
//! fills its memory.
//!
//! Begin with [`CliSession`], then [`target::CommandTarget`].

pub mod command;
mod commands;
mod help;
pub mod level;
pub mod line;
pub mod modes;
pub mod outcome;
pub mod server_changes;
pub mod session;
pub mod target;

pub use command::Command;
pub use commands::{
    PROMPT_HELP, choose_severity_output, choose_timeout, commands, find_command, help, is_command,
    keyword_dump, switch, unknown,
};
pub use level::{Level, Severity, SeverityOutput};
pub use modes::{PERMISSION_DENIED, SessionMode, SessionModes};
pub use outcome::{AnswerStep, AnswerStream, CommandOutcome, WaitCondition};
pub use session::{CliSession, SessionSettings, TransportAction};
pub use target::CommandTarget;
