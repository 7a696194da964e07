//! The stick-table entries that a stream tracks, and the keys that it will store.

use weir_containers::LocalArc;
use weir_tables::{Key, Table};
use weir_vocabulary::tracked::TrackedEntries;

/// A stream's use of tables, if it uses any.
#[derive(Default)]
pub(crate) struct TableUse {
    pub(crate) tracked: TrackedEntries,
    /// Keys of the request that will be stored with its server, once that is known (`stick store-request`).
    pub(crate) stores: Vec<(LocalArc<Table>, Key)>,
}
