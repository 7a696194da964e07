//! Windows of bodies that grow with the path and shrink where a body waits.

use super::*;
use crate::window::FAR_MS;

/// A client that acknowledged SETTINGS after `distance_ms`. Growth is unbounded.
fn client_at(distance_ms: u32, limits: ConnectionLimits) -> FrameClient {
    let mut client = FrameClient::silent(limits);
    client.now_ms = 1000;
    client.send(&[&PREFACE[..], &frame(4, 0, 0, &[])].concat());
    client.now_ms += u64::from(distance_ms);
    client.send(&frame(4, ACK, 0, &[]));
    client.received();
    client.connection.allow_growth(u32::MAX, client.now_ms);
    client
}

/// Sends `sent` bytes of a body, and consumes some.
fn upload(client: &mut FrameClient, stream: u32, sent: usize, consumed: u32) -> String {
    for sent in (0..sent).step_by(16_384).map(|start| (sent - start).min(16_384)) {
        let data = client.send(&frame(0, 0, stream, &vec![b'x'; sent]));
        assert!(data.starts_with(&format!("data {stream} ")), "{data}");
    }
    client.connection.consumed(stream, consumed);
    client.received()
}

fn narrow() -> ConnectionLimits {
    ConnectionLimits { stream_window: 100, connection_window: 65_535, ..ConnectionLimits::default() }
}

/// The streams' share of that.
const SHARED: u32 = 65_535 / 8 * 7;

#[test]
fn a_receive_window_grows_at_half_use_if_the_round_trip_is_long() {
    let mut client = client_at(FAR_MS - 1, narrow());
    client.request(1, false);
    for _ in 0..2 {
        assert_eq!(upload(&mut client, 1, 100, 100), "window 1 100", "it is near");
    }
    let mut client = client_at(FAR_MS, narrow());
    client.request(1, false);
    assert_eq!(upload(&mut client, 1, 49, 0), "");
    assert_eq!(upload(&mut client, 1, 1, 0), format!("window 1 {}", SHARED - 100), "it is far");
    assert_eq!(client.connection.lent(), SHARED - 100);
    assert_eq!(upload(&mut client, 1, 50, 0), "", "it grows once before anything is consumed");
    let rest = SHARED - 100;
    assert_eq!(
        upload(&mut client, 1, rest as usize, SHARED),
        format!("window 1 {SHARED}, window 0 {SHARED}")
    );
    // The next one has half of it.
    client.request(3, false);
    assert_eq!(upload(&mut client, 3, 50, 0), format!("window 3 {}", SHARED / 2 - 100));
    // A body does not need more than its length.
    let fields =
        |length| [(":method", "PUT"), (":scheme", "http"), (":path", "/"), ("content-length", length)];
    for (stream, length, want) in [(5, "200", "window 5 50"), (7, "150", "")] {
        let block = client.block(&fields(length));
        client.send(&frame(1, END_HEADERS, stream, &block));
        assert_eq!(upload(&mut client, stream, 50, 0), want, "{length}");
    }
    // A stream returns its lent window when it ends.
    for stream in [1, 3, 5, 7] {
        client.connection.reset(stream, ErrorCode::Cancel);
    }
    assert_eq!(client.connection.lent(), 0);
    // Before the SETTINGS are acknowledged, a client may be far; afterwards nothing is given back until the window is narrow.
    let mut client = FrameClient::silent(ConnectionLimits::default());
    let width = ConnectionLimits::default().connection_window / 8 * 7;
    client.connection.allow_growth(u32::MAX, 1000);
    client.now_ms = 1000;
    client.send(&[&PREFACE[..], &frame(4, 0, 0, &[])].concat());
    client.request(1, false);
    client.received();
    assert_eq!(
        upload(&mut client, 1, 32_768, 32_767),
        format!("window 1 {}, window 1 32767", width - 65_535)
    );
    client.send(&frame(4, ACK, 0, &[]));
    client.received();
    let mut given = 0;
    while client.connection.lent() > 0 {
        assert_eq!(given, 0);
        let said = upload(&mut client, 1, 10_000, 10_000);
        let words = said.split(", ").filter_map(|frame| frame.strip_prefix("window 1 "));
        given += words.map(|count| count.parse::<u32>().expect("bytes")).sum::<u32>();
    }
    assert!(given < 32_767, "{given}");
}

