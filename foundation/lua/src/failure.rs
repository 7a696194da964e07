//! Failures: of functions of Rust, and of scripts.

use std::borrow::Cow;
use std::fmt;

/// Why a function of Rust fails. Lua raises it as an error, with the position in the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misuse {
    /// An argument is wrong. The message has the name of the function and the text: `bad argument #1 to 'sleep' (number expected)`.
    Argument(i32, Cow<'static, str>),
    /// The text of the message. The position is put before it.
    Text(Cow<'static, str>),
    /// The whole message, without a position.
    Bare(Cow<'static, str>),
}

impl Misuse {
    /// A failure with this text.
    pub fn text(text: impl Into<Cow<'static, str>>) -> Self {
        Misuse::Text(text.into())
    }

    /// A failure with this message, without a position.
    pub fn bare(text: impl Into<Cow<'static, str>>) -> Self {
        Misuse::Bare(text.into())
    }

    /// A wrong argument. The first one has the index 1.
    pub fn argument(index: i32, text: impl Into<Cow<'static, str>>) -> Self {
        Misuse::Argument(index, text.into())
    }
}

/// Why a script failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LuaError {
    pub kind: LuaErrorKind,
    /// The text of the error, with `file:line: ` if Lua knows it. `None` if the script raised another value than a text.
    pub message: Option<String>,
    /// The calls that led to the error, one in each line. Empty where Lua does not know them.
    pub traceback: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LuaErrorKind {
    /// The script raised an error.
    Runtime,
    /// The text is not Lua.
    Syntax,
    /// The memory of the state is used up.
    Memory,
    /// The script computed for longer than it may.
    Timeout,
}

impl fmt::Display for LuaError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.message.as_deref().unwrap_or("(error object is not a string)"))
    }
}

impl std::error::Error for LuaError {}
