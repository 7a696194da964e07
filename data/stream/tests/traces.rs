//! Traces of requests and their bodies. Tracing is global to the process, so tests run one at a time.

mod support;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use support::{World, plain, plain_tcp, run};
use weir_events::trace::TraceSource;
use weir_events::trace::commands::Traces;
use weir_events::{Sink, Sinks, SyslogFormat};
use weir_sync::Ring;
use weir_sync::ring::{ReaderWait, Seek};

const GET: &str = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
static SOURCES: &[&TraceSource] = &[
    &weir_stream::trace::SESSION,
    &weir_stream::trace::STREAM,
    &weir_stream::trace::H1,
    &weir_stream::trace::PT,
];

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn traced_lines(ring: &Arc<Ring>) -> Vec<String> {
    let mut lines = Vec::new();
    ring.attach(Seek::Oldest, ReaderWait::No).expect("no other reader").read(|message| {
        let mut bytes = Vec::new();
        message.append_to(&mut bytes);
        lines.push(String::from_utf8(bytes).expect("text"));
        true
    });
    lines
}

#[test]
fn traces_a_request_from_session_start_to_stream_end() {
    let _turn = turn();
    let ring = Ring::in_memory(65_536, 1);
    let theirs = Arc::clone(&ring);
    run(plain(""), |world| async move {
        let mut sinks = Sinks::default();
        sinks.add(Sink::ring("r", "r", SyslogFormat::Raw, 1024, theirs));
        let traces = Traces { sources: SOURCES, sinks: &sinks };
        let obey = |line: &str| traces.command(&line.split(' ').collect::<Vec<_>>()).expect("it is right");
        obey("all sink r level data");
        obey("h1 verbosity complete");
        obey("stream verbosity simple");
        // Traces one session from its beginning to its end, then the next. Other sources are limited to that session.
        obey("all follow session");
        obey("session start sess_new pause sess_end lock session");
        for _ in 0..2 {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
            server.send(OK).await;
            client.head().await;
            world.log().await;
            client.finish();
            client.rest().await;
            drop(server);
            world.check_idle().await;
        }
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nbad name: x\r\n\r\n").await;
        client.finish();
        assert!(client.rest().await.starts_with("HTTP/1.1 400"));
        world.check_idle().await;
        obey("0");
    });
    let lines = traced_lines(&ring);
    let of =
        |event: &str| lines.iter().filter(|line| line.contains(&format!("|{event}] "))).collect::<Vec<_>>();
    let text = lines.join("\n");
    assert_eq!((of("sess_new").len(), of("sess_end").len()), (3, 3), "{text}");
    assert_eq!((of("strm_new").len(), of("strm_end").len(), of("strm_err").len()), (3, 3, 1), "{text}");
    assert!(of("strm_conn")[0].contains(" fe=front be=front srv=s1 connects"), "{text}");
    assert!(of("strm_state").iter().any(|line| line.contains("phase=Headers")), "{text}");
    assert!(of("strm_end")[0].contains("status=200 code=--"), "{text}");
    // R191: the fill of the buffers, with head and tail, which explains waits; flags in words; the proxy and its side.
    let request = of("rx_req")[0];
    assert!(request.contains(" request of front side=front: GET /x flags=host "), "{text}");
    assert!(request.contains("\"host: x\"") && request.contains(" front(writable in="), "{text}");
    let size =
        of("rx_req")[0].split_once(" in=").and_then(|(_, rest)| rest.split_once(' ')).expect("a size").0;
    let length = GET.len();
    assert!(size.starts_with(&format!("{length}/")), "{text}");
    assert!(request.contains(&format!(" head=0 tail={length} out=0)")), "{text}");
    let response = of("rx_res")[0];
    assert!(response.contains(" response of front side=back: 200 flags=content-length "), "{text}");
    assert!(response.contains(" front(writable in=0/0 head=0 tail=0 out=0) back(writable in="), "{text}");
    assert!(of("rx_wait")[0].contains(" response of front side=back front("), "{text}");
    assert!(of("strm_end")[0].contains(" flags=request,response,keep-client,"), "{text}");
    assert_eq!(of("rx_err").len(), 1, "{text}");
    assert!(of("rx_err")[0].contains(" request of front side=front: InvalidName at "), "{text}");
    assert!(lines[0].starts_with("[01|session|1|sess_new] front from 127.0.0.1:"), "{text}");
}

