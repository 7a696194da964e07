//! Reduced cases of failed seeds: a network and a script.

use std::rc::Rc;

use weir_sched::simulate::network::{Conditions, SimulatedPeer};
use weir_sched::{Tick, now};
use weir_spop::testing::{write_ack, write_agent_hello};
use weir_spop::{SpopFrameKind, frame};

use crate::client::Answer;
use crate::course::Course;
use crate::plan::{How, PlannedRequest, Upload};
use crate::stage::Stage;
use crate::{count_panics, run_course};

const HTTP: &str = "defaults
 mode http
 timeout client 10s
 timeout server 10s
 timeout connect 4s
 log stdout format raw local0
 log-format \"%f %b/%s %ts %ST %U %B %HU\"
listen front
 bind 127.0.0.1:1
 server s1 {s1}
";

/// Runs a proxy with these lines and a script for its clients. The servers follow the requests' paths. The checks of every run
/// apply here too.
#[track_caller]
fn case<F: Future<Output = ()> + 'static>(
    conditions: Conditions,
    lines: &str,
    script: impl FnOnce(Rc<Stage>) -> F + Send + 'static,
) {
    count_panics();
    let course = Course { faulty: true, conditions, buffers: None, stop_after_ms: None };
    let outcome = run_course(1, course, format!("{HTTP}{lines}\n"), |stage| {
        stage.host_all();
        stage.play(script(Rc::clone(&stage)));
    });
    assert!(outcome.is_ok(), "{outcome:?}");
}

async fn expect(peer: &SimulatedPeer, expected: &str) {
    let mut came = String::new();
    while came.len() < expected.len() {
        let bytes = peer.receive(expected.len() - came.len()).await.expect("the connection lives");
        assert!(!bytes.is_empty(), "only {came:?} came");
        came.push_str(&String::from_utf8_lossy(&bytes));
    }
    assert_eq!(came, expected);
}

/// A client of a request that expects `100 Continue`, once it has received that.
async fn continued(stage: &Stage) -> SimulatedPeer {
    let client = stage.client();
    client
        .send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n")
        .await
        .unwrap();
    let began = now();
    expect(&client, "HTTP/1.1 100 Continue\r\n\r\n").await;
    assert!(now().since(began) < 1000, "it waits for nothing else");
    client
}

/// A `100 Continue` that does not fit the client's window is sent when there is room, while the proxy waits for the body.
#[test]
fn a_100_continue_is_sent_in_parts_to_a_narrow_client_window() {
    let narrow = Conditions { window: 16, ..Conditions::CALM };
    case(narrow, " option http-buffer-request", |stage| async move {
        let client = continued(&stage).await;
        stage.client_ends(&client);
    });
}

/// The same while a service of a script reads the body.
#[test]
fn a_100_continue_of_a_service_is_sent_in_parts_to_a_narrow_client_window() {
    let narrow = Conditions { window: 16, ..Conditions::CALM };
    case(narrow, SERVICE, |stage| async move {
        let client = continued(&stage).await;
        client.send(b"x").await.unwrap();
        expect(&client, "HTTP/1.1 200 OK\r\n").await;
        stage.client_ends(&client);
    });
}

/// A service that reads the whole body.
const SERVICE: &str = " use_backend scripted
global
 tune.lua.bool-sample-conversion normal
 lua-load read.lua
backend scripted
 http-request use-service lua.read
--- read.lua
core.register_service('read', 'http', function(applet)
    applet:receive()
    applet:set_status(200)
    applet:start_response()
end)";

/// An engine with an agent that the script plays, for the end of a `listen` section.
const ENGINE: &str = " filter spoe engine e config engine.conf
backend agents
 mode spop
 server a1 {agent}
--- engine.conf
[e]
spoe-message check
 args path
 event on-frontend-http-request
spoe-agent agent
 messages check
 timeout processing 5s
 use-backend agents";

/// A request without a body that its server answers at once.
fn get(stage: &Stage) -> PlannedRequest {
    let request = PlannedRequest {
        id: stage.next_id(),
        method: "GET",
        upload: Upload::None,
        how: How::Length,
        download: 0,
        delay_ms: 0,
        expects: false,
    };
    stage.note_request(&request, true);
    request
}

/// Replaces the server `agent` by one that runs this script for each connection.
async fn host_agent<F: Future<Output = ()> + 'static>(
    stage: &Rc<Stage>,
    serve: impl Fn(SimulatedPeer) -> F + 'static,
) {
    stage.close_service("agent");
    weir_sched::sleep_until(now().after(1)).await;
    assert!(stage.listen_again("agent"));
    stage.host_with("agent", serve);
}

