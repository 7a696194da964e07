//! How far a body is, and what happened since somebody looked: what traces tell of it.

/// What became of a body so far, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Payload that came, without framing.
    pub received: u64,
    /// What was given to the sink: payload and framing, as it is on the wire.
    pub sent: u64,
    /// Trailers that came, line ends included.
    pub trailers_received: u64,
    /// Trailers that were given to the sink.
    pub trailers_sent: u64,
    /// The last byte came.
    pub complete: bool,
    /// The last byte was given to the sink.
    pub done: bool,
}

/// What happened to a body between two looks, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Payload that came.
    pub received: u64,
    /// What was given to the sink, framing included.
    pub sent: u64,
    /// The first of what was given left together with the head before it.
    pub with_head: bool,
    /// Trailers that came.
    pub trailers_received: u64,
    /// Trailers that were given to the sink.
    pub trailers_sent: u64,
    /// The last byte came.
    pub completed: bool,
    /// The last byte was given to the sink.
    pub finished: bool,
    /// The sink is closed right behind the last byte, which waits for the FIN.
    pub ends_sink: bool,
    /// How far it is now.
    pub now: Progress,
}

impl Step {
    /// From what was told to what is to be told now. What was told to be over stays so.
    pub(crate) fn between(told: &mut Progress, now: Progress) -> Step {
        let before = *told;
        *told = Progress { complete: before.complete || now.complete, done: before.done || now.done, ..now };
        Step {
            received: now.received.saturating_sub(before.received),
            sent: now.sent.saturating_sub(before.sent),
            trailers_received: now.trailers_received.saturating_sub(before.trailers_received),
            trailers_sent: now.trailers_sent.saturating_sub(before.trailers_sent),
            completed: now.complete && !before.complete,
            finished: now.done && !before.done,
            now,
            ..Step::default()
        }
    }
}
