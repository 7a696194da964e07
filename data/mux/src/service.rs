//! Services: they answer inside this process, in place of a server.

use std::fmt;

use weir_net::Received;
use weir_sched::Tick;

/// Produces the body of an answer in pieces: other tasks run between them, and no more of it exists than the client takes.
pub trait Service {
    /// Appends a piece of about `enough` bytes, or goes to the next one that it lends. The former piece has left.
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> Made;

    /// The current piece of a service that has it in memory of its own, so that it need not be copied.
    fn lent(&self) -> Option<&[u8]> {
        None
    }
}

/// The result of a step of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// There is a piece, and more follows.
    More,
    /// There is a piece, and it is the last.
    Last,
    /// There is nothing now. The service wakes the stream's task, or goes on at this time.
    Later(Tick),
}

/// A service that carries one side of a stream, and the current piece that has not left yet.
pub struct LocalService {
    service: Box<dyn Service>,
    piece: Vec<u8>,
    /// How many bytes of the piece were taken. A piece is never as large as 4 GB, and each stream has the place for a service.
    taken: u32,
    ended: bool,
    /// When a service that waits goes on.
    resumes: Tick,
    produced: u64,
}

impl LocalService {
    /// Produces nothing before it is asked.
    pub fn new(service: Box<dyn Service>) -> Self {
        LocalService { service, piece: Vec::new(), taken: 0, ended: false, resumes: Tick::NEVER, produced: 0 }
    }

    /// The produced bytes that have not left.
    pub fn output(&self) -> &[u8] {
        let piece = self.service.lent().unwrap_or(&self.piece);
        piece.get(self.taken as usize..).unwrap_or_default()
    }

    /// Removes `count` bytes that left.
    pub fn consume(&mut self, count: usize) {
        self.taken += count.min(self.output().len()) as u32;
    }

    /// Whether the last piece was produced.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// When it goes on, after it had nothing ([`Received::Nothing`]). Never: when it wakes the task.
    pub fn resumes_at(&self) -> Tick {
        self.resumes
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
        match self.service.advance(PIECE, &mut self.piece) {
            Made::More => {}
            Made::Last => self.ended = true,
            Made::Later(resumes) => {
                self.resumes = resumes;
                // The former piece has left, even if the service still lends it.
                self.taken = self.output().len() as u32;
                return Received::Nothing;
            }
        }
        let count = self.output().len();
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
        fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> Made {
            self.0 = self.0.saturating_sub(1);
            out.resize(out.len() + self.1, b'0' + self.0 as u8);
            if self.0 > 0 { Made::More } else { Made::Last }
        }
    }

    /// Lends the halves of a text, and waits before each.
    struct Lender {
        text: &'static [u8],
        at: Option<usize>,
        waited: bool,
    }

    impl Service for Lender {
        fn advance(&mut self, _: usize, _: &mut Vec<u8>) -> Made {
            if !std::mem::replace(&mut self.waited, true) {
                return Made::Later(Tick::from_ms(7));
            }
            self.waited = false;
            self.at = Some(self.at.map_or(0, |at| at + self.text.len() / 2));
            if self.at == Some(0) { Made::More } else { Made::Last }
        }

        fn lent(&self) -> Option<&[u8]> {
            self.at.map(|at| &self.text[at..at + self.text.len() / 2])
        }
    }

    #[test]
    fn pieces_are_lent_without_a_copy_and_awaited() {
        let text = b"abcdef";
        let mut service = LocalService::new(Box::new(Lender { text, at: None, waited: false }));
        for (piece, last) in [(b"abc", false), (b"def", true)] {
            assert_eq!((service.receive(), service.resumes_at()), (Received::Nothing, Tick::from_ms(7)));
            assert!(service.output().is_empty() && !service.ended());
            assert_eq!(service.receive(), Received::Bytes(3));
            assert_eq!((service.output(), service.ended()), (&piece[..], last));
            assert!(text.as_ptr_range().contains(&service.output().as_ptr()), "it is the service's");
            service.consume(2);
            assert_eq!(service.receive(), Received::Full);
            service.consume(1);
        }
        assert_eq!((service.receive(), service.produced()), (Received::End, 6));
        assert!(service.piece.is_empty());
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
