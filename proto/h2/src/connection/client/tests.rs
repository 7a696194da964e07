//! RFC 9113 from the client's end: received frames and their events.

use weir_hpack::{Encoder, Indexing, Token};
use weir_http::Version;

use super::*;
use crate::frame::{ACK, END_HEADERS, END_STREAM};
use crate::received::ReceivedHead;

/// A connection to a server; the test writes the server's frames one by one.
struct ClientWire {
    connection: Connection,
    encoder: Encoder,
    now_ms: u64,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_header(&mut bytes, payload.len(), kind, flags, stream);
    bytes.extend_from_slice(payload);
    bytes
}

fn request(method: &[u8], target: &[u8], fields: &[(&[u8], &[u8])]) -> Head {
    let mut head = Head::new();
    head.start_request(method, target, Version::HTTP_11).expect("room");
    for (name, value) in fields {
        head.add(name, value).expect("room");
    }
    head
}

impl ClientWire {
    /// The server's settings came.
    fn new(limits: ConnectionLimits) -> ClientWire {
        let mut wire =
            ClientWire { connection: Connection::client(limits), encoder: Encoder::new(4096), now_ms: 0 };
        wire.send(&frame(4, 0, 0, &[]));
        let sent = wire.connection.output().len();
        wire.connection.flushed(sent);
        wire
    }

    fn open(&mut self, method: &[u8], end: bool) -> Option<u32> {
        self.connection.open(&request(method, b"/", &[(b"host", b"h")]), b"", b"http", true, end)
    }

    fn head(&mut self, stream: u32, fields: &[(&str, &str)], flags: u8) -> Vec<u8> {
        let mut block = Vec::new();
        self.encoder.begin_block(&mut block);
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            self.encoder.field(&mut block, Token::of(name), name, value, Indexing::Kept);
        }
        frame(1, END_HEADERS | flags, stream, &block)
    }

    fn ok(&mut self, stream: u32, flags: u8) -> Vec<u8> {
        self.head(stream, &[(":status", "200")], flags)
    }

    /// Sends these bytes; returns the events in words.
    fn send(&mut self, bytes: &[u8]) -> String {
        let (mut rest, mut words) = (bytes, Vec::new());
        loop {
            let (used, event) = self.connection.advance(rest, self.now_ms);
            words.push(match event {
                ConnectionEvent::More => return words.join(", "),
                ConnectionEvent::Failed(code) => {
                    words.push(format!("failed {code}"));
                    return words.join(", ");
                }
                ConnectionEvent::Response { stream, end } => {
                    let mut head = ReceivedHead::default();
                    self.connection.take_head(&mut head);
                    match head.fault {
                        None => {
                            format!("{} {stream}{}", head.head.status(), if end { " end" } else { "" })
                        }
                        Some(fault) => format!("{fault:?} {stream}"),
                    }
                }
                ConnectionEvent::Data { stream, bytes, end } => {
                    format!("data {stream} {}{}", bytes.len(), if end { " end" } else { "" })
                }
                other => format!("{other:?}"),
            });
            rest = &rest[used..];
        }
    }
}

#[test]
fn an_h2_client_starts_with_preface_and_settings_3_4() {
    let limits = ConnectionLimits { connection_window: 100_000, ..ConnectionLimits::default() };
    let connection = Connection::client(limits);
    let output = connection.output();
    assert!(output.starts_with(PREFACE));
    let no_push = [0, 2, 0, 0, 0, 0];
    assert!(output.windows(6).any(|entry| entry == no_push), "{output:?}");
    let window = frame(8, 0, 0, &(100_000u32 - 65_535).to_be_bytes());
    let widened =
        |wire: &ClientWire| wire.connection.output().windows(window.len()).any(|frame| frame == window);
    assert!(!output.windows(window.len()).any(|frame| frame == window));
    let mut wire = ClientWire::new(limits);
    let head = request(b"GET", b"/", &[(b"host", b"h")]);
    assert_eq!(wire.connection.open(&head, b"", b"http", true, true), Some(1));
    let bodyless = wire.ok(1, END_STREAM);
    wire.send(&bodyless);
    assert!(!widened(&wire));
    assert_eq!(wire.connection.open(&head, b"", b"http", true, true), Some(3));
    let with_body = wire.ok(3, 0);
    wire.send(&with_body);
    assert!(widened(&wire));
    // A server begins with its own.
    let mut connection = Connection::client(ConnectionLimits::default());
    let (_, event) = connection.advance(&frame(6, 0, 0, &[0; 8]), 0);
    assert_eq!(event, ConnectionEvent::Failed(ErrorCode::Protocol));
}

