//! The framing of forwarded bodies, on connections of a simulated network.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::rc::Rc;

use weir_h1::{HeadParser, ParseOptions};
use weir_http::HeadFlags;
use weir_net::Connection;
use weir_sched::simulate::network::{self, Conditions, SimulatedNetwork, SimulatedPeer};
use weir_sched::{Descriptor, Tick, current, now, sleep_until, wait};
use weir_sys::Address;

use super::*;
use crate::service::{BodyProducer, ProducerStep};
use crate::way::Chunks;

mod uploads;

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
const BODY: &[u8] = b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n";

/// Runs a test, and fails with it.
#[track_caller]
pub(crate) fn run<F: Future<Output = ()> + 'static>(main: impl FnOnce(SimulatedNetwork) -> F) {
    let run = network::run(1, Conditions::CALM, main).expect("a worker");
    run.outcome.expect("it ends");
}

/// A connection that was accepted, and its far end.
pub(crate) async fn pair(network: &SimulatedNetwork, port: u16) -> (StreamConnector, SimulatedPeer) {
    let place = |port| Address::from((Ipv4Addr::LOCALHOST, port));
    let listener = Descriptor::register(network.listener(&place(port)).expect("a free port")).expect("room");
    listener.set_owner(current());
    let peer = network.connect(&place(port + 1000), &place(port));
    loop {
        if let Some((accepted, _)) = listener.accept().expect("it listens") {
            let descriptor = Descriptor::register(accepted).expect("room");
            return (StreamConnector::own(Connection::new(descriptor)), peer);
        }
        wait(Tick::NEVER).await;
    }
}

#[test]
fn a_changed_input_precedes_later_bytes() {
    run(|network| async move {
        let ((mut client, far), (mut server, _far)) = (pair(&network, 80).await, pair(&network, 81).await);
        far.send(b"abcdef").await.expect("it stands");
        sleep_until(now().after(50)).await;
        client.receive(usize::MAX);
        let own = client.connection_mut().expect("a connection of its own");
        own.replace_input(2..4, b"XYZ");
        assert_eq!(own.input(), b"abXYZef");
        own.replace_input(0..7, b"");
        assert_eq!(own.input(), b"");
        own.replace_input(0..0, b"front");
        far.send(b"ghi").await.expect("it stands");
        sleep_until(now().after(50)).await;
        client.receive(usize::MAX);
        assert_eq!(client.input(), b"frontghi");
        assert_eq!(BodyFlow::tunnel().advance(&mut client, &mut server), FlowState::AwaitSource);
        assert_eq!((client.received(), server.sent()), (9, 8));
    });
}

#[test]
fn a_resent_body_may_switch_from_verbatim_to_payload_forwarding() {
    run(|network| async move {
        let mut head = Head::new();
        let _ = HeadParser::default().request(HEAD, &ParseOptions::default(), &mut head);
        let ((mut client, far), (server, _far)) = (pair(&network, 80).await, pair(&network, 81).await);
        far.send(BODY).await.expect("it stands");
        sleep_until(now().after(50)).await;
        let mut flow = BodyFlow::behind(&client, &head, BodySize::of_request(&head));
        flow.drop_trailers();
        client.receive(usize::MAX);
        flow.aim(&server, &head, false);
        assert!(flow.inspect(&mut client));
        assert_eq!((flow.ready.way, flow.is_complete()), (BodyWay::Wire, true));
        // The first attempt failed before any byte was sent. The next sink does its own framing.
        flow.rewind();
        flow.aim(&StreamConnector::CLOSED, &head, false);
        assert!(flow.inspect(&mut client));
        assert_eq!(
            (flow.ready.way, flow.waiting(&client), flow.payload()),
            (BodyWay::Payload, &b"abcde"[..], 5)
        );
        let kept = KeptBody::of(&flow, &client);
        assert_eq!((kept.payload(), &kept.trailers[..]), (&b"abcde"[..], &b""[..]));
        // A body that was decoded to payload stays payload.
        flow.rewind();
        flow.aim(&server, &head, false);
        assert_eq!(flow.ready.way, BodyWay::Chunks(Chunks::Between));
    });
}

