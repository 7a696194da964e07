//! Observations of a server's traffic (manual, "observe").

use weir_model::OnError;

/// An observation of one connection or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation {
    /// A connection was established.
    Connected,
    /// A connection could not be established.
    NotConnected,
    /// A response with a good status.
    Responded,
    /// A response with a bad status.
    WrongStatus,
    WrongResponse,
    /// No response before the timeout.
    NoResponse,
    /// The connection broke before the response was complete.
    BrokenConnection,
}

impl Observation {
    /// The observation of a response's status: 100 to 499, 501 and 505 are good.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            100..=499 | 501 | 505 => Observation::Responded,
            _ => Observation::WrongStatus,
        }
    }

    /// Whether only `observe layer7` uses this observation.
    #[must_use]
    pub fn is_layer7(self) -> bool {
        !matches!(self, Observation::Connected | Observation::NotConnected)
    }

    /// Whether the observation is a success.
    #[must_use]
    pub fn is_well(self) -> bool {
        matches!(self, Observation::Connected | Observation::Responded)
    }

    /// The text for logs.
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

/// The scope of observation, and the consequence of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObserveRules {
    /// Whether responses are observed, not only connections.
    pub layer7: bool,
    /// `error-limit`, at least 1.
    pub limit: u32,
    /// `on-error`.
    pub consequence: OnError,
}
