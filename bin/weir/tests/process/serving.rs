//! Tests of the real binary: it serves traffic, enforces its limits, and stops on request.

use std::os::unix::net::UnixDatagram;
use std::os::unix::process::ExitStatusExt;

use crate::program::{Address, DEFAULTS, Setup, origin, until};
use weir_sys::signal;

/// A frontend that responds without a server.
fn answering(bind: &str, more: &str) -> String {
    format!(
        "{DEFAULTS}
frontend front
    bind {bind}
    {more}
    http-request return status 200 content-type text/plain string hello
"
    )
}

#[test]
fn requests_are_balanced_over_servers() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let (one, two) = (origin("one"), origin("two"));
    let weir = setup.start(&format!(
        "{DEFAULTS}
frontend front
    bind {bind}
    default_backend back
backend back
    balance roundrobin
    server one 127.0.0.1:{one}
    server two 127.0.0.1:{two}
"
    ));
    let mut client = address.connect();
    let bodies: Vec<_> = (0..4).map(|_| client.get("/").body).collect();
    assert_eq!(bodies, ["one", "two", "one", "two"]);
    drop(weir);
}

#[test]
fn bytes_are_forwarded_in_tcp_mode() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let port = origin("raw");
    let _weir = setup.start(&format!(
        "{DEFAULTS}
listen raw
    mode tcp
    bind {bind}
    server one 127.0.0.1:{port}
"
    ));
    let mut client = address.connect();
    assert_eq!(client.get("/").body, "raw");
    assert_eq!(client.get("/").body, "raw");
}

#[test]
fn listens_on_every_kind_of_address() {
    let mut setup = Setup::new();
    let (inherited, tcp) = setup.listener();
    let path = setup.path("front.sock");
    let name = format!("weir-test-{}", std::process::id());
    let text = answering(&format!("{inherited},unix@{},abns@{name}", path.display()), "");
    let _weir = setup.start(&text);
    for address in [tcp, Address::unix(path)] {
        assert_eq!(address.connect().get("/").body, "hello");
    }
    use weir_sys::{Address as Name, AddressFamily, socket};
    let padded = Name::Abstract(weir_net_padded(name.as_bytes()));
    let socket = socket::stream(AddressFamily::Unix).expect("a socket");
    assert_eq!(socket::connect(&socket, &padded), Ok(true));
}

/// A name as for `abns@`: padded to the full length of the kernel's address field.
fn weir_net_padded(name: &[u8]) -> Box<[u8]> {
    let mut padded = name.to_vec();
    padded.resize(107, 0);
    padded.into()
}

#[test]
fn connections_above_maxconn_wait_until_one_ends() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let _weir = setup.start(&answering(&format!("{bind} maxconn 2"), ""));
    let mut first = address.connect();
    let mut second = address.connect();
    assert_eq!((first.get("/").body, second.get("/").body), ("hello".to_owned(), "hello".to_owned()));
    let mut third = address.connect();
    third.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(third.is_silent(), "the limit is reached");
    drop(first);
    assert_eq!(third.response().body, "hello");
    drop(second);
}

#[test]
fn a_rate_limit_delays_sessions_without_refusing_them() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let _weir = setup.start(&answering(&bind, "rate-limit sessions 50"));
    for _ in 0..60 {
        assert_eq!(address.connect().get("/").body, "hello");
    }
}

#[test]
fn a_soft_stop_waits_for_the_last_response() {
    let setup = Setup::new();
    let path = setup.path("front.sock");
    let mut weir = setup.start(&answering(&format!("unix@{}", path.display()), ""));
    let address = Address::unix(&path);
    let mut busy = address.connect();
    let mut idle = address.connect();
    assert_eq!((busy.get("/").body, idle.get("/").body), ("hello".to_owned(), "hello".to_owned()));
    busy.send("GET / HTTP/1.1\r\n");
    weir.signal(signal::SIGUSR1);
    until("nobody listens", || address.try_connect().is_none().then_some(()));
    assert_eq!(idle.rest(), "", "an idle connection is closed");
    assert!(!weir.ended(), "a request is in progress");
    busy.send("Host: test\r\n\r\n");
    let response = busy.response();
    assert!(response.head.to_ascii_lowercase().contains("connection: close"), "{}", response.head);
    assert_eq!((response.body.as_str(), weir.wait().code()), ("hello", Some(0)));
    weir.says("Proxy front stopped (cumulated conns: FE: ");
}

