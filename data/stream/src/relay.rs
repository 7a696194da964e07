//! Bytes both ways until both sides are done: TCP mode, and HTTP connections that became tunnels.

use std::time::Duration;

use weir_mux::{BodyFlow, Flow, Side, Spliced, Step, StreamConnector};
use weir_sched::{Tick, yield_now};

use crate::clock;
use crate::counters::Event;
use crate::ending::{By, During, Ending};
use crate::errors::Direction;
use crate::exchange::{Exchange, Phase, Stop};
use crate::site::Proxy;
use crate::trace::body::{Layer, OF_H1, OF_PT};

impl Exchange {
    /// Relays until both directions ended. A direction that ends is passed on as a half-close.
    pub(crate) async fn relay(&mut self) -> Phase {
        self.enter(During::Data);
        let mut deadlines = Deadlines::new(self);
        let mut pipes = Pipes::new(self);
        let mut last = self.progress();
        loop {
            let Some(upstream) = &mut self.server else {
                return Err(Stop::close(By::Internal, During::Data));
            };
            let up = pipes.up.advance(&mut self.request_body, &mut self.client, &mut upstream.connector);
            let down = pipes.down.advance(&mut self.response_body, &mut upstream.connector, &mut self.client);
            if pipes.layer.source.is_active() {
                self.tell_relayed(&mut pipes);
            }
            if let Some(ending) = self.direction_failed(up, down) {
                return Err(Stop::Close(ending));
            }
            // Closing, which follows, says that we send no more.
            if up == Flow::Done && down == Flow::Done {
                return Ok(());
            }
            self.pass_on_endings(up, down, &mut deadlines);
            self.check_alive()?;
            let now = self.progress();
            if now != last {
                deadlines.refresh(self, now, last);
                last = now;
                self.count_bytes_if_continuous();
            }
            if let Some(by) = deadlines.passed(up, down) {
                self.count(if by == By::ClientTimeout { Event::ClientAbort } else { Event::ServerAbort });
                return Err(Stop::close(by, During::Data));
            }
            if up == Flow::Yield || down == Flow::Yield {
                yield_now().await;
            } else {
                self.wait_for_peers(deadlines.next()).await;
            }
        }
    }

    /// What passed since it was told last.
    #[cold]
    fn tell_relayed(&mut self, pipes: &mut Pipes) {
        let (up, by) = pipes.up.step(&mut self.request_body);
        self.tell_step(pipes.layer, Direction::Request, &up, by);
        let (down, by) = pipes.down.step(&mut self.response_body);
        self.tell_step(pipes.layer, Direction::Response, &down, by);
    }

    /// Starts both directions of a connection in TCP mode, with what was received already.
    pub(crate) fn begin_relay(&mut self) {
        self.request_body = BodyFlow::tunnel();
        self.response_body = BodyFlow::tunnel();
    }

    /// Moves what the client sends while the response is inspected: a server answers only what it got. True if more
    /// could move at once, but others have their turn first.
    pub(crate) fn relay_upwards(&mut self) -> Phase<bool> {
        let Some(upstream) = &mut self.server else { return Ok(false) };
        let up = self.request_body.advance(&mut self.client, &mut upstream.connector);
        if up == Flow::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
        }
        match self.direction_failed(up, Flow::AwaitSource) {
            Some(ending) => Err(Stop::Close(ending)),
            None => Ok(up == Flow::Yield),
        }
    }

    /// What passed so far.
    pub(crate) fn progress(&self) -> Progress {
        let server = self
            .server
            .as_ref()
            .map_or((0, 0), |upstream| (upstream.connector.received(), upstream.connector.sent()));
        Progress {
            from_client: self.client.received(),
            to_client: self.client.sent(),
            from_server: server.0,
            to_server: server.1,
        }
    }

    /// How the relay ends when a side broke.
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
        let Some(upstream) = &mut self.server else { return };
        if up == Flow::Done && !upstream.connector.shut() {
            upstream.connector.shut_write();
            deadlines.half_closed(self.timeouts.client_fin, self.timeouts.server_fin);
        }
        if down == Flow::Done && !self.client.shut() {
            self.client.shut_write();
            deadlines.half_closed(self.timeouts.client_fin, self.timeouts.server_fin);
        }
    }
}

/// The ways through the kernel, for the directions that may take them (`option splice-*`).
struct Pipes {
    up: Way,
    down: Way,
    /// Who tells what passes.
    layer: &'static Layer,
    frontend: &'static Proxy,
    backend: &'static Proxy,
}

