//! Memory accounting for the variables of health checks.

use std::sync::atomic::Ordering::Relaxed;

use crate::instance::Instance;

impl Instance {
    /// Bytes left for the variables of a check, which already take `own` bytes.
    pub fn variable_room_of_check(&self, own: usize) -> usize {
        if weir_net::shortage::is_short() {
            return 0;
        }
        let limits = &self.limits.variables;
        let all =
            if limits.counts_all() { self.variables().used() + self.variable_bytes.load(Relaxed) } else { 0 };
        limits.room_of_check(own, all)
    }

    /// Changes the size of a check's variables charged to the process from `from` to `to` bytes.
    pub fn charge_variables_of_check(&self, from: usize, to: usize) {
        if self.limits.variables.counts_all() {
            self.variable_bytes.fetch_add(to.wrapping_sub(from), Relaxed);
        }
    }
}
