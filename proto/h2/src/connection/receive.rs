//! Receiving: the effect of each frame, and the errors that reject it.

use super::{Block, Connection, DISTANCE, Event, FAREWELL, Leaving, Purpose, Reading};
use crate::answer::RequestTraits;
use crate::error::{ErrorCode, Wrong};
use crate::frame::{
    self, ACK, END_HEADERS, END_STREAM, FrameHeader, Kind, PADDED, PREFACE, PRIORITY, STREAM_BITS,
};
use crate::limits;
use crate::received::HeadFault;
use crate::request::Builder;
use crate::settings;
use crate::stream::{Stream, StreamState, UNANNOUNCED};
use crate::streams::Standing;
use crate::window::{Window, WindowDebt};

/// The result of a step.
enum Step {
    /// More bytes are needed.
    More,
    /// Go on with the next step.
    Next,
    Happened(Event),
}

pub(super) type Outcome<T = ()> = Result<T, Wrong>;

pub(super) const fn failed<T>(code: ErrorCode) -> Outcome<T> {
    Err(Wrong::Connection(code))
}

impl Connection {
    /// Processes the front of `input` (all received bytes that were not used yet) at `now_ms` of any monotonic clock. Returns how
    /// many bytes were used, and an event. After [`Event::More`], call again with the rest and more bytes behind it.
    pub fn advance(&mut self, input: &[u8], now_ms: u64) -> (usize, Event) {
        self.now_ms = now_ms;
        let mut at = 0;
        loop {
            if let Leaving::Failed(code) = self.leaving {
                return (input.len(), Event::Failed(code));
            }
            let begin = at;
            match self.step(&input[begin..], &mut at) {
                Ok(Step::More) => return (at, Event::More),
                Ok(Step::Next) => {}
                Ok(Step::Happened(Event::Data { stream, bytes, end })) => {
                    let bytes = begin + bytes.start..begin + bytes.end;
                    return (at, Event::Data { stream, bytes, end });
                }
                Ok(Step::Happened(event)) => return (at, event),
                Err(Wrong::Connection(code)) => {
                    self.glitches += 1;
                    self.tally.connection_errors += 1;
                    self.fail(code);
                }
                Err(Wrong::Stream(stream, code)) => match self.refuse(stream, code) {
                    Ok(true) => return (at, Event::Reset { stream, code, received: None }),
                    Ok(false) => {}
                    Err(code) => self.fail(code),
                },
            }
        }
    }

    /// Resets a stream because of an error of the peer; returns whether it was live. It counts like a reset by the peer, since a
    /// peer can provoke it as cheaply (CVE-2025-8671).
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

    /// Takes the next step; adds the bytes that it used to `used`, also on an error.
    fn step(&mut self, input: &[u8], used: &mut usize) -> Outcome<Step> {
        match self.reading {
            Reading::Preface(matched) => {
                let matched = usize::from(matched);
                let expected = &PREFACE[matched..];
                let length = expected.len().min(input.len());
                if input[..length] != expected[..length] {
                    return failed(ErrorCode::Protocol);
                }
                if length == 0 {
                    return Ok(Step::More);
                }
                *used += length;
                if matched == 0 {
                    self.resets.begin(self.now_ms);
                    self.empty_frames.begin(self.now_ms);
                    // The SETTINGS of a server leave in the turn that takes the preface.
                    self.distance.begin_probe(self.now_ms);
                }
                let matched = matched + length;
                self.reading = match matched == PREFACE.len() {
                    true => Reading::Header,
                    false => Reading::Preface(matched as u8),
                };
                Ok(Step::Next)
            }
            Reading::Header => {
                let Some(header) = FrameHeader::read(input) else { return Ok(Step::More) };
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
                Ok(Step::Next)
            }
            Reading::Prefix(needed) => {
                let (needed, there) = (usize::from(needed), usize::from(self.fixed_length));
                let count = input.len().min(needed - there);
                if count == 0 {
                    return Ok(Step::More);
                }
                *used += count;
                self.fixed[there..there + count].copy_from_slice(&input[..count]);
                self.fixed_length += count as u8;
                self.left -= count as u32;
                if there + count < needed {
                    return Ok(Step::Next);
                }
                self.fixed_length = 0;
                Ok(self.prefix()?.map_or(Step::Next, Step::Happened))
            }
            Reading::Body => {
                let wanted = self.left - self.padding;
                let count = input.len().min(wanted as usize);
                if count == 0 && wanted > 0 {
                    return Ok(Step::More);
                }
                *used += count;
                self.left -= count as u32;
                let complete = count as u32 == wanted;
                if complete {
                    self.skip();
                }
                match self.frame.kind {
                    Kind::Data => self.data(count, complete),
                    _ => self.fragment(&input[..count], complete),
                }
            }
            Reading::Skip => {
                let count = input.len().min(self.left as usize);
                if count == 0 {
                    return Ok(Step::More);
                }
                *used += count;
                self.left -= count as u32;
                self.skip();
                Ok(Step::Next)
            }
        }
    }

