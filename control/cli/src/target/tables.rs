//! Stick-tables, as commands access them.

use std::sync::Arc;

use weir_peers::PeersSection;
use weir_tables::Table;

/// Operations on stick-tables. The tables exist as long as the process.
pub trait TableTarget {
    /// All stick-tables, in configuration order.
    fn tables(&self) -> &[Arc<Table>];

    /// The `peers` sections with shared stick-tables, in configuration order.
    fn peers(&self) -> &[Arc<PeersSection>];

    /// The current time of the tables' clock, in milliseconds.
    fn table_clock_ms(&self) -> u64;
}
