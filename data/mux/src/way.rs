//! The framing of a forwarded body: the source's or the sink's.
//!
//! ```text
//!   Wire      HTTP/1 on both sides, the same framing, nothing inspected: bytes leave unchanged
//!   Payload   anything else; HTTP/2 frames it as DATA, a length needs no framing
//!   Chunks    payload for a sink of HTTP/1 that gets chunks
//! ```
//!
//! The way is chosen once the sink is known and does not change until the body ends. Only this module writes chunks.

use std::cell::RefCell;
use std::io::IoSlice;
use std::mem::ManuallyDrop;

use weir_h1::chunk_encoder::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use weir_http::{Head, HeadFlags};
use weir_net::{Connection, SendOutcome};

use crate::connector::StreamConnector;

/// How a body is framed from its source to its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyWay {
    Open,
    /// Unchanged, in the source's framing.
    Wire,
    /// Payload only. The sink needs no framing, or its engine adds it.
    Payload,
    /// Payload in new chunks for the sink.
    Chunks(Chunks),
}

/// The current position in the chunked body that the sink gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    Between,
    /// Within a chunk. This many bytes of its payload are still to be sent.
    Within(u32),
    /// The end of the body.
    Ended,
}

/// The end of the message or connection that follows the sent bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// The message ends here, without trailers.
    pub ends: bool,
    /// The connection is closed right after. The last bytes may be held back to travel with the FIN.
    pub closes: bool,
}

impl Chunks {
    /// Sends payload as the rest of the current chunk and one new chunk. A `Part` counts the payload bytes sent or queued with their framing.
    #[inline(never)]
    pub(crate) fn send(&mut self, sink: &mut Connection, payload: &[u8], tail: Tail) -> SendOutcome {
        let mut done = 0;
        while done < payload.len() && *self != Chunks::Ended {
            if sink.has_pending() {
                match sink.flush(true) {
                    SendOutcome::All => {}
                    SendOutcome::Part(_) => return SendOutcome::Part(done),
                    failed => return failed,
                }
            }
            match self.send_one(sink, &payload[done..], tail) {
                Ok((count, true)) => done += count,
                Ok((count, false)) => return SendOutcome::Part(done + count),
                Err(failed) => return failed,
            }
        }
        SendOutcome::All
    }

    /// Sends the rest of a chunk, or a new one. Returns the payload bytes taken, and whether all bytes were sent.
    fn send_one(
        &mut self,
        sink: &mut Connection,
        payload: &[u8],
        tail: Tail,
    ) -> Result<(usize, bool), SendOutcome> {
        let header = match self {
            Chunks::Within(_) => None,
            _ => Some(ChunkHeader::new(payload.len() as u64)),
        };
        let left = match *self {
            Chunks::Within(left) => left as usize,
            _ => payload.len(),
        };
        let header = header.as_ref().map_or(&b""[..], ChunkHeader::as_bytes);
        let piece = &payload[..left.min(payload.len())];
        let ends = tail.ends && piece.len() == payload.len() && piece.len() == left;
        let trail = match () {
            () if ends => CHUNK_END_AND_LAST,
            () if piece.len() == left => CHUNK_END,
            () => b"",
        };
        let parts = [header, piece, trail];
        let total = parts.iter().map(|part| part.len()).sum();
        let count = match send_parts(sink, parts, tail.closes) {
            SendOutcome::All => total,
            SendOutcome::Part(count) => count,
            failed @ SendOutcome::Failed(_) => return Err(failed),
        };
        if count == 0 && total > 0 {
            return Ok((0, false));
        }
        let of_piece = count.saturating_sub(header.len()).min(piece.len());
        *self = match () {
            () if of_piece < left => Chunks::Within((left - of_piece) as u32),
            () if ends => Chunks::Ended,
            () => Chunks::Between,
        };
        // The connection queues the rest of partly sent framing.
        let rest = match count {
            count if count < header.len() => &header[count..],
            count if of_piece == piece.len() => &trail[count - header.len() - piece.len()..],
            _ => b"",
        };
        if let failed @ SendOutcome::Failed(_) = sink.send_head(rest, tail.closes) {
            return Err(failed);
        }
        Ok((of_piece, count == total))
    }

    /// Sends the last chunk with the trailers. Later calls only flush.
    #[inline(never)]
    pub(crate) fn finish(&mut self, sink: &mut Connection, trailers: &[u8], closes: bool) -> SendOutcome {
        if std::mem::replace(self, Chunks::Ended) == Chunks::Ended {
            return sink.flush(false);
        }
        if trailers.is_empty() {
            return sink.send_head(LAST_CHUNK, closes);
        }
        GATHERED.with_borrow_mut(|end| {
            end.clear();
            write_end(end, trailers);
            sink.send_head(end, closes)
        })
    }
}

impl BodyWay {
    /// How payload is framed for this sink after this head.
    pub(crate) fn to(sink: &StreamConnector, head: &Head) -> BodyWay {
        match sink {
            StreamConnector::Own(_) if head.flags().contains(HeadFlags::CHUNKED) => {
                BodyWay::Chunks(Chunks::Between)
            }
            _ => BodyWay::Payload,
        }
    }

    /// Appends payload in this framing, as one whole chunk if it is chunked.
    pub(crate) fn write(&mut self, payload: &[u8], ends: bool, out: &mut Vec<u8>) {
        let BodyWay::Chunks(chunks) = self else { return out.extend_from_slice(payload) };
        if !payload.is_empty() {
            out.extend_from_slice(ChunkHeader::new(payload.len() as u64).as_bytes());
            out.extend_from_slice(payload);
            out.extend_from_slice(CHUNK_END);
        }
        if ends {
            out.extend_from_slice(LAST_CHUNK);
            *chunks = Chunks::Ended;
        }
    }

    /// Appends the last chunk and the trailers, if the body is chunked and not ended.
    pub(crate) fn write_end(&mut self, trailers: &[u8], out: &mut Vec<u8>) {
        if let BodyWay::Chunks(chunks) = self
            && std::mem::replace(chunks, Chunks::Ended) != Chunks::Ended
        {
            write_end(out, trailers);
        }
    }
}

fn write_end(out: &mut Vec<u8>, trailers: &[u8]) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers);
    out.extend_from_slice(b"\r\n");
}

/// Sends the parts with one call, as far as the socket accepts them. Small or encrypted parts are copied together. With TLS,
/// each separate part would become a record.
fn send_parts(sink: &mut Connection, parts: [&[u8]; 3], closes: bool) -> SendOutcome {
    if parts[1].len() >= WORTH_SLICES && sink.is_plain() {
        return sink.send_vectored(&parts.map(IoSlice::new), closes);
    }
    GATHERED.with_borrow_mut(|gathered| {
        gathered.clear();
        parts.iter().for_each(|part| gathered.extend_from_slice(part));
        let sent = sink.send(gathered, closes);
        if gathered.capacity() > MOST_GATHERED {
            gathered.clear();
            gathered.shrink_to(MOST_GATHERED);
        }
        sent
    })
}

thread_local! {
    /// Scratch buffer of a worker for framing with payload.
    static GATHERED: RefCell<ManuallyDrop<Vec<u8>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

const CHUNK_END_AND_LAST: &[u8] = b"\r\n0\r\n\r\n";
/// Minimum payload in bytes for a vectored send. Less is copied together with its framing. Not measured.
const WORTH_SLICES: usize = 2048;
/// Maximum capacity of the scratch buffer that a worker keeps, in bytes.
const MOST_GATHERED: usize = 128 * 1024;
