//! Entries of stick-tables that expire: one worker removes them, a few at a time, and gives memory back that nothing is in any more.
//!
//! An expired entry is never found, whether it was removed or not; removing it frees its memory. Where nothing can expire, nothing is done:
//! the task sleeps until the first entry may expire, however many tables there are.

use weir_sched::{Class, Kind, Tick};
use weir_stream::instance::Instance;

/// Starts the removal. Call it on one worker.
pub(crate) fn start(instance: &'static Instance) {
    if instance.tables.is_empty() {
        return;
    }
    weir_sched::spawn(&EXPIRY, Class::Bulk, async move {
        let task = weir_sched::current();
        instance.tables.iter().for_each(|table| table.on_due(move || weir_sched::wake(task)));
        loop {
            let now = weir_sched::now();
            let mut more = false;
            for table in &instance.tables {
                more |= table.expire_due(now.as_ms(), AT_ONCE).is_none();
            }
            weir_sched::sleep_until(now.after(if more { SHORT_PAUSE_MS } else { PAUSE_MS })).await;
            let due = instance.tables.iter().map(|table| table.due_at()).min().unwrap_or(u64::MAX);
            if due > weir_sched::now().as_ms() {
                weir_sched::wait(if due == u64::MAX { Tick::NEVER } else { Tick::from_ms(due) }).await;
            }
        }
    });
}

static EXPIRY: Kind = Kind::new("table expiry");
/// How long an expired entry stays at most, about, in milliseconds.
const PAUSE_MS: u64 = 200;
/// The pause between two steps, in which traffic is served, in milliseconds.
const SHORT_PAUSE_MS: u64 = 1;
/// So many entries of a table go in one step: of ten million, which no cache holds, that takes a twentieth of a millisecond.
const AT_ONCE: u32 = 500;
