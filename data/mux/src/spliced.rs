//! Splicing: bytes move from one connection's socket to the other's through a pipe, inside the kernel.

use weir_containers::LocalArc;
use weir_net::{Connection, ConnectionFault, ReceiveOutcome, SendOutcome};
use weir_sys::Errno;
use weir_sys::splice::Pipe;

use crate::body::{BodyFlow, BodyRemainder, FlowSide, FlowState};
use crate::connector::StreamConnector;
use crate::pipes::Pipes;
use crate::way::Tail;

/// Splices a body through a pipe, after its first [`SEEN`] bytes came through the source's buffer.
#[derive(Debug)]
pub(crate) struct SplicedBody {
    pipes: LocalArc<Pipes>,
    way: SpliceWay,
    /// Bytes that passed the pipe.
    bytes: u64,
}

#[derive(Debug)]
enum SpliceWay {
    /// Through the buffer, until a pipe is worth its cost.
    Buffer,
    Pipe(Pipe),
    /// Through the buffer to the end, because the rest is short or the limit of pipes is reached.
    NoPipe,
}

impl SplicedBody {
    /// A body that uses one of these pipes once that costs less than a buffer.
    pub(crate) fn new(pipes: LocalArc<Pipes>) -> Self {
        SplicedBody { pipes, way: SpliceWay::Buffer, bytes: 0 }
    }

    /// Bytes that passed the pipe.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are still in the pipe.
    pub(crate) fn held(&self) -> usize {
        match &self.way {
            SpliceWay::Pipe(pipe) => pipe.held(),
            SpliceWay::Buffer | SpliceWay::NoPipe => 0,
        }
    }

    /// Forwards as many bytes as possible without blocking.
    #[cold]
    pub(crate) fn advance(
        &mut self,
        flow: &mut BodyFlow,
        source: &mut StreamConnector,
        sink: &mut StreamConnector,
    ) -> FlowState {
        if let SpliceWay::Pipe(pipe) = &mut self.way {
            // The kind of a connector never changes.
            let (Some(source), Some(sink)) = (source.connection_mut(), sink.connection_mut()) else {
                return FlowState::Failed(FlowSide::Sink, ConnectionFault::Io(Errno::PIPE));
            };
            let before = flow.payload();
            let moved = advance(pipe, flow, source, sink);
            self.bytes += flow.payload() - before;
            if moved == FlowState::Done {
                self.release();
            }
            return moved;
        }
        if matches!(self.way, SpliceWay::Buffer)
            && flow.payload() >= SEEN
            && source.is_plain()
            && sink.is_plain()
        {
            if let Some(stop) = empty(flow, source, sink) {
                return stop;
            }
            self.way = match flow.is_worth_a_pipe() {
                true => self.pipes.take().map_or(SpliceWay::NoPipe, SpliceWay::Pipe),
                false => SpliceWay::NoPipe,
            };
            return self.advance(flow, source, sink);
        }
        flow.advance(source, sink)
    }

    /// Gives the pipe back.
    fn release(&mut self) {
        if let SpliceWay::Pipe(pipe) = std::mem::replace(&mut self.way, SpliceWay::NoPipe) {
            self.pipes.give(pipe);
        }
    }
}

/// Sends the bytes in the source's buffer without receiving. Returns the reason if the flow stops.
fn empty(flow: &mut BodyFlow, source: &mut StreamConnector, sink: &mut StreamConnector) -> Option<FlowState> {
    if !flow.inspect(source) {
        return Some(FlowState::Malformed);
    }
    let ready = flow.ready();
    let sent = match sink.send_body(&mut flow.ready.way, &source.input()[..ready], Tail::default()) {
        SendOutcome::All => {
            source.consume(ready);
            flow.ready.left(ready);
            sink.flush(false)
        }
        SendOutcome::Part(count) => {
            source.consume(count);
            flow.ready.left(count);
            return Some(FlowState::AwaitSink);
        }
        failed @ SendOutcome::Failed(_) => failed,
    };
    match sent {
        SendOutcome::All => None,
        SendOutcome::Part(_) => Some(FlowState::AwaitSink),
        SendOutcome::Failed(fault) => Some(FlowState::Failed(FlowSide::Sink, fault)),
    }
}

/// Splices as many bytes through a pipe as possible without blocking.
fn advance(
    pipe: &mut Pipe,
    flow: &mut BodyFlow,
    source: &mut Connection,
    sink: &mut Connection,
) -> FlowState {
    let mut moved = 0;
    for _ in 0..ROUNDS {
        if moved >= IN_A_TURN {
            break;
        }
        let received = match flow.is_complete() {
            true => ReceiveOutcome::Nothing,
            false => source.splice_into(pipe, usize::try_from(flow.framing.awaited()).unwrap_or(usize::MAX)),
        };
        match received {
            ReceiveOutcome::Bytes(count) => {
                flow.passed_by(count);
                moved += count;
            }
            ReceiveOutcome::End if flow.ends_with_source() => flow.framing = BodyRemainder::Done,
            _ => {}
        }
        match sink.splice_from(pipe) {
            SendOutcome::All => {}
            SendOutcome::Part(_) => return FlowState::AwaitSink,
            SendOutcome::Failed(fault) => return FlowState::Failed(FlowSide::Sink, fault),
        }
        if flow.is_complete() {
            return FlowState::Done;
        }
        match received {
            ReceiveOutcome::Bytes(_) | ReceiveOutcome::Full => {}
            ReceiveOutcome::Nothing => return FlowState::AwaitSource,
            ReceiveOutcome::End => return FlowState::Truncated,
            ReceiveOutcome::Failed(fault) => return FlowState::Failed(FlowSide::Source, fault),
        }
    }
    FlowState::Yield
}

impl Drop for SplicedBody {
    fn drop(&mut self) {
        self.release();
    }
}

/// Bytes of a body that pass through the buffer before a pipe is used. Many bodies end early, even with a large length.
const SEEN: u64 = 16 * 1024;
/// Bytes that one call moves before other tasks run, exceeded by at most a pipe. Takes about as long as one call of
/// [`BodyFlow`](crate::BodyFlow).
const IN_A_TURN: usize = 512 * 1024;
/// Maximum receives in one call, if few bytes arrive at a time.
const ROUNDS: usize = 32;
