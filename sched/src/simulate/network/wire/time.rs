//! Events as time passes: pieces arrive, connections are established and fail, owners are notified.

use std::cmp::Reverse;

use weir_sys::Errno;
use weir_sys::poll::Readiness;

use super::socket::{SimulatedOwner, SimulatedSocket, SocketId};
use super::{SimulatedWire, WireEvent, shown};
use crate::simulate::network::UnfinishedReason;

impl SimulatedWire {
    /// Lets time pass until there is something to report, at most `timeout_ms`.
    pub(in super::super) fn pass(&mut self, timeout_ms: Option<u64>) {
        // Work takes time too.
        let now_ns = self.time.get() + 1000 + self.random.below(20_000);
        self.time.set(now_ns);
        if self.random.once_in(self.conditions.spurious) {
            let at = self.random.below(self.sockets.len().max(1) as u64) as usize;
            let some = self.sockets.keys().nth(at).copied();
            some.into_iter().for_each(|id| self.at(now_ns, WireEvent::Spurious(id)));
        }
        self.happen();
        let quiet = self.ready.is_empty() && self.woken.is_empty();
        if quiet && timeout_ms != Some(0) {
            self.look_at_transit();
            let due = timeout_ms.map(|timeout| now_ns + timeout * 1_000_000);
            let next = self.events.peek().map(|Reverse((at, ..))| *at);
            match due.into_iter().chain(next).min() {
                Some(at) => self.time.set(at.max(now_ns)),
                None => self.unfinished = Some(UnfinishedReason::Stuck),
            }
            self.happen();
        }
        if (self.time.get() - self.began_ns) / 1_000_000 > self.conditions.limit_ms {
            self.unfinished.get_or_insert(UnfinishedReason::TooLong);
        }
    }

    /// Lets time pass without anything being reported meanwhile.
    pub(in super::super) fn skip(&mut self, ms: u64) {
        self.time.set(self.time.get() + ms * 1_000_000);
    }

    /// Takes the sockets to report, in any order, with their readiness now.
    pub(in super::super) fn take_reports(&mut self) -> Vec<(u64, Readiness)> {
        let mut ready = std::mem::take(&mut self.ready);
        let mut reports = Vec::with_capacity(ready.len());
        while !ready.is_empty() {
            let id = ready.swap_remove(self.random.below(ready.len() as u64) as usize);
            let readiness = self.readiness(id);
            if let (Some(SimulatedOwner::Descriptor(token)), false) =
                (self.sockets.get(&id).map(SimulatedSocket::owner), readiness.is_empty())
            {
                reports.push((token, readiness));
            }
        }
        reports
    }

    pub(super) fn happen(&mut self) {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at <= self.time.get()) {
            let Some(Reverse((at, _, event))) = self.events.pop() else { return };
            self.mix(at);
            self.take_effect(event);
        }
    }

    pub(super) fn take_effect(&mut self, event: WireEvent) {
        if self.conditions.trace {
            let text = match &event {
                WireEvent::Arrive(id, bytes) => {
                    format!("{id} gets {} bytes: {:.60}", bytes.len(), shown(bytes))
                }
                other => format!("{other:?}"),
            };
            self.note(&text);
        }
        match event {
            WireEvent::Arrive(id, bytes) => self.arrive(id, &bytes),
            WireEvent::Fin(id) => {
                self.mix(2);
                if let Some(end) = self.end(id).filter(|end| !end.reset && !end.vanished) {
                    end.ended = true;
                    self.hears(id);
                    self.bury(id);
                }
            }
            WireEvent::Reset(id) => self.be_reset(id),
            WireEvent::Room(id) => {
                if self.free(id) > 0
                    && let Some(end) = self.end(id)
                {
                    end.awaits_room = false;
                    self.hears(id);
                }
            }
            WireEvent::Established(id) => {
                self.mix(3);
                if let Some(end) = self.end(id).filter(|end| !end.reset) {
                    end.connected = true;
                    self.hears(id);
                }
            }
            WireEvent::Failed(id) => self.fail(id, Errno::CONNREFUSED),
            WireEvent::Unanswered(id) => self.fail(id, Errno::TIMEDOUT),
            WireEvent::Incoming(listener, id) => self.come_in(listener, id),
            WireEvent::HungUp(id) | WireEvent::Spurious(id) => self.hears(id),
        }
    }

    pub(super) fn arrive(&mut self, id: SocketId, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        self.mix(u64::from(bytes[0]));
        let Some(end) = self.end(id) else { return };
        if end.vanished {
            return;
        }
        let (peer, open) = (end.peer, end.owner != SimulatedOwner::Closed);
        if let Some(sender) = self.end(peer) {
            sender.in_flight = sender.in_flight.saturating_sub(bytes.len());
        }
        let Some(end) = self.end(id) else { return };
        if end.reset {
            return;
        }
        if !open {
            // The receiver is gone.
            end.reset = true;
            let at = self.later_ns();
            self.at(at, WireEvent::Reset(peer));
            return self.bury(id);
        }
        end.inbox.extend(bytes);
        self.hears(id);
    }

    pub(super) fn be_reset(&mut self, id: SocketId) {
        self.mix(4);
        let Some(end) = self.end(id).filter(|end| !end.reset) else { return };
        end.reset = true;
        end.error = Some(if end.ended { Errno::PIPE } else { Errno::CONNRESET });
        self.hears(id);
        self.bury(id);
    }

    pub(super) fn fail(&mut self, id: SocketId, error: Errno) {
        self.mix(5);
        if let Some(end) = self.end(id) {
            (end.reset, end.error) = (true, Some(error));
            self.hears(id);
            self.bury(id);
        }
    }

    pub(super) fn come_in(&mut self, listener: SocketId, id: SocketId) {
        self.mix(6);
        match self.sockets.get_mut(&listener) {
            Some(SimulatedSocket::Listening(listening)) => {
                listening.queue.push_back(id);
                self.hears(listener);
            }
            // The listener has closed since the connection was begun.
            _ => self.close(id, true),
        }
    }
}
