//! Checks over FastCGI, with a scripted application.

use std::sync::Arc;

use weir_backend::CheckStatus;
use weir_checks::{CheckLoad, CheckPlan, Dial, Script};
use weir_fcgi::ProtocolStatus;
use weir_fcgi::testing::{ApplicationRequest, ScriptedApplication, write_end, write_stdout};
use weir_model::{CheckMethod, CheckScripts, CheckText, HttpRequest, Protocol};
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork};
use weir_sys::Address;

use crate::fixture::{PLACE, TestBackend, pass};

/// A finished check of an application: the received request, and the finding.
struct Run {
    request: ApplicationRequest,
    finding: (CheckStatus, String),
}

/// Checks an application once. `answer` are the records of its response; without any it closes.
fn check(request: HttpRequest, answer: &'static [u8]) -> Run {
    let mut records = Vec::new();
    if !answer.is_empty() {
        write_stdout(1, answer, &mut records);
        write_end(1, 0, ProtocolStatus::RequestComplete, &mut records);
    }
    let run = async move |network: SimulatedNetwork| {
        let backend = TestBackend::new(PLACE, 1);
        let scripts = CheckScripts {
            method: CheckMethod::Http(Arc::new(request)),
            send_state: true,
            ..CheckScripts::default()
        };
        let dial = Dial { protocol: Some(Protocol::Fcgi), ..Dial::default() };
        let plan = CheckPlan { script: Script::of(&scripts), dial: Arc::new(dial), ..backend.plan_of(0) };
        let service = network.listen(&Address::Inet(PLACE)).expect("a free address");
        let checks = backend.checks_of(vec![plan], CheckLoad::new(1, 0));
        checks.start();
        let connection = service.accept().await;
        let mut application = ScriptedApplication::new();
        while application.requests.get(&1).is_none_or(|request| !request.has_stdin) {
            application.receive(&connection.receive(4096).await.expect("it sends a request"));
        }
        let request = application.requests.remove(&1).expect("a request");
        connection.send(&records).await.expect("it stands");
        if answer.is_empty() {
            drop(connection);
        }
        pass(10).await;
        assert_eq!(network.held(), 0, "the check closes its connection");
        Run { request, finding: backend.last(0) }
    };
    network::run(1, Conditions::CALM, run).expect("a worker").outcome.expect("it ends")
}

fn request(method: &str, uri: &str) -> HttpRequest {
    HttpRequest {
        method: Some(method.as_bytes().into()),
        uri: Some(CheckText::Fixed(uri.as_bytes().into())),
        ..HttpRequest::default()
    }
}

fn status_of(answer: &'static [u8]) -> CheckStatus {
    check(request("GET", "/ping"), answer).finding.0
}

#[test]
fn a_check_sends_the_parameters_of_its_request() {
    let said =
        HttpRequest { body: Some(CheckText::Fixed((*b"abc").into())), ..request("POST", "/a%20b?q=1") };
    let Run { request, finding } = check(said, b"Content-Type: a/b\r\n\r\npong");
    assert_eq!((finding.0, &request.stdin[..]), (CheckStatus::L7Ok, &b"abc"[..]));
    for (name, value) in [
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/a%20b?q=1"),
        ("SCRIPT_FILENAME", "/srv/a b"),
        ("QUERY_STRING", "q=1"),
        ("SERVER_PROTOCOL", "HTTP/1.0"),
        ("REMOTE_PORT", "0"),
        ("CONTENT_LENGTH", "3"),
        ("HTTP_CONNECTION", "close"),
    ] {
        assert_eq!(request.param(name), Some(value.as_bytes()), "{name}");
    }
    let state = request.param("HTTP_X_HAPROXY_SERVER_STATE").expect("a field of the check");
    assert!(state.starts_with(b"UP"), "{state:?}");
    assert_eq!((request.param("REMOTE_ADDR"), request.param("HTTP_CONTENT_LENGTH")), (None, None));
}

#[test]
fn a_request_without_a_body_has_a_length_of_zero() {
    for method in ["GET", "POST"] {
        let run = check(request(method, "/"), b"Status: 204\r\n\r\n");
        assert_eq!(
            (run.request.param("CONTENT_LENGTH"), run.finding.0),
            (Some(&b"0"[..]), CheckStatus::L7Ok)
        );
        assert!(run.request.stdin.is_empty());
    }
}

#[test]
fn the_response_decides() {
    assert_eq!(status_of(b"Status: 200 OK\r\n\r\n"), CheckStatus::L7Ok);
    assert_eq!(status_of(b"Content-Type: a/b\r\n\r\n"), CheckStatus::L7Ok);
    assert_eq!(status_of(b"Status: 500\r\n\r\n"), CheckStatus::L7Status);
}

#[test]
fn output_that_is_not_a_response_is_invalid() {
    let Run { finding, .. } = check(request("GET", "/"), b"junk\r\n\r\n");
    let text = "TCPCHK got an empty response at step 2";
    assert_eq!(finding, (CheckStatus::L7Response, text.to_owned()));
}

#[test]
fn an_application_that_closes_fails_the_check() {
    assert_eq!(status_of(b""), CheckStatus::SocketError);
}
