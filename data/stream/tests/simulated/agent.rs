//! A scripted agent (SPOP). It returns the number of each request, so that a verdict that reaches another request is found.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use weir_sched::simulate::network::SimulatedPeer;
use weir_sched::{Tick, now};
use weir_spop::frame::{self, FIN};
use weir_spop::testing::{
    NotifyMessages, write_ack, write_action, write_agent_disconnect, write_agent_hello,
};
use weir_spop::{ActionScope, AgentAction, SpopFrame, SpopFrameKind, TypedData};

use crate::engines::EngineRules;
use crate::pieces::OutputPieces;
use crate::stage::Stage;

/// The agents of one run.
pub(crate) struct Agents {
    stage: Rc<Stage>,
    rules: EngineRules,
    /// The messages that arrived: names and numbers of requests.
    arrived: RefCell<BTreeSet<(String, String)>>,
}

impl Agents {
    pub(crate) fn new(stage: &Rc<Stage>, rules: EngineRules) -> Rc<Agents> {
        Rc::new(Agents { stage: Rc::clone(stage), rules, arrived: RefCell::default() })
    }

    /// Records a message. Nothing is sent twice: an exchange with an agent that fails is not repeated.
    fn note(&self, name: &str, number: &str) {
        let entry = (name.to_owned(), number.to_owned());
        if name == "session" {
            return;
        }
        let known = number.parse().is_ok_and(|id: u64| self.stage.ledger.borrow().contains_key(&id));
        assert!(known, "nobody sent {entry:?}");
        assert!(self.arrived.borrow_mut().insert(entry), "{name} of {number} arrived twice");
    }

    fn draws(&self, one_in: u64) -> bool {
        self.stage.faulty && self.stage.network.random(one_in) == 0
    }
}

/// Serves a connection until it ends.
pub(crate) async fn serve(agents: Rc<Agents>, peer: SimulatedPeer) {
    let network = &agents.stage.network;
    let most = network.random(6);
    let fault = match network.random(12) {
        _ if !agents.stage.faulty => None,
        0 => Some(Fault::Close),
        1 => Some(Fault::Reset),
        2 => Some(Fault::Vanish),
        3 => Some(Fault::Disconnect(STATUSES[network.random(STATUSES.len() as u64) as usize])),
        4 | 5 => Some(Fault::Garbage),
        6 => Some(Fault::Silence),
        _ => None,
    };
    let connection = AgentEnd {
        agents: &agents,
        peer: &peer,
        offers_pipelining: network.random(4) > 0,
        held: Vec::new(),
        out: OutputPieces::new(20),
        answers: Vec::new(),
        awaited: 0,
        fault: fault.map(|fault| (most, fault)),
        is_silent: false,
        closes: false,
    };
    match connection.run().await {
        Some(Fault::Reset) => peer.reset(),
        Some(Fault::Vanish) => peer.vanish(),
        _ => drop(peer),
    }
}

/// A fault of an agent, which ends its connection.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Close,
    Reset,
    Vanish,
    /// Sends a DISCONNECT frame with this status.
    Disconnect(u32),
    /// Sends something that is not allowed.
    Garbage,
    /// Sends nothing any more.
    Silence,
}

/// Statuses that agents send, one of their own among them.
pub(crate) const STATUSES: &[u32] = &[0, 1, 2, 4, 12, 99, OWN_STATUS];
pub(crate) const OWN_STATUS: u32 = 42;

/// One connection of an agent.
struct AgentEnd<'a> {
    agents: &'a Agents,
    peer: &'a SimulatedPeer,
    offers_pipelining: bool,
    held: Vec<u8>,
    out: OutputPieces,
    /// Answers, and their times.
    answers: Vec<(Tick, Vec<u8>)>,
    /// NOTIFY frames without an answer so far.
    awaited: usize,
    /// The fault after this many frames.
    fault: Option<(u64, Fault)>,
    is_silent: bool,
    /// The connection closes once `out` is sent.
    closes: bool,
}