/// Produces this many pieces of this many bytes.
struct Pieces(usize, usize);

impl BodyProducer for Pieces {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
        self.0 = self.0.saturating_sub(1);
        out.resize(out.len() + self.1, b'0' + self.0 as u8);
        if self.0 > 0 { ProducerStep::More } else { ProducerStep::Last }
    }
}

/// All bytes received until EOF.
pub(crate) async fn arrived(far: &SimulatedPeer) -> String {
    let mut seen = Vec::new();
    loop {
        match far.receive(100).await.expect("it stands") {
            bytes if bytes.is_empty() => return String::from_utf8_lossy(&seen).into_owned(),
            bytes => seen.extend(bytes),
        }
    }
}

/// Checks a service's body at an HTTP/1 client: in chunks, or delimited by EOF.
#[track_caller]
fn check_made(pieces: Pieces, chunked: bool, want: &'static str) {
    run(move |network| async move {
        let mut head = Head::new();
        if chunked {
            head.note(HeadFlags::CHUNKED);
        }
        let (mut client, far) = pair(&network, 80).await;
        let mut service = StreamConnector::from(LocalService::new(Box::new(pieces)));
        let mut flow = BodyFlow::made();
        flow.aim(&client, &head, false);
        assert!(!flow.is_done());
        while flow.advance(&mut service, &mut client) != FlowState::Done {}
        assert!(flow.is_done());
        client.shut_write();
        assert_eq!(arrived(&far).await, want);
    });
}

#[test]
fn service_pieces_become_chunks_unless_connection_close_ends_the_body() {
    check_made(Pieces(2, 3), false, "111000");
    check_made(Pieces(2, 3), true, "6\r\n111000\r\n0\r\n\r\n");
    check_made(Pieces(1, 17), true, "11\r\n00000000000000000\r\n0\r\n\r\n");
    check_made(Pieces(1, 0), true, "0\r\n\r\n");
    check_made(Pieces(2, 0), true, "0\r\n\r\n");
    check_made(Pieces(1, 0), false, "");
}

#[test]
fn a_stored_body_is_sent_in_the_framing_of_its_head() {
    run(|network| async move {
        for (port, payload, want) in
            [(80, &b"abcde"[..], "5\r\nabcde\r\n0\r\nT: 1\r\n\r\n"), (81, b"", "0\r\nT: 1\r\n\r\n")]
        {
            let (mut server, far) = pair(&network, port).await;
            let mut message = Message::new(10);
            message.read_kept(weir_http::Kind::Request, HEAD).expect("a head");
            let kept = KeptBody::new(payload.to_vec(), b"T: 1\r\n".to_vec());
            assert_eq!(kept.send_behind(&mut message, &mut server, &mut Vec::new()), SendOutcome::All);
            server.shut_write();
            assert_eq!(arrived(&far).await, format!("{}{want}", String::from_utf8_lossy(HEAD)));
        }
    });
}

