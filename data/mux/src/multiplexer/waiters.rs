//! Selects the blocked streams to wake: only those that can send again (R185).

use super::slot::SendEvent;
use super::{MultiplexerState, PIECE, max_output};

impl MultiplexerState {
    /// Whether streams wait for output room that is now available.
    pub(super) fn has_room_for_others(&self) -> bool {
        self.crowded && self.engine.output().len() < max_output() / 2
    }

    /// Wakes as many streams as the open connection window admits, round-robin (R185). Streams may not use their share, so
    /// the owner must call this again as long as streams wait and the window is open. A peer may open the window by one
    /// byte at a time while a hundred streams wait.
    pub(super) fn wake_admitted(&mut self) {
        let (mut open, count) = (self.engine.open_window(), self.slots.len());
        let begin = self.slots.partition_point(|slot| slot.id <= self.woken_last);
        for at in (0..count).map(|ahead| (begin + ahead) % count) {
            let slot = &mut self.slots[at];
            let sendable = self.engine.sendable(slot.id);
            if slot.awaits != SendEvent::Window || sendable == Some(0) {
                continue;
            }
            if open == 0 {
                self.starved = true;
                return;
            }
            slot.awaits = SendEvent::Nothing;
            slot.wake();
            self.woken_last = slot.id;
            open -= sendable.unwrap_or(0).min(open).min(SHARE);
        }
        self.starved = false;
    }

    /// Whether streams wait for the connection window, and it is open.
    pub(super) fn has_window_for_others(&self) -> bool {
        self.starved && self.engine.open_window() > 0
    }

    /// Wakes as many streams as the output has room for, round-robin (R185). Streams may not use their share, so the owner
    /// must call this again as long as streams wait.
    pub(super) fn wake_fitting(&mut self) {
        let (mut room, count) = (self.output_room(), self.slots.len());
        let begin = self.slots.partition_point(|slot| slot.id <= self.woken_last);
        for at in (0..count).map(|ahead| (begin + ahead) % count) {
            let slot = &mut self.slots[at];
            if slot.awaits != SendEvent::Room {
                continue;
            }
            if room == 0 {
                return;
            }
            slot.awaits = SendEvent::Nothing;
            slot.wake();
            self.woken_last = slot.id;
            room -= room.min(self.engine.sendable(slot.id).map_or(0, |open| open.min(SHARE)));
        }
        self.crowded = false;
    }
}

/// Bytes that a woken stream is expected to send. It had time to receive that much.
const SHARE: usize = 2 * PIECE;
