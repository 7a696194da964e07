//! The scheduler: workers, tasks, timers and descriptors.
//!
//! Each thread is one worker. A task stays on its worker unless it is spawned as shared. A task is a `!Send` future in
//! a slab, identified by a [`TaskKey`], which is also its waker. A task calls [`wait`] until one of its [`Descriptor`]s
//! has an event, [`wake`] is called with its key, or its deadline passes. Then it tries its operation again.
//!
//! ```text
//!   ┌─► clock ─► timers that are due ─► inboxes ─► one round of run queues ────► poller ─┐
//!   │            (bounded)                         (policy: `turn`)              (epoll)  │
//!   └─────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Begin with [`Runtime::start`] and [`spawn`]; `worker` has the event loop above, `policy` the shares of the classes.
//! A test runs a whole worker on virtual time with [`simulate::run`].
//!
//! This crate must not know about connections, the meaning of bytes, or the purpose of a task.

mod caught;
mod commons;
mod current_work;
mod descriptor;
mod driver;
mod key;
mod policy;
mod profile;
mod queues;
mod runtime;
mod shared;
mod signals;
pub mod simulate;
mod task;
mod tick;
pub mod trace;
mod waiting;
mod waker;
mod watchdog;
mod worker;

pub use caught::{PartPanic, caught};
pub use commons::MOST_SHARED_TASKS;
pub use descriptor::{ConnectStart, Descriptor, DescriptorView, ReceiveResult, SendResult, registered};
pub use driver::{Clock, Poller, SystemClock};
pub use key::TaskKey;
pub use policy::{Budget, Class, Load, SchedulerTuning, turn};
pub use profile::{Cause, ProfileLine, ProfileMode, ProfileReport, ProfileSettings, WakeOrigin};
pub use runtime::{Runtime, RuntimeHandle, RuntimeSettings, run};
pub use shared::{Activity, MOST_WORKERS, NotDelivered};
pub use signals::Signals;
pub use task::WorkKind;
pub use tick::Tick;
pub use waiting::{Wait, Wakeup, YieldNow, sleep_until, wait, yield_now};
pub use watchdog::{Stall, Watchdog};
/// Some of the workers of a runtime, by number.
pub use weir_sync::ThreadMask as WorkerSet;
pub use worker::{
    QueueView, WaitingKind, activity, change_load, current, deadline, flag, is_profiled, kill, limited, load,
    now, now_us, precise_ns, profile, profiling, published, queues, random, running, send_to, set_class,
    set_flag, set_nice, set_profiling, shared_tasks, spawn, spawn_shared, stop, take_heavy_run, task_count,
    waiting, wake, wake_next, wall_time, wall_us, worker_count, worker_index,
};
