//! Containers of one thread: buffers, slabs, timers, recycled boxes.
//!
//! Nothing in this crate is shared between threads, takes a lock or makes a system call. Pools are per thread and
//! return memory to the thread that drops it, most recently used first, because the cost of a byte depends on whether
//! it is in the cache.
//!
//! Begin with [`Buffer`], the unit in which traffic is held. Long-lived objects refer to each other through a [`Slab`]:
//! by keys that carry a generation, so that a stale key finds nothing instead of another object. The scheduler is built
//! on [`Arena`] and [`TimerQueue`]; [`PooledFuture`] and [`PoolBox`] are boxes with memory recycled by size class.
//! [`RcRef`] is a reference to a part of an object that its thread shares.
//!
//! This crate must not know the meaning of the bytes, the time or the thread that it runs on.

mod arena;
mod buffer;
mod local_arc;
mod pools;
mod rc_ref;
mod recycle;
mod slab;
mod timers;

pub use arena::Arena;
pub use buffer::{Allowance, Buffer, BufferExhausted, BufferPool, BufferPoolStatistics};
pub use local_arc::LocalArc;
pub use pools::{POOLS, PoolCounters, pool_counters};
pub use rc_ref::RcRef;
pub use recycle::{
    PoolBox, PooledFuture, RecycleStatistics, keep_recycled, recycle_statistics, trim_recycled,
};
pub use slab::{Slab, SlabKey};
pub use timers::TimerQueue;
