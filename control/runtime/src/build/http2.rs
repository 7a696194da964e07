//! The limits of HTTP/2 connections, from `tune.h2.*`.

use weir_config::model;
use weir_mux::{Limits, Pace};
use weir_stream::instance::LoggedErrors;

/// The keywords for one side's connections.
#[derive(Clone, Copy)]
pub(super) struct Side {
    concurrent_streams: &'static str,
    total_streams: Option<&'static str>,
    window: &'static str,
    shared: &'static str,
    glitches: &'static str,
    frames: &'static str,
    resets: Option<&'static str>,
}

/// Connections with clients.
pub(super) const CLIENTS: Side = Side {
    concurrent_streams: "tune.h2.fe.max-concurrent-streams",
    total_streams: Some("tune.h2.fe.max-total-streams"),
    window: "tune.h2.fe.initial-window-size",
    shared: "tune.h2.fe.rxbuf",
    glitches: "tune.h2.fe.glitches-threshold",
    frames: "tune.h2.fe.max-frames-at-once",
    resets: Some("tune.h2.fe.max-rst-at-once"),
};

/// Connections with servers.
pub(super) const SERVERS: Side = Side {
    concurrent_streams: "tune.h2.be.max-concurrent-streams",
    total_streams: None,
    window: "tune.h2.be.initial-window-size",
    shared: "tune.h2.be.rxbuf",
    glitches: "tune.h2.be.glitches-threshold",
    frames: "tune.h2.be.max-frames-at-once",
    resets: None,
};

/// The limits of a side's connections. Keywords for one side take precedence over those for both.
pub(super) fn limits(global: &model::Global, side: Side) -> Limits {
    let tuning = &global.tuning;
    let number = |keyword: &str| last(global, keyword).and_then(|text| text.parse::<u32>().ok());
    let of = |own: &str, both: &str, default: u32| number(own).or_else(|| number(both)).unwrap_or(default);
    let buffer = tuning.buffer_size;
    let frame = number("tune.h2.max-frame-size").unwrap_or(buffer).min(buffer).max(LEAST_FRAME);
    let concurrent = of(side.concurrent_streams, "tune.h2.max-concurrent-streams", 100);
    let window = of(side.window, "tune.h2.initial-window-size", DEFAULT_WINDOW);
    let shared = last(global, side.shared).and_then(size);
    Limits {
        concurrent_streams: concurrent,
        total_streams: side.total_streams.and_then(number).unwrap_or(0),
        stream_window: window.min(MAX_WINDOW),
        connection_window: receive_buffer(shared, buffer, concurrent),
        max_payload: frame,
        header_table_size: number("tune.h2.header-table-size").unwrap_or(4096),
        max_fields: tuning.headers_max.saturating_sub(1),
        max_head: buffer.saturating_sub(tuning.rewrite_room()) as usize,
        glitches: number(side.glitches).unwrap_or(0),
        extended_connect: !global.no_websocket_over_http2,
    }
}

/// The receive buffer of a connection: whole buffers, one for each stream at least (`tune.h2.fe.rxbuf`, `tune.h2.be.rxbuf`).
fn receive_buffer(size: Option<u32>, buffer: u32, streams: u32) -> u32 {
    let size = size.unwrap_or(buffer.saturating_mul(DEFAULT_BUFFERS)).checked_next_multiple_of(buffer);
    let least = buffer.saturating_mul(streams);
    size.unwrap_or(MAX_WINDOW).max(least).min(MAX_WINDOW)
}

/// How much of a connection is taken in at a time, and how payload leaves.
pub(super) fn pace(global: &model::Global, side: Side) -> Pace {
    let number = |keyword: &str| last(global, keyword).and_then(|text| text.parse().ok()).unwrap_or(0);
    let copies = last(global, "tune.h2.zero-copy-fwd-send") == Some("off")
        || global.kept.iter().any(|kept| kept.keyword == "tune.disable-zero-copy-forwarding");
    Pace { frames: number(side.frames), resets: side.resets.map_or(0, number), copies }
}

/// Which errors of a client's connection are logged.
pub(super) fn logged_errors(global: &model::Global) -> LoggedErrors {
    match last(global, "tune.h2.log-errors") {
        Some("none") => LoggedErrors::None,
        Some("connection") => LoggedErrors::Connection,
        _ => LoggedErrors::Stream,
    }
}

/// The value of the last line with this keyword.
fn last<'g>(global: &'g model::Global, keyword: &str) -> Option<&'g str> {
    let kept = global.kept.iter().rev().find(|kept| kept.keyword == keyword)?;
    kept.arguments.first().map(|text| &**text)
}

/// A size that was checked before: digits, and an optional unit.
fn size(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match text.as_bytes().get(digits.len()).map(u8::to_ascii_lowercase) {
        None => 0,
        Some(b'k') => 10,
        Some(b'm') => 20,
        Some(_) => 30,
    };
    let bytes = digits.parse::<u64>().ok()?.checked_shl(unit)?;
    Some(u32::try_from(bytes).unwrap_or(MAX_WINDOW))
}

