//! Health checks: tasks that connect to servers and determine their state.
//!
//! ```text
//!              ┌───────────── nothing but a timer ◄──────────────┐
//!              ▼                                                 │
//!   Checks: one task a check ──► its turn ──► connects, talks ──► a Finding ──► Backend::report ──► News
//!              └► may move to a worker with less than half of the checks, at each wake-up
//! ```
//!
//! A check stays on its worker between wake-ups. Its findings go to [`weir_backend::Backend::report`]. The resulting changes
//! and log lines go to the creator of the checks ([`ProcessView`]).
//!
//! The crate is independent of streams, sessions and log targets. It only passes a view of proxies on to expressions. Begin
//! with `plan.rs` (the settings of a check), then `task.rs` (its task), `run.rs` (one run) and `conversation.rs` (the dialogue).

mod agent;
mod application;
mod attempt;
mod context;
mod conversation;
mod expected;
mod form;
mod http2;
mod launcher;
mod load;
mod own;
mod plan;
mod process_view;
mod program;
mod proxy_header;
mod request;
mod reuse;
mod run;
mod schedule;
mod script;
mod task;

pub use application::ApplicationConnection;
pub use http2::Http2Bounds;
pub use launcher::Launcher;
pub use load::{CheckCounts, CheckLoad};
pub use plan::{CheckPlan, CheckTls, Dial, Greets, ProgramPlan, ReusePlan, Timings};
pub use process_view::{IdleConnection, ProcessView};
pub use schedule::{Intervals, first_delay_ms};
pub use script::Script;
pub use task::Checks;
