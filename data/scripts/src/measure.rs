//! The cost of functions, while `profiling.tasks` measures their worker.

use weir_expr::ScriptName;
use weir_lua::{CostKind, ScriptCost, ScriptCosts};

use crate::registry::FunctionKind;
use crate::scripts::described;
use crate::world::ScriptState;

/// A run of a function, or a part of one, that is measured.
pub(crate) struct FunctionMeasurement {
    place: String,
    began_ns: u64,
    allocated: u64,
}

impl FunctionMeasurement {
    /// Begins to measure the function at a place. `None` while the worker does not measure.
    #[inline]
    pub(crate) fn begin(
        state: &mut ScriptState,
        place: impl FnOnce(&mut ScriptState) -> Option<String>,
    ) -> Option<Self> {
        weir_sched::is_profiled().then(|| Self::begin_now(state, place))
    }

    #[cold]
    fn begin_now(state: &mut ScriptState, place: impl FnOnce(&mut ScriptState) -> Option<String>) -> Self {
        let place = place(state).unwrap_or_else(|| "[C]".to_owned());
        state.measure(true);
        FunctionMeasurement { place, began_ns: weir_sched::precise_ns(), allocated: state.memory_allocated() }
    }

    /// Ends the measuring, and adds the costs. The run waited for so long for its state.
    #[cold]
    pub(crate) fn end(
        self,
        state: &ScriptState,
        costs: &ScriptCosts,
        (kind, name): (FunctionKind, Option<ScriptName>),
        waited_ns: u64,
    ) {
        state.measure(false);
        let cost = ScriptCost {
            calls: 1,
            time_ns: weir_sched::precise_ns().saturating_sub(self.began_ns),
            waited_ns,
            allocated: state.memory_allocated().saturating_sub(self.allocated),
        };
        costs.add(CostKind::Function, &described(kind, name), self.place, cost);
    }
}

/// A wait for a state, which is measured while the worker measures.
#[derive(Debug, Default)]
pub(crate) struct StateWait {
    since_ns: Option<u64>,
}

impl StateWait {
    /// Begins the wait, if it has not begun.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if weir_sched::is_profiled() {
            self.since_ns.get_or_insert_with(weir_sched::precise_ns);
        }
    }

    /// Ends the wait. Returns how long it was, in nanoseconds.
    #[inline]
    pub(crate) fn end(&mut self) -> u64 {
        self.since_ns.take().map_or(0, |since_ns| weir_sched::precise_ns().saturating_sub(since_ns))
    }
}
