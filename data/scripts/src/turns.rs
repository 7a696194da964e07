//! The turns of tasks for a state that other threads use.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use weir_sched::{TaskKey, Tick};

/// Tasks that wait for a state, in the order of their arrival. The one in front is woken when the state is free.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: Mutex<TurnQueue>,
    /// The length of the queue, to be read without its lock.
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct TurnQueue {
    tasks: VecDeque<TaskKey>,
    /// The number of the turn in front.
    first: u64,
}

/// The number of a task's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn(u64);

impl Turn {
    /// When a task that waits for its turn looks again although nothing woke it.
    pub fn retry_at() -> Tick {
        weir_sched::now().after(RETRY_MS)
    }
}

impl Turns {
    /// Whether any task waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.length.load(Ordering::SeqCst) == 0
    }

    /// Lets a task wait, unless its turn is still to come.
    pub(crate) fn enlist(&self, task: TaskKey, turn: &mut Option<Turn>) {
        let mut queue = self.lock();
        if turn.is_some_and(|turn| turn.0 >= queue.first) {
            return;
        }
        *turn = Some(Turn(queue.first + queue.tasks.len() as u64));
        queue.tasks.push_back(task);
        self.length.store(queue.tasks.len(), Ordering::SeqCst);
    }

    /// Whether the task with this turn has waited, and was woken.
    pub(crate) fn has_come(&self, turn: Option<Turn>) -> bool {
        turn.is_some_and(|turn| turn.0 < self.lock().first)
    }

    /// Wakes the next task. The state is free.
    pub(crate) fn wake_next(&self) {
        if self.is_empty() {
            return;
        }
        let next = {
            let mut queue = self.lock();
            let next = queue.tasks.pop_front();
            queue.first += u64::from(next.is_some());
            self.length.store(queue.tasks.len(), Ordering::SeqCst);
            next
        };
        next.into_iter().for_each(weir_sched::wake);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, TurnQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In milliseconds.
const RETRY_MS: u64 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bits: u64) -> TaskKey {
        TaskKey::from_bits(bits)
    }

    #[test]
    fn tasks_have_their_turn_in_the_order_of_their_arrival() {
        let turns = Turns::default();
        let [mut one, mut two] = [None, None];
        assert!(turns.is_empty());
        turns.enlist(key(1 << 40), &mut one);
        turns.enlist(key(2 << 40), &mut two);
        // A task that looks again keeps its place.
        turns.enlist(key(1 << 40), &mut one);
        assert_eq!((one, two), (Some(Turn(0)), Some(Turn(1))));
        turns.wake_next();
        assert!(turns.has_come(one) && !turns.has_come(two) && !turns.is_empty());
        // Another thread was faster: a new turn, behind the others.
        turns.enlist(key(1 << 40), &mut one);
        assert_eq!(one, Some(Turn(2)));
        turns.wake_next();
        turns.wake_next();
        turns.wake_next();
        assert!(turns.is_empty() && turns.has_come(one) && turns.has_come(two) && !turns.has_come(None));
    }
}