#[test]
fn receive_windows_share_the_allowed_growth() {
    let mut client = client_at(FAR_MS, narrow());
    client.connection.allow_growth(0, 2000);
    client.request(1, false);
    assert_eq!(upload(&mut client, 1, 100, 100), "window 1 100", "memory is short");
    client.connection.allow_growth(800, 2000);
    assert_eq!(upload(&mut client, 1, 100, 100), "window 1 200", "an eighth of 800 more");
    assert_eq!(upload(&mut client, 1, 200, 200), "window 1 287", "an eighth of 700 more");
    assert_eq!(client.connection.lent(), 187);
}

#[test]
fn a_receive_window_shrinks_while_its_body_waits() {
    let mut client = client_at(FAR_MS, narrow());
    client.connection.allow_growth(8 * 700, 2000);
    client.request(1, false);
    assert_eq!(upload(&mut client, 1, 50, 0), "window 1 700");
    client.connection.allow_growth(0, 2000);
    assert_eq!(upload(&mut client, 1, 70, 99), "window 1 99", "800 bytes wide");
    assert_eq!(upload(&mut client, 1, 200, 120), "window 1 120", "a little waits");
    assert_eq!(upload(&mut client, 1, 400, 100), "", "more waits: 700 bytes wide");
    assert_eq!(upload(&mut client, 1, 0, 200), "", "500 bytes wide");
    assert_eq!(upload(&mut client, 1, 0, 201), "window 1 201", "nothing waits");
    assert_eq!(upload(&mut client, 1, 500, 375), "", "125 bytes wide");
    assert_eq!(upload(&mut client, 1, 0, 90), "window 1 65", "100 bytes wide, as it was first");
    assert_eq!(client.connection.lent(), 0);
    client.connection.allow_growth(u32::MAX, 2000);
    assert_eq!(upload(&mut client, 1, 65, 0), "", "it does not grow a second time while its body waits");
    assert_eq!(upload(&mut client, 1, 0, 70), "window 1 70", "no narrower");
    assert_eq!(client.send(&frame(0, 0, 1, &[b'x'; 71])), "reset 1 FLOW_CONTROL_ERROR");
}

/// A peer at 100 ms sends 4 MB as fast as its windows admit, and every byte is consumed at once: one flight of the first window, then of
/// nearly the whole receive buffer.
#[test]
fn a_4_mb_upload_takes_four_flights_with_window_growth() {
    let limits = ConnectionLimits { connection_window: 1_638_400, ..ConnectionLimits::default() };
    let mut client = FrameClient::silent(limits);
    client.connection.allow_growth(u32::MAX, 0);
    client.send(&[&PREFACE[..], &frame(4, 0, 0, &[])].concat());
    client.request(1, false);
    let (mut left, mut flights) = (4usize << 20, 0);
    let mut open = [65_535usize; 2];
    while left > 0 {
        flights += 1;
        let mut said = client.received();
        let sent = left.min(open[0]).min(open[1]);
        for sent in (0..sent).step_by(16_384).map(|start| (sent - start).min(16_384)) {
            client.send(&frame(0, 0, 1, &vec![b'x'; sent]));
            client.connection.consumed(1, sent as u32);
        }
        left -= sent;
        open = open.map(|window| window - sent);
        client.now_ms += 100;
        if flights == 1 {
            client.send(&frame(4, ACK, 0, &[]));
        }
        said = said + ", " + &client.received();
        for words in said.split(", ").filter_map(|frame| frame.strip_prefix("window ")) {
            let (stream, more) = words.split_once(' ').expect("two numbers");
            open[stream.parse::<usize>().expect("a stream")] += more.parse::<usize>().expect("bytes");
        }
    }
    assert_eq!(flights, 4);
}

