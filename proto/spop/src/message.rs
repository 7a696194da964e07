//! The messages of a NOTIFY frame (SPOE.txt, 3.2: LIST-OF-MESSAGES).

use crate::data::{TypedData, write_counted, write_item};

/// A message with 255 arguments, the most that its count can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyArguments;

/// Appends one message to a payload. The payload is complete after each call.
#[derive(Debug)]
pub struct MessageWriter<'p> {
    payload: &'p mut Vec<u8>,
    /// Offset of the count of arguments.
    count_at: usize,
}

impl<'p> MessageWriter<'p> {
    /// Begins a message without arguments.
    pub fn new(name: &[u8], payload: &'p mut Vec<u8>) -> Self {
        write_counted(name, payload);
        let count_at = payload.len();
        payload.push(0);
        MessageWriter { payload, count_at }
    }

    /// Appends an argument. HAProxy sends an argument without a name as one with an empty name.
    ///
    /// # Errors
    /// The message has 255 arguments already. The payload is unchanged.
    pub fn argument(&mut self, name: &[u8], value: TypedData<'_>) -> Result<(), TooManyArguments> {
        let count = &mut self.payload[self.count_at];
        *count = count.checked_add(1).ok_or(TooManyArguments)?;
        write_item(name, value, self.payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn messages_are_written_like_haproxys() {
        let mut payload = Vec::new();
        let mut message = MessageWriter::new(b"m", &mut payload);
        message.argument(b"a", TypedData::Int64(5)).expect("room");
        message.argument(b"", TypedData::Text(b"/x")).expect("room");
        message.argument(b"", TypedData::Bool(true)).expect("room");
        message.argument(b"", TypedData::Ipv4(Ipv4Addr::LOCALHOST)).expect("room");
        MessageWriter::new(b"n", &mut payload);
        assert_eq!(payload, b"\x01m\x04\x01a\x04\x05\0\x08\x02/x\0\x11\0\x06\x7f\0\0\x01\x01n\0");
    }

    #[test]
    fn a_message_has_at_most_255_arguments() {
        let mut payload = Vec::new();
        let mut message = MessageWriter::new(b"m", &mut payload);
        for _ in 0..255 {
            assert_eq!(message.argument(b"", TypedData::Null), Ok(()));
        }
        assert_eq!(message.argument(b"", TypedData::Null), Err(TooManyArguments));
        assert_eq!((payload[2], payload.len()), (255, 3 + 2 * 255));
    }
}
