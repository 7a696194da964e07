//! The timers of a stream: when each phase ended (manual section 8.4).

use std::num::NonZeroU64;

use weir_backend::{PhaseDurations, Phases};

/// Time since a stream began, in microseconds. Statistics and logs show whole milliseconds of it.
///
/// It is kept plus one, so that `Option<ElapsedTime>` is not larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElapsedTime(NonZeroU64);

impl ElapsedTime {
    /// From microseconds.
    #[inline]
    pub fn from_us(us: u64) -> Self {
        ElapsedTime(NonZeroU64::MIN.saturating_add(us))
    }

    /// Microseconds.
    #[inline]
    pub fn us(self) -> u64 {
        self.0.get() - 1
    }

    /// Milliseconds, rounded down.
    #[inline]
    pub fn ms(self) -> u32 {
        u32::try_from(self.us() / 1000).unwrap_or(u32::MAX)
    }
}

/// Times since the stream began, by the worker's clock; none for phases that were not reached.
///
/// A stream begins when its connection was accepted, or when the previous one on the connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The worker's clock in microseconds when the stream began.
    pub began_us: u64,
    /// How long the connection's handshakes took, in milliseconds; only the first stream counts them.
    pub handshake_ms: u32,
    /// The first byte of the request.
    pub first_byte: Option<ElapsedTime>,
    /// The request's head was complete.
    pub request: Option<ElapsedTime>,
    /// A server's slot was granted.
    pub queue: Option<ElapsedTime>,
    /// The connection to the server was established.
    pub connect: Option<ElapsedTime>,
    /// The response's head was complete.
    pub response: Option<ElapsedTime>,
    pub close: Option<ElapsedTime>,
}

impl Timers {
    /// Timers of a stream that begins at `now_us`.
    pub fn begin(now_us: u64, handshake_ms: u32) -> Self {
        Timers { began_us: now_us, handshake_ms, ..Timers::default() }
    }

    /// Time since the stream began.
    #[inline]
    pub fn since(&self, now_us: u64) -> ElapsedTime {
        ElapsedTime::from_us(now_us.saturating_sub(self.began_us))
    }

    /// `%Th`: the handshakes.
    pub fn handshake(&self) -> i64 {
        i64::from(self.handshake_ms)
    }

    fn after_handshake(&self) -> ElapsedTime {
        ElapsedTime::from_us(u64::from(self.handshake_ms) * 1000)
    }

    /// `%Ti`: idle time before the request's first byte.
    pub fn idle(&self) -> i64 {
        self.first_byte.map_or(-1, |at| i64::from(at.ms().saturating_sub(self.handshake_ms)))
    }

    /// `%TR`: from the first byte to the complete head.
    pub fn receive(&self) -> i64 {
        difference(self.first_byte, self.request)
    }

    /// `%Tq`: handshake, idle and receive together.
    pub fn total_request(&self) -> i64 {
        shown(self.request)
    }

    /// `%Tw`: waiting for a slot.
    pub fn queue_wait(&self) -> i64 {
        difference(self.request.or(Some(self.after_handshake())), self.queue)
    }

    /// `%Tc`: connecting.
    pub fn connecting(&self) -> i64 {
        difference(self.queue, self.connect)
    }

    /// `%Tr`: from the connection to the response's head.
    pub fn responding(&self) -> i64 {
        difference(self.connect, self.response)
    }

    /// `%Td`: from the response's head to the end.
    pub fn data(&self) -> i64 {
        difference(self.response, self.close)
    }

    /// `%Td` in TCP mode, where data begins with the connection to the server.
    pub fn streaming(&self) -> i64 {
        difference(self.connect, self.close)
    }

    /// `%Ta`: from the request's first byte to the end.
    pub fn active(&self) -> i64 {
        match (self.first_byte, self.close) {
            (Some(from), Some(to)) => i64::from(to.ms().saturating_sub(from.ms())),
            (None, Some(to)) => i64::from(to.ms().saturating_sub(self.handshake_ms)),
            _ => -1,
        }
    }

    /// `%Tt`: the whole stream.
    pub fn total(&self) -> i64 {
        shown(self.close)
    }

