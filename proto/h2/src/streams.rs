//! The streams of a connection that are neither idle nor closed, and the numbers of those that closed last.

use std::collections::VecDeque;

use crate::stream::Stream;

/// Records in the order of their numbers. Their number is bounded by the announced limit, so a removal moves little.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    records: Vec<Stream>,
    /// The highest number that a peer used.
    pub last: u32,
    /// The streams closed last, and whether this end reset them: frames for them may still be in transit.
    closed: VecDeque<(u32, bool)>,
    /// How much wider their receive windows are than initially, in all.
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
    /// The peer skipped it when it opened a later one: it cannot be used any more (RFC 9113, 5.1.1).
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

    /// The numbers of the streams that were given up, in their order.
    pub(crate) fn given_up(&self) -> impl Iterator<Item = u32> {
        self.records.iter().filter(|record| record.given_up).map(|record| record.id)
    }

    /// Whether one of them is still in use.
    pub(crate) fn are_used(&self) -> bool {
        self.records.iter().any(|record| !record.given_up)
    }

    /// Frees memory that no stream needs now.
    pub(crate) fn shrink(&mut self) {
        self.records.shrink_to_fit();
    }

    /// How much wider the receive windows are than initially, in bytes.
    pub(crate) fn lent(&self) -> u32 {
        self.lent
    }

    /// Makes the receive window of a live stream wider.
    pub(crate) fn lend(&mut self, id: u32, count: u32) {
        if let Some(record) = self.get_mut(id) {
            record.lent += count;
            self.lent = self.lent.saturating_add(count);
        }
    }

    /// Makes it narrower; not narrower than initially.
    pub(crate) fn take_back(&mut self, id: u32, count: u32) {
        if let Some(record) = self.get_mut(id) {
            let count = count.min(record.lent);
            record.lent -= count;
            self.lent = self.lent.saturating_sub(count);
        }
    }

    /// Adds a stream; its number is higher than those before.
    pub(crate) fn open(&mut self, stream: Stream) {
        debug_assert!(self.records.last().is_none_or(|last| last.id < stream.id));
        self.lent = self.lent.saturating_add(stream.lent);
        self.records.push(stream);
    }

    /// Removes a stream; false if it is not recorded.
    pub(crate) fn close(&mut self, id: u32, reset_here: bool) -> bool {
        let Some(at) = self.position(id) else { return false };
        self.lent = self.lent.saturating_sub(self.records.remove(at).lent);
        self.note_closed(id, reset_here);
        true
    }

    /// The peer has learned that the initial window is narrower than it assumed.
    pub(crate) fn shift_receive(&mut self, before: u32, after: u32) {
        for record in &mut self.records {
            // The window can only shrink here, so it cannot overflow.
            let _ = record.receive.shift(before, after);
        }
    }

    /// The peer's last frame of a live stream came. Returns how much wider its receive window is than initially.
    pub(crate) fn end_of_peer(&mut self, id: u32) -> u32 {
        let Some(record) = self.get_mut(id) else { return 0 };
        let lent = record.lent;
        if record.end_remote() {
            self.close(id, false);
        }
        lent
    }

    /// Removes the streams above this one: the peer did not process them.
    pub(crate) fn close_behind(&mut self, last: u32) {
        while let Some(id) = self.records.last().map(|stream| stream.id).filter(|id| *id > last) {
            self.close(id, true);
        }
    }

    /// Notes the close of a stream that never had a record.
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
            // It may have been closed and forgotten, if the list is full.
            None if self.closed.len() >= REMEMBERED => StreamStanding::Closed,
            None => StreamStanding::PassedOver,
        }
    }
}

/// Closed streams that are remembered, to distinguish them from skipped ones.
const REMEMBERED: usize = 32;
