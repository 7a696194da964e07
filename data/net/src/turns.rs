//! Limits how many tasks run an operation at once. The others wait for their turn, on any worker.

use weir_sched::{TaskKey, Tick, now, wait, wake};
use weir_sync::Semaphore;

/// Lets a limited number of tasks run at once.
#[derive(Debug)]
pub struct TaskTurns {
    semaphore: Semaphore<TaskKey>,
    most: u32,
}

/// The right of a task to run. Dropping it lets another task run.
#[derive(Debug)]
pub struct TaskTurn<'t> {
    turns: &'t TaskTurns,
}

impl TaskTurns {
    /// A limit of `most` tasks at once. At first no task runs.
    #[must_use]
    pub fn new(most: u32) -> Self {
        TaskTurns { semaphore: Semaphore::new(), most }
    }

    /// The number of tasks that run now.
    #[must_use]
    pub fn inside(&self) -> u32 {
        self.semaphore.inside()
    }

    /// Waits until the current task may run. `None` if `deadline` passes first.
    pub async fn turn(&self, deadline: Tick) -> Option<TaskTurn<'_>> {
        let task = weir_sched::current();
        while !self.semaphore.enter(self.most) {
            self.semaphore.enlist(task);
            let entered = self.semaphore.enter(self.most);
            if !entered {
                wait(deadline).await;
            }
            let was_notified = !self.semaphore.withdraw(task);
            if entered || deadline <= now() {
                // The notification was not needed. It goes to the next waiter.
                if was_notified {
                    notify(self.semaphore.next());
                }
                return entered.then(|| TaskTurn { turns: self });
            }
        }
        Some(TaskTurn { turns: self })
    }
}

impl Drop for TaskTurn<'_> {
    fn drop(&mut self) {
        notify(self.turns.semaphore.leave());
    }
}

fn notify(waiter: Option<TaskKey>) {
    if let Some(task) = waiter {
        wake(task);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use weir_sched::{Class, WorkKind, simulate, sleep_until, spawn};

    use super::*;

    #[test]
    fn at_most_the_allowed_number_of_tasks_have_a_turn() {
        let turns: &'static TaskTurns = Box::leak(Box::new(TaskTurns::new(2)));
        let outcome = simulate::run(1, async move {
            let soon = now().after(100);
            let first = turns.turn(soon).await.expect("there is room");
            let _second = turns.turn(soon).await.expect("there is room");
            assert!(turns.turn(soon).await.is_none(), "nobody ended in time");
            static OTHER: WorkKind = WorkKind::new("other");
            let has_turn = Rc::new(Cell::new(false));
            let seen = Rc::clone(&has_turn);
            spawn(&OTHER, Class::Normal, async move {
                let turn = turns.turn(Tick::NEVER).await;
                seen.set(turn.is_some());
                sleep_until(Tick::NEVER).await;
            });
            sleep_until(now().after(50)).await;
            assert!(!has_turn.get(), "it waits");
            drop(first);
            sleep_until(now().after(50)).await;
            assert!(has_turn.get(), "it does not wait any more");
            assert_eq!(turns.inside(), 2);
        });
        assert_eq!(outcome, Ok(Some(())));
    }
}
