//! Cutting a message head out of a receive buffer.

use weir_http::Head;

use crate::error::HeadError;

/// What the operator allows beyond the safe subset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// `option accept-unsafe-violations-in-http-request` or `-response`, whichever the message is.
    pub accept_unsafe_violations: bool,
}

/// What a look at the buffer told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The head is not complete: call again with more bytes (a full buffer is the caller's error).
    Incomplete,
    /// The head is complete; the body begins at `head_len`.
    Complete {
        /// The first byte after the empty line.
        head_len: usize,
    },
    /// The head is refused.
    Error(HeadError),
}

/// Parses heads, and remembers where it was when a head comes in pieces: no byte is looked at twice. After
/// `Complete` or `Error` it is ready for the next head.
#[derive(Clone, Debug, Default)]
pub struct Parser {
    scanned: usize,
}

impl Parser {
    /// Looks for a request head at the start of `raw`. Between calls, `raw` may only grow at its end and `head` must
    /// be left alone; `head` is cleared at the first call.
    pub fn request(&mut self, raw: &[u8], options: &Options, head: &mut Head) -> Progress {
        let _ = (raw, options, head, self.scanned);
        Progress::Incomplete
    }

    /// The same for a response head.
    pub fn response(&mut self, raw: &[u8], options: &Options, head: &mut Head) -> Progress {
        let _ = (raw, options, head, self.scanned);
        Progress::Incomplete
    }

    /// Whether a head has begun: some byte other than the empty lines before it was seen.
    pub fn has_begun(&self) -> bool {
        self.scanned > 0
    }

    /// Forgets a head that was begun.
    pub fn reset(&mut self) {
        *self = Parser::default();
    }
}
