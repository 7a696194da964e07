//! One endpoint of an HTTP/2 connection: a server that accepts requests, or a client that opens streams for them.
//!
//! ```text
//!   Preface ──► Header ──► Prefix ──► Body ──► Skip ──► Header ──► ...
//!                  │   (fields of fixed size)    ▲ (padding)
//!                  └─── nothing of it is wanted ─┘
//! ```
//!
//! Frames are processed as their bytes arrive. No frame has to be complete, and none is buffered. Receiving and its
//! errors are in `receive.rs`, sending in `send.rs`, the client's part in `client.rs`.

mod client;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::ops::Range;

use weir_hpack::{Decoder, Encoder};
use weir_http::Head;

use crate::answer;
use crate::error::ErrorCode;
use crate::frame::{self, FrameHeader, PREFACE};
use crate::limits::{self, Bucket, ConnectionLimits};
use crate::received::ReceivedHead;
use crate::request::Builder;
use crate::settings::{self, PeerSettings};
use crate::streams::Streams;
use crate::tally::ConnectionTally;
use crate::trailers::ReceivedTrailers;
use crate::window::{DEFAULT_WINDOW, Distance, FlowWindow, InitialWindow, WindowDebt};

/// An event of [`Connection::advance`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConnectionEvent {
    /// More bytes are needed.
    More,
    /// The head of a request is complete: [`Connection::take_head`]. With `end` no body follows.
    Request {
        stream: u32,
        /// Whether the stream's input ends here (END_STREAM).
        end: bool,
    },
    /// The head of a response is complete: [`Connection::take_head`]. After an interim response (1xx), another head
    /// follows. With `end` no body follows.
    Response {
        stream: u32,
        /// Whether the stream's input ends here (END_STREAM).
        end: bool,
    },
    /// DATA payload was received: the range `bytes` of the input of [`Connection::advance`].
    Data {
        stream: u32,
        /// Range in the input.
        bytes: Range<usize>,
        /// Whether the stream's input ends here (END_STREAM).
        end: bool,
    },
    /// Trailers were received and ended the stream's input: [`Connection::trailers`].
    Trailers { stream: u32 },
    /// A stream was closed: the peer reset it, or this end did because of an error.
    Reset {
        stream: u32,
        code: ErrorCode,
        /// The error code on the wire, if the peer reset it.
        received: Option<u32>,
    },
    /// A window grew: the stream's, or the connection's for 0.
    Window { stream: u32 },
    /// The server accepts no more streams. Those above `last` are closed; it did not process them (RFC 9113, 6.8).
    GoAway {
        /// The last stream that it processed.
        last: u32,
        code: ErrorCode,
    },
    /// The connection failed: GOAWAY is in the output, further input is ignored.
    Failed(ErrorCode),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    limits: ConnectionLimits,
    peer: PeerSettings,
    decoder: Decoder,
    encoder: Encoder,
    streams: Streams,
    /// Builds the heads of requests. None on an idle connection, and for a client.
    builder: Option<Box<Builder>>,
    /// Builds the heads of responses, for a client.
    answers: Option<Box<answer::Builder>>,
    trailers: ReceivedTrailers,
    reading: ExpectedInput,
    /// Header of the frame being received.
    frame: FrameHeader,
    /// Payload bytes of the frame not received yet, padding included.
    left: u32,
    padding: u32,
    /// Received bytes of the frame's fixed-size fields.
    fixed: [u8; 8],
    fixed_length: u8,
    /// The header block being received.
    block: Option<HeaderBlock>,
    /// Received bytes of an incomplete header field.
    rest: Vec<u8>,
    /// The connection's receive window.
    receive: FlowWindow,
    owed: WindowDebt,
    /// Whether the receive window was opened to its limit, which happens with the first request that has a body.
    is_wide: bool,
    /// Measured distance to the peer. Determines the windows of its bodies.
    distance: Distance,
    /// Bytes by which stream windows may still grow: see [`Connection::allow_growth`].
    growth: u32,
    /// Whether the window of a body grew.
    has_large_bodies: bool,
    /// The connection's send window.
    send: FlowWindow,
    /// Initial receive window of each new stream of the peer.
    initial: InitialWindow,
    output: Vec<u8>,
    /// How many bytes of the output were sent.
    flushed: usize,
    leaving: GoAwayState,
    /// The peer sent GOAWAY.
    peer_leaves: bool,
    has_settings: bool,
    opened: u32,
    glitches: u32,
    resets: Bucket,
    empty_frames: Bucket,
    now_ms: u64,
    frames: u64,
    tally: ConnectionTally,
}

/// The expected part of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ExpectedInput {
    /// The rest of the preface, after this many bytes.
    Preface(u8),
    Header,
    /// This many bytes of fields of fixed size.
    Prefix(u8),
    /// Payload: DATA, or a piece of a header block.
    Body,
    /// The rest of a frame that is dropped: padding, or refused payload.
    Skip,
}

