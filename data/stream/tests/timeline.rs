//! The timeline: which streams it keeps, and their sentences.

mod support;

use std::sync::Arc;

use support::{HTTP, plain, run};
use weir_events::timeline::{StreamMoment, StreamRecord, StreamText};
use weir_sync::Ring;
use weir_sync::ring::{ReaderWait, Seek};

const GET: &str = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn install(slow_ms: u32) -> Arc<Ring> {
    let ring = Ring::in_memory(65_536, 1);
    weir_stream::timeline::install(Arc::clone(&ring), slow_ms);
    ring
}

fn entries(ring: &Arc<Ring>) -> Vec<StreamRecord> {
    let mut found = Vec::new();
    ring.attach(Seek::Oldest, ReaderWait::No).expect("no other reader").read(|message| {
        let mut bytes = Vec::new();
        message.append_to(&mut bytes);
        found.push(StreamRecord::decode(&bytes).expect("an entry"));
        true
    });
    found
}

#[test]
fn a_failed_stream_is_recorded_with_its_phase_times() {
    run(plain(""), |world| async move {
        let ring = install(1000);
        let mut client = world.client();
        client.send(GET).await;
        let mut server = world.accept("s1").await;
        server.expect(GET).await;
        drop(server);
        client.head().await;
        world.log().await;
        let entries = entries(&ring);
        assert_eq!(entries.len(), 1);
        let entry = &entries[0];
        assert_eq!((entry.status, &entry.code, entry.worker), (502, b"SH--", 1));
        assert_eq!((entry.word(StreamText::Frontend), entry.word(StreamText::Server)), ("front", "s1"));
        assert!(entry.word(StreamText::Request).starts_with("GET /x"), "{entry:?}");
        assert!(entry.word(StreamText::Source).starts_with("127.0.0.1:"), "{entry:?}");
        let reached = [
            StreamMoment::FirstByte,
            StreamMoment::Request,
            StreamMoment::Assigned,
            StreamMoment::Connected,
            StreamMoment::End,
        ];
        assert!(reached.iter().all(|moment| entry.moment(*moment).is_some()), "{entry:?}");
        assert_eq!(entry.moment(StreamMoment::Response), None);
        assert!(entry.bytes[0] == GET.len() as u64 && entry.bytes[1] > 0);
    });
}

#[test]
fn records_retries_in_the_timeline() {
    let text = format!("{HTTP}listen front\n bind 127.0.0.1:1\n retries 1\n server s1 {{closed}}\n");
    run(text, |world| async move {
        let ring = install(1000);
        let mut client = world.client();
        client.send(GET).await;
        client.head().await;
        world.log().await;
        let entries = entries(&ring);
        assert_eq!((entries[0].status, entries[0].retries, &entries[0].code), (503, 1, b"SC--"));
    });
}

#[test]
fn a_successful_stream_is_recorded_only_if_it_was_slow() {
    for (slow_ms, kept) in [(60_000, 0), (0, 1)] {
        run(plain(""), move |world| async move {
            let ring = install(slow_ms);
            let mut client = world.client();
            client.send(GET).await;
            let mut server = world.accept("s1").await;
            server.expect(GET).await;
            server.send(OK).await;
            client.head().await;
            world.log().await;
            assert_eq!(entries(&ring).len(), kept);
        });
    }
}

#[test]
fn a_client_that_closes_without_a_request_is_not_recorded() {
    run(plain(""), |world| async move {
        let ring = install(1000);
        let mut client = world.client();
        client.finish();
        client.rest().await;
        world.log().await;
        assert_eq!(entries(&ring), []);
    });
}

/// Endings with the same code, and their letters as in the log.
#[test]
fn the_timeline_distinguishes_endings_with_the_same_code() {
    let cases = [
        (
            "",
            "GET / HTTP/1.1\r\nhost: x\r\n bad\r\nx\r\n\r\n",
            "PR--",
            "the request was malformed or too large",
        ),
        (" http-request deny\n", GET, "PR--", "a rule refused the request"),
        (
            " option http-restrict-req-hdr-names reject\n",
            "GET / HTTP/1.1\r\nhost: x\r\na_b: c\r\n\r\n",
            "PR--",
            "the request was refused by 'option http-restrict-req-hdr-names'",
        ),
        (" server s1 127.0.0.1:1 disabled\n", GET, "SC--", "no server was available"),
        (" server s1 127.0.0.1:1 disabled\n cookie A insert\n", GET, "SCNN", "no server was available"),
        ("", GET, "SC--", "no server was available"),
        (" server s1 {closed}\n retries 0\n", GET, "SC--", "the connection to the server failed"),
        (" http-request return status 503\n", GET, "LR--", "a rule answered the request"),
        (" use_backend none if TRUE\nbackend none\n", GET, "SC--", "no server was available"),
        (
            " http-request tarpit\n timeout tarpit 1ms\n",
            GET,
            "PT--",
            "a rule held the request in the tarpit, then refused it",
        ),
    ];
    for (lines, request, code, ending) in cases {
        let text = format!("{HTTP}listen front\n bind 127.0.0.1:1\n{lines}");
        run(text, move |world| async move {
            let ring = install(60_000);
            let mut client = world.client();
            client.send(request).await;
            client.head().await;
            world.log().await;
            let entries = entries(&ring);
            let logged = (
                std::str::from_utf8(&entries[0].code).expect("letters"),
                entries[0].word(StreamText::Ending),
            );
            assert_eq!(logged, (code, ending), "{lines} {request}");
        });
    }
}
