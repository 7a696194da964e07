//! `tune.vars.*`: how many bytes variables may take. What a scope holds counts for the scopes around it too.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use weir_config::model::VariableSizes;
use weir_expr::{SetCondition, Value, VariableId, VariableScope};

use crate::stream::Stream;

/// How many bytes the variables of each scope may take, together with those of the scopes inside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariableLimits {
    process: usize,
    session: usize,
    transaction: usize,
    message: usize,
}

impl VariableLimits {
    /// What the configuration says.
    pub fn of(sizes: &VariableSizes) -> Self {
        let limit = |size: Option<u32>| size.map_or(NONE, |size| size as usize);
        VariableLimits {
            process: limit(sizes.process).min(limit(sizes.global)),
            session: limit(sizes.session),
            transaction: limit(sizes.transaction),
            message: limit(sizes.request),
        }
    }

    fn is_none(&self) -> bool {
        self.process == NONE && self.session == NONE && self.transaction == NONE && self.message == NONE
    }

    fn counts_all(&self) -> bool {
        self.process != NONE
    }
}

const NONE: usize = usize::MAX;

/// Bytes of variables that count for the process as long as this lives.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    total: Option<&'static AtomicUsize>,
    bytes: usize,
}

impl Charge {
    fn set(&mut self, total: &'static AtomicUsize, bytes: usize) {
        total.fetch_add(bytes.wrapping_sub(self.bytes), Relaxed);
        (self.total, self.bytes) = (Some(total), bytes);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(total) = self.total.take() {
            total.fetch_sub(self.bytes, Relaxed);
        }
    }
}

impl Stream {
    /// Sets a variable of the stream if `condition` holds. False if there is no room.
    pub(crate) fn store_variable(
        &mut self,
        variable: VariableId,
        value: Value<'_>,
        condition: SetCondition,
    ) -> bool {
        let room = self.variable_room(variable.scope);
        let stored = match variable.scope {
            VariableScope::Process => {
                self.instance.variables_mut().set_within(variable, value, condition, room)
            }
            VariableScope::Session => self.session.set_variable(variable, value, condition, room),
            VariableScope::Transaction => {
                self.transaction_variables.set_within(variable, value, condition, room)
            }
            _ => self.message_variables.set_within(variable, value, condition, room),
        };
        self.charge_variables();
        stored
    }

    /// How many bytes more the variables of a scope may take.
    fn variable_room(&self, scope: VariableScope) -> usize {
        let limits = &self.instance.limits.variables;
        if weir_net::shortage::is_short() {
            return 0;
        }
        if limits.is_none() {
            return NONE;
        }
        let mut room = NONE;
        if limits.counts_all() {
            let used = self.instance.variables().used() + self.instance.variable_bytes.load(Relaxed);
            room = limits.process.saturating_sub(used);
        }
        let message = self.message_variables.used();
        let transaction = message + self.transaction_variables.used();
        let session = transaction + self.session.variable_bytes();
        let within =
            [(limits.session, session), (limits.transaction, transaction), (limits.message, message)];
        let depth = match scope {
            VariableScope::Process => 0,
            VariableScope::Session => 1,
            VariableScope::Transaction => 2,
            _ => 3,
        };
        within[..depth].iter().fold(room, |room, (limit, used)| room.min(limit.saturating_sub(*used)))
    }

    /// Tells the process what the variables take now, if it has a limit for them.
    pub(crate) fn charge_variables(&mut self) {
        if self.instance.limits.variables.counts_all() {
            let total = &self.instance.variable_bytes;
            let bytes = self.transaction_variables.used() + self.message_variables.used();
            self.variable_charge.set(total, bytes);
            self.session.charge_variables(|charge, bytes| charge.set(total, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_counts_as_long_as_it_lives() {
        static TOTAL: AtomicUsize = AtomicUsize::new(0);
        let (mut one, mut other) = (Charge::default(), Charge::default());
        one.set(&TOTAL, 10);
        other.set(&TOTAL, 5);
        one.set(&TOTAL, 3);
        assert_eq!(TOTAL.load(Relaxed), 8);
        drop(one);
        assert_eq!(TOTAL.load(Relaxed), 5);
        drop(other);
        assert_eq!(TOTAL.load(Relaxed), 0);
    }
}
