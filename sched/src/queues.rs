//! The run queues of one worker: the order of execution in each class.
//!
//! Lists are threaded through the tasks themselves. Normal tasks run in order of an insertion index that counts this
//! worker's wakes alone (R2), adjusted by their `nice`. Those with `nice` 0, nearly all, arrive in that order
//! already and form a list; the others go into a small heap, and the two are merged when a task is picked.

use crate::policy::{CLASSES, Class, Load};
use crate::task::{NO_SLOT, Task};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weir_containers::Arena;

#[derive(Debug)]
pub(crate) struct RunQueues {
    lists: [TaskList; CLASSES],
    /// Tasks that woke themselves during this scheduling round. They run as bulk work in the next round, after a poll.
    deferred: TaskList,
    ordered: RefCell<BinaryHeap<Reverse<OrderedTask>>>,
    /// Number of normal tasks queued so far.
    index: Cell<u64>,
    /// One bit for each class that may have work, and one for deferred tasks (R21). A class with work always has its
    /// bit set. A bit without work is cleared at the next check.
    mask: Cell<u32>,
}

/// A normal task with a `nice`: sort position, then slot.
type OrderedTask = (u64, u32);

#[derive(Debug)]
struct TaskList {
    head: Cell<u32>,
    tail: Cell<u32>,
    length: Cell<u32>,
}

impl RunQueues {
    pub(crate) fn new() -> Self {
        Self {
            lists: [const { TaskList::new() }; CLASSES],
            deferred: TaskList::new(),
            ordered: RefCell::new(BinaryHeap::new()),
            index: Cell::new(INDEX_START),
            mask: Cell::new(0),
        }
    }

    /// Queues a task at the back of `class`.
    #[inline]
    pub(crate) fn push(&self, tasks: &Arena<Task>, slot: u32, task: &Task, class: Class, depth: u32) {
        self.mask.set(self.mask.get() | 1 << class as u32);
        if class == Class::Normal {
            let index = self.index.get() + 1;
            self.index.set(index);
            if task.nice.get() != 0 {
                return self.push_ordered(slot, task, index, depth);
            }
            task.index.set(index);
        }
        self.lists[class as usize].push(tasks, slot, task);
    }

    /// Queues a task at the front of `class`. A task with a `nice` is queued in its order instead.
    pub(crate) fn push_first(&self, tasks: &Arena<Task>, slot: u32, task: &Task, class: Class, depth: u32) {
        let list = &self.lists[class as usize];
        match tasks.get(list.head.get()).filter(|_| task.nice.get() == 0) {
            Some(first) => {
                task.index.set(first.index.get());
                list.push_first(slot, task);
            }
            None => self.push(tasks, slot, task, class, depth),
        }
    }

    /// Queues by `nice`: 1024 lets `depth` other tasks run first, -1024 overtakes as many.
    #[cold]
    fn push_ordered(&self, slot: u32, task: &Task, index: u64, depth: u32) {
        #[cfg(test)]
        count_push();
        let nice = i64::from(task.nice.get());
        // Positions count in halves of an index, so that a moved task never shares a position with one of the list.
        let offset = nice * i64::from(depth) / 1024 * 2 + nice.signum();
        self.mask.set(self.mask.get() | ORDERED);
        self.ordered.borrow_mut().push(Reverse(((index * 2).saturating_add_signed(offset), slot)));
    }

    /// Queues a task that woke itself.
    pub(crate) fn defer(&self, tasks: &Arena<Task>, slot: u32, task: &Task) {
        self.mask.set(self.mask.get() | DEFERRED);
        self.deferred.push(tasks, slot, task);
    }

    /// Begins a scheduling round: tasks that woke themselves in the last one join the bulk class.
    #[inline]
    pub(crate) fn begin_turn(&self, tasks: &Arena<Task>) {
        if self.mask.get() & DEFERRED != 0 {
            if self.deferred.head.get() != NO_SLOT {
                self.lists[Class::Bulk as usize].append(tasks, &self.deferred);
            }
            self.mask.set(self.mask.get() & !DEFERRED | 1 << Class::Bulk as u32);
        }
    }

