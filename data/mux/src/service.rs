//! Local services, which respond inside this process in place of a server.

use std::fmt;

use weir_net::ReceiveOutcome;
use weir_sched::Tick;

/// Produces a response body in pieces. Other tasks run between two sends. Only the bytes of one send are queued for the client.
pub trait BodyProducer {
    /// Appends a piece of about `enough` bytes, or moves on to the next lent piece. The previous piece was already copied or sent.
    fn advance(&mut self, enough: usize, out: &mut Vec<u8>) -> ProducerStep;

    /// The current piece, if it is in the service's own memory and was not appended. A large piece, or the only one, is
    /// sent without a copy.
    fn lent(&self) -> Option<&[u8]> {
        None
    }
}

/// The result of a step of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerStep {
    /// A piece was produced. More follow.
    More,
    Last,
    /// No piece is available yet. The service wakes the stream's task, or continues at this time.
    Later(Tick),
}

/// A service on one side of a stream, with its unsent output.
///
/// Small pieces are copied together, because a send costs more than the copy, and a vectored send as much as both. See
/// `doc/design/2026-11-29-how-a-body-crosses.md`.
pub struct LocalService {
    service: Box<dyn BodyProducer>,
    /// Pieces that the service appended, or that were copied.
    gathered: Vec<u8>,
    /// Bytes of the output that were consumed. 32 bits, because every stream holds space for a service. The output stays below 4 GB.
    taken: u32,
    lending: Lending,
    /// Whether the service has produced its last piece.
    is_last: bool,
    /// When a waiting service continues.
    resumes: Tick,
    produced: u64,
}

/// When the lent piece is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lending {
    /// The service lends nothing, or the piece was copied.
    No,
    /// The lent piece is the current output.
    Now,
    /// The lent piece is the output after the gathered bytes.
    Next,
}

impl LocalService {
    /// Wraps `service`, which is called only when output is requested.
    pub fn new(service: Box<dyn BodyProducer>) -> Self {
        LocalService {
            service,
            gathered: Vec::new(),
            taken: 0,
            lending: Lending::No,
            is_last: false,
            resumes: Tick::NEVER,
            produced: 0,
        }
    }

    /// Produced bytes that were not consumed.
    pub fn output(&self) -> &[u8] {
        let output = match self.lending {
            Lending::Now => self.service.lent().unwrap_or_default(),
            Lending::No | Lending::Next => &self.gathered,
        };
        output.get(self.taken as usize..).unwrap_or_default()
    }

    /// Drops `count` sent bytes from the front of the output.
    pub fn consume(&mut self, count: usize) {
        self.taken += count.min(self.output().len()) as u32;
    }

    /// Whether the current output is the last.
    pub fn ended(&self) -> bool {
        self.is_last && self.lending != Lending::Next
    }

    /// When the service continues after [`ReceiveOutcome::Nothing`]. [`Tick::NEVER`] if it wakes the task itself.
    pub fn resumes_at(&self) -> Tick {
        self.resumes
    }

    /// Bytes produced so far.
    pub fn produced(&self) -> u64 {
        self.produced
    }

    /// Produces the next output. [`ReceiveOutcome::Full`] until the previous output was consumed.
    pub fn receive(&mut self) -> ReceiveOutcome {
        if !self.output().is_empty() {
            return ReceiveOutcome::Full;
        }
        if self.ended() {
            return ReceiveOutcome::End;
        }
        self.taken = 0;
        self.gathered.clear();
        let waits = match self.lending {
            Lending::Next => {
                self.lending = Lending::Now;
                false
            }
            Lending::No | Lending::Now => self.gather(),
        };
        let count = self.output().len();
        self.produced += count as u64;
        match count {
            0 if self.is_last => ReceiveOutcome::End,
            0 if waits => ReceiveOutcome::Nothing,
            _ => ReceiveOutcome::Bytes(count),
        }
    }

    /// Gathers about [`ENOUGH`] bytes, or finds a piece to send without a copy. True if the service waits.
    fn gather(&mut self) -> bool {
        self.lending = Lending::No;
        for _ in 0..PIECES {
            let before = self.gathered.len();
            match self.service.advance(ENOUGH - before, &mut self.gathered) {
                ProducerStep::More => {}
                ProducerStep::Last => self.is_last = true,
                ProducerStep::Later(resumes) => {
                    self.resumes = resumes;
                    return true;
                }
            }
            if let Some(piece) = self.service.lent() {
                let is_alone = before == 0 && self.is_last;
                if is_alone || piece.len() >= ENOUGH {
                    self.lending = if before == 0 { Lending::Now } else { Lending::Next };
                    break;
                }
                self.gathered.extend_from_slice(piece);
            }
            // The next piece may be as large as this one and exceed `ENOUGH`.
            let (length, piece) = (self.gathered.len(), self.gathered.len() - before);
            if self.is_last || length + piece > ENOUGH {
                break;
            }
        }
        false
    }
}

impl fmt::Debug for LocalService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalService")
            .field("produced", &self.produced)
            .field("ended", &self.ended())
            .finish()
    }
}

