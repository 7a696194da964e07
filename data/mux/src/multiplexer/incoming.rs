//! Input of a multiplexed connection: distributes received frames to the streams.
//!
//! A scheduling round receives a few times. It processes a limited number of frames in place, and wakes each stream that gets data.

use weir_h2::{ConnectionEvent, ErrorCode, ReceivedHead};
use weir_net::{ConnectionFault, ReceiveOutcome, shortage};
use weir_sched::TaskKey;
use weir_sys::Errno;

use super::slot::{SendEvent, StreamSlot};
use super::trace::Passing;
use super::{MAX_OUTPUT, MultiplexerState, Pace, ROUNDS, rooms};

/// Maximum streams that a peer opens in one scheduling round. A stream costs microseconds, even one that is reset at once, and a client may
/// reset a thousand before its connection is closed.
const STREAMS: usize = 64;

impl MultiplexerState {
    /// Receives, and passes the data to the streams. True if there may be more. The stream that got data last may run next, while the
    /// data are still in the processor's cache (R188).
    pub(super) fn receive(&mut self, now_ms: u64) -> bool {
        let mut last = TaskKey::NONE;
        let more = self.take_in(now_ms, &mut last);
        if !last.is_none() {
            weir_sched::wake_next(last);
        }
        more
    }

    fn take_in(&mut self, now_ms: u64, last: &mut TaskKey) -> bool {
        let mut fresh = !self.connection.input().is_empty();
        let frames = self.engine.frames();
        self.resets = 0;
        for _ in 0..ROUNDS {
            if fresh && !self.demultiplex(now_ms, frames, last) {
                return true;
            }
            if self.fault.is_some() || self.engine.failure().is_some() {
                return false;
            }
            // While the peer does not read the output, no further input is processed.
            if self.engine.output().len() > MAX_OUTPUT {
                self.withheld = true;
                return false;
            }
            match self.connection.receive_bulk() {
                ReceiveOutcome::Bytes(count) => {
                    fresh = true;
                    self.trace_received(count);
                }
                ReceiveOutcome::Nothing => return false,
                ReceiveOutcome::End => {
                    self.ended = true;
                    self.wake_all();
                    if self.sends_requests {
                        // No response can arrive any more. HTTP/2 connections cannot be half-closed.
                        self.fail(ConnectionFault::Io(Errno::CONNRESET));
                    }
                    return false;
                }
                ReceiveOutcome::Full => self.fail(ConnectionFault::Io(Errno::PROTO)),
                ReceiveOutcome::Failed(fault) => self.fail(fault),
            }
        }
        true
    }

    /// Distributes received frames. False if this round, which began at `frames` frames, must end.
    fn demultiplex(&mut self, now_ms: u64, frames: u64, last: &mut TaskKey) -> bool {
        loop {
            let awaited = self.awaited_by_trace();
            let (used, event) = self.engine.advance(self.connection.input(), now_ms);
            if let Some(awaited) = awaited {
                self.emit_input(awaited, used, &event);
            }
            let more = event != ConnectionEvent::More;
            self.happened(event, last);
            self.connection.consume(used);
            if !more || self.engine.failure().is_some() {
                return true;
            }
            let Pace { frames: most, resets, .. } = self.pace;
            let taken = self.engine.frames() - frames;
            let is_enough = (most > 0 && taken >= u64::from(most)) || (resets > 0 && self.resets >= resets);
            if is_enough || self.started.len() >= STREAMS {
                return false;
            }
        }
    }

