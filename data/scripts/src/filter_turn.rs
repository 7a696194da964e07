//! The payload of one call of a filter, which the script reads and changes.

use std::ops::Range;

use crate::message::{ChannelState, ScriptSide};

/// The call of a filter that runs: its message or channel, and its changes.
#[derive(Debug)]
pub struct FilterTurn {
    pub side: ScriptSide,
    /// The payload. `None` in calls about other things.
    pub payload: Option<FilteredPayload>,
    /// The new length of the body, which a filter sets before the head is sent.
    pub length: Option<NewLength>,
    /// Whether the head has not been sent yet.
    pub sees_head: bool,
}

impl FilterTurn {
    /// A call that sees no payload.
    pub fn new(side: ScriptSide) -> Self {
        FilterTurn { side, payload: None, length: None, sees_head: false }
    }

    /// The payload, in a call about this direction.
    pub fn payload_of(&mut self, side: ScriptSide) -> Option<&mut FilteredPayload> {
        self.payload.as_mut().filter(|_| self.side == side)
    }
}

/// The length of a body that a filter announces (`HTTPMessage.set_body_len`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewLength {
    /// The framing marks the end of the body.
    Unknown,
    /// In bytes.
    Known(u64),
}

/// The payload that waits for a filter, in the order of its bytes: those that the filter has let pass, and those that it has not.
#[derive(Debug, Default)]
pub struct FilteredPayload {
    bytes: Vec<u8>,
    forwarded: usize,
    /// The most bytes.
    limit: usize,
    /// Whether no more bytes follow.
    ends: bool,
    end: EndChange,
}

/// A change of the end of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndChange {
    #[default]
    None,
    /// The message does not end before a call of `set_eom` (`unset_eom`).
    Held,
    /// The message ends here, whatever follows (`set_eom`).
    Here,
}

impl FilteredPayload {
    /// Without bytes. It takes up to `limit` bytes.
    pub fn new(limit: usize) -> Self {
        FilteredPayload { limit, ..FilteredPayload::default() }
    }

    /// The bytes that the filter has not let pass.
    pub fn incoming(&self) -> &[u8] {
        &self.bytes[self.forwarded..]
    }

    /// The number of bytes that it has let pass.
    pub fn outgoing(&self) -> usize {
        self.forwarded
    }

    /// Whether no more bytes follow.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// Notes that no more bytes follow.
    pub fn note_end(&mut self) {
        self.ends = true;
    }

    /// Whether no further byte fits.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= self.limit
    }

    /// Adds as many of these bytes as fit, and returns their number.
    pub fn receive(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.limit.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(&bytes[..count]);
        count
    }

    /// The state as that of a channel.
    pub fn state(&self) -> ChannelState {
        ChannelState {
            input: self.incoming().len(),
            output: self.forwarded,
            is_full: self.is_full(),
            may_receive: !self.ends,
            is_final: true,
        }
    }

    /// Replaces a part of the incoming bytes. False if the result would be too large.
    pub fn replace(&mut self, range: Range<usize>, bytes: &[u8]) -> bool {
        let range = range.start + self.forwarded..range.end + self.forwarded;
        if self.bytes.len() - range.len() + bytes.len() > self.limit {
            return false;
        }
        drop(self.bytes.splice(range, bytes.iter().copied()));
        true
    }

    /// Adds bytes behind those that have passed. False if the result would be too large.
    pub fn send(&mut self, bytes: &[u8]) -> bool {
        let fits = self.replace(0..0, bytes);
        if fits {
            self.forwarded += bytes.len();
        }
        fits
    }

    /// Lets the first incoming bytes pass.
    pub fn forward(&mut self, count: usize) {
        self.forwarded = self.bytes.len().min(self.forwarded + count);
    }

    /// Lets all bytes pass.
    pub fn forward_all(&mut self) {
        self.forwarded = self.bytes.len();
    }

    /// Takes up to `count` of the bytes that have passed.
    pub fn take(&mut self, count: usize) -> impl Iterator<Item = u8> {
        let count = count.min(self.forwarded);
        self.forwarded -= count;
        self.bytes.drain(..count)
    }

    /// The first of the bytes that have passed.
    pub fn passed(&self) -> &[u8] {
        &self.bytes[..self.forwarded]
    }

    /// Puts bytes in front, as passed ones. They may exceed the limit.
    pub fn put_back(&mut self, bytes: &[u8]) {
        drop(self.bytes.splice(0..0, bytes.iter().copied()));
        self.forwarded += bytes.len();
    }

    /// The most bytes.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The filter's change of the end of the message.
    pub fn end_change(&self) -> EndChange {
        self.end
    }

    /// Sets the end of the message, or takes it away.
    pub fn set_end(&mut self, is_here: bool) {
        self.end = match is_here {
            true if self.ends => EndChange::None,
            true => EndChange::Here,
            false => EndChange::Held,
        };
    }

    /// Whether the message ends for its filter.
    pub fn has_end(&self) -> bool {
        match self.end {
            EndChange::None => self.ends,
            EndChange::Held => false,
            EndChange::Here => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(bytes: &[u8]) -> FilteredPayload {
        let mut payload = FilteredPayload::new(12);
        assert_eq!(payload.receive(bytes), bytes.len());
        payload
    }

    #[test]
    fn sent_bytes_pass_before_incoming_ones() {
        let mut payload = payload(b"hello");
        payload.forward(2);
        assert!(payload.send(b"XY"));
        assert_eq!((payload.passed(), payload.incoming()), (&b"heXY"[..], &b"llo"[..]));
        assert!(payload.replace(1..3, b"LO!"));
        payload.forward(100);
        assert_eq!(payload.take(5).collect::<Vec<_>>(), b"heXYl");
        assert_eq!((payload.passed(), payload.outgoing()), (&b"LO!"[..], 3));
    }

    #[test]
    fn the_limit_holds_for_all_bytes() {
        let mut payload = payload(b"hello world");
        assert!(!payload.is_full());
        payload.forward(6);
        assert!(!payload.replace(0..0, b"12") && !payload.send(b"12"));
        assert!(payload.replace(0..1, b"12") && payload.is_full());
        assert_eq!(payload.receive(b"abc"), 0);
        assert_eq!(payload.passed(), b"hello ");
    }

    #[test]
    fn a_filter_moves_the_end_of_a_message() {
        let mut payload = payload(b"");
        payload.set_end(true);
        assert_eq!((payload.end_change(), payload.has_end()), (EndChange::Here, true));
        payload.set_end(false);
        assert_eq!((payload.end_change(), payload.has_end()), (EndChange::Held, false));
        payload.note_end();
        assert!(!payload.has_end());
        payload.set_end(true);
        assert_eq!((payload.end_change(), payload.has_end()), (EndChange::None, true));
    }
}
