//! The progress of a body, for traces.

/// The totals of a body so far, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyProgress {
    /// Payload received, without framing.
    pub received: u64,
    /// Bytes given to the sink: payload and framing, as on the wire.
    pub sent: u64,
    /// Trailers received, line ends included.
    pub trailers_received: u64,
    /// Trailers given to the sink.
    pub trailers_sent: u64,
    /// The last byte was received.
    pub complete: bool,
    /// The last byte was given to the sink.
    pub done: bool,
}

/// The changes of a body between two calls, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyDelta {
    pub received: u64,
    /// Bytes given to the sink, framing included.
    pub sent: u64,
    /// The first bytes were sent together with the head.
    pub with_head: bool,
    pub trailers_received: u64,
    /// Trailers given to the sink.
    pub trailers_sent: u64,
    /// The last byte was received.
    pub completed: bool,
    /// The last byte was given to the sink.
    pub finished: bool,
    /// The sink is closed right after the last byte, which is held back to travel with the FIN.
    pub ends_sink: bool,
    pub now: BodyProgress,
}

impl BodyDelta {
    /// The changes since the last reported totals. A body reported as complete stays complete.
    pub(crate) fn between(reported: &mut BodyProgress, now: BodyProgress) -> BodyDelta {
        let before = *reported;
        *reported =
            BodyProgress { complete: before.complete || now.complete, done: before.done || now.done, ..now };
        BodyDelta {
            received: now.received.saturating_sub(before.received),
            sent: now.sent.saturating_sub(before.sent),
            trailers_received: now.trailers_received.saturating_sub(before.trailers_received),
            trailers_sent: now.trailers_sent.saturating_sub(before.trailers_sent),
            completed: now.complete && !before.complete,
            finished: now.done && !before.done,
            now,
            ..BodyDelta::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_delta_covers_the_changes_since_the_last_report() {
        let mut reported = BodyProgress::default();
        let first = BodyProgress { received: 10, sent: 4, ..BodyProgress::default() };
        let step = BodyDelta::between(&mut reported, first);
        assert_eq!((step.received, step.sent, step.completed, step.finished), (10, 4, false, false));
        let last =
            BodyProgress { received: 12, sent: 9, trailers_received: 3, complete: true, done: true, ..first };
        let step = BodyDelta::between(&mut reported, last);
        assert_eq!((step.received, step.sent, step.trailers_received, step.now), (2, 5, 3, last));
        assert!(step.completed && step.finished);
        // A body that was traced as complete stays complete, and a restart of its counters is not a negative step.
        let step = BodyDelta::between(&mut reported, BodyProgress { received: 1, ..BodyProgress::default() });
        assert_eq!((step.received, step.completed, step.finished), (0, false, false));
        assert!(reported.complete && reported.done && reported.received == 1);
    }
}
