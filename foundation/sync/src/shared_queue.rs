//! The run queue shared by several threads: task numbers in order, each eligible for a set of threads.
//!
//! Numbers with the same set of threads are in one lane. A thread finds its next number by comparing the heads of its lanes, and
//! never scans numbers of other threads. Programs use few sets. One lock protects all lanes and is held for a batch. No counter
//! is updated under the lock (R9, R10). The length is incremented before an insertion and decremented after a batch is removed,
//! so it is never too low.

use crate::lock_label::{Lock, LockLabel};
use crate::primitives::{AtomicUsize, Ordering};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Label of the lock in profiles.
static LABEL: LockLabel = LockLabel::new("TASK_RQ");

/// A queue of numbers, ordered by an insertion index of this queue only (R2).
#[derive(Debug)]
pub struct SharedQueue {
    lanes: Lock<Lanes>,
    length: AtomicUsize,
}

#[derive(Debug)]
struct Lanes {
    lanes: Vec<Lane>,
    index: u64,
}

/// The queued numbers for one set of threads.
#[derive(Debug)]
struct Lane {
    threads: ThreadMask,
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Default for SharedQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl SharedQueue {
    /// An empty queue.
    pub fn new() -> Self {
        let lanes = Lanes { lanes: Vec::new(), index: INDEX_START };
        Self { lanes: Lock::new(lanes, &LABEL), length: AtomicUsize::new(0) }
    }

    /// Queues `number` for `threads`, in the position of an insertion `later` insertions later (earlier if negative).
    pub fn push(&self, threads: &ThreadMask, number: u32, later: i64) {
        self.length.fetch_add(1, Ordering::Relaxed);
        let mut lanes = self.lanes.lock();
        lanes.index += 1;
        // A position is twice the index, so that a moved number never shares a position with an unmoved one.
        let position = (lanes.index * 2).saturating_add_signed(later * 2 + later.signum());
        lanes.lane(threads).waiting.push(Reverse((position, number)));
    }

    /// Queues `number` for `threads` before all others. For a killed task, which takes little time to end.
    pub fn push_first(&self, threads: &ThreadMask, number: u32) {
        self.length.fetch_add(1, Ordering::Relaxed);
        self.lanes.lock().lane(threads).waiting.push(Reverse((0, number)));
    }

    /// Takes at most `room` numbers eligible for `thread`, in order. Returns their count. Calls `receive` without the
    /// lock, so it may queue numbers.
    pub fn pick(&self, thread: usize, room: usize, mut receive: impl FnMut(u32)) -> usize {
        let mut count = 0;
        while count < room {
            let mut batch = [0; BATCH];
            let taken = self.lanes.lock().take(thread, &mut batch[..BATCH.min(room - count)]);
            self.length.fetch_sub(taken, Ordering::Relaxed);
            count += taken;
            batch[..taken].iter().for_each(|&number| receive(number));
            if taken < BATCH {
                break;
            }
        }
        count
    }

    /// Number of queued numbers for all threads, including insertions in progress. Read without the lock, so it may be outdated.
    #[inline]
    pub fn len(&self) -> usize {
        self.length.load(Ordering::Relaxed)
    }

    /// Whether the queue is empty. Read without the lock, so it may be outdated.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a number is queued for `thread`. Takes the lock only if the queue is not empty.
    pub fn has_for(&self, thread: usize) -> bool {
        let waits = |lane: &Lane| !lane.waiting.is_empty() && lane.threads.contains(thread);
        !self.is_empty() && self.lanes.lock().lanes.iter().any(waits)
    }
}

impl Lanes {
    fn lane(&mut self, threads: &ThreadMask) -> &mut Lane {
        let same = self.lanes.iter().position(|lane| lane.threads == *threads);
        // Reuse an empty lane for another set, so that lanes never outnumber the sets with queued numbers.
        let at = same.or_else(|| self.lanes.iter().position(|lane| lane.waiting.is_empty()));
        let at = at.unwrap_or_else(|| {
            self.lanes.push(Lane { threads: *threads, waiting: BinaryHeap::new() });
            self.lanes.len() - 1
        });
        self.lanes[at].threads = *threads;
        &mut self.lanes[at]
    }

    fn take(&mut self, thread: usize, batch: &mut [u32]) -> usize {
        for (count, place) in batch.iter_mut().enumerate() {
            let lanes = self.lanes.iter_mut().filter(|lane| lane.threads.contains(thread));
            let first = lanes.filter(|lane| !lane.waiting.is_empty());
            let Some(lane) = first.max_by_key(|lane| lane.waiting.peek().copied()) else { return count };
            let Some(Reverse((_, number))) = lane.waiting.pop() else { return count };
            *place = number;
        }
        batch.len()
    }
}

/// A set of threads of a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadMask([u64; WORDS]);

impl ThreadMask {
    /// Maximum number of threads in a set.
    pub const LIMIT: usize = WORDS * 64;

    /// The empty set.
    pub const fn none() -> Self {
        Self([0; WORDS])
    }

    /// The first `count` threads.
    pub fn all(count: usize) -> Self {
        (0..count).collect()
    }

    /// A set of one thread.
    pub fn one(thread: usize) -> Self {
        std::iter::once(thread).collect()
    }

