//! Frames of SPOP agents.

use weir_spop::testing::{NotifyMessages, write_action};
use weir_spop::{AgentActions, AgentConnection, AgentEvent, AgentLimits, MessageWriter, TypedData, frame};

const OFFER: AgentLimits<'_> =
    AgentLimits { max_frame_size: 1000, pipelining: true, engine_id: "engine", healthcheck: false };

/// The bytes of an agent on a connection. The first byte is the length of a piece. The pieces must give the events of the whole.
pub fn agent_frames(bytes: &[u8]) {
    let Some((&piece, input)) = bytes.split_first() else { return };
    let whole = events(input, input.len().max(1));
    assert_eq!(whole, events(input, usize::from(piece).max(1)));
}

/// The events of an input in pieces, with the output at its end.
fn events(input: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let mut connection = AgentConnection::new(OFFER);
    let (mut events, mut waiting) = (Vec::new(), Vec::new());
    for piece in input.chunks(piece) {
        waiting.extend_from_slice(piece);
        loop {
            let (consumed, event) = connection.receive(&waiting);
            assert!(consumed <= waiting.len() && (event.is_none() || consumed > 0));
            let Some(event) = event else {
                waiting.drain(..consumed);
                break;
            };
            events.push(format!("{event:?}"));
            match event {
                AgentEvent::Ready { max_frame_size, .. } => assert!((256..=1000).contains(&max_frame_size)),
                AgentEvent::Ack { payload, .. } => assert!(payload.len() <= 1000),
                AgentEvent::Disconnected { message, .. } => assert!(message.len() <= 1000),
                AgentEvent::Failed(_) => assert!(!connection.may_notify()),
            }
            waiting.drain(..consumed);
        }
        assert!(waiting.len() < frame::PREFIX + 1000, "less than one frame waits");
    }
    // A HELLO frame and at most one DISCONNECT frame.
    assert!(connection.output().len() < 256);
    (events, connection.output().to_vec())
}

/// A payload, read as typed data, as actions and as messages. Whatever is valid must survive a round trip.
pub fn agent_payloads(bytes: &[u8]) {
    if let Ok((data, rest)) = TypedData::read(bytes) {
        assert!(rest.len() < bytes.len());
        let mut out = Vec::new();
        data.write(&mut out);
        assert_eq!(TypedData::read(&out), Ok((data, &[][..])));
    }
    let mut actions = Vec::new();
    for action in AgentActions::new(bytes) {
        let Ok(action) = action else { break };
        actions.push(action);
    }
    let mut out = Vec::new();
    actions.iter().for_each(|action| write_action(action, &mut out));
    assert_eq!(AgentActions::new(&out).collect::<Result<Vec<_>, _>>(), Ok(actions));
    let (mut messages, mut out) = (Vec::new(), Vec::new());
    for message in NotifyMessages::new(bytes) {
        let Ok(message) = message else { break };
        let mut writer = MessageWriter::new(message.name, &mut out);
        for (name, value) in &message.arguments {
            writer.argument(name, *value).expect("the count of a message is a byte");
        }
        messages.push(message);
    }
    assert_eq!(NotifyMessages::new(&out).collect::<Result<Vec<_>, _>>(), Ok(messages));
}
