//! Receiving: the effect of each frame type, and its errors.

use super::{
    BlockPurpose, Connection, ConnectionEvent, DISTANCE, ExpectedInput, FAREWELL, GoAwayState, HeaderBlock,
};
use crate::answer::RequestTraits;
use crate::error::{ErrorCode, Wrong};
use crate::frame::{
    self, ACK, END_HEADERS, END_STREAM, FrameHeader, FrameKind, PADDED, PREFACE, PRIORITY, STREAM_BITS,
};
use crate::limits;
use crate::received::HeadFault;
use crate::request::Builder;
use crate::settings;
use crate::stream::{Stream, StreamState, UNANNOUNCED};
use crate::streams::StreamStanding;
use crate::window::{FlowWindow, WindowDebt};

/// The result of a step.
enum ReceiveStep {
    /// More bytes are needed.
    More,
    /// Go on with the next step.
    Next,
    Happened(ConnectionEvent),
}

pub(super) type FrameResult<T = ()> = Result<T, Wrong>;

pub(super) const fn failed<T>(code: ErrorCode) -> FrameResult<T> {
    Err(Wrong::Connection(code))
}

impl Connection {
    /// Processes the front of `input` (all received bytes not used yet) at `now_ms` of any monotonic clock. Returns the
    /// number of bytes used, and an event. After [`ConnectionEvent::More`], call again with the rest and more bytes
    /// behind it.
    pub fn advance(&mut self, input: &[u8], now_ms: u64) -> (usize, ConnectionEvent) {
        self.now_ms = now_ms;
        let mut at = 0;
        loop {
            if let GoAwayState::Failed(code) = self.leaving {
                return (input.len(), ConnectionEvent::Failed(code));
            }
            let begin = at;
            match self.step(&input[begin..], &mut at) {
                Ok(ReceiveStep::More) => return (at, ConnectionEvent::More),
                Ok(ReceiveStep::Next) => {}
                Ok(ReceiveStep::Happened(ConnectionEvent::Data { stream, bytes, end })) => {
                    let bytes = begin + bytes.start..begin + bytes.end;
                    return (at, ConnectionEvent::Data { stream, bytes, end });
                }
                Ok(ReceiveStep::Happened(event)) => return (at, event),
                Err(Wrong::Connection(code)) => {
                    self.glitches += 1;
                    self.tally.connection_errors += 1;
                    self.fail(code);
                }
                Err(Wrong::Stream(stream, code)) => match self.refuse(stream, code) {
                    Ok(true) => return (at, ConnectionEvent::Reset { stream, code, received: None }),
                    Ok(false) => {}
                    Err(code) => self.fail(code),
                },
            }
        }
    }

    /// Resets a stream because of an error of the peer. Returns whether the stream was live. Counts like a reset by the
    /// peer, because a peer can cause it as cheaply (CVE-2025-8671).
    pub(super) fn refuse(&mut self, stream: u32, code: ErrorCode) -> Result<bool, ErrorCode> {
        // Opening too many streams is not a protocol error.
        if code != ErrorCode::RefusedStream {
            self.tally.stream_errors = self.tally.stream_errors.wrapping_add(1);
        }
        if self.glitch() || !self.resets.take(limits::RESETS, self.now_ms) {
            return Err(ErrorCode::EnhanceYourCalm);
        }
        self.tally.resets_sent = self.tally.resets_sent.wrapping_add(1);
        let was_live = self.streams.close(stream, true);
        if !was_live && self.answers.is_none() && stream <= self.streams.last {
            self.streams.note_closed(stream, true);
        }
        frame::write_reset(&mut self.output, stream, code);
        Ok(was_live)
    }

