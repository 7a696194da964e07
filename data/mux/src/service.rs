//! Services: they answer inside this process, in place of a server.

use std::fmt;

use weir_net::Received;

/// Produces the body of an answer in pieces: other tasks run between them, and no more of it exists than the client takes.
pub trait Service {
    /// Appends a piece of about `enough` bytes; false when that was the last.
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> bool;
}

/// A service that carries one side of a stream, and the current piece that has not left yet.
pub struct LocalService {
    service: Box<dyn Service>,
    piece: Vec<u8>,
    /// How many bytes of the piece were taken.
    taken: usize,
    ended: bool,
    produced: u64,
}

impl LocalService {
    /// Produces nothing before it is asked.
    pub fn new(service: Box<dyn Service>) -> Self {
        LocalService { service, piece: Vec::new(), taken: 0, ended: false, produced: 0 }
    }

    /// The produced bytes that have not left.
    pub fn output(&self) -> &[u8] {
        self.piece.get(self.taken..).unwrap_or_default()
    }

    /// Removes `count` bytes that left.
    pub fn consume(&mut self, count: usize) {
        self.taken += count.min(self.output().len());
    }

    /// Whether the last piece was produced.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// Bytes produced so far.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Produces the next piece, after the former one has left.
    pub fn receive(&mut self) -> Received {
        if !self.output().is_empty() {
            return Received::Full;
        }
        if self.ended {
            return Received::End;
        }
        self.taken = 0;
        self.piece.clear();
        self.ended = !self.service.advance(PIECE, &mut self.piece);
        let count = self.piece.len();
        self.produced += count as u64;
        if count == 0 && self.ended { Received::End } else { Received::Bytes(count) }
    }
}

impl fmt::Debug for LocalService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalService").field("produced", &self.produced).field("ended", &self.ended).finish()
    }
}

/// How many bytes a service is asked for at a time.
const PIECE: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    /// Produces this many pieces of this many bytes.
    struct Pieces(usize, usize);

    impl Service for Pieces {
        fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> bool {
            self.0 = self.0.saturating_sub(1);
            out.resize(out.len() + self.1, b'0' + self.0 as u8);
            self.0 > 0
        }
    }

    #[test]
    fn a_piece_is_made_when_the_former_one_left() {
        let mut service = LocalService::new(Box::new(Pieces(3, 1)));
        assert!(service.output().is_empty() && service.produced() == 0);
        for (piece, last) in [(b"2", false), (b"1", false), (b"0", true)] {
            assert_eq!(service.receive(), Received::Bytes(1));
            assert_eq!((service.output(), service.ended()), (&piece[..], last));
            assert_eq!(service.receive(), Received::Full, "it did not leave");
            service.consume(1);
        }
        assert_eq!((service.receive(), service.produced()), (Received::End, 3));
    }
}