impl AgentEnd<'_> {
    /// Runs until the connection ends. Returns the fault that ends it.
    async fn run(mut self) -> Option<Fault> {
        loop {
            while let Some(frame) = self.next_frame() {
                if let Some(fault) = self.take_in(&frame) {
                    return Some(fault);
                }
            }
            self.release();
            let sent = self.out.send(self.peer, &self.agents.stage.network)?;
            if self.closes && self.out.bytes.is_empty() {
                return None;
            }
            match self.peer.try_receive(1 + self.random(4_000) as usize) {
                Ok(Some(bytes)) if bytes.is_empty() => return None,
                Ok(Some(bytes)) => self.held.extend(bytes),
                Ok(None) if sent => {}
                Ok(None) => {
                    let next = self.answers.iter().map(|(at, _)| *at).min().unwrap_or(Tick::NEVER);
                    // A full window wakes the script when there is room.
                    let next = if self.out.sends_at > now() { next.min(self.out.sends_at) } else { next };
                    self.peer.wait_until(next).await;
                }
                Err(_) => return None,
            }
        }
    }

    fn random(&self, bound: u64) -> u64 {
        self.agents.stage.network.random(bound)
    }

    fn next_frame(&mut self) -> Option<Vec<u8>> {
        let limit = self.agents.rules.max_frame_size;
        let length = frame::read(&self.held, limit).expect("a valid frame")?.1;
        Some(self.held.drain(..length).collect())
    }

    /// Handles a frame. Returns the fault that ends the connection now.
    fn take_in(&mut self, bytes: &[u8]) -> Option<Fault> {
        let limit = self.agents.rules.max_frame_size;
        let (frame, _) = frame::read(bytes, limit).ok().flatten().expect("it was read before");
        if let Some((left, fault)) = &mut self.fault {
            let fault = *fault;
            match left.checked_sub(1) {
                Some(fewer) => *left = fewer,
                None => {
                    self.fault = None;
                    match fault {
                        Fault::Silence => self.is_silent = true,
                        Fault::Disconnect(status) => {
                            write_agent_disconnect(status, b"leaving", &mut self.out.bytes);
                            self.closes = true;
                        }
                        Fault::Garbage => self.send_garbage(),
                        now => return Some(now),
                    }
                }
            }
        }
        match frame.kind {
            _ if self.is_silent || self.closes => {}
            SpopFrameKind::HaproxyHello => {
                write_agent_hello(limit, self.offers_pipelining, &mut self.out.bytes);
            }
            SpopFrameKind::HaproxyDisconnect => {
                write_agent_disconnect(0, b"", &mut self.out.bytes);
                self.closes = true;
            }
            SpopFrameKind::Notify => self.answer(frame),
            other => panic!("an agent received {other:?}"),
        }
        None
    }

    fn answer(&mut self, frame: SpopFrame<'_>) {
        self.awaited += 1;
        let pipelines = self.offers_pipelining && self.agents.rules.pipelining;
        assert!(pipelines || self.awaited == 1, "{} exchanges without pipelining", self.awaited);
        let mut payload = Vec::new();
        for message in NotifyMessages::new(frame.payload) {
            let message = message.expect("a valid message");
            let name = std::str::from_utf8(message.name).expect("a name of the configuration");
            if name == "padding" {
                continue;
            }
            let value = message.arguments[0].1;
            if let TypedData::Text(number) = value {
                self.agents.note(name, std::str::from_utf8(number).expect("a number"));
            }
            let (scope, name) = match name {
                "session" => (ActionScope::Session, b"client"),
                "request" => (ActionScope::Transaction, b"judged"),
                _ => (ActionScope::Response, b"passed"),
            };
            write_action(&AgentAction::SetVar { scope, name, value }, &mut payload);
        }
        let delay_ms = match self.random(4) {
            // More than any exchange lasts.
            0 if self.agents.draws(4) => self.agents.rules.processing_ms + self.random(1_000),
            0 | 1 => self.random(100),
            _ => 0,
        };
        if self.agents.draws(12) {
            return;
        }
        if self.agents.draws(20) {
            // No action has this type.
            payload.extend([200, 0]);
        }
        let mut ack = Vec::new();
        let ack_frame = SpopFrame { kind: SpopFrameKind::Ack, flags: FIN, payload: &payload, ..frame };
        frame::write(&ack_frame, &mut ack);
        if self.agents.draws(10) {
            ack.extend(ack.clone());
        }
        self.answers.push((now().after(delay_ms), ack));
    }

    fn send_garbage(&mut self) {
        match self.random(6) {
            0 => self.out.bytes.extend([255; 9]),
            1 => self.out.bytes.extend([0, 0, 0, 1, 1]),
            // An exchange that does not exist.
            2 => write_ack(u64::from(u32::MAX), 1, &[], &mut self.out.bytes),
            // A fragment.
            3 => {
                let whole =
                    SpopFrame { kind: SpopFrameKind::Ack, flags: 0, stream_id: 1, frame_id: 1, payload: b"" };
                frame::write(&whole, &mut self.out.bytes);
            }
            4 => write_agent_hello(
                self.agents.rules.max_frame_size,
                self.offers_pipelining,
                &mut self.out.bytes,
            ),
            _ => self.out.bytes.extend(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        }
    }

    /// Queues the answers that are due.
    fn release(&mut self) {
        let now = now();
        let due = self.answers.extract_if(.., |(at, _)| *at <= now).map(|(_, ack)| ack);
        for ack in due {
            self.awaited = self.awaited.saturating_sub(1);
            self.out.bytes.extend(ack);
        }
    }
}