/// The smallest frame size limit that a peer may announce.
const LEAST_FRAME: u32 = 16_384;
/// How many buffers a connection has by default.
const DEFAULT_BUFFERS: u32 = 100;
/// The default window of a stream.
const DEFAULT_WINDOW: u32 = 65_535;
const MAX_WINDOW: u32 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lines: &[(&'static str, &str)]) -> Limits {
        of_side(lines, CLIENTS)
    }

    fn of_side(lines: &[(&'static str, &str)], side: Side) -> Limits {
        let mut global = model::Global::default();
        for (keyword, argument) in lines {
            let at = model::Location::new("test".into(), 1);
            global.kept.push(model::Kept { keyword, arguments: vec![(*argument).into()], at });
        }
        limits(&global, side)
    }

    #[test]
    fn the_side_goes_before_both_and_the_last_line_before_others() {
        let limits = of(&[
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
        assert_eq!((limits.concurrent_streams, limits.stream_window), (8, 1000));
        assert_eq!((limits.connection_window, limits.total_streams), (13 << 14, 9));
        assert_eq!((limits.glitches, limits.header_table_size), (3, 8192));
        let mut global = model::Global::default();
        let at = model::Location::new("test".into(), 1);
        let arguments = vec!["5".into()];
        global.kept.push(model::Kept { keyword: "tune.h2.fe.max-rst-at-once", arguments, at });
        assert_eq!((pace(&global, CLIENTS).resets, pace(&global, SERVERS).resets), (5, 0));
        let lines = [
            ("tune.h2.be.max-concurrent-streams", "3"),
            ("tune.h2.initial-window-size", "1000"),
            ("tune.h2.be.rxbuf", "100k"),
            ("tune.h2.be.glitches-threshold", "7"),
            ("tune.h2.fe.max-total-streams", "9"),
        ];
        let limits = of_side(&lines, SERVERS);
        assert_eq!((limits.concurrent_streams, limits.stream_window, limits.total_streams), (3, 1000, 0));
        assert_eq!((limits.connection_window, limits.glitches), (7 << 14, 7));
    }

    #[test]
    fn a_receive_buffer_is_whole_buffers_and_one_for_each_stream() {
        let buffers = |size: &str, streams: &str| {
            let lines = [("tune.h2.fe.rxbuf", size), ("tune.h2.fe.max-concurrent-streams", streams)];
            of(&lines).connection_window
        };
        assert_eq!([buffers("1", "3"), buffers("1", "200")], [3 << 14, 200 << 14], "one for each stream");
        assert_eq!([buffers("65536", "3"), buffers("65537", "3")], [4 << 14, 5 << 14], "rounded up");
        assert_eq!([buffers("4g", "3"), buffers("0", "0")], [MAX_WINDOW, 0], "any size");
        let default = |streams| of(&[("tune.h2.fe.max-concurrent-streams", streams)]).connection_window;
        assert_eq!([default("3"), default("100"), default("200")], [100 << 14, 100 << 14, 200 << 14]);
    }

    #[test]
    fn either_word_has_payload_copied() {
        for (keyword, argument, copies) in [
            ("tune.h2.zero-copy-fwd-send", Some("off"), true),
            ("tune.h2.zero-copy-fwd-send", Some("on"), false),
            ("tune.disable-zero-copy-forwarding", None, true),
        ] {
            let mut global = model::Global::default();
            assert!(!pace(&global, CLIENTS).copies);
            let at = model::Location::new("test".into(), 1);
            let arguments = argument.into_iter().map(|text| text.into()).collect();
            global.kept.push(model::Kept { keyword, arguments, at });
            assert_eq!([CLIENTS, SERVERS].map(|side| pace(&global, side).copies), [copies; 2], "{keyword}");
        }
    }

    #[test]
    fn without_a_word_it_is_what_the_manual_says() {
        let limits = of(&[]);
        assert_eq!((limits.concurrent_streams, limits.max_payload), (100, 16_384));
        assert_eq!(limits.connection_window, 1_638_400);
        assert_eq!(of(&[("tune.h2.max-frame-size", "1000000")]).max_payload, 16_384, "no more than a buffer");
    }
    /// What is made of both sides with these lines, as text.
    fn made(lines: &[(&'static str, &str)]) -> String {
        let mut global = model::Global::default();
        for (keyword, argument) in lines {
            let at = model::Location::new("test".into(), 1);
            global.kept.push(model::Kept { keyword, arguments: vec![(*argument).into()], at });
        }
        let sides = [CLIENTS, SERVERS].map(|side| (limits(&global, side), pace(&global, side)));
        format!("{sides:?} {:?}", logged_errors(&global))
    }

    /// The manual's sentences: a value, or that of another word.
    #[test]
    fn defaults_are_what_the_manual_tells() {
        use weir_config::vocabulary::{DefaultValue, WordPlace, words};
        let mut looked_at = 0;
        for word in words().iter().filter(|word| word.place == WordPlace::Global) {
            let Some(DefaultValue::Described(text)) = word.default else { continue };
            let Some(told) = text.split('`').nth(1).filter(|_| word.name.starts_with("tune.h2.")) else {
                continue;
            };
            if text.starts_with('`') {
                assert_eq!(made(&[(word.name, told)]), made(&[]), "{} {told}", word.name);
                looked_at += 1;
            } else if told.starts_with("tune.h2.") {
                let other = words().iter().find(|other| other.name == told).expect("a word").name;
                let both = made(&[(other, "77"), (word.name, "77")]);
                assert_eq!(made(&[(other, "77")]), both, "{}: that of {told}", word.name);
                assert_ne!(both, made(&[]), "{told}");
                looked_at += 1;
            }
        }
        assert!(looked_at > 10, "{looked_at}");
    }
}
