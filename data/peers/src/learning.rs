//! The resync: how a starting instance gets the tables of others (`doc/peers-v2.0.txt`, "Initial full resync process").
//!
//! ```text
//!  a previous process exists        its lesson is complete
//!  ────► FromLocal ──────────────────────────────────────────────► Complete
//!            │ 5 seconds                                              ▲ ▲
//!            ▼             request a lesson          it is complete   │ │
//!  ────► FromRemote ─────────────────────────► Lesson ────────────────┘ │
//!          ▲ │ 5 seconds without a peer          │                      │
//!          │ └───────────────────────────────────┼──────────────────────┘
//!          └─────────────────────────────────────┘ it knows less, is gone, sends no entry for 5 seconds
//!                                                   or takes longer than a minute: the next peer
//! ```
//!
//! A lesson is a full transfer of a peer's tables. A late lesson still counts once it is complete.

use weir_sched::Tick;

use crate::view::LearnState;

/// The state of the resync.
#[derive(Debug)]
pub(crate) struct Learning {
    state: LearningState,
    /// Bit set of the peers from which a lesson was requested. Each is requested once, or again after its session was lost.
    requested: u64,
    /// Bit set of the peers with a session lost during their lesson. Each may be requested again once.
    excused: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LearningState {
    FromLocal(Tick),
    FromRemote(Tick),
    Lesson(Lesson),
    Complete,
}

/// A lesson requested from a peer: all its tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lesson {
    by: usize,
    /// Whether an entry was received.
    has_begun: bool,
    /// The deadline of the next entry or of the end of the lesson.
    next_until: Tick,
    /// The deadline of the whole lesson.
    until: Tick,
}

/// Timeout for a peer to teach, and for the next entry of a lesson, in milliseconds.
const PATIENCE_MS: u64 = 5_000;
/// The longest lesson, in milliseconds. Then the next peer is requested, even if the lesson continues.
const LESSON_MS: u64 = 60_000;

impl Learning {
    /// Begins the resync. `from_local`: a previous process exists, which teaches first.
    pub(crate) fn new(from_local: bool, now: Tick) -> Learning {
        let until = now.after(PATIENCE_MS);
        let state =
            if from_local { LearningState::FromLocal(until) } else { LearningState::FromRemote(until) };
        Learning { state, requested: 0, excused: 0 }
    }

    fn advance(&mut self, now: Tick) {
        match self.state {
            LearningState::FromLocal(until) if until <= now => {
                self.state = LearningState::FromRemote(now.after(PATIENCE_MS))
            }
            LearningState::FromRemote(until) if until <= now => self.state = LearningState::Complete,
            LearningState::Lesson(lesson) if lesson.next_until.min(lesson.until) <= now => {
                self.state = LearningState::FromRemote(now.after(PATIENCE_MS));
            }
            _ => {}
        }
    }

    /// Whether the resync still waits for the previous process, before other peers.
    pub(crate) fn awaits_local(&mut self, now: Tick) -> bool {
        self.advance(now);
        matches!(self.state, LearningState::FromLocal(_))
    }

    /// Whether the resync is complete.
    pub(crate) fn is_complete(&mut self, now: Tick) -> bool {
        self.advance(now);
        self.state == LearningState::Complete
    }

    /// Whether to request a lesson from this peer now. If true, other peers have to wait.
    pub(crate) fn request_lesson(&mut self, peer: usize, now: Tick) -> bool {
        self.advance(now);
        let bit = bit_of(peer);
        if !matches!(self.state, LearningState::FromRemote(_)) || self.requested & bit != 0 {
            return false;
        }
        self.requested |= bit;
        self.state = LearningState::Lesson(Lesson {
            by: peer,
            has_begun: false,
            next_until: now.after(PATIENCE_MS),
            until: now.after(LESSON_MS),
        });
        true
    }

    /// Records entries received from a peer. If they belong to a lesson, extends its deadline.
    pub(crate) fn entries_received(&mut self, by: usize, now: Tick) {
        self.advance(now);
        if let LearningState::Lesson(lesson) = &mut self.state
            && lesson.by == by
        {
            lesson.has_begun = true;
            lesson.next_until = now.after(PATIENCE_MS);
        }
    }

    /// The deadline of the current state. `None` without one.
    pub(crate) fn ends_at(&self) -> Option<Tick> {
        match self.state {
            LearningState::FromLocal(until) | LearningState::FromRemote(until) => Some(until),
            LearningState::Lesson(lesson) => Some(lesson.next_until.min(lesson.until)),
            LearningState::Complete => None,
        }
    }

