//! D4: after a warm-up, an HTTP/1 request allocates nothing on its worker but counters for durations that are new, and an idle client takes little memory.

mod support;

use support::threads::Running;
use weir_counting::{CountingAllocator, allocations, live_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const GET: &[u8] =
    b"GET /index.html?a=b HTTP/1.1\r\nHost: www.example.com\r\nUser-Agent: test\r\nAccept: */*\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\n\r\nhello";

/// Checks that a thousand requests of one client, after a warm-up, do not allocate on the worker. A duration allocates
/// counters when its power of two first occurs, so one such thousand is enough.
#[track_caller]
fn check_requests(lines: &str, request: &[u8], response: &[u8]) {
    let text = format!(
        "defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n\
        listen front\n bind 127.0.0.1:1\n{lines}\n server s1 {{s1}}\n"
    );
    let running = Running::start(&text, 1, OK);
    let mut client = running.client();
    for _ in 0..200 {
        client.stream(request, response);
    }
    let mut thousand = || {
        let before = running.run_on(0, allocations);
        for _ in 0..1000 {
            client.stream(request, response);
        }
        running.run_on(0, allocations) - before
    };
    let counted: Vec<u64> = (0..30).map(|_| thousand()).take_while(|counted| *counted > 0).collect();
    assert!(counted.len() < 30, "{lines}: {counted:?}");
}

#[test]
fn a_forwarded_request_allocates_nothing() {
    check_requests("", GET, OK);
}

#[test]
fn a_request_switched_to_a_backend_allocates_nothing() {
    let lines = " use_backend other\nbackend other\n balance roundrobin\n server s0 {s0}";
    check_requests(lines, GET, OK);
}

#[test]
fn a_logged_and_edited_request_allocates_nothing() {
    let lines = " log 127.0.0.1:514 local0\n option httplog\n option forwardfor\n http-request set-header X-One two\n \
        http-response set-header X-Three four";
    let response = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\nX-Three: four\r\n\r\nhello";
    check_requests(lines, GET, response);
}

#[test]
fn a_local_response_allocates_nothing() {
    let lines = " http-request return status 200 content-type text/plain string hello";
    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-type: text/plain\r\n\r\nhello";
    check_requests(lines, GET, response);
}

#[test]
fn a_request_that_uses_a_stick_table_allocates_nothing() {
    let lines = " stick-table type ip size 100 expire 10m store http_req_rate(10s),gpc0\n http-request track-sc0 src\n \
        http-request sc-inc-gpc0(0)\n acl often sc_http_req_rate(0) gt 1000000000\n http-request deny if often";
    check_requests(lines, GET, OK);
}

/// Checks the worker's memory for each of many clients that made one request and stay.
#[test]
fn an_idle_client_holds_under_600_bytes() {
    // Two descriptors each: more than a login has on Debian.
    let limit = weir_sys::process::descriptor_limit();
    weir_sys::process::set_descriptor_limit(weir_sys::process::ResourceLimit { soft: limit.hard, ..limit })
        .expect("a soft limit");
    let text = "defaults\n mode http\n timeout client 300s\n timeout server 30s\n timeout connect 5s\n \
        timeout http-keep-alive 300s\nlisten front\n bind 127.0.0.1:1\n http-reuse always\n server s1 {s1}\n";
    let running = Running::start(text, 1, OK);
    let connect = |count: usize| {
        let connect = |_| {
            let mut client = running.client();
            client.stream(GET, OK);
            client
        };
        (0..count).map(connect).collect::<Vec<_>>()
    };
    // The first clients allocate shared state, and tables that have just doubled are the worst case.
    let first = connect(FIRST);
    let before = running.run_on(0, live_bytes);
    let clients = connect(CLIENTS);
    let held = (running.run_on(0, live_bytes) - before) / CLIENTS as i64;
    println!("{held} bytes for each of {CLIENTS} idle clients");
    assert!(held < 600, "{held} bytes for each idle client");
    drop((first, clients));
}

const FIRST: usize = 24;
const CLIENTS: usize = 1000;
