//! A connection's record of one of its streams: received data that the stream has not taken, and how it ended.

use weir_h2::ReceivedHead;
use weir_net::ConnectionFault;
use weir_sched::TaskKey;
use weir_sys::Errno;

use super::rooms;

/// The record of a stream.
#[derive(Debug)]
pub(super) struct StreamSlot {
    pub id: u32,
    pub task: TaskKey,
    /// A head that was not taken yet.
    head: Option<Box<ReceivedHead>>,
    /// Other untaken data. Boxed, because hundreds of streams of a connection may wait for a response without any.
    waiting: Option<Box<UntakenData>>,
    /// Whether the byte queue grows by little, because the stream is not expected to take the bytes soon.
    is_frugal: bool,
    /// Payload bytes that were not taken yet.
    pub payload: u32,
    pub ended: bool,
    /// The fault that ended the stream early.
    pub fault: Option<ConnectionFault>,
    /// The error code of the peer's RST_STREAM.
    pub abort: Option<u32>,
    /// The event that the stream needs before it can send.
    pub awaits: SendEvent,
    /// The number of the stream in traces. 0 for none.
    pub serial: u64,
}

// A connection may have a hundred slots, one per stream, in one block.
const _: () = assert!(size_of::<StreamSlot>() <= 56 || size_of::<Errno>() > 2);

/// Data received for a stream and not taken yet.
#[derive(Debug, Default)]
struct UntakenData {
    /// Payload, then trailers as lines.
    bytes: Vec<u8>,
    /// How many bytes at the end of `bytes` are trailers.
    trailers: u32,
    /// Heads after the first one: a server may send several.
    #[allow(clippy::vec_box, reason = "a head is large to move, and taken in its box")]
    heads: Vec<Box<ReceivedHead>>,
}

/// The event that a stream waits for to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SendEvent {
    Nothing,
    /// The stream's window, or the connection's, opens.
    Window,
    Room,
}

impl StreamSlot {
    pub(super) fn new(id: u32) -> StreamSlot {
        StreamSlot {
            id,
            task: TaskKey::NONE,
            head: None,
            waiting: None,
            is_frugal: true,
            payload: 0,
            ended: false,
            fault: None,
            abort: None,
            awaits: SendEvent::Nothing,
            serial: 0,
        }
    }

    /// Received bytes that were not taken.
    pub(super) fn arrived(&self) -> &[u8] {
        self.waiting.as_ref().map_or(&[], |waiting| &waiting.bytes)
    }

    /// The untaken bytes, mutable.
    fn arrived_mut(&mut self) -> &mut Vec<u8> {
        &mut self.waiting.get_or_insert_default().bytes
    }

    /// Whether its task took all received payload.
    pub(super) fn is_drained(&self) -> bool {
        self.arrived().is_empty()
    }

    #[track_caller]
    pub(super) fn wake(&self) {
        if !self.task.is_none() {
            weir_sched::wake(self.task);
        }
    }

    pub(super) fn add_payload(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.payload += bytes.len() as u32;
        let is_frugal = self.is_frugal;
        let arrived = self.arrived_mut();
        if is_frugal {
            make_room(arrived, bytes.len(), 8);
        } else if arrived.len() >= LARGE {
            make_room(arrived, bytes.len(), 4);
        }
        arrived.extend_from_slice(bytes);
    }

    /// Shrinks the memory to the untaken bytes, and returns the number of bytes freed. Memory then grows by little until
    /// the stream takes data.
    pub(super) fn shrink(&mut self) -> usize {
        self.is_frugal = true;
        let Some(waiting) = &mut self.waiting else { return 0 };
        let before = waiting.bytes.capacity();
        waiting.bytes.shrink_to_fit();
        let freed = before - waiting.bytes.capacity();
        if waiting.bytes.is_empty() && waiting.heads.is_empty() {
            self.waiting = None;
        }
        freed
    }

    /// The peer's last byte was received, with these trailers: lines as in HTTP/1.
    pub(super) fn end(&mut self, trailers: &[u8]) {
        self.ended = true;
        if !trailers.is_empty() {
            let waiting = self.waiting.get_or_insert_default();
            waiting.bytes.extend_from_slice(trailers);
            waiting.trailers = trailers.len() as u32;
        }
    }

    /// Adds a head. False if [`HEADS`] already wait. The head then goes back to the free list.
    pub(super) fn add_head(&mut self, head: Box<ReceivedHead>) -> bool {
        if self.head.is_none() {
            self.head = Some(head);
        } else if self.waiting.as_ref().map_or(0, |waiting| waiting.heads.len()) < HEADS {
            self.waiting.get_or_insert_default().heads.push(head);
        } else {
            rooms::give(head);
            return false;
        }
        true
    }

    /// The next head that was not taken yet.
    pub(super) fn take_head(&mut self) -> Option<Box<ReceivedHead>> {
        let head = self.head.take();
        if let Some(waiting) = &mut self.waiting
            && !waiting.heads.is_empty()
        {
            self.head = Some(waiting.heads.remove(0));
        }
        head
    }