    /// Processes the next part of the input. Adds the number of bytes used to `used`, also on an error.
    fn step(&mut self, input: &[u8], used: &mut usize) -> FrameResult<ReceiveStep> {
        match self.reading {
            ExpectedInput::Preface(matched) => {
                let matched = usize::from(matched);
                let expected = &PREFACE[matched..];
                let length = expected.len().min(input.len());
                if input[..length] != expected[..length] {
                    return failed(ErrorCode::Protocol);
                }
                if length == 0 {
                    return Ok(ReceiveStep::More);
                }
                *used += length;
                if matched == 0 {
                    self.resets.begin(self.now_ms);
                    self.empty_frames.begin(self.now_ms);
                    // A server's SETTINGS are sent in the round that reads the preface.
                    self.distance.begin_probe(self.now_ms);
                }
                let matched = matched + length;
                self.reading = match matched == PREFACE.len() {
                    true => ExpectedInput::Header,
                    false => ExpectedInput::Preface(matched as u8),
                };
                Ok(ReceiveStep::Next)
            }
            ExpectedInput::Header => {
                let Some(header) = FrameHeader::read(input) else { return Ok(ReceiveStep::More) };
                *used += frame::HEADER;
                self.frames += 1;
                self.tally.count(header.kind);
                self.frame = header;
                self.left = header.length;
                self.padding = 0;
                self.fixed_length = 0;
                // The default, unless the frame's handler takes the payload.
                self.skip();
                self.begin_frame()?;
                Ok(ReceiveStep::Next)
            }
            ExpectedInput::Prefix(needed) => {
                let (needed, there) = (usize::from(needed), usize::from(self.fixed_length));
                let count = input.len().min(needed - there);
                if count == 0 {
                    return Ok(ReceiveStep::More);
                }
                *used += count;
                self.fixed[there..there + count].copy_from_slice(&input[..count]);
                self.fixed_length += count as u8;
                self.left -= count as u32;
                if there + count < needed {
                    return Ok(ReceiveStep::Next);
                }
                self.fixed_length = 0;
                Ok(self.prefix()?.map_or(ReceiveStep::Next, ReceiveStep::Happened))
            }
            ExpectedInput::Body => {
                let wanted = self.left - self.padding;
                let count = input.len().min(wanted as usize);
                if count == 0 && wanted > 0 {
                    return Ok(ReceiveStep::More);
                }
                *used += count;
                self.left -= count as u32;
                let complete = count as u32 == wanted;
                if complete {
                    self.skip();
                }
                match self.frame.kind {
                    FrameKind::Data => self.data(count, complete),
                    _ => self.fragment(&input[..count], complete),
                }
            }
            ExpectedInput::Skip => {
                let count = input.len().min(self.left as usize);
                if count == 0 {
                    return Ok(ReceiveStep::More);
                }
                *used += count;
                self.left -= count as u32;
                self.skip();
                Ok(ReceiveStep::Next)
            }
        }
    }

    /// Ignores the rest of this frame.
    fn skip(&mut self) {
        self.reading = if self.left == 0 { ExpectedInput::Header } else { ExpectedInput::Skip };
    }

    fn begin_frame(&mut self) -> FrameResult {
        let FrameHeader { length, kind, stream, .. } = self.frame;
        if let Some(block) = &self.block
            && (kind != FrameKind::Continuation || stream != block.stream)
        {
            return failed(ErrorCode::Protocol);
        }
        if !self.has_settings && (kind != FrameKind::Settings || self.frame.has(ACK)) {
            return failed(ErrorCode::Protocol);
        }
        if length > self.limits.max_payload {
            return failed(ErrorCode::FrameSize);
        }
        let of_connection = matches!(kind, FrameKind::Settings | FrameKind::Ping | FrameKind::GoAway);
        let of_either = matches!(kind, FrameKind::WindowUpdate | FrameKind::Unknown);
        if !of_either && of_connection != (stream == 0) {
            return failed(ErrorCode::Protocol);
        }
        match kind {
            FrameKind::Data => self.begin_data(),
            FrameKind::Headers => self.begin_headers(),
            FrameKind::Continuation => self.begin_continuation(),
            FrameKind::Settings => self.begin_settings(),
            FrameKind::Priority => {
                self.spend()?;
                self.expect(5, Wrong::Stream(stream, ErrorCode::FrameSize))
            }
            FrameKind::Reset => {
                self.expect(4, Wrong::Connection(ErrorCode::FrameSize))?;
                if self.is_unused(stream) { failed(ErrorCode::Protocol) } else { Ok(()) }
            }
            FrameKind::PushPromise => failed(ErrorCode::Protocol),
            FrameKind::Ping => {
                self.spend()?;
                self.expect(8, Wrong::Connection(ErrorCode::FrameSize))
            }
            FrameKind::GoAway if length < 8 => failed(ErrorCode::FrameSize),
            FrameKind::GoAway => {
                self.reading = ExpectedInput::Prefix(8);
                self.spend()
            }
            FrameKind::WindowUpdate => {
                self.expect(4, Wrong::Connection(ErrorCode::FrameSize))?;
                if stream != 0 && self.is_unused(stream) { failed(ErrorCode::Protocol) } else { Ok(()) }
            }
            FrameKind::Unknown => self.spend(),
        }
    }

