//! The cost of scripts: by function, by line, and by call that blocks its thread.
//!
//! ```text
//!   a measured run ──► its function: time, memory, waiting for the state
//!        ├── the hook of a tick ──► the line that runs: CPU time since the last tick
//!        └── `io`, `os`, `loadfile` ──► the line that calls: the time of the call
//! ```
//!
//! A run that is not measured costs one branch for each call that may block, and nothing else.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::clock::RunClock;
use crate::places::running_place;
use crate::raw::RawState;

/// The costs of the scripts of several states. Each table is bounded.
#[derive(Debug, Default)]
pub struct ScriptCosts {
    tables: Mutex<[CostTable; 3]>,
}

type CostTable = HashMap<(String, String), ScriptCost>;

/// One kind of costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CostKind {
    /// Runs of a function. The place is that of the function.
    Function,
    /// CPU time at a line, in samples. The name is empty.
    Line,
    /// A call that blocks its thread. The place is that of the call.
    Blocking,
}

/// A sum of costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptCost {
    /// Calls, samples, or parts of runs between two waits.
    pub calls: u64,
    pub time_ns: u64,
    /// The time that runs waited for a state that other threads used.
    pub waited_ns: u64,
    /// Bytes that runs allocated, also those that were freed again.
    pub allocated: u64,
}

/// The sum of the costs of one name at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostLine {
    pub name: String,
    /// `file:line`
    pub place: String,
    pub cost: ScriptCost,
}

impl ScriptCosts {
    /// Adds costs to those of a name at a place.
    pub fn add(&self, kind: CostKind, name: &str, place: String, cost: ScriptCost) {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let table = &mut tables[kind as usize];
        let mut key = (name.to_owned(), place);
        if table.len() >= MOST_LINES && !table.contains_key(&key) {
            key = (OTHERS.to_owned(), String::new());
        }
        let sum = table.entry(key).or_default();
        sum.calls += cost.calls;
        sum.time_ns = sum.time_ns.saturating_add(cost.time_ns);
        sum.waited_ns = sum.waited_ns.saturating_add(cost.waited_ns);
        sum.allocated = sum.allocated.saturating_add(cost.allocated);
    }

    /// The costs of one kind, those of the longest time first.
    pub fn lines(&self, kind: CostKind) -> Vec<CostLine> {
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |((name, place), cost): (&(String, String), &ScriptCost)| CostLine {
            name: name.clone(),
            place: place.clone(),
            cost: *cost,
        };
        let mut lines: Vec<CostLine> = tables[kind as usize].iter().map(line).collect();
        drop(tables);
        lines.sort_by(|a, b| {
            let order = b.cost.time_ns.cmp(&a.cost.time_ns);
            order.then_with(|| (&a.place, &a.name).cmp(&(&b.place, &b.name)))
        });
        lines
    }

    /// Forgets all costs.
    pub fn clear(&self) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).iter_mut().for_each(HashMap::clear);
    }
}

/// The measuring of a state's runs.
#[derive(Debug, Default)]
pub(crate) struct CostMeter {
    costs: OnceCell<Arc<ScriptCosts>>,
    /// Whether the current run is measured.
    is_on: Cell<bool>,
    /// How long the run had computed at its last sample.
    sampled: Cell<Duration>,
}

impl CostMeter {
    /// Sets the place of the costs. Only the first call has an effect.
    pub(crate) fn set_costs(&self, costs: Arc<ScriptCosts>) {
        let _ = self.costs.set(costs);
    }

    /// Whether the next runs are measured.
    pub(crate) fn set_on(&self, is_on: bool) {
        self.is_on.set(is_on && self.costs.get().is_some());
        self.sampled.set(Duration::ZERO);
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Counts the time since the last sample for the line that `raw` runs.
    #[cold]
    pub(crate) fn sample(&self, raw: RawState, clock: &RunClock) {
        let computed = clock.computed();
        let time = computed.saturating_sub(self.sampled.replace(computed));
        self.add(CostKind::Line, "", raw, time);
    }

    /// Counts a call that blocked.
    #[cold]
    pub(crate) fn add_blocking(&self, name: &str, raw: RawState, time: Duration) {
        self.add(CostKind::Blocking, name, raw, time);
    }

    fn add(&self, kind: CostKind, name: &str, raw: RawState, time: Duration) {
        let (Some(costs), Some(place)) = (self.costs.get(), running_place(raw)) else { return };
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        costs.add(kind, name, place, ScriptCost { calls: 1, time_ns, ..ScriptCost::default() });
    }
}

/// The most names and places of one kind. Scripts may make up any number of them.
const MOST_LINES: usize = 500;
/// The name of the costs that found no room.
const OTHERS: &str = "[other]";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_summed_by_name_and_place_within_a_bound() {
        let costs = ScriptCosts::default();
        let one = ScriptCost { calls: 1, time_ns: 10, waited_ns: 2, allocated: 5 };
        for place in 0..MOST_LINES + 20 {
            for _ in 0..2 {
                costs.add(CostKind::Blocking, "io.read", format!("a.lua:{place}"), one);
            }
        }
        let lines = costs.lines(CostKind::Blocking);
        assert_eq!(lines.len(), MOST_LINES + 1);
        let others = ScriptCost { calls: 40, time_ns: 400, waited_ns: 80, allocated: 200 };
        assert_eq!(lines[0], CostLine { name: OTHERS.into(), place: String::new(), cost: others });
        assert_eq!((lines[1].place.as_str(), lines[1].cost.time_ns), ("a.lua:0", 20));
        assert!(costs.lines(CostKind::Line).is_empty());
        costs.clear();
        assert!(costs.lines(CostKind::Blocking).is_empty());
    }
}