/// The second body has in its first flight all that the first one got with updates.
#[test]
fn a_later_body_starts_with_the_grown_window_of_an_earlier_body() {
    let mut client = client_at(FAR_MS, narrow());
    let end = |client: &mut FrameClient, stream| {
        client.send(&frame(0, END_STREAM, stream, b""));
        client.received()
    };
    // A window that is not twice as wide is not worth a frame.
    let fields = [(":method", "PUT"), (":scheme", "http"), (":path", "/"), ("content-length", "249")];
    let block = client.block(&fields);
    client.send(&frame(1, END_HEADERS, 1, &block));
    assert_eq!(upload(&mut client, 1, 100, 0), "window 1 49");
    assert_eq!(upload(&mut client, 1, 49, 149), "window 1 149");
    client.send(&frame(0, 0, 1, &[b'x'; 100]));
    assert_eq!(end(&mut client, 1), "");
    client.connection.reset(1, ErrorCode::Cancel);
    client.received();
    // Nor while another body comes: new settings would shift its window.
    client.request(3, false);
    assert_eq!(upload(&mut client, 3, 50, 0), format!("window 3 {}", SHARED - 100));
    client.request(5, false);
    assert_eq!(end(&mut client, 3), "");
    assert_eq!(client.connection.lent(), SHARED - 100);
    assert_eq!(end(&mut client, 5), "", "this one did not grow");
    client.request(7, false);
    assert_eq!(upload(&mut client, 7, 50, 0), format!("window 7 {}", SHARED - 100));
    assert_eq!(end(&mut client, 7), "settings");
    for stream in [3, 5, 7] {
        client.connection.reset(stream, ErrorCode::Cancel);
    }
    client.received();
    assert_eq!(client.connection.lent(), SHARED - 100, "the next body may fill it at any time");
    // Also one that begins before the client knows of it.
    client.request(9, false);
    assert_eq!(upload(&mut client, 9, 50_000, 0), "");
    client.send(&frame(4, ACK, 0, &[]));
    assert_eq!(client.received(), "");
    client.request(11, false);
    assert_eq!(client.connection.windows(11), Some((SHARED as i32, 65_535)));
    assert_eq!(client.connection.lent(), 65_535, "no more than the connection's window");
    // A peer that turned out to be near needs no wide window.
    let mut near = FrameClient::silent(ConnectionLimits::default());
    near.now_ms = 1000;
    near.connection.allow_growth(u32::MAX, 1000);
    near.send(&[&PREFACE[..], &frame(4, 0, 0, &[])].concat());
    near.request(1, false);
    near.received();
    assert!(upload(&mut near, 1, 32_768, 0).starts_with("window 1 "), "it may be far");
    near.send(&frame(4, ACK, 0, &[]));
    assert_eq!(end(&mut near, 1), "");
    // A body of a known length has room for all of it.
    let mut small = client_at(FAR_MS, narrow());
    let block = small
        .block(&fields.map(|(name, value)| (name, if name == "content-length" { "1000" } else { value })));
    small.send(&frame(1, END_HEADERS, 1, &block));
    assert_eq!(upload(&mut small, 1, 60, 60), "window 1 840, window 1 60");
    assert_eq!(upload(&mut small, 1, 880, 0), "");
    small.send(&frame(0, END_STREAM, 1, &[b'x'; 60]));
    small.received();
    small.request(3, false);
    assert_eq!(small.connection.windows(3), Some((1040, 65_535)));
    // Windows of bodies that wait become narrower, as if they had grown.
    assert_eq!(upload(&mut client, 9, 0, 30_000), "window 0 30149");
}
