//! What is known of a name: what answers said, for as long as it holds.

use std::net::IpAddr;

use weir_dns::{Answer, Service};

use crate::course::Failure;

/// How long after the last valid answer a name is believed, by what came instead; milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldTimes {
    /// How long an answer is used again by those who ask for themselves.
    pub valid_ms: u64,
    /// How long what answers do not repeat is kept.
    pub obsolete_ms: u64,
    /// After there is no such name.
    pub no_such_name_ms: u64,
    /// After no server wanted to answer.
    pub refused_ms: u64,
    /// After no server answered.
    pub timeout_ms: u64,
    /// After anything else.
    pub other_ms: u64,
}

impl HoldTimes {
    fn after(&self, failure: Failure) -> u64 {
        match failure {
            Failure::NoSuchName => self.no_such_name_ms,
            Failure::Refused => self.refused_ms,
            Failure::Timeout => self.timeout_ms,
            Failure::Other => self.other_ms,
            Failure::NotAsked => u64::MAX,
        }
    }
}

/// What is known of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    addresses: Vec<Seen<IpAddr>>,
    services: Vec<Seen<Service>>,
    belief: Belief,
    failure: Option<Failure>,
}

/// Whether a name is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// No valid answer came yet, and the first failure was then: what servers began with holds as if it had come then.
    Untold { failed_ms: Option<u64> },
    /// The last valid answer came then.
    Valid { at_ms: u64 },
    /// What was known holds no more.
    Lost,
}

impl Default for Belief {
    fn default() -> Self {
        Belief::Untold { failed_ms: None }
    }
}

/// A part of an answer, and when one had it last.
#[derive(Clone, Debug)]
struct Seen<T> {
    part: T,
    at_ms: u64,
}

/// The most parts of answers that are kept of one name.
const MOST_PARTS: usize = 1024;

impl Knowledge {
    /// A valid answer came.
    pub(crate) fn learn(&mut self, answer: Answer, hold: &HoldTimes, now_ms: u64) {
        refresh(&mut self.addresses, answer.addresses, |known, new| known == new, now_ms);
        let same = |known: &Service, new: &Service| known.target == new.target && known.port == new.port;
        refresh(&mut self.services, answer.services, same, now_ms);
        self.belief = Belief::Valid { at_ms: now_ms };
        self.failure = None;
        self.forget(hold, now_ms);
    }

    /// A resolution failed: what was known holds for a while.
    pub(crate) fn fail(&mut self, failure: Failure, hold: &HoldTimes, now_ms: u64) {
        if failure == Failure::NotAsked {
            return;
        }
        self.failure = Some(failure);
        let since_ms = match &mut self.belief {
            Belief::Untold { failed_ms } => *failed_ms.get_or_insert(now_ms),
            Belief::Valid { at_ms } => *at_ms,
            Belief::Lost => return,
        };
        if now_ms.saturating_sub(since_ms) > hold.after(failure) {
            *self = Knowledge { failure: Some(failure), belief: Belief::Lost, ..Knowledge::default() };
        }
    }

    /// Forgets what answers do not repeat any more.
    pub(crate) fn forget(&mut self, hold: &HoldTimes, now_ms: u64) {
        // Without a valid answer since, nobody said that a part is gone.
        let Belief::Valid { at_ms: valid_ms } = self.belief else { return };
        let holds = |at_ms: u64| at_ms == valid_ms || now_ms.saturating_sub(at_ms) <= hold.obsolete_ms;
        self.addresses.retain(|seen| holds(seen.at_ms));
        self.services.retain(|seen| holds(seen.at_ms));
    }

    /// The addresses of the name.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|seen| seen.part)
    }

    /// Where the service is.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.iter().map(|seen| &seen.part)
    }

    /// The name is believed to be what is known.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.belief, Belief::Valid { .. })
    }

    /// Nothing is known yet, and no time is over: servers stay where they began.
    pub(crate) fn is_untold(&self) -> bool {
        matches!(self.belief, Belief::Untold { .. })
    }

    /// How the last resolution failed, if it did.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Whether an answer may be used again by whoever asks for himself.
    pub(crate) fn is_fresh(&self, hold: &HoldTimes, now_ms: u64) -> bool {
        matches!(self.belief, Belief::Valid { at_ms } if now_ms.saturating_sub(at_ms) < hold.valid_ms)
    }
}

