//! The pipes of the process: their limit, and the idle pipes of each worker.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_sys::splice::Pipe;

/// Opens pipes up to the limit of the process. A body without a pipe passes through a buffer.
#[derive(Debug)]
pub struct Pipes {
    /// Capacity of a pipe in bytes. 0 for [`PIPE_SIZE`].
    size: usize,
    /// Maximum number of pipes (`maxpipes`).
    most: usize,
    /// Number of open pipes, including idle ones.
    open: AtomicUsize,
    /// Number of idle pipes.
    kept: AtomicUsize,
}

impl Pipes {
    /// At most this number of pipes, of this size (0 for [`PIPE_SIZE`]).
    pub const fn new(size: usize, most: usize) -> Pipes {
        Pipes { size, most, open: AtomicUsize::new(0), kept: AtomicUsize::new(0) }
    }

    /// Number of pipes in use.
    pub fn used(&self) -> usize {
        self.open.load(Relaxed).saturating_sub(self.free())
    }

    /// Number of idle pipes.
    pub fn free(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// An idle pipe of this worker, or a new one. `None` at the limit, or if descriptors are exhausted.
    pub(crate) fn take(&self) -> Option<Pipe> {
        if let Some(pipe) = KEPT.with_borrow_mut(|kept| kept.pop()) {
            self.kept.fetch_sub(1, Relaxed);
            return Some(pipe);
        }
        if self.open.fetch_add(1, Relaxed) < self.most
            && let Ok(pipe) = Pipe::new(if self.size == 0 { PIPE_SIZE } else { self.size })
        {
            return Some(pipe);
        }
        self.open.fetch_sub(1, Relaxed);
        None
    }

    /// Gives a pipe back. One that still holds bytes is closed, because its next user would send them.
    pub(crate) fn give(&self, pipe: Pipe) {
        if pipe.held() == 0 {
            let back = KEPT.with_borrow_mut(|kept| match kept.len() < KEPT_PIPES {
                true => {
                    kept.push(pipe);
                    None
                }
                false => Some(pipe),
            });
            if back.is_none() {
                self.kept.fetch_add(1, Relaxed);
                return;
            }
        }
        self.open.fetch_sub(1, Relaxed);
    }
}

/// 256 kB: at this size splicing 1 MB was seen to cost 214 us where copying costs 238.
pub const PIPE_SIZE: usize = 256 * 1024;
/// Maximum number of idle pipes per worker.
const KEPT_PIPES: usize = 64;

thread_local! {
    static KEPT: RefCell<ManuallyDrop<Vec<Pipe>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_number_of_open_pipes() {
        let pipes = Pipes::new(4096, 2);
        let (one, other) = (pipes.take().expect("the first"), pipes.take().expect("the second"));
        assert!(pipes.take().is_none() && pipes.take().is_none());
        assert_eq!((pipes.used(), pipes.free()), (2, 0));
        pipes.give(one);
        assert_eq!((pipes.used(), pipes.free()), (1, 1));
        let again = pipes.take().expect("the one that was kept");
        assert!(pipes.take().is_none());
        pipes.give(again);
        pipes.give(other);
        assert_eq!((pipes.used(), pipes.free()), (0, 2));
    }

    #[test]
    fn a_pipe_with_bytes_is_never_reused() {
        let pipes = Pipes::new(4096, 1);
        let mut pipe = pipes.take().expect("the first");
        pipe.fill_with(b"of somebody else").expect("room");
        pipes.give(pipe);
        assert_eq!((pipes.used(), pipes.free()), (0, 0));
        assert_eq!(pipes.take().map(|pipe| pipe.held()), Some(0));
    }
}
