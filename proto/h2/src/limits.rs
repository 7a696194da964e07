//! Bounds on the memory and the work that a peer can cause.

/// The bounds of one connection. The caller maps the configuration to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Concurrent streams (`tune.h2.fe.max-concurrent-streams`).
    pub concurrent_streams: u32,
    /// Total streams, after which the connection is shut down gracefully. 0 for no limit (`tune.h2.fe.max-total-streams`).
    pub total_streams: u32,
    /// Initial receive window of each stream in bytes (`tune.h2.fe.initial-window-size`).
    pub stream_window: u32,
    /// Receive window of the connection: bytes that the peer may send on all streams together before they are consumed.
    pub connection_window: u32,
    /// Bytes of payload in a frame (`tune.h2.max-frame-size`).
    pub max_payload: u32,
    /// Bytes of the HPACK decoder table (`tune.h2.header-table-size`).
    pub header_table_size: u32,
    /// Fields of a head (`tune.http.maxhdr`).
    pub max_fields: u16,
    /// Bytes of a head (`tune.bufsize` less `tune.maxrewrite`).
    pub max_head: usize,
    /// Suspicious events after which the connection is closed; 0 for no limit (`tune.h2.fe.glitches-threshold`).
    pub glitches: u32,
    /// Whether requests may use extended CONNECT, as WebSocket over HTTP/2 does (RFC 8441; not with
    /// `h2-workaround-bogus-websocket-clients`).
    pub extended_connect: bool,
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        ConnectionLimits {
            concurrent_streams: 100,
            total_streams: 0,
            stream_window: 65_535,
            connection_window: 1 << 20,
            max_payload: 16_384,
            header_table_size: 4096,
            max_fields: 100,
            max_head: 15_360,
            glitches: 0,
            extended_connect: true,
        }
    }
}

/// Limit of a header block on the wire, as a multiple of the limit of a head. Within it, the excess is decoded to keep
/// the HPACK table in sync, and dropped. Beyond it, the connection fails.
pub(crate) const BLOCK_PER_HEAD: usize = 2;
/// Maximum CONTINUATION frames of one header block.
pub(crate) const CONTINUATIONS: u32 = 32;

/// Allowed rate of events that cost this end more than the peer, as a token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventRate {
    burst: u32,
    /// Tokens added per second.
    per_second: u32,
}

/// A token bucket with an [`EventRate`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    left: u32,
    filled_ms: u64,
}

impl Bucket {
    /// A full bucket.
    pub(crate) const fn of(rate: EventRate) -> Bucket {
        Bucket { left: rate.burst, filled_ms: 0 }
    }

    /// The bucket is full at `now_ms`, by the clock of [`take`](Self::take): earlier time adds no tokens.
    pub(crate) fn begin(&mut self, now_ms: u64) {
        self.filled_ms = now_ms;
    }

    /// Takes one token; false if the bucket is empty. The rate must be the one passed to [`of`](Self::of).
    #[inline]
    pub(crate) fn take(&mut self, rate: EventRate, now_ms: u64) -> bool {
        if self.left == 0 {
            self.fill(rate, now_ms);
        }
        let any = self.left > 0;
        self.left = self.left.saturating_sub(1);
        any
    }

    fn fill(&mut self, rate: EventRate, now_ms: u64) {
        let since = now_ms.saturating_sub(self.filled_ms);
        let more = since.saturating_mul(u64::from(rate.per_second)) / 1000;
        if more > 0 {
            self.left = more.min(u64::from(rate.burst)) as u32;
            self.filled_ms = now_ms;
        }
    }
}

/// RST_STREAM of streams without a response yet. A browser that leaves a page resets a hundred at once.
pub(crate) const RESETS: EventRate = EventRate { burst: 1_000, per_second: 200 };
/// Frames without content: PING, SETTINGS, PRIORITY, DATA without payload, unknown ones.
pub(crate) const EMPTY_FRAMES: EventRate = EventRate { burst: 10_000, per_second: 1_000 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_bucket_allows_its_burst_then_its_rate() {
        let rate = EventRate { burst: 10, per_second: 100 };
        let mut bucket = Bucket::of(rate);
        bucket.begin(1_000_000);
        let taken = |bucket: &mut Bucket, now: u64| (0..100).filter(|_| bucket.take(rate, now)).count();
        assert_eq!(taken(&mut bucket, 1_000_005), 10);
        assert_eq!(taken(&mut bucket, 1_000_005), 0);
        assert_eq!(taken(&mut bucket, 1_000_035), 3);
        assert_eq!(taken(&mut bucket, 1_010_000), 10, "never more than the burst");
    }
}
