//! One end of a connection: the server's, which takes requests, or the client's, which opens streams for them.
//!
//! ```text
//!   Preface ──► Header ──► Prefix ──► Body ──► Skip ──► Header ──► ...
//!                  │   (fields of fixed size)    ▲ (padding)
//!                  └─── nothing of it is wanted ─┘
//! ```
//!
//! Frames are looked at while they come: no frame has to be there as a whole, and none is kept. What a frame is refused for is
//! in `receive.rs`, what leaves in `send.rs`; what only a client does is in `client.rs`.

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
use crate::limits::{self, Bucket, Limits};
use crate::received::ReceivedHead;
use crate::request::Builder;
use crate::settings::{self, Settings};
use crate::streams::Streams;
use crate::trailers::Trailers;
use crate::window::{DEFAULT_WINDOW, Owed, Window};

/// What happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing more can be said before more bytes come.
    More,
    /// The head of a request is there: [`Connection::take_head`]. With `end` no body follows.
    Request {
        /// The new stream.
        stream: u32,
        /// Whether this is all.
        end: bool,
    },
    /// The head of a response is there: [`Connection::take_head`]. After an interim one, another follows. With `end` no body
    /// follows.
    Response {
        /// Its stream.
        stream: u32,
        /// Whether this is all.
        end: bool,
    },
    /// Payload came. It stands in `bytes` of what was given to [`Connection::advance`].
    Data {
        /// Its stream.
        stream: u32,
        /// Where the bytes are.
        bytes: Range<usize>,
        /// Whether this is all.
        end: bool,
    },
    /// Trailers came, and with them the end: [`Connection::trailers`].
    Trailers {
        /// Their stream.
        stream: u32,
    },
    /// A stream is no more: the peer reset it, or it was reset for what came.
    Reset {
        /// The stream.
        stream: u32,
        /// Why.
        code: ErrorCode,
        /// The number that the peer gave, if the peer reset it.
        received: Option<u32>,
    },
    /// More may be sent: on this stream, or on any for 0.
    Window {
        /// The stream.
        stream: u32,
    },
    /// The server takes no more streams. Those behind `last` are no more, and it did not look at them (RFC 9113, 6.8).
    GoAway {
        /// The last stream that it looked at.
        last: u32,
        /// Why.
        code: ErrorCode,
    },
    /// The connection is over: GOAWAY is in the output, nothing more is looked at.
    Failed(ErrorCode),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    /// What the peer accepts.
    peer: Settings,
    decoder: Decoder,
    encoder: Encoder,
    streams: Streams,
    builder: Builder,
    /// Of a client: builds the heads of responses.
    answers: Option<Box<answer::Builder>>,
    trailers: Trailers,
    reading: Reading,
    /// The frame that is read.
    frame: FrameHeader,
    /// What is left of its payload, padding included.
    left: u32,
    padding: u32,
    /// Fields of fixed size, as far as they came.
    fixed: [u8; 8],
    fixed_length: usize,
    /// The header block that is read.
    block: Option<Block>,
    /// The beginning of a field that is not there as a whole.
    rest: Vec<u8>,
    /// What the peer may send in all, and what was consumed of it.
    receive: Window,
    owed: Owed,
    /// The peer was told that it may send as much as the limits say: with the first request that has a body.
    is_wide: bool,
    /// What this end may send in all.
    send: Window,
    /// The window that the peer is assumed to begin streams with: ours, once it knows.
    assumed_window: u32,
    output: Vec<u8>,
    /// How many bytes of the output left.
    flushed: usize,
    scratch: Vec<u8>,
    leaving: Leaving,
    /// The peer leaves.
    peer_leaves: bool,
    has_settings: bool,
    opened: u32,
    glitches: u32,
    refused: u32,
    resets: Bucket,
    empty_frames: Bucket,
    now_ms: u64,
    frames: u64,
}

/// What is expected next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// The rest of the preface, behind so many bytes.
    Preface(usize),
    /// A frame's header.
    Header,
    /// So many bytes of fields of fixed size.
    Prefix(usize),
    /// Payload: DATA, or a piece of a header block.
    Body,
    /// The rest of a frame that nobody wants: padding, or what was refused.
    Skip,
}

/// A header block while it comes.
#[derive(Clone, Copy, Debug)]
struct Block {
    stream: u32,
    end_stream: bool,
    purpose: Purpose,
    /// Bytes of it that came.
    bytes: usize,
    continuations: u32,
}

/// What becomes of a header block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Purpose {
    /// A request begins.
    Request,
    /// A response begins.
    Response,
    /// A request or a response ends.
    Trailers,
    /// It is decoded for the table's sake; then its stream is reset with this code, if there is one.
    Nothing(Option<ErrorCode>),
}

/// How far this end is with leaving (RFC 9113, 6.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leaving {
    No,
    /// The peer was told; what it sent before it knows is still served.
    Announced,
    /// The peer knows: streams behind this one are refused.
    Behind(u32),
    /// The connection failed.
    Failed(ErrorCode),
}

/// Less of the output's beginning is not worth moving the rest.
const LEAST_MOVED: usize = 4096;
/// The payload of the PING that tells when the peer has seen the announcement.
const FAREWELL: [u8; 8] = *b"farewell";
/// What this end's table takes at most, whatever the peer allows: what every peer has room for from the start.
const ENCODER_TABLE: usize = 4096;

impl Connection {
    /// A connection whose preface is still to come. Its SETTINGS are in the output.
    pub fn server(limits: Limits) -> Connection {
        let own = [
            (settings::MAX_CONCURRENT_STREAMS, limits.concurrent_streams, 0),
            (settings::ENABLE_CONNECT_PROTOCOL, limits.extended_connect.into(), 0),
        ];
        Connection::new(limits, Reading::Preface(0), Vec::new(), &own)
    }