/// The payload that [`BodyFlow::read`] gives, for a body that arrives in two parts.
fn check_read(framing: BodyFraming, parts: [&'static [u8]; 2], want: &'static [u8], rest: &'static [u8]) {
    run(move |network| async move {
        let (mut source, from) = pair(&network, 80).await;
        let mut flow = BodyFlow::new(framing);
        let mut payload = Vec::new();
        let mut read =
            |source: &mut StreamConnector| flow.read(source, &mut |piece| payload.extend_from_slice(piece));
        from.send(parts[0]).await.expect("it stands");
        sleep_until(now().after(5)).await;
        assert_eq!(read(&mut source), FlowState::AwaitSource);
        from.send(parts[1]).await.expect("it stands");
        sleep_until(now().after(5)).await;
        assert_eq!(read(&mut source), FlowState::Done);
        assert!(flow.is_complete());
        assert_eq!((payload.as_slice(), source.input()), (want, rest));
    });
}

#[test]
fn reads_payload_without_its_framing() {
    check_read(BodyFraming::Length(6), [b"abc", b"defNEXT"], b"abcdef", b"NEXT");
    check_read(
        BodyFraming::Chunked,
        [b"3\r\nabc\r\n2\r", b"\nde\r\n0\r\nT: 1\r\n\r\nNEXT"],
        b"abcde",
        b"NEXT",
    );
}

/// A filter may change the length of a body with an announced length. The body is then sent in chunks.
#[test]
fn a_filtered_body_with_content_length_is_sent_in_chunks() {
    run(|network| async move {
        let mut head = Head::new();
        head.note(HeadFlags::CHUNKED);
        let ((mut source, from), (mut sink, far)) = (pair(&network, 80).await, pair(&network, 81).await);
        let mut flow = BodyFlow::new(BodyFraming::Length(3));
        flow.aim(&sink, &head, true);
        from.send(b"abcNEXT").await.expect("it stands");
        while flow.advance(&mut source, &mut sink) != FlowState::Done {
            sleep_until(now().after(1)).await;
        }
        assert_eq!((flow.is_done(), source.input()), (true, &b"NEXT"[..]));
        sink.shut_write();
        assert_eq!(arrived(&far).await, "3\r\nabc\r\n0\r\n\r\n");
    });
}

/// Lends or appends this many pieces, each of a datagram's size.
struct Datagrams {
    left: Rc<Cell<usize>>,
    lends: bool,
    piece: Vec<u8>,
}

impl BodyProducer for Datagrams {
    fn advance(&mut self, _: usize, out: &mut Vec<u8>) -> ProducerStep {
        self.left.set(self.left.get() - 1);
        if !self.lends {
            out.extend_from_slice(&self.piece);
        }
        if self.left.get() > 0 { ProducerStep::More } else { ProducerStep::Last }
    }

    fn lent(&self) -> Option<&[u8]> {
        self.lends.then_some(&self.piece)
    }
}

/// A megabyte in pieces of a datagram's size takes as many sends as in pieces of 16 kB, with a length and in chunks. The service is at
/// most one send ahead of the client.
#[test]
fn small_service_pieces_are_combined_into_few_sends() {
    const COUNT: usize = 768;
    const WINDOW: usize = 50_000;
    for (lends, chunked) in [(false, false), (false, true), (true, false), (true, true)] {
        run(move |network| async move {
            let mut head = Head::new();
            if chunked {
                head.note(HeadFlags::CHUNKED);
            }
            let ((mut slow, _far), (mut client, far)) = (pair(&network, 80).await, pair(&network, 81).await);
            let left = Rc::new(Cell::new(COUNT));
            let service = || {
                let datagrams = Datagrams { left: Rc::clone(&left), lends, piece: vec![b'x'; 1300] };
                StreamConnector::from(LocalService::new(Box::new(datagrams)))
            };
            let mut flow = BodyFlow::made();
            flow.aim(&slow, &head, false);
            let mut made = service();
            network.change(|conditions| conditions.window = WINDOW);
            while flow.advance(&mut made, &mut slow) == FlowState::Yield {}
            assert_eq!(flow.advance(&mut made, &mut slow), FlowState::AwaitSink);
            let taken = (COUNT - left.get()) * 1300;
            assert!(taken <= WINDOW + 16_384, "{taken} bytes");

            left.set(COUNT);
            network.change(|conditions| conditions.window = 2 * COUNT * 1300);
            let before = network.sends();
            let mut flow = BodyFlow::made();
            flow.aim(&client, &head, false);
            let mut made = service();
            while flow.advance(&mut made, &mut client) == FlowState::Yield {}
            let sends = network.sends() - before;
            // The last data chunk is sent together with the end of the body.
            assert_eq!(sends, COUNT as u64 / 12, "lends: {lends}, in chunks: {chunked}");
            client.shut_write();
            let framing = if chunked { COUNT / 12 * "3cf0\r\n\r\n".len() + "0\r\n\r\n".len() } else { 0 };
            assert_eq!(arrived(&far).await.len(), COUNT * 1300 + framing);
        });
    }
}