    /// Takes the next task of `class`.
    #[inline]
    pub(crate) fn pop<'t>(&self, tasks: &'t Arena<Task>, class: usize) -> Option<(u32, &'t Task)> {
        if class == Class::Normal as usize && self.mask.get() & ORDERED != 0 {
            return self.pop_merged(tasks);
        }
        let popped = self.lists[class].pop(tasks);
        if self.lists[class].head.get() == NO_SLOT {
            self.mask.set(self.mask.get() & !(1 << class));
        }
        popped
    }

    #[cold]
    fn pop_merged<'t>(&self, tasks: &'t Arena<Task>) -> Option<(u32, &'t Task)> {
        let list = &self.lists[Class::Normal as usize];
        let first = tasks.get(list.head.get()).map(|task| task.index.get());
        let mut ordered = self.ordered.borrow_mut();
        let popped = match ordered.peek() {
            Some(Reverse((position, _))) if first.is_none_or(|index| *position < index * 2) => {
                ordered.pop().and_then(|Reverse((_, slot))| Some((slot, tasks.get(slot)?)))
            }
            _ => list.pop(tasks),
        };
        let none_left = if list.head.get() == NO_SLOT { 1 << Class::Normal as u32 } else { 0 };
        if ordered.is_empty() {
            self.mask.set(self.mask.get() & !(ORDERED | none_left));
        }
        popped
    }

    /// Whether `class` may have something to run.
    #[inline]
    pub(crate) fn has(&self, class: usize) -> bool {
        self.mask.get() & 1 << class != 0
    }

    /// Whether nothing waits at all.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.mask.get() == 0
    }

    #[inline]
    pub(crate) fn load(&self) -> Load {
        let mut queued: [u32; CLASSES] = std::array::from_fn(|class| self.lists[class].length.get());
        queued[Class::Normal as usize] += self.ordered.borrow().len() as u32;
        Load { queued }
    }

    /// Number of tasks that woke themselves and wait for the next scheduling round.
    pub(crate) fn deferred(&self) -> u32 {
        self.deferred.length.get()
    }

    /// How many tasks are queued.
    pub(crate) fn len(&self) -> u32 {
        self.load().queued.iter().sum::<u32>() + self.deferred.length.get()
    }
}

impl TaskList {
    const fn new() -> Self {
        Self { head: Cell::new(NO_SLOT), tail: Cell::new(NO_SLOT), length: Cell::new(0) }
    }

    #[inline]
    fn push(&self, tasks: &Arena<Task>, slot: u32, task: &Task) {
        #[cfg(test)]
        count_push();
        task.next.set(NO_SLOT);
        self.link(tasks, slot);
        self.tail.set(slot);
        self.length.set(self.length.get() + 1);
    }

    /// Puts a task before the first one. The queue must not be empty.
    fn push_first(&self, slot: u32, task: &Task) {
        #[cfg(test)]
        count_push();
        task.next.set(self.head.replace(slot));
        self.length.set(self.length.get() + 1);
    }

    /// Makes `slot` follow the tail.
    #[inline]
    fn link(&self, tasks: &Arena<Task>, slot: u32) {
        match tasks.get(self.tail.get()) {
            Some(last) => last.next.set(slot),
            None => self.head.set(slot),
        }
    }

    #[inline]
    fn pop<'t>(&self, tasks: &'t Arena<Task>) -> Option<(u32, &'t Task)> {
        let slot = self.head.get();
        let task = tasks.get(slot)?;
        let next = task.next.get();
        self.head.set(next);
        if next == NO_SLOT {
            self.tail.set(NO_SLOT);
        }
        self.length.set(self.length.get() - 1);
        Some((slot, task))
    }

    /// Moves all of `other` behind this list.
    fn append(&self, tasks: &Arena<Task>, other: &Self) {
        self.link(tasks, other.head.get());
        self.tail.set(other.tail.replace(NO_SLOT));
        other.head.set(NO_SLOT);
        self.length.set(self.length.get() + other.length.replace(0));
    }
}

/// High enough that a negative `nice` never reaches below zero.
const INDEX_START: u64 = 1 << 32;

/// The bit of deferred tasks, after the bits of the classes.
const DEFERRED: u32 = 1 << CLASSES;
/// The bit of normal tasks with a `nice`; the bit of their class is set, too.
const ORDERED: u32 = DEFERRED << 1;

/// How often a task entered a queue of the current thread.
#[cfg(test)]
pub(crate) fn pushes() -> u64 {
    PUSHES.get()
}

#[cfg(test)]
fn count_push() {
    PUSHES.set(PUSHES.get() + 1);
}

