//! The far ends of the connections of the worker under test, used by scripts.
//!
//! They are used from tasks of that worker, each by one task at a time. They use no buffers or descriptors of the
//! worker, so a shortage there does not affect the scripts.

use super::SimulatedNetwork;
use super::wire::{SimulatedOwner, SocketId};
use crate::key::TaskKey;
use crate::tick::Tick;
use std::cell::Cell;
use weir_sys::{Address, Errno, Result};

/// One end of a connection. Dropping it closes it.
#[derive(Debug)]
pub struct SimulatedPeer {
    network: SimulatedNetwork,
    id: Option<SocketId>,
    sent: Cell<u64>,
    received: Cell<u64>,
}

/// A listening socket. Dropping it closes it. Connections not yet accepted are reset, and later ones refused.
#[derive(Debug)]
pub struct SimulatedService {
    network: SimulatedNetwork,
    id: SocketId,
}

impl SimulatedPeer {
    pub(super) fn connect(network: SimulatedNetwork, from: &Address, to: &Address) -> SimulatedPeer {
        let id = network.wire(|wire| wire.connect(from, to, SimulatedOwner::Script(TaskKey::NONE)));
        SimulatedPeer::new(network, id)
    }

    fn new(network: SimulatedNetwork, id: SocketId) -> SimulatedPeer {
        SimulatedPeer { network, id: Some(id), sent: Cell::new(0), received: Cell::new(0) }
    }

    /// Numbers of bytes sent and received so far.
    pub fn bytes(&self) -> (u64, u64) {
        (self.sent.get(), self.received.get())
    }

    /// Waits until the connection is established.
    ///
    /// # Errors
    /// When the connection is refused, times out, or is closed already.
    pub async fn connected(&self) -> Result<()> {
        loop {
            if self.with(|wire, id| wire.is_connected(id)) {
                return Ok(());
            }
            self.with(|wire, id| wire.take_error(id))?;
            self.wait().await;
        }
    }

    /// Receives at least one and at most `most` bytes. Empty at end of file.
    ///
    /// # Errors
    /// When the connection was reset, or never stood.
    pub async fn receive(&self, most: usize) -> Result<Vec<u8>> {
        loop {
            match self.try_receive(most)? {
                Some(bytes) => return Ok(bytes),
                None => self.wait().await,
            }
        }
    }

    /// Sends all bytes. Waits while the window is full.
    ///
    /// # Errors
    /// When the connection is gone, or this end has shut down its sending direction.
    pub async fn send(&self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match self.try_send(bytes)? {
                0 => self.wait().await,
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    /// Receives the available bytes, at most `most`; empty at the end of the stream, `None` when nothing is available.
    ///
    /// # Errors
    /// When the connection was reset, or never stood.
    pub fn try_receive(&self, most: usize) -> Result<Option<Vec<u8>>> {
        let mut space = vec![0; most];
        match self.with(|wire, id| wire.receive(id, &mut space)) {
            Ok(count) => {
                space.truncate(count);
                self.received.set(self.received.get() + count as u64);
                Ok(Some(space))
            }
            Err(Errno::AGAIN | Errno::NOTCONN) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends as many bytes as fit now; returns their number.
    ///
    /// # Errors
    /// When the connection is gone, or this end has shut down its sending direction.
    pub fn try_send(&self, bytes: &[u8]) -> Result<usize> {
        match self.with(|wire, id| wire.send(id, bytes)) {
            Ok(count) => {
                self.sent.set(self.sent.get() + count as u64);
                Ok(count)
            }
            Err(Errno::AGAIN) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Shuts down the sending direction.
    pub fn finish(&self) {
        // An error means that the connection is closed already.
        let _ = self.with(|wire, id| wire.shutdown_write(id));
    }

    /// Resets the connection. Bytes in transit may be lost.
    pub fn reset(mut self) {
        if let Some(id) = self.id.take() {
            self.network.wire(|wire| wire.close(id, true));
        }
    }

    /// Disappears silently. Later bytes to this peer are lost, and the sender gets no error.
    pub fn vanish(mut self) {
        if let Some(id) = self.id.take() {
            self.network.wire(|wire| wire.vanish(id));
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut super::SimulatedWire, SocketId) -> R) -> R {
        self.network.wire(|wire| {
            let id = self.id.expect("only its end takes it");
            act(wire, id)
        })
    }

    /// Waits until something happens to it.
    pub async fn wait(&self) {
        self.wait_until(Tick::NEVER).await;
    }

    /// Waits until something happens to it, or until `deadline`.
    pub async fn wait_until(&self, deadline: Tick) {
        self.with(|wire, id| wire.set_script(id, crate::current()));
        crate::wait(deadline).await;
    }
}

impl Drop for SimulatedPeer {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.network.wire(|wire| wire.close(id, false));
        }
    }
}

impl SimulatedService {
    pub(super) fn open(network: SimulatedNetwork, address: &Address) -> Result<SimulatedService> {
        let id = network.wire(|wire| wire.listen(address, SimulatedOwner::Script(TaskKey::NONE), None))?;
        Ok(SimulatedService { network, id })
    }

    /// Accepts the next connection.
    pub async fn accept(&self) -> SimulatedPeer {
        loop {
            let accepted = self.network.wire(|wire| {
                wire.set_script(self.id, crate::current());
                let accepted = wire.accept_for_script(self.id);
                accepted.inspect(|end| wire.set_script(*end, TaskKey::NONE))
            });
            match accepted {
                Some(end) => return SimulatedPeer::new(self.network.clone(), end),
                None => {
                    crate::wait(Tick::NEVER).await;
                }
            }
        }
    }

    /// Sets whether later connection attempts get an answer.
    pub fn answer(&self, answers: bool) {
        self.network.wire(|wire| wire.answer(self.id, answers));
    }
}

impl Drop for SimulatedService {
    fn drop(&mut self) {
        self.network.wire(|wire| wire.close(self.id, false));
    }
}
