//! Selects the next query of a resolution (manual, "The resolvers section").
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

use weir_dns::RecordKind;

/// Why a resolution failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResolutionFailure {
    /// The name does not exist.
    NoSuchName,
    /// The name servers refused the query.
    Refused,
    Timeout,
    /// Any other error code.
    Other,
    /// The query could not be sent for a local reason. This does not affect the name's records.
    NotSent,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CourseStep {
    /// Query this record type now.
    Query(RecordKind),
    /// Query this record type after the time of the round.
    QueryLater(RecordKind),
    Fail(ResolutionFailure),
}

/// One resolution of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    preferred: RecordKind,
    other: Option<RecordKind>,
    queried_other: bool,
    rounds_left: u32,
}

impl Course {
    /// A resolution that queries `preferred`, then `other`, in up to `rounds` rounds.
    pub(crate) fn new(preferred: RecordKind, other: Option<RecordKind>, rounds: u32) -> Self {
        Course { preferred, other, queried_other: false, rounds_left: rounds.max(1) }
    }

    /// The record type of the first query.
    pub(crate) fn first(&self) -> RecordKind {
        self.preferred
    }

    /// The next step after the last query failed.
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
    fn after_an_error_the_other_record_type_is_queried_before_a_retry() {
        let mut course = Course::new(RecordKind::Aaaa, Some(RecordKind::A), 2);
        assert_eq!(course.first(), RecordKind::Aaaa);
        assert_eq!(course.failed(ResolutionFailure::NoSuchName), CourseStep::Query(RecordKind::A));
        assert_eq!(course.failed(ResolutionFailure::Refused), CourseStep::QueryLater(RecordKind::Aaaa));
        assert_eq!(course.failed(ResolutionFailure::Other), CourseStep::Query(RecordKind::A));
        assert_eq!(
            course.failed(ResolutionFailure::NoSuchName),
            CourseStep::Fail(ResolutionFailure::NoSuchName)
        );
    }

    #[test]
    fn after_a_timeout_the_same_record_type_is_queried_again() {
        let mut course = Course::new(RecordKind::A, Some(RecordKind::Aaaa), 3);
        assert_eq!(course.failed(ResolutionFailure::Timeout), CourseStep::QueryLater(RecordKind::A));
        assert_eq!(course.failed(ResolutionFailure::Timeout), CourseStep::QueryLater(RecordKind::A));
        assert_eq!(course.failed(ResolutionFailure::Timeout), CourseStep::Fail(ResolutionFailure::Timeout));
    }

    #[test]
    fn srv_queries_do_not_fall_back_to_another_record_type() {
        let mut course = Course::new(RecordKind::Srv, None, 1);
        assert_eq!(course.failed(ResolutionFailure::Other), CourseStep::Fail(ResolutionFailure::Other));
    }
}
