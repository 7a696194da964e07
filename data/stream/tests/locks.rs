//! D15: a request takes no lock, unless it uses something that all workers share.

mod support;

use support::threads::Running;

const WORKERS: usize = 2;
const GET: &[u8] = b"GET /index.html?a=b HTTP/1.1\r\nHost: www.example.com\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Number of locks that the workers take for a thousand requests of four clients, after a warm-up.
fn locks_of(lines: &str) -> u64 {
    let text = format!(
        "defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n\
        listen front\n bind 127.0.0.1:1\n{lines}\n server s1 {{s1}}\n server s2 {{s2}}\n"
    );
    let running = Running::start(&text, WORKERS, OK);
    let mut clients: Vec<_> = (0..4).map(|_| running.client()).collect();
    let mut requests = |count| {
        for _ in 0..count {
            clients.iter_mut().for_each(|client| client.stream(GET, OK));
        }
    };
    requests(50);
    let measure =
        |on| (0..WORKERS).for_each(|worker| running.run_on(worker, move || weir_sync::measure_locks(on)));
    let count = || {
        let modes = weir_sync::lock_counters().into_iter().flat_map(|counters| counters.modes);
        modes.map(|mode| mode.locks).sum::<u64>()
    };
    let before = count();
    measure(true);
    requests(250);
    measure(false);
    count() - before
}

/// A single test, because the counts are global to the process.
#[test]
fn a_request_locks_only_for_balancing_over_all_workers() {
    let designated = " balance random\n use-server s2 if TRUE";
    let logged = " balance random\n log 127.0.0.1:514 local0\n option httplog\n option forwardfor";
    let in_turn = " balance roundrobin\n server s0 {s0} weight 7";
    for free in [" balance random", " balance first", " balance source", in_turn, designated, logged] {
        assert_eq!(locks_of(free), 0, "{free}");
    }
    assert!(locks_of(" balance leastconn") >= 1_000);
    let limited = " balance roundrobin\n server s0 {s0} maxconn 100";
    assert!(locks_of(limited) >= 1_000);
}
