//! The engines of a section, and its rules that send groups of messages, until their names are resolved.

use std::sync::Arc;

use weir_expr::{EvaluationPoints, Reference};
use weir_syntax::Span;

use weir_model::SpoeGroupUse;

/// An engine of a section. Its backend is resolved later.
#[derive(Debug)]
pub(crate) struct PendingEngine {
    pub(crate) name: Box<str>,
    pub(crate) agent: Box<str>,
    pub(crate) backend: Arc<Reference>,
    /// Location of the agent in the file of the engine.
    pub(crate) at: String,
    /// The span of the engine's name, or of the file's name.
    pub(crate) span: Span,
}

/// A `send-spoe-group` rule.
#[derive(Debug)]
pub(crate) struct PendingGroupUse {
    pub(crate) used: Arc<SpoeGroupUse>,
    /// The points where the rule runs.
    pub(crate) points: EvaluationPoints,
    pub(crate) engine: Span,
    pub(crate) group: Span,
}
