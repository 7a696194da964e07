//! Bytes both ways until both sides are done: TCP mode, and HTTP connections that became tunnels.

use weir_mux::{BodyFlow, Flow, Side, Spliced, Step as Told, StreamConnector, Transfer};

use crate::counters::Event;
use crate::deadlines::{Deadlines, Waits, While};
use crate::drive::Step;
use crate::ending::{By, During, Ending};
use crate::errors::Direction;
use crate::instance::Proxy;
use crate::stream::{Phase, Stream, StreamError};
use crate::trace::body::{Layer, OF_H1, OF_PT};

impl Stream {
    /// Relays until both directions have ended. The end of one direction is forwarded as a half-close.
    pub(crate) async fn relay(&mut self) -> Phase {
        self.enter(During::Data);
        let during = match self.backend.config.settings.options.independent_streams {
            true => While::IndependentTunnel,
            false => While::Tunnel,
        };
        let mut pipes = Pipes::new(self);
        self.drive(
            during,
            |stream, deadlines| stream.relay_both(&mut pipes, deadlines),
            |stream, by, _| {
                let client = by == By::ClientTimeout;
                stream.count(if client { Event::ClientAbort } else { Event::ServerAbort });
                Err(StreamError::close(by, During::Data))
            },
        )
        .await
    }

    /// Moves what can be moved now.
    fn relay_both(&mut self, pipes: &mut Pipes, deadlines: &mut Deadlines) -> Phase<Step<()>> {
        let Some(upstream) = &mut self.server.upstream else {
            return Err(StreamError::close(By::Internal, During::Data));
        };
        let up = pipes.up.advance(&mut self.request.body, &mut self.client, &mut upstream.connector);
        let down = pipes.down.advance(&mut self.response.body, &mut upstream.connector, &mut self.client);
        if pipes.layer.source.is_active() {
            self.emit_relayed(pipes);
        }
        if (up.is_over() || down.is_over()) && self.way_ended(up, down, deadlines)? {
            return Ok(Step::Done(()));
        }
        Ok(Step::Wait(Waits {
            client_sends: matches!(up, Flow::AwaitSource),
            client_takes: matches!(down, Flow::AwaitSink),
            server_sends: matches!(down, Flow::AwaitSource),
            server_takes: matches!(up, Flow::AwaitSink),
            withheld: matches!(up, Flow::Withheld) || matches!(down, Flow::Withheld),
            yields: matches!(up, Flow::Yield) || matches!(down, Flow::Yield),
        }))
    }

    /// Handles the end of a direction, now or before: whether both are done.
    #[cold]
    fn way_ended(&mut self, up: Flow, down: Flow, deadlines: &mut Deadlines) -> Phase<bool> {
        if let Some(ending) = self.direction_failed(up, down) {
            return Err(StreamError::Close(ending));
        }
        // The connection is closed next, which includes the end of sending.
        if up == Flow::Done && down == Flow::Done {
            return Ok(true);
        }
        self.pass_on_endings(up, down, deadlines);
        Ok(false)
    }

    /// Traces what passed since the last call.
    #[cold]
    fn emit_relayed(&mut self, pipes: &mut Pipes) {
        let (up, by) = pipes.up.step(&mut self.request.body);
        self.emit_step(pipes.layer, Direction::Request, &up, by);
        let (down, by) = pipes.down.step(&mut self.response.body);
        self.emit_step(pipes.layer, Direction::Response, &down, by);
    }

    /// Starts both directions of a connection in TCP mode, with the bytes received so far.
    pub(crate) fn begin_relay(&mut self) {
        self.request.body.begin(BodyFlow::tunnel());
        self.response.body.begin(BodyFlow::tunnel());
    }