/// A header block while it is received.
#[derive(Clone, Copy, Debug)]
struct HeaderBlock {
    stream: u32,
    end_stream: bool,
    purpose: BlockPurpose,
    /// Bytes of the block received so far.
    bytes: u32,
    continuations: u32,
}

/// The purpose of a header block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockPurpose {
    Request,
    Response,
    /// Trailers of a request or a response.
    Trailers,
    /// Decoded only to keep the HPACK table in sync. The stream is then reset with this code, if any.
    Nothing(Option<ErrorCode>),
}

/// The state of this end's shutdown by GOAWAY (RFC 9113, 6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GoAwayState {
    No,
    /// The first GOAWAY was sent; requests are still accepted.
    Announced,
    /// The final GOAWAY was sent: streams above this one are refused.
    Behind(u32),
    Failed(ErrorCode),
}

/// Sent bytes are removed from the front of the output only once they exceed the unsent bytes by this number.
const LEAST_MOVED: usize = 4096;
/// Payload of the PING after the first GOAWAY. Its acknowledgement shows that the peer has received the GOAWAY.
const FAREWELL: [u8; 8] = *b"farewell";
/// Payload of the PING that measures the round trip to the peer.
const DISTANCE: [u8; 8] = *b"distance";
/// Size limit of this end's HPACK encoder table in bytes, even if the peer allows more: the protocol's default.
const ENCODER_TABLE: usize = 4096;

impl Connection {
    /// A server connection that awaits the client's preface. Its SETTINGS are in the output.
    pub fn server(limits: ConnectionLimits) -> Connection {
        let own = [
            (settings::MAX_CONCURRENT_STREAMS, limits.concurrent_streams, 0),
            (settings::ENABLE_CONNECT_PROTOCOL, limits.extended_connect.into(), 0),
        ];
        Connection::new(limits, ExpectedInput::Preface(0), Vec::new(), &own)
    }

    /// `own` are further SETTINGS as (identifier, value, default). A value equal to its default is not sent.
    fn new(
        limits: ConnectionLimits,
        reading: ExpectedInput,
        mut output: Vec<u8>,
        own: &[(u16, u32, u32)],
    ) -> Connection {
        let mut entries = Vec::with_capacity(6);
        let mut say = |identifier, value, default| {
            if value != default {
                entries.push((identifier, value));
            }
        };
        say(settings::HEADER_TABLE_SIZE, limits.header_table_size, 4096);
        own.iter().for_each(|(identifier, value, default)| say(*identifier, *value, *default));
        say(settings::INITIAL_WINDOW_SIZE, limits.stream_window, DEFAULT_WINDOW);
        say(settings::MAX_FRAME_SIZE, limits.max_payload, frame::DEFAULT_MAX_PAYLOAD);
        say(settings::MAX_HEADER_LIST_SIZE, limits.max_head as u32, 0);
        settings::write(&mut output, &entries);
        let table = limits.header_table_size.max(4096) as usize;
        Connection {
            peer: PeerSettings::default(),
            decoder: Decoder::new(table, limits.max_head * limits::BLOCK_PER_HEAD),
            encoder: Encoder::new(ENCODER_TABLE),
            streams: Streams::default(),
            builder: None,
            answers: None,
            trailers: ReceivedTrailers::default(),
            reading,
            frame: FrameHeader { length: 0, kind: frame::FrameKind::Unknown, flags: 0, stream: 0 },
            left: 0,
            padding: 0,
            fixed: [0; 8],
            fixed_length: 0,
            block: None,
            rest: Vec::new(),
            receive: FlowWindow::new(DEFAULT_WINDOW),
            is_wide: false,
            distance: Distance::default(),
            growth: 0,
            has_large_bodies: false,
            owed: WindowDebt::default(),
            send: FlowWindow::new(DEFAULT_WINDOW),
            initial: InitialWindow::new(limits.stream_window),
            output,
            flushed: 0,
            leaving: GoAwayState::No,
            peer_leaves: false,
            has_settings: false,
            opened: 0,
            glitches: 0,
            resets: Bucket::of(limits::RESETS),
            empty_frames: Bucket::of(limits::EMPTY_FRAMES),
            now_ms: 0,
            frames: 0,
            tally: ConnectionTally::default(),
            limits,
        }
    }

    /// Swaps the head of the last event into `room`. The connection reuses the memory of `room`.
    pub fn take_head(&mut self, room: &mut ReceivedHead) {
        room.clear();
        let built = match (&mut self.answers, &mut self.builder) {
            (Some(answers), _) => &mut answers.received,
            (None, Some(builder)) => &mut builder.request,
            (None, None) => return,
        };
        std::mem::swap(built, room);
    }

