//! Counters of a thread's pools, for reports to operators.

use crate::buffer::BufferPool;
use crate::recycle;

/// Counters of one pool of the current thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolCounters {
    /// Name, at most 11 characters.
    pub name: &'static str,
    /// Size of an object in bytes.
    pub size: usize,
    /// Number of objects, in use or free.
    pub allocated: u64,
    /// Number of objects in use.
    pub used: u64,
    /// Number of failed requests.
    pub failures: u64,
}

/// All pools of the current thread, always in the same order.
pub fn pool_counters() -> [PoolCounters; POOLS] {
    let (buffers, blocks) = (BufferPool::counters(), recycle::counters());
    std::array::from_fn(|at| if at < buffers.len() { buffers[at] } else { blocks[at - buffers.len()] })
}

/// The number of pools: three of buffers, and one for each size class of blocks.
pub const POOLS: usize = 3 + recycle::CLASS_COUNT;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, PoolBox, trim_recycled};

    fn pool(name: &str) -> (u64, u64) {
        let pools = pool_counters();
        let found = pools.iter().find(|pool| pool.name == name).expect("there is one");
        (found.allocated, found.used)
    }

    /// Runs on a separate thread, because other tests use this thread's pools, too.
    #[test]
    fn each_pool_reports_lent_and_free_objects() {
        std::thread::spawn(|| {
            assert!(pool_counters().iter().all(|pool| pool.allocated == 0 && pool.name.len() <= 11));
            BufferPool::configure(1024, 2, 8);
            BufferPool::set_aside(1);
            let held = (
                Buffer::take(),
                Buffer::take(),
                Buffer::take_bulk(),
                PoolBox::new([0_u8; 500]),
                PoolBox::new([0_u8; 300]),
            );
            assert_eq!([pool("buffer"), pool("buffer_bulk")], [(3, 2), (0, 0)], "the limit is for both");
            assert_eq!(pool_counters()[0].failures, 0);
            assert!(Buffer::take().is_err());
            assert_eq!((pool_counters()[0].failures, pool_counters()[0].size), (1, 1024));
            assert_eq!([pool("block_512"), pool("block_320"), pool("block_384")], [(1, 1), (1, 1), (0, 0)]);
            drop(held);
            assert_eq!([pool("buffer"), pool("block_512")], [(3, 0), (1, 0)]);
            let bulk = Buffer::take_bulk();
            assert_eq!([pool("buffer"), pool("buffer_bulk")], [(3, 0), (1, 1)]);
            drop(bulk);
            let mut waiting = Buffer::take().expect("one of two");
            waiting.append(b"GET /");
            waiting.shrink();
            let (bytes, used) = pool("buffer_fit");
            assert!((5..100).contains(&bytes) && used == bytes && pool("buffer").1 == 0, "{bytes} bytes");
            drop(waiting);
            assert_eq!(pool("buffer_fit"), (0, 0));
            // A block of the pool's size allocated outside joins the pool.
            let made = Buffer::with_capacity(1024);
            assert_eq!([pool("buffer").1, pool("buffer_fit").1], [1, 0]);
            drop(made);
            assert_eq!(pool("buffer").1, 0);
            trim_recycled();
            BufferPool::trim();
            assert_eq!([pool("buffer"), pool("buffer_bulk"), pool("block_512")], [(1, 0), (0, 0), (0, 0)]);
        })
        .join()
        .expect("it ends well");
    }
}