/// Takes in the parts of an answer: those that were known are seen again, others are new, at the end.
fn refresh<T>(known: &mut Vec<Seen<T>>, parts: Vec<T>, same: impl Fn(&T, &T) -> bool, now_ms: u64) {
    for part in parts {
        let is_full = known.len() >= MOST_PARTS;
        match known.iter_mut().find(|seen| same(&seen.part, &part)) {
            Some(seen) => *seen = Seen { part, at_ms: now_ms },
            None if !is_full => known.push(Seen { part, at_ms: now_ms }),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: HoldTimes = HoldTimes {
        valid_ms: 50,
        obsolete_ms: 100,
        no_such_name_ms: 1000,
        refused_ms: 2000,
        timeout_ms: 3000,
        other_ms: 4000,
    };

    fn answer(last: &[u8]) -> Answer {
        Answer {
            code: weir_dns::ResponseCode::NoError,
            is_truncated: false,
            has_aliases: false,
            aliases_fail: false,
            addresses: last.iter().map(|last| IpAddr::from([192, 0, 2, *last])).collect(),
            services: Vec::new(),
        }
    }

    fn known(knowledge: &Knowledge) -> Vec<String> {
        knowledge.addresses().map(|address| address.to_string()).collect()
    }

    #[test]
    fn what_answers_do_not_repeat_is_kept_for_a_while() {
        let mut knowledge = Knowledge::default();
        knowledge.learn(answer(&[1, 2]), &HOLD, 0);
        knowledge.learn(answer(&[2]), &HOLD, 60);
        assert_eq!(known(&knowledge), ["192.0.2.1", "192.0.2.2"]);
        knowledge.learn(answer(&[3, 2]), &HOLD, 101);
        assert_eq!(known(&knowledge), ["192.0.2.2", "192.0.2.3"]);
        assert!(knowledge.is_fresh(&HOLD, 150) && !knowledge.is_fresh(&HOLD, 151));
    }

    #[test]
    fn a_failure_counts_once_the_last_valid_answer_is_old() {
        for (failure, hold_ms) in [
            (Failure::NoSuchName, 1000),
            (Failure::Refused, 2000),
            (Failure::Timeout, 3000),
            (Failure::Other, 4000),
        ] {
            let mut knowledge = Knowledge::default();
            knowledge.learn(answer(&[1]), &HOLD, 10);
            knowledge.fail(failure, &HOLD, 10 + hold_ms);
            assert!(knowledge.holds() && knowledge.failure() == Some(failure), "{failure:?}");
            // Nobody said that the address is gone, so it is not obsolete.
            assert_eq!(known(&knowledge), ["192.0.2.1"]);
            knowledge.fail(failure, &HOLD, 11 + hold_ms);
            assert!(!knowledge.holds() && known(&knowledge).is_empty(), "{failure:?}");
            knowledge.learn(answer(&[2]), &HOLD, 12 + hold_ms);
            assert!(knowledge.holds() && knowledge.failure().is_none(), "{failure:?}");
        }
    }

    #[test]
    fn what_servers_began_with_holds_from_the_first_failure_on() {
        let mut never = Knowledge::default();
        for (now_ms, is_untold) in [(500, true), (3500, true), (3501, false), (9000, false)] {
            never.fail(Failure::Timeout, &HOLD, now_ms);
            assert_eq!((never.is_untold(), never.holds()), (is_untold, false), "{now_ms}");
        }
        never.learn(answer(&[1]), &HOLD, 9001);
        assert!(never.holds());
    }

    #[test]
    fn who_could_not_ask_knows_what_he_knew() {
        let mut knowledge = Knowledge::default();
        knowledge.learn(answer(&[1]), &HOLD, 0);
        knowledge.fail(Failure::NotAsked, &HOLD, 1_000_000);
        assert!(knowledge.holds() && knowledge.failure().is_none());
    }
}
