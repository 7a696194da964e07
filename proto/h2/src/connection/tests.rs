//! RFC 9113 by section: received frames, events, and sent frames.

mod early;
mod windows;

use weir_hpack::{Decoder, Encoder, Indexing, Token};
use weir_http::Version;

use super::*;
use crate::frame::{ACK, END_HEADERS, END_STREAM, PADDED, PREFACE, PRIORITY};
use crate::received::HeadFault;

/// A client that writes given frames.
struct FrameClient {
    connection: Connection,
    encoder: Encoder,
    decoder: Decoder,
    /// Bytes sent and not processed yet.
    wire: Vec<u8>,
    /// The number of bytes sent at a time.
    piece: usize,
    now_ms: u64,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_header(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

impl FrameClient {
    /// A connection that has received preface and settings.
    fn new(limits: ConnectionLimits) -> FrameClient {
        FrameClient::of_time(limits, 0)
    }

    /// The same at a given time of the clock.
    fn of_time(limits: ConnectionLimits, now_ms: u64) -> FrameClient {
        let mut client = FrameClient { now_ms, ..FrameClient::silent(limits) };
        client.send(&[&PREFACE[..], &frame(4, 0, 0, &[]), &frame(4, ACK, 0, &[])].concat());
        client.received();
        client
    }

    fn silent(limits: ConnectionLimits) -> FrameClient {
        FrameClient {
            connection: Connection::server(limits),
            encoder: Encoder::new(4096),
            decoder: Decoder::new(4096, 4096),
            wire: Vec::new(),
            piece: usize::MAX,
            now_ms: 0,
        }
    }

    fn block(&mut self, fields: &[(&str, &str)]) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin_block(&mut block);
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            self.encoder.field(&mut block, Token::of(name), name, value, Indexing::Kept);
        }
        block
    }

    fn get(&mut self) -> Vec<u8> {
        self.block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "h")])
    }

    fn request(&mut self, stream: u32, end: bool) -> String {
        let block = self.get();
        self.send(&frame(1, END_HEADERS | if end { END_STREAM } else { 0 }, stream, &block))
    }

    /// Sends bytes; returns the events in words.
    fn send(&mut self, bytes: &[u8]) -> String {
        let mut words = Vec::new();
        for piece in bytes.chunks(self.piece.min(bytes.len().max(1))) {
            self.wire.extend_from_slice(piece);
            loop {
                let (used, event) = self.connection.advance(&self.wire, self.now_ms);
                let word = match event {
                    ConnectionEvent::More => {
                        self.wire.drain(..used);
                        break;
                    }
                    ConnectionEvent::Request { stream, end } => {
                        let mut request = ReceivedHead::default();
                        self.connection.take_head(&mut request);
                        if request.fault == Some(HeadFault::TooLarge) {
                            format!("too large {stream}")
                        } else {
                            let target = request.head.uri(&request.bytes).escape_ascii();
                            format!("request {stream} {target}{}", if end { " end" } else { "" })
                        }
                    }
                    ConnectionEvent::Data { stream, bytes, end } => {
                        assert!(bytes.end <= used);
                        let text = self.wire[bytes].escape_ascii();
                        format!("data {stream} {text}{}", if end { " end" } else { "" })
                    }
                    event @ (ConnectionEvent::Response { .. } | ConnectionEvent::GoAway { .. }) => {
                        format!("{event:?}")
                    }
                    ConnectionEvent::Trailers { stream } => {
                        format!("trailers {stream} {}", self.connection.trailers().escape_ascii())
                    }
                    ConnectionEvent::Reset { stream, code, .. } => format!("reset {stream} {code}"),
                    ConnectionEvent::Window { stream } => format!("window {stream}"),
                    ConnectionEvent::Failed(code) => {
                        self.wire.clear();
                        words.push(format!("failed {code}"));
                        return words.join(", ");
                    }
                };
                self.wire.drain(..used);
                words.push(word);
            }
        }
        words.join(", ")
    }

    /// The frames that left since the last call, in words.
    fn received(&mut self) -> String {
        let output = self.connection.output().to_vec();
        self.connection.flushed(output.len());
        let (mut words, mut rest) = (Vec::new(), &output[..]);
        while let Some(header) = FrameHeader::read(rest) {
            let (payload, after) = rest[frame::HEADER..].split_at(header.length as usize);
            let end = if header.has(END_STREAM) { " end" } else { "" };
            words.push(match header.kind {
                frame::FrameKind::Headers => {
                    assert!(header.has(END_HEADERS));
                    let mut fields = Vec::new();
                    let show = |field: weir_hpack::DecodedField<'_>| {
                        fields.push(format!("{}={}", field.name.escape_ascii(), field.value.escape_ascii()));
                    };
                    assert_eq!(self.decoder.decode(payload, show), Ok(payload.len()));
                    self.decoder.end_block();
                    format!("head {} {}{end}", header.stream, fields.join(" "))
                }
                frame::FrameKind::Data => format!("data {} {}{end}", header.stream, payload.len()),
                frame::FrameKind::Reset => {
                    format!("reset {} {}", header.stream, ErrorCode::from_wire(frame::number(payload)))
                }
                frame::FrameKind::GoAway => {
                    let code = ErrorCode::from_wire(frame::number(&payload[4..]));
                    format!("goaway {} {code}", frame::number(payload))
                }
                frame::FrameKind::WindowUpdate => {
                    format!("window {} {}", header.stream, frame::number(payload))
                }
                frame::FrameKind::Settings => (if header.has(ACK) { "ack" } else { "settings" }).into(),
                frame::FrameKind::Ping => (if header.has(ACK) { "pong" } else { "ping" }).into(),
                other => format!("{other:?}"),
            });
            rest = after;
        }
        words.join(", ")
    }
}