/// Target size of one send, in bytes. The payload of one HTTP/2 frame or TLS record.
const ENOUGH: usize = 16_384;
/// Maximum number of pieces gathered in one call. Bounds the loop if pieces are empty.
const PIECES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Produces this many pieces of this many bytes.
    struct Pieces(usize, usize);

    impl BodyProducer for Pieces {
        fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
            self.0 = self.0.saturating_sub(1);
            out.resize(out.len() + self.1, b'0' + self.0 as u8);
            if self.0 > 0 { ProducerStep::More } else { ProducerStep::Last }
        }
    }

    /// Lends or appends the parts of `text`, with the lengths of the second field. Waits twice before each part with an odd index.
    struct Lender {
        text: Vec<u8>,
        parts: Vec<usize>,
        lends: bool,
        place: usize,
        at: usize,
        waits: usize,
    }

    impl Lender {
        fn new(parts: &[usize], lends: bool) -> Lender {
            let text = (0..parts.iter().sum()).map(|at: usize| at as u8).collect();
            Lender { text, parts: parts.to_vec(), lends, place: 0, at: 0, waits: 0 }
        }

        fn current(&self) -> &[u8] {
            let length = self.parts[..self.place].last().unwrap_or(&0);
            &self.text[self.at - length..self.at]
        }
    }

    impl BodyProducer for Lender {
        fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
            if self.place % 2 == 1 && self.waits < 2 {
                self.waits += 1;
                return ProducerStep::Later(Tick::from_ms(7));
            }
            self.waits = 0;
            self.at += self.parts[self.place];
            self.place += 1;
            if !self.lends {
                out.extend_from_slice(self.current());
            }
            if self.place < self.parts.len() { ProducerStep::More } else { ProducerStep::Last }
        }

        fn lent(&self) -> Option<&[u8]> {
            self.lends.then(|| self.current())
        }
    }

    /// Consumes all output. Returns the size of each output (0 for a wait), and whether it was in the service's own memory.
    fn outputs(parts: &[usize], lends: bool) -> (Vec<usize>, Vec<bool>) {
        let lender = Lender::new(parts, lends);
        let (text, place) = (lender.text.clone(), lender.text.as_ptr_range());
        let mut service = LocalService::new(Box::new(lender));
        let (mut sizes, mut own, mut seen) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            match service.receive() {
                ReceiveOutcome::Nothing => {
                    assert_eq!((service.resumes_at(), service.output().len()), (Tick::from_ms(7), 0));
                    if sizes.last() != Some(&0) {
                        sizes.push(0);
                    }
                }
                ReceiveOutcome::Bytes(count) => {
                    let output = service.output();
                    assert_eq!(output.len(), count);
                    own.push(place.contains(&output.as_ptr()));
                    seen.extend_from_slice(output);
                    sizes.push(count);
                    assert_eq!(service.ended(), seen.len() == text.len());
                    assert_eq!(service.receive(), ReceiveOutcome::Full);
                    service.consume(count / 2);
                    assert_eq!(
                        (service.output().len(), service.receive()),
                        (count - count / 2, ReceiveOutcome::Full)
                    );
                    service.consume(count - count / 2);
                }
                end => {
                    assert_eq!((end, service.ended()), (ReceiveOutcome::End, true));
                    assert_eq!((seen == text, service.produced()), (true, text.len() as u64));
                    return (sizes, own);
                }
            }
        }
    }

    #[test]
    fn small_service_pieces_are_combined_and_large_ones_are_not_copied() {
        // The service waits before every second piece, so two pieces are gathered into one output.
        let small = [1300; 5];
        assert_eq!(outputs(&small, false), (vec![1300, 0, 2600, 0, 2600], vec![false; 3]));
        assert_eq!(outputs(&small, true), (vec![1300, 0, 2600, 0, 2600], vec![false; 3]));
        assert_eq!(outputs(&[ENOUGH, 3], true), (vec![ENOUGH, 0, 3], vec![true, true]));
        // A lent piece is sent after the pieces gathered before it.
        assert_eq!(
            outputs(&[1, 2, ENOUGH, 4, ENOUGH], true),
            (vec![1, 0, 2, ENOUGH, 0, 4, ENOUGH], vec![false, false, true, false, true])
        );
        assert_eq!(outputs(&[ENOUGH + 1], true), (vec![ENOUGH + 1], vec![true]));
        assert_eq!(outputs(&[5], true), (vec![5], vec![true]), "the only one");
    }

    #[test]
    fn combined_service_output_is_limited_in_bytes_and_pieces() {
        let sizes = |count, size| {
            let mut service = LocalService::new(Box::new(Pieces(count, size)));
            let mut sizes = Vec::new();
            while let ReceiveOutcome::Bytes(count) = service.receive() {
                sizes.push(count);
                service.consume(count);
            }
            sizes
        };
        assert_eq!(sizes(25, 1300), [12 * 1300, 12 * 1300, 1300]);
        assert_eq!(sizes(3, ENOUGH / 2 + 1), [ENOUGH / 2 + 1; 3]);
        assert_eq!(sizes(3, ENOUGH / 2), [ENOUGH, ENOUGH / 2]);
        assert_eq!(sizes(130, 1), [PIECES, PIECES, 2]);
    }
}
