//! Entries of stick-tables that expire: one worker removes them, a few at a time.
//!
//! Who looks for an entry that has expired finds none, whether it was removed or not; this gives its room back.

use weir_sched::{Class, Kind};
use weir_stream::instance::Instance;

/// Starts removing what expires. To be called on one worker.
pub(crate) fn start(instance: &'static Instance) {
    if instance.tables.iter().all(|table| table.declaration().expire_ms == 0) {
        return;
    }
    weir_sched::spawn(&EXPIRY, Class::Bulk, async move {
        loop {
            let now = weir_sched::now();
            let mut more = false;
            for table in &instance.tables {
                more |= table.expire(now.as_ms(), AT_ONCE);
            }
            let pause = if more { SHORT_PAUSE_MS } else { PAUSE_MS };
            weir_sched::sleep_until(now.after(pause)).await;
        }
    });
}

static EXPIRY: Kind = Kind::new("table expiry");
/// An entry lies about so long at most after it has expired.
const PAUSE_MS: u64 = 200;
/// Traffic comes between two steps.
const SHORT_PAUSE_MS: u64 = 1;
/// So many entries of a table go in one step: about a tenth of a millisecond.
const AT_ONCE: u32 = 1_000;
