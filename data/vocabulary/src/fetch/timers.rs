//! Dates, timers and timeouts of a stream (manual sections 8.4 and 7.3.3).

use std::time::Duration;

use weir_expr::SampleType::Int;
use weir_expr::{ArgKind, ArgSpec, Args, ExpressionScope, FetchDecl, FetchResult, Needs};
use weir_model::Timeouts;

use super::access::of_stream;
use super::values::{gauge, number};
use super::{FetchRow, row, valid};
use crate::timers::{Timers, whole_ms_us};
use crate::view::{FetchView, ViewedProxy};

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

pub(super) const ROWS: &[FetchRow] = &[
    row(
        time(
            "accept_date",
            valid::CLIENT,
            Needs::L4_CLIENT,
            "When the stream began, in s, ms or us since 1970",
        )
        .args(UNIT)
        .check(check_unit),
        |view, args, _| of_stream(view, |stream| since_1970(stream.began_wall_us, args)),
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
        |view, args, _| {
            let waited = whole_ms_us(view.timers().and_then(|timers| timers.first_byte));
            of_stream(view, |stream| since_1970(stream.began_wall_us + waited, args))
        },
    ),
    row(
        time(
            "fc.timer.handshake",
            valid::CLIENT,
            Needs::L4_CLIENT,
            "Milliseconds of handshakes on the client's connection",
        ),
        |view, _, _| timer(view, Timers::handshake, number),
    ),
    row(
        time("fc.timer.total", valid::FRONTEND, Needs::FRONTEND, "Milliseconds since the stream began"),
        |view, _, _| timer(view, Timers::total, gauge),
    ),
    row(
        time("bc.timer.connect", valid::ANSWERED, Needs::L4_SERVER, "Milliseconds to connect to the server"),
        |view, _, _| timer(view, Timers::connecting, number),
    ),
    row(
        time("req.timer.idle", valid::REQUEST, Needs::HTTP_REQUEST, "Idle milliseconds before the request"),
        |view, _, _| timer(view, Timers::idle, number),
    ),
    row(
        time(
            "req.timer.hdr",
            valid::REQUEST,
            Needs::HTTP_REQUEST,
            "Milliseconds from the request's first byte to its complete head",
        ),
        |view, _, _| timer(view, Timers::receive, number),
    ),
    row(
        time(
            "req.timer.tq",
            valid::REQUEST,
            Needs::HTTP_REQUEST,
            "Milliseconds of handshakes, idle time and request together",
        ),
        |view, _, _| timer(view, Timers::total_request, number),
    ),
    row(
        time("req.timer.queue", valid::ANSWERED, Needs::L4_SERVER, "Milliseconds spent in queues"),
        |view, _, _| timer(view, Timers::queue_wait, number),
    ),
    row(
        time(
            "res.timer.hdr",
            valid::RESPONSE,
            Needs::HTTP_RESPONSE,
            "Milliseconds until the server's response began",
        ),
        |view, _, _| timer(view, Timers::responding, number),
    ),
    row(
        time(
            "res.timer.data",
            valid::CHOICE,
            Needs::L4_SERVER,
            "Milliseconds since the response's head was complete",
        ),
        |view, _, _| timer(view, Timers::data, gauge),
    ),
    row(
        time(
            "txn.timer.total",
            valid::STREAM,
            Needs::HTTP_REQUEST_META,
            "Milliseconds since the request's first byte",
        ),
        |view, _, _| timer(view, Timers::active, gauge),
    ),
    row(
        time(
            "txn.timer.user",
            valid::STREAM,
            Needs::L5_CLIENT,
            "Milliseconds of the stream without its idle time",
        ),
        |view, _, _| timer(view, Timers::total_user, gauge),
    ),
    row(client("fe_client_timeout", "The frontend's timeout for clients, in milliseconds"), |view, _, _| {
        configured(view.frontend(), |timeouts| timeouts.client)
    }),
    row(client("fe_tarpit_timeout", "The frontend's timeout for tarpits, in milliseconds"), |view, _, _| {
        configured(view.frontend(), |timeouts| timeouts.tarpit)
    }),
    row(
        client("cur_client_timeout", "The stream's timeout for the client, in milliseconds"),
        |view, _, _| current(view, |timeouts| timeouts.client),
    ),
    row(
        time(
            "cur_tarpit_timeout",
            valid::CLIENT,
            Needs::L4_CLIENT,
            "The stream's timeout for tarpits, in milliseconds",
        ),
        |view, _, _| current(view, |timeouts| timeouts.tarpit),
    ),
    row(
        backend("be_connect_timeout", "The backend's timeout for connecting, in milliseconds"),
        |view, _, _| configured(view.backend(), |timeouts| timeouts.connect),
    ),
    row(backend("be_queue_timeout", "The backend's timeout for queues, in milliseconds"), |view, _, _| {
        configured(view.backend(), |timeouts| timeouts.queue)
    }),
    row(backend("be_server_timeout", "The backend's timeout for servers, in milliseconds"), |view, _, _| {
        configured(view.backend(), |timeouts| timeouts.server)
    }),
    row(backend("be_tarpit_timeout", "The backend's timeout for tarpits, in milliseconds"), |view, _, _| {
        configured(view.backend(), |timeouts| timeouts.tarpit)
    }),
    row(backend("be_tunnel_timeout", "The backend's timeout for tunnels, in milliseconds"), |view, _, _| {
        configured(view.backend(), |timeouts| timeouts.tunnel)
    }),
    row(backend("be_max_retries", "How often the backend retries to connect"), |view, _, _| {
        view.backend().map_or(FetchResult::Missing, |backend| number(backend.config.settings.retries))
    }),
    row(
        backend("cur_connect_timeout", "The stream's timeout for connecting, in milliseconds"),
        |view, _, _| current(view, |timeouts| timeouts.connect),
    ),
    row(backend("cur_queue_timeout", "The stream's timeout for queues, in milliseconds"), |view, _, _| {
        current(view, |timeouts| timeouts.queue)
    }),
    row(
        backend("cur_server_timeout", "The stream's timeout for the server, in milliseconds"),
        |view, _, _| current(view, |timeouts| timeouts.server),
    ),
    row(backend("cur_tunnel_timeout", "The stream's timeout for tunnels, in milliseconds"), |view, _, _| {
        current(view, |timeouts| timeouts.tunnel)
    }),
    row(backend("cur_max_retries", "How often the stream may retry to connect"), |view, _, _| {
        of_stream(view, |stream| number(stream.allowed_retries))
    }),
];

