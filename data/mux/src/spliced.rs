//! Splicing: bytes move from one connection's socket to the other's through a pipe, inside the kernel.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use weir_net::{Received, Sent};
use weir_sys::Errno;
use weir_sys::splice::Pipe;

use crate::body::{Flow, Side};
use crate::connector::StreamConnector;
use crate::progress::{Progress, Step};

/// Moves one direction of a connection through a pipe, until the source ends.
#[derive(Debug)]
pub struct Spliced {
    pipe: Option<Pipe>,
    /// Bytes moved.
    pub bytes: u64,
    /// The source ended.
    ended: bool,
    /// The totals that traces have shown.
    told: Progress,
}

impl Spliced {
    /// A flow through a pipe of this capacity (0 for [`PIPE_SIZE`]).
    ///
    /// # Errors
    /// When the process may not have another pipe: then the caller copies the bytes.
    pub fn new(capacity: usize) -> Result<Self, Errno> {
        let kept = PIPES.with_borrow_mut(|pipes| pipes.pop());
        let pipe = match kept {
            Some(pipe) => pipe,
            None => Pipe::new(if capacity == 0 { PIPE_SIZE } else { capacity })?,
        };
        Ok(Spliced { pipe: Some(pipe), bytes: 0, ended: false, told: Progress::default() })
    }

    /// The progress. Bytes in the pipe were received and not sent.
    pub fn progress(&self) -> Progress {
        let held = self.pipe.as_ref().map_or(0, Pipe::held) as u64;
        Progress {
            received: self.bytes,
            sent: self.bytes.saturating_sub(held),
            complete: self.ended,
            done: self.ended && held == 0,
            ..Progress::default()
        }
    }

    /// The changes since the last call, for traces.
    pub fn step(&mut self) -> Step {
        let now = self.progress();
        Step::between(&mut self.told, now)
    }

    /// Moves what can be moved now. The source must hold no received bytes, and the sink no pending ones.
    pub fn advance(&mut self, source: &mut StreamConnector, sink: &mut StreamConnector) -> Flow {
        // Splicing needs two sockets.
        let (Some(source), Some(sink)) = (source.connection_mut(), sink.connection_mut()) else {
            return Flow::Done;
        };
        let Some(pipe) = &mut self.pipe else { return Flow::Done };
        let mut moved = 0;
        for _ in 0..ROUNDS {
            if moved >= IN_A_TURN {
                break;
            }
            let received = source.splice_into(pipe);
            if let Received::Bytes(count) = received {
                self.bytes += count as u64;
                moved += count;
            }
            self.ended |= received == Received::End;
            match sink.splice_from(pipe) {
                Sent::All => {}
                Sent::Part(_) => return Flow::AwaitSink,
                Sent::Failed(fault) => return Flow::Failed(Side::Sink, fault),
            }
            match received {
                Received::Bytes(_) | Received::Full => {}
                Received::Nothing => return Flow::AwaitSource,
                Received::End => return Flow::Done,
                Received::Failed(fault) => return Flow::Failed(Side::Source, fault),
            }
        }
        Flow::Yield
    }
}

impl Drop for Spliced {
    fn drop(&mut self) {
        // A pipe that still holds bytes would give them to its next user.
        let Some(pipe) = self.pipe.take().filter(|pipe| pipe.held() == 0) else { return };
        PIPES.with_borrow_mut(|pipes| {
            if pipes.len() < KEPT_PIPES {
                pipes.push(pipe);
            }
        });
    }
}

/// 256 kB: at this size splicing 1 MB was seen to cost 214 us where copying costs 238.
pub const PIPE_SIZE: usize = 256 * 1024;
/// How many bytes one call moves before other tasks run, or a pipe more: it takes about as long as what
/// [`BodyFlow`](crate::BodyFlow) moves in a turn.
const IN_A_TURN: usize = 512 * 1024;
/// How often one call looks for more bytes at most, where few come at a time.
const ROUNDS: usize = 32;
/// How many unused pipes a worker keeps.
const KEPT_PIPES: usize = 64;

thread_local! {
    static PIPES: RefCell<ManuallyDrop<Vec<Pipe>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}