/// The traces of bodies, without the number of the stream, while `script` runs.
fn traced_bodies<F: Future<Output = ()>>(
    text: String,
    script: impl FnOnce(World) -> F + 'static,
) -> Vec<String> {
    let _turn = turn();
    let ring = Ring::in_memory(65_536, 1);
    let theirs = Arc::clone(&ring);
    run(text, |world| async move {
        let mut sinks = Sinks::default();
        sinks.add(Sink::ring("r", "r", SyslogFormat::Raw, 1024, theirs));
        let traces = Traces { sources: SOURCES, sinks: &sinks };
        let obey = |line: &str| traces.command(&line.split(' ').collect::<Vec<_>>()).expect("it is right");
        for source in ["h1", "pt"] {
            obey(&format!("{source} event any sink r level data verbosity clean start now"));
        }
        for event in ["rx_req", "rx_res", "rx_wait"] {
            obey(&format!("h1 event -{event}"));
        }
        script(world).await;
        obey("0");
        obey("h1 event any");
    });
    let short = |line: &String| {
        let (event, rest) = line.split_once("] #").expect("a stream");
        let (_, what) = rest.split_once(' ').expect("what it is about");
        let what = what.replace(" of front side=", " ");
        format!("{} {what}", event.rsplit('|').next().unwrap_or_default())
    };
    traced_lines(&ring).iter().map(short).collect()
}

/// The sum of the bytes of one event on one side. The last `total=` must equal it.
#[track_caller]
fn sum(lines: &[String], beginning: &str) -> u64 {
    let number = |line: &str, name: &str| {
        let rest = line.split_once(name).map_or("0", |(_, rest)| rest);
        rest.split(' ').next().and_then(|digits| digits.parse::<u64>().ok()).expect("a number")
    };
    let lines: Vec<_> = lines.iter().filter(|line| line.starts_with(beginning)).collect();
    let sum = lines.iter().map(|line| number(line, "bytes=")).sum();
    assert_eq!(lines.last().map_or(0, |line| number(line, "total=")), sum, "{beginning}");
    sum
}

/// R191: the position of bytes, from the receiving side to the sending side.
#[test]
fn traces_received_and_sent_bytes_of_bodies() {
    let lines = traced_bodies(plain(""), |world| async move {
        let mut client = world.client();
        client.send("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 7\r\n\r\nabc").await;
        let mut server = world.accept("s1").await;
        server.expect("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 7\r\n\r\nabc").await;
        client.send("defg").await;
        server.expect("defg").await;
        server.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        client.head().await;
        client.expect("5\r\nhello\r\n").await;
        server.send("0\r\nx: y\r\n\r\n").await;
        client.expect("0\r\nx: y\r\n\r\n").await;
        world.log().await;
    });
    assert_eq!(
        lines,
        [
            "rx_body request front: bytes=3 total=3",
            "tx_body request back: bytes=3 total=3 how=head",
            "rx_body request front: bytes=4 total=7",
            "rx_eoi request front: total=7",
            "tx_body request back: bytes=4 total=7",
            "tx_eoi request back: total=7",
            "rx_body response back: bytes=5 total=5",
            // Sent bytes are counted as on the wire.
            "tx_body response front: bytes=10 total=10 how=head",
            "rx_trailerus response back: bytes=6 total=6",
            "rx_eoi response back: total=5",
            "tx_body response front: bytes=11 total=21",
            "tx_trailerus response front: bytes=6 total=6",
            "tx_eoi response front: total=21",
        ]
    );
}

/// An edited head is sent in one call with the available part of the body, the last bytes with the FIN.
#[test]
fn traces_whether_a_body_is_sent_with_its_head_or_a_fin() {
    let lines = traced_bodies(plain("http-response set-header a b"), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server.send(OK).await;
        assert!(client.rest().await.ends_with("ok"));
        world.log().await;
    });
    assert_eq!(
        lines,
        [
            "rx_body response back: bytes=2 total=2",
            "rx_eoi response back: total=2",
            "tx_body response front: bytes=2 total=2 how=head",
            "tx_eoi response front: total=2 how=fin",
        ]
    );
}

#[test]
fn a_body_received_after_its_head_is_traced_as_a_separate_send() {
    for rule in ["", "http-response set-header a b"] {
        let lines = traced_bodies(plain(rule), |world| async move {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.head().await;
            server.send(OK.trim_end_matches("ok")).await;
            client.head().await;
            server.send("ok").await;
            client.expect("ok").await;
            world.log().await;
        });
        assert_eq!(lines[0], "rx_body response back: bytes=2 total=2");
        assert_eq!(lines[2], "tx_body response front: bytes=2 total=2");
    }
}

