//! Stick-tables, as the runtime API shows and changes them.

use weir_cli::target::TableTarget;
use weir_tables::Table;

use super::{LiveTarget, now_ms};

impl TableTarget for LiveTarget {
    fn tables(&self) -> &[&'static Table] {
        &self.live.instance.tables
    }

    fn table_clock_ms(&self) -> u64 {
        now_ms()
    }
}
