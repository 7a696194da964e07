//! The ending of a stream: the cause, the phase, and the two letters of the termination code.
//!
//! An [`Ending`] is a small `Copy` value created where the cause is detected. A phase returns it as its error. It decides whether
//! another attempt makes sense, and it is the termination code of the log line (manual section 8.5).

/// The party that ended the stream: the first letter of the termination code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum By {
    /// Nothing unexpected happened (`-`).
    #[default]
    Nobody,
    /// The client aborted (`C`).
    Client,
    /// The client did not send or receive in time (`c`).
    ClientTimeout,
    /// The server refused, aborted or sent an invalid message (`S`).
    Server,
    /// The server did not respond or receive in time (`s`).
    ServerTimeout,
    /// The proxy refused: a rule, a limit, a protocol violation (`P`).
    Proxy,
    /// A resource ran out: memory, descriptors, ports (`R`).
    Resource,
    /// An internal invariant did not hold (`I`).
    Internal,
    /// The proxy responded locally as configured: redirect, statistics, `return` (`L`).
    Local,
    /// An administrator killed the stream (`K`).
    Killed,
    /// The server went down with `on-marked-down shutdown-sessions` (`D`).
    Down,
    /// The stream was on a backup server, and an active server with `on-marked-up shutdown-backup-sessions` came up (`U`).
    Up,
}

impl By {
    pub const ALL: [By; 12] = [
        By::Nobody,
        By::Client,
        By::ClientTimeout,
        By::Server,
        By::ServerTimeout,
        By::Proxy,
        By::Resource,
        By::Internal,
        By::Local,
        By::Killed,
        By::Down,
        By::Up,
    ];
}

/// Which phase the stream was in: the second letter of the termination code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum During {
    /// The stream was complete (`-`).
    #[default]
    End,
    /// Waiting for a complete request (`R`).
    Request,
    /// Waiting in a queue (`Q`).
    Queue,
    /// Connecting to a server (`C`).
    Connect,
    /// Waiting for the response's head (`H`).
    Headers,
    /// Exchanging data (`D`).
    Data,
    /// The server is done, the client is still receiving (`L`).
    Last,
    /// Held in a tarpit (`T`).
    Tarpit,
}

impl During {
    pub const ALL: [During; 8] = [
        During::End,
        During::Request,
        During::Queue,
        During::Connect,
        During::Headers,
        During::Data,
        During::Last,
        During::Tarpit,
    ];
}

/// Which side ended a stream, and in which phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Ending {
    /// The party that ended the stream.
    pub by: By,
    pub during: During,
}

impl Ending {
    /// The ending of a stream without any incident.
    pub const NORMAL: Ending = Ending { by: By::Nobody, during: During::End };

    /// An ending by `by` in phase `during`.
    pub const fn new(by: By, during: During) -> Self {
        Ending { by, during }
    }

    /// Whether nothing unexpected happened.
    pub fn is_normal(self) -> bool {
        self == Self::NORMAL
    }

    /// Whether the log line counts as an error for `option log-separate-errors` and `option dontlog-normal`: any ending except a normal one
    /// or a local response.
    pub fn is_error(self) -> bool {
        !matches!(self.by, By::Nobody | By::Local)
    }

    /// The two letters of the termination code.
    pub fn letters(self) -> [u8; 2] {
        let by = match self.by {
            By::Nobody => b'-',
            By::Client => b'C',
            By::ClientTimeout => b'c',
            By::Server => b'S',
            By::ServerTimeout => b's',
            By::Proxy => b'P',
            By::Resource => b'R',
            By::Internal => b'I',
            By::Local => b'L',
            By::Killed => b'K',
            By::Down => b'D',
            By::Up => b'U',
        };
        let during = match self.during {
            During::End => b'-',
            During::Request => b'R',
            During::Queue => b'Q',
            During::Connect => b'C',
            During::Headers => b'H',
            During::Data => b'D',
            During::Last => b'L',
            During::Tarpit => b'T',
        };
        [by, during]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn termination_letters_follow_the_manual() {
        let check = |by, during, expected: &str| {
            assert_eq!(&Ending::new(by, during).letters(), expected.as_bytes());
        };
        check(By::Nobody, During::End, "--");
        check(By::Client, During::Request, "CR");
        check(By::ClientTimeout, During::Data, "cD");
        check(By::Server, During::Headers, "SH");
        check(By::ServerTimeout, During::Queue, "sQ");
        check(By::Proxy, During::Tarpit, "PT");
        check(By::Local, During::Last, "LL");
        check(By::Killed, During::Connect, "KC");
    }

    #[test]
    fn local_responses_do_not_end_a_stream_with_an_error() {
        assert!(!Ending::new(By::Local, During::Request).is_error());
        assert!(!Ending::NORMAL.is_error());
        assert!(Ending::new(By::Client, During::Data).is_error());
    }
}
