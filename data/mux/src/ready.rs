//! The inspected bytes of a body, at the front of its source's input.

use std::ops::Range;

use crate::way::BodyWay;

/// The inspected bytes that can be sent, and their framing.
///
/// ```text
///   input   │ head │ body │ trailers │ not inspected │
///           └──────── ready ─────────┘
/// ```
#[derive(Debug)]
pub(crate) struct ReadyBytes {
    /// How these bytes are framed at the sink.
    pub way: BodyWay,
    /// Number of ready bytes. 32 bits, because every stream has flows. The input stays below 4 GB.
    pub count: u32,
    /// Range of the trailers within the ready bytes.
    pub trailers: Range<u32>,
    /// Trailers are dropped instead of forwarded.
    pub drops_trailers: bool,
    /// The caller shuts the sink down right after the last byte.
    pub ends_sink: bool,
    /// The first ready bytes are sent together with a head.
    pub with_head: bool,
    /// The end of the message was passed to the sink.
    pub end_sent: bool,
}

impl ReadyBytes {
    /// No ready bytes.
    pub(crate) const NONE: ReadyBytes = ReadyBytes {
        way: BodyWay::Open,
        count: 0,
        trailers: 0..0,
        drops_trailers: false,
        ends_sink: false,
        with_head: false,
        end_sent: false,
    };

    /// Number of ready bytes to send unchanged. Excludes trailers that the sink frames itself or that are dropped.
    #[inline]
    pub(crate) fn leaving(&self) -> usize {
        let is_whole = self.trailers.is_empty() || (self.way == BodyWay::Wire && !self.drops_trailers);
        if is_whole { self.count as usize } else { self.trailers.start as usize }
    }

    /// Size of the trailers in bytes, and whether they are forwarded.
    #[inline]
    pub(crate) fn trailers(&self) -> (usize, bool) {
        (self.trailers.len(), !self.drops_trailers)
    }

    /// Adds trailers at these offsets, directly after the earlier trailers.
    pub(crate) fn add_trailers(&mut self, place: Range<usize>) {
        let start = if self.trailers.is_empty() { place.start as u32 } else { self.trailers.start };
        self.trailers = start..place.end as u32;
    }

    /// Removes `count` sent bytes at the front.
    #[inline]
    pub(crate) fn left(&mut self, count: usize) {
        self.count -= count as u32;
        if !self.trailers.is_empty() {
            let Range { start, end } = self.trailers;
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            self.trailers = start.saturating_sub(count)..end.saturating_sub(count);
        }
    }
}
