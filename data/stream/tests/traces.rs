//! What a request tells when it is traced. One test, because what is traced is a setting of the process.

mod support;

use std::sync::Arc;

use support::{plain, run};
use weir_events::trace::Source;
use weir_events::trace::commands::Traces;
use weir_events::{LogFormat, Sink, Sinks};
use weir_sync::Ring;
use weir_sync::ring::{Seek, Wait};

const GET: &str = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
static SOURCES: &[&Source] =
    &[&weir_stream::trace::SESSION, &weir_stream::trace::STREAM, &weir_stream::trace::H1];

fn told(ring: &Arc<Ring>) -> Vec<String> {
    let mut lines = Vec::new();
    ring.attach(Seek::Oldest, Wait::No).expect("no other reader").read(|message| {
        let mut bytes = Vec::new();
        message.append_to(&mut bytes);
        lines.push(String::from_utf8(bytes).expect("text"));
        true
    });
    lines
}

#[test]
fn a_request_is_told_from_its_session_to_its_end() {
    let ring = Ring::in_memory(65_536, 1);
    let theirs = Arc::clone(&ring);
    run(plain(""), |world| async move {
        let mut sinks = Sinks::default();
        sinks.add(Sink::ring("r", "r", LogFormat::Raw, 1024, theirs));
        let traces = Traces { sources: SOURCES, sinks: &sinks };
        let obey = |line: &str| traces.command(&line.split(' ').collect::<Vec<_>>()).expect("it is right");
        obey("all sink r level data");
        obey("h1 verbosity complete");
        obey("stream verbosity simple");
        // Only one session, from its beginning to its end, then the next; the others tell of it.
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
    let lines = told(&ring);
    let of =
        |event: &str| lines.iter().filter(|line| line.contains(&format!("|{event}] "))).collect::<Vec<_>>();
    let text = lines.join("\n");
    assert_eq!((of("sess_new").len(), of("sess_end").len()), (3, 3), "{text}");
    assert_eq!((of("strm_new").len(), of("strm_end").len(), of("strm_err").len()), (3, 3, 1), "{text}");
    assert!(of("strm_conn")[0].contains(" fe=front be=front srv=s1 connects"), "{text}");
    assert!(of("strm_state").iter().any(|line| line.contains("phase=Headers")), "{text}");
    assert!(of("strm_end")[0].contains("status=200 code=--"), "{text}");
    // R191: how full the buffers are, with head and tail, so that one sees why something waits; flags in words; the proxy
    // and its side.
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