fn timer<'c>(
    view: &dyn FetchView,
    which: fn(&Timers) -> i64,
    then: fn(i64) -> FetchResult<'c>,
) -> FetchResult<'c> {
    view.timers().map_or(FetchResult::Missing, |timers| then(which(&timers)))
}

/// A configured timeout of a proxy.
fn configured<'c>(
    proxy: Option<ViewedProxy<'_>>,
    which: fn(&Timeouts) -> Option<Duration>,
) -> FetchResult<'c> {
    proxy.map_or(FetchResult::Missing, |proxy| timeout(which(&proxy.config.settings.timeouts)))
}

/// A current timeout of the stream.
fn current<'c>(view: &dyn FetchView, which: fn(&Timeouts) -> Option<Duration>) -> FetchResult<'c> {
    view.timeouts().map_or(FetchResult::Missing, |timeouts| timeout(which(&timeouts)))
}

/// A disabled timeout is 0.
fn timeout<'c>(timeout: Option<Duration>) -> FetchResult<'c> {
    let milliseconds = timeout.map_or(0, |timeout| timeout.as_millis());
    number(i64::try_from(milliseconds).unwrap_or(i64::MAX))
}

fn since_1970<'c>(microseconds: u64, args: &Args) -> FetchResult<'c> {
    let divisor = match args.str(0) {
        Some(b"us") => 1,
        Some(b"ms") => 1_000,
        _ => 1_000_000,
    };
    number((microseconds / divisor) as i64)
}

fn check_unit(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(0) {
        None | Some(b"" | b"s" | b"ms" | b"us") => Ok(()),
        Some(unit) => {
            Err(format!("unknown unit '{}' (expects 's', 'ms' or 'us')", String::from_utf8_lossy(unit)))
        }
    }
}