    /// Forwards the client's bytes while the response is inspected, because a server only answers what it got. True
    /// if more could be moved at once, but other tasks run first.
    pub(crate) fn relay_upwards(&mut self) -> Phase<bool> {
        let Some(upstream) = &mut self.server.upstream else { return Ok(false) };
        let up = self.request.body.advance(&mut self.client, &mut upstream.connector);
        if up == Flow::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
        }
        match self.direction_failed(up, Flow::AwaitSource) {
            Some(ending) => Err(StreamError::Close(ending)),
            None => Ok(up == Flow::Yield),
        }
    }

    /// The ending when one side broke.
    fn direction_failed(&mut self, up: Flow, down: Flow) -> Option<Ending> {
        let broken = |flow: Flow, client: Side| match flow {
            Flow::Failed(side, _) if side == client => Some(By::Client),
            Flow::Failed(..) => Some(By::Server),
            _ => None,
        };
        let by = broken(down, Side::Sink).or(broken(up, Side::Source))?;
        if by == By::Client {
            self.count(Event::ClientAbort);
        } else {
            self.count(Event::FailedResponse);
            self.count(Event::ServerAbort);
        }
        Some(Ending::new(by, During::Data))
    }

    fn pass_on_endings(&mut self, up: Flow, down: Flow, deadlines: &mut Deadlines) {
        let Some(upstream) = &mut self.server.upstream else { return };
        if up == Flow::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
            deadlines.half_closed(&self.timeouts, weir_sched::now());
        }
        if down == Flow::Done && !self.client.shut() {
            self.client.shut_write();
            deadlines.half_closed(&self.timeouts, weir_sched::now());
        }
    }
}

/// The pipes of the directions that may be spliced (`option splice-*`).
struct Pipes {
    up: Way,
    down: Way,
    /// The trace layer.
    layer: &'static Layer,
    frontend: &'static Proxy,
    backend: &'static Proxy,
}

impl Pipes {
    fn new(stream: &Stream) -> Self {
        let of = |proxy: &Proxy| proxy.config.settings.options.splice;
        let (frontend, backend) = (of(stream.frontend), of(stream.backend));
        let auto = frontend.auto || backend.auto;
        let size = stream.instance.limits.pipe_size;
        Pipes {
            up: Way::new(frontend.request || backend.request, auto, size),
            down: Way::new(frontend.response || backend.response, auto, size),
            layer: if stream.response.is_tunnel { &OF_H1 } else { &OF_PT },
            frontend: stream.frontend,
            backend: stream.backend,
        }
    }
}

/// One direction: through a buffer, or through a pipe.
struct Way {
    allowed: bool,
    size: usize,
    spliced: Option<Spliced>,
}

impl Way {
    fn new(always: bool, auto: bool, size: usize) -> Self {
        Way { allowed: always || auto, size, spliced: None }
    }

    fn advance(
        &mut self,
        buffered: &mut Transfer,
        source: &mut StreamConnector,
        sink: &mut StreamConnector,
    ) -> Flow {
        if let Some(spliced) = &mut self.spliced {
            return spliced.advance(source, sink);
        }
        let flow = buffered.advance(source, sink);
        // The direction carried much, and its buffer is empty: switch to the pipe.
        if self.allowed
            && matches!(flow, Flow::Yield | Flow::AwaitSource)
            && buffered.payload() >= WORTHWHILE
            && !buffered.is_filtered()
            && buffered.ready() == 0
            && source.input().is_empty()
            && !sink.has_pending()
            && source.is_plain()
            && sink.is_plain()
        {
            match Spliced::new(self.size) {
                Ok(spliced) => self.spliced = Some(spliced),
                Err(_) => self.allowed = false,
            }
        }
        flow
    }

    /// What moved since the last call, and how.
    fn step(&mut self, buffered: &mut Transfer) -> (Told, &'static str) {
        let before = buffered.step();
        match &mut self.spliced {
            // Bytes that passed through the buffer before the pipe are traced first.
            Some(spliced) if before.received == 0 && before.sent == 0 => {
                let mut step = spliced.step();
                step.now.received += before.now.received;
                step.now.sent += before.now.sent;
                (step, " how=pipe")
            }
            _ => (before, ""),
        }
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        let [up, down] = [&self.up, &self.down].map(|way| way.spliced.as_ref().map_or(0, |way| way.bytes));
        if up + down > 0 {
            self.frontend.count_spliced(self.backend, up, down);
        }
    }
}

/// A pipe pays off for a direction that carried this many bytes.
const WORTHWHILE: u64 = 16 * 1024;