fn response(fields: &[(&[u8], &[u8])]) -> Head {
    let mut head = Head::new();
    head.start_response(Version::HTTP_11, 200, b"OK").expect("room");
    for (name, value) in fields {
        head.add(name, value).expect("room");
    }
    head
}

/// Checks that these frames end the connection with this error; `what` describes them.
#[track_caller]
fn fatal(frames: &[u8], code: ErrorCode, what: &str) {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, false);
    let seen = client.send(frames);
    assert!(seen.ends_with(&format!("failed {code}")), "{what}: {seen}");
    let left = client.received();
    assert!(left.contains("goaway") && left.ends_with(&code.to_string()), "{what}: {left}");
    assert_eq!(
        client.send(&frame(6, 0, 0, b"12345678")),
        format!("failed {code}"),
        "nothing more is looked at"
    );
    assert_eq!(client.received(), "");
}

#[test]
fn a_server_requires_preface_and_settings_first_3_4() {
    let mut client = FrameClient::silent(ConnectionLimits::default());
    assert_eq!(client.received(), "settings");
    assert_eq!(client.send(b"GET / HTTP/1.1\r\n"), "failed PROTOCOL_ERROR");
    let mut client = FrameClient::silent(ConnectionLimits::default());
    client.send(PREFACE);
    assert_eq!(client.send(&frame(6, 0, 0, b"12345678")), "failed PROTOCOL_ERROR");
    assert!(frame::is_preface(b"PRI") && frame::is_preface(&[&PREFACE[..], b"x"].concat()));
    assert!(!frame::is_preface(b"POST") && !frame::is_preface(b"PRI * HTTP/1.1\r\n"));
}

#[test]
fn a_request_and_its_response_pass_the_connection_8_1() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    assert_eq!(client.request(1, true), "request 1 http://h/ end");
    let head = response(&[
        (b"Content-Length", b"5"),
        (b"X-Mine", b"y"),
        (b"Connection", b"close"),
        (b"transfer-encoding", b"chunked"),
    ]);
    assert!(client.connection.send_head(1, &head, &[], false));
    assert_eq!(client.connection.send_data(1, b"hello", true), 5);
    assert_eq!(client.received(), "head 1 :status=200 content-length=5 x-mine=y, data 1 5 end");
    assert_eq!(client.connection.live(), 0);
    assert!(!client.connection.send_head(1, &head, &[], true), "the stream is no more");
}

