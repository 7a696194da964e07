//! Reduced cases of failed seeds: a network and a script.

use std::rc::Rc;

use weir_sched::now;
use weir_sched::simulate::network::{Conditions, SimulatedPeer};

use crate::course::Course;
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
