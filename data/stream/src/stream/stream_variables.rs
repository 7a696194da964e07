//! The variables of a stream: those of its transaction, and those of the message that is processed.

use std::sync::atomic::AtomicUsize;

use weir_containers::{LocalArc, PoolBox};
use weir_expr::{VariableScope, VariableStore};

use crate::errors::MessageDirection;
use crate::variables::Charge;

/// The variables of a stream. Without variables, a stream does not allocate memory for them.
#[derive(Default)]
pub struct StreamVariables(Option<PoolBox<Stores>>);

/// Both stores, allocated with the first variable.
#[derive(Default)]
struct Stores {
    /// Variables of scope `txn`.
    transaction: VariableStore,
    /// Variables of scope `req` while the request is processed, then of scope `res`.
    message: VariableStore,
    /// Charges the size of both stores to the process.
    charge: Charge,
}

/// Whether a stream variable of this scope is valid while `processed` is the current message.
pub fn lasts(scope: VariableScope, processed: MessageDirection) -> bool {
    match scope {
        VariableScope::Transaction => true,
        VariableScope::Request => processed == MessageDirection::Request,
        VariableScope::Response => processed == MessageDirection::Response,
        _ => false,
    }
}

impl StreamVariables {
    /// The store of a valid scope. `None` before the stream's first variable.
    pub fn of(&mut self, scope: VariableScope) -> Option<&mut VariableStore> {
        Some(self.0.as_deref_mut()?.of(scope))
    }

    /// The store of a valid scope, allocated if necessary.
    pub fn room_for(&mut self, scope: VariableScope) -> &mut VariableStore {
        self.0.get_or_insert_with(|| PoolBox::new(Stores::default())).of(scope)
    }

    /// Drops the variables of scope `req`.
    pub fn end_request(&mut self) {
        if let Some(stores) = &mut self.0 {
            stores.message.clear();
        }
    }

    /// Size of the transaction's and of the message's variables, in bytes.
    pub fn used(&self) -> (usize, usize) {
        self.0.as_ref().map_or((0, 0), |stores| (stores.transaction.used(), stores.message.used()))
    }

    /// Updates the size charged to the process.
    pub(crate) fn charge(&mut self, total: &LocalArc<AtomicUsize>) {
        if let Some(stores) = self.0.as_deref_mut() {
            stores.charge.set(total, stores.transaction.used() + stores.message.used());
        }
    }
}

impl Stores {
    fn of(&mut self, scope: VariableScope) -> &mut VariableStore {
        match scope {
            VariableScope::Transaction => &mut self.transaction,
            _ => &mut self.message,
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_expr::{SetCondition, Value, VariableId};

    use super::*;

    #[test]
    fn variable_scopes_end_with_their_message() {
        let scopes = [
            VariableScope::Transaction,
            VariableScope::Request,
            VariableScope::Response,
            VariableScope::Session,
        ];
        let last = |processed| scopes.map(|scope| lasts(scope, processed));
        assert_eq!(last(MessageDirection::Request), [true, true, false, false]);
        assert_eq!(last(MessageDirection::Response), [true, false, true, false]);
    }

    #[test]
    fn request_variables_are_dropped_when_the_response_begins() {
        let mut variables = StreamVariables::default();
        assert!(variables.of(VariableScope::Transaction).is_none(), "no variable, no memory");
        variables.end_request();
        assert_eq!(variables.used(), (0, 0));
        for scope in [VariableScope::Transaction, VariableScope::Request] {
            let variable = VariableId { scope, name: 1 };
            let value = Value::Int(1);
            assert!(variables.room_for(scope).set_within(variable, value, SetCondition::ALWAYS, usize::MAX));
        }
        let (transaction, message) = variables.used();
        assert!(transaction > 0 && message > 0);
        variables.end_request();
        assert_eq!(variables.used(), (transaction, 0));
    }
}
