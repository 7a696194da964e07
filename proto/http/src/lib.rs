//! HTTP semantics without a wire: methods, statuses, heads as bytes with an index, edits as an overlay.
