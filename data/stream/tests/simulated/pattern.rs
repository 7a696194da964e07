//! Bodies that identify themselves. Each byte is derived from the request's number, the direction and the offset, so that lost,
//! duplicated, reordered or misdirected bytes are detected. Bodies look like requests, so that a body parsed as a head yields a
//! request that no client sent.

/// The direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Up,
    Down,
}

/// A body, or the received part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pattern {
    id: u64,
    way: Way,
    /// Bytes that were generated or checked.
    pub done: usize,
}

impl Pattern {
    pub(crate) fn new(id: u64, way: Way) -> Pattern {
        Pattern { id, way, done: 0 }
    }

    /// Generates the next bytes.
    pub(crate) fn make(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + LINE);
        let skipped = self.done % LINE;
        let mut line = self.done / LINE;
        while bytes.len() < skipped + length {
            let way = if self.way == Way::Up { 'u' } else { 'd' };
            bytes.extend(
                format!("GET /0/{way}{:06}/{:06} HTTP/1.1\r\n\r\n", self.id, line % 1_000_000).bytes(),
            );
            line += 1;
        }
        self.done += length;
        bytes.drain(..skipped);
        bytes.truncate(length);
        bytes
    }

    /// Checks that these are the next bytes.
    #[track_caller]
    pub(crate) fn check(&mut self, bytes: &[u8]) {
        let at = self.done;
        let expected = self.make(bytes.len());
        assert!(
            expected == bytes,
            "body of {} {:?} at {at}: {:?} instead of {:?}",
            self.id,
            self.way,
            String::from_utf8_lossy(bytes),
            String::from_utf8_lossy(&expected)
        );
    }
}

const LINE: usize = "GET /0/u000000/000000 HTTP/1.1\r\n\r\n".len();
