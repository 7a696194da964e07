//! The way of a body over two attempts, on connections of a simulated network.

use std::net::Ipv4Addr;

use weir_h1::{Options, Parser};
use weir_net::Connection;
use weir_sched::simulate::network::{self, Conditions, Peer, SimulatedNetwork};
use weir_sched::{Descriptor, Tick, current, now, sleep_until, wait};
use weir_sys::Address;

use super::*;

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
const BODY: &[u8] = b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n";

/// A connection that was accepted, and its far end.
async fn pair(network: &SimulatedNetwork, port: u16) -> (StreamConnector, Peer) {
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
fn a_body_that_went_its_wire_way_goes_another_in_the_next_attempt() {
    let done = network::run(1, Conditions::CALM, |network| async move {
        let mut head = Head::new();
        let _ = Parser::default().request(HEAD, &Options::default(), &mut head);
        let ((mut client, far), (server, _far)) = (pair(&network, 80).await, pair(&network, 81).await);
        far.send(BODY).await.expect("it stands");
        sleep_until(now().after(50)).await;
        let mut flow = BodyFlow::behind(&client, &head, BodySize::of_request(&head));
        flow.drop_trailers();
        client.receive(usize::MAX);
        flow.aim(&server, &head, false);
        assert!(flow.inspect(&mut client));
        assert_eq!((flow.ready.way, flow.is_complete()), (Way::Wire, true));
        // The first attempt failed before anything left. The next one goes to a sink that frames by itself.
        flow.rewind();
        flow.aim(&StreamConnector::CLOSED, &head, false);
        assert!(flow.inspect(&mut client));
        assert_eq!((flow.ready.way, flow.waiting(&client), flow.payload()), (Way::Payload, &b"abcde"[..], 5));
        let kept = KeptBody::of(&flow, &client);
        assert_eq!((kept.payload(), &kept.trailers[..]), (&b"abcde"[..], &b""[..]));
        // Payload stays payload.
        flow.rewind();
        flow.aim(&server, &head, false);
        assert_eq!(flow.ready.way, Way::Chunks(Chunks::Between));
    });
    done.expect("a worker");
}