    /// An empty head for [`Connection::take_head`].
    pub fn room(&self) -> ReceivedHead {
        ReceivedHead {
            head: Head::with_limits(self.limits.max_fields, Head::DEFAULT_MAX_EDITS),
            ..ReceivedHead::default()
        }
    }

    /// The trailers of the last event, as HTTP/1 field lines.
    pub fn trailers(&self) -> &[u8] {
        &self.trailers.lines
    }

    /// Number of streams that are neither idle nor closed.
    pub fn live(&self) -> usize {
        self.streams.len()
    }

    /// The announced limit of concurrent streams of the peer; 0 for no limit.
    pub fn most_streams(&self) -> u32 {
        self.limits.concurrent_streams
    }

    /// Receive and send window in bytes: of a stream, or of the connection for 0. `None` if the stream is not live. A
    /// change of settings may make a window negative (RFC 9113, 6.9.2).
    pub fn windows(&self, stream: u32) -> Option<(i32, i32)> {
        match stream {
            0 => Some((self.receive.size(), self.send.size())),
            _ => self.streams.get(stream).map(|record| (record.receive.size(), record.send.size())),
        }
    }

    /// The windows of bodies may grow by this many bytes in all. Without a call none grows: the caller bounds the
    /// memory of all connections. `now_ms` is the time by the clock of [`Connection::advance`].
    pub fn allow_growth(&mut self, bytes: u32, now_ms: u64) {
        self.growth = bytes;
        self.now_ms = now_ms;
    }

    /// Bytes granted beyond the windows in the first SETTINGS: the sum for live streams, at most the connection's
    /// window, or the growth of the next stream's window if that is larger.
    pub fn lent(&self) -> u32 {
        let next = self.initial.raised(self.limits.stream_window);
        self.streams.lent().min(self.limits.connection_window).max(next)
    }

    /// Number of streams opened so far.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// Number of frames received.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Bytes still missing before the next frame: of the preface, and of the current frame's payload. Third, the frame's stream.
    pub fn awaited(&self) -> (usize, usize, u32) {
        match self.reading {
            ExpectedInput::Preface(matched) => (PREFACE.len() - usize::from(matched), 0, 0),
            ExpectedInput::Header => (0, 0, 0),
            ExpectedInput::Prefix(_) | ExpectedInput::Body | ExpectedInput::Skip => {
                (0, self.left as usize, self.frame.stream)
            }
        }
    }

    /// Counts of received frames and of errors.
    pub fn tally(&self) -> &ConnectionTally {
        &self.tally
    }

    /// The number of glitches: suspicious events of the peer, errors included.
    pub fn glitches(&self) -> u32 {
        self.glitches
    }

    /// Whether the connection is finished: it failed, or this end sent its final GOAWAY or the peer sent one, and no stream is live.
    pub fn is_over(&self) -> bool {
        match self.leaving {
            GoAwayState::Failed(_) => true,
            GoAwayState::Behind(_) => !self.streams.are_used(),
            GoAwayState::No | GoAwayState::Announced => self.peer_leaves && !self.streams.are_used(),
        }
    }

    /// The error that ended the connection. `None` if it did not fail.
    pub fn failure(&self) -> Option<ErrorCode> {
        match self.leaving {
            GoAwayState::Failed(code) => Some(code),
            _ => None,
        }
    }

    /// Whether this end sent GOAWAY.
    pub fn is_leaving(&self) -> bool {
        self.leaving != GoAwayState::No
    }

    /// Output not sent yet.
    pub fn output(&self) -> &[u8] {
        &self.output[self.flushed..]
    }

    /// Records that `count` bytes of the output were sent.
    pub fn flushed(&mut self, count: usize) {
        self.flushed += count;
        if self.flushed >= self.output.len() {
            self.output.clear();
            self.flushed = 0;
        } else if self.flushed >= self.output().len() + LEAST_MOVED {
            // Otherwise the output would grow without bound if the peer never reads all of it.
            self.output.drain(..self.flushed);
            self.flushed = 0;
        }
    }

    /// Frees the memory that an idle connection does not need, but keeps the state of its streams.
    pub fn shrink(&mut self) {
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        self.rest.shrink_to_fit();
        self.streams.shrink();
        if self.block.is_some() {
            // A head is still being received.
            return;
        }
        self.builder = None;
        self.answers.iter_mut().for_each(|answers| answers.shrink());
        self.trailers = ReceivedTrailers::default();
    }

    /// Counts a glitch that violates no rule. At the limit, the connection fails with ENHANCE_YOUR_CALM.
    pub fn tolerate(&mut self) {
        if self.glitch() {
            self.fail(ErrorCode::EnhanceYourCalm);
        }
    }

    /// Counts a glitch. Returns whether the limit is reached.
    fn glitch(&mut self) -> bool {
        self.glitches += 1;
        self.limits.glitches > 0 && self.glitches >= self.limits.glitches
    }
}
