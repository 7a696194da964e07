//! Sending: heads, payload, windows, and both ways to shut down a connection: gracefully, or after an error.

use std::io::IoSlice;

use weir_http::Head;

use super::{Connection, DISTANCE, FAREWELL, GoAwayState};
use crate::error::ErrorCode;
use crate::frame::{self, END_STREAM, STREAM_BITS};
use crate::response;
use crate::settings;
use crate::window::DEFAULT_WINDOW;

impl Connection {
    /// Appends the head of a response, interim or final. With `end` no body follows. False if the stream is closed.
    pub fn send_head(&mut self, stream: u32, head: &Head, raw: &[u8], end: bool) -> bool {
        if self.sendable(stream).is_none() {
            return false;
        }
        let at = frame::begin_headers(&mut self.output);
        response::encode(head, raw, &mut self.encoder, &mut self.output);
        self.end_block_of(stream, at, end);
        true
    }

    /// Appends trailers, given as HTTP/1 field lines, which end the stream. False if the stream is closed.
    pub fn send_trailers(&mut self, stream: u32, lines: &[u8]) -> bool {
        if self.sendable(stream).is_none() {
            return false;
        }
        let at = frame::begin_headers(&mut self.output);
        response::encode_trailers(lines, &mut self.encoder, &mut self.output);
        self.end_block_of(stream, at, true);
        true
    }

    /// Completes the header block that was appended to the output after `at`.
    pub(super) fn end_block_of(&mut self, stream: u32, at: usize, end: bool) {
        frame::end_headers(&mut self.output, at, stream, MAX_PAYLOAD, end);
        if end {
            self.end_local(stream);
        }
    }

    /// Payload bytes that may be sent on this stream now. `None` if the stream is closed for sending.
    #[inline]
    pub fn sendable(&self, stream: u32) -> Option<usize> {
        let record = self.streams.get(stream).filter(|record| record.sends())?;
        Some(record.send.open().min(self.send.open()))
    }

    /// How much payload the connection's window admits, for all streams together.
    #[inline]
    pub fn open_window(&self) -> usize {
        self.send.open()
    }

    /// Appends as much payload as the windows admit. Returns the number of bytes taken. With `end`, the last frame has
    /// END_STREAM if all of `payload` was taken.
    pub fn send_data(&mut self, stream: u32, payload: &[u8], end: bool) -> usize {
        let Some((payload, ends)) = self.admit(stream, payload, end) else { return 0 };
        let mut rest = payload;
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
        payload.len()
    }