    /// With `own` settings of its side: identifier, value, and what is not worth saying.
    fn new(limits: Limits, reading: Reading, mut output: Vec<u8>, own: &[(u16, u32, u32)]) -> Connection {
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
            peer: Settings::default(),
            decoder: Decoder::new(table, limits.max_head * limits::BLOCK_PER_HEAD),
            encoder: Encoder::new(ENCODER_TABLE),
            streams: Streams::default(),
            builder: Builder::new(limits.max_fields, limits.max_head, limits.extended_connect),
            answers: None,
            trailers: Trailers::default(),
            reading,
            frame: FrameHeader { length: 0, kind: frame::Kind::Unknown, flags: 0, stream: 0 },
            left: 0,
            padding: 0,
            fixed: [0; 8],
            fixed_length: 0,
            block: None,
            rest: Vec::new(),
            receive: Window::new(DEFAULT_WINDOW),
            is_wide: false,
            owed: Owed::default(),
            send: Window::new(DEFAULT_WINDOW),
            assumed_window: limits.stream_window.max(DEFAULT_WINDOW),
            output,
            flushed: 0,
            scratch: Vec::new(),
            leaving: Leaving::No,
            peer_leaves: false,
            has_settings: false,
            opened: 0,
            glitches: 0,
            refused: 0,
            resets: limits::RESETS,
            empty_frames: limits::EMPTY_FRAMES,
            now_ms: 0,
            frames: 0,
            limits,
        }
    }

    /// Whether these bytes may become the preface of a client, or begin with it.
    pub fn is_preface(bytes: &[u8]) -> bool {
        let length = bytes.len().min(PREFACE.len());
        bytes[..length] == PREFACE[..length]
    }

    /// The head that the last event was of. `room` is what it is exchanged for: its memory is used for another.
    pub fn take_head(&mut self, room: &mut ReceivedHead) {
        room.clear();
        let built = match &mut self.answers {
            Some(answers) => &mut answers.received,
            None => &mut self.builder.request,
        };
        std::mem::swap(built, room);
    }

    /// Room for a head, to be exchanged for one.
    pub fn room(&self) -> ReceivedHead {
        ReceivedHead {
            head: Head::with_limits(self.limits.max_fields, Head::DEFAULT_MAX_EDITS),
            ..ReceivedHead::default()
        }
    }

    /// The trailers that the last event was of: lines as HTTP/1 writes them.
    pub fn trailers(&self) -> &[u8] {
        &self.trailers.lines
    }

    /// Streams that are neither idle nor closed.
    pub fn live(&self) -> usize {
        self.streams.len()
    }

    /// Streams that the peer may have at a time: what it was told, 0 for no limit.
    pub fn most_streams(&self) -> u32 {
        self.limits.concurrent_streams
    }

    /// How much may be received and sent now: on a stream, if it is live, or on the connection for 0. A window that
    /// settings made smaller may be negative (RFC 9113, 6.9.2).
    pub fn windows(&self, stream: u32) -> Option<(i32, i32)> {
        match stream {
            0 => Some((self.receive.size(), self.send.size())),
            _ => self.streams.get(stream).map(|record| (record.receive.size(), record.send.size())),
        }
    }

    /// Streams that began.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// Frames that came.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// How often the peer did what no well-behaved peer does, errors included.
    pub fn glitches(&self) -> u32 {
        self.glitches
    }

    /// Requests that were refused for their form before they became streams.
    pub fn refused(&self) -> u32 {
        self.refused
    }

    /// Whether nothing more will happen: it failed, or everybody left.
    pub fn is_over(&self) -> bool {
        match self.leaving {
            Leaving::Failed(_) => true,
            Leaving::Behind(_) => self.streams.is_empty(),
            Leaving::No | Leaving::Announced => self.peer_leaves && self.streams.is_empty(),
        }
    }

    /// The error that ended it, if one did.
    pub fn failure(&self) -> Option<ErrorCode> {
        match self.leaving {
            Leaving::Failed(code) => Some(code),
            _ => None,
        }
    }

    /// Whether the peer was told that this end leaves.
    pub fn is_leaving(&self) -> bool {
        self.leaving != Leaving::No
    }

    /// What is to be sent.
    pub fn output(&self) -> &[u8] {
        &self.output[self.flushed..]
    }

    /// That many bytes of the output were sent.
    pub fn flushed(&mut self, count: usize) {
        self.flushed += count;
        if self.flushed >= self.output.len() {
            self.output.clear();
            self.flushed = 0;
        } else if self.flushed >= self.output().len() + LEAST_MOVED {
            // What follows would else be put behind all that ever left to a peer that never takes everything.
            self.output.drain(..self.flushed);
            self.flushed = 0;
        }
    }

    /// Gives back the memory that a quiet connection does not need.
    pub fn shrink(&mut self) {
        if self.output.is_empty() {
            self.output = Vec::new();
        }
        self.scratch = Vec::new();
        self.rest.shrink_to_fit();
        self.builder.shrink();
        self.answers.iter_mut().for_each(|answers| answers.shrink());
        self.trailers = Trailers::default();
    }

    /// Counts what is allowed, and what no well-behaved peer does. Too much of it ends the connection.
    pub fn tolerate(&mut self) {
        if self.glitch() {
            self.fail(ErrorCode::EnhanceYourCalm);
        }
    }

    /// Counts what no well-behaved peer does; whether that was too much.
    fn glitch(&mut self) -> bool {
        self.glitches += 1;
        self.limits.glitches > 0 && self.glitches >= self.limits.glitches
    }
}
