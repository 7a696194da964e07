//! Metrics of backends, frontends and servers, by name.

use weir_backend::FrontendRate;
use weir_backend::Server;
use weir_backend::server::weight;
use weir_expr::SampleType::{Bool, Int};
use weir_expr::{ArgKind, ArgSpec, Args, FetchDecl, FetchResult, Sample, SampleFlags, SampleType, Value};

use super::access::{backend_argument, frontend_argument, server_argument};
use super::values::gauge;
use super::{FetchRow, row, valid};
use crate::view::{FetchView, ViewedProxy};

const BACKEND: ArgSpec = ArgSpec::new(1, &[ArgKind::Backend]);
const FRONTEND: ArgSpec = ArgSpec::new(1, &[ArgKind::Frontend]);
const SERVER: ArgSpec = ArgSpec::new(1, &[ArgKind::Server]);

const fn of(object: ArgSpec, name: &'static str, output: SampleType, help: &'static str) -> FetchDecl {
    FetchDecl::new(name, output, help).args(object).valid(valid::RUNNING)
}

pub(super) const ROWS: &[FetchRow] = &[
    row(of(BACKEND, "be_conn", Int, "Streams of a backend"), |view, args, _| {
        of_backend(view, args, |backend| backend.sessions().into())
    }),
    row(
        of(BACKEND, "be_conn_free", Int, "Free connections of a backend's usable servers"),
        |view, args, _| of_backend(view, args, free_connections),
    ),
    row(of(BACKEND, "be_sess_rate", Int, "New sessions of a backend in the last second"), |view, args, _| {
        let proxy = backend_argument(view, args);
        proxy.map_or(FetchResult::Missing, |proxy| gauge(proxy.backend_counters.rate(0_usize, now_ms())))
    }),
    row(
        of(BACKEND, "connslots", Int, "Free connections and queue places of a backend's servers"),
        |view, args, _| of_backend(view, args, free_places),
    ),
    row(of(BACKEND, "nbsrv", Int, "Usable servers of a backend"), |view, args, _| {
        of_backend(view, args, usable_servers)
    }),
    row(
        of(BACKEND, "queue", Int, "Requests in the queues of a backend and of its servers"),
        |view, args, _| of_backend(view, args, queued),
    ),
    row(
        of(BACKEND, "avg_queue", Int, "Queued requests of a backend for each of its active servers"),
        |view, args, _| of_backend(view, args, average_queue),
    ),
    row(of(FRONTEND, "fe_conn", Int, "Client connections of a frontend"), |view, args, _| {
        of_frontend(view, args, |proxy| proxy.connections.inside())
    }),
    row(of(FRONTEND, "fe_req_rate", Int, "Requests of a frontend in the last second"), |view, args, _| {
        of_frontend(view, args, |proxy| proxy.frontend_counters.rate(FrontendRate::Requests, now_ms()))
    }),
    row(
        of(FRONTEND, "fe_sess_rate", Int, "New sessions of a frontend in the last second"),
        |view, args, _| {
            of_frontend(view, args, |proxy| proxy.frontend_counters.rate(FrontendRate::Sessions, now_ms()))
        },
    ),
    row(of(SERVER, "srv_conn", Int, "Requests that a server serves"), |view, args, _| {
        of_server(view, args, |_, server| server.served().into())
    }),
    row(
        of(SERVER, "srv_conn_free", Int, "Free connections of a server, -1 without a limit"),
        |view, args, _| of_server(view, args, |backend, server| free_of(backend, server).unwrap_or(-1)),
    ),
    row(of(SERVER, "srv_is_up", Bool, "Whether a server is up and not in maintenance"), |view, args, _| {
        let server = server_argument(view, args);
        server.map_or(FetchResult::Missing, |(_, server)| {
            FetchResult::Sample(Sample::new(Value::Bool(server.is_up())).with(SampleFlags::VOLATILE))
        })
    }),
    row(of(SERVER, "srv_queue", Int, "Requests in the queue of a server"), |view, args, _| {
        of_server(view, args, |_, server| server.queued().into())
    }),
    row(of(SERVER, "srv_sess_rate", Int, "New sessions of a server in the last second"), |view, args, _| {
        let Some((_, server)) = server_argument(view, args) else { return FetchResult::Missing };
        gauge(server.counters().rate(0_usize, now_ms()))
    }),
    row(of(SERVER, "srv_weight", Int, "The weight that balancing uses for a server now"), |view, args, _| {
        of_server(view, args, |_, server| {
            weight::displayed(weight::effective(server.user_weight(), server.ramp(now_ms()))).into()
        })
    }),
    row(of(SERVER, "srv_iweight", Int, "The configured weight of a server"), |view, args, _| {
        of_server(view, args, |_, server| server.initial_weight().into())
    }),
    row(of(SERVER, "srv_uweight", Int, "The weight that an operator gave a server"), |view, args, _| {
        of_server(view, args, |_, server| server.user_weight().into())
    }),
];

