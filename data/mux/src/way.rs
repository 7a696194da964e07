//! The way of a body: in its original framing, or as payload that the sink frames.
//!
//! ```text
//!   Wire      HTTP/1 on both sides, the same framing, nothing inspected: bytes leave unchanged
//!   Payload   anything else; HTTP/2 frames it as DATA, a length needs no framing
//!   Chunks    payload for a sink of HTTP/1 that gets chunks
//! ```
//!
//! The way is chosen when the sink is known, and holds to the body's end. This is the only place that writes chunks.

use std::cell::RefCell;
use std::io::IoSlice;
use std::mem::ManuallyDrop;

use weir_h1::chunk_encoder::{CHUNK_END, ChunkHeader, LAST_CHUNK};
use weir_http::{Head, HeadFlags};
use weir_net::{Connection, SendOutcome};

use crate::connector::StreamConnector;

/// How a body crosses from its source to its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyWay {
    Open,
    /// In its framing, unchanged.
    Wire,
    /// Payload, and the sink needs no framing or has its own.
    Payload,
    /// Payload, in chunks of the sink's own.
    Chunks(Chunks),
}

/// The part of a chunked body at its sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    Between,
    /// The size of a chunk, and its payload but for these last bytes.
    Within(u32),
    /// The end of the body.
    Ended,
}

/// The bytes or ends after sent ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tail {
    /// Nothing more of the message, not even trailers.
    pub ends: bool,
    /// The end of the connection, at once: the last bytes may wait for it.
    pub closes: bool,
}

impl Chunks {
    /// Sends payload in chunks: one, unless the former one is not complete. How much payload was sent or is pending with its framing.
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

    /// Sends the rest of a chunk, or a new one: how much payload is in it, and whether all of it left.
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
        // Framing that was begun is kept where it leaves next.
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

    /// Sends the end of the body, once.
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
    /// The way of payload to this sink behind this head.
    pub(crate) fn to(sink: &StreamConnector, head: &Head) -> BodyWay {
        match sink {
            StreamConnector::Own(_) if head.flags().contains(HeadFlags::CHUNKED) => {
                BodyWay::Chunks(Chunks::Between)
            }
            _ => BodyWay::Payload,
        }
    }

    /// Appends payload in the framing of this way, in whole chunks if it has chunks.
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

    /// Appends the end of the body behind its payload.
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

/// Sends the parts with one call, as much as the far end takes. Small ones are copied together, and those that are encrypted: parts of
/// their own would be records of their own.
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
    /// A worker's memory for framing with payload.
    static GATHERED: RefCell<ManuallyDrop<Vec<u8>>> = const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// The end of a chunk, and of the body.
const CHUNK_END_AND_LAST: &[u8] = b"\r\n0\r\n\r\n";
/// Less payload than this is copied between its framing. Not measured.
const WORTH_SLICES: usize = 2048;
/// How much memory a worker keeps for framing.
const MOST_GATHERED: usize = 128 * 1024;
