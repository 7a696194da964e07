//! How an instance that starts gets to know what others know (`doc/peers-v2.0.txt`, "Initial full resync process").
//!
//! ```text
//!  there is a former process        a lesson of its is complete
//!  ────► FromLocal ──────────────────────────────────────────────► Complete
//!            │ 5 seconds                                              ▲ ▲
//!            ▼                 a peer is asked       it is complete   │ │
//!  ────► FromRemote ─────────────────────────► Asked ─────────────────┘ │
//!          ▲ │ 5 seconds without a peer to ask   │                      │
//!          │ └───────────────────────────────────┼──────────────────────┘
//!          └─────────────────────────────────────┘ it knows less, or is gone: another one is asked
//! ```

use weir_sched::Tick;

/// Where an instance is with that.
#[derive(Debug)]
pub(crate) struct Learning {
    state: State,
    /// Peers that were asked, by position: none is asked twice.
    asked: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FromLocal(Tick),
    FromRemote(Tick),
    Asked(usize),
    Complete,
}

/// How long somebody who teaches is awaited.
const PATIENCE_MS: u64 = 5_000;

impl Learning {
    /// Begins. `from_local` says whether a former process is there to teach.
    pub fn new(from_local: bool, now: Tick) -> Learning {
        let until = now.after(PATIENCE_MS);
        let state = if from_local { State::FromLocal(until) } else { State::FromRemote(until) };
        Learning { state, asked: 0 }
    }

    fn advance(&mut self, now: Tick) {
        match self.state {
            State::FromLocal(until) if until <= now => self.state = State::FromRemote(now.after(PATIENCE_MS)),
            State::FromRemote(until) if until <= now => self.state = State::Complete,
            _ => {}
        }
    }

    /// Whether the former process has the first word: other peers come later.
    pub fn awaits_local(&mut self, now: Tick) -> bool {
        self.advance(now);
        matches!(self.state, State::FromLocal(_))
    }

    /// Whether we know what there is to know.
    pub fn is_complete(&mut self, now: Tick) -> bool {
        self.advance(now);
        self.state == State::Complete
    }

    /// Whether this peer is to be asked now. If so, nobody else is.
    pub fn ask(&mut self, peer: usize, now: Tick) -> bool {
        self.advance(now);
        let bit = 1 << (peer % 64);
        if !matches!(self.state, State::FromRemote(_)) || self.asked & bit != 0 {
            return false;
        }
        self.asked |= bit;
        self.state = State::Asked(peer);
        true
    }

    /// A lesson is over, by that peer or by the former process.
    pub fn taught(&mut self, by: Option<usize>, is_complete: bool, now: Tick) {
        if is_complete {
            self.state = State::Complete;
        } else {
            self.lost(by, now);
        }
    }

    /// A teacher has no more to say.
    pub fn lost(&mut self, who: Option<usize>, now: Tick) {
        let until = now.after(PATIENCE_MS);
        match (self.state, who) {
            (State::Asked(peer), Some(who)) if peer == who => self.state = State::FromRemote(until),
            (State::FromLocal(_), None) => self.state = State::FromLocal(until),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Tick {
        Tick::from_ms(milliseconds)
    }

    #[test]
    fn without_anybody_to_ask_we_know_everything_after_five_seconds() {
        let mut learning = Learning::new(false, at(0));
        assert!(!learning.awaits_local(at(0)));
        assert!(!learning.is_complete(at(4_999)));
        assert!(learning.is_complete(at(5_000)));
        assert!(!learning.ask(0, at(5_000)));
    }

    #[test]
    fn one_peer_is_asked_and_another_one_if_it_is_gone_or_knows_less() {
        let mut learning = Learning::new(false, at(0));
        assert!(learning.ask(3, at(100)));
        assert!(!learning.ask(4, at(100)), "one is enough");
        learning.lost(Some(4), at(150));
        assert!(!learning.ask(4, at(150)), "it was nobody who was asked");
        learning.lost(Some(3), at(200));
        assert!(!learning.ask(3, at(200)), "never twice");
        assert!(learning.ask(4, at(5_100)), "there are five seconds again");
        learning.taught(Some(4), false, at(6_000));
        assert!(learning.ask(5, at(6_000)));
        learning.taught(Some(5), true, at(6_001));
        assert!(learning.is_complete(at(6_001)));
    }

    #[test]
    fn a_former_process_comes_first() {
        let mut learning = Learning::new(true, at(0));
        assert!(learning.awaits_local(at(4_999)));
        assert!(!learning.ask(0, at(4_999)));
        learning.lost(None, at(4_999));
        assert!(learning.awaits_local(at(9_998)), "another process may come");
        assert!(learning.ask(0, at(9_999)));
        let mut learning = Learning::new(true, at(0));
        learning.taught(None, true, at(10));
        assert!(learning.is_complete(at(10)));
    }
}
