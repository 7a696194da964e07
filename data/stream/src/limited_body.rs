//! A body in memory, up to a limit.

/// The bytes of a body, kept or only counted, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct LimitedBody {
    pub(crate) bytes: Vec<u8>,
    keeps: bool,
    /// How many bytes may still come.
    room: usize,
    /// More bytes came than the limit allows. None are kept then.
    pub(crate) is_exceeded: bool,
}

impl LimitedBody {
    /// Keeps up to `limit` bytes.
    pub(crate) fn kept(limit: usize) -> Self {
        LimitedBody { keeps: true, room: limit, ..LimitedBody::default() }
    }

    /// Counts up to `limit` bytes and drops them.
    pub(crate) fn dropped(limit: usize) -> Self {
        LimitedBody { room: limit, ..LimitedBody::default() }
    }

    /// Adds the next bytes.
    pub(crate) fn add(&mut self, piece: &[u8]) {
        if self.is_exceeded {
            return;
        }
        match self.room.checked_sub(piece.len()) {
            Some(room) => {
                self.room = room;
                if self.keeps {
                    self.bytes.extend_from_slice(piece);
                }
            }
            None => {
                self.is_exceeded = true;
                self.bytes = Vec::new();
            }
        }
    }

    /// The whole body. `None` if it exceeds the limit.
    pub(crate) fn whole(self) -> Option<Vec<u8>> {
        (!self.is_exceeded).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_a_body_of_the_limit_and_nothing_of_a_larger_one() {
        let mut body = LimitedBody::kept(5);
        body.add(b"abc");
        body.add(b"de");
        assert_eq!(body.whole().as_deref(), Some(&b"abcde"[..]));
        let mut body = LimitedBody::kept(5);
        body.add(b"abc");
        body.add(b"def");
        body.add(b"g");
        assert!(body.is_exceeded && body.bytes.is_empty());
        assert_eq!(body.whole(), None);
    }

    #[test]
    fn only_counts_a_dropped_body() {
        let mut body = LimitedBody::dropped(3);
        body.add(b"abc");
        assert!(body.bytes.is_empty() && !body.is_exceeded);
        body.add(b"d");
        assert!(body.is_exceeded);
    }
}
