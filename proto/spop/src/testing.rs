//! The agent's side of the wire, for scripted agents in tests.
//!
//! [`crate::frame::read`] reads the balancer's frames, [`NotifyMessages`] the payload of a NOTIFY frame.

use weir_peers_protocol::ByteReader;

use crate::action::{AgentAction, SET_VAR, SET_VAR_ARGUMENTS, UNSET_VAR, UNSET_VAR_ARGUMENTS};
use crate::connection::{MESSAGE, STATUS_CODE};
use crate::data::{Items, MalformedPayload, TypedData, byte, write_counted, write_item};
use crate::frame::{FIN, SpopFrame, SpopFrameKind, write};
use crate::hello::{CAPABILITIES, MAX_FRAME_SIZE, PIPELINING, write_of_the_connection};

/// Appends an AGENT-HELLO frame of SPOP 2.0.
pub fn write_agent_hello(max_frame_size: u32, pipelining: bool, out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    write_item(b"version", TypedData::Text(b"2.0"), &mut payload);
    write_item(MAX_FRAME_SIZE, TypedData::Uint32(u64::from(max_frame_size)), &mut payload);
    write_item(CAPABILITIES, TypedData::Text(if pipelining { PIPELINING } else { b"" }), &mut payload);
    write_of_the_connection(SpopFrameKind::AgentHello, &payload, out);
}

/// Appends an ACK frame.
pub fn write_ack(stream_id: u64, frame_id: u64, actions: &[AgentAction<'_>], out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    for action in actions {
        write_action(action, &mut payload);
    }
    write(&SpopFrame { kind: SpopFrameKind::Ack, flags: FIN, stream_id, frame_id, payload: &payload }, out);
}

/// Appends an action to the payload of an ACK frame.
pub fn write_action(action: &AgentAction<'_>, payload: &mut Vec<u8>) {
    match *action {
        AgentAction::SetVar { scope, name, value } => {
            payload.extend([SET_VAR, SET_VAR_ARGUMENTS, scope as u8]);
            write_counted(name, payload);
            value.write(payload);
        }
        AgentAction::UnsetVar { scope, name } => {
            payload.extend([UNSET_VAR, UNSET_VAR_ARGUMENTS, scope as u8]);
            write_counted(name, payload);
        }
    }
}

/// Appends an AGENT-DISCONNECT frame.
pub fn write_agent_disconnect(status: u32, message: &[u8], out: &mut Vec<u8>) {
    let mut payload = Vec::new();
    write_item(STATUS_CODE, TypedData::Uint32(u64::from(status)), &mut payload);
    write_item(MESSAGE, TypedData::Text(message), &mut payload);
    write_of_the_connection(SpopFrameKind::AgentDisconnect, &payload, out);
}

/// One message of a NOTIFY frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyMessage<'a> {
    pub name: &'a [u8],
    /// Names and values, at most 255. An argument without a name has an empty one.
    pub arguments: Vec<(&'a [u8], TypedData<'a>)>,
}

/// The messages of the payload of a NOTIFY frame. It ends after an error.
#[derive(Debug, Clone, Copy)]
pub struct NotifyMessages<'a>(ByteReader<'a>);

impl<'a> NotifyMessages<'a> {
    /// The messages of the payload of a NOTIFY frame.
    #[must_use]
    pub fn new(payload: &'a [u8]) -> Self {
        NotifyMessages(ByteReader(payload))
    }

    fn read_next(&mut self) -> Result<NotifyMessage<'a>, MalformedPayload> {
        let name = self.0.counted_bytes()?;
        let count = byte(&mut self.0)?;
        let mut items = Items(self.0);
        let arguments = (0..count).map(|_| items.read_next()).collect::<Result<_, _>>()?;
        self.0 = items.0;
        Ok(NotifyMessage { name, arguments })
    }
}

impl<'a> Iterator for NotifyMessages<'a> {
    type Item = Result<NotifyMessage<'a>, MalformedPayload>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.0.is_empty() {
            return None;
        }
        let message = self.read_next();
        if message.is_err() {
            self.0 = ByteReader(&[]);
        }
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ActionScope, AgentActions, MessageWriter};

    #[test]
    fn messages_survive_a_round_trip() {
        let mut payload = Vec::new();
        let mut writer = MessageWriter::new(b"first", &mut payload);
        let values = [TypedData::Null, TypedData::Int64(-5), TypedData::Text(b"x"), TypedData::Binary(b"")];
        for value in values {
            writer.argument(b"name", value).expect("room");
        }
        MessageWriter::new(b"second", &mut payload);
        let arguments = values.map(|value| (&b"name"[..], value)).to_vec();
        let second = NotifyMessage { name: b"second", arguments: Vec::new() };
        let found: Vec<_> = NotifyMessages::new(&payload).collect();
        assert_eq!(found, [Ok(NotifyMessage { name: b"first", arguments }), Ok(second)]);
        assert!(NotifyMessages::new(&payload[..payload.len() - 1]).any(|message| message.is_err()));
    }

    #[test]
    fn actions_survive_a_round_trip() {
        let actions = [
            AgentAction::SetVar { scope: ActionScope::Response, name: b"a", value: TypedData::Bool(true) },
            AgentAction::UnsetVar { scope: ActionScope::Process, name: b"b" },
        ];
        let mut payload = Vec::new();
        actions.iter().for_each(|action| write_action(action, &mut payload));
        assert_eq!(AgentActions::new(&payload).collect::<Result<Vec<_>, _>>(), Ok(actions.to_vec()));
    }
}
