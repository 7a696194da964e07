//! Dates, timers and timeouts of a stream (manual sections 8.4 and 7.3.3).

use std::time::Duration;

use weir_expr::SampleType::Int;
use weir_expr::{ArgKind, ArgSpec, Args, FetchDecl, Fetched, Needs, Scope};

use super::values::{gauge, number};
use super::{Row, row, valid};
use crate::stream::Stream;
use crate::timers::Timers;

const UNIT: ArgSpec = ArgSpec::new(0, &[ArgKind::Str]);

const fn time(name: &'static str, valid: &'static str, needs: Needs, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, Int, help).valid(valid).needs(needs)
}

const fn client(name: &'static str, help: &'static str) -> FetchDecl {
    time(name, valid::FRONTEND, Needs::FRONTEND, help)
}

const fn backend(name: &'static str, help: &'static str) -> FetchDecl {
    time(name, valid::BACKEND, Needs::BACKEND, help)
}

pub(super) const ROWS: &[Row] = &[
    row(
        time(
            "accept_date",
            valid::CLIENT,
            Needs::L4_CLIENT,
            "When the stream began, in s, ms or us since 1970",
        )
        .args(UNIT)
        .check(check_unit),
        |stream, args, _| since_1970(stream.began_wall_us(), args),
    ),
    row(
        time(
            "request_date",
            valid::STREAM,
            Needs::HTTP_REQUEST_META,
            "When the request's first byte came, in s, ms or us since 1970",
        )
        .args(UNIT)
        .check(check_unit),
        |stream, args, _| {
            let waited = crate::timers::whole_ms_us(stream.timers.first_byte);
            since_1970(stream.began_wall_us() + waited, args)
        },
    ),
    row(
        time(
            "fc.timer.handshake",
            valid::CLIENT,
            Needs::L4_CLIENT,
            "Milliseconds of handshakes on the client's connection",
        ),
        |stream, _, _| number(stream.timers.handshake()),
    ),
    row(
        time("fc.timer.total", valid::FRONTEND, Needs::FRONTEND, "Milliseconds since the stream began"),
        |stream, _, _| gauge(so_far(stream).total()),
    ),
    row(
        time("bc.timer.connect", valid::ANSWERED, Needs::L4_SERVER, "Milliseconds to connect to the server"),
        |stream, _, _| number(stream.timers.connecting()),
    ),
    row(
        time("req.timer.idle", valid::REQUEST, Needs::HTTP_REQUEST, "Idle milliseconds before the request"),
        |stream, _, _| number(stream.timers.idle()),
    ),
    row(
        time(
            "req.timer.hdr",
            valid::REQUEST,
            Needs::HTTP_REQUEST,
            "Milliseconds from the request's first byte to its complete head",
        ),
        |stream, _, _| number(stream.timers.receive()),
    ),
    row(
        time(
            "req.timer.tq",
            valid::REQUEST,
            Needs::HTTP_REQUEST,
            "Milliseconds of handshakes, idle time and request together",
        ),
        |stream, _, _| number(stream.timers.total_request()),
    ),
    row(
        time("req.timer.queue", valid::ANSWERED, Needs::L4_SERVER, "Milliseconds spent in queues"),
        |stream, _, _| number(stream.timers.queue_wait()),
    ),
    row(
        time(
            "res.timer.hdr",
            valid::RESPONSE,
            Needs::HTTP_RESPONSE,
            "Milliseconds until the server's response began",
        ),
        |stream, _, _| number(stream.timers.responding()),
    ),
    row(
        time(
            "res.timer.data",
            valid::CHOICE,
            Needs::L4_SERVER,
            "Milliseconds since the response's head was complete",
        ),
        |stream, _, _| gauge(so_far(stream).data()),
    ),
    row(
        time(
            "txn.timer.total",
            valid::STREAM,
            Needs::HTTP_REQUEST_META,
            "Milliseconds since the request's first byte",
        ),
        |stream, _, _| gauge(so_far(stream).active()),
    ),
    row(
        time(
            "txn.timer.user",
            valid::STREAM,
            Needs::L5_CLIENT,
            "Milliseconds of the stream without its idle time",
        ),
        |stream, _, _| gauge(so_far(stream).total_user()),
    ),
    row(
        client("fe_client_timeout", "The frontend's timeout for clients, in milliseconds"),
        |stream, _, _| timeout(stream.frontend.config.settings.timeouts.client),
    ),
    row(
        client("fe_tarpit_timeout", "The frontend's timeout for tarpits, in milliseconds"),
        |stream, _, _| timeout(stream.frontend.config.settings.timeouts.tarpit),
    ),
    row(
        client("cur_client_timeout", "The stream's timeout for the client, in milliseconds"),
        |stream, _, _| timeout(stream.timeouts.client.duration()),
    ),
    row(
        time(
            "cur_tarpit_timeout",
            valid::CLIENT,
            Needs::L4_CLIENT,
            "The stream's timeout for tarpits, in milliseconds",
        ),
        |stream, _, _| timeout(stream.timeouts.tarpit.duration()),
    ),
    row(
        backend("be_connect_timeout", "The backend's timeout for connecting, in milliseconds"),
        |stream, _, _| timeout(stream.backend.config.settings.timeouts.connect),
    ),
    row(backend("be_queue_timeout", "The backend's timeout for queues, in milliseconds"), |stream, _, _| {
        timeout(stream.backend.config.settings.timeouts.queue)
    }),
    row(
        backend("be_server_timeout", "The backend's timeout for servers, in milliseconds"),
        |stream, _, _| timeout(stream.backend.config.settings.timeouts.server),
    ),
    row(
        backend("be_tarpit_timeout", "The backend's timeout for tarpits, in milliseconds"),
        |stream, _, _| timeout(stream.backend.config.settings.timeouts.tarpit),
    ),
    row(
        backend("be_tunnel_timeout", "The backend's timeout for tunnels, in milliseconds"),
        |stream, _, _| timeout(stream.backend.config.settings.timeouts.tunnel),
    ),
    row(backend("be_max_retries", "How often the backend retries to connect"), |stream, _, _| {
        number(stream.backend.config.settings.retries)
    }),
    row(
        backend("cur_connect_timeout", "The stream's timeout for connecting, in milliseconds"),
        |stream, _, _| timeout(stream.timeouts.connect.duration()),
    ),
    row(backend("cur_queue_timeout", "The stream's timeout for queues, in milliseconds"), |stream, _, _| {
        timeout(stream.timeouts.queue.duration())
    }),
    row(
        backend("cur_server_timeout", "The stream's timeout for the server, in milliseconds"),
        |stream, _, _| timeout(stream.timeouts.server.duration()),
    ),
    row(
        backend("cur_tunnel_timeout", "The stream's timeout for tunnels, in milliseconds"),
        |stream, _, _| timeout(stream.timeouts.tunnel.duration()),
    ),
    row(backend("cur_max_retries", "How often the stream may retry to connect"), |stream, _, _| {
        number(stream.attempts.allowed())
    }),
];

/// The timers as if the stream ended now, unless it already has.
fn so_far(stream: &Stream) -> Timers {
    let timers = stream.timers;
    Timers { close: timers.close.or_else(|| Some(stream.elapsed())), ..timers }
}

/// A disabled timeout is 0.
fn timeout<'c>(timeout: Option<Duration>) -> Fetched<'c> {
    let milliseconds = timeout.map_or(0, |timeout| timeout.as_millis());
    number(i64::try_from(milliseconds).unwrap_or(i64::MAX))
}

fn since_1970<'c>(microseconds: u64, args: &Args) -> Fetched<'c> {
    let divisor = match args.str(0) {
        Some(b"us") => 1,
        Some(b"ms") => 1_000,
        _ => 1_000_000,
    };
    number((microseconds / divisor) as i64)
}

fn check_unit(args: &mut Args, _: &Scope<'_>) -> Result<(), String> {
    match args.str(0) {
        None | Some(b"" | b"s" | b"ms" | b"us") => Ok(()),
        Some(unit) => {
            Err(format!("unknown unit '{}' (expects 's', 'ms' or 'us')", String::from_utf8_lossy(unit)))
        }
    }
}
