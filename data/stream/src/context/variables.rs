//! The variables of a stream, within their limits.

use std::sync::atomic::Ordering::Relaxed;

use weir_expr::{SetCondition, Value, VariableId, VariableScope};

use crate::stream::Stream;
use crate::variables::NONE;

impl Stream {
    /// Sets a variable of the stream if `condition` is met. Returns false at the memory limit.
    pub(crate) fn store_variable(
        &mut self,
        variable: VariableId,
        value: Value<'_>,
        condition: SetCondition,
    ) -> bool {
        let room = self.variable_room(variable.scope);
        let stored = match variable.scope {
            VariableScope::Process => {
                self.frontend.instance().variables_mut().set_within(variable, value, condition, room)
            }
            VariableScope::Session => self.session.set_variable(variable, value, condition, room),
            scope => self.variables.room_for(scope).set_within(variable, value, condition, room),
        };
        self.charge_variables();
        stored
    }

    /// Bytes left for the variables of a scope.
    fn variable_room(&self, scope: VariableScope) -> usize {
        let limits = &self.frontend.instance().limits.variables;
        if weir_net::shortage::is_short() {
            return 0;
        }
        if limits.is_none() {
            return NONE;
        }
        let mut room = NONE;
        if limits.counts_all() {
            let used = self.frontend.instance().variables().used()
                + self.frontend.instance().variable_bytes.load(Relaxed);
            room = limits.process.saturating_sub(used);
        }
        let (transaction, message) = self.variables.used();
        let transaction = message + transaction;
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

    /// Updates the size of the variables charged to the process, if the process has a limit.
    pub(crate) fn charge_variables(&mut self) {
        if self.frontend.instance().limits.variables.counts_all() {
            let total = &self.frontend.instance().variable_bytes;
            self.variables.charge(total);
            self.session.charge_variables(|charge, bytes| charge.set(total, bytes));
        }
    }
}