    fn is_unused(&self, stream: u32) -> bool {
        matches!(self.standing(stream), StreamStanding::Idle | StreamStanding::PassedOver)
    }

    /// Takes a token for a frame without payload.
    fn spend(&mut self) -> FrameResult {
        if self.empty_frames.take(limits::EMPTY_FRAMES, self.now_ms) {
            Ok(())
        } else {
            failed(ErrorCode::EnhanceYourCalm)
        }
    }

    /// Requires a payload of exactly `size` bytes.
    fn expect(&mut self, size: u32, wrong: Wrong) -> FrameResult {
        if self.frame.length != size {
            return Err(wrong);
        }
        self.reading = ExpectedInput::Prefix(size as u8);
        Ok(())
    }

    fn begin_settings(&mut self) -> FrameResult {
        self.has_settings = true;
        self.spend()?;
        match (self.frame.has(ACK), self.frame.length) {
            (true, 0) => {
                if let Some((before, after)) = self.initial.acknowledged(self.limits.stream_window) {
                    self.streams.shift_receive(before, after);
                    self.distance.answered(self.now_ms);
                }
            }
            (false, 0) => settings::write_acknowledgement(&mut self.output),
            (false, length) if length.is_multiple_of(settings::ENTRY as u32) => {
                self.reading = ExpectedInput::Prefix(settings::ENTRY as u8);
            }
            _ => return failed(ErrorCode::FrameSize),
        }
        Ok(())
    }

    fn begin_data(&mut self) -> FrameResult {
        let FrameHeader { length, stream, .. } = self.frame;
        let standing = self.standing(stream);
        if matches!(standing, StreamStanding::Idle | StreamStanding::PassedOver) {
            return failed(ErrorCode::Protocol);
        }
        if self.receive.use_up(length).is_err() {
            return failed(ErrorCode::FlowControl);
        }
        if length == 0 && !self.frame.has(END_STREAM) {
            self.spend()?;
        }
        let padded = self.frame.has(PADDED);
        if padded && length == 0 {
            return failed(ErrorCode::FrameSize);
        }
        let problem = match self.streams.get_mut(stream) {
            // Frames in transit when this end reset the stream are not an error.
            None if standing == StreamStanding::Reset => {
                self.owe(length);
                return Ok(());
            }
            None => Some(ErrorCode::StreamClosed),
            Some(record) if !record.receives() => Some(ErrorCode::StreamClosed),
            // DATA before the response head is an error.
            Some(record) if !record.answered => Some(ErrorCode::Protocol),
            Some(record) => record.receive.use_up(length).err().map(|_| ErrorCode::FlowControl),
        };
        if let Some(code) = problem {
            self.owe(length);
            return Err(Wrong::Stream(stream, code));
        }
        self.reading = if padded { ExpectedInput::Prefix(1) } else { ExpectedInput::Body };
        Ok(())
    }

    fn begin_headers(&mut self) -> FrameResult {
        let FrameHeader { length, stream, .. } = self.frame;
        if stream % 2 == 0 {
            return failed(ErrorCode::Protocol);
        }
        let end_stream = self.frame.has(END_STREAM);
        let purpose = match self.standing(stream) {
            StreamStanding::Idle if self.answers.is_some() => return failed(ErrorCode::Protocol),
            StreamStanding::Idle => {
                self.streams.last = stream;
                match self.leaving {
                    GoAwayState::Behind(last) if stream > last => {
                        BlockPurpose::Nothing(Some(ErrorCode::RefusedStream))
                    }
                    _ => BlockPurpose::Request,
                }
            }
            StreamStanding::Live => match self.streams.get(stream) {
                Some(record) if !record.receives() => BlockPurpose::Nothing(Some(ErrorCode::StreamClosed)),
                Some(record) if !record.answered => BlockPurpose::Response,
                _ if !end_stream => BlockPurpose::Nothing(Some(ErrorCode::Protocol)),
                _ => BlockPurpose::Trailers,
            },
            StreamStanding::Reset => BlockPurpose::Nothing(None),
            StreamStanding::Closed => return failed(ErrorCode::StreamClosed),
            StreamStanding::PassedOver => return failed(ErrorCode::Protocol),
        };
        match purpose {
            BlockPurpose::Request => {
                let limits = &self.limits;
                let new = || Builder::new(limits.max_fields, limits.max_head, limits.extended_connect);
                self.builder.get_or_insert_with(|| Box::new(new())).begin();
            }
            BlockPurpose::Response => {
                let request = self.streams.get(stream).map(|record| record.request).unwrap_or_default();
                self.answers.iter_mut().for_each(|answers| answers.begin(request));
            }
            BlockPurpose::Trailers => self.trailers.clear(),
            BlockPurpose::Nothing(_) => {}
        }
        self.rest.clear();
        self.block = Some(HeaderBlock { stream, end_stream, purpose, bytes: 0, continuations: 0 });
        let prefix = usize::from(self.frame.has(PADDED)) + if self.frame.has(PRIORITY) { 5 } else { 0 };
        if (length as usize) < prefix {
            return failed(ErrorCode::FrameSize);
        }
        self.reading = if prefix > 0 { ExpectedInput::Prefix(prefix as u8) } else { ExpectedInput::Body };
        Ok(())
    }