#[test]
fn requests_in_any_pieces_give_the_same_events() {
    let mut whole = FrameClient::new(ConnectionLimits::default());
    let block = whole.get();
    let trailers = whole.block(&[("x-end", "1"), ("content-length", "9")]);
    let script = [
        frame(1, PADDED | PRIORITY, 1, &[&[3, 0, 0, 0, 0, 9][..], &block[..2], &[0; 3]].concat()),
        frame(9, 0, 1, &block[2..4]),
        frame(9, END_HEADERS, 1, &block[4..]),
        frame(0, PADDED, 1, b"\x02body\0\0"),
        frame(77, 0, 0, b"unknown"),
        frame(1, END_HEADERS | END_STREAM, 1, &trailers),
    ]
    .concat();
    let want = "request 1 http://h/, data 1 body, trailers 1 x-end: 1\\r\\n";
    assert_eq!(whole.send(&script), want);
    for piece in [1, 2, 3, 5, 8, 13] {
        let mut client = FrameClient::new(ConnectionLimits::default());
        client.piece = piece;
        let seen = client.send(&script).replace("data 1 b, data 1 o, data 1 d, data 1 y", "data 1 body");
        let joined = seen.split(", ").filter_map(|word| word.strip_prefix("data 1 ")).collect::<String>();
        assert_eq!(joined, "body", "pieces of {piece}: {seen}");
        assert!(
            seen.starts_with("request 1 http://h/, ") && seen.ends_with("trailers 1 x-end: 1\\r\\n"),
            "{seen}"
        );
    }
}

/// The last stream may end while the head of the next one is being received.
#[test]
fn memory_may_be_released_between_two_pieces_of_a_head() {
    let whole = FrameClient::new(ConnectionLimits::default()).request(1, true);
    let mut probe = FrameClient::new(ConnectionLimits::default());
    let block = probe.get();
    let head = frame(1, END_HEADERS | END_STREAM, 1, &block);
    for cut in 1..head.len() {
        let mut client = FrameClient::new(ConnectionLimits::default());
        client.get();
        assert_eq!(client.send(&head[..cut]), "", "{cut}");
        client.connection.shrink();
        assert_eq!(client.send(&head[cut..]), whole, "{cut}");
    }
}

#[test]
fn rejects_frames_of_invalid_sizes_4_2_and_6() {
    let code = ErrorCode::FrameSize;
    fatal(&frame(0, 0, 1, &[0; 16_385]), code, "larger than what was announced");
    fatal(&frame(4, 0, 0, &[0; 5]), code, "SETTINGS of five bytes");
    fatal(&frame(4, ACK, 0, &[0; 6]), code, "an acknowledgement with entries");
    fatal(&frame(6, 0, 0, &[0; 7]), code, "PING of seven bytes");
    fatal(&frame(3, 0, 1, &[0; 3]), code, "RST_STREAM of three bytes");
    fatal(&frame(8, 0, 0, &[0; 3]), code, "WINDOW_UPDATE of three bytes");
    fatal(&frame(7, 0, 0, &[0; 7]), code, "GOAWAY of seven bytes");
    fatal(&frame(1, PRIORITY, 3, &[0; 4]), code, "HEADERS without room for its priority");
}

#[test]
fn rejects_frames_on_streams_where_they_are_invalid_5_1_and_6() {
    let code = ErrorCode::Protocol;
    fatal(&frame(0, 0, 0, b"x"), code, "DATA on the connection");
    fatal(&frame(0, 0, 3, b"x"), code, "DATA on an idle stream");
    fatal(&frame(0, PADDED, 1, b"\x02x"), code, "more padding than payload");
    fatal(&frame(1, 0, 0, b""), code, "HEADERS on the connection");
    fatal(&frame(1, END_HEADERS, 2, b""), code, "a stream of the server's");
    fatal(&frame(2, 0, 0, &[0; 5]), code, "PRIORITY on the connection");
    fatal(&frame(3, 0, 3, &[0; 4]), code, "RST_STREAM of an idle stream");
    fatal(&frame(4, 0, 1, b""), code, "SETTINGS on a stream");
    fatal(&frame(5, 0, 1, b"1234"), code, "PUSH_PROMISE of a client");
    fatal(&frame(6, 0, 1, &[0; 8]), code, "PING on a stream");
    fatal(&frame(7, 0, 1, &[0; 8]), code, "GOAWAY on a stream");
    fatal(&frame(8, 0, 3, &[0, 0, 0, 1]), code, "WINDOW_UPDATE of an idle stream");
    fatal(&frame(8, 0, 0, &[0; 4]), code, "WINDOW_UPDATE of nothing");
    fatal(&frame(9, 0, 1, b""), code, "CONTINUATION of nothing");
    fatal(&[frame(1, 0, 3, b""), frame(0, 0, 1, b"x")].concat(), code, "something between a block's frames");
    fatal(&[frame(1, 0, 3, b""), frame(9, 0, 1, b"")].concat(), code, "CONTINUATION of another stream");
}

