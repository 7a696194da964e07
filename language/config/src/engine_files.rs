//! The inputs for the files of engines (`filter spoe`).

use std::cell::RefCell;
use std::sync::Arc;

use weir_syntax::{ConditionContext, SourceMap, Span};

use crate::world::ConfigLoader;
use weir_model::{Global, LogTarget};

/// The inputs for files of engines, and the names in their lines that are resolved at the end of the configuration.
pub(crate) struct EngineFiles<'f> {
    pub(crate) sources: &'f SourceMap,
    pub(crate) conditions: &'f dyn ConditionContext,
    pub(crate) world: &'f ConfigLoader<'f>,
    global: RefCell<GlobalFacts>,
    /// The targets of `log` lines, with their locations.
    log_uses: RefCell<Vec<(Box<str>, Span)>>,
}

/// The facts of the global sections above the current section.
#[derive(Debug, Default)]
struct GlobalFacts {
    logs: Vec<Arc<LogTarget>>,
    buffer_size: u32,
}

impl<'f> EngineFiles<'f> {
    pub(crate) fn new(
        sources: &'f SourceMap,
        conditions: &'f dyn ConditionContext,
        world: &'f ConfigLoader<'f>,
    ) -> Self {
        EngineFiles { sources, conditions, world, global: RefCell::default(), log_uses: RefCell::default() }
    }

    /// Sets the facts of the global sections so far.
    pub(crate) fn enter_section(&self, global: &Global) {
        *self.global.borrow_mut() =
            GlobalFacts { logs: global.logs.clone(), buffer_size: global.tuning.buffer_size };
    }

    /// The targets of the global sections above.
    pub(crate) fn global_logs(&self) -> Vec<Arc<LogTarget>> {
        self.global.borrow().logs.clone()
    }

    /// `tune.bufsize` in bytes.
    pub(crate) fn buffer_size(&self) -> u32 {
        self.global.borrow().buffer_size
    }

    /// Records the target of a `log` line.
    pub(crate) fn note_log_target(&self, target: &str, span: Span) {
        self.log_uses.borrow_mut().push((target.into(), span));
    }

    /// The targets of all `log` lines so far, as written.
    pub(crate) fn take_log_uses(&self) -> Vec<(Box<str>, Span)> {
        self.log_uses.take()
    }
}

impl std::fmt::Debug for EngineFiles<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "EngineFiles({:?})", self.global)
    }
}
