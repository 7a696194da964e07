//! The requests of one connection to an application, found by their numbers.

use weir_sched::TaskKey;

/// The requests that have a stream, and those that wait for their END_REQUEST only. A connection may carry thousands, so that nothing here
/// looks at all of them for one record.
#[derive(Debug, Default)]
pub(super) struct RequestTable {
    slots: Vec<RequestSlot>,
    /// The position of each request in `slots`, by its id. Empty until more than [`FEW`] requests are there.
    positions: Vec<u16>,
    /// Requests with [`MAX_ARRIVED`] bytes that their streams did not take.
    full: usize,
    /// Requests that wait for their END_REQUEST only.
    draining: usize,
    /// Whether a stream may wait until queued records are sent.
    awaits_room: bool,
    /// Whether more than [`MAX_SURPLUS`] bytes came after a complete response.
    has_surplus: bool,
}

/// A request on the connection.
#[derive(Debug)]
pub(super) struct RequestSlot {
    id: u16,
    /// The number of its stream in traces. 0 for none.
    pub(super) serial: u64,
    /// The task of its stream. `None` once the response is complete, and only END_REQUEST is missing.
    task: Option<TaskKey>,
    /// Output that the stream did not take yet. Empty while the stream drives the connection.
    arrived: Vec<u8>,
    /// Whether the application ended the request (END_REQUEST).
    pub(super) ended: bool,
    /// Whether the application ended its output. A response is complete then, also without END_REQUEST.
    pub(super) output_ended: bool,
    /// Whether the stream waits until queued records are sent.
    awaits_room: bool,
    /// Bytes of output that came after the response was complete.
    surplus: usize,
}

impl RequestSlot {
    /// Whether the response has ended and all of its output was taken.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended() && self.arrived.is_empty()
    }

    /// Whether the application ended the response.
    pub(super) fn has_ended(&self) -> bool {
        self.ended || self.output_ended
    }

    /// Whether nothing arrived that the stream does not know.
    pub(super) fn is_quiet(&self) -> bool {
        self.arrived.is_empty() && !self.has_ended()
    }

    /// Whether only the end of the request is missing.
    pub(super) fn is_draining(&self) -> bool {
        self.task.is_none()
    }

    /// The request's state in `name=value` pairs.
    pub(super) fn summary(&self) -> String {
        format!(
            "stream={} in={} output_ended={} ended={} waits={}",
            self.id,
            self.arrived.len(),
            u8::from(self.output_ended),
            u8::from(self.ended),
            if self.awaits_room { "room" } else { "none" },
        )
    }

    pub(super) fn wake(&self) {
        if let Some(task) = self.task {
            weir_sched::wake(task);
        }
    }

    fn is_full(&self) -> bool {
        self.arrived.len() >= MAX_ARRIVED
    }
}

impl RequestTable {
    /// Adds a request of `task`.
    pub(super) fn insert(&mut self, id: u16, task: TaskKey, serial: u64) {
        let slot = RequestSlot {
            id,
            serial,
            task: Some(task),
            arrived: Vec::new(),
            ended: false,
            output_ended: false,
            awaits_room: false,
            surplus: 0,
        };
        self.slots.push(slot);
        match self.slots.len() {
            0..=FEW => {}
            // The map may hold positions of earlier requests. They are written again here.
            count if count == FEW + 1 => (0..count).for_each(|at| self.note_position(at)),
            count => self.note_position(count - 1),
        }
    }

    fn note_position(&mut self, at: usize) {
        let id = usize::from(self.slots[at].id);
        if self.positions.len() <= id {
            self.positions.resize(id + 1, 0);
        }
        self.positions[id] = at as u16;
    }

    fn position(&self, id: u16) -> Option<usize> {
        if self.slots.len() <= FEW {
            return self.slots.iter().position(|slot| slot.id == id);
        }
        // An id that left the table points to another request, or behind the last one.
        let at = usize::from(*self.positions.get(usize::from(id))?);
        (self.slots.get(at)?.id == id).then_some(at)
    }

    pub(super) fn get(&self, id: u16) -> Option<&RequestSlot> {
        self.position(id).map(|at| &self.slots[at])
    }

    pub(super) fn get_mut(&mut self, id: u16) -> Option<&mut RequestSlot> {
        self.position(id).map(|at| &mut self.slots[at])
    }

    /// The request of this task.
    pub(super) fn of_task(&self, task: TaskKey) -> Option<&RequestSlot> {
        self.slots.iter().find(|slot| slot.task == Some(task))
    }