#[test]
fn distinguishes_closed_from_skipped_streams_5_1_1() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    assert_eq!(client.request(5, true), "request 5 http://h/ end");
    assert_eq!(client.request(3, true), "failed PROTOCOL_ERROR");
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, true);
    client.connection.send_head(1, &response(&[]), &[], true);
    client.received();
    assert_eq!(client.send(&frame(0, 0, 1, b"x")), "");
    assert_eq!(client.received(), "reset 1 STREAM_CLOSED");
    assert_eq!(client.request(1, true), "", "this end reset it: the block is decoded and dropped");
    client.request(3, true);
    client.connection.send_head(3, &response(&[]), &[], true);
    assert_eq!(client.request(3, true), "failed STREAM_CLOSED");
    // Half closed: the stream ends, the connection goes on.
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, true);
    assert_eq!(client.send(&frame(0, 0, 1, b"x")), "reset 1 STREAM_CLOSED");
    client.request(3, true);
    assert_eq!(client.request(3, true), "reset 3 STREAM_CLOSED");
    assert_eq!(client.received(), "reset 1 STREAM_CLOSED, reset 3 STREAM_CLOSED");
    // Frames in transit for a stream that this end reset are not an error.
    client.request(5, false);
    assert_eq!(client.received(), "window 0 983041", "the first request with a body");
    client.connection.reset(5, ErrorCode::Cancel);
    assert_eq!(client.send(&[frame(0, 0, 5, b"x"), frame(8, 0, 5, &[0, 0, 0, 1])].concat()), "");
    assert_eq!((client.received(), client.connection.glitches()), ("reset 5 CANCEL".to_owned(), 2));
}

#[test]
fn streams_above_max_concurrent_streams_are_refused_5_1_2() {
    let mut client =
        FrameClient::new(ConnectionLimits { concurrent_streams: 2, ..ConnectionLimits::default() });
    client.request(1, true);
    client.request(3, true);
    assert_eq!(client.request(5, true), "");
    assert_eq!(client.received(), "reset 5 REFUSED_STREAM");
    client.connection.send_head(1, &response(&[]), &[], true);
    assert_eq!(client.request(7, true), "request 7 http://h/ end");
}

#[test]
fn malformed_requests_reset_their_streams_8_1_1() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    let block =
        client.block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("connection", "close")]);
    assert_eq!(client.send(&frame(1, END_HEADERS | END_STREAM, 1, &block)), "");
    // Less, or more, than the announced length.
    for (stream, piece, end) in [(3, &b"1234"[..], true), (5, b"123456", false)] {
        let fields = [(":method", "PUT"), (":scheme", "http"), (":path", "/"), ("content-length", "5")];
        let block = client.block(&fields);
        assert_eq!(client.send(&frame(1, END_HEADERS, stream, &block)), format!("request {stream} /"));
        let seen = client.send(&frame(0, u8::from(end), stream, piece));
        assert_eq!(seen, format!("reset {stream} PROTOCOL_ERROR"));
    }
    // Trailers that do not end the stream, and trailers with a pseudo-header field.
    for (stream, flags, fields) in [(7, 0, [("x", "y")]), (9, END_STREAM, [(":path", "/")])] {
        client.request(stream, false);
        let block = client.block(&fields);
        let seen = client.send(&frame(1, END_HEADERS | flags, stream, &block));
        assert_eq!(seen, format!("reset {stream} PROTOCOL_ERROR"));
    }
    // A stream that depends on itself (RFC 7540, 5.3.1).
    let block = [&[0, 0, 0, 11, 9][..], &client.get()].concat();
    assert_eq!(client.send(&frame(1, END_HEADERS | PRIORITY, 11, &block)), "");
    let want: Vec<_> = (1..=11).step_by(2).map(|stream| format!("reset {stream} PROTOCOL_ERROR")).collect();
    assert_eq!(client.received().replace("window 0 983041, ", ""), want.join(", "));
    assert_eq!(client.request(13, true), "request 13 http://h/ end", "the tables agree still");
}

