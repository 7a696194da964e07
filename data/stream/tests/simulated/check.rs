//! The checks after every run.

use std::rc::Rc;

use weir_backend::{BackendCounter, FrontendCounter, ServerCounter};
use weir_containers::BufferPool;
use weir_sched::{now, queues, sleep_until};

use crate::application;
use crate::client::Answer;
use crate::engines;
use crate::plan::{How, Upload};
use crate::stage::{Entry, Stage};

/// Waits until all streams have ended, stops the worker, and checks that nothing is held and that everything adds up.
pub(crate) async fn check(stage: &Rc<Stage>) {
    until(stage, "somebody is still served", || stage.instance.connections.inside() == 0).await;
    stage.stop();
    stage.close_servers();
    until(stage, "something is held", || {
        stage.network.held() == 0 && weir_sched::task_count() == stage.own_tasks
    })
    .await;
    stage.lines().iter().for_each(|line| stage.network.note(&line));
    nothing_is_held(stage);
    counters_add_up(stage);
    lines_are_complete(stage);
    engines::check_lines(stage);
    application::check_lines(stage);
}

/// Waits for a condition that must become true.
async fn until(stage: &Stage, what: &str, holds: impl Fn() -> bool) {
    let deadline = now().after(PATIENCE_MS);
    while !holds() {
        assert!(
            now() < deadline,
            "{what}: {} connections, {} sockets, {} tasks beside {}",
            stage.instance.connections.inside(),
            stage.network.held(),
            weir_sched::task_count(),
            stage.own_tasks
        );
        sleep_until(now().after(5)).await;
    }
}

fn nothing_is_held(stage: &Stage) {
    for proxy in &stage.instance.proxies {
        let name = proxy.name();
        assert_eq!(proxy.connections.inside(), 0, "connections of {name}");
        let Some(backend) = &proxy.backend else { continue };
        assert_eq!((backend.sessions(), backend.queued()), (0, 0), "sessions and queue of {name}");
        for server in backend.servers().iter() {
            let server_name = server.name();
            assert_eq!((server.served(), server.queued()), (0, 0), "slots of {name}/{server_name}");
            assert_eq!(server.pools().used(), 0, "connections in use of {name}/{server_name}");
        }
    }
    assert_eq!(stage.instance.process_counters[0].streams_now.value(), 0, "streams");
    assert_eq!(BufferPool::statistics().used, 0, "buffers");
    if let Some(scripts) = &stage.instance.hooks.scripts {
        let [states, held, tasks] = scripts.budgets().map(|budget| budget.taken());
        assert_eq!((held, tasks), (0, 0), "bytes that wait for scripts, and their tasks");
        assert!(states <= SCRIPT_MEMORY, "{states} bytes in states of scripts");
    }
    assert!(weir_stream::worker::sessions().is_empty(), "sessions");
    // Timers may remain for the keeper of idle connections, for this check, and for a postponed deadline.
    assert!(queues().timers <= 2, "{} timers", queues().timers);
}

fn counters_add_up(stage: &Stage) {
    if !stage.multiplexed.get() {
        bytes_add_up(stage);
    }
    for proxy in &stage.instance.proxies {
        let name = proxy.name();
        let front = |counter| proxy.frontend_counters.sum(counter);
        let back = |counter| proxy.backend_counters.sum(counter);
        assert!(front(FrontendCounter::Sessions) <= front(FrontendCounter::Connections), "{name}");
        let Some(backend) = &proxy.backend else { continue };
        let servers = backend.servers();
        let sum = |counter| servers.iter().map(|server| server.counters().sum(counter)).sum::<u64>();
        assert_eq!(
            (back(BackendCounter::Connects), back(BackendCounter::Reuses)),
            (sum(ServerCounter::Connects), sum(ServerCounter::Reuses)),
            "connects and reuses of {name}"
        );
        assert_eq!(back(BackendCounter::Retries), sum(ServerCounter::Retries), "retries of {name}");
        assert!(
            sum(ServerCounter::BytesOut) <= back(BackendCounter::BytesOut),
            "what servers sent left through {name}"
        );
    }
}

/// Checks that the counters equal the bytes that scripts sent and received, except for bytes lost in transit.
fn bytes_add_up(stage: &Stage) {
    let sum = |counter| -> u64 {
        stage.instance.proxies.iter().map(|proxy| proxy.frontend_counters.sum(counter)).sum()
    };
    let (sent, received) = stage.of_clients.get();
    let (counted_in, counted_out) = (sum(FrontendCounter::BytesIn), sum(FrontendCounter::BytesOut));
    let (servers_sent, servers_received) = stage.of_servers.get();
    let (to_servers, from_servers) =
        (sum(FrontendCounter::RequestBytesOut), sum(FrontendCounter::ResponseBytesIn));
    if stage.faulty || stage.left_early() {
        assert!(
            counted_in <= sent && received <= counted_out,
            "{counted_in} {sent}, {received} {counted_out}"
        );
        assert!(from_servers <= servers_sent, "{from_servers} came of {servers_sent}");
        assert!(servers_received <= to_servers, "{servers_received} arrived of {to_servers}");
    } else {
        // The rest of the body of a request that was answered locally is read and discarded.
        let thrown_away = stage.ledger.borrow().values().any(|entry| entry.request.how.is_local());
        assert!(counted_in == sent || (thrown_away && counted_in < sent), "{counted_in} bytes in of {sent}");
        assert_eq!(counted_out, received, "bytes out");
        assert_eq!((from_servers, to_servers), (servers_sent, servers_received), "bytes of servers");
    }
}

