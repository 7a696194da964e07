//! Splicing: bytes move from one connection's socket to the other's through a pipe, inside the kernel.

use weir_containers::LocalArc;
use weir_net::{Connection, Fault, Received, Sent};
use weir_sys::Errno;
use weir_sys::splice::Pipe;

use crate::body::{BodyFlow, Flow, Framing, Side};
use crate::connector::StreamConnector;
use crate::pipes::Pipes;
use crate::way::Tail;

/// Moves a body through a pipe, once much of it came through the source's buffer.
#[derive(Debug)]
pub(crate) struct Spliced {
    pipes: LocalArc<Pipes>,
    way: Way,
    /// Bytes that passed the pipe.
    bytes: u64,
}

#[derive(Debug)]
enum Way {
    /// Through the buffer, until a pipe pays.
    Buffer,
    Pipe(Pipe),
    /// Through the buffer to the end: the rest is short, or the process may not have another pipe.
    NoPipe,
}

impl Spliced {
    /// A body that uses one of these pipes as soon as it pays.
    pub(crate) fn new(pipes: LocalArc<Pipes>) -> Self {
        Spliced { pipes, way: Way::Buffer, bytes: 0 }
    }

    /// Bytes that passed the pipe.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many of them are still in it.
    pub(crate) fn held(&self) -> usize {
        match &self.way {
            Way::Pipe(pipe) => pipe.held(),
            Way::Buffer | Way::NoPipe => 0,
        }
    }

    /// Moves as many bytes as possible without waiting.
    #[cold]
    pub(crate) fn advance(
        &mut self,
        flow: &mut BodyFlow,
        source: &mut StreamConnector,
        sink: &mut StreamConnector,
    ) -> Flow {
        if let Way::Pipe(pipe) = &mut self.way {
            // A connector never becomes one of another kind.
            let (Some(source), Some(sink)) = (source.connection_mut(), sink.connection_mut()) else {
                return Flow::Failed(Side::Sink, Fault::Io(Errno::PIPE));
            };
            let before = flow.payload();
            let moved = advance(pipe, flow, source, sink);
            self.bytes += flow.payload() - before;
            if moved == Flow::Done {
                self.release();
            }
            return moved;
        }
        if matches!(self.way, Way::Buffer) && flow.payload() >= SEEN && source.is_plain() && sink.is_plain() {
            if let Some(stop) = empty(flow, source, sink) {
                return stop;
            }
            self.way = match flow.is_worth_a_pipe() {
                true => self.pipes.take().map_or(Way::NoPipe, Way::Pipe),
                false => Way::NoPipe,
            };
            return self.advance(flow, source, sink);
        }
        flow.advance(source, sink)
    }

    /// Gives the pipe back.
    fn release(&mut self) {
        if let Way::Pipe(pipe) = std::mem::replace(&mut self.way, Way::NoPipe) {
            self.pipes.give(pipe);
        }
    }
}

/// Sends the bytes in the source's buffer without receiving; returns why the flow stops, if it does.
fn empty(flow: &mut BodyFlow, source: &mut StreamConnector, sink: &mut StreamConnector) -> Option<Flow> {
    if !flow.inspect(source) {
        return Some(Flow::Malformed);
    }
    let ready = flow.ready();
    let sent = match sink.send_body(&mut flow.ready.way, &source.input()[..ready], Tail::default()) {
        Sent::All => {
            source.consume(ready);
            flow.ready.left(ready);
            sink.flush(false)
        }
        Sent::Part(count) => {
            source.consume(count);
            flow.ready.left(count);
            return Some(Flow::AwaitSink);
        }
        failed @ Sent::Failed(_) => failed,
    };
    match sent {
        Sent::All => None,
        Sent::Part(_) => Some(Flow::AwaitSink),
        Sent::Failed(fault) => Some(Flow::Failed(Side::Sink, fault)),
    }
}

/// Moves as many bytes through a pipe as possible without waiting.
fn advance(pipe: &mut Pipe, flow: &mut BodyFlow, source: &mut Connection, sink: &mut Connection) -> Flow {
    let mut moved = 0;
    for _ in 0..ROUNDS {
        if moved >= IN_A_TURN {
            break;
        }
        let received = match flow.is_complete() {
            true => Received::Nothing,
            false => source.splice_into(pipe, usize::try_from(flow.framing.awaited()).unwrap_or(usize::MAX)),
        };
        match received {
            Received::Bytes(count) => {
                flow.passed_by(count);
                moved += count;
            }
            Received::End if flow.ends_with_source() => flow.framing = Framing::Done,
            _ => {}
        }
        match sink.splice_from(pipe) {
            Sent::All => {}
            Sent::Part(_) => return Flow::AwaitSink,
            Sent::Failed(fault) => return Flow::Failed(Side::Sink, fault),
        }
        if flow.is_complete() {
            return Flow::Done;
        }
        match received {
            Received::Bytes(_) | Received::Full => {}
            Received::Nothing => return Flow::AwaitSource,
            Received::End => return Flow::Truncated,
            Received::Failed(fault) => return Flow::Failed(Side::Source, fault),
        }
    }
    Flow::Yield
}

impl Drop for Spliced {
    fn drop(&mut self) {
        self.release();
    }
}

/// How much of a body passes through the buffer before a pipe is used: many bodies end early, even with a large length.
const SEEN: u64 = 16 * 1024;
/// How many bytes one call moves before other tasks run, or a pipe more: it takes about as long as what
/// [`BodyFlow`](crate::BodyFlow) moves in a turn.
const IN_A_TURN: usize = 512 * 1024;
/// How often one call looks for more bytes at most, where few come at a time.
const ROUNDS: usize = 32;