    /// Drops the rest of this frame.
    fn skip(&mut self) {
        self.reading = if self.left == 0 { Reading::Header } else { Reading::Skip };
    }

    fn begin_frame(&mut self) -> Outcome {
        let FrameHeader { length, kind, stream, .. } = self.frame;
        if let Some(block) = &self.block
            && (kind != Kind::Continuation || stream != block.stream)
        {
            return failed(ErrorCode::Protocol);
        }
        if !self.has_settings && (kind != Kind::Settings || self.frame.has(ACK)) {
            return failed(ErrorCode::Protocol);
        }
        if length > self.limits.max_payload {
            return failed(ErrorCode::FrameSize);
        }
        let of_connection = matches!(kind, Kind::Settings | Kind::Ping | Kind::GoAway);
        let of_either = matches!(kind, Kind::WindowUpdate | Kind::Unknown);
        if !of_either && of_connection != (stream == 0) {
            return failed(ErrorCode::Protocol);
        }
        match kind {
            Kind::Data => self.begin_data(),
            Kind::Headers => self.begin_headers(),
            Kind::Continuation => self.begin_continuation(),
            Kind::Settings => self.begin_settings(),
            Kind::Priority => {
                self.spend()?;
                self.expect(5, Wrong::Stream(stream, ErrorCode::FrameSize))
            }
            Kind::Reset => {
                self.expect(4, Wrong::Connection(ErrorCode::FrameSize))?;
                if self.is_unused(stream) { failed(ErrorCode::Protocol) } else { Ok(()) }
            }
            Kind::PushPromise => failed(ErrorCode::Protocol),
            Kind::Ping => {
                self.spend()?;
                self.expect(8, Wrong::Connection(ErrorCode::FrameSize))
            }
            Kind::GoAway if length < 8 => failed(ErrorCode::FrameSize),
            Kind::GoAway => {
                self.reading = Reading::Prefix(8);
                self.spend()
            }
            Kind::WindowUpdate => {
                self.expect(4, Wrong::Connection(ErrorCode::FrameSize))?;
                if stream != 0 && self.is_unused(stream) { failed(ErrorCode::Protocol) } else { Ok(()) }
            }
            Kind::Unknown => self.spend(),
        }
    }

    fn is_unused(&self, stream: u32) -> bool {
        matches!(self.standing(stream), Standing::Idle | Standing::PassedOver)
    }

    /// Counts a frame without payload against its bucket.
    fn spend(&mut self) -> Outcome {
        if self.empty_frames.take(limits::EMPTY_FRAMES, self.now_ms) {
            Ok(())
        } else {
            failed(ErrorCode::EnhanceYourCalm)
        }
    }