    /// Adds a thread. Ignores a number beyond [`ThreadMask::LIMIT`].
    pub fn insert(&mut self, thread: usize) {
        if let Some(word) = self.0.get_mut(thread / 64) {
            *word |= 1 << (thread % 64);
        }
    }

    /// Whether the set contains `thread`.
    #[inline]
    pub fn contains(&self, thread: usize) -> bool {
        self.0.get(thread / 64).is_some_and(|word| word & 1 << (thread % 64) != 0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The threads of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = left.checked_ilog2().map(|_| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

impl FromIterator<usize> for ThreadMask {
    fn from_iter<I: IntoIterator<Item = usize>>(threads: I) -> Self {
        let mut set = Self::none();
        threads.into_iter().for_each(|thread| set.insert(thread));
        set
    }
}

const WORDS: usize = 16;
/// Maximum number of numbers taken per acquisition of the lock.
const BATCH: usize = 16;
/// First insertion index. High enough that numbers moved forward stay behind killed tasks, which have position 0.
const INDEX_START: u64 = 1 << 32;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn picked(queue: &SharedQueue, thread: usize, room: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        queue.pick(thread, room, |number| numbers.push(number));
        numbers
    }

    /// R2: order of insertion over all sets, moved by the caller's offset. Killed tasks come first.
    #[test]
    fn shared_tasks_are_picked_in_insertion_order_with_offsets() {
        let queue = SharedQueue::new();
        let (all, second) = (ThreadMask::all(3), ThreadMask::one(1));
        for number in 0..6 {
            queue.push(if number % 2 == 0 { &all } else { &second }, number, 0);
        }
        queue.push(&all, 10, -3);
        queue.push(&second, 11, -100);
        queue.push_first(&all, 12);
        assert_eq!(
            (queue.len(), queue.has_for(1), queue.has_for(2), queue.has_for(3)),
            (9, true, true, false)
        );
        assert_eq!(picked(&queue, 1, 4), [12, 11, 0, 1]);
        assert_eq!(picked(&queue, 2, 100), [2, 10, 4]);
        assert!(!queue.has_for(0) && !queue.is_empty());
        assert_eq!(picked(&queue, 1, 100), [3, 5]);
        assert_eq!((queue.len(), picked(&queue, 1, 100)), (0, vec![]));
    }

    /// R56: never more than `room`, over all batches.
    #[test]
    fn a_pick_never_takes_more_tasks_than_its_room() {
        let queue = SharedQueue::new();
        for number in 0..100 {
            queue.push(&ThreadMask::all(1), number, 0);
        }
        assert_eq!(picked(&queue, 0, 40), (0..40).collect::<Vec<_>>());
        assert_eq!((queue.len(), picked(&queue, 0, 0).len(), picked(&queue, 0, 1000).len()), (60, 0, 60));
    }

    /// R9, R10: the length is decremented once per batch, before the batch runs, instead of once per number.
    #[test]
    fn the_queue_length_decreases_once_per_batch() {
        let queue = SharedQueue::new();
        for number in 0..40 {
            queue.push(&ThreadMask::all(1), number, 0);
        }
        let mut lengths = Vec::new();
        assert_eq!(queue.pick(0, 35, |_| lengths.push(queue.len())), 35);
        let expected = [vec![40 - BATCH; BATCH], vec![40 - 2 * BATCH; BATCH], vec![5; 3]].concat();
        assert_eq!(lengths, expected);
    }

    /// R9, R10: one update of the length per insertion and per batch removed, each without the lock.
    #[cfg(debug_assertions)]
    #[test]
    fn the_queue_length_is_updated_once_per_batch_without_the_lock() {
        use crate::atomic::{Operations, operations};
        let queue = SharedQueue::new();
        let of = |work: &mut dyn FnMut()| {
            let before = operations();
            work();
            operations() - before
        };
        let changes = |count| Operations { read_modify_writes: count, locks: count, ..Operations::default() };
        assert_eq!(
            of(&mut || (0..40).for_each(|number| queue.push(&ThreadMask::all(1), number, 0))),
            changes(40)
        );
        assert_eq!(of(&mut || queue.push_first(&ThreadMask::all(1), 40)), changes(1));
        assert_eq!(of(&mut || assert_eq!(queue.pick(0, 35, |_| ()), 35)), changes(3));
        assert_eq!(queue.len(), 6);
    }

    /// R72: the length is readable while another thread holds the lock.
    #[test]
    fn the_queue_length_is_readable_while_the_lock_is_held() {
        let queue = SharedQueue::new();
        queue.push(&ThreadMask::all(1), 7, 0);
        let held = queue.lanes.lock();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send((queue.len(), queue.is_empty())));
            let seen = receiver.recv_timeout(std::time::Duration::from_secs(20));
            drop(held);
            assert_eq!(seen, Ok((1, false)));
        });
        // A second pick finds an empty queue and takes nothing.
        assert_eq!((picked(&queue, 0, 9).len(), picked(&queue, 0, 9).len()), (1, 0));
        assert!(queue.is_empty() && !queue.has_for(0));
    }

    #[test]
    fn a_thread_mask_contains_exactly_its_threads() {
        let set: ThreadMask = [0, 63, 64, 1023, 1024].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 1023]);
        assert!(ThreadMask::none().is_empty() && !set.is_empty() && !set.contains(5000));
    }
}
