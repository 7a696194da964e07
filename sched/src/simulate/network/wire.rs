//! All connections of a simulated network, the bytes in transit, and the time.
//!
//! An end of a connection, as its owner finds it:
//!
//! ```text
//!   connecting ──established──► connected ──our FIN──► shut ──┐
//!       │                           │                         ├─ both ──► hung up
//!       └─refused, no answer─┐      └─the peer's FIN ► ended ─┘
//!                            ▼                 a reset, at any time
//!                          failed ◄───────────────────────────
//! ```
//! Sent bytes are cut into pieces, each with a time of arrival not before that of the previous one. Bytes in transit,
//! and arrived bytes not yet received, occupy a window. A sender that finds the window full is notified when part of it
//! is free.

mod socket;
mod time;

pub(super) use socket::{SimulatedOwner, SocketId};

use self::socket::{ConnectionEnd, SimulatedListener, SimulatedSocket};
use super::super::random::SeededRandom;
use super::UnfinishedReason;
use crate::key::TaskKey;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::net::Ipv4Addr;
use std::rc::Rc;
use weir_sys::poll::Readiness;
use weir_sys::{Address, Errno, Result};

/// Properties and faults of the network. A fault happens once in the given number of times; 0 is never.
#[derive(Debug, Clone)]
pub struct Conditions {
    /// Maximum bytes of one direction that are in transit or not received yet.
    pub window: usize,
    /// How often a piece is cut at a random offset.
    pub cuts: u32,
    /// Maximum latency of a piece in microseconds. Once in fifty times it is up to twenty times as long.
    pub latency_us: u64,
    /// How often a send takes fewer bytes than fit.
    pub short_sends: u32,
    /// How often a spurious event is reported.
    pub spurious: u32,
    /// How often a send resets the connection.
    pub resets: u32,
    /// How often a connection is already aborted when it is accepted.
    pub aborts: u32,
    /// Maximum number of open sockets of the worker under test.
    pub descriptors: usize,
    /// Maximum virtual time of a run in milliseconds. A longer run counts as endless.
    pub limit_ms: u64,
    pub trace: bool,
}

