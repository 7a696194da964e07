//! A queue of deadlines, at most one per identifier.
//!
//! A 4-ary heap of (deadline, identifier) with an index of positions, so that a deadline can be changed or removed. The
//! scheduler rarely updates it. A deadline that only moves later keeps its early entry, and is reinserted when that
//! entry expires.

/// Deadlines ordered by time, one for each identifier.
#[derive(Debug, Default)]
pub struct TimerQueue {
    heap: Vec<TimerEntry>,
    /// Heap position of each identifier, or [`ABSENT`].
    positions: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct TimerEntry {
    deadline: u64,
    identifier: u32,
}

impl TimerQueue {
    /// A queue without deadlines.
    pub const fn new() -> Self {
        Self { heap: Vec::new(), positions: Vec::new() }
    }

    /// The earliest deadline and its identifier; `None` if the queue is empty.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().map(|entry| (entry.deadline, entry.identifier))
    }

    /// The deadline of `identifier`. `None` without one.
    pub fn deadline(&self, identifier: u32) -> Option<u64> {
        let position = self.position(identifier)?;
        Some(self.heap[position].deadline)
    }

    /// Sets or replaces the deadline of `identifier`.
    pub fn set(&mut self, identifier: u32, deadline: u64) {
        let entry = TimerEntry { deadline, identifier };
        match self.position(identifier) {
            Some(position) => self.replace(position, entry),
            None => {
                let index = identifier as usize;
                if self.positions.len() <= index {
                    self.positions.resize(index + 1, ABSENT);
                }
                self.heap.push(entry);
                self.rise(self.heap.len() - 1, entry);
            }
        }
    }

    /// Removes and returns the deadline of `identifier`. `None` without one.
    pub fn remove(&mut self, identifier: u32) -> Option<u64> {
        let position = self.position(identifier)?;
        let deadline = self.heap[position].deadline;
        self.positions[identifier as usize] = ABSENT;
        let last = self.heap.pop().expect("an identifier with a position is in the heap");
        if position < self.heap.len() {
            self.replace(position, last);
        }
        Some(deadline)
    }

    /// Number of deadlines.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Panics unless the heap is ordered and the positions agree with it.
    pub fn check_invariants(&self) {
        for (position, entry) in self.heap.iter().enumerate() {
            assert_eq!(self.positions[entry.identifier as usize] as usize, position);
            if position > 0 {
                assert!(self.heap[(position - 1) / WAYS].deadline <= entry.deadline);
            }
        }
        assert_eq!(self.positions.iter().filter(|&&position| position != ABSENT).count(), self.heap.len());
    }

    #[inline]
    fn position(&self, identifier: u32) -> Option<usize> {
        match self.positions.get(identifier as usize) {
            Some(&position) if position != ABSENT => Some(position as usize),
            _ => None,
        }
    }

    /// Stores `entry` at `position` and restores the heap order.
    fn replace(&mut self, position: usize, entry: TimerEntry) {
        if entry.deadline < self.heap[position].deadline {
            self.rise(position, entry);
        } else {
            self.sink(position, entry);
        }
    }

    /// Moves `entry` from `position` towards the root until its parent is not later.
    fn rise(&mut self, mut position: usize, entry: TimerEntry) {
        while position > 0 {
            let parent = (position - 1) / WAYS;
            if self.heap[parent].deadline <= entry.deadline {
                break;
            }
            self.place(position, self.heap[parent]);
            position = parent;
        }
        self.place(position, entry);
    }

    /// Moves `entry` from `position` towards the leaves until no child is earlier.
    fn sink(&mut self, mut position: usize, entry: TimerEntry) {
        loop {
            let first = position * WAYS + 1;
            let children = first..self.heap.len().min(first + WAYS);
            let Some(least) = children.min_by_key(|&child| self.heap[child].deadline) else { break };
            if self.heap[least].deadline >= entry.deadline {
                break;
            }
            self.place(position, self.heap[least]);
            position = least;
        }
        self.place(position, entry);
    }

    #[inline]
    fn place(&mut self, position: usize, entry: TimerEntry) {
        self.heap[position] = entry;
        self.positions[entry.identifier as usize] = position as u32;
    }
}

/// Children per node. Four give half the levels of a binary heap, and the children share a cache line.
const WAYS: usize = 4;
const ABSENT: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn an_empty_timer_queue_returns_none() {
        let mut timers = TimerQueue::new();
        assert_eq!((timers.first(), timers.deadline(3), timers.remove(3)), (None, None, None));
    }

    #[test]
    fn timers_are_returned_in_deadline_order() {
        let mut timers = TimerQueue::new();
        for (identifier, deadline) in [(0, 30), (1, 10), (2, 20), (1, 40)] {
            timers.set(identifier, deadline);
        }
        let mut order = Vec::new();
        while let Some((deadline, identifier)) = timers.first() {
            timers.remove(identifier);
            order.push((deadline, identifier));
        }
        assert_eq!(order, [(20, 2), (30, 0), (40, 1)]);
    }

    #[derive(Debug, Clone)]
    enum TimerOperation {
        Set(u32, u64),
        Remove(u32),
        Pop,
    }

    fn step() -> impl Strategy<Value = TimerOperation> {
        prop_oneof![
            4 => (0..40_u32, 0..100_u64).prop_map(|(identifier, deadline)| TimerOperation::Set(identifier, deadline)),
            1 => (0..40_u32).prop_map(TimerOperation::Remove),
            1 => Just(TimerOperation::Pop),
        ]
    }

    proptest! {
        #[test]
        fn the_timer_queue_behaves_like_a_sorted_map(steps in prop::collection::vec(step(), 0..300)) {
            let mut timers = TimerQueue::new();
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            for step in steps {
                match step {
                    TimerOperation::Set(identifier, deadline) => {
                        timers.set(identifier, deadline);
                        model.insert(identifier, deadline);
                    }
                    TimerOperation::Remove(identifier) => {
                        prop_assert_eq!(timers.remove(identifier), model.remove(&identifier));
                    }
                    TimerOperation::Pop => {
                        prop_assert_eq!(timers.first().map(|(deadline, _)| deadline), model.values().min().copied());
                        if let Some((deadline, identifier)) = timers.first() {
                            timers.remove(identifier);
                            prop_assert_eq!(model.remove(&identifier), Some(deadline));
                        }
                    }
                }
                timers.check_invariants();
                prop_assert_eq!(timers.len(), model.len());
                for identifier in 0..40 {
                    prop_assert_eq!(timers.deadline(identifier), model.get(&identifier).copied());
                }
            }
        }
    }
}
