//! D4: after a warm-up, an HTTP/1 request allocates nothing on its worker but counters for durations that are new, and an idle client takes little memory.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use support::threads::Running;
use weir_counting::{CountingAllocator, allocations, live_bytes};
use weir_spop::testing::{write_ack, write_agent_hello};
use weir_spop::{ActionScope, AgentAction, SpopFrameKind, TypedData, frame};

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
    check_configuration(&text, request, response, 0);
}

/// [`check_requests`] for a whole configuration with at most `most` allocations for each request.
#[track_caller]
fn check_configuration(text: &str, request: &[u8], response: &[u8], most: u64) {
    let running = Running::start(text, 1, OK);
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
    let counted: Vec<u64> =
        (0..30).map(|_| thousand()).take_while(|counted| *counted > 1000 * most).collect();
    assert!(counted.len() < 30, "{text}: {counted:?}");
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

/// The list of variables, the state of the engine, the session of the exchange with its destination, and the place on the
/// connection.
#[test]
fn an_exchange_with_an_agent_allocates_five_times_per_request() {
    let agent = agent();
    let text = format!(
        "defaults\n mode http\n timeout client 30s\n timeout server 30s\n timeout connect 5s\n\
        listen front\n bind 127.0.0.1:1\n filter spoe engine e config engine.conf\n \
        http-response set-header x-verdict %[var(txn.e.verdict)]\n server s1 {{s1}}\n\
        backend agents\n mode spop\n server a1 {agent}\n\
        --- engine.conf\n[e]\nspoe-agent agent\n messages check\n option var-prefix e\n option set-on-error error\n \
        timeout processing 5s\n use-backend agents\n\
        spoe-message check\n args src=src path=path\n event on-frontend-http-request\n"
    );
    let response = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 5\r\nx-verdict: 7\r\n\r\nhello";
    check_configuration(&text, GET, response, 5);
}

/// An agent that answers each exchange with the same variable.
fn agent() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer_exchanges(stream));
        }
    });
    address
}

fn answer_exchanges(mut stream: TcpStream) {
    let verdict =
        AgentAction::SetVar { scope: ActionScope::Transaction, name: b"verdict", value: TypedData::Int64(7) };
    let (mut held, mut room) = (Vec::new(), [0; 4096]);
    stream.set_nodelay(true).expect("a TCP socket");
    loop {
        match stream.read(&mut room) {
            Ok(0) | Err(_) => return,
            Ok(count) => held.extend_from_slice(&room[..count]),
        }
        while let Some((frame, length)) = frame::read(&held, 16_380).expect("a valid frame") {
            let mut out = Vec::new();
            match frame.kind {
                SpopFrameKind::Notify => write_ack(frame.stream_id, frame.frame_id, &[verdict], &mut out),
                SpopFrameKind::HaproxyHello => write_agent_hello(16_380, true, &mut out),
                _ => return,
            }
            held.drain(..length);
            if stream.write_all(&out).is_err() {
                return;
            }
        }
    }
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
