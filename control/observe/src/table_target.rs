//! Implements the runtime API's operations on stick-tables.

use std::sync::Arc;

use weir_cli::target::TableTarget;
use weir_peers::PeersSection;
use weir_tables::Table;

use super::{LiveTarget, now_ms};

impl TableTarget for LiveTarget {
    fn tables(&self) -> &[Arc<Table>] {
        &self.live.instance.tables
    }

    fn peers(&self) -> &[Arc<PeersSection>] {
        &self.live.record.peers.sections
    }

    fn table_clock_ms(&self) -> u64 {
        now_ms()
    }
}
