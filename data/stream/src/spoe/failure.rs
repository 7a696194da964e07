//! Why an exchange with an agent failed.

use weir_spop::StatusCode;

/// Why an exchange with an agent failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// `timeout processing`.
    TimedOut,
    /// A resource is missing: memory, descriptors, the depth of nested exchanges.
    Resource,
    /// The messages exceed `max-frame-size`.
    TooLarge,
    /// The agent or an administrator interrupted the exchange.
    Interrupted,
    /// A status of the SPOP (SPOE.txt, 3.5): of the agent, of its connection, or of this end.
    Protocol(u32),
}

impl Failure {
    /// The value of the variable of `option set-on-error`, and `st=` in the log (SPOE.txt, 2.2).
    pub(crate) fn code(self) -> u32 {
        match self {
            Failure::TimedOut => 1,
            Failure::Resource => 2,
            Failure::TooLarge => 3,
            Failure::Interrupted => 5,
            Failure::Protocol(status) => 256_u32.saturating_add(status),
        }
    }

    /// The failure as a part of a sentence, for `show timeline`.
    pub(crate) fn words(self) -> String {
        match self {
            Failure::TimedOut => "the agent did not answer in time".to_owned(),
            Failure::Resource => "a resource was missing".to_owned(),
            Failure::TooLarge => "the messages exceed max-frame-size".to_owned(),
            Failure::Interrupted => "the exchange was interrupted".to_owned(),
            Failure::Protocol(status) if status == StatusCode::Io.number() => {
                "no agent could be reached, or it closed the connection".to_owned()
            }
            Failure::Protocol(status) => match StatusCode::of_number(status) {
                Some(known) => format!("status {status} of the protocol, {}", known.message()),
                None => format!("status {status} of the agent"),
            },
        }
    }
}

impl From<StatusCode> for Failure {
    fn from(status: StatusCode) -> Self {
        Failure::Protocol(status.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_codes_of_the_manual() {
        let failures = [Failure::TimedOut, Failure::Resource, Failure::TooLarge, Failure::Interrupted]
            .map(Failure::code);
        assert_eq!(failures, [1, 2, 3, 5]);
        assert_eq!(Failure::from(StatusCode::Io).code(), 257);
    }
}
