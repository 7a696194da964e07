//! The variables of a stream: those of its transaction, and those of the message that is processed.

use weir_expr::{VariableScope, VariableStore};

use crate::errors::Direction;
use crate::variables::Charge;

/// The variables of a stream.
pub struct StreamVariables {
    /// Of scope `txn`.
    pub transaction: VariableStore,
    /// Of scope `req` while the request is processed, then `res`.
    pub message: VariableStore,
    /// The message that is processed: rules see it, and `message` holds its variables.
    pub processed: Direction,
    /// The account of both for the process.
    pub(crate) charge: Charge,
}

impl Default for StreamVariables {
    /// No variables; the request comes first.
    #[inline]
    fn default() -> Self {
        StreamVariables {
            transaction: VariableStore::default(),
            message: VariableStore::default(),
            processed: Direction::Request,
            charge: Charge::default(),
        }
    }
}

impl StreamVariables {
    /// Whether the response is processed.
    #[inline]
    pub fn is_response(&self) -> bool {
        self.processed == Direction::Response
    }

    /// The variables of a scope of the stream; none outside of the scope's time.
    pub fn of(&mut self, scope: VariableScope) -> Option<&mut VariableStore> {
        match (scope, self.processed) {
            (VariableScope::Transaction, _) => Some(&mut self.transaction),
            (VariableScope::Request, Direction::Request) => Some(&mut self.message),
            (VariableScope::Response, Direction::Response) => Some(&mut self.message),
            _ => None,
        }
    }

    /// Switches to the response: the variables of the request's scope end. False if that was done before.
    #[inline]
    pub fn begin_response(&mut self) -> bool {
        let begins = std::mem::replace(&mut self.processed, Direction::Response) == Direction::Request;
        if begins {
            self.message.clear();
        }
        begins
    }

    /// How many bytes they take.
    pub fn used(&self) -> usize {
        self.transaction.used() + self.message.used()
    }
}

#[cfg(test)]
mod tests {
    use weir_expr::{SetCondition, Value, VariableId};

    use super::*;

    #[test]
    fn a_scope_lasts_as_long_as_its_message() {
        let mut variables = StreamVariables::default();
        let scopes = [VariableScope::Transaction, VariableScope::Request, VariableScope::Response];
        let last = |variables: &mut StreamVariables| scopes.map(|scope| variables.of(scope).is_some());
        assert_eq!(last(&mut variables), [true, true, false]);
        assert!(variables.begin_response());
        assert_eq!(last(&mut variables), [true, false, true]);
        assert!(!variables.begin_response());
        assert!(variables.is_response());
    }

    #[test]
    fn what_the_request_left_is_gone_when_the_response_begins() {
        let mut variables = StreamVariables::default();
        for scope in [VariableScope::Transaction, VariableScope::Request] {
            let variable = VariableId { scope, name: 1 };
            let store = variables.of(scope).expect("it lasts");
            assert!(store.set_within(variable, Value::Int(1), SetCondition::ALWAYS, usize::MAX));
        }
        let both = variables.used();
        assert!(variables.begin_response());
        assert!(variables.used() > 0 && variables.used() < both);
    }
}
