//! The cached records of a name, while they are valid (`hold`).

use std::net::IpAddr;

use weir_dns::{Answer, ServiceLocation};

use crate::course::ResolutionFailure;

/// The `hold` times in milliseconds: how long the last valid answer stays valid after each kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldTimes {
    /// How long a valid answer is reused for `do-resolve`.
    pub valid_ms: u64,
    /// How long records are kept that later answers lack.
    pub obsolete_ms: u64,
    /// How long the last answer is kept after a response that the name does not exist.
    pub no_such_name_ms: u64,
    pub refused_ms: u64,
    pub timeout_ms: u64,
    /// How long the last answer is kept after any other failure.
    pub other_ms: u64,
}

impl HoldTimes {
    fn after(&self, failure: ResolutionFailure) -> u64 {
        match failure {
            ResolutionFailure::NoSuchName => self.no_such_name_ms,
            ResolutionFailure::Refused => self.refused_ms,
            ResolutionFailure::Timeout => self.timeout_ms,
            ResolutionFailure::Other => self.other_ms,
            ResolutionFailure::NotSent => u64::MAX,
        }
    }
}

/// The cached records of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge {
    addresses: Vec<CachedRecord<IpAddr>>,
    services: Vec<CachedRecord<ServiceLocation>>,
    belief: Belief,
    failure: Option<ResolutionFailure>,
}

/// Whether the records of a name are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Belief {
    /// No valid answer yet. The initial addresses of servers count as answered at the time of the first failure.
    Unanswered { failed_ms: Option<u64> },
    /// The time of the last valid answer.
    Valid { at_ms: u64 },
    /// The records have expired.
    Lost,
}

impl Default for Belief {
    fn default() -> Self {
        Belief::Unanswered { failed_ms: None }
    }
}

/// A record, and the time of the last answer that contained it.
#[derive(Clone, Debug)]
struct CachedRecord<T> {
    part: T,
    at_ms: u64,
}

/// Maximum number of records per name.
const MOST_PARTS: usize = 1024;

impl Knowledge {
    /// Adds a valid answer.
    pub(crate) fn learn(&mut self, answer: Answer, hold: &HoldTimes, now_ms: u64) {
        refresh(&mut self.addresses, answer.addresses, |known, new| known == new, now_ms);
        let same = |known: &ServiceLocation, new: &ServiceLocation| {
            known.target == new.target && known.port == new.port
        };
        refresh(&mut self.services, answer.services, same, now_ms);
        self.belief = Belief::Valid { at_ms: now_ms };
        self.failure = None;
        self.forget(hold, now_ms);
    }

    /// Records a failed resolution. The records stay valid for the hold time of the failure.
    pub(crate) fn fail(&mut self, failure: ResolutionFailure, hold: &HoldTimes, now_ms: u64) {
        if failure == ResolutionFailure::NotSent {
            return;
        }
        self.failure = Some(failure);
        let since_ms = match &mut self.belief {
            Belief::Unanswered { failed_ms } => *failed_ms.get_or_insert(now_ms),
            Belief::Valid { at_ms } => *at_ms,
            Belief::Lost => return,
        };
        if now_ms.saturating_sub(since_ms) > hold.after(failure) {
            *self = Knowledge { failure: Some(failure), belief: Belief::Lost, ..Knowledge::default() };
        }
    }

    /// Drops records that recent answers lack for longer than `hold obsolete`.
    pub(crate) fn forget(&mut self, hold: &HoldTimes, now_ms: u64) {
        // Records only become obsolete by a valid answer without them.
        let Belief::Valid { at_ms: valid_ms } = self.belief else { return };
        let holds = |at_ms: u64| at_ms == valid_ms || now_ms.saturating_sub(at_ms) <= hold.obsolete_ms;
        self.addresses.retain(|seen| holds(seen.at_ms));
        self.services.retain(|seen| holds(seen.at_ms));
    }

