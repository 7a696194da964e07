//! Stick-tables, as commands see them.

use std::sync::Arc;

use weir_peers::PeersSection;
use weir_tables::Table;

/// Operations on stick-tables. Tables live as long as the process.
pub trait TableTarget {
    /// All of them, in the order of the configuration.
    fn tables(&self) -> &[Arc<Table>];

    /// The `peers` sections that share something, in the order of the configuration.
    fn peers(&self) -> &[Arc<PeersSection>];

    /// The clock of tables, in milliseconds.
    fn table_clock_ms(&self) -> u64;
}
