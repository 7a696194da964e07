//! `tune.h2.*`: HTTP/2 connections.

use super::context::GlobalReader;
use super::tls_defaults::MAX;
use crate::rows::DefaultValue::Described;
use crate::rows::Row;
use weir_model::LoggedErrors;

pub(super) const ROWS: &[Row<GlobalReader>] = &[
    Row::ready(
        "h2-workaround-bogus-websocket-clients",
        "",
        "",
        "do not advertise WebSocket to HTTP/2 clients",
        |line, words| {
            line.global.no_websocket_over_http2 = line.flag(words)?;
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready(
        "tune.h2.be.glitches-threshold",
        "<number>",
        "100",
        "HTTP/2: oddities to bear from servers",
        |l, w| {
            l.global.http2.servers.glitches = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.initial-window-size",
        "<number>",
        "65536",
        "HTTP/2: window towards servers",
        |l, w| {
            l.global.http2.servers.window = Some(l.number(w, 0..=MAX)?);
            Ok(())
        },
    )
    .default(Described("that of `tune.h2.initial-window-size`")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.max-concurrent-streams",
        "<number>",
        "50",
        "HTTP/2: streams on a connection to a server",
        |l, w| {
            l.global.http2.servers.concurrent_streams = Some(l.number(w, 0..=MAX)?);
            Ok(())
        },
    )
    .default(Described("that of `tune.h2.max-concurrent-streams`")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.max-frames-at-once",
        "<number>",
        "200",
        "HTTP/2: frames in a row from servers",
        |l, w| {
            l.global.http2.servers.frames = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.be.rxbuf",
        "<size>",
        "4m",
        "HTTP/2: receive buffer that the streams of a connection to a server share: whole buffers, one for each stream at least. Seven eighths are for windows of bodies that grow if the server is far",
        |l, w| {
            l.global.http2.servers.receive_buffer = Some(l.size(w, 0..=MAX.into())? as u32);
            Ok(())
        },
    )
    .default(Described("100 buffers, or one for each concurrent stream if these are more")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.glitches-threshold",
        "<number>",
        "100",
        "HTTP/2: oddities to bear from clients",
        |l, w| {
            l.global.http2.clients.glitches = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.initial-window-size",
        "<number>",
        "65536",
        "HTTP/2: window towards clients",
        |l, w| {
            l.global.http2.clients.window = Some(l.number(w, 0..=MAX)?);
            Ok(())
        },
    )
    .default(Described("that of `tune.h2.initial-window-size`")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-concurrent-streams",
        "<number>",
        "50",
        "HTTP/2: streams on a client's connection",
        |l, w| {
            l.global.http2.clients.concurrent_streams = Some(l.number(w, 0..=MAX)?);
            Ok(())
        },
    )
    .default(Described("that of `tune.h2.max-concurrent-streams`")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-frames-at-once",
        "<number>",
        "200",
        "HTTP/2: frames in a row from clients",
        |l, w| {
            l.global.http2.clients.frames = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-rst-at-once",
        "<number>",
        "10",
        "HTTP/2: resets in a row from clients",
        |l, w| {
            l.global.http2.clients.resets = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.max-total-streams",
        "<number>",
        "1000",
        "HTTP/2: streams of a client's connection in all",
        |l, w| {
            l.global.http2.clients.total_streams = l.number(w, 0..=MAX)?;
            Ok(())
        },
    )
    .default(Described("`0`, no bound")),
    Row::<GlobalReader>::ready(
        "tune.h2.fe.rxbuf",
        "<size>",
        "4m",
        "HTTP/2: receive buffer that the streams of a client's connection share: whole buffers, one for each stream at least. Seven eighths are for windows of bodies that grow if the client is far",
        |l, w| {
            l.global.http2.clients.receive_buffer = Some(l.size(w, 0..=MAX.into())? as u32);
            Ok(())
        },
    )
    .default(Described("100 buffers, or one for each concurrent stream if these are more")),
    Row::<GlobalReader>::ready(
        "tune.h2.header-table-size",
        "<number>",
        "8192",
        "HTTP/2: size of the header table, 4096 to 65536 bytes",
        |l, w| {
            l.global.http2.header_table_size = l.number(w, 4096..=65536)?;
            Ok(())
        },
    )
    .default(Described("`4096`")),
    Row::<GlobalReader>::ready("tune.h2.initial-window-size", "<number>", "65536", "HTTP/2: window both ways", |l, w| {
        l.global.http2.window = Some(l.number(w, 0..=MAX)?);
        Ok(())
    })
    .default(Described("`65535`")),
    Row::<GlobalReader>::ready(
        "tune.h2.log-errors",
        "{ none | connection | stream }",
        "connection",
        "HTTP/2: which errors of clients become log lines",
        |l, w| {
            l.global.http2.logged_errors = match l.choice(w, &["none", "connection", "stream"])? {
                "none" => LoggedErrors::None,
                "connection" => LoggedErrors::Connection,
                _ => LoggedErrors::Stream,
            };
            Ok(())
        },
    )
    .default(Described("`stream`")),
    Row::<GlobalReader>::ready(
        "tune.h2.max-concurrent-streams",
        "<number>",
        "50",
        "HTTP/2: streams on a connection",
        |l, w| {
            l.global.http2.concurrent_streams = Some(l.number(w, 0..=MAX)?);
            Ok(())
        },
    )
    .default(Described("`100`")),
    Row::<GlobalReader>::ready(
        "tune.h2.zero-copy-fwd-send",
        "{ on | off }",
        "off",
        "HTTP/2: send large pieces of payload from where they came in",
        |l, w| {
            l.global.http2.zero_copy = l.switch(w)?;
            Ok(())
        },
    )
    .default(Described("`on`")),
    Row::ready(
        "tune.disable-zero-copy-forwarding",
        "",
        "",
        "HTTP/2: copy payload into its frames before it leaves, however much it is",
        |l, w| {
            l.global.http2.zero_copy_disabled = l.flag(w)?;
            Ok(())
        },
    ),
    Row::<GlobalReader>::ready("tune.h2.max-frame-size", "<number>", "16384", "HTTP/2: largest frame", |l, w| {
        l.global.http2.frame_max = Some(l.number(w, 16384..=16_777_215)?);
        Ok(())
    })
    .default(Described("that of `tune.bufsize`, which is also the most")),
];
