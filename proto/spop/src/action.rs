//! The actions of an ACK frame (SPOE.txt, 3.4).

use weir_peers_protocol::ByteReader;

use crate::data::{MalformedPayload, TypedData, byte};

/// A change of a variable, ordered by an agent. The name comes without scope and prefix and is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentAction<'a> {
    SetVar { scope: ActionScope, name: &'a [u8], value: TypedData<'a> },
    UnsetVar { scope: ActionScope, name: &'a [u8] },
}

/// The scope of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionScope {
    Process = 0,
    Session = 1,
    Transaction = 2,
    Request = 3,
    Response = 4,
}

impl ActionScope {
    fn from_byte(byte: u8) -> Result<Self, MalformedPayload> {
        Ok(match byte {
            0 => ActionScope::Process,
            1 => ActionScope::Session,
            2 => ActionScope::Transaction,
            3 => ActionScope::Request,
            4 => ActionScope::Response,
            _ => return Err(MalformedPayload),
        })
    }
}

/// The actions of a payload in their order. It ends after an error.
///
/// An unknown action, an unknown scope, a wrong count of arguments and a value that is not valid are errors. HAProxy 3.2 applies
/// the actions before the first error, ignores the rest of the payload, and counts the exchange as successful. Names that are
/// not valid for a variable (empty, with a space) do not stop it: it skips that action only. A NULL value unsets the variable.
#[derive(Debug, Clone, Copy)]
pub struct AgentActions<'a>(ByteReader<'a>);

impl<'a> AgentActions<'a> {
    /// The actions of the payload of an ACK frame.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        AgentActions(ByteReader(payload))
    }

    fn read_next(&mut self) -> Result<AgentAction<'a>, MalformedPayload> {
        let reader = &mut self.0;
        let (kind, count) = (byte(reader)?, byte(reader)?);
        match (kind, count) {
            (SET_VAR, SET_VAR_ARGUMENTS) => Ok(AgentAction::SetVar {
                scope: ActionScope::from_byte(byte(reader)?)?,
                name: reader.counted_bytes()?,
                value: TypedData::take(reader)?,
            }),
            (UNSET_VAR, UNSET_VAR_ARGUMENTS) => Ok(AgentAction::UnsetVar {
                scope: ActionScope::from_byte(byte(reader)?)?,
                name: reader.counted_bytes()?,
            }),
            _ => Err(MalformedPayload),
        }
    }
}

impl<'a> Iterator for AgentActions<'a> {
    type Item = Result<AgentAction<'a>, MalformedPayload>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let action = self.read_next();
        if action.is_err() {
            self.0 = ByteReader(&[]);
        }
        Some(action)
    }
}

pub(crate) const SET_VAR: u8 = 1;
pub(crate) const SET_VAR_ARGUMENTS: u8 = 3;
pub(crate) const UNSET_VAR: u8 = 2;
pub(crate) const UNSET_VAR_ARGUMENTS: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const SET: AgentAction<'_> =
        AgentAction::SetVar { scope: ActionScope::Transaction, name: b"a", value: TypedData::Uint32(1) };
    const SET_BYTES: &[u8] = b"\x01\x03\x02\x01a\x03\x01";

    #[test]
    fn reads_both_actions_in_each_scope() {
        let mut payload = Vec::new();
        for scope in 0..5 {
            payload.extend([1, 3, scope, 1, b'a', 3, 1, 2, 2, scope, 0]);
        }
        let mut actions = AgentActions::new(&payload);
        use ActionScope::{Process, Request, Response, Session, Transaction};
        for scope in [Process, Session, Transaction, Request, Response] {
            let value = TypedData::Uint32(1);
            assert_eq!(actions.next(), Some(Ok(AgentAction::SetVar { scope, name: b"a", value })));
            assert_eq!(actions.next(), Some(Ok(AgentAction::UnsetVar { scope, name: b"" })));
        }
        assert_eq!(actions.next(), None);
        assert_eq!(AgentActions::new(b"").next(), None);
    }

    #[test]
    fn an_error_ends_the_actions_after_the_valid_ones() {
        for wrong in [
            &b"\x09\x00"[..],
            b"\x00\x00",
            b"\x03\x03\x02\x01a\x03\x01",
            b"\x01\x03\x05\x01a\x03\x01",
            b"\x02\x02\x05\x01a",
            b"\x01\x02\x02\x01a\x03\x01",
            b"\x01\x04\x02\x01a\x03\x01",
            b"\x02\x03\x02\x01a",
            b"\x01\x03\x02\x01a\x0a",
            b"\x01\x03\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ] {
            let payload = [SET_BYTES, wrong, SET_BYTES].concat();
            let mut actions = AgentActions::new(&payload);
            assert_eq!(actions.next(), Some(Ok(SET)), "{wrong:?}");
            assert_eq!(actions.next(), Some(Err(MalformedPayload)), "{wrong:?}");
            assert_eq!(actions.next(), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_truncated_action_is_an_error() {
        for cut in 1..SET_BYTES.len() {
            assert_eq!(AgentActions::new(&SET_BYTES[..cut]).next(), Some(Err(MalformedPayload)), "{cut}");
        }
    }
}
