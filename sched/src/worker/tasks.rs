//! The life of a task on its worker: spawn, wake, kill, end.

use super::{STAND_IN, Worker};
use crate::key::TaskKey;
use crate::policy::Class;
use crate::profile::Cause;
use crate::task::{EVENT, KILLED, NO_SLOT, OCCUPIED, QUEUED, RUNNING, Task, WOKEN, WorkKind};
use crate::tick::Tick;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use weir_containers::PooledFuture;

impl Worker {
    /// Sets the deadline that wakes `task` at the latest. A deadline later than the entry in the timer queue is only
    /// stored in the task. Most waits end earlier, and the queue is updated when the entry expires.
    #[inline]
    pub(crate) fn set_deadline(&self, task: &Task, deadline: Tick) {
        if deadline >= task.deadline.get() {
            return;
        }
        task.deadline.set(deadline);
        if deadline < task.timer.get() {
            // R60: a shared task's deadline belongs to the global wait queue.
            debug_assert_ne!(
                self.running_slot.get(),
                STAND_IN,
                "a timer of this worker is for its own tasks"
            );
            task.timer.set(deadline);
            self.timers.borrow_mut().set(self.running_slot.get(), deadline.as_ms());
        }
    }

    #[track_caller]
    pub(super) fn spawn(
        &self,
        kind: &'static WorkKind,
        class: Class,
        future: PooledFuture<'static>,
    ) -> TaskKey {
        let Some((slot, task)) = self.take_slot() else {
            self.shared.activity.refused.increment();
            return TaskKey::NONE;
        };
        task.future.set(Some(future));
        task.kind.set(Some(kind));
        task.class.set(class);
        task.nice.set(0);
        task.state.set(OCCUPIED);
        self.shared.activity.spawned.increment();
        if self.profiler.is_on() {
            self.profiler.begin_task(slot);
        }
        self.enqueue(slot, task, Cause::Spawn, false);
        TaskKey::new(self.id, slot, task.generation.get())
    }

    fn take_slot(&self) -> Option<(u32, &Task)> {
        let slot = match self.free.get() {
            NO_SLOT => self.tasks.push_default()?,
            slot => slot,
        };
        let task = self.tasks.get(slot)?;
        if slot == self.free.get() {
            self.free.set(task.next.get());
        }
        Some((slot, task))
    }

    /// Wakes a task of this worker.
    #[inline]
    #[track_caller]
    pub(crate) fn wake(&self, key: TaskKey, cause: Cause) {
        let slot = key.slot();
        match self.tasks.get(slot) {
            Some(task) if task.generation.get() == key.generation() => self.wake_task(slot, task, cause),
            _ => {}
        }
    }

    #[inline]
    #[track_caller]
    pub(super) fn wake_task(&self, slot: u32, task: &Task, cause: Cause) {
        self.wake_in_order(slot, task, cause, false);
    }

    /// Wakes a task of this worker, at the front of its class if it was not queued.
    #[inline]
    #[track_caller]
    pub(crate) fn wake_next(&self, key: TaskKey) {
        match self.tasks.get(key.slot()) {
            Some(task) if task.generation.get() == key.generation() => {
                self.wake_in_order(key.slot(), task, Cause::Wake, true);
            }
            _ => {}
        }
    }

    #[inline]
    #[track_caller]
    fn wake_in_order(&self, slot: u32, task: &Task, cause: Cause, is_first: bool) {
        let state = task.state.get();
        if state & (QUEUED | RUNNING) == 0 && state & OCCUPIED != 0 {
            return self.enqueue(slot, task, cause, is_first);
        }
        let again = if state & RUNNING != 0 { WOKEN } else { 0 };
        task.state.set(state | reason(cause) | again);
        if again != 0 && self.profiler.is_on() {
            self.note(slot, cause);
        }
    }

    #[inline]
    #[track_caller]
    fn enqueue(&self, slot: u32, task: &Task, cause: Cause, is_first: bool) {
        task.state.set(task.state.get() | QUEUED | reason(cause));
        let (class, depth) = (task.class.get(), self.tuning.runqueue_depth);
        match is_first {
            true => self.queues.push_first(&self.tasks, slot, task, class, depth),
            false => self.queues.push(&self.tasks, slot, task, class, depth),
        }
        if self.profiler.is_on() {
            self.note(slot, cause);
        }
    }

