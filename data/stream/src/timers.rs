//! The timers of a stream: when each phase ended (manual section 8.4).

/// Times in milliseconds of the worker's clock since the stream began; none for phases that were not reached.
///
/// A stream begins when its connection was accepted, or when the previous one on the connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The worker's clock in microseconds when the stream began.
    pub began_us: u64,
    /// How long the connection's handshakes took; only the first stream counts them.
    pub handshake_ms: u32,
    /// The first byte of the request.
    pub first_byte: Option<u32>,
    /// The request's head was complete.
    pub request: Option<u32>,
    /// A server's slot was granted.
    pub queue: Option<u32>,
    /// The connection to the server was established.
    pub connect: Option<u32>,
    /// The response's head was complete.
    pub response: Option<u32>,
    /// The stream ended.
    pub close: Option<u32>,
}

impl Timers {
    /// Timers of a stream that begins at `now_us`.
    pub fn begin(now_us: u64, handshake_ms: u32) -> Self {
        Timers { began_us: now_us, handshake_ms, ..Timers::default() }
    }

    /// Milliseconds since the stream began.
    #[inline]
    pub fn since(&self, now_us: u64) -> u32 {
        u32::try_from(now_us.saturating_sub(self.began_us) / 1000).unwrap_or(u32::MAX)
    }

    /// `%Th`: the handshakes.
    pub fn handshake(&self) -> i64 {
        i64::from(self.handshake_ms)
    }

    /// `%Ti`: idle time before the request's first byte.
    pub fn idle(&self) -> i64 {
        self.first_byte.map_or(-1, |at| i64::from(at.saturating_sub(self.handshake_ms)))
    }

    /// `%TR`: from the first byte to the complete head.
    pub fn receive(&self) -> i64 {
        difference(self.first_byte, self.request)
    }

    /// `%Tq`: handshake, idle and receive together.
    pub fn total_request(&self) -> i64 {
        self.request.map_or(-1, i64::from)
    }

    /// `%Tw`: waiting for a slot.
    pub fn queue_wait(&self) -> i64 {
        difference(self.request.or(Some(self.handshake_ms)), self.queue)
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
            (Some(from), Some(to)) => i64::from(to.saturating_sub(from)),
            (None, Some(to)) => i64::from(to.saturating_sub(self.handshake_ms)),
            _ => -1,
        }
    }

    /// `%Tt`: the whole stream.
    pub fn total(&self) -> i64 {
        self.close.map_or(-1, i64::from)
    }

    /// `%Tu`: the whole stream without the idle time.
    pub fn total_user(&self) -> i64 {
        self.close.map_or(-1, |to| i64::from(to) - self.idle().max(0))
    }
}

fn difference(from: Option<u32>, to: Option<u32>) -> i64 {
    match (from, to) {
        (Some(from), Some(to)) => i64::from(to.saturating_sub(from)),
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up() {
        let timers = Timers {
            began_us: 1_000_000,
            handshake_ms: 2,
            first_byte: Some(10),
            request: Some(15),
            queue: Some(15),
            connect: Some(16),
            response: Some(30),
            close: Some(31),
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
    }

    #[test]
    fn phases_that_were_not_reached_show_minus_one() {
        let timers = Timers { close: Some(5), ..Timers::begin(0, 0) };
        assert_eq!((timers.receive(), timers.connecting(), timers.responding()), (-1, -1, -1));
        assert_eq!(timers.active(), 5);
    }
}
