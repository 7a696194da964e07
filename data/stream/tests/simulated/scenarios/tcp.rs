//! TCP mode: bytes in both directions, copied or spliced, and every order of half-closes.
//!
//! A client sends a line with its number, its upload size, and its download size. The server sends the download after
//! it received the whole upload.

use std::rc::Rc;

use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{Tick, now};

use super::{Scenario, TCP};
use crate::pattern::{Pattern, Way};
use crate::plan;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "tcp", defaults: TCP, text: COPIED, play };
pub(super) const SPLICED: Scenario =
    Scenario { name: "spliced tcp", defaults: TCP, text: THROUGH_PIPES, play };

const COPIED: &str = "
listen front
 bind 127.0.0.1:1
 server s1 {s1}
 server s2 {s2} maxconn 2
";

const THROUGH_PIPES: &str = "
listen front
 bind 127.0.0.1:1
 option splice-request
 option splice-response
 server s1 {s1}
";

fn play(stage: Rc<Stage>) {
    for name in ["s1", "s2"].into_iter().filter(|name| stage.has_service(name)) {
        host(&stage, name);
    }
    some(&stage, false);
}

/// Makes a server follow the first lines of its clients.
pub(super) fn host(stage: &Rc<Stage>, name: &str) {
    let of = Rc::clone(stage);
    stage.host_with(name, move |peer| {
        let stage = Rc::clone(&of);
        async move {
            let _ = serve(&peer).await;
            stage.server_ends(&peer);
        }
    });
}

/// Several clients. In runs with faults `hasty` ones may leave at any time.
pub(super) fn some(stage: &Rc<Stage>, hasty: bool) {
    for _ in 0..=stage.network.random(4) {
        let guest = Rc::clone(stage);
        stage.play(async move {
            let peer = guest.client();
            let leaves = hasty && guest.faulty && guest.network.random(2) == 0;
            let until = if leaves { now().after(guest.network.random(600)) } else { Tick::NEVER };
            let whole = visit(&guest, &peer, until).await;
            assert!(guest.faulty || whole == Some(()), "a session that broke");
            guest.client_ends(&peer);
            if guest.faulty && guest.network.random(4) == 0 {
                peer.reset();
            }
        });
    }
}

/// None when the connection ends before everything was received, or the client leaves.
async fn visit(stage: &Stage, peer: &SimulatedPeer, until: Tick) -> Option<()> {
    let network = &stage.network;
    let (id, up, down) = (stage.next_id(), plan::size(network), plan::size(network));
    let leaves_after =
        if stage.faulty && network.random(3) == 0 { network.random(4000) as usize } else { usize::MAX };
    let half_closes = network.random(2) == 0;
    let mut out = format!("{id} {up} {down} {}\n", network.random(2)).into_bytes();
    out.extend(Pattern::new(id, Way::Up).make(up));
    let mut came = Pattern::new(id, Way::Down);
    let mut finished = false;
    loop {
        let sent = if out.is_empty() { 0 } else { peer.try_send(&out).ok()? };
        out.drain(..sent);
        if out.is_empty() && half_closes && !finished {
            finished = true;
            peer.finish();
        }
        match peer.try_receive(1 + network.random(8_192) as usize).ok()? {
            Some(bytes) if !bytes.is_empty() => came.check(&bytes),
            // The far end may half-close and still receive.
            Some(_) if out.is_empty() => return (came.done == down).then_some(()),
            None if came.done == down && out.is_empty() && !finished => {
                finished = true;
                peer.finish();
            }
            _ if sent == 0 => peer.wait_until(until).await,
            _ => {}
        }
        if came.done >= leaves_after || until <= now() {
            return None;
        }
    }
}

/// None when the connection ends before everything was received.
async fn serve(peer: &SimulatedPeer) -> Option<()> {
    let mut head = Vec::new();
    while head.last() != Some(&b'\n') {
        let byte = peer.receive(1).await.ok()?;
        head.push(*byte.first()?);
    }
    let head = String::from_utf8(head).expect("only clients send");
    let numbers: Vec<u64> = head.trim().split(' ').map(|word| word.parse().expect("a number")).collect();
    let [id, up, down, early] = numbers[..] else { panic!("nobody sent {head}") };
    let mut came = Pattern::new(id, Way::Up);
    if early == 1 {
        peer.send(&Pattern::new(id, Way::Down).make(down as usize)).await.ok()?;
        // The server half-closes and continues to receive.
        peer.finish();
    }
    while came.done < up as usize {
        let bytes = peer.receive(8_192).await.ok()?;
        if bytes.is_empty() {
            return None;
        }
        came.check(&bytes);
    }
    if early == 0 {
        peer.send(&Pattern::new(id, Way::Down).make(down as usize)).await.ok()?;
    }
    Some(())
}
