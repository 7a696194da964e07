//! The timers of a stream: when each phase ended (manual section 8.4).

use std::num::NonZeroU64;

use weir_backend::{PhaseDurations, Phases};

/// Time since a stream began, in microseconds. Statistics and logs show it in whole milliseconds.
///
/// Stored plus one, so that `Option<ElapsedTime>` has the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElapsedTime(NonZeroU64);

impl ElapsedTime {
    /// Creates it from microseconds.
    #[inline]
    pub fn from_us(us: u64) -> Self {
        ElapsedTime(NonZeroU64::MIN.saturating_add(us))
    }

    /// The time in microseconds.
    #[inline]
    pub fn us(self) -> u64 {
        self.0.get() - 1
    }

    /// The time in milliseconds, rounded down.
    #[inline]
    pub fn ms(self) -> u32 {
        u32::try_from(self.us() / 1000).unwrap_or(u32::MAX)
    }
}

/// Times since the stream began, by the worker's clock. `None` for phases that were not reached.
///
/// A stream begins when its connection is accepted, or when the previous stream on the connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The start of the stream, in microseconds of the worker's clock.
    pub began_us: u64,
    /// The duration of the connection's handshakes, in milliseconds. 0 for all but the first stream.
    pub handshake_ms: u32,
    /// First byte of the request received.
    pub first_byte: Option<ElapsedTime>,
    /// Request head complete.
    pub request: Option<ElapsedTime>,
    /// Server slot granted.
    pub queue: Option<ElapsedTime>,
    /// Connection to the server established.
    pub connect: Option<ElapsedTime>,
    /// Response head complete.
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

    /// `%Th`: the handshakes, in milliseconds.
    pub fn handshake(&self) -> i64 {
        i64::from(self.handshake_ms)
    }

    fn after_handshake(&self) -> ElapsedTime {
        ElapsedTime::from_us(u64::from(self.handshake_ms) * 1000)
    }

    /// `%Ti`: idle time before the first byte of the request.
    pub fn idle(&self) -> i64 {
        self.first_byte.map_or(-1, |at| i64::from(at.ms().saturating_sub(self.handshake_ms)))
    }

    /// `%TR`: from the first byte to the complete head.
    pub fn receive(&self) -> i64 {
        difference(self.first_byte, self.request)
    }

    /// `%Tq`: `%Th`, `%Ti` and `%TR` together.
    pub fn total_request(&self) -> i64 {
        shown(self.request)
    }

    /// `%Tw`: time in queues.
    pub fn queue_wait(&self) -> i64 {
        difference(self.request.or(Some(self.after_handshake())), self.queue)
    }

    /// `%Tc`: time to connect.
    pub fn connecting(&self) -> i64 {
        difference(self.queue, self.connect)
    }

    /// `%Tr`: from the established connection to the complete response head.
    pub fn responding(&self) -> i64 {
        difference(self.connect, self.response)
    }

    /// `%Td`: from the complete response head to the end of the stream.
    pub fn data(&self) -> i64 {
        difference(self.response, self.close)
    }

    /// `%Td` in TCP mode: from the established connection to the end of the stream.
    pub fn streaming(&self) -> i64 {
        difference(self.connect, self.close)
    }

    /// `%Ta`: from the first byte of the request to the end of the stream.
    pub fn active(&self) -> i64 {
        match (self.first_byte, self.close) {
            (Some(from), Some(to)) => i64::from(to.ms().saturating_sub(from.ms())),
            (None, Some(to)) => i64::from(to.ms().saturating_sub(self.handshake_ms)),
            _ => -1,
        }
    }

    /// `%Tt`: the whole stream, including handshakes and idle time.
    pub fn total(&self) -> i64 {
        shown(self.close)
    }

    /// The phase durations for latency distributions, in microseconds.
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

    /// The total for the latency distribution, in microseconds. 0 before the stream ends. Like `%Ta` it begins with the first byte
    /// of the request: the idle time between requests is not latency.
    #[inline]
    pub fn total_latency(&self) -> u64 {
        let began = self.first_byte.unwrap_or_else(|| self.after_handshake());
        self.close.map_or(0, |end| end.us().saturating_sub(began.us()))
    }

    /// The phase durations for averages. They differ from `latencies` in the total, which begins where `%Tt` begins.
    #[inline]
    pub fn averaged(&self, latencies: PhaseDurations) -> Phases {
        let PhaseDurations([queue, connect, response, _]) = latencies;
        let total = self.close.map_or(PhaseDurations::ABSENT, ElapsedTime::us);
        PhaseDurations([queue, connect, response, total]).phases()
    }

    /// `%Tu`: the whole stream without idle time.
    pub fn total_user(&self) -> i64 {
        self.close.map_or(-1, |to| i64::from(to.ms()) - self.idle().max(0))
    }
}

/// Milliseconds between two times, each rounded down first, so that phases add up. -1 if a phase was not reached.
fn difference(from: Option<ElapsedTime>, to: Option<ElapsedTime>) -> i64 {
    match (from, to) {
        (Some(from), Some(to)) => i64::from(to.ms().saturating_sub(from.ms())),
        _ => -1,
    }
}

/// Microseconds between two times. [`PhaseDurations::ABSENT`] if a phase was not reached.
#[inline]
fn between(from: Option<ElapsedTime>, to: Option<ElapsedTime>) -> u64 {
    match (from, to) {
        // Both are stored plus one, which cancels out.
        (Some(from), Some(to)) => to.0.get().saturating_sub(from.0.get()),
        _ => PhaseDurations::ABSENT,
    }
}

/// A time rounded down to milliseconds, in microseconds. 0 if it was not reached.
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
    fn phase_timers_are_differences_of_phase_times() {
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
    fn latency_histograms_have_microseconds_and_exclude_idle_time() {
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
    fn timers_of_unreached_phases_are_minus_one() {
        let timers = Timers { close: at(5), ..Timers::begin(0, 0) };
        assert_eq!((timers.receive(), timers.connecting(), timers.responding()), (-1, -1, -1));
        assert_eq!(timers.active(), 5);
    }
}
