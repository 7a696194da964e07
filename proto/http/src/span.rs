//! The location of a piece of a message: in the raw bytes, or in the arena of the edits.

/// A piece of a message: an offset and a length, and one bit for raw bytes or arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageSpan {
    offset: u32,
    /// The highest bit marks a span in the edit arena. The other bits are the length.
    length: u32,
}

impl MessageSpan {
    /// The largest offset and the largest length of a span: far above any buffer size.
    pub const MAX: usize = (EDITED - 1) as usize;

    /// The empty span at the start of the raw bytes.
    pub const EMPTY: MessageSpan = MessageSpan { offset: 0, length: 0 };

    /// The span of `start..end` in the raw bytes. Both must be at most [`MessageSpan::MAX`], and `start <= end`.
    #[inline]
    pub fn raw(start: usize, end: usize) -> MessageSpan {
        debug_assert!(start <= end && end <= MessageSpan::MAX);
        MessageSpan { offset: start as u32, length: (end - start) as u32 }
    }

    /// The span of `start..end` in the arena of the edits.
    #[inline]
    pub fn edited(start: usize, end: usize) -> MessageSpan {
        debug_assert!(start <= end && end <= MessageSpan::MAX);
        MessageSpan { offset: start as u32, length: (end - start) as u32 | EDITED }
    }

    /// Length of the span in bytes.
    #[inline]
    pub fn len(self) -> usize {
        (self.length & !EDITED) as usize
    }

    /// Whether the span is empty.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the span is in the edit arena.
    #[inline]
    pub fn is_edited(self) -> bool {
        self.length & EDITED != 0
    }

    /// Start offset, in the raw bytes or in the arena.
    #[inline]
    pub fn start(self) -> usize {
        self.offset as usize
    }

    /// End offset, exclusive.
    #[inline]
    pub fn end(self) -> usize {
        self.start() + self.len()
    }

    /// The part `from..to` of the span, relative to its start and clamped to its length.
    #[inline]
    pub fn part(self, from: usize, to: usize) -> MessageSpan {
        let to = to.min(self.len());
        let from = from.min(to);
        MessageSpan { offset: self.offset + from as u32, length: (to - from) as u32 | (self.length & EDITED) }
    }

    /// Its first `length` bytes.
    #[inline]
    pub fn narrowed(self, length: usize) -> MessageSpan {
        self.part(0, length)
    }

    /// The bytes of the span. Empty, without a panic, if the span is out of range (made for other bytes).
    #[inline]
    pub fn of<'a>(self, raw: &'a [u8], edits: &'a [u8]) -> &'a [u8] {
        let place = if self.is_edited() { edits } else { raw };
        place.get(self.start()..self.end()).unwrap_or_default()
    }
}

const EDITED: u32 = 1 << 31;
