//! Name resolution at run time: queries name servers and updates the addresses of servers.
//!
//! ```text
//!            ┌──────────────── nothing but a timer ◄─────────────────┐
//!            ▼                                                       │
//!   a name: one task ──► Course: which question now ──► exchange: all name servers at once
//!                              ▲                                     │ an answer, or a failure
//!                              └──── not yet over ◄──────────────────┤
//!                                                                    ▼
//!                                     Knowledge: what holds ──► Follower: servers of that name ──► Backend::change_for
//! ```
//!
//! All users of a name share its task. All tasks of a section run on one worker, so its counters have one writer. One lock
//! protects the section's records, which commands and other workers also use. `course.rs`, `knowledge.rs` and
//! `followers.rs` work without sockets and a clock, so tests run them against faulty name servers.
//!
//! The crate is independent of proxies, rules and log targets. Begin with `section.rs`, then `name_task.rs`.

#![forbid(unsafe_code)]

mod course;
mod exchange;
mod followers;
mod knowledge;
mod name_task;
mod query_counters;
mod section;

pub use followers::NameFollower;
pub use knowledge::HoldTimes;
pub use name_task::{ResolveReply, Resolvers};
pub use query_counters::{NameServerCounters, QueryCounter};
pub use section::{Families, NameServer, RenameError, ResolveQuestion, ResolversSection, SectionSettings};

#[cfg(test)]
mod tests;