    fn happened(&mut self, event: ConnectionEvent, last: &mut TaskKey) {
        match event {
            ConnectionEvent::More => {}
            ConnectionEvent::Request { stream, end } => {
                let head = self.take_head();
                self.trace_head(Passing::RequestReceived, stream, &head.head, &head.bytes);
                if shortage::is_short() {
                    // The client may retry a refused stream (RFC 9113, 8.7). The head's memory is already allocated.
                    shortage::count_refusal();
                    rooms::give(head);
                    return self.engine.reset(stream, ErrorCode::RefusedStream);
                }
                let mut slot = StreamSlot::new(stream);
                slot.ended = end;
                slot.add_head(head);
                self.slots.push_back(slot);
                self.started.push_back(stream);
            }
            ConnectionEvent::Response { stream, end } => {
                let head = self.take_head();
                self.trace_head(Passing::ResponseReceived, stream, &head.head, &head.bytes);
                let Some(slot) = self.slot(stream) else { return rooms::give(head) };
                if end {
                    slot.end(b"");
                }
                let kept = slot.add_head(head);
                if !kept {
                    slot.fault = Some(ConnectionFault::Protocol);
                }
                feed(slot.task, last);
                if !kept {
                    self.engine.reset(stream, ErrorCode::EnhanceYourCalm);
                }
            }
            ConnectionEvent::GoAway { last, .. } => {
                for slot in self.slots.iter_mut().filter(|slot| slot.id > last) {
                    slot.fault = Some(ConnectionFault::Refused);
                    slot.wake();
                }
            }
            ConnectionEvent::Data { stream, bytes, end } => {
                let bytes = &self.connection.input()[bytes];
                let count = bytes.len() as u32;
                let Ok(at) = self.slots.binary_search_by_key(&stream, |slot| slot.id) else {
                    self.engine.consumed(stream, count);
                    return;
                };
                if shortage::is_exhausted() {
                    shortage::count_refusal();
                    self.engine.consumed(stream, count);
                    self.engine.reset(stream, ErrorCode::EnhanceYourCalm);
                    self.slots[at].fault.get_or_insert(ConnectionFault::Shortage);
                    return self.slots[at].wake();
                }
                let slot = &mut self.slots[at];
                // A stream that was woken and did not take its bytes waits for something else, and will check for bytes afterwards.
                let is_news = end || slot.is_drained();
                slot.add_payload(bytes);
                if end {
                    slot.end(b"");
                }
                if is_news {
                    feed(slot.task, last);
                }
            }
            ConnectionEvent::Trailers { stream } => {
                if let Ok(at) = self.slots.binary_search_by_key(&stream, |slot| slot.id) {
                    self.slots[at].end(self.engine.trailers());
                    feed(self.slots[at].task, last);
                }
            }
            ConnectionEvent::Reset { stream, code, received } => {
                self.resets += 1;
                self.trace_reset(stream, code, received);
                let sends_requests = self.sends_requests;
                if let Some(slot) = self.slot(stream) {
                    slot.fault = Some(match code {
                        ErrorCode::RefusedStream => ConnectionFault::Refused,
                        _ => ConnectionFault::Io(Errno::CONNRESET),
                    });
                    slot.abort = received;
                    slot.wake();
                    // The stream was opened and reset before its task could run.
                    if received.is_some() && !sends_requests && slot.has_head() {
                        self.engine.tolerate();
                    }
                }
            }
            ConnectionEvent::Window { stream: 0 } => self.wake_admitted(),
            ConnectionEvent::Window { stream } => {
                let admits = self.engine.sendable(stream) != Some(0);
                if let Some(slot) =
                    self.slot(stream).filter(|slot| slot.awaits == SendEvent::Window && admits)
                {
                    slot.awaits = SendEvent::Nothing;
                    slot.wake();
                }
            }
            ConnectionEvent::Failed(code) => {
                self.trace_error(code);
                self.wake_all();
            }
        }
    }

    /// The head that the engine built.
    fn take_head(&mut self) -> Box<ReceivedHead> {
        let mut head = rooms::take().unwrap_or_else(|| Box::new(self.engine.room()));
        self.engine.take_head(&mut head);
        head
    }
}

/// Stores `task` as the last one that got data, and wakes the previous one.
fn feed(task: TaskKey, last: &mut TaskKey) {
    let before = std::mem::replace(last, task);
    if !before.is_none() && before != task {
        weir_sched::wake(before);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use weir_sched::{Class, Tick, WorkKind, simulate, sleep_until, spawn, wait, wake, wake_next};

    use super::*;

    /// R188: the last stream that gets data in a round is not queued. The connection lets it run next.
    #[test]
    fn the_last_stream_with_received_data_is_left_for_wake_next() {
        static KIND: WorkKind = WorkKind::new("test");
        let order = simulate::run(1, async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let streams = ["a", "b", "c"].map(|name| {
                let order = order.clone();
                spawn(&KIND, Class::Normal, async move {
                    loop {
                        wait(Tick::NEVER).await;
                        order.borrow_mut().push(name);
                    }
                })
            });
            sleep_until(weir_sched::now().after(1)).await;
            let mut last = TaskKey::NONE;
            wake(streams[2]);
            for at in [0, 0, 1, 1] {
                feed(streams[at], &mut last);
            }
            assert_eq!(last, streams[1]);
            wake_next(last);
            sleep_until(weir_sched::now().after(1)).await;
            order.take()
        });
        assert_eq!(order.ok().flatten(), Some(vec!["b", "c", "a"]));
    }
}