/// The increments of a stream's window that are in the output, which has left then.
fn widened(connection: &mut Connection, stream: u32) -> Vec<u32> {
    let output = connection.output().to_vec();
    connection.flushed(output.len());
    let (mut found, mut rest) = (Vec::new(), output.strip_prefix(PREFACE).unwrap_or(&output));
    while let Some(header) = frame::FrameHeader::read(rest) {
        let payload = &rest[frame::HEADER..][..header.length as usize];
        if header.kind == frame::FrameKind::WindowUpdate && header.stream == stream {
            found.push(frame::number(payload));
        }
        rest = &rest[frame::HEADER + payload.len()..];
    }
    found
}

#[test]
fn windows_of_large_responses_grow_and_later_streams_start_with_wide_ones() {
    for (round_trip_ms, grows) in [(100, true), (0, false)] {
        let mut wire = ClientWire {
            connection: Connection::client(ConnectionLimits::default()),
            encoder: Encoder::new(4096),
            now_ms: 0,
        };
        let most = (1 << 20) / 8 * 7 - 65_535;
        let wide = if grows { vec![most] } else { vec![] };
        wire.connection.allow_growth(u32::MAX, 1000);
        assert_eq!(wire.open(b"GET", true), Some(1));
        wire.now_ms = 1000 + round_trip_ms;
        wire.send(&[frame(4, 0, 0, &[]), frame(4, ACK, 0, &[])].concat());
        assert_eq!(wire.open(b"GET", true), Some(3));
        assert_eq!(widened(&mut wire.connection, 3), [], "no body was large");
        let head = wire.ok(1, 0);
        wire.send(&head);
        wire.send(&frame(0, 0, 1, &[b'x'; 16_384]));
        assert_eq!(widened(&mut wire.connection, 1), [], "it could end here");
        wire.connection.reset(3, ErrorCode::Cancel);
        wire.send(&frame(0, 0, 1, &[b'x'; 16_384]));
        assert_eq!(widened(&mut wire.connection, 1), wide);
        wire.connection.reset(1, ErrorCode::Cancel);
        assert_eq!(wire.open(b"GET", true), Some(5));
        assert_eq!(widened(&mut wire.connection, 5), wide);
        let head = wire.ok(5, 0);
        wire.send(&head);
        wire.send(&frame(0, 0, 5, &[b'x'; 16_384]));
        wire.send(&frame(0, 0, 5, &[b'x'; 16_384]));
        assert_eq!(widened(&mut wire.connection, 5), [], "it is wide already");
    }
}

/// Encodes a request and checks the head that our server decodes.
#[track_caller]
fn check(head: &Head, want: &str) {
    let mut client = Connection::client(ConnectionLimits::default());
    assert_eq!(client.open(head, b"", b"http", true, true), Some(1));
    let mut server = Connection::server(ConnectionLimits::default());
    let (mut rest, mut taken) = (client.output(), ReceivedHead::default());
    loop {
        match server.advance(rest, 0) {
            (_, ConnectionEvent::Request { stream: 1, end: true }) => break server.take_head(&mut taken),
            (0, event) => panic!("{event:?}"),
            (used, _) => rest = &rest[used..],
        }
    }
    assert_eq!(String::from_utf8_lossy(&taken.bytes).replace("\r\n", "|"), want);
}

#[test]
fn an_http_1_request_head_becomes_h2_pseudo_fields_8_3_1() {
    let get = |target: &[u8], fields: &[(&[u8], &[u8])]| request(b"GET", target, fields);
    check(&get(b"/a?b", &[(b"Host", b"h:81")]), "GET http://h:81/a?b HTTP/2.0|host: h:81||");
    check(&get(b"https://x/", &[(b"Host", b"h")]), "GET https://h/ HTTP/2.0|host: h||");
    check(&get(b"http://x", &[]), "GET http://x/ HTTP/2.0|host: x||");
    check(&request(b"OPTIONS", b"*", &[]), "OPTIONS * HTTP/2.0||");
    check(&request(b"CONNECT", b"h:443", &[(b"Host", b"x")]), "CONNECT h:443 HTTP/2.0|host: h:443||");
    // Connection-specific fields are left out (8.2.2).
    let fields: [(&[u8], &[u8]); 8] = [
        (b"Host", b"h"),
        (b"Keep-Alive", b"5"),
        (b"Upgrade", b"x"),
        (b"Proxy-Connection", b"x"),
        (b"HTTP2-Settings", b"x"),
        (b"Transfer-Encoding", b"chunked"),
        (b"X-Mixed", b"Y"),
        (b"Cookie", b"a=b"),
    ];
    check(&get(b"/", &fields), "GET http://h/ HTTP/2.0|host: h|x-mixed: Y|cookie: a=b||");
}