fn now_ms() -> u64 {
    weir_sched::now().as_ms()
}

fn of_backend<'c>(
    view: &dyn FetchView,
    args: &Args,
    metric: fn(&weir_backend::Backend) -> i64,
) -> FetchResult<'c> {
    let backend = backend_argument(view, args).and_then(|proxy| proxy.backend);
    backend.map_or(FetchResult::Missing, |backend| gauge(metric(backend)))
}

fn of_frontend<'c>(view: &dyn FetchView, args: &Args, metric: fn(ViewedProxy<'_>) -> u32) -> FetchResult<'c> {
    frontend_argument(view, args).map_or(FetchResult::Missing, |proxy| gauge(metric(proxy)))
}

fn of_server<'c>(
    view: &dyn FetchView,
    args: &Args,
    metric: fn(&weir_backend::Backend, &Server) -> i64,
) -> FetchResult<'c> {
    let Some((proxy, server)) = server_argument(view, args) else { return FetchResult::Missing };
    let Some(backend) = proxy.backend else { return FetchResult::Missing };
    gauge(metric(backend, &server))
}

/// The number of usable servers. Backups count only without an active server, and then only the first unless `option allbackups` is
/// set.
fn usable_servers(backend: &weir_backend::Backend) -> i64 {
    let status = backend.status(now_ms());
    i64::from(match status.active {
        0 if backend.settings().all_backups => status.backup,
        0 => status.backup.min(1),
        active => active,
    })
}

fn queued(backend: &weir_backend::Backend) -> i64 {
    let of_servers: i64 = backend.servers().iter().map(|server| i64::from(server.queued())).sum();
    i64::from(backend.queued()) + of_servers
}

/// The queued requests per usable server. Without such a server, the queue counts twice (manual, `avg_queue`).
fn average_queue(backend: &weir_backend::Backend) -> i64 {
    let (queued, servers) = (queued(backend), usable_servers(backend));
    if servers > 0 { (queued + servers - 1) / servers } else { queued * 2 }
}

/// The free connections of a server. `None` without a limit.
fn free_of(backend: &weir_backend::Backend, server: &Server) -> Option<i64> {
    if server.maximum_connections() == 0 {
        return None;
    }
    let limit = weight::slot_limit(
        server.settings().minimum_connections,
        server.maximum_connections(),
        backend.sessions(),
        backend.settings().full_connections,
        server.ramp(now_ms()),
    );
    Some(i64::from(limit.saturating_sub(server.served())))
}

/// The free connections of the servers that would receive the next requests. -1 if one of them is unlimited.
fn free_connections(backend: &weir_backend::Backend) -> i64 {
    let active = backend.status(now_ms()).active > 0;
    let all_backups = backend.settings().all_backups;
    let servers = backend.servers();
    let usable = servers.iter().filter(|server| server.effective_weight(now_ms()) > 0);
    let chosen = usable.filter(|server| !(active && server.settings().backup));
    let wanted = if active || all_backups { usize::MAX } else { 1 };
    chosen.take(wanted).map(|server| free_of(backend, server)).sum::<Option<i64>>().unwrap_or(-1)
}

/// The free connections and queue slots of the servers that are up. -1 if one of them lacks either limit.
fn free_places(backend: &weir_backend::Backend) -> i64 {
    let servers = backend.servers();
    let places = servers.iter().filter(|server| server.is_up()).map(|server| {
        let (connections, queue) = (server.maximum_connections(), server.settings().maximum_queue);
        let limited = connections > 0 && queue > 0;
        limited.then(|| {
            i64::from(connections) - i64::from(server.served()) + i64::from(queue)
                - i64::from(server.queued())
        })
    });
    places.sum::<Option<i64>>().unwrap_or(-1)
}
