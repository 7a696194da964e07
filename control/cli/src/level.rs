//! Levels of access, and severities of messages.

/// The access level of a session. Higher levels include lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// May read data that is not sensitive.
    User,
    /// May read all data and reset maxima.
    Operator,
    Admin,
}

impl Level {
    /// The configuration keyword.
    pub fn name(self) -> &'static str {
        ["user", "operator", "admin"][self as usize]
    }
}

/// The severity of a message. The discriminants are syslog's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The command was refused.
    Error = 3,
    /// The command was executed, but something needs attention.
    Warning = 4,
    Info = 6,
}

/// How messages show their severity (`severity-output` on the socket, `set severity-output`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SeverityOutput {
    /// The severity is omitted.
    #[default]
    None,
    /// As a number: `[3]: `.
    Number,
    /// As text: `[err]: `.
    Text,
}

impl SeverityOutput {
    /// The setting with this keyword.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "number" => Some(Self::Number),
            "string" => Some(Self::Text),
            _ => None,
        }
    }

    /// The keyword of the setting.
    pub fn name(self) -> &'static str {
        ["none", "number", "string"][self as usize]
    }

    /// The prefix of a message of this severity.
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
