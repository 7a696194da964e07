//! The stick-table entries that a stream tracks, and the keys to store.

use weir_containers::LocalArc;
use weir_tables::{Key, Table};
use weir_vocabulary::tracked::TrackedEntries;

/// A stream's use of stick-tables.
#[derive(Default)]
pub(crate) struct TableUse {
    pub(crate) tracked: TrackedEntries,
    /// Keys of the request to store with its server, once the server is known (`stick store-request`).
    pub(crate) stores: Vec<(LocalArc<Table>, Key)>,
}