#[test]
fn a_websocket_upgrade_becomes_an_extended_connect_rfc_8441() {
    let mut wire = ClientWire::new(ConnectionLimits::default());
    let mut head = request(
        b"GET",
        b"/chat",
        &[
            (b"host", b"h"),
            (b"connection", b"upgrade"),
            (b"upgrade", b"websocket"),
            (b"sec-websocket-key", b"x"),
        ],
    );
    let upgrade = weir_http::HeadFlags::CONNECTION_UPGRADE | weir_http::HeadFlags::HAS_UPGRADE;
    head.note(upgrade | weir_http::HeadFlags::UPGRADE_WEBSOCKET);
    assert_eq!(wire.connection.open(&head, b"", b"https", true, false), Some(1));
    let mut fields = Vec::new();
    let block = wire.connection.output()[frame::HEADER..].to_vec();
    let show = |field: weir_hpack::DecodedField<'_>| {
        fields.push(format!("{}={}", field.name.escape_ascii(), field.value.escape_ascii()))
    };
    assert_eq!(weir_hpack::Decoder::new(4096, 4096).decode(&block, show), Ok(block.len()));
    assert_eq!(
        fields.join(" "),
        ":method=CONNECT :protocol=websocket :scheme=https :path=/chat :authority=h"
    );
    let bytes = [wire.ok(1, 0), frame(0, 0, 1, b"abc")].concat();
    assert_eq!(wire.send(&bytes), "101 1, data 1 3");
}

#[test]
fn interim_heads_data_and_trailers_of_a_response_arrive_in_order_8_1() {
    let mut wire = ClientWire::new(ConnectionLimits::default());
    assert_eq!((wire.open(b"GET", true), wire.open(b"HEAD", true)), (Some(1), Some(3)));
    let bytes =
        [wire.head(1, &[(":status", "103")], 0), wire.ok(1, 0), frame(0, END_STREAM, 1, b"abc")].concat();
    assert_eq!(wire.send(&bytes), "103 1, 200 1, data 1 3 end");
    let bytes = wire.head(3, &[(":status", "200"), ("content-length", "9")], END_STREAM);
    assert_eq!(wire.send(&bytes), "200 3 end");
    assert_eq!(wire.connection.live(), 0);
    let trailers = |wire: &mut ClientWire, flags| wire.head(5, &[("x-end", "1")], flags);
    assert_eq!(wire.open(b"GET", true), Some(5));
    let bytes = [wire.ok(5, 0), trailers(&mut wire, END_STREAM)].concat();
    assert_eq!(wire.send(&bytes), "200 5, Trailers { stream: 5 }");
    assert_eq!(wire.connection.trailers(), b"x-end: 1\r\n");
}

#[test]
fn invalid_server_frames_reset_the_stream_or_the_connection() {
    let reset = |code: &str| format!("Reset {{ stream: 1, code: {code}, received: None }}");
    type Script = fn(&mut ClientWire) -> Vec<u8>;
    let cases: [(&str, Script, String); 15] = [
        ("data before a head", |_| frame(0, 0, 1, b"x"), reset("Protocol")),
        ("an interim end", |wire| wire.head(1, &[(":status", "103")], END_STREAM), "Malformed 1".into()),
        ("a switch", |wire| wire.head(1, &[(":status", "101")], 0), "Malformed 1".into()),
        ("no status", |wire| wire.head(1, &[("a", "b")], END_STREAM), "Malformed 1".into()),
        (
            "a second head",
            |wire| [wire.ok(1, 0), wire.ok(1, 0)].concat(),
            format!("200 1, {}", reset("Protocol")),
        ),
        (
            "more than was announced",
            |wire| {
                [wire.head(1, &[(":status", "200"), ("content-length", "1")], 0), frame(0, 0, 1, b"xy")]
                    .concat()
            },
            format!("200 1, {}", reset("Protocol")),
        ),
        (
            "less than was announced",
            |wire| {
                let head = wire.head(1, &[(":status", "200"), ("content-length", "3")], 0);
                [head, frame(0, END_STREAM, 1, b"xy")].concat()
            },
            format!("200 1, {}", reset("Protocol")),
        ),
        (
            "a body where there is none",
            |wire| [wire.head(1, &[(":status", "204")], 0), frame(0, 0, 1, b"x")].concat(),
            format!("200 1, {}", reset("Protocol")).replace("200", "204"),
        ),
        ("a push", |_| frame(5, END_HEADERS, 1, &[0, 0, 0, 2]), "failed PROTOCOL_ERROR".into()),
        ("a stream of its own", |wire| wire.ok(2, 0), "failed PROTOCOL_ERROR".into()),
        ("a stream that nobody opened", |wire| wire.ok(3, 0), "failed PROTOCOL_ERROR".into()),
        ("data of its own", |_| frame(0, 0, 2, b"x"), "failed PROTOCOL_ERROR".into()),
        ("a window of nobody", |_| frame(8, 0, 7, &[0, 0, 0, 1]), "failed PROTOCOL_ERROR".into()),
        ("push enabled", |_| frame(4, 0, 0, &[0, 2, 0, 0, 0, 1]), "failed PROTOCOL_ERROR".into()),
        ("a head that is none", |_| frame(1, END_HEADERS, 1, &[0x80]), "failed COMPRESSION_ERROR".into()),
    ];
    for (what, script, want) in cases {
        let mut wire = ClientWire::new(ConnectionLimits::default());
        wire.open(b"GET", true);
        let bytes = script(&mut wire);
        assert_eq!(wire.send(&bytes), want, "{what}");
    }
}