    /// Whether a head waits for the stream's task.
    pub(super) fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Appends the received bytes to the stream's input. If the stream holds none, the buffers are swapped instead of
    /// copied.
    pub(super) fn take_arrived(&mut self, into: &mut Vec<u8>) -> TakeResult {
        let (mut bytes, mut trailers) = (0, 0);
        if let Some(UntakenData { bytes: arrived, trailers: behind, .. }) = self.waiting.as_deref_mut() {
            bytes = arrived.len();
            trailers = std::mem::take(behind);
            if into.is_empty() {
                std::mem::swap(into, arrived);
            } else {
                into.append(arrived);
            }
        }
        self.is_frugal &= bytes == 0;
        TakeResult { bytes, trailers, payload: std::mem::take(&mut self.payload), ended: self.ended }
    }
}

/// Reserves `count` bytes, or a `part`-th of the untaken bytes if that is more, so that small pieces do not copy all each time.
fn make_room(arrived: &mut Vec<u8>, count: usize, part: usize) {
    if arrived.capacity() - arrived.len() < count {
        arrived.reserve_exact(count.max(arrived.len() / part));
    }
}

/// From this number of bytes on, memory does not double. Only large windows let that much queue up.
const LARGE: usize = 128 * 1024;

/// The result of taking received bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakeResult {
    pub bytes: usize,
    /// How many bytes at the end are trailers.
    pub trailers: u32,
    pub payload: u32,
    pub ended: bool,
}

/// Maximum untaken heads of one stream. All but the last are interim responses, and a server that sends more is misbehaving.
const HEADS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16) -> Box<ReceivedHead> {
        let mut head = Box::new(ReceivedHead::default());
        head.head.note_status(status);
        head
    }

    #[test]
    fn a_stream_keeps_a_limited_number_of_heads_in_order() {
        let mut slot = StreamSlot::new(1);
        assert!(!slot.has_head() && slot.take_head().is_none());
        for status in 100..100 + HEADS as u16 + 1 {
            assert!(slot.add_head(head(status)), "{status}");
        }
        assert!(!slot.add_head(head(200)), "one too many");
        for status in 100..100 + HEADS as u16 + 1 {
            assert!(slot.has_head());
            assert_eq!(slot.take_head().map(|head| head.head.status()), Some(status));
        }
        assert!(!slot.has_head());
    }

    fn capacity(slot: &StreamSlot) -> usize {
        slot.waiting.as_ref().map_or(0, |waiting| waiting.bytes.capacity())
    }

    #[test]
    fn stream_memory_fits_its_payload_before_a_read_and_after_a_shrink() {
        let mut slot = StreamSlot::new(1);
        for _ in 0..64 {
            slot.add_payload(&[0; 1000]);
            assert!(capacity(&slot) <= slot.arrived().len() * 9 / 8 + 1000, "{}", capacity(&slot));
        }
        let mut input = Vec::new();
        slot.take_arrived(&mut input);
        input.clear();
        slot.take_arrived(&mut input);
        slot.add_payload(b"1");
        let wide = capacity(&slot);
        assert!(wide >= 64_000, "the stream and the connection exchange their memory");
        assert_eq!((slot.shrink(), capacity(&slot), slot.shrink()), (wide - 1, 1, 0));
        slot.take_arrived(&mut input);
        slot.shrink();
        assert!(slot.waiting.is_none(), "a stream that has nothing here has no block for it");
        slot.add_payload(&[0; 1000]);
        slot.add_payload(&[0; 10]);
        assert!(capacity(&slot) < 1200, "quiet streams take little more than their bytes");
    }

    #[test]
    fn stream_memory_of_large_payload_grows_by_a_quarter() {
        let mut slot = StreamSlot::new(1);
        slot.add_payload(b"1");
        slot.take_arrived(&mut Vec::new());
        for _ in 0..1000 {
            slot.add_payload(&[0; 1000]);
        }
        assert!(capacity(&slot) <= 1_250_000, "{}", capacity(&slot));
    }

    #[test]
    fn take_arrived_returns_payload_followed_by_trailers() {
        let mut slot = StreamSlot::new(1);
        slot.add_payload(b"0123456789abcdef");
        slot.add_payload(b"");
        slot.end(b"a: b\r\n");
        let mut bytes = b"held ".to_vec();
        let arrived = slot.take_arrived(&mut bytes);
        assert_eq!(bytes, b"held 0123456789abcdefa: b\r\n");
        assert_eq!((arrived.bytes, arrived.payload, arrived.trailers, arrived.ended), (22, 16, 6, true));
        let again = slot.take_arrived(&mut bytes);
        assert_eq!((again.bytes, again.trailers, again.ended), (0, 0, true));
        let mut plain = StreamSlot::new(1);
        plain.add_payload(b"ab");
        plain.end(b"");
        let mut bytes = Vec::new();
        let arrived = plain.take_arrived(&mut bytes);
        assert_eq!((arrived.payload, arrived.trailers, &*bytes), (2, 0, &b"ab"[..]));
    }
}
