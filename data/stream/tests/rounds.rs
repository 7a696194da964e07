//! The number of runs of a connection's task for one body.

mod support;

use support::{plain, run};
use weir_sched::{now, sleep_until};
use weir_stream::entry::streams;

/// R36: received bytes are forwarded in several rounds of one run, a buffer at a time, not in a run for each buffer.
#[test]
fn a_body_is_forwarded_in_several_rounds_of_one_run() {
    const BODY: usize = 400_000;
    run(plain(""), |world| async move {
        let mut client = world.client();
        client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let mut server = world.accept("s1").await;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {BODY}\r\n\r\n");
        let answer = [head.as_bytes(), &vec![b'x'; BODY]].concat();
        let stream = streams().pop().expect("the client's");
        sleep_until(now().after(5)).await;
        let before = stream.entry.calls.get();
        let mut received = 0;
        let mut left = &answer[..];
        while received < BODY {
            left = &left[server.send_some(left)..];
            sleep_until(now().after(1)).await;
            received += client.read_now(usize::MAX).await.len();
        }
        let runs = stream.entry.calls.get() - before;
        // A run for each buffer of 16 kB would be 25 runs.
        assert!((1..=12).contains(&runs), "{runs} runs");
    });
}