#[cfg(test)]
thread_local! {
    static PUSHES: Cell<u64> = const { Cell::new(0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPTH: u32 = 1024;

    struct QueueBench {
        tasks: Arena<Task>,
        queues: RunQueues,
    }

    impl QueueBench {
        fn new() -> Self {
            let tasks = Arena::new();
            for _ in 0..64 {
                tasks.push_default();
            }
            Self { tasks, queues: RunQueues::new() }
        }

        fn push(&self, slot: u32, class: Class, nice: i16) {
            let task = self.tasks.get(slot).expect("64 slots");
            task.nice.set(nice);
            self.queues.push(&self.tasks, slot, task, class, DEPTH);
        }

        fn drain(&self, class: Class) -> Vec<u32> {
            let mut next = || self.queues.pop(&self.tasks, class as usize).map(|(slot, _)| slot);
            std::iter::from_fn(&mut next).collect()
        }
    }

    #[test]
    fn tasks_of_a_class_run_in_fifo_order() {
        let bench = QueueBench::new();
        for slot in [5, 3, 9] {
            bench.push(slot, Class::Urgent, 0);
        }
        bench.push(1, Class::Bulk, 0);
        assert_eq!(bench.queues.load().queued, [3, 0, 1, 0]);
        assert_eq!(bench.drain(Class::Urgent), [5, 3, 9]);
        assert_eq!((bench.queues.len(), bench.queues.is_empty()), (1, false));
        assert_eq!(bench.drain(Class::Bulk), [1]);
        assert!(bench.queues.is_empty());
    }

    #[test]
    fn nice_moves_a_task_within_the_normal_class() {
        let bench = QueueBench::new();
        for slot in 0..6 {
            bench.push(slot, Class::Normal, 0);
        }
        bench.push(10, Class::Normal, -3);
        bench.push(11, Class::Normal, 1);
        for slot in 6..9 {
            bench.push(slot, Class::Normal, 0);
        }
        assert_eq!(
            bench.drain(Class::Normal),
            [0, 1, 2, 10, 3, 4, 5, 6, 11, 7, 8].map(|slot| slot as u32).to_vec()
        );
    }

    #[test]
    fn a_self_woken_task_waits_for_the_next_turn() {
        let bench = QueueBench::new();
        bench.push(1, Class::Bulk, 0);
        for slot in [2, 3] {
            bench.queues.defer(&bench.tasks, slot, bench.tasks.get(slot).expect("64 slots"));
        }
        assert_eq!(bench.drain(Class::Bulk), [1]);
        assert!(!bench.queues.is_empty());
        bench.push(4, Class::Bulk, 0);
        bench.queues.begin_turn(&bench.tasks);
        assert_eq!(bench.drain(Class::Bulk), [4, 2, 3]);
        assert!(bench.queues.is_empty());
    }

    /// R188: one is taken out of the row; all others keep their order, and those with a `nice` their places.
    #[test]
    fn push_first_puts_a_task_at_the_front_of_its_class() {
        let bench = QueueBench::new();
        let push_first = |slot: u32, class, nice| {
            let task = bench.tasks.get(slot).expect("64 slots");
            task.nice.set(nice);
            bench.queues.push_first(&bench.tasks, slot, task, class, DEPTH);
        };
        push_first(1, Class::Normal, 0);
        bench.push(2, Class::Normal, 0);
        push_first(3, Class::Normal, 0);
        bench.push(4, Class::Bulk, 0);
        push_first(5, Class::Bulk, 0);
        assert_eq!(bench.queues.load().queued, [0, 3, 2, 0]);
        assert_eq!(bench.drain(Class::Normal), [3, 1, 2]);
        assert_eq!(bench.drain(Class::Bulk), [5, 4]);
        assert!(bench.queues.is_empty());
        for slot in 0..6 {
            bench.push(slot, Class::Normal, 0);
        }
        bench.push(10, Class::Normal, -3);
        push_first(11, Class::Normal, 1);
        push_first(12, Class::Normal, 0);
        bench.push(13, Class::Normal, 0);
        assert_eq!(bench.drain(Class::Normal), [12, 0, 1, 2, 10, 3, 4, 5, 13, 11]);
        assert!(bench.queues.is_empty());
    }

    /// R8, R21: a bit without work leads to one look, which clears it.
    #[test]
    fn the_bit_of_an_empty_queue_is_cleared_when_checked() {
        let bench = QueueBench::new();
        bench.queues.mask.set(0b111111);
        assert!(!bench.queues.is_empty() && bench.queues.has(Class::Heavy as usize));
        assert_eq!((bench.queues.load(), bench.queues.len()), (Load::default(), 0));
        bench.queues.begin_turn(&bench.tasks);
        for class in 0..CLASSES {
            assert!(bench.queues.pop(&bench.tasks, class).is_none());
        }
        assert!(bench.queues.is_empty());
    }
}
