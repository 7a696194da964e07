//! The scheduler's record of one task.

use crate::policy::Class;
use crate::tick::Tick;
use std::cell::Cell;
use std::panic::Location;
use weir_containers::PooledFuture;

/// A kind of work, as named in profiles and dumps. Define one `static` next to the code of that work.
#[derive(Debug)]
pub struct WorkKind {
    /// Its name for operators.
    pub name: &'static str,
    /// The source location of its definition.
    pub place: &'static Location<'static>,
}

impl WorkKind {
    /// The kind of work that operators see as `name`.
    #[track_caller]
    pub const fn new(name: &'static str) -> Self {
        Self { name, place: Location::caller() }
    }
}

/// A slot of the worker's slab; occupied while it holds a future or that future runs.
///
/// ```text
///               wake: QUEUED                 picked: RUNNING
///   waiting ─────────────────────► queued ────────────────────► running ──► ended
///      ▲                              ▲                            │
///      └──────────────────────────────┼────────────── pending ─────┤
///                                     └── pending, WOKEN by itself ┘
/// ```
pub(crate) struct Task {
    /// `None` while the task runs.
    pub(crate) future: Cell<Option<PooledFuture<'static>>>,
    pub(crate) kind: Cell<Option<&'static WorkKind>>,
    /// When to wake the task if no event does.
    pub(crate) deadline: Cell<Tick>,
    /// Time of its entry in the timer queue, at or before the deadline. `NEVER` without an entry.
    pub(crate) timer: Cell<Tick>,
    /// Sort key among the queued normal tasks.
    pub(crate) index: Cell<u64>,
    pub(crate) generation: Cell<u32>,
    /// The next slot in the list that contains this one.
    pub(crate) next: Cell<u32>,
    /// A set of the bits below (R17: 32 of them).
    pub(crate) state: Cell<u32>,
    pub(crate) nice: Cell<i16>,
    pub(crate) class: Cell<Class>,
}

/// The task is in one of the run queues.
pub(crate) const QUEUED: u32 = 1;
/// The task is running.
pub(crate) const RUNNING: u32 = 1 << 1;
/// The task was woken during its run, so it runs again.
pub(crate) const WOKEN: u32 = 1 << 2;
/// The task must end without running again.
pub(crate) const KILLED: u32 = 1 << 3;
/// The task was woken by something other than its deadline.
pub(crate) const EVENT: u32 = 1 << 4;
/// The slot holds a task.
pub(crate) const OCCUPIED: u32 = 1 << 5;
/// Reserved for the application, kept between runs (R19).
pub(crate) const FLAG: u32 = 1 << 31;

/// The end of a list of slots.
pub(crate) const NO_SLOT: u32 = u32::MAX;

impl Default for Task {
    fn default() -> Self {
        Self {
            future: Cell::new(None),
            kind: Cell::new(None),
            deadline: Cell::new(Tick::NEVER),
            timer: Cell::new(Tick::NEVER),
            index: Cell::new(0),
            generation: Cell::new(1),
            next: Cell::new(NO_SLOT),
            state: Cell::new(0),
            nice: Cell::new(0),
            class: Cell::new(Class::Normal),
        }
    }
}

// One cache line, so that waking and running a task touches few of them.
const _: () = assert!(size_of::<Task>() <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    /// R17: 32 bits, each of its own, and the application's is the highest: narrower copies would lose it.
    #[test]
    fn a_task_state_has_32_bits_with_distinct_flags() {
        let state: Cell<u32> = Task::default().state;
        let bits = [QUEUED, RUNNING, WOKEN, KILLED, EVENT, OCCUPIED, FLAG];
        assert_eq!(bits.iter().map(|bit| bit.count_ones()).sum::<u32>(), bits.len() as u32);
        assert_eq!(bits.iter().fold(0, |all, bit| all | bit).count_ones(), bits.len() as u32);
        state.set(FLAG);
        assert_eq!((state.get().leading_zeros(), FLAG as u16), (0, 0));
    }
}