    fn begin_continuation(&mut self) -> FrameResult {
        let Some(block) = &mut self.block else { return failed(ErrorCode::Protocol) };
        block.continuations += 1;
        if block.continuations > limits::CONTINUATIONS {
            return failed(ErrorCode::EnhanceYourCalm);
        }
        self.reading = ExpectedInput::Body;
        Ok(())
    }

    /// Handles the complete fixed-size fields of a frame.
    fn prefix(&mut self) -> FrameResult<Option<ConnectionEvent>> {
        let stream = self.frame.stream;
        let fixed = self.fixed;
        if !matches!(self.frame.kind, FrameKind::Data | FrameKind::Headers | FrameKind::Settings) {
            self.skip();
        }
        match self.frame.kind {
            FrameKind::Data => {
                self.pad(fixed[0])?;
                // Padding is returned to the windows at once.
                self.consumed(stream, u32::from(fixed[0]) + 1);
                self.reading = ExpectedInput::Body;
            }
            FrameKind::Headers => {
                let padded = self.frame.has(PADDED);
                if padded {
                    self.pad(fixed[0])?;
                }
                let dependency = frame::number(&fixed[usize::from(padded)..]) & STREAM_BITS;
                if self.frame.has(PRIORITY)
                    && dependency == stream
                    && let Some(block) = &mut self.block
                {
                    block.purpose = BlockPurpose::Nothing(Some(ErrorCode::Protocol));
                }
                self.reading = ExpectedInput::Body;
            }
            FrameKind::Priority if frame::number(&fixed) & STREAM_BITS == stream => {
                return Err(Wrong::Stream(stream, ErrorCode::Protocol));
            }
            FrameKind::Reset => return self.peer_resets(stream, frame::number(&fixed)),
            FrameKind::Settings => return self.setting(),
            FrameKind::Ping if !self.frame.has(ACK) => frame::write_ping(&mut self.output, true, fixed),
            FrameKind::Ping if fixed == FAREWELL && self.leaving == GoAwayState::Announced => self.farewell(),
            FrameKind::Ping if fixed == DISTANCE => self.distance.answered(self.now_ms),
            FrameKind::GoAway => return Ok(self.peer_leaves(&fixed)),
            FrameKind::WindowUpdate => return self.widen(stream, frame::number(&fixed) & STREAM_BITS),
            _ => {}
        }
        Ok(None)
    }

    /// Records that the last `length` bytes of the payload are padding.
    fn pad(&mut self, length: u8) -> FrameResult {
        self.padding = u32::from(length);
        if self.padding > self.left { failed(ErrorCode::Protocol) } else { Ok(()) }
    }

    fn peer_resets(&mut self, stream: u32, number: u32) -> FrameResult<Option<ConnectionEvent>> {
        let Some(record) = self.streams.get(stream) else { return Ok(None) };
        // The response was not complete, so the work is wasted.
        if self.answers.is_none() && record.sends() && !self.resets.take(limits::RESETS, self.now_ms) {
            return failed(ErrorCode::EnhanceYourCalm);
        }
        self.streams.close(stream, false);
        let code = ErrorCode::from_wire(number);
        Ok(Some(ConnectionEvent::Reset { stream, code, received: Some(number) }))
    }

