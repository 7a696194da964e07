//! Servers that get other addresses and ports while requests are served: by operators and by name servers, absolute ports and
//! mappings. Their lines lead elsewhere. Requests arrive where the servers are, over idle connections, too.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use weir_model::ServerPort;

use weir_backend::{ServerChange, ServerKey};
use weir_sched::{now, sleep_until};

use super::{HTTP, Scenario};
use crate::client;
use crate::plan::Menu;
use crate::stage::Stage;

pub(super) const SCENARIO: Scenario = Scenario { name: "moving", defaults: HTTP, text: TEXT, play };

const TEXT: &str = "
listen front
 bind 127.0.0.1:1
 http-reuse always
 server s1 {elsewhere}
 server s2 127.0.0.1:+7921
 server d2 {p0} disabled
 server d3 {p1} disabled
 server d4 {p2} disabled
 server d5 {p3} disabled
 server d6 {p4} disabled
 server d7 {p5} disabled
";

const PLACES: [&str; 6] = ["p0", "p1", "p2", "p3", "p4", "p5"];
const MOVES: u64 = 200;

fn play(stage: Rc<Stage>) {
    assert_eq!(stage.port_of("elsewhere"), stage.client_port() + 7921, "the line of s2 leads there");
    let mut at = [0, 1];
    (0..2).for_each(|rank| send(&stage, rank, at));
    stage.host_all();
    client::some(&stage, 8, &Menu::PLAIN);
    let mover = Rc::clone(&stage);
    stage.play(async move {
        for _ in 0..MOVES {
            sleep_until(now().after(mover.network.random(40))).await;
            let rank = mover.network.random(2) as usize;
            at[rank] = mover.network.random(PLACES.len() as u64) as usize;
            send(&mover, rank, at);
        }
    });
}

/// Sets a server's address, in one of the available ways.
fn send(stage: &Stage, rank: usize, at: [usize; 2]) {
    let (port, home) = (stage.port_of(PLACES[at[rank]]), IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mapped = ServerPort::Mapped(i32::from(port) - i32::from(stage.client_port()));
    let port = if stage.network.random(2) == 0 { mapped } else { ServerPort::Fixed(port) };
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let changes = match stage.network.random(4) {
        0 => vec![ServerChange::Address { ip: None, port: Some(port) }],
        1 => vec![ServerChange::Resolved { ip: home, port: Some(port) }],
        2 => vec![
            ServerChange::Unresolved { port: Some(port) },
            ServerChange::Resolved { ip: home, port: None },
        ],
        _ => vec![
            ServerChange::Address { ip: Some(other), port: Some(port) },
            ServerChange::Address { ip: Some(home), port: None },
        ],
    };
    let backend = stage.instance.proxies[0].backend.as_ref().expect("a listen section");
    for change in changes {
        backend
            .change(ServerKey::configured(rank as u32), change, now().as_ms())
            .expect("the server is there");
    }
    stage.places_are(&[PLACES[at[0]], PLACES[at[1]]]);
}
