//! What traffic shows of a server (manual, "observe").

/// What one connection or response showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A connection stands.
    Connected,
    /// No connection stands.
    NotConnected,
    /// A response that is well.
    Responded,
    /// A response with a status that is not.
    WrongStatus,
    /// No response that could be understood.
    WrongResponse,
    /// No response in time.
    NoResponse,
    /// The connection broke.
    BrokenConnection,
}

impl Observation {
    /// What a response's status shows: 100 to 499, 501 and 505 are well.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            100..=499 | 501 | 505 => Observation::Responded,
            _ => Observation::WrongStatus,
        }
    }

    /// Whether only `observe layer7` looks at it.
    #[must_use]
    pub fn is_layer7(self) -> bool {
        !matches!(self, Observation::Connected | Observation::NotConnected)
    }

    /// Whether the server is well.
    #[must_use]
    pub fn is_well(self) -> bool {
        matches!(self, Observation::Connected | Observation::Responded)
    }

    /// The words of logs.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Observation::Connected => "L4 successful connection",
            Observation::NotConnected => "L4 unsuccessful connection",
            Observation::Responded => "Correct http response",
            Observation::WrongStatus => "Wrong http response",
            Observation::WrongResponse => "Invalid http response (headers)",
            Observation::NoResponse => "Http response timeout",
            Observation::BrokenConnection => "Http connection error",
        }
    }
}

/// What is observed, and what follows from errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserveRules {
    /// Responses too, not only connections.
    pub layer7: bool,
    /// `error-limit`, at least 1.
    pub limit: u32,
    /// `on-error`.
    pub consequence: Consequence,
}

/// What follows from errors (manual, "on-error"). All have the next check come soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing more.
    CheckSoon,
    /// A failed check.
    FailCheck,
    /// The check before the last failed.
    SuddenDeath,
    /// The server is down.
    MarkDown,
}
