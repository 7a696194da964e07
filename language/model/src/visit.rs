//! Visits of the references in expressions.

use weir_expr::Reference;

/// The function that receives each reference.
pub type Visit<'v> = &'v mut dyn FnMut(&Reference);