    /// The addresses of the name.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(|seen| seen.part)
    }

    /// The SRV records of the service.
    pub(crate) fn services(&self) -> impl Iterator<Item = &ServiceLocation> {
        self.services.iter().map(|seen| &seen.part)
    }

    /// Whether the records are valid.
    pub(crate) fn holds(&self) -> bool {
        matches!(self.belief, Belief::Valid { .. })
    }

    /// Whether no answer was received and no hold time has passed. Servers then keep their initial addresses.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.belief, Belief::Unanswered { .. })
    }

    /// The failure of the last resolution, if it failed.
    pub(crate) fn failure(&self) -> Option<ResolutionFailure> {
        self.failure
    }

    /// Whether an answer may be reused for `do-resolve`.
    pub(crate) fn is_fresh(&self, hold: &HoldTimes, now_ms: u64) -> bool {
        matches!(self.belief, Belief::Valid { at_ms } if now_ms.saturating_sub(at_ms) < hold.valid_ms)
    }
}

/// Merges the records of an answer: refreshes known ones and appends new ones.
fn refresh<T>(known: &mut Vec<CachedRecord<T>>, parts: Vec<T>, same: impl Fn(&T, &T) -> bool, now_ms: u64) {
    for part in parts {
        let is_full = known.len() >= MOST_PARTS;
        match known.iter_mut().find(|seen| same(&seen.part, &part)) {
            Some(seen) => *seen = CachedRecord { part, at_ms: now_ms },
            None if !is_full => known.push(CachedRecord { part, at_ms: now_ms }),
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
    fn addresses_missing_in_an_answer_are_kept_for_hold_obsolete() {
        let mut knowledge = Knowledge::default();
        knowledge.learn(answer(&[1, 2]), &HOLD, 0);
        knowledge.learn(answer(&[2]), &HOLD, 60);
        assert_eq!(known(&knowledge), ["192.0.2.1", "192.0.2.2"]);
        knowledge.learn(answer(&[3, 2]), &HOLD, 101);
        assert_eq!(known(&knowledge), ["192.0.2.2", "192.0.2.3"]);
        assert!(knowledge.is_fresh(&HOLD, 150) && !knowledge.is_fresh(&HOLD, 151));
    }

    #[test]
    fn a_resolution_failure_counts_after_its_hold_time() {
        for (failure, hold_ms) in [
            (ResolutionFailure::NoSuchName, 1000),
            (ResolutionFailure::Refused, 2000),
            (ResolutionFailure::Timeout, 3000),
            (ResolutionFailure::Other, 4000),
        ] {
            let mut knowledge = Knowledge::default();
            knowledge.learn(answer(&[1]), &HOLD, 10);
            knowledge.fail(failure, &HOLD, 10 + hold_ms);
            assert!(knowledge.holds() && knowledge.failure() == Some(failure), "{failure:?}");
            // No answer omitted the address, so it is not obsolete.
            assert_eq!(known(&knowledge), ["192.0.2.1"]);
            knowledge.fail(failure, &HOLD, 11 + hold_ms);
            assert!(!knowledge.holds() && known(&knowledge).is_empty(), "{failure:?}");
            knowledge.learn(answer(&[2]), &HOLD, 12 + hold_ms);
            assert!(knowledge.holds() && knowledge.failure().is_none(), "{failure:?}");
        }
    }

    #[test]
    fn an_unanswered_name_is_held_for_the_hold_time_of_its_failure() {
        let mut never = Knowledge::default();
        for (now_ms, is_unanswered) in [(500, true), (3500, true), (3501, false), (9000, false)] {
            never.fail(ResolutionFailure::Timeout, &HOLD, now_ms);
            assert_eq!((never.is_unanswered(), never.holds()), (is_unanswered, false), "{now_ms}");
        }
        never.learn(answer(&[1]), &HOLD, 9001);
        assert!(never.holds());
    }

    #[test]
    fn a_query_that_could_not_be_sent_keeps_the_last_answer() {
        let mut knowledge = Knowledge::default();
        knowledge.learn(answer(&[1]), &HOLD, 0);
        knowledge.fail(ResolutionFailure::NotSent, &HOLD, 1_000_000);
        assert!(knowledge.holds() && knowledge.failure().is_none());
    }
}