    /// The durations that distributions are made of.
    #[inline]
    pub fn latencies(&self) -> PhaseDurations {
        let arrived = self.request.unwrap_or_else(|| self.after_handshake());
        PhaseDurations([
            between(Some(arrived), self.queue),
            between(self.queue, self.connect),
            between(self.connect, self.response),
            self.total_latency(),
        ])
    }

    /// The last of them, of all that have ended. It begins with the request's first byte, as `%Ta` does: a client that thinks between
    /// two requests is not slow.
    #[inline]
    pub fn total_latency(&self) -> u64 {
        let began = self.first_byte.unwrap_or_else(|| self.after_handshake());
        self.close.map_or(0, |end| end.us().saturating_sub(began.us()))
    }

    /// The durations that averages are made of: the same, but for the whole, which begins where `%Tt` does.
    #[inline]
    pub fn averaged(&self, latencies: PhaseDurations) -> Phases {
        let PhaseDurations([queue, connect, response, _]) = latencies;
        let total = self.close.map_or(PhaseDurations::ABSENT, ElapsedTime::us);
        PhaseDurations([queue, connect, response, total]).phases()
    }

    /// `%Tu`: the whole stream without the idle time.
    pub fn total_user(&self) -> i64 {
        self.close.map_or(-1, |to| i64::from(to.ms()) - self.idle().max(0))
    }
}

/// Milliseconds from one moment to another, each rounded down, so that phases add up; -1 if one was not reached.
fn difference(from: Option<ElapsedTime>, to: Option<ElapsedTime>) -> i64 {
    match (from, to) {
        (Some(from), Some(to)) => i64::from(to.ms().saturating_sub(from.ms())),
        _ => -1,
    }
}

/// Microseconds from one moment to another.
#[inline]
fn between(from: Option<ElapsedTime>, to: Option<ElapsedTime>) -> u64 {
    match (from, to) {
        // Both are kept plus one.
        (Some(from), Some(to)) => to.0.get().saturating_sub(from.0.get()),
        _ => PhaseDurations::ABSENT,
    }
}

/// Whole milliseconds of a moment, in microseconds; 0 if it was not reached.
pub fn whole_ms_us(moment: Option<ElapsedTime>) -> u64 {
    moment.map_or(0, |at| u64::from(at.ms()) * 1000)
}

fn shown(moment: Option<ElapsedTime>) -> i64 {
    moment.map_or(-1, |at| i64::from(at.ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Option<ElapsedTime> {
        Some(ElapsedTime::from_us(ms * 1000 + 400))
    }

    #[test]
    fn phases_add_up() {
        let timers = Timers {
            began_us: 1_000_000,
            handshake_ms: 2,
            first_byte: at(10),
            request: at(15),
            queue: at(15),
            connect: at(16),
            response: at(30),
            close: at(31),
        };
        let shown = [
            timers.receive(),
            timers.queue_wait(),
            timers.connecting(),
            timers.responding(),
            timers.active(),
        ];
        assert_eq!(shown, [5, 0, 1, 14, 21]);
        assert_eq!((timers.idle(), timers.total_request(), timers.total()), (8, 15, 31));
        assert_eq!(timers.latencies(), PhaseDurations([0, 1_000, 14_000, 21_000]));
    }

    #[test]
    fn distributions_see_less_than_a_millisecond_and_no_idle_time() {
        let us = |us| Some(ElapsedTime::from_us(us));
        let timers = Timers {
            first_byte: us(9_000_100),
            request: us(9_000_100),
            queue: us(9_000_100),
            connect: us(9_000_120),
            response: us(9_000_700),
            close: us(9_000_750),
            ..Timers::begin(5, 0)
        };
        assert_eq!(timers.latencies(), PhaseDurations([0, 20, 580, 650]));
        let tcp = Timers { queue: us(2_010), connect: us(2_300), close: us(5_000), ..Timers::begin(5, 2) };
        assert_eq!(tcp.latencies(), PhaseDurations([10, 290, PhaseDurations::ABSENT, 3_000]));
    }

    #[test]
    fn phases_that_were_not_reached_show_minus_one() {
        let timers = Timers { close: at(5), ..Timers::begin(0, 0) };
        assert_eq!((timers.receive(), timers.connecting(), timers.responding()), (-1, -1, -1));
        assert_eq!(timers.active(), 5);
    }
}
