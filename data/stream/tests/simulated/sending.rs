//! Sends the body of an HTTP/2 request, as soon as possible or in datagrams that arrive at irregular times, as from QUIC.

use weir_sched::simulate::network::SimulatedNetwork;
use weir_sched::{Tick, now};

use crate::instance::datagrams::Arrivals;
use crate::pattern::{Pattern, Way};
use crate::plan::{PlannedRequest, Upload};
use crate::stage::Stage;
use crate::wire::Wire;

/// A body, and how much of it was sent.
pub(crate) struct Sending {
    /// Bytes that can be sent now.
    here: Vec<u8>,
    arrivals: Option<Arrivals>,
    /// How the end is sent: with the last byte, or separately after a delay, perhaps with trailers.
    end: End,
    sent: usize,
    /// The request is cancelled after this many bytes.
    given_up_at: Option<usize>,
}

enum End {
    /// With the last byte.
    With,
    /// Not before that time, which is set once the last byte was sent.
    After(Option<Tick>, &'static str),
    Sent,
}

impl Sending {
    /// The body of this request.
    pub(crate) fn of(request: &PlannedRequest, datagrams: bool, stage: &Stage) -> Sending {
        let network = &stage.network;
        let (Upload::Length(length) | Upload::Chunked(length)) = request.upload else {
            return Sending { here: Vec::new(), arrivals: None, end: End::Sent, sent: 0, given_up_at: None };
        };
        if !datagrams {
            let here = Pattern::new(request.id, Way::Up).make(length);
            return Sending { here, arrivals: None, end: End::With, sent: 0, given_up_at: None };
        }
        // An HTTP/1 server may answer once it has the announced length, and a client that has its answer sends nothing
        // more.
        let is_announced = matches!(request.upload, Upload::Length(_));
        let end = match network.random(3) {
            _ if is_announced => End::With,
            0 => End::After(None, "x-sum: 9\r\n"),
            1 => End::After(None, ""),
            _ => End::With,
        };
        let is_given_up = stage.faulty && network.random(6) == 0;
        Sending {
            here: Vec::new(),
            arrivals: Some(Arrivals::new(request.id, Way::Up, length, network.random(5))),
            end,
            sent: 0,
            given_up_at: is_given_up.then(|| network.random(1 + length as u64) as usize),
        }
    }

    /// Sends a piece, if the windows admit it. True if any byte was sent. Each datagram is sent separately.
    pub(crate) fn send(&mut self, stream: u32, wire: &mut Wire<'_>, network: &SimulatedNetwork) -> bool {
        if self.here.is_empty()
            && let Some(arrivals) = &mut self.arrivals
        {
            self.here = arrivals.take().unwrap_or_default();
        }
        let most = if self.arrivals.is_some() { usize::MAX } else { 1 + network.random(8_000) as usize };
        let piece = &self.here[..most.min(self.here.len())];
        let is_last = piece.len() == self.here.len() && self.arrivals.as_ref().is_none_or(Arrivals::is_over);
        let ends = is_last && matches!(self.end, End::With);
        if !piece.is_empty() || ends {
            let count = wire.engine.send_data(stream, piece, ends);
            self.here.drain(..count);
            self.sent += count;
            if self.here.is_empty() && ends {
                self.end = End::Sent;
            }
        }
        if let End::After(at, trailers) = &mut self.end
            && is_last
            && self.here.is_empty()
            && *at.get_or_insert(now().after(3)) <= now()
        {
            match *trailers {
                "" => drop(wire.engine.send_data(stream, b"", true)),
                lines => drop(wire.engine.send_trailers(stream, lines.as_bytes())),
            }
            self.end = End::Sent;
        }
        wire.send()
    }

    /// When more can be sent, if no window blocks.
    pub(crate) fn next_at(&self) -> Tick {
        match (&self.arrivals, &self.end) {
            _ if !self.here.is_empty() => Tick::NEVER,
            (_, End::After(Some(at), _)) => *at,
            (Some(arrivals), End::With | End::After(..)) => arrivals.next_at(),
            _ => Tick::NEVER,
        }
    }

    /// Whether the client cancels the request now.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up_at.is_some_and(|at| self.sent >= at)
    }
}