    /// Expects a payload of exactly this size.
    fn expect(&mut self, size: u32, wrong: Wrong) -> Outcome {
        if self.frame.length != size {
            return Err(wrong);
        }
        self.reading = Reading::Prefix(size as u8);
        Ok(())
    }

    fn begin_settings(&mut self) -> Outcome {
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
                self.reading = Reading::Prefix(settings::ENTRY as u8);
            }
            _ => return failed(ErrorCode::FrameSize),
        }
        Ok(())
    }

    fn begin_data(&mut self) -> Outcome {
        let FrameHeader { length, stream, .. } = self.frame;
        let standing = self.standing(stream);
        if matches!(standing, Standing::Idle | Standing::PassedOver) {
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
            None if standing == Standing::Reset => {
                self.owe(length);
                return Ok(());
            }
            None => Some(ErrorCode::StreamClosed),
            Some(record) if !record.receives() => Some(ErrorCode::StreamClosed),
            // A head comes first.
            Some(record) if !record.answered => Some(ErrorCode::Protocol),
            Some(record) => record.receive.use_up(length).err().map(|_| ErrorCode::FlowControl),
        };
        if let Some(code) = problem {
            self.owe(length);
            return Err(Wrong::Stream(stream, code));
        }
        self.reading = if padded { Reading::Prefix(1) } else { Reading::Body };
        Ok(())
    }

    fn begin_headers(&mut self) -> Outcome {
        let FrameHeader { length, stream, .. } = self.frame;
        if stream % 2 == 0 {
            return failed(ErrorCode::Protocol);
        }
        let end_stream = self.frame.has(END_STREAM);
        let purpose = match self.standing(stream) {
            Standing::Idle if self.answers.is_some() => return failed(ErrorCode::Protocol),
            Standing::Idle => {
                self.streams.last = stream;
                match self.leaving {
                    Leaving::Behind(last) if stream > last => {
                        Purpose::Nothing(Some(ErrorCode::RefusedStream))
                    }
                    _ => Purpose::Request,
                }
            }
            Standing::Live => match self.streams.get(stream) {
                Some(record) if !record.receives() => Purpose::Nothing(Some(ErrorCode::StreamClosed)),
                Some(record) if !record.answered => Purpose::Response,
                _ if !end_stream => Purpose::Nothing(Some(ErrorCode::Protocol)),
                _ => Purpose::Trailers,
            },
            Standing::Reset => Purpose::Nothing(None),
            Standing::Closed => return failed(ErrorCode::StreamClosed),
            Standing::PassedOver => return failed(ErrorCode::Protocol),
        };
        match purpose {
            Purpose::Request => {
                let limits = &self.limits;
                let new = || Builder::new(limits.max_fields, limits.max_head, limits.extended_connect);
                self.builder.get_or_insert_with(|| Box::new(new())).begin();
            }
            Purpose::Response => {
                let request = self.streams.get(stream).map(|record| record.request).unwrap_or_default();
                self.answers.iter_mut().for_each(|answers| answers.begin(request));
            }
            Purpose::Trailers => self.trailers.clear(),
            Purpose::Nothing(_) => {}
        }
        self.rest.clear();
        self.block = Some(Block { stream, end_stream, purpose, bytes: 0, continuations: 0 });
        let prefix = usize::from(self.frame.has(PADDED)) + if self.frame.has(PRIORITY) { 5 } else { 0 };
        if (length as usize) < prefix {
            return failed(ErrorCode::FrameSize);
        }
        self.reading = if prefix > 0 { Reading::Prefix(prefix as u8) } else { Reading::Body };
        Ok(())
    }

    fn begin_continuation(&mut self) -> Outcome {
        let Some(block) = &mut self.block else { return failed(ErrorCode::Protocol) };
        block.continuations += 1;
        if block.continuations > limits::CONTINUATIONS {
            return failed(ErrorCode::EnhanceYourCalm);
        }
        self.reading = Reading::Body;
        Ok(())
    }

    /// Handles the complete fields of fixed size.
    fn prefix(&mut self) -> Outcome<Option<Event>> {
        let stream = self.frame.stream;
        let fixed = self.fixed;
        if !matches!(self.frame.kind, Kind::Data | Kind::Headers | Kind::Settings) {
            self.skip();
        }
        match self.frame.kind {
            Kind::Data => {
                self.pad(fixed[0])?;
                // Padding counts as consumed at once.
                self.consumed(stream, u32::from(fixed[0]) + 1);
                self.reading = Reading::Body;
            }
            Kind::Headers => {
                let padded = self.frame.has(PADDED);
                if padded {
                    self.pad(fixed[0])?;
                }
                let dependency = frame::number(&fixed[usize::from(padded)..]) & STREAM_BITS;
                if self.frame.has(PRIORITY)
                    && dependency == stream
                    && let Some(block) = &mut self.block
                {
                    block.purpose = Purpose::Nothing(Some(ErrorCode::Protocol));
                }
                self.reading = Reading::Body;
            }
            Kind::Priority if frame::number(&fixed) & STREAM_BITS == stream => {
                return Err(Wrong::Stream(stream, ErrorCode::Protocol));
            }
            Kind::Reset => return self.peer_resets(stream, frame::number(&fixed)),
            Kind::Settings => return self.setting(),
            Kind::Ping if !self.frame.has(ACK) => frame::write_ping(&mut self.output, true, fixed),
            Kind::Ping if fixed == FAREWELL && self.leaving == Leaving::Announced => self.farewell(),
            Kind::Ping if fixed == DISTANCE => self.distance.answered(self.now_ms),
            Kind::GoAway => return Ok(self.peer_leaves(&fixed)),
            Kind::WindowUpdate => return self.widen(stream, frame::number(&fixed) & STREAM_BITS),
            _ => {}
        }
        Ok(None)
    }

    /// Notes that the last `length` bytes of the payload are padding.
    fn pad(&mut self, length: u8) -> Outcome {
        self.padding = u32::from(length);
        if self.padding > self.left { failed(ErrorCode::Protocol) } else { Ok(()) }
    }

    fn peer_resets(&mut self, stream: u32, number: u32) -> Outcome<Option<Event>> {
        let Some(record) = self.streams.get(stream) else { return Ok(None) };
        // The request was not answered yet: work for nothing.
        if self.answers.is_none() && record.sends() && !self.resets.take(limits::RESETS, self.now_ms) {
            return failed(ErrorCode::EnhanceYourCalm);
        }
        self.streams.close(stream, false);
        let code = ErrorCode::from_wire(number);
        Ok(Some(Event::Reset { stream, code, received: Some(number) }))
    }

    fn setting(&mut self) -> Outcome<Option<Event>> {
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
            self.reading = Reading::Header;
            settings::write_acknowledgement(&mut self.output);
        }
        // A smaller window is useless while responses are in transit.
        if after.initial_window < before.initial_window && self.opened > 0 {
            self.tolerate();
        }
        let opened = after.initial_window > before.initial_window;
        Ok(opened.then_some(Event::Window { stream: 0 }))
    }

    fn widen(&mut self, stream: u32, increment: u32) -> Outcome<Option<Event>> {
        if stream == 0 {
            let closed = self.send.open() == 0;
            return match self.send.widen(increment) {
                _ if increment == 0 => failed(ErrorCode::Protocol),
                Ok(()) => Ok(closed.then_some(Event::Window { stream: 0 })),
                Err(_) => failed(ErrorCode::FlowControl),
            };
        }
        let Some(record) = self.streams.get_mut(stream) else { return Ok(None) };
        match record.send.widen(increment) {
            _ if increment == 0 => Err(Wrong::Stream(stream, ErrorCode::Protocol)),
            Ok(()) => Ok(Some(Event::Window { stream })),
            Err(_) => Err(Wrong::Stream(stream, ErrorCode::FlowControl)),
        }
    }

    /// Handles `count` bytes of DATA.
    fn data(&mut self, count: usize, complete: bool) -> Outcome<Step> {
        let stream = self.frame.stream;
        let end = complete && self.frame.has(END_STREAM);
        let Some(record) = self.streams.get_mut(stream) else {
            // It was reset between two pieces of this frame.
            self.owe(count as u32);
            return Ok(Step::Next);
        };
        if !record.count_payload(count as u32) || (end && !record.may_end()) {
            // The padding was given back before; the rest of the payload comes and is dropped.
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
            return Ok(Step::Next);
        }
        if grows {
            // A far peer receives it half a round trip later: it must not wait until something is consumed.
            self.give(stream, 0, true);
        }
        if count == 0 && !end {
            return Ok(Step::Next);
        }
        Ok(Step::Happened(Event::Data { stream, bytes: 0..count, end }))
    }

    /// Handles a piece of a header block.
    fn fragment(&mut self, piece: &[u8], complete: bool) -> Outcome<Step> {
        let Some(block) = &mut self.block else { return failed(ErrorCode::Internal) };
        // A piece is a part of a frame.
        block.bytes = block.bytes.saturating_add(piece.len() as u32);
        let max = self.limits.max_head;
        if block.bytes as usize > max * limits::BLOCK_PER_HEAD {
            return failed(ErrorCode::EnhanceYourCalm);
        }
        let purpose = block.purpose;
        let Connection { builder, answers, trailers, decoder, rest, .. } = self;
        let mut show = |field: weir_hpack::Field<'_>| match purpose {
            Purpose::Request => {
                if let Some(builder) = builder {
                    builder.field(field);
                }
            }
            Purpose::Response => {
                if let Some(answers) = answers {
                    answers.field(field);
                }
            }
            Purpose::Trailers => trailers.field(field, max),
            Purpose::Nothing(_) => {}
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
            return Ok(Step::Next);
        }
        if !self.rest.is_empty() {
            return failed(ErrorCode::Compression);
        }
        self.decoder.end_block();
        Ok(self.end_block()?.map_or(Step::Next, Step::Happened))
    }

    /// Handles a complete header block.
    fn end_block(&mut self) -> Outcome<Option<Event>> {
        let Some(block) = self.block.take() else { return failed(ErrorCode::Internal) };
        let stream = block.stream;
        match block.purpose {
            Purpose::Request => self.begin_request(stream, block.end_stream),
            Purpose::Response => self.begin_response(stream, block.end_stream),
            Purpose::Trailers => self.end_with_trailers(stream),
            Purpose::Nothing(None) => Ok(None),
            Purpose::Nothing(Some(code)) => Err(Wrong::Stream(stream, code)),
        }
    }

    fn end_with_trailers(&mut self, stream: u32) -> Outcome<Option<Event>> {
        let Some(record) = self.streams.get_mut(stream) else { return Ok(None) };
        if self.trailers.malformed || !record.may_end() {
            return Err(Wrong::Stream(stream, ErrorCode::Protocol));
        }
        if self.trailers.too_large {
            return Err(Wrong::Stream(stream, ErrorCode::EnhanceYourCalm));
        }
        let lent = self.streams.end_of_peer(stream);
        self.raise(lent);
        Ok(Some(Event::Trailers { stream }))
    }

    /// Begins a request, if its head is valid and the stream limit allows it.
    fn begin_request(&mut self, stream: u32, end: bool) -> Outcome<Option<Event>> {
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
        // As in HAProxy, answering with 400 counts no glitch.
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
            receive: Window::new(self.initial.size()),
            lent: self.initial.raised(self.limits.stream_window),
            has_grown: false,
            send: Window::new(self.peer.initial_window),
            owed: WindowDebt::default(),
            expected,
            request: RequestTraits::default(),
            answered: true,
            given_up: false,
        });
        if !end {
            self.widen_once();
        }
        Ok(Some(Event::Request { stream, end }))
    }
}