#[test]
fn hard_stop_after_ends_a_soft_stop() {
    let setup = Setup::new();
    let path = setup.path("front.sock");
    let text =
        format!("global\n    hard-stop-after 50ms\n{}", answering(&format!("unix@{}", path.display()), ""));
    let mut weir = setup.start(&text);
    let mut client = Address::unix(&path).connect();
    assert_eq!(client.get("/").body, "hello");
    client.send("GET / HTTP/1.1\r\n");
    weir.signal(signal::SIGUSR1);
    assert_eq!((weir.wait().code(), client.rest().as_str()), (Some(0), ""));
}

#[test]
fn sigterm_and_sigint_end_the_process_by_that_signal() {
    for number in [signal::SIGTERM, signal::SIGINT] {
        let mut setup = Setup::new();
        let (bind, address) = setup.listener();
        let mut weir = setup.start(&answering(&bind, ""));
        let mut client = address.connect();
        assert_eq!(client.get("/").body, "hello");
        weir.signal(number);
        assert_eq!((weir.wait().signal(), client.rest().as_str()), (Some(number), ""));
    }
}

#[test]
fn sigttou_pauses_and_sigttin_resumes_the_listeners() {
    let setup = Setup::new();
    let path = setup.path("front.sock");
    let mut weir = setup.start(&answering(&format!("unix@{}", path.display()), ""));
    let address = Address::unix(&path);
    assert_eq!(address.connect().get("/").body, "hello");
    weir.signal(signal::SIGTTOU);
    weir.says("Paused frontend front.");
    // A paused listener on a path keeps its socket, so connections wait in the backlog.
    let mut client = address.connect();
    client.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n");
    assert!(client.is_silent());
    weir.signal(signal::SIGTTIN);
    weir.says("Resumed frontend front.");
    assert_eq!(client.response().body, "hello");
}

#[test]
fn resumes_if_pause_and_resume_signals_are_pending_together() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let weir = setup.start(&answering(&bind, ""));
    assert_eq!(address.connect().get("/").body, "hello");
    for _ in 0..20 {
        // Usually both signals are pending when they are read. A connection made during the pause waits for the end of the pause.
        weir.signal(signal::SIGTTOU);
        weir.signal(signal::SIGTTIN);
        assert_eq!(address.connect().get("/").body, "hello");
    }
}

#[test]
fn a_new_process_takes_over_the_listening_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("front.sock");
    let address = Address::unix(&path);
    let text = answering(&format!("unix@{}", path.display()), "");
    let mut old = Setup::new().start(&text);
    let mut client = address.connect();
    assert_eq!(client.get("/").body, "hello");
    let new =
        Setup::new().argument("-sf").argument(old.id().to_string()).start(&text.replace("hello", "again"));
    assert_eq!(old.wait().code(), Some(0), "its connection is idle, so nothing holds it");
    assert_eq!(address.connect().get("/").body, "again");
    drop(new);
}

#[test]
fn the_stats_socket_answers_commands() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let path = setup.path("cli");
    let text =
        format!("global\n    stats socket unix@{} level admin\n{}", path.display(), answering(&bind, ""));
    let _weir = setup.start(&text);
    assert_eq!(address.connect().get("/").body, "hello");
    let mut operator = Address::unix(path).connect();
    operator.send("show info;show stat\n");
    let answer = operator.rest();
    assert!(answer.contains("\nCurrConns: ") && answer.contains("front,FRONTEND,"), "{answer}");
}

#[test]
fn requests_are_logged_to_a_syslog_socket() {
    let mut setup = Setup::new();
    let (bind, address) = setup.listener();
    let path = setup.path("log");
    let daemon = UnixDatagram::bind(&path).expect("the folder is ours");
    daemon.set_read_timeout(Some(crate::program::PATIENCE)).expect("a positive time");
    let more = format!("option httplog\n    log {} local0", path.display());
    let _weir = setup.start(&answering(&bind, &more));
    assert_eq!(address.connect().get("/logged").body, "hello");
    let mut line = [0; 1024];
    let length = daemon.recv(&mut line).expect("a line comes");
    let line = String::from_utf8_lossy(&line[..length]);
    assert!(line.starts_with("<134>") && line.contains("\"GET /logged HTTP/1.1\""), "{line}");
}
