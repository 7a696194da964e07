//! The goal of a call of an encoder, and its result.

/// The goal of a call of [`BodyEncoder::encode`](crate::BodyEncoder::encode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Takes input. Output may stay in the encoder.
    Continue,
    /// Takes input, and puts out enough for the receiver to decode all of it.
    Flush,
    /// Takes the last input, and ends the body.
    End,
}

/// The result of a call of [`BodyEncoder::encode`](crate::BodyEncoder::encode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of input taken.
    pub taken: usize,
    /// Bytes of output written.
    pub written: usize,
    /// Whether the goal is reached. Otherwise there is too little room.
    pub is_complete: bool,
}