impl Conditions {
    /// No faults, and few cuts.
    pub const CALM: Self = Self {
        window: 1 << 16,
        cuts: 0,
        latency_us: 100,
        short_sends: 0,
        spurious: 0,
        resets: 0,
        aborts: 0,
        descriptors: usize::MAX,
        limit_ms: 7_200_000,
        trace: false,
    };
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum WireEvent {
    Arrive(SocketId, Vec<u8>),
    Fin(SocketId),
    Reset(SocketId),
    Room(SocketId),
    Established(SocketId),
    Failed(SocketId),
    Unanswered(SocketId),
    Incoming(SocketId, SocketId),
    HungUp(SocketId),
    Spurious(SocketId),
}

/// All simulated connections of one run: see the state diagram above.
pub(super) struct SimulatedWire {
    time: Rc<Cell<u64>>,
    pub(super) random: SeededRandom,
    pub(super) conditions: Conditions,
    sockets: BTreeMap<SocketId, SimulatedSocket>,
    next_id: SocketId,
    tokens: BTreeMap<u64, SocketId>,
    /// Open descriptors that are not registered: number, kernel name and socket.
    transit: Vec<(i32, Option<String>, SocketId)>,
    events: BinaryHeap<Reverse<(u64, u64, WireEvent)>>,
    sequence: u64,
    /// Sockets with an owner to notify.
    ready: Vec<SocketId>,
    /// Scripts to wake in the next step.
    pub(super) woken: Vec<TaskKey>,
    pub(super) unfinished: Option<UnfinishedReason>,
    began_ns: u64,
    next_port: u16,
    digest: u64,
}

impl SimulatedWire {
    pub(super) fn new(time: Rc<Cell<u64>>, random: SeededRandom, conditions: Conditions) -> Self {
        Self {
            began_ns: time.get(),
            time,
            random,
            conditions,
            sockets: BTreeMap::new(),
            next_id: 1,
            tokens: BTreeMap::new(),
            transit: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            ready: Vec::new(),
            woken: Vec::new(),
            unfinished: None,
            next_port: FIRST_PORT,
            digest: 0,
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest
    }

    pub(super) fn note(&mut self, text: &dyn std::fmt::Display) {
        if self.conditions.trace {
            eprintln!("{:>12.3} ms  {text}", (self.time.get() - self.began_ns) as f64 / 1e6);
        }
    }

    // The operations of descriptors and scripts.

    pub(super) fn listen(
        &mut self,
        address: &Address,
        owner: SimulatedOwner,
        descriptor: Option<i32>,
    ) -> Result<SocketId> {
        if self.listening_at(address).is_some() {
            return Err(Errno::ADDRINUSE);
        }
        let listening = SimulatedListener {
            owner,
            descriptor: None,
            address: address.clone(),
            queue: VecDeque::new(),
            answers: true,
        };
        let id = self.insert(SimulatedSocket::Listening(listening));
        if let Some(number) = descriptor {
            self.hand_out(id, number);
        }
        Ok(id)
    }

    /// Starts to connect. The outcome is an event.
    pub(super) fn connect(&mut self, from: &Address, to: &Address, owner: SimulatedOwner) -> SocketId {
        let end = self.insert(SimulatedSocket::End(ConnectionEnd::new(owner, from.clone())));
        let later = self.later_ns();
        self.say(format_args!("{end} connects from {from} to {to}"));
        match self.listening_at(to) {
            None => self.at(later, WireEvent::Failed(end)),
            Some((_, false)) => self.at(self.time.get() + NO_ANSWER_NS, WireEvent::Unanswered(end)),
            Some((listener, true)) => {
                let mut far = ConnectionEnd::new(SimulatedOwner::Waiting, to.clone());
                (far.peer, far.connected) = (end, true);
                let far = self.insert(SimulatedSocket::End(far));
                if let Some(near) = self.end(end) {
                    near.peer = far;
                }
                self.at(later, WireEvent::Established(end));
                let incoming = later + self.random.below(self.conditions.latency_us.max(1)) * 1000;
                self.at(incoming, WireEvent::Incoming(listener, far));
            }
        }
        end
    }

    pub(super) fn connect_descriptor(&mut self, descriptor: i32, to: &Address) -> Result<()> {
        self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
        let from = Address::from((Ipv4Addr::LOCALHOST, self.next_port));
        let end = self.connect(&from, to, SimulatedOwner::Transit);
        self.hand_out(end, descriptor);
        Ok(())
    }

    /// Accepts a connection from a listening socket of a script.
    pub(super) fn accept_for_script(&mut self, listener: SocketId) -> Option<SocketId> {
        match self.sockets.get_mut(&listener) {
            Some(SimulatedSocket::Listening(listening)) => listening.queue.pop_front(),
            _ => None,
        }
    }

    /// Accepts a connection from a listening socket. Returns its source address too.
    pub(super) fn accept(&mut self, listener: SocketId) -> Result<(SocketId, Address)> {
        let end = self.accept_for_script(listener).ok_or(Errno::AGAIN)?;
        if self.random.once_in(self.conditions.aborts) {
            self.close(end, true);
            return Err(Errno::CONNABORTED);
        }
        let peer = self.end(end).map_or(0, |end| end.peer);
        let from = self.end(peer).map_or(Address::Unnamed, |peer| peer.address.clone());
        Ok((end, from))
    }

    pub(super) fn receive(&mut self, id: SocketId, space: &mut [u8]) -> Result<usize> {
        let count = self.peek(id, space)?;
        let Some(end) = self.end(id) else { return Err(Errno::NOTCONN) };
        end.inbox.drain(..count);
        let peer = end.peer;
        self.offer_room(peer);
        Ok(count)
    }

    /// The bytes that [`SimulatedWire::receive`] would return; an error is reported once.
    pub(super) fn peek(&mut self, id: SocketId, space: &mut [u8]) -> Result<usize> {
        let Some(end) = self.end(id) else { return Err(Errno::NOTCONN) };
        let count = end.inbox.len().min(space.len());
        if count > 0 {
            space[..count].iter_mut().zip(&end.inbox).for_each(|(to, from)| *to = *from);
            return Ok(count);
        }
        if let Some(error) = end.error.take() {
            return Err(error);
        }
        if end.ended || end.reset {
            return Ok(0);
        }
        Err(if end.connected { Errno::AGAIN } else { Errno::NOTCONN })
    }

    pub(super) fn send(&mut self, id: SocketId, bytes: &[u8]) -> Result<usize> {
        let room = self.room(id)?;
        let mut count = room.min(bytes.len());
        if count > 1 && self.random.once_in(self.conditions.short_sends) {
            count = 1 + self.random.below(count as u64 - 1) as usize;
        }
        if count < bytes.len() {
            self.await_room(id);
        }
        if self.random.once_in(self.conditions.resets) {
            self.reset_both(id);
        }
        self.cut(id, &bytes[..count]);
        Ok(count)
    }

    /// Maximum bytes that a send would take.
    pub(super) fn room(&mut self, id: SocketId) -> Result<usize> {
        let Some(end) = self.end(id) else { return Err(Errno::PIPE) };
        if let Some(error) = end.error.take() {
            return Err(error);
        }
        if end.reset || end.shut {
            return Err(Errno::PIPE);
        }
        if !end.connected {
            return Err(Errno::AGAIN);
        }
        match self.free(id) {
            0 => {
                self.await_room(id);
                Err(Errno::AGAIN)
            }
            room => Ok(room),
        }
    }

    pub(super) fn shutdown_write(&mut self, id: SocketId) -> Result<()> {
        let now_ns = self.later_ns();
        let Some(end) = self.end(id) else { return Err(Errno::NOTCONN) };
        if end.shut || end.reset {
            return Err(Errno::NOTCONN);
        }
        end.shut = true;
        end.last_arrival_ns = end.last_arrival_ns.max(now_ns);
        let (at, peer, ended) = (end.last_arrival_ns, end.peer, end.ended);
        self.at(at, WireEvent::Fin(peer));
        if ended {
            self.at(at, WireEvent::HungUp(id));
        }
        Ok(())
    }

    pub(super) fn take_error(&mut self, id: SocketId) -> Result<()> {
        match self.end(id).and_then(|end| end.error.take()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Closes a socket: with a reset if bytes were not received, if `resets` is set, or when more bytes arrive.
    pub(super) fn close(&mut self, id: SocketId, resets: bool) {
        if let Some(SimulatedSocket::Listening(listening)) = self.sockets.get_mut(&id) {
            let queue = std::mem::take(&mut listening.queue);
            if let SimulatedOwner::Descriptor(token) = listening.owner {
                self.tokens.remove(&token);
            }
            self.sockets.remove(&id);
            self.say(format_args!("{id} listens no more"));
            queue.into_iter().for_each(|end| self.close(end, true));
            return;
        }
        let Some(end) = self.end(id) else { return };
        let (owner, peer) = (end.owner, end.peer);
        let resets = resets || !end.inbox.is_empty();
        let done = end.reset || end.vanished || !end.connected;
        end.owner = SimulatedOwner::Closed;
        end.descriptor = None;
        end.inbox.clear();
        if let SimulatedOwner::Descriptor(token) = owner {
            self.tokens.remove(&token);
        }
        self.say(format_args!("{id} is closed{}", if resets && !done { " with a reset" } else { "" }));
        if resets && !done {
            // The reset may overtake bytes in transit, which are then lost.
            let at = self.later_ns();
            if let Some(end) = self.end(id) {
                end.reset = true;
            }
            self.at(at, WireEvent::Reset(peer));
        } else if !done {
            let _ = self.shutdown_write(id);
        } else if !self.end(id).is_some_and(|end| end.connected) {
            // The far end never learns of the attempt.
            if let Some(end) = self.end(id) {
                end.reset = true;
            }
            let at = self.later_ns();
            self.at(at, WireEvent::Reset(peer));
        }
        self.bury(id);
    }

    /// Makes this end stop answering, without an error.
    pub(super) fn vanish(&mut self, id: SocketId) {
        self.say(format_args!("{id} vanishes"));
        if let Some(end) = self.end(id) {
            end.vanished = true;
            end.owner = SimulatedOwner::Closed;
        }
    }

    /// Sets whether a listening socket answers connection attempts.
    pub(super) fn answer(&mut self, id: SocketId, answers: bool) {
        if let Some(SimulatedSocket::Listening(listening)) = self.sockets.get_mut(&id) {
            listening.answers = answers;
        }
    }

    // Descriptors.

    pub(super) fn may_open(&mut self) -> Result<()> {
        if self.held() < self.conditions.descriptors {
            return Ok(());
        }
        self.say(format_args!("no descriptor is left"));
        Err(Errno::MFILE)
    }

    /// How many sockets the worker under test has open.
    pub(super) fn held(&mut self) -> usize {
        self.look_at_transit();
        let owners = self.sockets.values().map(SimulatedSocket::owner);
        owners
            .filter(|owner| matches!(owner, SimulatedOwner::Descriptor(_) | SimulatedOwner::Transit))
            .count()
    }

    /// Assigns a placeholder descriptor to a socket.
    pub(super) fn hand_out(&mut self, id: SocketId, descriptor: i32) {
        self.transit.retain(|(number, ..)| *number != descriptor);
        self.transit.push((descriptor, name_of(descriptor), id));
        if let Some((owner, place)) = self.sockets.get_mut(&id).map(SimulatedSocket::parts) {
            (*owner, *place) = (SimulatedOwner::Transit, Some(descriptor));
        }
    }

    pub(super) fn adopt(&mut self, descriptor: i32, token: u64) -> bool {
        let Some(at) = self.transit.iter().position(|(number, ..)| *number == descriptor) else {
            return false;
        };
        let (_, _, id) = self.transit.remove(at);
        let Some((owner, _)) = self.sockets.get_mut(&id).map(SimulatedSocket::parts) else { return false };
        *owner = SimulatedOwner::Descriptor(token);
        self.tokens.insert(token, id);
        self.hears(id);
        true
    }

    pub(super) fn release(&mut self, token: u64) {
        let Some(id) = self.tokens.remove(&token) else { return };
        if let Some(number) = self.descriptor_of(id) {
            self.hand_out(id, number);
        }
    }

    pub(super) fn of_token(&self, token: u64) -> Option<SocketId> {
        self.tokens.get(&token).copied()
    }

    pub(super) fn known(&self, token: u64) -> Result<SocketId> {
        self.of_token(token).ok_or(Errno::BADF)
    }

    pub(super) fn descriptor_of(&mut self, id: SocketId) -> Option<i32> {
        self.sockets.get_mut(&id).and_then(|socket| *socket.parts().1)
    }

    pub(super) fn set_script(&mut self, id: SocketId, task: TaskKey) {
        if let Some((owner, _)) = self.sockets.get_mut(&id).map(SimulatedSocket::parts) {
            *owner = SimulatedOwner::Script(task);
        }
    }

    pub(super) fn is_connected(&mut self, id: SocketId) -> bool {
        self.end(id).is_some_and(|end| end.connected)
    }

    /// An unregistered descriptor may be closed without notice. Its number is then free, or belongs to another socket.
    fn look_at_transit(&mut self) {
        let gone = |(number, name, _): &(i32, Option<String>, SocketId)| name_of(*number) != *name;
        while let Some(at) = self.transit.iter().position(gone) {
            let (_, _, id) = self.transit.remove(at);
            self.close(id, false);
        }
    }

    fn reset_both(&mut self, id: SocketId) {
        let Some(end) = self.end(id) else { return };
        let peer = end.peer;
        for end in [id, peer] {
            let at = self.later_ns();
            self.at(at, WireEvent::Reset(end));
        }
    }

    // Bytes.

    /// Puts bytes in transit, in pieces.
    fn cut(&mut self, id: SocketId, bytes: &[u8]) {
        let Some(end) = self.end(id) else { return };
        end.in_flight += bytes.len();
        let (peer, mut left) = (end.peer, bytes);
        while !left.is_empty() {
            let mut length = left.len();
            if self.random.once_in(self.conditions.cuts) {
                // Small pieces are as frequent as large ones.
                let bits = self.random.below(u64::from(usize::BITS - left.len().leading_zeros())) as u32;
                length = (1 + self.random.below(1_u64 << bits) as usize).min(left.len());
            }
            let (piece, rest) = left.split_at(length);
            let later = self.later_ns();
            let Some(end) = self.end(id) else { return };
            end.last_arrival_ns = end.last_arrival_ns.max(later);
            let at = end.last_arrival_ns;
            self.at(at, WireEvent::Arrive(peer, piece.to_vec()));
            left = rest;
        }
    }

    /// The free part of the window for sending from this end.
    fn free(&mut self, id: SocketId) -> usize {
        let window = self.conditions.window;
        let Some(end) = self.end(id) else { return 0 };
        let (in_flight, peer) = (end.in_flight, end.peer);
        let unread = self.end(peer).map_or(0, |peer| peer.inbox.len());
        window.saturating_sub(in_flight + unread)
    }

    fn await_room(&mut self, id: SocketId) {
        if let Some(end) = self.end(id) {
            end.awaits_room = true;
            self.offer_room(id);
        }
    }

    /// Notifies a sender that waits for the window once half of it is free, as a kernel does.
    fn offer_room(&mut self, id: SocketId) {
        let enough = self.free(id) * 2 >= self.conditions.window;
        if enough && self.end(id).is_some_and(|end| end.awaits_room) {
            let at = self.later_ns();
            self.at(at, WireEvent::Room(id));
        }
    }

    // Small things.

    fn readiness(&mut self, id: SocketId) -> Readiness {
        let free = self.free(id);
        let mut all = Readiness::empty();
        match self.sockets.get(&id) {
            Some(SimulatedSocket::Listening(listening)) => {
                all.set(Readiness::IN, !listening.queue.is_empty())
            }
            Some(SimulatedSocket::End(end)) => {
                all.set(Readiness::IN, !end.inbox.is_empty() || end.ended || end.reset);
                all.set(Readiness::OUT, end.reset || end.shut || (end.connected && free > 0));
                all.set(Readiness::RDHUP, end.ended || end.reset);
                all.set(Readiness::HUP, end.reset || (end.ended && end.shut));
                all.set(Readiness::ERR, end.error.is_some());
            }
            None => {}
        }
        all
    }

    /// Marks the owner of a socket to be notified of its state.
    fn hears(&mut self, id: SocketId) {
        match self.sockets.get(&id).map(SimulatedSocket::owner) {
            Some(SimulatedOwner::Script(task)) => self.woken.push(task),
            Some(SimulatedOwner::Descriptor(_)) if !self.ready.contains(&id) => self.ready.push(id),
            _ => {}
        }
    }

    /// Removes a closed end once its peer is closed too, or was notified of the close.
    fn bury(&mut self, id: SocketId) {
        let Some(end) = self.end(id) else { return };
        let (peer, closed) = (end.peer, end.owner == SimulatedOwner::Closed);
        let peer_closed = self.end(peer).is_none_or(|end| end.owner == SimulatedOwner::Closed);
        if closed && peer_closed {
            self.sockets.remove(&id);
            self.sockets.remove(&peer);
        }
    }

    fn insert(&mut self, socket: SimulatedSocket) -> SocketId {
        let id = self.next_id;
        self.next_id += 1;
        self.sockets.insert(id, socket);
        id
    }

    fn end(&mut self, id: SocketId) -> Option<&mut ConnectionEnd> {
        match self.sockets.get_mut(&id) {
            Some(SimulatedSocket::End(end)) => Some(end),
            _ => None,
        }
    }

    /// The socket that listens at an address, and whether it answers.
    fn listening_at(&self, address: &Address) -> Option<(SocketId, bool)> {
        self.sockets.iter().find_map(|(id, socket)| match socket {
            SimulatedSocket::Listening(listening) if listening.address == *address => {
                Some((*id, listening.answers))
            }
            _ => None,
        })
    }

    fn at(&mut self, at_ns: u64, event: WireEvent) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    /// A random arrival time for an event that starts now.
    fn later_ns(&mut self) -> u64 {
        let most_us = self.conditions.latency_us.max(1);
        let factor = if self.random.once_in(RARELY) { LONG } else { 1 };
        self.time.get() + 1000 + self.random.below(most_us * 1000) * factor
    }

    fn say(&mut self, text: std::fmt::Arguments<'_>) {
        if self.conditions.trace {
            self.note(&text);
        }
    }

    fn mix(&mut self, number: u64) {
        self.digest = (self.digest.rotate_left(5) ^ number).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}

/// The kernel's name of an open descriptor.
fn name_of(descriptor: i32) -> Option<String> {
    let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).escape_debug().to_string()
}

/// Ports of connections that the worker under test opens.
const FIRST_PORT: u16 = 32_768;
/// Time after which a kernel gives up a connection attempt without an answer.
const NO_ANSWER_NS: u64 = 127_000_000_000;
/// How often a piece takes long, and how much longer.
const RARELY: u32 = 50;
const LONG: u64 = 20;
