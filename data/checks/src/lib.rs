//! Health checks: tasks over connections that find out how servers are.
//!
//! ```text
//!              ┌───────────── nothing but a timer ◄──────────────┐
//!              ▼                                                 │
//!   Checks: one task a check ──► its turn ──► connects, talks ──► a Finding ──► Backend::report ──► News
//!              └► moves to a worker with less than half of the checks, once a wake-up
//! ```
//!
//! A check stays on its worker: nobody else wakes for it. What it finds goes through the backend's door for checks, which says
//! what follows; whoever made the checks is told ([`ProcessView`]).
//!
//! The crate refuses to know proxies, sessions and where logs go. Begin with `plan.rs` (what a check shall be), then `task.rs`
//! (its life), `run.rs` (one check) and `conversation.rs` (what is said).

mod agent;
mod attempt;
mod context;
mod conversation;
mod expected;
mod launcher;
mod load;
mod own;
mod plan;
mod process_view;
mod program;
mod request;
mod reuse;
mod run;
mod schedule;
mod script;
mod task;

pub use launcher::Launcher;
pub use load::{CheckCounts, CheckLoad};
pub use plan::{CheckPlan, CheckTls, Dial, Greets, OwnedSource, ProgramPlan, ReusePlan, Timings};
pub use process_view::{IdleConnection, ProcessView};
pub use schedule::{Intervals, first_delay_ms};
pub use script::Script;
pub use task::Checks;
