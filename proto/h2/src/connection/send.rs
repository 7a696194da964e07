//! What leaves: heads, payload, windows, and the two ways of leaving.

use weir_http::Head;

use super::{Connection, FAREWELL, Leaving};
use crate::error::ErrorCode;
use crate::frame::{self, END_STREAM, STREAM_BITS};
use crate::response;
use crate::window::DEFAULT_WINDOW;

impl Connection {
    /// Appends the head of a response, interim or final. With `end` no body follows. False if the stream is no more.
    pub fn send_head(&mut self, stream: u32, head: &Head, raw: &[u8], end: bool) -> bool {
        if self.sendable(stream).is_none() {
            return false;
        }
        self.scratch.clear();
        response::encode(head, raw, &mut self.encoder, &mut self.scratch);
        self.write_block(stream, end);
        true
    }

    /// Appends trailers, given as lines of HTTP/1, and with them the end. False if the stream is no more.
    pub fn send_trailers(&mut self, stream: u32, lines: &[u8]) -> bool {
        if self.sendable(stream).is_none() {
            return false;
        }
        self.scratch.clear();
        response::encode_trailers(lines, &mut self.encoder, &mut self.scratch);
        self.write_block(stream, true);
        true
    }

    pub(super) fn write_block(&mut self, stream: u32, end: bool) {
        frame::write_headers(&mut self.output, stream, &self.scratch, MAX_PAYLOAD, end);
        if end {
            self.end_local(stream);
        }
    }

    /// How many bytes of payload may be sent on this stream now. None if it is no more, or this end said all.
    #[inline]
    pub fn sendable(&self, stream: u32) -> Option<usize> {
        let record = self.streams.get(stream).filter(|record| record.sends())?;
        Some(record.send.open().min(self.send.open()))
    }

    /// Appends as much payload as the windows admit; how much that is. With `end`, the last of it ends the stream, if all of
    /// it was taken.
    pub fn send_data(&mut self, stream: u32, payload: &[u8], end: bool) -> usize {
        let Some(open) = self.sendable(stream) else { return 0 };
        let count = payload.len().min(open);
        let ends = end && count == payload.len();
        if count == 0 && !ends {
            return 0;
        }
        let Some(record) = self.streams.get_mut(stream) else { return 0 };
        // Neither is larger than what is open.
        let _ = record.send.use_up(count as u32);
        let _ = self.send.use_up(count as u32);
        let mut rest = &payload[..count];
        loop {
            let (piece, after) = rest.split_at(rest.len().min(MAX_PAYLOAD));
            let flags = if ends && after.is_empty() { END_STREAM } else { 0 };
            frame::write_header(&mut self.output, piece.len(), 0, flags, stream);
            self.output.extend_from_slice(piece);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
        if ends {
            self.end_local(stream);
        }
        count
    }

    fn end_local(&mut self, stream: u32) {
        if self.streams.get_mut(stream).is_some_and(|record| record.end_local()) {
            self.streams.close(stream, false);
        }
    }

    /// Ends a stream, if it is still there.
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        if self.streams.close(stream, true) {
            frame::write_reset(&mut self.output, stream, code);
        }
    }

    /// So many bytes of payload were taken by whoever they are for: the peer may send as many more.
    pub fn consumed(&mut self, stream: u32, count: u32) {
        let window = self.limits.stream_window;
        if let Some(record) = self.streams.get_mut(stream)
            && record.receives()
            && let Some(increment) = record.owed.add(count, window)
        {
            // As much as was sent before, and no more.
            let _ = record.receive.widen(increment);
            frame::write_window_update(&mut self.output, stream, increment);
        }
        self.owe(count);
    }

    /// So many bytes that came are out of the way.
    pub(super) fn owe(&mut self, count: u32) {
        let window = self.limits.connection_window.max(DEFAULT_WINDOW);
        if let Some(increment) = self.owed.add(count, window) {
            let _ = self.receive.widen(increment);
            frame::write_window_update(&mut self.output, 0, increment);
        }
    }

    /// Tells the peer that this end leaves: it may still be sending requests, which are served, and once it knows, those that
    /// it sends all the same are refused (RFC 9113, 6.8).
    pub fn leave(&mut self) {
        if self.answers.is_some() {
            // Only this end opens streams.
            return self.farewell();
        }
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            frame::write_go_away(&mut self.output, STREAM_BITS, ErrorCode::NoError);
            frame::write_ping(&mut self.output, false, FAREWELL);
        }
    }

    /// The peer knows, or is not waited for.
    pub fn farewell(&mut self) {
        if matches!(self.leaving, Leaving::No | Leaving::Announced) {
            let last = self.last_of_peer();
            self.leaving = Leaving::Behind(last);
            frame::write_go_away(&mut self.output, last, ErrorCode::NoError);
        }
    }

    /// Ends the connection.
    pub fn fail(&mut self, code: ErrorCode) {
        if !matches!(self.leaving, Leaving::Failed(_)) {
            self.leaving = Leaving::Failed(code);
            let last = self.last_of_peer();
            frame::write_go_away(&mut self.output, last, code);
        }
    }
}

/// Frames that leave are no larger than what everybody accepts: a small one lets others have their turns.
const MAX_PAYLOAD: usize = frame::DEFAULT_MAX_PAYLOAD as usize;
