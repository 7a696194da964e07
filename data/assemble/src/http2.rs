//! Limits of HTTP/2 connections, from `tune.h2.*`.

use weir_model::{Global, Http2Side};
use weir_mux::{ConnectionLimits, Pace};

/// The limits for connections of one side. Keywords for that side take precedence over those for both.
pub(super) fn limits(global: &Global, side: &Http2Side) -> ConnectionLimits {
    let (tuning, both) = (&global.tuning, &global.http2);
    let buffer = tuning.buffer_size;
    let frame = both.frame_max.unwrap_or(buffer).min(buffer).max(LEAST_FRAME);
    let concurrent = side.concurrent_streams.or(both.concurrent_streams).unwrap_or(DEFAULT_STREAMS);
    let window = side.window.or(both.window).unwrap_or(DEFAULT_WINDOW);
    ConnectionLimits {
        concurrent_streams: concurrent,
        total_streams: side.total_streams,
        stream_window: window.min(MAX_WINDOW),
        connection_window: receive_buffer(side.receive_buffer, buffer, concurrent),
        max_payload: frame,
        header_table_size: both.header_table_size,
        max_fields: tuning.headers_max.saturating_sub(1),
        max_head: buffer.saturating_sub(tuning.rewrite_room()) as usize,
        glitches: side.glitches,
        extended_connect: !global.no_websocket_over_http2,
    }
}

/// The receive window of a connection in bytes: a multiple of the buffer size, with at least one buffer per stream
/// (`tune.h2.fe.rxbuf`, `tune.h2.be.rxbuf`).
fn receive_buffer(size: Option<u32>, buffer: u32, streams: u32) -> u32 {
    let size = size.unwrap_or(buffer.saturating_mul(DEFAULT_BUFFERS)).checked_next_multiple_of(buffer);
    let least = buffer.saturating_mul(streams);
    size.unwrap_or(MAX_WINDOW).max(least).min(MAX_WINDOW)
}

/// How many frames and resets are processed at once, and whether payload is copied.
pub(super) fn pace(global: &Global, side: &Http2Side) -> Pace {
    let copies = !global.http2.zero_copy || global.http2.zero_copy_disabled;
    Pace { frames: side.frames, resets: side.resets, copies }
}

