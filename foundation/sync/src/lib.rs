//! Structures that threads share.
//!
//! Every structure here is small, has a clear owner for each side and is modelled in loom. Under `--cfg loom` the
//! façade in `primitives` replaces the standard atomics with loom's. To explore the interleavings: `RUSTFLAGS="--cfg
//! loom" cargo test -p weir-sync --release --target-dir target/loom`.
//!
//! Begin with [`WakeList`], through which a thread wakes numbered items of another without allocation. [`Inbox`] passes
//! values. [`Doorbell`] records whether the receiver is asleep and must be woken. [`Ring`] is a buffer of messages with
//! many writers and many readers, in memory or in a file. [`RunState`], [`SharedQueue`] and [`SeekLock`] are for tasks
//! that several threads may run. [`Semaphore`] bounds the number of permits and lists the waiters. [`Counter`] has one
//! writer, [`VersionCell`] a snapshot with many readers and rare replacements. [`PerWorker`] contains a private value
//! per worker, [`LazyPerWorker`] a value that each worker writes and all read, created on the first write like every
//! [`LazyBox`]. [`PersistentMap`] is an ordered map for snapshots. Versions share all unchanged nodes. [`atomic`] has
//! the standard atomics, and counts the expensive operations in tests.
//!
//! This crate must not know the purpose of a wake, a count or a snapshot, nor how a sleeping thread is woken.

pub mod atomic;
mod counter;
mod doorbell;
mod inbox;
mod lazy_box;
mod lazy_deadline;
mod lazy_per_worker;
mod lock_label;
mod per_worker;
mod persistent_map;
mod primitives;
pub mod ring;
mod run_state;
mod seek_lock;
mod semaphore;
mod shared_queue;
mod static_ref;
mod version_cell;
mod wake_list;

pub use counter::{Counter, Gauge};
pub use crossbeam_utils::CachePadded;
pub use doorbell::Doorbell;
pub use inbox::Inbox;
pub use lazy_box::LazyBox;
pub use lazy_deadline::{Expiry, LazyDeadline};
pub use lazy_per_worker::LazyPerWorker;
pub use lock_label::{
    Lock, LockCounters, LockGuard, LockLabel, ModeReport, lock_counters, lock_times_ns, measure_locks,
};
pub use per_worker::PerWorker;
pub use persistent_map::PersistentMap;
pub use ring::Ring;
pub use run_state::{Begin, Finish, RunState};
pub use seek_lock::{ReadGuard, SeekGuard, SeekLock, WriteGuard};
pub use semaphore::Semaphore;
pub use shared_queue::{SharedQueue, ThreadMask};
pub use static_ref::StaticRef;
pub use version_cell::VersionCell;
pub use wake_list::{WakeList, WakeStamp, WokenNumber};