#[test]
fn traces_dropped_trailers_only_as_received() {
    let lines = traced_bodies(plain("option http-drop-response-trailers"), |world| async move {
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.head().await;
        server
            .send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx: y\r\n\r\n")
            .await;
        client.head().await;
        client.expect("2\r\nok\r\n0\r\n\r\n").await;
        world.log().await;
    });
    assert_eq!(
        lines,
        [
            "rx_body response back: bytes=2 total=2",
            "rx_trailerus response back: bytes=6 total=6",
            "rx_eoi response back: total=2",
            "tx_body response front: bytes=12 total=12 how=head",
            "tx_eoi response front: total=12",
        ]
    );
}

/// A local reply is sent from memory. A request is resent after its server failed.
#[test]
fn traces_bodies_of_local_replies_and_resent_requests() {
    let rules = "http-request return status 200 content-type a/b string hello if { path /own }\n \
        retry-on empty-response\n retries 1\n option redispatch";
    let lines = traced_bodies(plain(rules), |world| async move {
        let mut client = world.client();
        client.send("GET /own HTTP/1.1\r\nhost: x\r\n\r\n").await;
        client.head().await;
        client.expect("hello").await;
        world.log().await;
        let request = "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\n\r\nabc";
        client.send(request).await;
        let mut server = world.accept("s1").await;
        server.expect(request).await;
        drop(server);
        let mut server = world.accept("s1").await;
        server.expect(request).await;
        server.send("HTTP/1.1 204 None\r\n\r\n").await;
        client.head().await;
        world.log().await;
    });
    let again = ["tx_body request back: bytes=3 total=3 how=head", "tx_eoi request back: total=3"];
    assert_eq!(
        lines[..4],
        [
            "tx_body response front: bytes=5 total=5 how=head",
            "tx_eoi response front: total=5",
            "rx_body request front: bytes=3 total=3",
            "rx_eoi request front: total=3",
        ]
    );
    assert_eq!(lines[4..], [again, again].concat());
}

#[test]
fn traces_malformed_and_truncated_bodies() {
    let lines = traced_bodies(plain(""), |world| async move {
        for answer in ["transfer-encoding: chunked\r\n\r\n2\r\nok\r\n", "content-length: 9\r\n\r\nok"] {
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.head().await;
            server.send(format!("HTTP/1.1 200 OK\r\n{answer}")).await;
            client.head().await;
            client.read(2).await;
            server.send("x").await;
            drop(server);
            client.rest().await;
            world.log().await;
        }
    });
    let refused: Vec<_> = lines.iter().filter(|line| line.starts_with("rx_err")).collect();
    assert_eq!(refused, ["rx_err response back: body Malformed", "rx_err response back: body Truncated"]);
}

/// Spliced bytes are traced like others, in TCP mode by another source.
#[test]
fn traces_spliced_bytes() {
    const ALL: usize = 400_000;
    let check = |text: String, request: &'static str, answer: &'static str, names: [&str; 2]| {
        let lines = traced_bodies(text, move |world| async move {
            let mut client = world.client();
            client.send(request).await;
            let mut server = world.accept("s1").await;
            server.expect(request).await;
            server.send(answer).await;
            client.expect(answer).await;
            client.send("ping").await;
            server.expect("ping").await;
            let (bytes, mut sent, mut got) = (vec![b'x'; ALL], 0, 0);
            while got < ALL {
                sent += server.send_some(&bytes[sent..]);
                weir_sched::yield_now().await;
                got += client.read((sent - got).min(50_000)).await.len();
            }
            server.finish();
            client.finish();
            client.closed().await;
            world.log().await;
        });
        let text = lines.join("\n");
        let [came, left] = names;
        let before = if came == "pt_rx_data" { request.len() as u64 } else { 0 };
        assert_eq!(sum(&lines, &format!("{came} request front")), before + 4, "{text}");
        assert_eq!(sum(&lines, &format!("{left} request back")), before + 4, "{text}");
        let before = if came == "pt_rx_data" { answer.len() } else { 0 };
        assert_eq!(sum(&lines, &format!("{came} response back")), (before + ALL) as u64, "{text}");
        assert_eq!(sum(&lines, &format!("{left} response front")), (before + ALL) as u64, "{text}");
        let piped = lines.iter().filter(|line| line.ends_with(" how=pipe")).count();
        assert!(piped >= 2, "{text}");
        lines
    };
    check(plain_tcp("option splice-auto"), "hello", "hi", ["pt_rx_data", "pt_tx_data"]);
    let request = "GET / HTTP/1.1\r\nhost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n";
    let answer = "HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
    let lines = check(plain("option splice-auto"), request, answer, ["rx_body", "tx_body"]);
    let ends: Vec<_> = lines.iter().filter(|line| line.contains("_eoi ")).collect();
    assert_eq!(ends.len(), 4, "{ends:?}");
}