impl Pipes {
    fn new(exchange: &Exchange) -> Self {
        let of = |proxy: &Proxy| proxy.config.settings.options.splice;
        let (frontend, backend) = (of(exchange.frontend), of(exchange.backend));
        let auto = frontend.auto || backend.auto;
        let size = exchange.site.limits.pipe_size;
        Pipes {
            up: Way::new(frontend.request || backend.request, auto, size),
            down: Way::new(frontend.response || backend.response, auto, size),
            layer: if exchange.facts.tunnel { &OF_H1 } else { &OF_PT },
            frontend: exchange.frontend,
            backend: exchange.backend,
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
        buffered: &mut BodyFlow,
        source: &mut StreamConnector,
        sink: &mut StreamConnector,
    ) -> Flow {
        if let Some(spliced) = &mut self.spliced {
            return spliced.advance(source, sink);
        }
        let flow = buffered.advance(source, sink);
        // A long run, and nothing left up here: the rest need not come up any more.
        let long = matches!(flow, Flow::Yield | Flow::AwaitSource) && buffered.payload() >= WORTHWHILE;
        if self.allowed && long && buffered.ready() == 0 && source.input().is_empty() && !sink.has_pending() {
            match Spliced::new(self.size) {
                Ok(spliced) => self.spliced = Some(spliced),
                Err(_) => self.allowed = false,
            }
        }
        flow
    }

    /// What moved since this was asked last, and how.
    fn step(&mut self, buffered: &mut BodyFlow) -> (Step, &'static str) {
        let before = buffered.step();
        match &mut self.spliced {
            // What came up here on the way to the pipe is told first.
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

/// A direction that carried this much is worth a pipe.
const WORTHWHILE: u64 = 16 * 1024;

/// Bytes that passed on both connections since they were made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    from_client: u64,
    to_client: u64,
    from_server: u64,
    to_server: u64,
}

impl Progress {
    /// Of the request, at both ends.
    pub(crate) fn request(self) -> (u64, u64) {
        (self.from_client, self.to_server)
    }
}

/// Until when each side may be quiet.
struct Deadlines {
    client_timeout: Option<Duration>,
    server_timeout: Option<Duration>,
    client: Tick,
    server: Tick,
}

impl Deadlines {
    fn new(exchange: &Exchange) -> Self {
        let timeouts = &exchange.timeouts;
        // Once data flows both ways, `timeout tunnel` takes over from both sides' (manual, "timeout tunnel").
        let client_timeout = timeouts.tunnel.or(timeouts.client);
        let server_timeout = timeouts.tunnel.or(timeouts.server);
        Deadlines {
            client_timeout,
            server_timeout,
            client: clock::after_some(client_timeout),
            server: clock::after_some(server_timeout),
        }
    }

    /// Bytes moved. What goes one way refreshes the other way too, unless `option independent-streams`.
    fn refresh(&mut self, exchange: &Exchange, now: Progress, before: Progress) {
        let independent = exchange.backend.config.settings.options.independent_streams;
        let client_active = now.from_client != before.from_client || now.to_client != before.to_client;
        let server_active = now.from_server != before.from_server || now.to_server != before.to_server;
        if client_active && (!independent || now.from_client != before.from_client) {
            self.client = clock::after_some(self.client_timeout);
        }
        if server_active && (!independent || now.from_server != before.from_server) {
            self.server = clock::after_some(self.server_timeout);
        }
    }

    fn half_closed(&mut self, client_fin: Option<Duration>, server_fin: Option<Duration>) {
        if client_fin.is_some() {
            self.client_timeout = client_fin;
            self.client = clock::after_some(client_fin);
        }
        if server_fin.is_some() {
            self.server_timeout = server_fin;
            self.server = clock::after_some(server_fin);
        }
    }

    /// Who was quiet for too long, of those that are waited for.
    fn passed(&self, up: Flow, down: Flow) -> Option<By> {
        if clock::passed(self.client) && (up == Flow::AwaitSource || down == Flow::AwaitSink) {
            return Some(By::ClientTimeout);
        }
        if clock::passed(self.server) && (down == Flow::AwaitSource || up == Flow::AwaitSink) {
            return Some(By::ServerTimeout);
        }
        None
    }

    fn next(&self) -> Tick {
        let now = weir_sched::now();
        [self.client, self.server].into_iter().filter(|tick| *tick > now).min().unwrap_or(Tick::NEVER)
    }
}
