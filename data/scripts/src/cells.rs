//! A state, its lock, and the tasks that wait for it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use weir_expr::ScriptName;
use weir_lua::{Coroutine, LuaReference, RunBounds};

use crate::registry::{FunctionKind, ScriptCommand};
use crate::state_filters::DeclaredFilter;
use crate::turns::{Turn, Turns};
use crate::world::ScriptState;

/// A state and its lock. The lock is held while Lua runs.
#[derive(Debug, Default)]
pub(crate) struct StateCell {
    pub state: Mutex<Option<Box<ScriptState>>>,
    /// Coroutines of runs that were dropped while another thread held the state.
    orphans: Mutex<Vec<Coroutine>>,
    /// Whether there are orphans, or values that ended.
    is_untidy: AtomicBool,
    /// Whether a task will collect its garbage.
    pub collects: AtomicBool,
    /// The functions that scripts registered, once the configuration has been read.
    pub functions: OnceLock<BTreeMap<(FunctionKind, ScriptName), LuaReference>>,
    /// The filters of the configuration's lines, once it has been read.
    pub filters: OnceLock<Vec<Option<DeclaredFilter>>>,
    /// Values that ended while another thread held the state.
    ended: Mutex<Vec<LuaReference>>,
    /// The commands that scripts registered, once the configuration has been read.
    pub commands: OnceLock<Vec<ScriptCommand>>,
    /// Runs that wait for the state.
    turns: Turns,
    /// The thread that reserved it: its number from 1, or 0 for none.
    owner: AtomicUsize,
}

/// Where a function is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The number of the worker's own state, `None` for the shared one.
    pub own: Option<usize>,
    pub function: LuaReference,
}

impl Place {
    pub(crate) fn thread(self) -> usize {
        self.own.map_or(0, |worker| worker + 1)
    }
}

/// A state that this thread holds.
pub(crate) struct Held<'s> {
    /// `None` only while it is dropped.
    state: Option<MutexGuard<'s, Option<Box<ScriptState>>>>,
    turns: &'s Turns,
}

impl std::ops::Deref for Held<'_> {
    type Target = ScriptState;

    fn deref(&self) -> &ScriptState {
        self.state.as_deref().and_then(Option::as_deref).expect("a place is in a state")
    }
}

impl std::ops::DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut ScriptState {
        self.state.as_deref_mut().and_then(Option::as_deref_mut).expect("a place is in a state")
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The next one finds the state free.
        drop(self.state.take());
        self.turns.wake_next();
    }
}

/// A lock of a state.
type StateGuard<'s> = MutexGuard<'s, Option<Box<ScriptState>>>;

impl StateCell {
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.state).is_none()
    }

    /// The commands of the state.
    pub(crate) fn commands(&self) -> &[ScriptCommand] {
        self.commands.get().map_or(&[], Vec::as_slice)
    }

    /// Whether another thread has the state now.
    pub(crate) fn is_busy(&self) -> bool {
        self.try_hold().is_none()
    }

    /// Whether another thread reserved the state.
    fn is_reserved(&self) -> bool {
        let owner = self.owner.load(Ordering::Acquire);
        owner != 0 && owner != this_thread()
    }

    /// The state, if this thread can have it now.
    fn try_hold(&self) -> Option<StateGuard<'_>> {
        if self.is_reserved() {
            return None;
        }
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        // Another thread may have reserved it in between.
        (!self.is_reserved()).then_some(state)
    }

    /// The state, in turn. `None` while another thread has it: the current task is woken for its turn.
    fn take_in_turn(&self, turn: &mut Option<Turn>) -> Option<StateGuard<'_>> {
        let is_next = self.turns.is_empty() || self.turns.has_come(*turn);
        let mut state = is_next.then(|| self.try_hold()).flatten();
        if state.is_none() {
            self.turns.enlist(weir_sched::current(), turn);
            // It may have become free before the task was in the line.
            state = self.try_hold();
        }
        let state = state?;
        *turn = None;
        Some(state)
    }

    /// The state, in turn. `bounds` are those of coroutines that end.
    pub(crate) fn hold_in_turn(&self, turn: &mut Option<Turn>, bounds: RunBounds) -> Option<Held<'_>> {
        self.take_in_turn(turn).map(|state| self.tidy(state, bounds))
    }

    /// The state, for a call that cannot wait. `None` if another thread has it for more than a moment.
    pub(crate) fn hold_soon(&self, bounds: RunBounds) -> Option<Held<'_>> {
        if let Some(state) = self.try_hold() {
            return Some(self.tidy(state, bounds));
        }
        let began = Instant::now();
        while began.elapsed() < MOMENT {
            std::thread::sleep(MOMENT / 100);
            if let Some(state) = self.try_hold() {
                return Some(self.tidy(state, bounds));
            }
        }
        None
    }

    /// Reserves the state for this thread, in turn. False while another thread has it.
    pub(crate) fn reserve(&self, turn: &mut Option<Turn>) -> bool {
        let state = self.take_in_turn(turn);
        if state.is_some() {
            self.owner.store(this_thread(), Ordering::Release);
        }
        state.is_some()
    }

    /// Ends the reservation by this thread.
    pub(crate) fn release(&self) {
        self.owner.store(0, Ordering::Release);
        self.turns.wake_next();
    }

    /// Forgets values and coroutines that ended while other threads had the state.
    fn tidy<'s>(&'s self, state: StateGuard<'s>, bounds: RunBounds) -> Held<'s> {
        let mut state = Held { state: Some(state), turns: &self.turns };
        for ended in state.host().private.take_ended() {
            state.forget(ended);
        }
        if self.is_untidy.load(Ordering::Acquire) {
            self.tidy_up(&mut state, bounds);
        }
        state
    }

    #[cold]
    fn tidy_up(&self, state: &mut ScriptState, bounds: RunBounds) {
        self.is_untidy.store(false, Ordering::Release);
        let ended = std::mem::take(&mut *lock(&self.ended));
        ended.into_iter().for_each(|ended| state.forget(ended));
        let orphans = std::mem::take(&mut *lock(&self.orphans));
        orphans.into_iter().for_each(|orphan| state.end(orphan, bounds));
    }

    /// Leaves something to the next thread that has the state.
    fn leave<T>(&self, list: &Mutex<Vec<T>>, left: T) {
        lock(list).push(left);
        self.is_untidy.store(true, Ordering::Release);
    }

    /// Ends a coroutine, now or by the next thread that has the state.
    pub(crate) fn end(&self, coroutine: Coroutine, bounds: RunBounds) {
        match self.state.try_lock() {
            Ok(mut state) => {
                if let Some(state) = state.as_deref_mut() {
                    state.end(coroutine, bounds);
                }
            }
            Err(_) => self.leave(&self.orphans, coroutine),
        }
    }

    /// Forgets a value, now or by the next thread that has the state.
    pub(crate) fn forget(&self, value: LuaReference) {
        match self.state.try_lock() {
            Ok(mut state) => {
                if let Some(state) = state.as_deref_mut() {
                    state.forget(value);
                }
            }
            Err(_) => self.leave(&self.ended, value),
        }
    }
}

/// The number of this thread, from 1.
fn this_thread() -> usize {
    weir_sched::worker_index() + 1
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long a call that cannot wait tries a state that other threads use.
pub(crate) const MOMENT: Duration = Duration::from_millis(10);