    /// Like [`send_data`](Self::send_data), but first passes the queued output and the framed payload to `send`,
    /// without a copy. `send` returns the number of bytes taken. Only the rest is appended to the output. Takes at most
    /// [`AT_ONCE`] bytes of payload.
    pub fn send_data_through(
        &mut self,
        stream: u32,
        payload: &[u8],
        end: bool,
        send: impl FnOnce(&[IoSlice<'_>]) -> usize,
    ) -> usize {
        if payload.is_empty() {
            return self.send_data(stream, payload, end);
        }
        let (payload, end) = match payload.split_at_checked(AT_ONCE) {
            Some((first, rest)) => (first, end && rest.is_empty()),
            None => (payload, end),
        };
        let Some((payload, ends)) = self.admit(stream, payload, end) else { return 0 };
        let headers = headers_of(payload, ends, stream);
        let framed = || {
            headers.iter().zip(payload.chunks(MAX_PAYLOAD)).flat_map(|(header, piece)| [&header[..], piece])
        };
        let waiting = self.output().len();
        let mut slices = [IoSlice::new(&[]); 1 + 2 * FRAMES_AT_ONCE];
        let mut count = 1;
        slices[0] = IoSlice::new(self.output());
        for (slice, bytes) in slices[1..].iter_mut().zip(framed()) {
            *slice = IoSlice::new(bytes);
            count += 1;
        }
        let sent = send(&slices[usize::from(waiting == 0)..count]);
        self.flushed(sent.min(waiting));
        let mut left = sent.saturating_sub(waiting);
        for bytes in framed() {
            self.output.extend_from_slice(&bytes[left.min(bytes.len())..]);
            left = left.saturating_sub(bytes.len());
        }
        if ends {
            self.end_local(stream);
        }
        payload.len()
    }

    /// Takes as much of the payload as the windows admit, and subtracts it from them. Returns that part and whether the
    /// stream ends with it. `None` if there is nothing to send.
    fn admit<'p>(&mut self, stream: u32, payload: &'p [u8], end: bool) -> Option<(&'p [u8], bool)> {
        let count = payload.len().min(self.sendable(stream)?);
        let ends = end && count == payload.len();
        if count == 0 && !ends {
            return None;
        }
        let record = self.streams.get_mut(stream)?;
        // `count` exceeds neither window.
        let _ = record.send.use_up(count as u32);
        let _ = self.send.use_up(count as u32);
        Some((&payload[..count], ends))
    }

    fn end_local(&mut self, stream: u32) {
        if self.streams.get_mut(stream).is_some_and(|record| record.end_local()) {
            self.streams.close(stream, false);
        }
    }

    /// Resets a live stream. With `NoError`, a server that sent its complete response delays the reset until the client
    /// sends more of its request (RFC 9113, 8.1).
    pub fn reset(&mut self, stream: u32, code: ErrorCode) {
        let is_server = self.answers.is_none();
        if let Some(record) = self.streams.get_mut(stream)
            && is_server
            && code == ErrorCode::NoError
            && !record.sends()
            && !std::mem::replace(&mut record.given_up, true)
        {
            let mut given_up = self.streams.given_up();
            let first = given_up.next();
            if given_up.count() >= GIVEN_UP
                && let Some(first) = first
            {
                self.reset(first, ErrorCode::NoError);
            }
            return;
        }
        if self.streams.close(stream, true) {
            frame::write_reset(&mut self.output, stream, code);
        }
    }

    /// Widens the receive windows again by `count` payload bytes that the caller has consumed. The last bytes of a body
    /// also cause a WINDOW_UPDATE, as in HAProxy, because scripted clients wait for it.
    ///
    /// The window of a body adapts to its path. Unless the peer is near, it grows when half of it was received, and
    /// again when no payload of the body is buffered here. Limits are the stream's share of the connection's window,
    /// and [`Connection::allow_growth`]. It shrinks, down to its initial size, when a quarter of it is buffered or the
    /// peer turns out to be near. With a receiver that is slower than the sender, a wide window only fills memory.
    pub fn consumed(&mut self, stream: u32, count: u32) {
        let initial = self.limits.stream_window;
        if let Some(record) = self.streams.get_mut(stream) {
            let width = initial + record.lent;
            // Negative for a peer that did not receive the narrower window yet.
            let missing = i64::from(width) - i64::from(record.receive.size());
            let owed = match record.receives() {
                true => record.owed.add(count, initial / 2),
                false => record.owed.add_last(count, missing),
            };
            if let Some(owed) = owed {
                let waiting = missing - i64::from(owed);
                let grows = waiting == 0 && record.receives() && !record.given_up;
                if waiting >= i64::from(width / 4) || self.distance.is_near() {
                    let less = record.lent.min(owed);
                    self.streams.take_back(stream, less);
                    self.give(stream, owed - less, false);
                } else {
                    self.give(stream, owed, grows);
                }
            }
        }
        self.owe(count);
    }

    /// Computes the growth of a stream's window in bytes; 0 if the peer is near. Limits are the rest of the body, the
    /// stream's share of the connection's window, and [`SHARERS`]. Also starts a measurement of the distance. A client
    /// knows the distance before the first body from its SETTINGS. A server knows it a round trip later, and until then
    /// assumes that the peer is far.
    fn grow(&mut self, stream: u32) -> u32 {
        let Some(record) = self.streams.get(stream) else { return 0 };
        let width = self.limits.stream_window + record.lent;
        let most = self.limits.connection_window / 8 * 7;
        let useful = u32::try_from(record.expected).unwrap_or(u32::MAX).min(most);
        if useful <= width || self.growth == 0 || self.distance.is_near() {
            return 0;
        }
        if self.distance.begin_probe(self.now_ms) {
            frame::write_ping(&mut self.output, false, DISTANCE);
        }
        if self.answers.is_some() && !self.distance.is_far() {
            return 0;
        }
        let receiving = self.streams.all_mut().filter(|record| record.receives()).count();
        let share = most / u32::try_from(receiving).unwrap_or(u32::MAX).max(1);
        let wider = useful.min(share).saturating_sub(width).min(self.growth / SHARERS);
        self.growth -= wider;
        self.has_large_bodies |= wider > 0;
        self.streams.lend(stream, wider);
        wider
    }

    /// A body ended with a window that was wider by `lent` bytes: has the next bodies of a peer that is far begin with one as wide, and with
    /// the first window that came before it grew. Otherwise they would wait for a round trip behind the window of the first settings. Not
    /// before the window is twice as wide, nor while another body comes: new settings shift its window, too (RFC 9113, 6.9.2). A
    /// client's responses have their window with the request instead.
    pub(super) fn raise(&mut self, lent: u32) {
        let first = self.limits.stream_window;
        let raised = self.initial.raised(first);
        if lent <= raised || lent < first.saturating_add(2 * raised) || !self.distance.is_far() {
            return;
        }
        let is_busy =
            self.initial.awaits_acknowledgement() || self.streams.all_mut().any(|record| record.receives());
        if self.answers.is_none() && !is_busy {
            let most = self.limits.connection_window / 8 * 7;
            let more = most.saturating_sub(first + lent).min(first).min(self.growth);
            let wider = first + lent + more;
            self.initial.raise(wider);
            settings::write(&mut self.output, &[(settings::INITIAL_WINDOW_SIZE, wider)]);
        }
    }

    /// Opens a stream's receive window by `increment` bytes, and by more if it `grows`.
    pub(super) fn give(&mut self, stream: u32, increment: u32, grows: bool) {
        let increment = increment + if grows { self.grow(stream) } else { 0 };
        let Some(record) = self.streams.get_mut(stream) else { return };
        record.has_grown |= grows;
        // It cannot overflow: a stream's window is never wider than the connection's.
        if increment > 0 && record.receive.widen(increment).is_ok() {
            frame::write_window_update(&mut self.output, stream, increment);
        }
    }

    /// Gives the peer the connection's whole window, when it begins to send a body: connections without bodies need no
    /// more than the initial window.
    pub(super) fn widen_once(&mut self) {
        if std::mem::replace(&mut self.is_wide, true) {
            return;
        }
        let more = self.limits.connection_window.saturating_sub(DEFAULT_WINDOW);
        if more > 0 && self.receive.widen(more).is_ok() {
            frame::write_window_update(&mut self.output, 0, more);
        }
    }

    /// Widens the connection's receive window again by `count` received bytes.
    pub(super) fn owe(&mut self, count: u32) {
        let part = (self.limits.connection_window / PARTS).max(DEFAULT_WINDOW / 2);
        if let Some(increment) = self.owed.add_shared(count, self.receive.open(), part) {
            let _ = self.receive.widen(increment);
            frame::write_window_update(&mut self.output, 0, increment);
        }
    }

    /// Whether unread payload holds over three quarters of the connection's window, so that other streams hardly progress.
    pub fn is_clogged(&self) -> bool {
        self.is_wide && self.receive.open() + self.owed.bytes() < self.limits.connection_window as usize / 4
    }

    /// Begins a graceful shutdown: requests in transit are served; those sent after the peer has seen GOAWAY
    /// are refused (RFC 9113, 6.8).
    pub fn leave(&mut self) {
        if self.answers.is_some() {
            // Only this end opens streams.
            return self.farewell();
        }
        if self.leaving == GoAwayState::No {
            self.leaving = GoAwayState::Announced;
            frame::write_go_away(&mut self.output, STREAM_BITS, ErrorCode::NoError);
            frame::write_ping(&mut self.output, false, FAREWELL);
        }
    }

    /// Sends the final GOAWAY, after the peer has received the first one or without waiting for that.
    pub fn farewell(&mut self) {
        if matches!(self.leaving, GoAwayState::No | GoAwayState::Announced) {
            let last = self.last_of_peer();
            self.leaving = GoAwayState::Behind(last);
            frame::write_go_away(&mut self.output, last, ErrorCode::NoError);
        }
    }

    /// Fails the connection: sends GOAWAY with `code`.
    pub fn fail(&mut self, code: ErrorCode) {
        if !matches!(self.leaving, GoAwayState::Failed(_)) {
            self.leaving = GoAwayState::Failed(code);
            self.tally.go_aways_sent += 1;
            let last = self.last_of_peer();
            frame::write_go_away(&mut self.output, last, code);
        }
    }
}

/// The DATA frame headers for a payload of at most [`AT_ONCE`] bytes.
fn headers_of(payload: &[u8], ends: bool, stream: u32) -> [[u8; frame::HEADER]; FRAMES_AT_ONCE] {
    let last = payload.len().saturating_sub(1) / MAX_PAYLOAD;
    let mut headers = [[0; frame::HEADER]; FRAMES_AT_ONCE];
    for (at, (header, piece)) in headers.iter_mut().zip(payload.chunks(MAX_PAYLOAD)).enumerate() {
        let flags = if ends && at == last { END_STREAM } else { 0 };
        *header = frame::header(piece.len(), 0, flags, stream);
    }
    headers
}

/// Limit of streams with a complete response and an unfinished request. At the limit, the oldest of them is reset.
const GIVEN_UP: usize = 16;
/// One call widens a window by at most this fraction (1/8) of the allowed growth, so that other streams get some.
const SHARERS: u32 = 8;
/// The connection's WINDOW_UPDATE follows after this fraction (1/16) of its window. Bytes not returned yet are missing
/// in the peer's next flight, and one stream alone leaves an eighth of this window unused.
const PARTS: u32 = 16;
/// The payload of outgoing frames never exceeds the default maximum, which every peer accepts: small frames let other
/// streams send in between.
const MAX_PAYLOAD: usize = frame::DEFAULT_MAX_PAYLOAD as usize;
/// Frames offered in place in one call: the content of a bulk buffer, and as much again.
const FRAMES_AT_ONCE: usize = 4;
/// Maximum payload per call of [`send_data_through`](Connection::send_data_through): [`FRAMES_AT_ONCE`] full frames.
const AT_ONCE: usize = FRAMES_AT_ONCE * MAX_PAYLOAD;
