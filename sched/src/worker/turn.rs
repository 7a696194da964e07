//! One scheduling round: expired deadlines, messages from other threads, and the run queues within the policy's budget.

use super::Worker;
use crate::policy::{CLASSES, Class, Load, SchedulerTuning, turn};
use crate::profile::Cause;
use crate::shared::WorkerRequest;
use crate::task::WorkKind;
use crate::tick::Tick;
use std::panic::{AssertUnwindSafe, catch_unwind};
use weir_sync::atomic::Ordering::Relaxed;

impl Worker {
    /// Wakes tasks past their deadline: at most `tune.runqueue-depth`, own and shared tasks together. A worker with
    /// many own tasks leaves the shared ones to other workers (R56).
    pub(super) fn expire_timers(&self) {
        let budget = self.tuning.runqueue_depth.max(1);
        let mut handled = self.expire_own(budget);
        handled += self.commons.expire(self.now.get(), budget - handled);
        if handled > 0 {
            self.shared.activity.timers.add(u64::from(handled));
        }
    }

    fn expire_own(&self, budget: u32) -> u32 {
        let mut timers = self.timers.borrow_mut();
        let now = self.now.get();
        let mut handled = 0;
        while handled < budget {
            let Some((due, slot)) = timers.first().filter(|(due, _)| *due <= now.as_ms()) else { break };
            handled += 1;
            let task = self.tasks.get(slot).expect("a timer belongs to a slot");
            debug_assert_eq!(task.timer.get().as_ms(), due);
            let deadline = task.deadline.get();
            if deadline > now && !deadline.is_never() {
                // The deadline was postponed meanwhile: the entry moves within the queue (R58).
                task.timer.set(deadline);
                timers.set(slot, deadline.as_ms());
                continue;
            }
            task.timer.set(Tick::NEVER);
            timers.remove(slot);
            if deadline <= now {
                self.wake_task(slot, task, Cause::Deadline);
            }
        }
        handled
    }

    /// Handles wakes and messages from other threads.
    pub(super) fn drain_inboxes(&self) {
        let woken = self.shared.wake_side.wakes.drain(|listed| {
            let slot = listed.number;
            if let Some(task) = self.tasks.get(slot) {
                if self.profiler.is_on() {
                    self.profiler.note_stamp(slot, listed.stamp);
                }
                match listed.doomed.filter(|&generation| generation == task.generation.get()) {
                    Some(_) => self.kill_task(slot, task),
                    None => self.wake_task(slot, task, Cause::Wake),
                }
            }
        });
        let messages = self.shared.inbox.drain(|WorkerRequest::Run(work)| {
            self.shared.current.enter(&MESSAGE);
            self.guard(work);
        });
        if woken + messages > 0 {
            self.shared.activity.remote_wakes.add(woken as u64);
            self.shared.activity.messages.add(messages as u64);
        }
    }

