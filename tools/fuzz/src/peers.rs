//! Messages of the peers protocol.

use weir_peers_protocol::{
    DataValue, EntryBody, Hello, HelloStatus, LearnedNames, PeerMessage, SessionFault, message, next, write,
};

/// The greeting of either side. Parsing must not depend on the bytes after it. One byte less must be incomplete.
pub fn peer_hello(bytes: &[u8]) {
    if let Ok(Some((hello, length))) = Hello::read(bytes) {
        assert!(length <= bytes.len());
        assert_eq!(Hello::read(&bytes[..length]), Ok(Some((hello, length))));
        assert_eq!(Hello::read(&bytes[..length - 1]), Ok(None));
    }
    if let Some((status, length)) = HelloStatus::read(bytes) {
        assert!(length <= bytes.len());
        assert!(status == HelloStatus::ProtocolError || length >= 4);
    }
}

/// A session after its greeting. Every message must end at its length and contain its update's data. Our replies must
/// parse as the intended messages.
pub fn peer_messages(bytes: &[u8]) {
    let mut rest = bytes;
    let mut definition = None;
    let mut names = LearnedNames::default();
    loop {
        let (message, length) = match next(rest) {
            Ok(Some(found)) => found,
            // An incomplete message is never longer than the limit.
            Ok(None) => return assert!(rest.len() < message::MAX_LENGTH),
            Err(SessionFault::Malformed | SessionFault::TooLong) => return,
        };
        assert!(length >= 2 && length <= rest.len().min(message::MAX_LENGTH));
        assert_eq!(next(&rest[..length]), Ok(Some((message.clone(), length))));
        assert!(matches!(next(&rest[..length - 1]), Ok(None)));
        match message {
            PeerMessage::Definition(received) => {
                let mut out = Vec::new();
                write::definition(&received, &mut out);
                assert_eq!(next(&out), Ok(Some((PeerMessage::Definition(received.clone()), out.len()))));
                definition = Some(received);
            }
            PeerMessage::Update(update) => {
                let mut out = Vec::new();
                write::update(update.number, update.expires_in_ms, update.body, &mut out);
                assert_eq!(next(&out), Ok(Some((PeerMessage::Update(update), out.len()))));
                let Some(definition) = &definition else { break };
                let Ok(entry) = EntryBody::read(update.body, definition.key, definition.key_length) else {
                    return;
                };
                let mut count = 0;
                let read = entry.read_data(&definition.fields, |_, _, value| {
                    count += 1;
                    if let DataValue::Name(mention) = value {
                        names.resolve(mention);
                    }
                });
                assert!(count <= update.body.len(), "each value has a byte at least");
                if read.is_err() {
                    return;
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
}
