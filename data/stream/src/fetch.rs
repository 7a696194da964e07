//! The fetches that ask the traffic: one row each, next to the code that answers.

use weir_expr::{Args, Cursor, Fetch, Fetched};

use crate::exchange::Exchange;

/// What answers a fetch.
pub type Run = for<'c> fn(&'c mut Exchange, &'c Args, &mut Cursor) -> Fetched<'c>;

/// A fetch of this crate.
pub type Row = Fetch<Run>;

/// Every fetch, in the order of their indexes.
pub static FETCHES: &[Row] = &[];
