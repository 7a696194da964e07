//! Streams that were answered before their requests ended (RFC 9113, 8.1).

use super::*;

/// Opens a request without an end that was answered completely; its body is not read any more.
fn answered_early(client: &mut FrameClient, stream: u32, fields: &[(&str, &str)]) {
    let pseudo = [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "h")];
    let block = client.block(&[&pseudo[..], fields].concat());
    client.send(&frame(1, END_HEADERS, stream, &block));
    client.connection.send_head(stream, &response(&[]), b"", true);
    client.connection.reset(stream, ErrorCode::NoError);
    let received = client.received();
    assert!(!received.contains("reset"), "{received}");
}

#[test]
fn frames_of_early_answered_requests_are_still_validated_8_1() {
    let length = [("content-length", "3")];
    for (frames, want) in [
        (vec![frame(0, END_STREAM, 1, b"abc")], ""),
        (vec![frame(0, END_STREAM, 1, b"ab")], "reset 1 PROTOCOL_ERROR"),
        (vec![frame(0, 0, 1, b"abcd")], "reset 1 PROTOCOL_ERROR"),
        (vec![frame(0, 0, 1, b"ab")], "reset 1 NO_ERROR"),
        (vec![frame(8, 0, 1, &[0, 0, 0, 0])], "reset 1 PROTOCOL_ERROR"),
        (vec![frame(8, 0, 1, &[0x7f, 255, 255, 255])], "reset 1 FLOW_CONTROL_ERROR"),
        (vec![frame(3, 0, 1, &[0, 0, 0, 8])], ""),
    ] {
        let mut client = FrameClient::new(ConnectionLimits::default());
        answered_early(&mut client, 1, &length);
        client.send(&frames.concat());
        let received = client.received();
        let resets: Vec<_> = received.split(", ").filter(|frame| frame.starts_with("reset")).collect();
        assert_eq!(resets.join(", "), want, "{frames:?}");
        assert_eq!(client.connection.live(), 0, "{frames:?}");
    }
    let mut client = FrameClient::new(ConnectionLimits::default());
    answered_early(&mut client, 1, &length);
    let block = client.block(&[(":path", "/")]);
    client.send(&frame(1, END_HEADERS | END_STREAM, 1, &block));
    assert!(client.received().contains("reset 1 PROTOCOL_ERROR"));
    // After its own reset a client may send nothing more.
    let mut client = FrameClient::new(ConnectionLimits::default());
    answered_early(&mut client, 1, &length);
    client.send(&frame(3, 0, 1, &[0, 0, 0, 8]));
    let block = client.get();
    let said = client.send(&frame(1, END_HEADERS | END_STREAM, 1, &block));
    assert_eq!(said, "failed STREAM_CLOSED");
}

#[test]
fn the_number_of_kept_early_answered_streams_is_limited() {
    let mut client = FrameClient::new(ConnectionLimits::default());
    for number in 0..16 {
        answered_early(&mut client, 1 + 2 * number, &[]);
    }
    client.request(33, false);
    client.connection.send_head(33, &response(&[]), b"", true);
    client.connection.reset(33, ErrorCode::NoError);
    assert!(client.received().ends_with("reset 1 NO_ERROR"));
    // They take no place of a new stream, and keep no connection that ends.
    let mut client =
        FrameClient::new(ConnectionLimits { concurrent_streams: 1, ..ConnectionLimits::default() });
    answered_early(&mut client, 1, &[]);
    assert_eq!(client.request(3, true), "request 3 http://h/ end");
    assert!(client.received().contains("reset 1 NO_ERROR"));
    client.connection.send_head(3, &response(&[]), b"", true);
    answered_early(&mut client, 5, &[]);
    client.connection.farewell();
    assert!(client.connection.is_over());
}
