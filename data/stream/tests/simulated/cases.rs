//! Reduced cases of failed seeds: a network and a script.

use std::rc::Rc;

use weir_sched::now;
use weir_sched::simulate::network::{Conditions, SimulatedPeer};

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

/// A `100 Continue` that does not fit the client's window is sent when there is room, while the proxy waits for the body.
#[test]
fn a_100_continue_is_sent_in_parts_to_a_narrow_client_window() {
    let narrow = Conditions { window: 16, ..Conditions::CALM };
    case(narrow, " option http-buffer-request", |stage| async move {
        let client = stage.client();
        client
            .send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n")
            .await
            .unwrap();
        let began = now();
        expect(&client, "HTTP/1.1 100 Continue\r\n\r\n").await;
        assert!(now().since(began) < 1000, "it waits for nothing else");
        stage.client_ends(&client);
    });
}

/// A client that ends its side amid its body, while an engine waits for an agent: only bytes of the body are counted as such, although
/// the head before them was not forwarded yet.
#[test]
fn a_body_that_ends_during_an_exchange_is_counted_without_its_head() {
    let lines = " no option abortonclose
 filter spoe engine e config engine.conf
backend agents
 mode spop
 server a1 {silent}
--- engine.conf
[e]
spoe-message check
 args path
 event on-frontend-http-request
spoe-agent agent
 messages check
 timeout processing 500ms
 use-backend agents";
    case(Conditions::CALM, lines, |stage| async move {
        stage.close_service("silent");
        weir_sched::sleep_until(now().after(1)).await;
        assert!(stage.listen_again("silent"));
        stage.host_with("silent", |peer| async move {
            while peer.receive(1_000).await.is_ok_and(|bytes| !bytes.is_empty()) {}
        });
        let request = PlannedRequest {
            id: stage.next_id(),
            method: "POST",
            upload: Upload::Length(100),
            how: How::Length,
            download: 0,
            delay_ms: 0,
            expects: false,
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