    fn setting(&mut self) -> FrameResult<Option<ConnectionEvent>> {
        let before = self.peer;
        let Some(entry) = self.fixed.first_chunk() else { return failed(ErrorCode::Internal) };
        self.peer.apply(entry).map_err(Wrong::Connection)?;
        self.check_entry(entry)?;
        let after = self.peer;
        if after.header_table_size != before.header_table_size {
            self.encoder.set_limit(after.header_table_size as usize);
        }
        for stream in self.streams.all_mut() {
            if stream.send.shift(before.initial_window, after.initial_window).is_err() {
                return failed(ErrorCode::FlowControl);
            }
        }
        if self.left == 0 {
            self.reading = ExpectedInput::Header;
            settings::write_acknowledgement(&mut self.output);
        }
        // A smaller window is useless while responses are in transit.
        if after.initial_window < before.initial_window && self.opened > 0 {
            self.tolerate();
        }
        let opened = after.initial_window > before.initial_window;
        Ok(opened.then_some(ConnectionEvent::Window { stream: 0 }))
    }

    fn widen(&mut self, stream: u32, increment: u32) -> FrameResult<Option<ConnectionEvent>> {
        if stream == 0 {
            let closed = self.send.open() == 0;
            return match self.send.widen(increment) {
                _ if increment == 0 => failed(ErrorCode::Protocol),
                Ok(()) => Ok(closed.then_some(ConnectionEvent::Window { stream: 0 })),
                Err(_) => failed(ErrorCode::FlowControl),
            };
        }
        let Some(record) = self.streams.get_mut(stream) else { return Ok(None) };
        match record.send.widen(increment) {
            _ if increment == 0 => Err(Wrong::Stream(stream, ErrorCode::Protocol)),
            Ok(()) => Ok(Some(ConnectionEvent::Window { stream })),
            Err(_) => Err(Wrong::Stream(stream, ErrorCode::FlowControl)),
        }
    }

    /// Handles `count` bytes of DATA.
    fn data(&mut self, count: usize, complete: bool) -> FrameResult<ReceiveStep> {
        let stream = self.frame.stream;
        let end = complete && self.frame.has(END_STREAM);
        let Some(record) = self.streams.get_mut(stream) else {
            // The stream was reset between two pieces of this frame.
            self.owe(count as u32);
            return Ok(ReceiveStep::Next);
        };
        if !record.count_payload(count as u32) || (end && !record.may_end()) {
            // The padding was returned before. The rest of the payload will be dropped.
            self.owe(count as u32 + self.left - self.padding);
            self.skip();
            return Err(Wrong::Stream(stream, ErrorCode::Protocol));
        }
        let goes_on = record.given_up && !end;
        let half = self.limits.stream_window as usize / 2;
        let grows = !end && !goes_on && !record.has_grown && record.receive.open() <= half;
        if end {
            let lent = self.streams.end_of_peer(stream);
            self.raise(lent);
        }
        if goes_on && complete {
            self.owe(count as u32);
            self.reset(stream, ErrorCode::NoError);
            return Ok(ReceiveStep::Next);
        }
        if grows {
            // A far peer receives the update half a round trip later, so it is sent before any payload is consumed.
            self.give(stream, 0, true);
        }
        if count == 0 && !end {
            return Ok(ReceiveStep::Next);
        }
        Ok(ReceiveStep::Happened(ConnectionEvent::Data { stream, bytes: 0..count, end }))
    }

