//! One socket: an end of a connection, or one that listens.

use std::collections::VecDeque;

use weir_sys::{Address, Errno};

use crate::key::TaskKey;

/// Names an end of a connection or a listening socket; never given out again.
pub(in super::super) type SocketId = u32;

/// The owner of a socket, notified of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum SimulatedOwner {
    /// A registered descriptor of the worker under test.
    Descriptor(u64),
    /// A descriptor of it that is not registered.
    Transit,
    /// A script: this task is woken.
    Script(TaskKey),
    /// Not owned yet: it waits to be accepted.
    Waiting,
    /// Not owned any more: it was closed.
    Closed,
}

#[derive(Debug)]
pub(super) enum SimulatedSocket {
    End(ConnectionEnd),
    Listening(SimulatedListener),
}

#[derive(Debug)]
pub(super) struct ConnectionEnd {
    pub(super) owner: SimulatedOwner,
    pub(super) descriptor: Option<i32>,
    pub(super) peer: SocketId,
    pub(super) address: Address,
    pub(super) connected: bool,
    pub(super) inbox: VecDeque<u8>,
    /// The peer's FIN arrived.
    pub(super) ended: bool,
    /// We sent a FIN.
    pub(super) shut: bool,
    /// The connection is gone.
    pub(super) reset: bool,
    pub(super) error: Option<Errno>,
    /// Bytes that we sent and that did not arrive yet.
    pub(super) in_flight: usize,
    pub(super) last_arrival_ns: u64,
    /// A send found too little room; the owner is notified when there is some.
    pub(super) awaits_room: bool,
    /// Nothing that is sent here arrives, silently.
    pub(super) vanished: bool,
}

#[derive(Debug)]
pub(super) struct SimulatedListener {
    pub(super) owner: SimulatedOwner,
    pub(super) descriptor: Option<i32>,
    pub(super) address: Address,
    pub(super) queue: VecDeque<SocketId>,
    pub(super) answers: bool,
}

impl ConnectionEnd {
    pub(super) fn new(owner: SimulatedOwner, address: Address) -> Self {
        Self {
            owner,
            descriptor: None,
            peer: 0,
            address,
            connected: false,
            inbox: VecDeque::new(),
            ended: false,
            shut: false,
            reset: false,
            error: None,
            in_flight: 0,
            last_arrival_ns: 0,
            awaits_room: false,
            vanished: false,
        }
    }
}

impl SimulatedSocket {
    pub(super) fn owner(&self) -> SimulatedOwner {
        match self {
            SimulatedSocket::End(end) => end.owner,
            SimulatedSocket::Listening(listening) => listening.owner,
        }
    }

    pub(super) fn parts(&mut self) -> (&mut SimulatedOwner, &mut Option<i32>) {
        match self {
            SimulatedSocket::End(end) => (&mut end.owner, &mut end.descriptor),
            SimulatedSocket::Listening(listening) => (&mut listening.owner, &mut listening.descriptor),
        }
    }
}