    pub(crate) fn of(&self, peer: usize) -> LearnState {
        match self.state {
            LearningState::Lesson(lesson) if lesson.by == peer => match lesson.has_begun {
                true => LearnState::Processing,
                false => LearnState::Assigned,
            },
            _ => LearnState::NotAssigned,
        }
    }

    /// Records the end of a lesson from a peer, or from the previous process (`None`).
    pub(crate) fn taught(&mut self, by: Option<usize>, is_complete: bool, now: Tick) {
        if is_complete {
            self.state = LearningState::Complete;
        } else {
            self.await_another(by, now);
        }
    }

    /// Records the end of a teacher's session. It may be requested once more: if two instances connect to each other at the
    /// same time, one of the sessions ends at once.
    pub(crate) fn lost(&mut self, who: Option<usize>, now: Tick) {
        if let (LearningState::Lesson(lesson), Some(who)) = (self.state, who)
            && lesson.by == who
        {
            let bit = bit_of(who);
            self.requested &= self.excused | !bit;
            self.excused |= bit;
        }
        self.await_another(who, now);
    }

    /// Continues after an incomplete lesson.
    fn await_another(&mut self, who: Option<usize>, now: Tick) {
        let until = now.after(PATIENCE_MS);
        match (self.state, who) {
            (LearningState::Lesson(lesson), Some(who)) if lesson.by == who => {
                self.state = LearningState::FromRemote(until)
            }
            (LearningState::FromLocal(_), None) => self.state = LearningState::FromLocal(until),
            _ => {}
        }
    }
}

fn bit_of(peer: usize) -> u64 {
    1 << (peer % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Tick {
        Tick::from_ms(milliseconds)
    }

    #[test]
    fn learning_completes_after_five_seconds_without_peers() {
        let mut learning = Learning::new(false, at(0));
        assert!(!learning.awaits_local(at(0)));
        assert!(!learning.is_complete(at(4_999)));
        assert!(learning.is_complete(at(5_000)));
        assert!(!learning.request_lesson(0, at(5_000)));
    }

    #[test]
    fn the_resync_is_requested_from_the_next_peer_if_the_first_fails() {
        let mut learning = Learning::new(false, at(0));
        assert!(learning.request_lesson(3, at(100)));
        assert!(!learning.request_lesson(4, at(100)), "one is enough");
        learning.lost(Some(4), at(150));
        assert!(!learning.request_lesson(4, at(150)), "the lesson was requested of another peer");
        learning.lost(Some(3), at(200));
        assert!(learning.request_lesson(3, at(200)), "its session was lost");
        learning.lost(Some(3), at(300));
        assert!(!learning.request_lesson(3, at(300)), "only once");
        assert!(learning.request_lesson(4, at(5_200)), "there are five seconds again");
        learning.taught(Some(4), false, at(6_000));
        assert!(!learning.request_lesson(4, at(6_000)), "it has said what it knows");
        assert!(learning.request_lesson(5, at(6_000)));
        learning.taught(Some(5), true, at(6_001));
        assert!(learning.is_complete(at(6_001)));
    }

    #[test]
    fn a_resync_from_a_peer_silent_for_five_seconds_is_abandoned() {
        let mut learning = Learning::new(false, at(0));
        assert!(learning.request_lesson(3, at(100)));
        learning.entries_received(3, at(4_000));
        learning.entries_received(4, at(8_000));
        assert!(!learning.request_lesson(4, at(8_999)));
        assert!(learning.request_lesson(4, at(9_000)), "five seconds after the last entry of the lesson");
        assert!(!learning.is_complete(at(13_999)));
        learning.taught(Some(3), true, at(13_999));
        assert!(learning.is_complete(at(13_999)), "late is as good");
    }

    #[test]
    fn a_resync_is_abandoned_after_a_minute() {
        let mut learning = Learning::new(false, at(0));
        assert!(learning.request_lesson(3, at(0)));
        (0..60).for_each(|second| learning.entries_received(3, at(second * 1000)));
        assert!(!learning.request_lesson(4, at(59_999)));
        learning.entries_received(3, at(60_000));
        assert!(!learning.is_complete(at(64_999)));
        assert!(learning.is_complete(at(65_000)), "nobody else was there");
    }

    #[test]
    fn the_old_process_is_the_first_source_of_a_resync() {
        let mut learning = Learning::new(true, at(0));
        assert!(learning.awaits_local(at(4_999)));
        assert!(!learning.request_lesson(0, at(4_999)));
        learning.lost(None, at(4_999));
        assert!(learning.awaits_local(at(9_998)), "another process may come");
        assert!(learning.request_lesson(0, at(9_999)));
        let mut learning = Learning::new(true, at(0));
        learning.taught(None, true, at(10));
        assert!(learning.is_complete(at(10)));
    }
}
