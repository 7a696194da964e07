//! The streams of a connection that are neither idle nor closed, and the IDs of those that closed most recently.

use std::collections::VecDeque;

use crate::stream::Stream;

/// Stream records in the order of their IDs. The announced limit bounds their count, so a removal moves few bytes.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    records: Vec<Stream>,
    /// The highest stream ID used so far.
    pub last: u32,
    /// The most recently closed streams, and whether this end reset them. Frames for them may still be in transit.
    closed: VecDeque<(u32, bool)>,
    /// Bytes by which all their receive windows together exceed the initial size.
    lent: u32,
}

/// The state of a stream number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamStanding {
    Idle,
    /// A stream with a record.
    Live,
    /// It closed, and this end did not reset it.
    Closed,
    /// This end reset it.
    Reset,
    /// The peer skipped the ID when it opened a higher one, so the stream is closed (RFC 9113, 5.1.1).
    PassedOver,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        self.records.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.position(id).map(|at| &self.records[at])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.position(id).map(|at| &mut self.records[at])
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.records.iter_mut()
    }

    /// IDs of the streams that were given up, in ascending order.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = u32> {
        self.records.iter().filter(|record| record.given_up).map(|record| record.id)
    }

    /// Whether any stream is in use, that is, not given up.
    pub(crate) fn are_used(&self) -> bool {
        self.records.iter().any(|record| !record.given_up)
    }

    /// Frees memory that no stream needs now.
    pub(crate) fn shrink(&mut self) {
        self.records.shrink_to_fit();
    }

    /// Bytes by which all receive windows together exceed the initial size.
    pub(crate) fn lent(&self) -> u32 {
        self.lent
    }

    /// Records that the receive window of a live stream grew by `count` bytes.
    pub(crate) fn lend(&mut self, id: u32, count: u32) {
        if let Some(record) = self.get_mut(id) {
            record.lent += count;
            self.lent = self.lent.saturating_add(count);
        }
    }

    /// Records that the receive window shrank by `count` bytes, at most to its initial size.
    pub(crate) fn take_back(&mut self, id: u32, count: u32) {
        if let Some(record) = self.get_mut(id) {
            let count = count.min(record.lent);
            record.lent -= count;
            self.lent = self.lent.saturating_sub(count);
        }
    }

    /// Adds a stream. Its ID must be higher than all recorded ones.
    pub(crate) fn open(&mut self, stream: Stream) {
        debug_assert!(self.records.last().is_none_or(|last| last.id < stream.id));
        self.lent = self.lent.saturating_add(stream.lent);
        self.records.push(stream);
    }

    /// Removes a stream. False if the stream is not recorded.
    pub(crate) fn close(&mut self, id: u32, reset_here: bool) -> bool {
        let Some(at) = self.position(id) else { return false };
        self.lent = self.lent.saturating_sub(self.records.remove(at).lent);
        self.note_closed(id, reset_here);
        true
    }

    /// Shifts all receive windows, once the peer has acknowledged an initial window below the default.
    pub(crate) fn shift_receive(&mut self, before: u32, after: u32) {
        for record in &mut self.records {
            // The window can only shrink here, so it cannot overflow.
            let _ = record.receive.shift(before, after);
        }
    }

    /// Records the peer's last frame of a live stream. Returns the bytes by which its receive window exceeds the initial size.
    pub(crate) fn end_of_peer(&mut self, id: u32) -> u32 {
        let Some(record) = self.get_mut(id) else { return 0 };
        let lent = record.lent;
        if record.end_remote() {
            self.close(id, false);
        }
        lent
    }

    /// Removes the streams above `last`, which the peer did not process.
    pub(crate) fn close_behind(&mut self, last: u32) {
        while let Some(id) = self.records.last().map(|stream| stream.id).filter(|id| *id > last) {
            self.close(id, true);
        }
    }

    /// Adds a stream to the recently closed ones.
    pub(crate) fn note_closed(&mut self, id: u32, reset_here: bool) {
        if self.closed.len() >= REMEMBERED {
            self.closed.pop_front();
        }
        self.closed.push_back((id, reset_here));
    }

    pub(crate) fn standing(&self, id: u32) -> StreamStanding {
        if id > self.last {
            return StreamStanding::Idle;
        }
        if self.position(id).is_some() {
            return StreamStanding::Live;
        }
        match self.closed.iter().rev().find(|(closed, _)| *closed == id) {
            Some((_, true)) => StreamStanding::Reset,
            Some((_, false)) => StreamStanding::Closed,
            // If the list is full, the stream may have been dropped from it.
            None if self.closed.len() >= REMEMBERED => StreamStanding::Closed,
            None => StreamStanding::PassedOver,
        }
    }
}

/// Number of closed streams kept, to distinguish them from skipped ones.
const REMEMBERED: usize = 32;
