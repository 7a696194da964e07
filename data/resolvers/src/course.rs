//! Selects the next question (manual, "The resolvers section").
//!
//! ```text
//!   begin ──► preferred kind ──valid──────────────────────────────► over
//!                  │ failed                                          ▲
//!                  ├─ no answer ────────────────────────┐            │
//!                  ▼                                     ▼            │
//!             other kind ──valid──► over      a round is over ──last──┘
//!                  │ failed                              │
//!                  └─────────────────────────────────────┤ when its time is over
//!                                                        └──► preferred kind
//! ```

use weir_dns::Kind;

/// Why a resolution failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolutionFailure {
    /// The name does not exist.
    NoSuchName,
    /// Every server refused to answer.
    Refused,
    Timeout,
    /// Any other error code.
    Other,
    /// The query could not be sent, for a local reason: this does not concern the name.
    NotSent,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CourseStep {
    /// Query this kind now.
    Query(Kind),
    /// Query this kind once the time of the round is over.
    QueryLater(Kind),
    Fail(ResolutionFailure),
}

/// One resolution of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    preferred: Kind,
    other: Option<Kind>,
    queried_other: bool,
    rounds_left: u32,
}

impl Course {
    /// A resolution that queries `preferred`, then `other`, in up to `rounds` rounds.
    pub(crate) fn new(preferred: Kind, other: Option<Kind>, rounds: u32) -> Self {
        Course { preferred, other, queried_other: false, rounds_left: rounds.max(1) }
    }

    /// The first question.
    pub(crate) fn first(&self) -> Kind {
        self.preferred
    }

    /// The next step after the last question failed.
    pub(crate) fn failed(&mut self, failure: ResolutionFailure) -> CourseStep {
        if failure != ResolutionFailure::Timeout
            && !self.queried_other
            && let Some(other) = self.other
        {
            self.queried_other = true;
            return CourseStep::Query(other);
        }
        self.rounds_left -= 1;
        if self.rounds_left == 0 {
            return CourseStep::Fail(failure);
        }
        self.queried_other = false;
        CourseStep::QueryLater(self.preferred)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_the_other_kind_after_an_error_and_then_another_round() {
        let mut course = Course::new(Kind::Aaaa, Some(Kind::A), 2);
        assert_eq!(course.first(), Kind::Aaaa);
        assert_eq!(course.failed(ResolutionFailure::NoSuchName), CourseStep::Query(Kind::A));
        assert_eq!(course.failed(ResolutionFailure::Refused), CourseStep::QueryLater(Kind::Aaaa));
        assert_eq!(course.failed(ResolutionFailure::Other), CourseStep::Query(Kind::A));
        assert_eq!(
            course.failed(ResolutionFailure::NoSuchName),
            CourseStep::Fail(ResolutionFailure::NoSuchName)
        );
    }

    #[test]
    fn repeats_the_same_kind_after_a_timeout() {
        let mut course = Course::new(Kind::A, Some(Kind::Aaaa), 3);
        assert_eq!(course.failed(ResolutionFailure::Timeout), CourseStep::QueryLater(Kind::A));
        assert_eq!(course.failed(ResolutionFailure::Timeout), CourseStep::QueryLater(Kind::A));
        assert_eq!(course.failed(ResolutionFailure::Timeout), CourseStep::Fail(ResolutionFailure::Timeout));
    }

    #[test]
    fn queries_services_in_one_kind_only() {
        let mut course = Course::new(Kind::Srv, None, 1);
        assert_eq!(course.failed(ResolutionFailure::Other), CourseStep::Fail(ResolutionFailure::Other));
    }
}
