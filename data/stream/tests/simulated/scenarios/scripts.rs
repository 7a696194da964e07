//! Scripts (Lua) that wait in every way they can, while clients and servers come, fail and leave: actions in both directions, services that
//! receive and send, actions on the bytes of TCP. In the shared state, and in one of the worker.
//!
//! The path of a request, or the first line of a TCP session, selects the waits of a script. In runs without faults each wait must end as
//! it should: a script denies the request otherwise. Services check bodies and make them, as scripted servers do.

use std::rc::Rc;

use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{now, sleep_until};
use weir_stream::ending::By;
use weir_stream::entry::end_streams;

use super::{HTTP, Scenario, TCP, tcp};
use crate::plan::{How, Menu};
use crate::stage::Stage;
use crate::{client, plan};

pub(super) const ACTIONS: Scenario =
    Scenario { name: "scripted actions", defaults: HTTP, text: ACTION_LINES, play: actions };
pub(super) const SERVICES: Scenario =
    Scenario { name: "scripted services", defaults: HTTP, text: SERVICE_LINES, play: services };
pub(super) const CHANNELS: Scenario =
    Scenario { name: "scripted channels", defaults: TCP, text: CHANNEL_LINES, play: channels };
pub(super) const APPLETS: Scenario =
    Scenario { name: "scripted tcp services", defaults: TCP, text: APPLET_LINES, play: applets };

/// A configuration with the script `waits.lua`, loaded by this directive.
macro_rules! configuration {
    ($directive:literal, $lines:literal) => {
        concat!(
            "\nglobal\n tune.lua.bool-sample-conversion normal\n tune.lua.maxmem 16\n tune.lua.log.stderr off\n ",
            $directive,
            " waits.lua\n",
            $lines,
            "\n--- waits.lua\nlocal ECHO, WEB = \"{echo}\", \"{web}\"\n",
            include_str!("waits.lua")
        )
    };
}

const ACTION_LINES: &str = configuration!(
    "lua-load",
    "listen front
 bind 127.0.0.1:1
 http-request set-var(txn.id) req.hdr(x-id)
 http-request lua.wait
 http-request deny if { var(txn.wrong) -m found }
 http-response lua.wait
 http-response deny if { var(txn.wrong) -m found }
 server s1 {s1}
 server s2 {s2} maxconn 2
"
);

const SERVICE_LINES: &str = configuration!(
    "lua-load-per-thread",
    "listen front
 bind 127.0.0.1:1
 http-request use-service lua.web
"
);

const CHANNEL_LINES: &str = configuration!(
    "lua-load-per-thread",
    "listen front
 bind 127.0.0.1:1
 tcp-request inspect-delay 8s
 tcp-request content lua.peek
 tcp-request content reject if { var(txn.wrong) -m found }
 tcp-response inspect-delay 8s
 tcp-response content lua.wait
 server s1 {s1}
"
);

const APPLET_LINES: &str = configuration!(
    "lua-load",
    "listen front
 bind 127.0.0.1:1
 tcp-request content use-service lua.raw
"
);

static FORWARDED: Menu = Menu { hasty: true, ..Menu::PLAIN };
static SERVED: Menu = Menu { hows: &[How::Datagrams], wrong: &[How::Datagrams], hasty: true, ..Menu::PLAIN };

fn actions(stage: Rc<Stage>) {
    stage.host("s1");
    stage.host("s2");
    peers_of_scripts(&stage);
    client::some(&stage, 4, &FORWARDED);
}

fn services(stage: Rc<Stage>) {
    peers_of_scripts(&stage);
    client::some(&stage, 4, &SERVED);
}

fn channels(stage: Rc<Stage>) {
    peers_of_scripts(&stage);
    tcp::host(&stage, "s1");
    tcp::some(&stage, true);
}

fn applets(stage: Rc<Stage>) {
    peers_of_scripts(&stage);
    tcp::some(&stage, true);
}

/// Runs with faults may have an operator who ends streams at any time.
fn operator(stage: &Rc<Stage>) {
    if !stage.faulty || stage.network.random(3) > 0 {
        return;
    }
    let of = Rc::clone(stage);
    stage.play(async move {
        for _ in 0..=of.network.random(20) {
            sleep_until(now().after(of.network.random(100))).await;
            end_streams(By::Killed, |_| of.network.random(2) == 0);
        }
    });
}

/// The peers of the sockets and of the HTTP client of scripts.
fn peers_of_scripts(stage: &Rc<Stage>) {
    operator(stage);
    let of = Rc::clone(stage);
    stage.host_with("echo", move |peer| answer(Rc::clone(&of), peer, b"\n", |request| request.to_vec()));
    let of = Rc::clone(stage);
    let page = |_: &[u8]| b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello".to_vec();
    stage.host_with("web", move |peer| answer(Rc::clone(&of), peer, b"\r\n\r\n", page));
}

/// Answers all that ends so, in pieces. In runs with faults it may do anything else instead.
async fn answer(stage: Rc<Stage>, peer: SimulatedPeer, end: &'static [u8], make: fn(&[u8]) -> Vec<u8>) {
    let mut received = Vec::new();
    while let Ok(bytes) = peer.receive(1 + plan::size(&stage.network)).await {
        if bytes.is_empty() {
            return;
        }
        received.extend(bytes);
        if !received.ends_with(end) {
            continue;
        }
        let answer = make(&std::mem::take(&mut received));
        let (first, rest) = answer.split_at(stage.network.random(answer.len() as u64) as usize);
        match if stage.faulty { stage.network.random(12) } else { u64::MAX } {
            0 => return,
            1 => return peer.reset(),
            2 => return peer.vanish(),
            3 => continue,
            4 => sleep_until(now().after(stage.network.random(3_000))).await,
            _ => {}
        }
        if peer.send(first).await.is_err() {
            return;
        }
        sleep_until(now().after(stage.network.random(20))).await;
        if peer.send(rest).await.is_err() {
            return;
        }
    }
}
