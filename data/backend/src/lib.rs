//! Servers, balancing, queues and idle connections.
//!
//! A [`Backend`] is the live object behind a `backend` or `listen` section: all workers share it.
//! A stream calls [`Backend::choose`] and gets a [`Choice`]: a [`Lease`] on a server's slot, a
//! [`QueueEntry`] place in a queue, or the result that no server can serve. Everything that changes a
//! server (runtime API, checks, DNS, agents, the state file) goes through one method,
//! [`Backend::change`].
//!
//! This crate refuses to know sockets, clocks, randomness, and the syntax and expressions of the configuration: time and entropy come in as
//! arguments, connections stay with their owners, and the settings are plain structs ([`BackendSettings`], [`ServerSettings`]) that the
//! caller fills. They contain types of the configuration's model where both mean the same (cookies, hashes, ports, reuse, reactions to errors).
//!
//! Begin with `backend.rs` (the object and its lock), then `view.rs` (how a worker chooses without the
//! lock), `queue.rs` (why no wake-up is lost) and `balance.rs` (one file per algorithm).

mod address;
mod algorithm;
pub mod backend;
mod balance;
mod changes;
mod choice;
pub mod counters;
mod event;
pub mod hash;
pub mod health;
pub mod idle;
mod lb_state;
mod lease;
pub mod notice;
mod outlier;
pub mod persistence;
pub mod queue;
pub mod retry;
mod rotation;
pub mod server;
mod server_key;
pub mod settings;
mod shared;
mod snapshot;
mod sync;
mod traffic;
mod view;
mod waiting;

pub use address::ServerAddress;
pub use backend::{Backend, TrackMember};
pub use balance::words as algorithms;
pub use changes::{AddError, ChangeError, FormerState, RemoveError};
pub use choice::{Choice, ChooseInput};
pub use counters::{
    BackendCounter, BackendCounters, CounterSet, FrontendCounter, FrontendCounters, FrontendRate,
    LatencyHistograms, LatencyReading, ListenerCounter, ListenerCounters, Phase, PhaseDurations, Phases,
    ProcessCounter, ProcessRate, ProcessRates, ServerCounter, ServerCounters,
};
pub use event::{CheckReport, ServerEvent, ServerEventKind};
pub use health::{
    CheckFinding, CheckKind, CheckRecord, CheckResult, CheckRules, CheckStatus, Observation, ObserveRules,
    Redirection, ServerCheck,
};
pub use idle::{
    ConnectionKeys, ConnectionParts, CountedConnection, Idle, IdleAdmission, IdlePool, IdlePools, InUse,
    NeverShared, PooledConnection, PurgePlan, RemovedConnection, ReuseScope, SharedConnection, SharedId,
    Usage, may_reuse, purge_plan, reuse_scope,
};
pub use lb_state::{BackendStatus, BackendView, Watcher};
pub use lease::Lease;
pub use notice::{
    BackendNews, BackendNotice, BatchEnd, EjectionEnd, Followers, MailLevel, Passage, Reason, Urgency,
};
pub use outlier::OutlierRules;
pub use persistence::{
    CookieEdit, CookieRules, DynamicCookies, PresentedCookie, PresentedState, ResponseFacts, ResponsePlan,
};
pub use queue::{Priority, WakeFn, WakeWaiter};
pub use retry::{FailedAttempt, NextAttempt, TURN_AROUND_MS, after_failure};
pub use server::state::{AdminState, OperationalState, RequestedState};
pub use server::weight::WeightChange;
pub use server::{Server, ServerChange};
pub use server_key::ServerKey;
pub use settings::{BackendSettings, BalanceAlgorithm, PoolSettings, ServerSettings};
pub use snapshot::ServerList;
pub use traffic::TrafficSample;
pub use waiting::{GrantedSlot, Positions, QueueEntry, WaitOutcome};