/// A log line in the format of the scenarios.
#[derive(Debug)]
struct Line<'l> {
    proxy: &'l str,
    ending: &'l str,
    status: i32,
    up: u64,
    down: u64,
    path: &'l str,
}

impl Line<'_> {
    fn is_of(&self, entry: &Entry) -> bool {
        let mut words = self.path.split('/');
        words.nth(1).is_some_and(|id| id == entry.request.id.to_string())
    }
}

fn parse(line: &str) -> Line<'_> {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("{line:?} is too short"));
    let (proxy, _server, ending) = (word(), word(), word());
    let status = word().parse().unwrap_or_else(|_| panic!("{line:?}"));
    let up = word().parse().unwrap_or_else(|_| panic!("{line:?}"));
    let down = word().parse().unwrap_or_else(|_| panic!("{line:?}"));
    Line { proxy, ending, status, up, down, path: word() }
}

/// Whether a line does not report a stream.
fn is_of_another_kind(line: &str) -> bool {
    line.starts_with("Proxy ") || line.starts_with("SPOE: ") || application::is_of_error_output(line)
}

fn lines_are_complete(stage: &Stage) {
    let (lines, ledger) = (stage.lines(), stage.ledger.borrow());
    let lines: Vec<Line<'_>> =
        lines.iter().filter(|line| !is_of_another_kind(line)).map(|line| parse(line)).collect();
    for proxy in stage.instance.proxies.iter().filter(|proxy| proxy.config.is_frontend()) {
        let name = proxy.name();
        let own = || lines.iter().filter(|line| line.proxy == name);
        let front = |counter| proxy.frontend_counters.sum(counter);
        // In HTTP mode the log counts another form of the response head, as HAProxy does. See `note_head_size`.
        let (up, down) = own().fold((0, 0), |sum, line| (sum.0 + line.up, sum.1 + line.down));
        let counted = front(FrontendCounter::BytesIn);
        // A request that an HTTP/2 client retries is counted twice and logged once.
        let all_logged = !stage.multiplexed.get()
            && ledger.values().all(|entry| lines.iter().any(|line| line.is_of(entry)));
        let agrees = if all_logged { up == counted } else { up <= counted };
        assert!(agrees, "{up} bytes in the log, {counted} in the counters of {name}");
        if !proxy.is_http() {
            assert_eq!(
                down,
                front(FrontendCounter::BytesOut),
                "bytes out of the log and the counters of {name}"
            );
        }
        if !proxy.is_http() {
            assert_eq!(own().count() as u64, front(FrontendCounter::Sessions), "one line for each session");
            continue;
        }
        let answered = own().filter(|line| line.status > 0).count() as u64;
        let statuses = [
            FrontendCounter::Http1xx,
            FrontendCounter::Http2xx,
            FrontendCounter::Http3xx,
            FrontendCounter::Http4xx,
            FrontendCounter::Http5xx,
        ];
        let counted: u64 = statuses.into_iter().map(front).sum();
        assert_eq!(answered, counted, "statuses of the log and the counters of {name}");
    }
    for entry in ledger.values() {
        let own: Vec<&Line<'_>> = lines.iter().filter(|line| line.is_of(entry)).collect();
        let answer = entry.answer.unwrap_or_default();
        assert!(own.len() <= 1, "two lines for one request: {own:?}");
        if answer.from_server {
            assert_eq!(own.len(), 1, "no line for {entry:?}");
            assert_eq!(own[0].status, i32::from(answer.status), "{own:?} of {entry:?}");
        }
        if entry.arrived > 0 {
            // A client on a reused connection detects a server's close only by the close of its own connection.
            let unlogged = !entry.first && answer == Answer::default();
            assert!(own.len() == 1 || unlogged, "no line for {entry:?}");
        }
        let most = match entry.request.upload {
            _ if !stage.faulty => 1,
            Upload::None => stage.most_arrivals.get(),
            _ => stage.most_arrivals.get() - 1,
        };
        assert!(entry.arrived <= most, "{entry:?} arrived more than once");
        if !stage.faulty && stage.left_early() {
            assert!(entry.arrived == 0 || answer.complete, "{entry:?} was not served to its end: {own:?}");
        } else if !stage.faulty && entry.request.how.is_local() {
            let has_body = entry.request.how == How::Datagrams;
            let is_right = answer.complete && answer.from_server == has_body && entry.arrived == 0;
            assert!(is_right, "{entry:?}: {own:?}");
            assert!(["PR", "LR", "PT"].contains(&own[0].ending), "{own:?}");
        } else if !stage.faulty {
            assert!(answer.complete && answer.from_server && entry.arrived == 1, "{entry:?}: {own:?}");
            assert_eq!(own[0].ending, "--", "{entry:?}");
        }
    }
}

/// The memory of a state in bytes, with garbage.
const SCRIPT_MEMORY: usize = 4 << 20;
/// Time limit for a worker, in virtual milliseconds. Longer than all timeouts.
const PATIENCE_MS: u64 = 600_000;
