//! Single-threaded containers: buffers, slabs, timers, recycled boxes.
//!
//! Nothing in this crate is shared between threads, takes a lock or makes a system call. Pools are per thread. Memory
//! goes to the pool of the thread that drops it, and is reused last in, first out, because it is still in the CPU
//! cache.
//!
//! Begin with [`Buffer`], the unit of buffered traffic. Long-lived objects refer to each other by keys of a [`Slab`]. A
//! key contains a generation, so that a stale key never finds another object. The scheduler is built on [`Arena`] and
//! [`TimerQueue`]. [`PooledFuture`] and [`PoolBox`] are boxes with memory recycled by size class. [`RcRef`] is a
//! reference to a part of an object in an `Rc`.
//!
//! This crate must not know the meaning of the bytes, the time or the current thread.

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