#[test]
fn sent_data_respects_the_flow_control_windows_5_2_and_6_9() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 10]));
    client.request(1, true);
    client.connection.send_head(1, &response(&[]), &[], false);
    client.received();
    assert_eq!(client.connection.send_data(1, &[0; 20], true), 10);
    assert_eq!(client.received(), "data 1 10");
    assert_eq!((client.connection.send_data(1, &[0; 10], true), client.connection.sendable(1)), (0, Some(0)));
    assert_eq!(client.send(&frame(8, 0, 1, &[0, 0, 0, 4])), "window 1");
    assert_eq!(client.connection.send_data(1, &[0; 10], true), 4);
    // A smaller initial window makes this one negative.
    assert_eq!(client.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 4])), "");
    assert_eq!(client.send(&frame(8, 0, 1, &[0, 0, 0, 6])), "window 1");
    assert_eq!(client.connection.sendable(1), Some(0));
    assert_eq!(client.send(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 10])), "window 0");
    assert_eq!(client.connection.send_data(1, &[0; 6], true), 6);
    assert_eq!(client.received(), "data 1 4, ack, ack, data 1 6 end");
}

#[test]
fn rejects_windows_above_the_maximum_size_6_9_1() {
    let most = 0x7fff_ffffu32.to_be_bytes();
    fatal(&frame(8, 0, 0, &most), ErrorCode::FlowControl, "the connection's");
    let entry = [&[0, 4][..], &0x8000_0000u32.to_be_bytes()].concat();
    fatal(&frame(4, 0, 0, &entry), ErrorCode::FlowControl, "the initial one");
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, false);
    assert_eq!(client.send(&frame(8, 0, 1, &most)), "reset 1 FLOW_CONTROL_ERROR");
    for value in [16_383u32, 1 << 24] {
        fatal(
            &frame(4, 0, 0, &[&[0, 5][..], &value.to_be_bytes()].concat()),
            ErrorCode::Protocol,
            "a frame's size",
        );
    }
    fatal(&frame(4, 0, 0, &[0, 2, 0, 0, 0, 2]), ErrorCode::Protocol, "push");
}

#[test]
fn received_data_fits_the_windows_and_consumption_reopens_them() {
    let limits =
        ConnectionLimits { stream_window: 100, connection_window: 65_535, ..ConnectionLimits::default() };
    let mut client = FrameClient::new(limits);
    client.request(1, false);
    client.send(&frame(0, 0, 1, &[b'x'; 100]));
    assert_eq!(client.received(), "", "nobody took anything");
    client.connection.consumed(1, 60);
    assert_eq!(client.received(), "window 1 60");
    client.send(&frame(0, 0, 1, &[b'x'; 60]));
    assert_eq!(client.send(&frame(0, 0, 1, b"x")), "reset 1 FLOW_CONTROL_ERROR");
    // The end of a body has one update, when all of it is consumed.
    let mut client = FrameClient::new(limits);
    client.request(1, false);
    client.send(&frame(0, END_STREAM, 1, b"small"));
    client.connection.consumed(1, 5);
    client.request(3, false);
    client.send(&frame(0, END_STREAM, 3, b"small"));
    client.connection.consumed(3, 3);
    assert_eq!(client.received(), "window 1 5");
    client.connection.consumed(3, 2);
    assert_eq!(client.received(), "window 3 5");
    client.request(5, false);
    client.send(&frame(0, 0, 5, &[b'x'; 20]));
    client.connection.consumed(5, 20);
    client.send(&frame(0, END_STREAM, 5, &[b'x'; 10]));
    assert_eq!(client.received(), "");
    client.connection.consumed(5, 10);
    assert_eq!(client.received(), "window 5 30");
    // Bytes of a closed stream are given back to the connection's window.
    let mut client =
        FrameClient::new(ConnectionLimits { stream_window: 65_535, connection_window: 65_535, ..limits });
    client.request(1, false);
    client.connection.reset(1, ErrorCode::Cancel);
    client.received();
    for _ in 0..3 {
        client.send(&frame(0, 0, 1, &[b'x'; 16_384]));
    }
    assert_eq!(client.received(), "window 0 32768");
    // Sending more than the connection's window ends the connection.
    client.request(3, false);
    for _ in 0..2 {
        client.send(&frame(0, 0, 3, &[b'x'; 16_384]));
    }
    assert_eq!(client.send(&frame(0, 0, 3, &[b'x'; 16_384])), "failed FLOW_CONTROL_ERROR");
}