    /// The kind of a task of this worker. `None` if the key belongs to another worker or is invalid.
    pub(crate) fn kind_of(&self, key: TaskKey) -> Option<&'static WorkKind> {
        let task = self.tasks.get(key.slot()).filter(|_| key.worker() == self.id)?;
        task.kind.get().filter(|_| task.generation.get() == key.generation())
    }

    /// Queues a task that woke itself, as bulk work for the next round. Heavy work stays heavy.
    pub(super) fn requeue(&self, slot: u32, task: &Task, reason: u32) {
        task.state.set(task.state.get() | QUEUED | reason);
        if task.class.get() == Class::Heavy {
            self.queues.push(&self.tasks, slot, task, Class::Heavy, self.tuning.runqueue_depth);
        } else {
            self.queues.defer(&self.tasks, slot, task);
        }
        if self.profiler.is_on() {
            // A wake during the run has already recorded its cause. Otherwise the task yielded.
            self.note(slot, Cause::Yield);
        }
    }

    /// Records when and where a task was woken. Wakes by the poller and by timers get the time at the start of the loop iteration.
    #[cold]
    #[track_caller]
    fn note(&self, slot: u32, cause: Cause) {
        let date_ns = match cause {
            Cause::Event | Cause::Deadline => self.now_ns.get(),
            _ => self.clock.monotonic_ns(),
        };
        self.profiler.note(slot, date_ns, cause, Location::caller());
    }

    #[track_caller]
    pub(super) fn kill(&self, key: TaskKey) {
        let slot = key.slot();
        match self.tasks.get(slot) {
            Some(task) if task.generation.get() == key.generation() => self.kill_task(slot, task),
            _ => {}
        }
    }

    /// Kills a task. A queued or running task is only marked. A waiting task is queued as urgent and ends there.
    #[track_caller]
    pub(super) fn kill_task(&self, slot: u32, task: &Task) {
        let state = task.state.get();
        if state & OCCUPIED == 0 {
            return;
        }
        task.state.set(state | KILLED);
        if state & (QUEUED | RUNNING) == 0 {
            task.state.set(state | KILLED | QUEUED);
            self.queues.push(&self.tasks, slot, task, Class::Urgent, self.tuning.runqueue_depth);
            if self.profiler.is_on() {
                self.note(slot, Cause::Kill);
            }
        }
    }

    /// Drops a task's future and frees its slot.
    pub(super) fn end(&self, slot: u32, task: &Task, future: Option<PooledFuture<'static>>) {
        // Wakes that destructors send to this task must not queue it again.
        task.state.set(OCCUPIED | RUNNING);
        dispose(future);
        self.leave();
        if !task.timer.get().is_never() {
            self.timers.borrow_mut().remove(slot);
            task.timer.set(Tick::NEVER);
        }
        task.deadline.set(Tick::NEVER);
        task.kind.set(None);
        task.state.set(0);
        // Generation 0 is not used, because a key with it could equal `NONE`.
        task.generation.set(task.generation.get().wrapping_add(1).max(1));
        task.next.set(self.free.replace(slot));
        self.shared.activity.ended.increment();
    }
}

/// The bit that a cause sets in the task's state.
#[inline]
fn reason(cause: Cause) -> u32 {
    if cause == Cause::Deadline { 0 } else { EVENT }
}

/// Drops a value and catches a panic of its destructor.
pub(crate) fn dispose<T>(value: Option<T>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

#[cfg(debug_assertions)]
#[cfg(test)]
mod tests {
    use super::*;
    use crate::SchedulerTuning;
    use crate::simulate::{Faults, SimulatedWorld};

    /// R60: a deadline of shared work never enters a worker's own timers.
    #[test]
    #[should_panic(expected = "a timer of this worker is for its own tasks")]
    fn setting_a_deadline_of_a_shared_task_in_worker_timers_panics() {
        let world =
            SimulatedWorld::new(1, 1, SchedulerTuning::default(), Faults::default()).expect("a world");
        world.look(0, || {
            let worker = Worker::current();
            worker.running_slot.set(STAND_IN);
            let stand_in = worker.tasks.get(STAND_IN).expect("made with the worker");
            worker.set_deadline(stand_in, Tick::from_ms(5));
        });
    }
}