    /// Runs work sent by another thread. A panic ends only that work.
    fn guard(&self, work: Box<dyn FnOnce() + Send>) {
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            self.shared.activity.panics.increment();
        }
    }

    /// Runs the queues within the budget of one scheduling round.
    pub(super) fn run_turn(&self) {
        self.queues.begin_turn(&self.tasks);
        self.heavy_spent.set(false);
        self.profiler.interrupt();
        let mut load = self.queues.load();
        self.publish(&load);
        let (own, shared_waiting) = (load.queued[NORMAL], self.commons.waiting());
        load.queued[NORMAL] = own.saturating_add(shared_waiting);
        let mut left = turn(&load, &self.tuning).runs;
        let mut granted = left;
        let shared_room = shared_room(granted[NORMAL], own, shared_waiting);
        if self.tuning.low_latency {
            self.run_by_rank(&mut left, shared_room);
        } else {
            self.run_by_class(&mut left, shared_room);
            while let Some(more) = self.more(&left) {
                for class in 0..HEAVY {
                    granted[class] = granted[class] - left[class] + more[class];
                    left[class] = more[class];
                }
                self.run_by_class(&mut left, 0);
                if left == more {
                    break;
                }
            }
        }
        let activity = &self.shared.activity;
        activity.queued.set(u64::from(self.queues.len()));
        for class in 0..CLASSES {
            if granted[class] > left[class] {
                activity.runs[class].add(u64::from(granted[class] - left[class]));
            }
        }
    }

    /// Runs each class within its budget, the most urgent first.
    #[inline(never)]
    fn run_by_class(&self, left: &mut [u32; CLASSES], shared_room: u32) {
        for class in 0..CLASSES {
            if class == NORMAL && shared_room > 0 {
                left[NORMAL] -= self.run_shared(shared_room);
            }
            if class == HEAVY && self.queues.has(HEAVY) && self.heavy_spent.replace(true) {
                // A task of another class has run in its place.
                break;
            }
            while left[class] > 0 {
                let Some((slot, task)) = self.queues.pop(&self.tasks, class) else { break };
                left[class] -= 1;
                self.run_task(slot, task);
            }
        }
    }

    /// Grants the running task this round's heavy run, unless it was granted already or heavy tasks are queued.
    pub(super) fn take_heavy_run(&self) -> bool {
        let is_free = !self.tuning.low_latency && !self.heavy_spent.get() && !self.queues.has(HEAVY);
        if is_free {
            self.heavy_spent.set(true);
            self.shared.activity.runs[HEAVY].increment();
        }
        is_free
    }

    /// Distributes the unused budget of a round among classes that got more work meanwhile. A round ends when its depth
    /// is used up, not when one class has used up its share.
    #[inline]
    fn more(&self, left: &[u32; CLASSES]) -> Option<[u32; CLASSES]> {
        let spare: u32 = left[..HEAVY].iter().sum();
        if spare == 0 || (0..HEAVY).all(|class| !self.queues.has(class)) {
            return None;
        }
        let mut more =
            turn(&self.queues.load(), &SchedulerTuning { runqueue_depth: spare, ..self.tuning }).runs;
        more[HEAVY] = left[HEAVY];
        Some(more)
    }

    /// Publishes the current queue lengths. If the worker gets stuck in this round, other threads see only these.
    #[inline]
    fn publish(&self, load: &Load) {
        let activity = &self.shared.activity;
        let mut total = 0_u32;
        for (place, queued) in activity.waiting.iter().zip(load.queued) {
            place.store(queued, Relaxed);
            total = total.saturating_add(queued);
        }
        activity.armed.store(self.timers.borrow().len() as u32, Relaxed);
        if total == 0 {
            activity.empty_turns.increment();
        } else if total > self.tuning.runqueue_depth {
            activity.long_turns.increment();
        }
    }

    /// Runs the highest class that has entries and budget, looked up again after each; ends early when other threads
    /// sent something (R39).
    fn run_by_rank(&self, left: &mut [u32; CLASSES], mut shared_room: u32) {
        let nothing_shared = shared_room == 0;
        let has = |class, shared_room| self.queues.has(class) || class == NORMAL && shared_room > 0;
        while let Some(class) = (0..CLASSES).find(|&class| left[class] > 0 && has(class, shared_room)) {
            if class == NORMAL && shared_room > 0 {
                let ran = self.run_shared(1);
                // Another worker may have taken the rest.
                shared_room = if ran == 0 { 0 } else { shared_room - 1 };
                left[class] -= ran;
                continue;
            }
            // A class that turns out to be empty is not found again.
            let Some((slot, task)) = self.queues.pop(&self.tasks, class) else { continue };
            left[class] -= 1;
            self.run_task(slot, task);
            let new_shared = nothing_shared && self.commons.waiting() > 0;
            if !self.shared.wake_side.wakes.is_empty() || !self.shared.inbox.is_empty() || new_shared {
                break;
            }
        }
    }
}

/// Number of a round's `granted` normal runs for shared tasks: half, or more if the worker's `own` tasks do not need the other half.
fn shared_room(granted: u32, own: u32, waiting: u32) -> u32 {
    waiting.min(granted.div_ceil(2).max(granted.saturating_sub(own)))
}

/// Work sent by other threads, run between tasks.
static MESSAGE: WorkKind = WorkKind::new("message");
const NORMAL: usize = Class::Normal as usize;
const HEAVY: usize = Class::Heavy as usize;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::TURNS;
    use crate::queues::pushes;
    use crate::simulate::{Faults, SimulatedWorld};
    use crate::{TaskKey, set_nice, spawn, wait, wake};

    static KIND: WorkKind = WorkKind::new("turn");

    /// R9: the policy plans a scheduling round once, before its tasks run. R11: a run takes a task out of its queue, and only a wake
    /// puts it in.
    #[test]
    fn a_turn_is_planned_once_and_a_task_is_queued_once_per_wake() {
        let mut world =
            SimulatedWorld::new(1, 1, SchedulerTuning::default(), Faults::default()).expect("a world");
        let waiter = |(number, class): (usize, Class)| {
            spawn(&KIND, class, async move {
                // Some have a place of their own among the normal ones.
                set_nice([0, 0, 100][number % 3]);
                loop {
                    wait(Tick::NEVER).await;
                }
            })
        };
        let classes = [[Class::Urgent; 20], [Class::Normal; 20], [Class::Bulk; 20]].concat();
        let mut keys: Vec<TaskKey> = world.on(0, || classes.into_iter().enumerate().map(waiter).collect());
        keys.push(world.on(0, || waiter((0, Class::Heavy))));
        assert!(world.settle(100));
        for round in 0..3 {
            // Awake, so that the next step is a scheduling round.
            world.on(0, || ());
            let (turns, pushed) = (TURNS.get(), pushes());
            world.look(0, || keys.iter().copied().for_each(wake));
            assert_eq!(pushes() - pushed, 61, "woken in round {round}");
            assert!(world.step());
            assert_eq!(world.look(0, || crate::queues().queued), [0; CLASSES], "all of them ran");
            assert_eq!((TURNS.get() - turns, pushes() - pushed), (1, 61), "in the turn of round {round}");
            assert!(world.settle(100));
        }
    }
}
