//! The inspected bytes of a body, at the front of its source's input.

use std::ops::Range;

use crate::way::BodyWay;

/// The ready bytes, and how they leave.
///
/// ```text
///   input   │ head │ body │ trailers │ not inspected │
///           └──────── ready ─────────┘
/// ```
#[derive(Debug)]
pub(crate) struct ReadyBytes {
    /// The way of these bytes.
    pub way: BodyWay,
    /// How many there are. Input is never as large as 4 GB, and flows are part of every stream.
    pub count: u32,
    /// The position of trailers among them.
    pub trailers: Range<u32>,
    /// Trailers are not forwarded.
    pub drops_trailers: bool,
    /// The caller shuts the sink down right after the last byte.
    pub ends_sink: bool,
    /// The first of them leave together with a head.
    pub with_head: bool,
    /// The sink got the end of the message.
    pub end_sent: bool,
}

impl ReadyBytes {
    /// Nothing.
    pub(crate) const NONE: ReadyBytes = ReadyBytes {
        way: BodyWay::Open,
        count: 0,
        trailers: 0..0,
        drops_trailers: false,
        ends_sink: false,
        with_head: false,
        end_sent: false,
    };

    /// How many bytes leave unchanged: all but trailers that the sink frames or does not get.
    #[inline]
    pub(crate) fn leaving(&self) -> usize {
        let is_whole = self.trailers.is_empty() || (self.way == BodyWay::Wire && !self.drops_trailers);
        if is_whole { self.count as usize } else { self.trailers.start as usize }
    }

    /// How many bytes of trailers are there, and whether they go on.
    #[inline]
    pub(crate) fn trailers(&self) -> (usize, bool) {
        (self.trailers.len(), !self.drops_trailers)
    }

    /// More trailers were found between these positions: they follow the earlier ones directly.
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