    /// Handles a piece of a header block.
    fn fragment(&mut self, piece: &[u8], complete: bool) -> FrameResult<ReceiveStep> {
        let Some(block) = &mut self.block else { return failed(ErrorCode::Internal) };
        // The length fits 32 bits, because a piece is a part of a frame.
        block.bytes = block.bytes.saturating_add(piece.len() as u32);
        let max = self.limits.max_head;
        if block.bytes as usize > max * limits::BLOCK_PER_HEAD {
            return failed(ErrorCode::EnhanceYourCalm);
        }
        let purpose = block.purpose;
        let Connection { builder, answers, trailers, decoder, rest, .. } = self;
        let mut show = |field: weir_hpack::DecodedField<'_>| match purpose {
            BlockPurpose::Request => {
                if let Some(builder) = builder {
                    builder.field(field);
                }
            }
            BlockPurpose::Response => {
                if let Some(answers) = answers {
                    answers.field(field);
                }
            }
            BlockPurpose::Trailers => trailers.field(field, max),
            BlockPurpose::Nothing(_) => {}
        };
        // Usually the block is complete.
        let decoded = if rest.is_empty() {
            decoder.decode(piece, &mut show).map(|used| rest.extend_from_slice(&piece[used..]))
        } else {
            rest.extend_from_slice(piece);
            decoder.decode(rest, &mut show).map(|used| drop(rest.drain(..used)))
        };
        if decoded.is_err() {
            return failed(ErrorCode::Compression);
        }
        if !(complete && self.frame.has(END_HEADERS)) {
            return Ok(ReceiveStep::Next);
        }
        if !self.rest.is_empty() {
            return failed(ErrorCode::Compression);
        }
        self.decoder.end_block();
        Ok(self.end_block()?.map_or(ReceiveStep::Next, ReceiveStep::Happened))
    }

    /// Handles a complete header block.
    fn end_block(&mut self) -> FrameResult<Option<ConnectionEvent>> {
        let Some(block) = self.block.take() else { return failed(ErrorCode::Internal) };
        let stream = block.stream;
        match block.purpose {
            BlockPurpose::Request => self.begin_request(stream, block.end_stream),
            BlockPurpose::Response => self.begin_response(stream, block.end_stream),
            BlockPurpose::Trailers => self.end_with_trailers(stream),
            BlockPurpose::Nothing(None) => Ok(None),
            BlockPurpose::Nothing(Some(code)) => Err(Wrong::Stream(stream, code)),
        }
    }

    fn end_with_trailers(&mut self, stream: u32) -> FrameResult<Option<ConnectionEvent>> {
        let Some(record) = self.streams.get_mut(stream) else { return Ok(None) };
        if self.trailers.malformed || !record.may_end() {
            return Err(Wrong::Stream(stream, ErrorCode::Protocol));
        }
        if self.trailers.too_large {
            return Err(Wrong::Stream(stream, ErrorCode::EnhanceYourCalm));
        }
        let lent = self.streams.end_of_peer(stream);
        self.raise(lent);
        Ok(Some(ConnectionEvent::Trailers { stream }))
    }

    /// Begins a request, if its head is valid and the stream limit allows it.
    fn begin_request(&mut self, stream: u32, end: bool) -> FrameResult<Option<ConnectionEvent>> {
        let Some(builder) = &mut self.builder else { return failed(ErrorCode::Internal) };
        builder.finish(end);
        let fault = builder.request.fault;
        let expected = builder.request.head.content_length().unwrap_or(UNANNOUNCED);
        if fault == Some(HeadFault::Malformed) {
            self.tally.refused += 1;
            return Err(Wrong::Stream(stream, ErrorCode::Protocol));
        }
        let limits = &self.limits;
        let is_full =
            limits.concurrent_streams > 0 && self.streams.len() >= limits.concurrent_streams as usize;
        if is_full {
            let Some(given_up) = self.streams.given_up().next() else {
                return Err(Wrong::Stream(stream, ErrorCode::RefusedStream));
            };
            self.reset(given_up, ErrorCode::NoError);
        }
        // As in HAProxy, a request that is answered with status 400 does not count as a glitch.
        if fault == Some(HeadFault::TooLarge) {
            self.tolerate();
        }
        let limits = &self.limits;
        self.opened = self.opened.saturating_add(1);
        if limits.total_streams > 0 {
            // Requests in transit when the limit was reached are still served.
            if self.opened > limits.total_streams.saturating_add(limits.concurrent_streams.max(1)) {
                return failed(ErrorCode::EnhanceYourCalm);
            }
            if self.opened >= limits.total_streams {
                self.leave();
            }
        }
        self.streams.open(Stream {
            id: stream,
            state: if end { StreamState::HalfClosedRemote } else { StreamState::Open },
            receive: FlowWindow::new(self.initial.size()),
            lent: self.initial.raised(self.limits.stream_window),
            has_grown: false,
            send: FlowWindow::new(self.peer.initial_window),
            owed: WindowDebt::default(),
            expected,
            request: RequestTraits::default(),
            answered: true,
            given_up: false,
        });
        if !end {
            self.widen_once();
        }
        Ok(Some(ConnectionEvent::Request { stream, end }))
    }
}
