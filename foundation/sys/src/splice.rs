//! Moving bytes between sockets inside the kernel (splice).

use crate::Result;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::os::fd::{AsFd, OwnedFd};

/// A pipe for splicing.
#[derive(Debug)]
pub struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    capacity: usize,
    held: usize,
}

impl Pipe {
    /// A pipe of about `capacity` bytes. The kernel may grant less (see [`Pipe::capacity`]).
    pub fn new(capacity: usize) -> Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let granted = rustix::pipe::fcntl_setpipe_size(&write, capacity)
            .or_else(|_| rustix::pipe::fcntl_getpipe_size(&write))?;
        Ok(Self { read, write, capacity: granted, held: 0 })
    }

    /// Maximum number of bytes in the pipe.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of bytes in the pipe.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Moves at most `limit` bytes from `socket` into the pipe. 0 means EOF.
    pub fn fill_from(&mut self, socket: impl AsFd, limit: usize) -> Result<usize> {
        let moved = rustix::pipe::splice(socket, None, &self.write, None, limit, FLAGS)?;
        self.held += moved;
        Ok(moved)
    }

    /// Moves as much of the pipe's content to `socket` as it accepts. With `more`, the kernel may delay a partial packet.
    pub fn drain_to(&mut self, socket: impl AsFd, more: bool) -> Result<usize> {
        let flags = if more { FLAGS | SpliceFlags::MORE } else { FLAGS };
        let moved = rustix::pipe::splice(&self.read, None, socket, None, self.held, flags)?;
        self.held -= moved.min(self.held);
        Ok(moved)
    }

    /// Writes as many bytes into the pipe as fit. [`crate::Errno::AGAIN`] if the pipe is full.
    pub fn fill_with(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = rustix::io::write(&self.write, bytes)?;
        self.held += written;
        Ok(written)
    }

    /// Reads bytes from the pipe.
    pub fn take(&mut self, space: &mut [u8]) -> Result<usize> {
        let taken = rustix::io::read(&self.read, space)?;
        self.held -= taken.min(self.held);
        Ok(taken)
    }
}

const FLAGS: SpliceFlags = SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Errno, socket};

    #[test]
    fn splices_bytes_between_sockets() {
        let (near, in_far) = socket::stream_pair().expect("a pair");
        let (out_far, far) = socket::stream_pair().expect("a pair");
        let mut pipe = Pipe::new(65_536).expect("a pipe");
        assert!(pipe.capacity() >= 4096);
        assert_eq!(pipe.fill_from(&in_far, 100), Err(Errno::AGAIN));
        socket::send(&near, b"through", false).expect("room");
        assert_eq!((pipe.fill_from(&in_far, 100), pipe.held()), (Ok(7), 7));
        assert_eq!((pipe.drain_to(&out_far, false), pipe.held()), (Ok(7), 0));
        let mut space = [0; 16];
        assert_eq!(socket::receive(&far, &mut space), Ok(7));
        drop(near);
        assert_eq!(pipe.fill_from(&in_far, 100), Ok(0));
    }

    #[test]
    fn bytes_are_written_to_and_read_from_a_pipe() {
        let mut pipe = Pipe::new(4096).expect("a pipe");
        assert_eq!((pipe.fill_with(b"through"), pipe.held()), (Ok(7), 7));
        let mut space = [0; 4];
        assert_eq!((pipe.take(&mut space), &space, pipe.held()), (Ok(4), b"thro", 3));
        let much = [0; 512];
        while pipe.fill_with(&much).is_ok() {}
        assert_eq!(pipe.fill_with(&much), Err(Errno::AGAIN));
        assert!(pipe.held() >= pipe.capacity() / 2);
    }
}