async fn be_silent(peer: SimulatedPeer) {
    while peer.receive(1_000).await.is_ok_and(|bytes| !bytes.is_empty()) {}
}

/// Answers the hello at once, and each exchange after 100 ms.
async fn answer_late(peer: SimulatedPeer) {
    let (mut held, mut answers) = (Vec::new(), Vec::new());
    loop {
        let at = answers.first().map_or(Tick::NEVER, |(at, _): &(Tick, Vec<u8>)| *at);
        match peer.try_receive(1_000) {
            Ok(Some(bytes)) if bytes.is_empty() => return,
            Ok(Some(bytes)) => held.extend(bytes),
            Ok(None) if at <= now() => peer.send(&answers.remove(0).1).await.expect("it stands"),
            Ok(None) => peer.wait_until(at).await,
            Err(_) => return,
        }
        while let Some((frame, length)) = frame::read(&held, 16_380).expect("a valid frame") {
            let mut out = Vec::new();
            match frame.kind {
                SpopFrameKind::HaproxyHello => write_agent_hello(16_380, true, &mut out),
                SpopFrameKind::Notify => write_ack(frame.stream_id, frame.frame_id, &[], &mut out),
                _ => return,
            }
            let delay_ms = if frame.kind == SpopFrameKind::Notify { 100 } else { 0 };
            answers.push((now().after(delay_ms), out));
            held.drain(..length);
        }
    }
}

/// A client that leaves ends the exchange of its request.
#[test]
fn a_client_that_leaves_ends_an_exchange() {
    case(Conditions::CALM, ENGINE, |stage| async move {
        host_agent(&stage, be_silent).await;
        let client = stage.client();
        client.send(&get(&stage).head()).await.unwrap();
        weir_sched::sleep_until(now().after(100)).await;
        assert_eq!(stage.instance.connections.inside(), 1);
        stage.client_ends(&client);
        drop(client);
        weir_sched::sleep_until(now().after(100)).await;
        assert_eq!(stage.instance.connections.inside(), 0);
    });
}

/// Clients that come at once share one connection to an agent with pipelining, also before its hello, and none waits for another.
#[test]
fn exchanges_share_one_connection() {
    case(Conditions::CALM, ENGINE, |stage| async move {
        host_agent(&stage, answer_late).await;
        for _ in 0..2 {
            let began = now();
            let mut clients = Vec::new();
            for _ in 0..5 {
                let (client, request) = (stage.client(), get(&stage));
                client.send(&request.head()).await.unwrap();
                clients.push((client, request));
            }
            for (client, request) in clients {
                expect(&client, "HTTP/1.1 200 OK\r\n").await;
                stage.answered(&request, Answer { status: 200, from_server: true, complete: true });
                while client
                    .try_receive(1_000)
                    .is_ok_and(|bytes| bytes.is_some_and(|bytes| !bytes.is_empty()))
                {}
                stage.client_ends(&client);
            }
            assert!(now().since(began) < 200, "{} ms", now().since(began));
        }
        let agents =
            stage.instance.proxies.iter().find(|proxy| proxy.name() == "agents").expect("it is there");
        assert_eq!(agents.backend_counters.sum(weir_backend::BackendCounter::Connects), 1);
        assert!(agents.backend_counters.sum(weir_backend::BackendCounter::BytesIn) > 0);
    });
}

/// A client that ends its side amid its body, while an engine waits for an agent: only bytes of the body are counted as such, although
/// the head before them was not forwarded yet.
#[test]
fn a_body_that_ends_during_an_exchange_is_counted_without_its_head() {
    let lines = [" no option abortonclose\n", ENGINE].concat();
    case(Conditions::CALM, &lines, |stage| async move {
        host_agent(&stage, be_silent).await;
        let request = PlannedRequest {
            id: stage.next_id(),
            method: "POST",
            upload: Upload::Length(100),
            ..get(&stage)
        };
        stage.note_request(&request, true);
        let client = stage.client();
        let body = request.body(&stage.network);
        client.send(&[request.head(), body[..10].to_vec()].concat()).await.unwrap();
        weir_sched::sleep_until(now().after(100)).await;
        client.finish();
        while client.receive(1_000).await.is_ok_and(|bytes| !bytes.is_empty()) {}
        stage.answered(&request, Answer::default());
        stage.client_ends(&client);
    });
}
