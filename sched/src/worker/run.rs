//! One run: a task is polled once, and measured while profiling is on.

use super::tasks::dispose;
use super::{STAND_IN, Worker};
use crate::commons::SharedFuture;
use crate::key::TaskKey;
use crate::task::{EVENT, FLAG, KILLED, NO_SLOT, OCCUPIED, RUNNING, Task, WOKEN, WorkKind};
use crate::tick::Tick;
use crate::waker::waker;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::Context;
use weir_sync::atomic::Ordering::Relaxed;
use weir_sync::{Begin, Finish};

impl Worker {
    // Inlined into the loop that calls it.
    #[inline(always)]
    pub(super) fn run_task(&self, slot: u32, task: &Task) {
        let Some(kind) = task.kind.get() else { return };
        self.shared.current.enter(kind);
        if self.profiler.is_on() {
            return self.run_measured(slot, task, kind);
        }
        self.poll_task(slot, task);
    }

    #[cold]
    #[inline(never)]
    fn run_measured(&self, slot: u32, task: &Task, kind: &'static WorkKind) {
        let board = &self.shared.profile;
        self.shared.current.woken_at(self.profiler.place(slot));
        let measured = self.profiler.begin(board, slot, kind, || self.clock.monotonic_ns());
        self.poll_task(slot, task);
        self.profiler.end(board, measured, self.clock.monotonic_ns());
    }

    // Compiled twice: for measured runs, and inlined in the loop for all others, which saves them a call.
    #[inline(always)]
    fn poll_task(&self, slot: u32, task: &Task) {
        let state = task.state.get();
        let Some(mut future) = task.future.take() else { return };
        if state & KILLED != 0 {
            return self.end(slot, task, Some(future));
        }
        task.state.set(state & FLAG | OCCUPIED | RUNNING);
        let key = TaskKey::new(self.id, slot, task.generation.get());
        self.running_key.set(key);
        self.running_task.set(Some(NonNull::from(task)));
        self.running_slot.set(slot);
        self.running_event.set(state & EVENT != 0);
        // Its destructor does nothing. Skipping it saves a call.
        let waker = ManuallyDrop::new(waker(key));
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut future).poll(&mut context)));
        let state = task.state.get();
        if matches!(outcome, Ok(std::task::Poll::Pending)) && state & KILLED == 0 {
            self.leave();
            task.future.set(Some(future));
            task.state.set(state & FLAG | OCCUPIED);
            if state & WOKEN != 0 {
                self.requeue(slot, task, state & EVENT);
            }
            return;
        }
        if outcome.is_err() {
            self.shared.activity.panics.increment();
        }
        self.end(slot, task, Some(future));
    }

    /// Runs at most `room` shared tasks. Returns the number found.
    #[cold]
    pub(super) fn run_shared(&self, room: u32) -> u32 {
        self.commons.pick(self.index, room, |slot| self.run_shared_task(slot))
    }

    fn run_shared_task(&self, slot: u32) {
        if let Some(kind) = self.commons.kind(slot) {
            self.shared.current.enter(kind);
            if self.profiler.is_on() {
                self.profiler.make_room(STAND_IN + 1);
                self.profiler.note_stamp(STAND_IN, self.commons.take_stamp(slot));
                let board = &self.shared.profile;
                self.shared.current.woken_at(self.profiler.place(STAND_IN));
                let measured = self.profiler.begin(board, STAND_IN, kind, || self.clock.monotonic_ns());
                self.poll_shared(slot);
                return self.profiler.end(board, measured, self.clock.monotonic_ns());
            }
        }
        self.poll_shared(slot);
    }

    /// Runs a shared task in the worker's slot [`STAND_IN`]: its wakes, its deadline and its `nice` value are stored there, by the
    /// same code as for the worker's own tasks, and copied back after the run.
    fn poll_shared(&self, slot: u32) {
        let (commons, key) = (&*self.commons, self.commons.key(slot));
        let shared_task = commons.task(slot);
        let begin = shared_task.state.begin();
        let (Begin::Run { event, flag }, Some(mut future)) = (begin, commons.take_future(slot)) else {
            return self.end_shared(slot, None);
        };
        let stand_in = self.tasks.get(STAND_IN).expect("made with the worker");
        stand_in.state.set(OCCUPIED | RUNNING | if flag { FLAG } else { 0 });
        stand_in.deadline.set(Tick::from_ms(shared_task.deadline.get()));
        // No deadline is earlier than 0, so none enters this worker's own timers.
        stand_in.timer.set(Tick::from_ms(0));
        stand_in.nice.set(shared_task.nice.load(Relaxed) as i16);
        self.running_key.set(key);
        self.running_task.set(Some(NonNull::from(stand_in)));
        self.running_slot.set(STAND_IN);
        self.running_event.set(event);
        let waker = waker(key);
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
        let state = stand_in.state.replace(0);
        if !matches!(outcome, Ok(std::task::Poll::Pending)) {
            if outcome.is_err() {
                self.shared.activity.panics.increment();
            }
            return self.end_shared(slot, Some(future));
        }
        self.leave();
        // Done before the run is finished, because another worker may run the task from then on.
        commons.give_future_back(slot, future);
        shared_task.nice.store(i32::from(stand_in.nice.get()), Relaxed);
        commons.set_deadline(slot, stand_in.deadline.get());
        match shared_task.state.finish(state & WOKEN != 0, state & FLAG != 0) {
            Finish::Wait => {}
            Finish::Queue => commons.enqueue(slot),
            Finish::End => self.end_shared(slot, None),
        }
    }

    fn end_shared(&self, slot: u32, future: Option<SharedFuture>) {
        dispose(future.or_else(|| self.commons.take_future(slot)));
        self.leave();
        self.commons.end(slot);
    }

    #[inline]
    pub(super) fn leave(&self) {
        self.running_key.set(TaskKey::NONE);
        self.running_task.set(None);
        self.running_slot.set(NO_SLOT);
    }
}