    /// Requests that have a stream, and those that wait for their END_REQUEST only.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.slots.len() - self.draining, self.draining)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn remove(&mut self, id: u16) {
        let Some(at) = self.position(id) else { return };
        let slot = self.slots.swap_remove(at);
        self.full -= usize::from(slot.is_full());
        self.draining -= usize::from(slot.is_draining());
        match self.slots.len() {
            0..=FEW => {}
            count if at < count => self.note_position(at),
            _ => {}
        }
    }

    /// Adds output for the stream of a request and wakes it. Only counts the output behind a complete response.
    pub(super) fn append(&mut self, id: u16, payload: &[u8]) {
        let Some(slot) = self.position(id).map(|at| &mut self.slots[at]) else { return };
        if slot.is_draining() {
            slot.surplus += payload.len();
            self.has_surplus |= slot.surplus > MAX_SURPLUS;
            return;
        }
        let was_full = slot.is_full();
        slot.arrived.extend_from_slice(payload);
        self.full += usize::from(!was_full && slot.is_full());
        slot.wake();
    }

    /// Moves at most `room` bytes of a request's output behind `input`.
    pub(super) fn take(&mut self, id: u16, input: &mut Vec<u8>, room: usize) {
        let Some(slot) = self.position(id).map(|at| &mut self.slots[at]) else { return };
        let was_full = slot.is_full();
        if slot.arrived.len() <= room && input.is_empty() {
            std::mem::swap(input, &mut slot.arrived);
        } else {
            input.extend(slot.arrived.drain(..room.min(slot.arrived.len())));
        }
        self.full -= usize::from(was_full && !slot.is_full());
    }

    /// Drops the output behind a complete response, and lets the request wait for its end only.
    pub(super) fn drain(&mut self, id: u16) {
        let Some(slot) = self.position(id).map(|at| &mut self.slots[at]) else { return };
        self.full -= usize::from(slot.is_full());
        self.draining += usize::from(slot.task.take().is_some());
        slot.surplus += std::mem::take(&mut slot.arrived).len();
        self.has_surplus |= slot.surplus > MAX_SURPLUS;
    }

    /// Lets the task of a request wait until queued records are sent.
    pub(super) fn await_room(&mut self, id: u16) {
        let Some(slot) = self.position(id).map(|at| &mut self.slots[at]) else { return };
        slot.awaits_room = true;
        self.awaits_room = true;
    }

    /// Lets the tasks of all requests wait until queued records are sent.
    pub(super) fn await_room_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.awaits_room = true);
        self.awaits_room = true;
    }

    /// Wakes the tasks that wait until queued records are sent.
    pub(super) fn wake_for_room(&mut self) {
        if !std::mem::take(&mut self.awaits_room) {
            return;
        }
        for slot in &mut self.slots {
            if std::mem::take(&mut slot.awaits_room) {
                slot.wake();
            }
        }
    }

    pub(super) fn wake_all(&self) {
        self.slots.iter().for_each(RequestSlot::wake);
    }

    /// Whether a request has so much output that the connection is not read until its stream took it.
    pub(super) fn is_any_full(&self) -> bool {
        self.full > 0
    }

    /// Whether a request is complete for its stream, but the application has not ended it.
    pub(super) fn is_draining(&self) -> bool {
        self.draining > 0
    }

    /// Whether an application goes on with its output after a complete response.
    pub(super) fn has_surplus(&self) -> bool {
        self.has_surplus
    }
}

#[cfg(test)]
impl RequestTable {
    /// Bytes of output that streams did not take.
    pub(super) fn held(&self) -> usize {
        assert_eq!(self.full, self.slots.iter().filter(|slot| slot.is_full()).count());
        self.slots.iter().map(|slot| slot.arrived.len()).sum()
    }

    /// The task of the first request.
    pub(super) fn first_task(&self) -> TaskKey {
        self.slots[0].task.expect("a task")
    }
}

/// Requests that are found without a map.
const FEW: usize = 4;
/// Output of one request that is kept for its stream, in bytes, before the connection is not read any more. One bulk buffer more may come.
pub(super) const MAX_ARRIVED: usize = 64 * 1024;
/// Output after a complete response that is skipped, in bytes.
pub(super) const MAX_SURPLUS: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests begin and end in a fixed random order, around the sizes where the map begins, with ids that are used again.
    #[test]
    fn requests_are_found_by_their_ids() {
        let (mut table, mut ids, mut state) = (RequestTable::default(), Vec::new(), 1_u64);
        let mut random = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % bound
        };
        let mut sizes = [0; 20];
        for round in 0..20_000 {
            // It grows for a while, then it shrinks.
            let grows = random(10) < if round / 50 % 2 == 0 { 7 } else { 3 };
            if grows && ids.len() < sizes.len() - 1 {
                let id = loop {
                    let id = 1 + random(30) as u16;
                    if !ids.contains(&id) {
                        break id;
                    }
                };
                table.insert(id, TaskKey::NONE, 0);
                ids.push(id);
            } else if !ids.is_empty() {
                let id = ids.swap_remove(random(ids.len() as u64) as usize);
                table.remove(id);
            }
            sizes[ids.len()] += 1;
            for id in 0..40 {
                let found = table.get(id).map(|slot| slot.id);
                assert_eq!(found, ids.contains(&id).then_some(id), "round {round}");
            }
        }
        assert!(sizes.iter().all(|count| *count > 10), "{sizes:?}");
    }

    #[test]
    fn output_that_is_not_taken_is_counted_until_it_is() {
        let mut table = RequestTable::default();
        for id in 1..=6 {
            table.insert(id, TaskKey::NONE, 0);
            table.append(id, &vec![0; MAX_ARRIVED - 1]);
        }
        assert!(!table.is_any_full());
        (1..=6).for_each(|id| table.append(id, b"xy"));
        assert_eq!((table.full, table.held()), (6, 6 * (MAX_ARRIVED + 1)));
        // Taken in part, taken as a whole, dropped, and drained.
        table.take(1, &mut vec![0], 1);
        assert_eq!(table.full, 6, "it is still full");
        table.take(1, &mut vec![0], 1);
        table.take(2, &mut Vec::new(), usize::MAX);
        table.remove(3);
        table.drain(4);
        assert_eq!((table.full, table.draining), (2, 1));
        assert!(table.has_surplus() && table.is_draining());
        table.remove(4);
        [5, 6].into_iter().for_each(|id| table.remove(id));
        assert!(!table.is_any_full() && !table.is_draining());
        assert_eq!(table.held(), MAX_ARRIVED - 1);
    }
}
