//! One socket: an end of a connection, or one that listens.

use std::collections::VecDeque;

use weir_sys::{Address, Errno};

use crate::key::TaskKey;

/// Identifies an end of a connection or a listening socket. Never reused.
pub(in super::super) type SocketId = u32;

/// The owner of a socket, notified of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum SimulatedOwner {
    /// A registered descriptor of the worker under test.
    Descriptor(u64),
    /// An unregistered descriptor of the worker under test.
    Transit,
    /// A script: this task is woken.
    Script(TaskKey),
    /// Not owned yet: in the accept queue.
    Waiting,
    /// Closed by its owner.
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
    /// This end sent a FIN.
    pub(super) shut: bool,
    /// The connection was reset or failed.
    pub(super) reset: bool,
    pub(super) error: Option<Errno>,
    /// Bytes sent by this end and not arrived yet.
    pub(super) in_flight: usize,
    pub(super) last_arrival_ns: u64,
    /// A send found the window full. The owner is notified when part of it is free.
    pub(super) awaits_room: bool,
    /// Bytes sent to this end are lost without an error.
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
