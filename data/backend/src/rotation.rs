//! Turns that workers take without the lock: a precomputed sequence, and a shared counter of the next turn.
//!
//! "In turn" means that the next request goes to the next server, regardless of the worker. So the position is shared: a
//! worker draws a [`Ticket`] with one relaxed addition and looks up the ticket's member in the [`Rotation`]. A rotation is
//! made under the lock and is immutable. A repeating sequence never ends. Any other sequence ends after some turns, and
//! the next rotation is made. A ticket holds the number of its rotation. A worker that draws a ticket of an unknown
//! rotation refreshes its view. When the backend changes, the counter holds the number of turns taken, and the algorithm
//! continues from there ([`TurnCounter::close`]).

use std::sync::Arc;

use weir_sync::CachePadded;

use crate::sync::{AtomicU64, Ordering};

/// The next turns, as positions among the members.
#[derive(Clone)]
pub(crate) struct Sequence {
    pub(crate) members: Arc<[u32]>,
    /// The index of the first turn.
    pub(crate) first: usize,
    /// The index at which the sequence continues after its end, if it repeats.
    pub(crate) repeats_from: Option<usize>,
}

impl Sequence {
    /// The index of a turn, counted from 0. `None` after the end.
    pub(crate) fn index(&self, turn: u32) -> Option<usize> {
        let index = self.first as u64 + u64::from(turn);
        if let Some(index) = usize::try_from(index).ok().filter(|index| *index < self.members.len()) {
            return Some(index);
        }
        let from = self.repeats_from? as u64;
        let period = self.members.len() as u64 - from;
        usize::try_from(from + (index - from) % period).ok()
    }
}

/// A sequence that workers draw turns from.
pub(crate) struct Rotation {
    number: u32,
    sequence: Sequence,
}

impl Rotation {
    /// The member of a ticket. `None` if the ticket is of another rotation or after the end of this one.
    #[inline]
    pub(crate) fn member(&self, ticket: Ticket) -> Option<usize> {
        if ticket.rotation != self.number {
            return None;
        }
        Some(self.sequence.members[self.sequence.index(ticket.turn)?] as usize)
    }

    /// The sequence of turns.
    pub(crate) fn sequence(&self) -> &Sequence {
        &self.sequence
    }
}

/// A turn of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    rotation: u32,
    turn: u32,
}

impl Ticket {
    fn of(word: u64) -> Self {
        Self { rotation: (word >> TURN_BITS) as u32, turn: word as u32 }
    }

    /// The counter value of the first turn in the rotation after this ticket's.
    fn of_next_rotation(self) -> u64 {
        u64::from(self.rotation.wrapping_add(1)) << TURN_BITS
    }
}

/// The next ticket: rotation number in the upper half, turn number in the lower half. After 2^32 turns the lower half
/// overflows into the rotation number, and the next rotation continues from there.
pub(crate) struct TurnCounter(CachePadded<AtomicU64>);

const TURN_BITS: u32 = 32;

impl TurnCounter {
    pub(crate) fn new() -> Self {
        Self(CachePadded::new(AtomicU64::new(0)))
    }

    /// Takes a turn, without the lock. Relaxed ordering suffices, because workers get rotations under the lock.
    #[inline]
    pub(crate) fn draw(&self) -> Ticket {
        Ticket::of(self.0.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a rotation over a sequence. Called under the lock.
    pub(crate) fn begin(&self, sequence: Sequence) -> Rotation {
        let next = Ticket::of(self.0.load(Ordering::Relaxed)).of_next_rotation();
        self.0.store(next, Ordering::Relaxed);
        Rotation { number: Ticket::of(next).rotation, sequence }
    }

    /// Whether a rotation is exhausted. Called under the lock.
    pub(crate) fn is_over(&self, rotation: &Rotation) -> bool {
        rotation.member(Ticket::of(self.0.load(Ordering::Relaxed))).is_none()
    }

    /// Ends a rotation and returns the number of turns taken. Tickets drawn from now on belong to no rotation. Called under
    /// the lock.
    pub(crate) fn close(&self, rotation: &Rotation) -> u32 {
        let last = self.0.fetch_add(1 << TURN_BITS, Ordering::Relaxed);
        let next = Ticket::of(last);
        if next.rotation == rotation.number { next.turn } else { u32::MAX }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn sequence(members: &[u32], first: usize, repeats_from: Option<usize>) -> Sequence {
        Sequence { members: members.into(), first, repeats_from }
    }

    #[test]
    fn a_turn_sequence_ends_or_repeats_from_a_position() {
        #[track_caller]
        fn check(first: usize, repeats_from: Option<usize>, expected: &str) {
            let sequence = sequence(&[0, 1, 2, 3, 4], first, repeats_from);
            let turns = (0..8).map(|turn| sequence.index(turn));
            let shown: String =
                turns.map(|index| index.map_or("-".into(), |index| index.to_string())).collect();
            assert_eq!(shown, expected);
        }
        check(0, None, "01234---");
        check(0, Some(0), "01234012");
        check(0, Some(3), "01234343");
        check(4, Some(0), "40123401");
        check(5, Some(0), "01234012");
        assert_eq!(sequence(&[0, 1, 2], 2, Some(0)).index(u32::MAX), Some(2), "no position is too large");
    }

    #[test]
    fn a_ticket_is_valid_only_in_its_own_rotation() {
        let counter = TurnCounter::new();
        let first = counter.begin(sequence(&[7, 8, 9], 0, None));
        let tickets = [counter.draw(), counter.draw()];
        assert_eq!(tickets.map(|ticket| first.member(ticket)), [Some(7), Some(8)]);
        assert_eq!((counter.is_over(&first), counter.close(&first)), (false, 2));
        let between = counter.draw();
        let second = counter.begin(sequence(&[3], 0, None));
        assert_eq!((first.member(between), second.member(between)), (None, None));
        let ticket = counter.draw();
        assert_eq!((first.member(ticket), second.member(ticket)), (None, Some(3)));
        assert!(counter.is_over(&second));
        assert_eq!(second.member(counter.draw()), None);
        assert_eq!(counter.close(&second), 2, "who came too late counts too");
    }

    #[test]
    fn a_turn_counter_overflow_begins_a_new_rotation() {
        let counter = TurnCounter::new();
        let rotation = counter.begin(sequence(&[1, 2], 0, Some(0)));
        counter.0.fetch_add(u64::from(u32::MAX), Ordering::Relaxed);
        assert_eq!(rotation.member(counter.draw()), Some(2));
        assert!(counter.is_over(&rotation));
        assert_eq!(rotation.member(counter.draw()), None);
        assert_eq!(counter.close(&rotation), u32::MAX);
        let next = counter.begin(sequence(&[1, 2], 0, Some(0)));
        assert_eq!(next.member(counter.draw()), Some(1));
    }
}
