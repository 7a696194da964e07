//! A source like a QUIC stream: an engine orders its datagrams, bounds how many it holds, and gathers them when the flow reads them. It
//! needs only [`BodySource`].

use std::collections::VecDeque;

use weir_net::ReceiveOutcome;

use super::*;
use crate::ends::BodySource;

/// A stream, and the datagrams that have not arrived yet.
struct Upload {
    /// The pieces of each arrival.
    coming: VecDeque<Vec<Vec<u8>>>,
    input: Vec<u8>,
    /// The stream's trailers, which arrive with its end.
    trailers: &'static [u8],
    ended: bool,
    /// The peer resets the stream instead of ending it.
    is_reset: bool,
}

impl BodySource for Upload {
    fn input(&self) -> &[u8] {
        &self.input
    }

    fn consume(&mut self, count: usize) {
        self.input.drain(..count);
    }

    fn shorten_input<R>(&mut self, _: usize, edit: impl FnOnce(&mut [u8]) -> (R, usize)) -> R {
        edit(&mut []).0
    }

    fn receive_bulk(&mut self) -> ReceiveOutcome {
        let Some(arrival) = self.coming.pop_front() else { return self.receive_end() };
        let before = self.input.len();
        self.input.extend(arrival.concat());
        match self.input.len() - before {
            0 => ReceiveOutcome::Nothing,
            count => ReceiveOutcome::Bytes(count),
        }
    }

    fn receive_piece(&mut self) -> ReceiveOutcome {
        self.receive_bulk()
    }

    fn peer_closed(&self) -> bool {
        false
    }

    fn trailers(&self) -> usize {
        if self.ended { self.trailers.len() } else { 0 }
    }

    fn at_end(&self) -> bool {
        self.ended
    }
}

impl Upload {
    fn receive_end(&mut self) -> ReceiveOutcome {
        if self.is_reset {
            return ReceiveOutcome::Failed(ConnectionFault::Io(Errno::CONNRESET));
        }
        match std::mem::replace(&mut self.ended, true) || self.trailers.is_empty() {
            true => ReceiveOutcome::End,
            false => {
                self.input.extend_from_slice(self.trailers);
                ReceiveOutcome::Bytes(self.trailers.len())
            }
        }
    }
}

/// Forwards an upload to an HTTP/1 server. Returns the result, the received bytes, and the number of sends.
async fn moved(
    (network, port): (&SimulatedNetwork, u16),
    mut upload: Upload,
    chunked: bool,
) -> (FlowState, String, u64) {
    let mut head = Head::new();
    if chunked {
        head.note(HeadFlags::CHUNKED);
    }
    let (mut server, far) = pair(network, port).await;
    let mut flow = BodyFlow::made();
    flow.aim(&server, &head, false);
    let before = network.sends();
    let sink = server.connection_mut().expect("it is one");
    let over = loop {
        match flow.advance_between(&mut upload, sink) {
            FlowState::AwaitSource | FlowState::Yield => {}
            over => break over,
        }
    };
    assert_eq!(flow.is_done(), over == FlowState::Done);
    let sends = network.sends() - before;
    server.shut_write();
    (over, arrived(&far).await, sends)
}

/// The payload of chunks, and the bytes after the last chunk.
fn payload(mut body: &str) -> (String, &str) {
    let mut all = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("a size");
        if size == 0 {
            return (all, rest);
        }
        all.push_str(&rest[..size]);
        body = rest[size..].strip_prefix("\r\n").expect("the end of a chunk");
    }
    (all, "nothing")
}

/// Each split of a body into two datagrams, which arrive together, in sequence, or with empty receives between. With and without trailers.
#[test]
fn uploads_are_forwarded_at_every_datagram_boundary() {
    const TEXT: &[u8] = b"0123456789abcdefghij";
    run(|network| async move {
        let mut port = 2000;
        for cut in 0..=TEXT.len() {
            let parts = || [&TEXT[..cut], &TEXT[cut..]].map(<[u8]>::to_vec);
            let [first, second] = parts();
            let apart = [vec![first.clone()], vec![second.clone()]];
            let ways = [
                vec![parts().to_vec()],
                apart.to_vec(),
                vec![vec![first], Vec::new(), vec![second], Vec::new()],
            ];
            for (coming, trailers) in ways.iter().flat_map(|way| [(way, &b""[..]), (way, b"T: 1\r\n")]) {
                for (chunked, is_reset) in [(false, false), (true, false), (true, true)] {
                    port += 1;
                    let coming = coming.clone().into();
                    let upload = Upload { coming, input: Vec::new(), trailers, ended: false, is_reset };
                    let (over, came, _) = moved((&network, port), upload, chunked).await;
                    let case = format!("cut at {cut}, chunked: {chunked}, {trailers:?}: {came}");
                    let (body, end) = if chunked { payload(&came) } else { (came.clone(), "") };
                    assert_eq!(body.as_bytes(), TEXT, "{case}");
                    if is_reset {
                        assert_eq!(
                            (over, end),
                            (
                                FlowState::Failed(FlowSide::Source, ConnectionFault::Io(Errno::CONNRESET)),
                                "nothing"
                            )
                        );
                        continue;
                    }
                    let lines = String::from_utf8_lossy(trailers);
                    let want = if chunked { format!("{lines}\r\n") } else { String::new() };
                    assert_eq!((over, end), (FlowState::Done, &*want), "{case}");
                }
            }
        }
    });
}

/// A megabyte in datagrams takes one send for each arrival of a dozen, and is not read ahead of a slow server.
#[test]
fn uploads_use_few_sends_and_are_not_read_ahead_of_a_slow_server() {
    const COUNT: usize = 768;
    const DOZEN: usize = 12;
    let upload = || Upload {
        coming: vec![vec![vec![b'x'; 1300]; DOZEN]; COUNT / DOZEN].into(),
        input: Vec::new(),
        trailers: b"",
        ended: false,
        is_reset: false,
    };
    run(move |network| async move {
        network.change(|conditions| conditions.window = 2 * COUNT * 1300);
        let (over, came, sends) = moved((&network, 80), upload(), true).await;
        assert_eq!((over, payload(&came)), (FlowState::Done, ("x".repeat(COUNT * 1300), "\r\n")));
        assert!(sends <= (COUNT / DOZEN) as u64 + 1, "{sends} sends");
        network.change(|conditions| conditions.window = 50_000);
        let (mut slow, _far) = pair(&network, 81).await;
        let (mut flow, mut source) = (BodyFlow::made(), upload());
        flow.aim(&slow, &Head::new(), false);
        let sink = slow.connection_mut().expect("it is one");
        while flow.advance_between(&mut source, sink) == FlowState::Yield {}
        let taken = (COUNT / DOZEN - source.coming.len()) * DOZEN * 1300;
        assert!(taken <= 50_000 + DOZEN * 1300, "{taken} bytes");
    });
}