#[test]
fn ping_and_settings_frames_are_acknowledged_6_5_and_6_7() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.send(
        &[frame(6, 0, 0, b"12345678"), frame(4, 0, 0, &[]), frame(4, 0, 0, &[0, 1, 0, 0, 0, 0])].concat(),
    );
    assert_eq!(client.received(), "pong, ack, ack");
    client.send(&frame(6, ACK, 0, b"12345678"));
    assert_eq!(client.received(), "");
}

#[test]
fn a_server_leaves_with_two_goaway_frames_6_8() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, true);
    client.connection.leave();
    assert_eq!(client.received(), "goaway 2147483647 NO_ERROR, ping");
    assert_eq!(client.request(3, true), "request 3 http://h/ end", "it did not know");
    client.send(&frame(6, ACK, 0, &FAREWELL));
    assert_eq!(client.received(), "goaway 3 NO_ERROR");
    assert_eq!(client.request(5, true), "");
    assert_eq!(client.received(), "reset 5 REFUSED_STREAM");
    for stream in [1, 3] {
        assert!(!client.connection.is_over());
        client.connection.send_head(stream, &response(&[]), &[], true);
    }
    assert!(client.connection.is_over() && client.connection.failure().is_none());
    // The total limit starts a graceful shutdown; more new streams than can be in transit are an error.
    let mut client = FrameClient::new(ConnectionLimits {
        total_streams: 2,
        concurrent_streams: 1,
        ..ConnectionLimits::default()
    });
    for stream in [1, 3, 5, 7] {
        let seen = client.request(stream, true);
        client.connection.send_head(stream, &response(&[]), &[], true);
        assert_eq!(seen == "failed ENHANCE_YOUR_CALM", stream == 7, "{stream}: {seen}");
    }
}

#[test]
fn a_client_that_sent_goaway_still_gets_its_responses() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, true);
    client.send(&frame(7, 0, 0, b"\0\0\0\0\0\0\0\0why"));
    assert!(!client.connection.is_over());
    client.connection.send_head(1, &response(&[]), &[], true);
    assert!(client.connection.is_over());
}

#[test]
fn trailers_and_interim_responses_are_sent_8_1() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, true);
    let mut interim = Head::new();
    interim.start_response(Version::HTTP_11, 103, b"Early Hints").expect("room");
    client.connection.send_head(1, &interim, &[], false);
    client.connection.send_head(1, &response(&[]), &[], false);
    client.connection.send_data(1, b"x", false);
    client.connection.send_trailers(1, b"X-End: 1\r\n");
    assert_eq!(client.received(), "head 1 :status=103, head 1 :status=200, data 1 1, head 1 x-end=1 end");
}

#[test]
fn a_large_head_is_refused_and_an_hpack_bomb_uses_limited_memory() {
    let mut client = FrameClient::new(ConnectionLimits { max_head: 400, ..ConnectionLimits::default() });
    let long = "x".repeat(500);
    let fields = [(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", long.as_str())];
    let block = client.block(&fields);
    assert_eq!(client.send(&frame(1, END_HEADERS | END_STREAM, 1, &block)), "too large 1");
    assert_eq!(client.request(3, true), "request 3 http://h/ end", "the tables agree still");
    // References to one large field: the bomb of HPACK.
    let mut client = FrameClient::new(ConnectionLimits::default());
    let large = "x".repeat(4000);
    let mut block =
        client.block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("x", large.as_str())]);
    block.extend([0xbe; 10_000]);
    assert_eq!(client.send(&frame(1, END_HEADERS | END_STREAM, 1, &block)), "too large 1");
    let builder = client.connection.builder.as_ref().expect("a head was built");
    assert!(builder.request.bytes.len() <= 15_360);
}

/// Sends up to `most` of these frames; returns how many were accepted before ENHANCE_YOUR_CALM, which has to come.
#[track_caller]
fn flood(
    mut client: FrameClient,
    most: usize,
    mut frames: impl FnMut(&mut FrameClient, u32) -> Vec<u8>,
) -> usize {
    for number in 0..most {
        let bytes = frames(&mut client, number as u32);
        if client.send(&bytes).ends_with("failed ENHANCE_YOUR_CALM") {
            return number;
        }
        client.received();
    }
    panic!("{most} frames were taken");
}