#[test]
fn frames_for_recently_reset_streams_are_tolerated() {
    let mut wire = ClientWire::new(ConnectionLimits::default());
    for _ in 0..100 {
        let stream = wire.open(b"GET", true).expect("one is free");
        wire.connection.reset(stream, ErrorCode::Cancel);
    }
    // The same for a stream that was forgotten.
    let bytes = [wire.ok(1, 0), frame(0, END_STREAM, 1, b"abc"), frame(3, 0, 3, &[0; 4])].concat();
    assert_eq!(wire.send(&bytes), "");
}

#[test]
fn a_client_respects_max_concurrent_streams_5_1_2() {
    let mut wire = ClientWire::new(ConnectionLimits { concurrent_streams: 3, ..ConnectionLimits::default() });
    assert_eq!(wire.connection.stream_limit(), 3);
    wire.send(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 2]));
    assert_eq!([1, 3, 5].map(|_| wire.open(b"GET", true)), [Some(1), Some(3), None]);
    // The server lowers its limit: live streams go on.
    wire.send(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 0]));
    let bytes = [wire.ok(1, END_STREAM), wire.ok(3, END_STREAM)].concat();
    assert_eq!(wire.send(&bytes), "200 1 end, 200 3 end");
    assert_eq!((wire.open(b"GET", true), wire.connection.stream_limit()), (None, 0));
    wire.send(&frame(4, 0, 0, &[0, 3, 0, 0, 0, 9, 0, 8, 0, 0, 0, 1]));
    assert!(wire.connection.takes_extended_connect());
    assert_eq!(wire.open(b"GET", true), Some(5));
    // An announced extended CONNECT cannot be withdrawn (RFC 8441, 3).
    assert_eq!(wire.send(&frame(4, 0, 0, &[0, 8, 0, 0, 0, 0])), "failed PROTOCOL_ERROR");
}

#[test]
fn goaway_of_a_server_drops_later_streams_and_prevents_new_ones_6_8() {
    let mut wire = ClientWire::new(ConnectionLimits::default());
    assert_eq!([1, 3, 5].map(|_| wire.open(b"GET", true)), [Some(1), Some(3), Some(5)]);
    let seen = wire.send(&frame(7, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]));
    assert_eq!(seen, "GoAway { last: 3, code: NoError }");
    assert_eq!((wire.connection.live(), wire.open(b"GET", true)), (2, None));
    assert!(wire.connection.is_closing() && !wire.connection.is_over());
    let bytes = [wire.ok(1, END_STREAM), wire.ok(5, END_STREAM), wire.ok(3, END_STREAM)].concat();
    assert_eq!(wire.send(&bytes), "200 1 end, 200 3 end");
    assert!(wire.connection.is_over());
}

#[test]
fn a_leaving_client_sends_one_goaway_and_finishes_its_streams() {
    let mut wire = ClientWire::new(ConnectionLimits::default());
    wire.open(b"GET", true);
    let sent = wire.connection.output().len();
    wire.connection.flushed(sent);
    wire.connection.ping();
    wire.connection.leave();
    let farewell = [frame(6, 0, 0, b"presence"), frame(7, 0, 0, &[0; 8])].concat();
    assert_eq!(wire.connection.output(), farewell);
    assert_eq!(wire.send(&frame(6, ACK, 0, b"presence")), "");
    assert!(!wire.connection.is_over());
    let bytes = wire.ok(1, END_STREAM);
    wire.send(&bytes);
    assert!(wire.connection.is_over());
}

#[test]
fn an_early_response_with_reset_ends_the_request_body_8_1() {
    let mut wire = ClientWire::new(ConnectionLimits::default());
    wire.open(b"POST", false);
    let bytes = [wire.ok(1, END_STREAM), frame(3, 0, 1, &[0; 4])].concat();
    assert_eq!(wire.send(&bytes), "200 1 end, Reset { stream: 1, code: NoError, received: Some(0) }");
    assert_eq!(wire.connection.sendable(1), None);
}
