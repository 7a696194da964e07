//! A QUIC-like source: pieces of a datagram's size, in order, at irregular times. Its receive buffer is bounded, so the sink paces reading.

use std::collections::VecDeque;

use weir_mux::{BodyProducer, ProducerStep};
use weir_sched::simulate::SeededRandom;
use weir_sched::{Class, Tick, WorkKind, now};

use pattern::{Pattern, Way};

#[allow(dead_code, reason = "only simulated clients check with it")]
#[path = "../simulated/pattern.rs"]
pub(crate) mod pattern;

/// A body that arrives in datagrams. Its number determines their sizes and times.
#[derive(Debug)]
pub(crate) struct Arrivals {
    body: Pattern,
    /// The number of bytes that have not arrived.
    left: usize,
    arrived: VecDeque<Vec<u8>>,
    /// When the next datagram arrives.
    next_at: Tick,
    random: SeededRandom,
}

impl Arrivals {
    /// A body of this length. Its first datagram arrives after a while.
    pub(crate) fn new(number: u64, way: Way, length: usize, delay_ms: u64) -> Arrivals {
        Arrivals {
            body: Pattern::new(number, way),
            left: length,
            arrived: VecDeque::new(),
            next_at: now().after(delay_ms),
            random: SeededRandom::new(number),
        }
    }

    /// The next datagram, if it has arrived. They come in bursts, with waits between them.
    pub(crate) fn take(&mut self) -> Option<Vec<u8>> {
        while self.left > 0 && self.arrived.len() < READ_AHEAD && self.next_at <= now() {
            let size = (1200 + self.random.below(200) as usize).min(self.left);
            self.arrived.push_back(self.body.make(size));
            self.left -= size;
            let wait_ms = if self.random.below(8) == 0 { 1 + self.random.below(30) } else { 0 };
            self.next_at = now().after(wait_ms);
        }
        self.arrived.pop_front()
    }

    /// When the next datagram can be taken.
    pub(crate) fn next_at(&self) -> Tick {
        if self.arrived.is_empty() { self.next_at } else { now() }
    }

    /// Whether all datagrams were taken.
    pub(crate) fn is_over(&self) -> bool {
        self.left == 0 && self.arrived.is_empty()
    }
}

/// A response body in datagrams.
pub(crate) struct Datagrams {
    arrivals: Arrivals,
    /// The current piece, if the service lends its pieces. `None` if it appends them.
    lent: Option<Vec<u8>>,
    /// The end arrives after the last byte.
    ends_apart: bool,
}

impl Datagrams {
    /// The response body for a target `number/Datagrams/length/delay`. `None` for any other target.
    pub(crate) fn of_target(target: &[u8]) -> Option<Datagrams> {
        let mut words = std::str::from_utf8(target).ok()?.split('/');
        let number = words.next()?.parse().ok()?;
        let is_such = words.next()? == "Datagrams";
        let (length, delay_ms) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let mut arrivals = Arrivals::new(number, Way::Down, length, delay_ms);
        is_such.then(|| Datagrams {
            lent: (arrivals.random.below(2) == 0).then(Vec::new),
            ends_apart: arrivals.random.below(2) == 0,
            arrivals,
        })
    }

    /// No datagram has arrived. The stream continues at a given time, or is woken.
    fn later(&mut self, at: Tick) -> ProducerStep {
        if self.arrivals.random.below(2) == 0 {
            return ProducerStep::Later(at);
        }
        let stream = weir_sched::current();
        weir_sched::spawn(&DATAGRAM, Class::Normal, async move {
            weir_sched::sleep_until(at).await;
            weir_sched::wake(stream);
        });
        ProducerStep::Later(Tick::NEVER)
    }
}

impl BodyProducer for Datagrams {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
        let piece = self.arrivals.take();
        if piece.is_none() {
            match self.arrivals.is_over() {
                false => return self.later(self.arrivals.next_at()),
                true if std::mem::take(&mut self.ends_apart) => return self.later(now().after(3)),
                true => {}
            }
        }
        let piece = piece.unwrap_or_default();
        match &mut self.lent {
            Some(lent) => *lent = piece,
            None => out.extend_from_slice(&piece),
        }
        let is_last = self.arrivals.is_over() && !self.ends_apart;
        if is_last { ProducerStep::Last } else { ProducerStep::More }
    }

    fn lent(&self) -> Option<&[u8]> {
        self.lent.as_deref()
    }
}

/// Size of the receive buffer in datagrams. About two sends.
const READ_AHEAD: usize = 24;
static DATAGRAM: WorkKind = WorkKind::new("datagram");