#[test]
fn frame_floods_end_the_connection() {
    // The clock has run for an hour: time before the connection earns no tokens.
    let new = || FrameClient::of_time(ConnectionLimits::default(), 3_600_000);
    for (kind, stream, payload) in [(6, 0, &[0u8; 8][..]), (4, 0, b""), (2, 1, &[0; 5]), (99, 0, b"x")] {
        let taken = flood(new(), 20_000, |_, _| frame(kind, 0, stream, payload));
        assert!((5_000..=10_000).contains(&taken), "{kind}: {taken}");
    }
    let mut client = new();
    client.request(1, false);
    flood(client, 20_000, |_, _| frame(0, 0, 1, b""));
    // Rapid reset, by the peer and by making this end do it.
    let rapid = |client: &mut FrameClient, number: u32| {
        let block = client.get();
        [
            frame(1, END_HEADERS | END_STREAM, 2 * number + 1, &block),
            frame(3, 0, 2 * number + 1, &[0, 0, 0, 8]),
        ]
        .concat()
    };
    let taken = flood(new(), 3_000, rapid);
    assert!((500..=1_100).contains(&taken), "{taken}");
    flood(new(), 3_000, |client, number| {
        let block = client.get();
        let stream = 2 * number + 1;
        [frame(1, END_HEADERS | END_STREAM, stream, &block), frame(8, 0, stream, &[0; 4])].concat()
    });
    // A header block without an end.
    let taken = flood(new(), 100, |_, number| frame(if number == 0 { 1 } else { 9 }, 0, 1, b""));
    assert!(taken <= 40, "{taken}");
    flood(new(), 100, |_, number| frame(if number == 0 { 1 } else { 9 }, 0, 1, &[0x82; 16_000]));
    // The same number over a longer time is accepted.
    let mut client = new();
    for number in 0..3_000 {
        client.now_ms += 10;
        let bytes = rapid(&mut client, number);
        assert_eq!(
            client.send(&bytes),
            format!("request {0} http://h/ end, reset {0} CANCEL", 2 * number + 1)
        );
    }
}

#[test]
fn the_glitch_limit_ends_the_connection() {
    let mut client = FrameClient::new(ConnectionLimits { glitches: 3, ..ConnectionLimits::default() });
    for stream in [1, 3] {
        let block = client.block(&[(":method", "GET")]);
        assert_eq!(client.send(&frame(1, END_HEADERS, stream, &block)), "");
    }
    assert_eq!(client.connection.glitches(), 2);
    let block = client.block(&[(":method", "GET")]);
    assert_eq!(client.send(&frame(1, END_HEADERS, 5, &block)), "failed ENHANCE_YOUR_CALM");
}

#[test]
fn partially_sent_output_keeps_memory_only_for_unsent_bytes() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    client.request(1, true);
    client.send(&frame(8, 0, 0, &0x7000_0000u32.to_be_bytes()));
    client.send(&frame(8, 0, 1, &0x7000_0000u32.to_be_bytes()));
    let mut sent = Vec::new();
    let piece: Vec<u8> = (0..30_000u32).map(|byte| byte as u8).collect();
    for _ in 0..100 {
        assert_eq!(client.connection.send_data(1, &piece, false), piece.len());
        while client.connection.output().len() > 10_000 {
            sent.extend_from_slice(&client.connection.output()[..7_000]);
            client.connection.flushed(7_000);
        }
    }
    assert!(client.connection.output.capacity() < 200_000, "{}", client.connection.output.capacity());
    sent.extend_from_slice(client.connection.output());
    let payload: Vec<u8> = frames_of(&sent).into_iter().flat_map(|(_, payload)| payload).collect();
    assert!(payload == piece.repeat(100));
}

/// The frames of these bytes: their kind and payload.
fn frames_of(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while bytes.len() >= 9 {
        let length = usize::from(bytes[0]) << 16 | usize::from(bytes[1]) << 8 | usize::from(bytes[2]);
        frames.push((bytes[3], bytes[9..9 + length].to_vec()));
        bytes = &bytes[9 + length..];
    }
    frames
}

