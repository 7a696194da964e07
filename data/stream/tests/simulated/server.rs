//! A scripted HTTP server: the path of each request selects its handling.

use std::rc::Rc;

use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{Tick, now, sleep_until};

use crate::engines;
use crate::pattern::{Pattern, Way};
use crate::plan::{self, PlannedRequest};
use crate::reader::{Head, Part, Reader};
use crate::stage::Stage;

/// Serves a connection until it ends.
pub(crate) async fn serve(stage: Rc<Stage>, peer: SimulatedPeer, place: Rc<str>) {
    let last = serve_requests(&stage, &peer, &place).await;
    stage.server_ends(&peer);
    match last {
        Next::Reset => peer.reset(),
        Next::Vanish => peer.vanish(),
        Next::Request | Next::Close => drop(peer),
    }
}

async fn serve_requests(stage: &Stage, peer: &SimulatedPeer, place: &str) -> Next {
    let mut reader = Reader::default();
    while let Some(head) = next_request(stage, peer, &mut reader).await {
        stage.reached(place);
        match answer(stage, peer, &mut reader, &head).await {
            Some(Next::Request) => {}
            last => return last.unwrap_or(Next::Close),
        }
    }
    Next::Close
}

/// The action of a server after a request.
enum Next {
    Request,
    Close,
    Reset,
    Vanish,
}

/// Answers one request. `None` if the connection ends then.
async fn answer(stage: &Stage, peer: &SimulatedPeer, reader: &mut Reader, head: &Head) -> Option<Next> {
    let path = head.first.split(' ').nth(1).unwrap_or_default();
    let (id, how, length, delay_ms) =
        PlannedRequest::understood(path).unwrap_or_else(|| panic!("nobody sent {head:?}"));
    assert_eq!(head.field("x-id"), Some(&*id.to_string()), "a head of two requests: {head:?}");
    stage.arrived(id, &head.first);
    engines::check_head(stage, id, head, true);
    reader.body_follows(head, false);
    if head.field("expect").is_some() {
        peer.send(b"HTTP/1.1 100 Continue\r\n\r\n").await.ok()?;
    }
    let early = how == "Early" || how == "Rash";
    if !early {
        read_body(peer, reader, id).await?;
    }
    if delay_ms > 0 {
        sleep_until(now().after(delay_ms)).await;
    }
    let mut response = format!("HTTP/1.1 200 OK\r\nx-from: server\r\nx-id: {id}\r\n").into_bytes();
    let with_body = !head.first.starts_with("HEAD ");
    let mut pattern = Pattern::new(id, Way::Down);
    let by_length = format!("content-length: {length}\r\n");
    match &*how {
        "Length" | "Early" => response.extend(format!("{by_length}\r\n").bytes()),
        "Chunked" => response.extend(b"transfer-encoding: chunked\r\n\r\n"),
        "Close" => response.extend(b"connection: close\r\n\r\n"),
        "Last" | "Rash" => response.extend(format!("{by_length}connection: close\r\n\r\n").bytes()),
        "Truncated" | "Reset" => response.extend(format!("content-length: {}\r\n\r\n", length + 1).bytes()),
        "Upgrade" => return tunnel(peer, reader, id, length).await,
        "Silent" => {
            while read_head(peer, reader).await.is_some() {}
            return None;
        }
        "Mute" => return None,
        "Garbage" => {
            let _ = peer.send(b"\0\0\0 what is this\r\n\r\n").await;
            return None;
        }
        "Vanish" => return Some(Next::Vanish),
        other => panic!("nobody sent {other}"),
    }
    if with_body {
        match &*how {
            "Chunked" => response.extend(plan::chunked(&stage.network, pattern, length)),
            _ => response.extend(pattern.make(length)),
        }
    }
    peer.send(&response).await.ok()?;
    match &*how {
        "Early" => read_body(peer, reader, id).await.map(|()| Next::Request),
        "Reset" => Some(Next::Reset),
        "Length" | "Chunked" => Some(Next::Request),
        _ => None,
    }
}

/// Sends bytes in both directions, then closes.
async fn tunnel(peer: &SimulatedPeer, reader: &mut Reader, id: u64, length: usize) -> Option<Next> {
    let head = format!(
        "HTTP/1.1 101 Switching Protocols\r\nx-from: server\r\nx-id: {id}\r\nconnection: upgrade\r\nupgrade: pattern\r\n\r\n"
    );
    peer.send(head.as_bytes()).await.ok()?;
    let mut out = Pattern::new(id, Way::Down).make(length);
    let mut came = Pattern::new(id, Way::Up);
    came.check(&reader.take_raw());
    while !out.is_empty() || came.done < length {
        let sent = if out.is_empty() { 0 } else { peer.try_send(&out).ok()? };
        out.drain(..sent);
        match peer.try_receive(8_192).ok()? {
            Some(bytes) if bytes.is_empty() => return None,
            Some(bytes) => came.check(&bytes),
            None if sent == 0 => peer.wait().await,
            None => {}
        }
    }
    None
}

/// The next head, or `None` at EOF. In runs with faults, a server may close while it waits.
async fn next_request(stage: &Stage, peer: &SimulatedPeer, reader: &mut Reader) -> Option<Head> {
    let network = &stage.network;
    let is_impatient = stage.faulty && network.random(3) == 0;
    let until = if is_impatient { now().after(network.random(300)) } else { Tick::NEVER };
    loop {
        match reader.next() {
            Some(Part::Head(head)) => return Some(head),
            Some(other) => panic!("{other:?} between two requests"),
            None => {}
        }
        match peer.try_receive(16_384).ok()? {
            Some(bytes) if bytes.is_empty() => return None,
            Some(bytes) => reader.push(&bytes),
            None if now() >= until => return None,
            None => peer.wait_until(until).await,
        }
    }
}

/// The next head, or `None` at EOF.
async fn read_head(peer: &SimulatedPeer, reader: &mut Reader) -> Option<Head> {
    loop {
        match reader.next() {
            Some(Part::Head(head)) => return Some(head),
            Some(other) => panic!("{other:?} between two requests"),
            None => receive(peer, reader).await?,
        }
    }
}

/// Reads a body and checks it. `None` if the connection ends before the body does.
async fn read_body(peer: &SimulatedPeer, reader: &mut Reader, id: u64) -> Option<()> {
    let mut pattern = Pattern::new(id, Way::Up);
    loop {
        match reader.next() {
            Some(Part::Data(data)) => pattern.check(&data),
            Some(Part::End) => return Some(()),
            Some(Part::Head(head)) => panic!("{head:?} in a body"),
            None => receive(peer, reader).await?,
        }
    }
}

async fn receive(peer: &SimulatedPeer, reader: &mut Reader) -> Option<()> {
    let bytes = peer.receive(16_384).await.ok()?;
    reader.push(&bytes);
    (!bytes.is_empty()).then_some(())
}