/// The smallest frame size limit that a peer may announce.
const LEAST_FRAME: u32 = 16_384;
/// The default receive window of a connection, in buffers.
const DEFAULT_BUFFERS: u32 = 100;
/// The default limit of concurrent streams on a connection.
const DEFAULT_STREAMS: u32 = 100;
/// The default receive window of a stream, in bytes.
const DEFAULT_WINDOW: u32 = 65_535;
const MAX_WINDOW: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::config;

    /// The global section with these lines.
    fn global(lines: &[(&'static str, &str)]) -> Global {
        let lines: String =
            lines.iter().map(|(keyword, argument)| format!(" {keyword} {argument}\n")).collect();
        config(&format!("global\n{lines}")).global
    }

    /// The limits of client connections.
    fn of(lines: &[(&'static str, &str)]) -> ConnectionLimits {
        let global = global(lines);
        limits(&global, &global.http2.clients)
    }

    #[test]
    fn http2_keywords_of_one_side_override_common_ones_and_earlier_lines() {
        let made = of(&[
            ("tune.h2.max-concurrent-streams", "50"),
            ("tune.h2.fe.max-concurrent-streams", "7"),
            ("tune.h2.fe.max-concurrent-streams", "8"),
            ("tune.h2.initial-window-size", "1000"),
            ("tune.h2.be.initial-window-size", "2000"),
            ("tune.h2.fe.rxbuf", "200k"),
            ("tune.h2.fe.max-total-streams", "9"),
            ("tune.h2.fe.glitches-threshold", "3"),
            ("tune.h2.header-table-size", "8192"),
        ]);
        assert_eq!((made.concurrent_streams, made.stream_window), (8, 1000));
        assert_eq!((made.connection_window, made.total_streams), (13 << 14, 9));
        assert_eq!((made.glitches, made.header_table_size), (3, 8192));
        let paced = global(&[("tune.h2.fe.max-rst-at-once", "5")]);
        let resets = [&paced.http2.clients, &paced.http2.servers].map(|side| pace(&paced, side).resets);
        assert_eq!(resets, [5, 0]);
        let lines = [
            ("tune.h2.be.max-concurrent-streams", "3"),
            ("tune.h2.initial-window-size", "1000"),
            ("tune.h2.be.rxbuf", "100k"),
            ("tune.h2.be.glitches-threshold", "7"),
            ("tune.h2.fe.max-total-streams", "9"),
        ];
        let global = global(&lines);
        let made = limits(&global, &global.http2.servers);
        assert_eq!((made.concurrent_streams, made.stream_window, made.total_streams), (3, 1000, 0));
        assert_eq!((made.connection_window, made.glitches), (7 << 14, 7));
    }

    #[test]
    fn the_h2_receive_window_is_at_least_one_buffer_for_each_stream() {
        let buffers = |size: &str, streams: &str| {
            let lines = [("tune.h2.fe.rxbuf", size), ("tune.h2.fe.max-concurrent-streams", streams)];
            of(&lines).connection_window
        };
        assert_eq!([buffers("1", "3"), buffers("1", "200")], [3 << 14, 200 << 14], "one for each stream");
        assert_eq!([buffers("65536", "3"), buffers("65537", "3")], [4 << 14, 5 << 14], "rounded up");
        assert_eq!([buffers("2147483647", "3"), buffers("0", "0")], [MAX_WINDOW, 0], "any size");
        let default = |streams| of(&[("tune.h2.fe.max-concurrent-streams", streams)]).connection_window;
        assert_eq!([default("3"), default("100"), default("200")], [100 << 14, 100 << 14, 200 << 14]);
    }

    #[test]
    fn zero_copy_keywords_decide_whether_h2_payload_is_copied() {
        for (keyword, argument, copies) in [
            ("tune.h2.zero-copy-fwd-send", "off", true),
            ("tune.h2.zero-copy-fwd-send", "on", false),
            ("tune.disable-zero-copy-forwarding", "", true),
        ] {
            let global = global(&[(keyword, argument)]);
            let sides = [&global.http2.clients, &global.http2.servers];
            assert_eq!(sides.map(|side| pace(&global, side).copies), [copies; 2], "{keyword}");
        }
    }

    #[test]
    fn default_h2_limits_equal_the_manuals() {
        let limits = of(&[]);
        assert_eq!((limits.concurrent_streams, limits.max_payload), (100, 16_384));
        assert_eq!(limits.connection_window, 1_638_400);
        assert_eq!(of(&[("tune.h2.max-frame-size", "1000000")]).max_payload, 16_384, "no more than a buffer");
        let larger = [("tune.bufsize", "32768"), ("tune.h2.max-frame-size", "20000")];
        assert_eq!(of(&larger).max_payload, 20_000, "less than a buffer");
    }

    /// The limits and pace of both sides with these lines, as text.
    fn made(lines: &[(&'static str, &str)]) -> String {
        let global = global(lines);
        let sides = [&global.http2.clients, &global.http2.servers];
        let sides = sides.map(|side| (limits(&global, side), pace(&global, side)));
        format!("{sides:?} {:?}", global.http2.logged_errors)
    }

    /// The defaults in the manual's text: a value, or the default of another keyword.
    #[test]
    fn defaults_of_h2_keywords_match_the_manual_text() {
        use weir_config::vocabulary::{DefaultValue, WordPlace, words};
        use weir_stream::KEYWORDS;
        let mut looked_at = 0;
        for word in words(&KEYWORDS).iter().filter(|word| word.place == WordPlace::Global) {
            let Some(DefaultValue::Described(text)) = word.default else { continue };
            let Some(documented) = text.split('`').nth(1).filter(|_| word.name.starts_with("tune.h2."))
            else {
                continue;
            };
            if text.starts_with('`') {
                assert_eq!(made(&[(word.name, documented)]), made(&[]), "{} {documented}", word.name);
                looked_at += 1;
            } else if documented.starts_with("tune.h2.") {
                let other =
                    words(&KEYWORDS).iter().find(|other| other.name == documented).expect("a word").name;
                let both = made(&[(other, "77"), (word.name, "77")]);
                assert_eq!(made(&[(other, "77")]), both, "{}: that of {documented}", word.name);
                assert_ne!(both, made(&[]), "{documented}");
                looked_at += 1;
            }
        }
        assert!(looked_at > 10, "{looked_at}");
    }
}