#[test]
fn counts_tolerated_and_fatal_errors_as_glitches() {
    let mut client =
        FrameClient::new(ConnectionLimits { max_head: 100, glitches: 4, ..ConnectionLimits::default() });
    client.request(1, false);
    // SETTINGS_INITIAL_WINDOW_SIZE: larger, which is not a glitch, and smaller.
    for (size, expected) in [(100_000u32, 0), (65_535, 1)] {
        client.send(&frame(4, 0, 0, &[&[0, 4][..], &size.to_be_bytes()].concat()));
        assert_eq!(client.connection.glitches(), expected, "{size}");
    }
    let long = "x".repeat(101);
    let block = client.block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("long", &long)]);
    assert_eq!(client.send(&frame(1, END_HEADERS | END_STREAM, 3, &block)), "too large 3");
    // Answering with 400 counts no glitch.
    let block = client.block(&[(":method", "GET"), (":scheme", "1x"), (":path", "/")]);
    client.send(&frame(1, END_HEADERS | END_STREAM, 5, &block));
    assert_eq!(client.connection.glitches(), 2);
    client.connection.tolerate();
    assert_eq!(client.connection.failure(), None);
    assert_eq!(client.send(&frame(8, 0, 0, &[0; 4])), "failed PROTOCOL_ERROR");
    assert_eq!(client.connection.glitches(), 4);
    let mut client = FrameClient::new(ConnectionLimits { glitches: 1, ..ConnectionLimits::default() });
    client.connection.tolerate();
    assert_eq!(client.connection.failure(), Some(ErrorCode::EnhanceYourCalm));
}

proptest::proptest! {
    /// Any frames, valid or not: no panic, no event of a stream that is not live, no more memory than the bounds allow.
    #[test]
    fn arbitrary_frames_never_panic_or_exceed_memory_limits(frames in proptest::collection::vec((0u8..11, proptest::prelude::any::<u8>(), 0u32..8, proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40)), 0..60), piece in 1usize..50) {
        let mut client = FrameClient::new(ConnectionLimits { max_head: 200, ..ConnectionLimits::default() });
        client.piece = piece;
        client.request(1, false);
        for (kind, flags, stream, payload) in frames {
            if client.send(&frame(kind, flags, stream, &payload)).contains("failed") {
                assert!(client.connection.is_over());
                break;
            }
            assert!(client.connection.rest.len() <= 400 && client.connection.live() <= 5);
        }
    }
}

#[test]
fn borrowed_payload_gives_the_same_data_frames_as_copied_payload() {
    let payload: Vec<u8> = (0..40_000_u32).map(|at| (at / 7) as u8).collect();
    let opened = || {
        let mut client = FrameClient::new(ConnectionLimits::default());
        client.send(&frame(8, 0, 0, &1_000_000_u32.to_be_bytes()));
        client.request(1, true);
        client.send(&frame(8, 0, 1, &1_000_000_u32.to_be_bytes()));
        client.send(&frame(6, 0, 0, b"question"));
        assert!(!client.connection.output().is_empty(), "something waits in front of it");
        client.connection
    };
    for (count, end) in [(40_000, true), (40_000, false), (100, true), (16_384, true), (0, true), (0, false)]
    {
        let mut copied = opened();
        let taken = copied.send_data(1, &payload[..count], end);
        let whole = copied.output().to_vec();
        for left in [0, 1, 9, 30, 58, 60, 16_400, 16_500, whole.len() / 2, whole.len() - 1, whole.len()] {
            let (mut connection, mut wire) = (opened(), Vec::new());
            let direct = connection.send_data_through(1, &payload[..count], end, |slices| {
                wire = slices.iter().flat_map(|slice| slice.to_vec()).take(left).collect();
                wire.len()
            });
            wire.extend_from_slice(connection.output());
            assert!((direct, &wire) == (taken, &whole), "{count} bytes, of which {left} left");
            assert_eq!(connection.sendable(1), copied.sendable(1), "{count} bytes, end {end}");
        }
    }
    let mut connection = opened();
    let long = vec![1; 100_000];
    assert_eq!(
        connection.send_data_through(1, &long, true, |_| 0),
        4 * 16_384,
        "no more than a few frames at once"
    );
    assert!(connection.sendable(1).is_some(), "it goes on");
}
