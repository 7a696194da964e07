//! What the timeline keeps of streams, and of which.

mod support;

use std::sync::Arc;

use support::{HTTP, plain, run};
use weir_events::timeline::{Entry, Moment, Word};
use weir_sync::Ring;
use weir_sync::ring::{Seek, Wait};

const GET: &str = "GET /x HTTP/1.1\r\nhost: x\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn install(slow_ms: u32) -> Arc<Ring> {
    let ring = Ring::in_memory(65_536, 1);
    weir_stream::timeline::install(Arc::clone(&ring), slow_ms);
    ring
}

fn entries(ring: &Arc<Ring>) -> Vec<Entry> {
    let mut found = Vec::new();
    ring.attach(Seek::Oldest, Wait::No).expect("no other reader").read(|message| {
        let mut bytes = Vec::new();
        message.append_to(&mut bytes);
        found.push(Entry::decode(&bytes).expect("an entry"));
        true
    });
    found
}

#[test]
fn a_stream_that_ends_badly_is_kept_with_its_moments() {
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
        assert_eq!((entry.word(Word::Frontend), entry.word(Word::Server)), ("front", "s1"));
        assert!(entry.word(Word::Request).starts_with("GET /x"), "{entry:?}");
        assert!(entry.word(Word::Source).starts_with("127.0.0.1:"), "{entry:?}");
        let reached = [Moment::FirstByte, Moment::Request, Moment::Place, Moment::Connected, Moment::End];
        assert!(reached.iter().all(|moment| entry.moment(*moment).is_some()), "{entry:?}");
        assert_eq!(entry.moment(Moment::Response), None);
        assert!(entry.bytes[0] == GET.len() as u64 && entry.bytes[1] > 0);
    });
}

#[test]
fn a_retried_stream_says_so() {
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
fn a_stream_that_ends_well_is_kept_only_if_it_was_slow() {
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
fn a_client_that_leaves_without_a_word_is_not_kept() {
    run(plain(""), |world| async move {
        let ring = install(1000);
        let mut client = world.client();
        client.finish();
        client.rest().await;
        world.log().await;
        assert_eq!(entries(&ring), []);
    });
}
