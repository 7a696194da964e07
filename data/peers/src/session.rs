//! One session with a peer, after the greeting.
//!
//! ```text
//!                      ┌───────────────────────────────────────────┐
//!   bytes ──receive──► │ messages ──► incoming ──► tables          │
//!                      │     │            │ acknowledgements       │ ──produce──► bytes
//!   time  ───────────► │     └► lessons, outgoing ◄── changes      │
//!                      └───────────────────────────────────────────┘
//! ```

use std::sync::Arc;

use weir_peers_protocol::{Control, PeerMessage, SessionFault, message, next, write};

use crate::incoming::Incoming;
use crate::mismatch::Mismatch;
use crate::outgoing::OutgoingTables;
use crate::shared_table::SharedTable;
use crate::trace;
use crate::view::{SessionView, TableProgress};

/// A session with a peer, independent of sockets.
#[derive(Debug)]
pub struct PeerSession {
    /// The peer's name in traces: its section and its name.
    who: Box<str>,
    incoming: Incoming,
    outgoing: OutgoingTables,
    /// Received bytes that are not processed yet, such as an incomplete message.
    held: Vec<u8>,
    /// The state of a lesson (a full transfer of the tables) for the peer.
    lesson: LessonState,
    /// Whether the peer has already requested all shares of sums. Further requests are ignored.
    gave_shares: bool,
    /// Number of heartbeats sent and received.
    heartbeats: (u64, u64),
    received_entries: u64,
}

/// The state of a lesson for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LessonState {
    /// No lesson was requested, or the lesson is over.
    None,
    /// The lesson is being sent.
    Teaching,
    /// All entries were sent. The peer must confirm.
    AwaitsConfirm,
}

/// Control messages of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlMessage {
    /// The lesson that we requested is complete.
    Finished,
    /// The lesson is complete, but the peer may lack entries that others have.
    Partial,
    /// The peer confirmed the lesson that we sent.
    Confirmed,
    /// A table of the peer differs from ours with the same name. Reported once for each difference.
    OtherTable {
        /// The position of our table.
        table: usize,
        mismatch: Mismatch,
    },
    /// The peer closes the session because of an error in our messages.
    Refused(SessionFault),
}

/// Maximum number of messages processed in one scheduling round.
const MESSAGES_PER_TURN: usize = 200;

impl PeerSession {
    /// A session for these tables. `audience` is the peer's audience number. `None` for a peer that only receives
    /// lessons.
    pub fn new(tables: Arc<[SharedTable]>, audience: Option<usize>) -> PeerSession {
        PeerSession {
            who: Box::default(),
            incoming: Incoming::new(Arc::clone(&tables), audience),
            outgoing: OutgoingTables::new(tables, audience),
            held: Vec::new(),
            lesson: LessonState::None,
            gave_shares: false,
            heartbeats: (0, 0),
            received_entries: 0,
        }
    }

    /// Restricts the peer to partition `shard` of `shards` partitions of the keys (`shard` and `shards`).
    pub fn of_part(mut self, shard: u32, shards: u32) -> PeerSession {
        self.outgoing.limit_to_part(shard, shards);
        self
    }

    /// Sets the peer's name for traces.
    pub fn named(self, who: &str) -> PeerSession {
        PeerSession { who: who.into(), ..self }
    }

    /// Begins the session. Announces support for shares if a table is aggregated. `is_first`: the first
    /// session of this process with the peer.
    pub fn begin(&mut self, is_first: bool, out: &mut Vec<u8>) {
        if self.outgoing.has_aggregates() {
            let what = if is_first { Control::WantsShares } else { Control::CountsTogether };
            self.control(what, out);
        }
    }

    /// Sets whether to accept our own counts from before the restart: only while this instance is learning.
    pub fn set_learning(&mut self, is_learning: bool) {
        self.incoming.set_learning(is_learning);
    }

    /// Adds received bytes, if there [is room](Self::has_room).
    pub fn hold(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Whether more bytes may be added. If false, process the held bytes first.
    pub fn has_room(&self) -> bool {
        self.held.len() < message::MAX_LENGTH
    }

    /// Processes a limited number of messages and appends replies to `out`. False if more bytes are needed.
    ///
    /// # Errors
    /// If a message is invalid. The session ends, and `out` holds the error message.
    pub fn receive(
        &mut self,
        now_ms: u64,
        out: &mut Vec<u8>,
        mut hear: impl FnMut(ControlMessage),
    ) -> Result<bool, SessionFault> {
        let mut used = 0;
        let mut result = Ok(true);
        for _ in 0..MESSAGES_PER_TURN {
            let step = match next(&self.held[used..]) {
                Ok(Some((message, length))) => {
                    used += length;
                    trace::came(&self.who, &message);
                    meet(&message, &mut self.incoming, &mut self.outgoing);
                    read(message, &mut self.incoming, &mut self.outgoing, now_ms).map(Some)
                }
                Ok(None) => Ok(None),
                Err(fault) => Err(fault),
            };
            match step {
                Ok(Some(step)) => {
                    if let Some(heard) = self.obey(step, out) {
                        hear(heard);
                    }
                }
                Ok(None) => {
                    result = Ok(false);
                    break;
                }
                Err(fault) => {
                    trace::refused(&self.who, fault);
                    write::error(fault, out);
                    result = Err(fault);
                    break;
                }
            }
        }
        self.held.drain(..used);
        self.incoming.acknowledge(out);
        result
    }

    fn obey(&mut self, step: MessageEffect, out: &mut Vec<u8>) -> Option<ControlMessage> {
        match step {
            MessageEffect::Done => None,
            MessageEffect::Learned => {
                self.received_entries += 1;
                None
            }
            MessageEffect::OtherTable(table, mismatch) => {
                Some(ControlMessage::OtherTable { table, mismatch })
            }
            MessageEffect::Refused(fault) => Some(ControlMessage::Refused(fault)),
            MessageEffect::Control(Control::ResyncRequest) => {
                self.teach();
                None
            }
            MessageEffect::Control(Control::ResyncConfirm) => {
                let was_taught = self.lesson == LessonState::AwaitsConfirm;
                self.lesson = LessonState::None;
                was_taught.then_some(ControlMessage::Confirmed)
            }
            MessageEffect::Control(end @ (Control::ResyncFinished | Control::ResyncPartial)) => {
                self.control(Control::ResyncConfirm, out);
                Some(if end == Control::ResyncFinished {
                    ControlMessage::Finished
                } else {
                    ControlMessage::Partial
                })
            }
            MessageEffect::Control(Control::WantsShares) => {
                if !std::mem::replace(&mut self.gave_shares, true) {
                    self.outgoing.schedule_shares();
                }
                None
            }
            MessageEffect::Control(Control::CountsTogether) => None,
            MessageEffect::Control(Control::Heartbeat) => {
                self.heartbeats.1 += 1;
                None
            }
        }
    }

    /// Begins a lesson: sends all entries.
    pub fn teach(&mut self) {
        self.outgoing.begin_lesson();
        self.lesson = LessonState::Teaching;
    }

    /// Requests all entries from the peer.
    pub fn request_all(&mut self, out: &mut Vec<u8>) {
        self.control(Control::ResyncRequest, out);
    }

    /// Sends a heartbeat.
    pub fn beat(&mut self, out: &mut Vec<u8>) {
        self.heartbeats.0 += 1;
        self.control(Control::Heartbeat, out);
    }

    /// Number of entries received so far, including those of tables that are not shared.
    pub fn received_entries(&self) -> u64 {
        self.received_entries
    }

    /// Number of heartbeats sent and received.
    pub fn heartbeats(&self) -> (u64, u64) {
        self.heartbeats
    }

    /// The progress of the session. Names are copied only if `with_names`.
    pub fn view(&self, with_names: bool) -> SessionView {
        let (beats_sent, beats_received) = self.heartbeats();
        let mut view = SessionView {
            beats_sent,
            beats_received,
            unconfirmed: u64::from(self.awaits_confirm()),
            remote_table: self.incoming.current(),
            local_table: self.outgoing.defined(),
            ..SessionView::default()
        };
        let learned = self.incoming.progress();
        view.tables = learned
            .zip(self.outgoing.progress())
            .map(|(learned, sent)| {
                let (pushed, acknowledged) = sent;
                TableProgress { pushed, acknowledged, ..learned }
            })
            .collect();
        if with_names {
            let owned = |(number, name): (u64, &str)| (number, name.to_owned());
            view.sent_names = self.outgoing.names().map(owned).collect();
            view.learned_names = self.incoming.names().map(owned).collect();
        }
        view
    }

    /// Appends messages for the peer, with at most `budget` entries. `is_complete`: our own resync is complete. True if there
    /// may be more at once.
    pub fn produce(&mut self, budget: usize, is_complete: bool, now_ms: u64, out: &mut Vec<u8>) -> bool {
        if self.lesson != LessonState::Teaching {
            return self.outgoing.push(budget, is_complete, now_ms, out);
        }
        // The encoding of sums depends on the peer's support for shares.
        if self.outgoing.has_aggregates() && !self.outgoing.knows_peer() {
            return false;
        }
        let budget = u32::try_from(budget).unwrap_or(u32::MAX);
        if self.outgoing.teach(budget, is_complete, now_ms, out) {
            self.lesson = LessonState::AwaitsConfirm;
            let end = if is_complete { Control::ResyncFinished } else { Control::ResyncPartial };
            self.control(end, out);
        }
        true
    }

    fn control(&self, control: Control, out: &mut Vec<u8>) {
        trace::said(&self.who, control);
        write::control(control, out);
    }

    /// Whether the peer still has to confirm a lesson.
    pub(crate) fn awaits_confirm(&self) -> bool {
        self.lesson == LessonState::AwaitsConfirm
    }

    /// Ends the session. Unacknowledged updates are sent again in the next one.
    pub fn end(&mut self) {
        trace::released(&self.who);
        self.outgoing.end();
    }
}

/// The first message reveals whether the peer supports shares.
fn meet(first: &PeerMessage<'_>, incoming: &mut Incoming, outgoing: &mut OutgoingTables) {
    if !outgoing.knows_peer() {
        let counts = matches!(first, PeerMessage::Control(Control::CountsTogether | Control::WantsShares));
        outgoing.set_counts_together(counts);
        if counts {
            incoming.set_counts_together();
        }
    }
}

/// The effect of a message on the session.
enum MessageEffect {
    Done,
    /// An entry was received.
    Learned,
    OtherTable(usize, Mismatch),
    Control(Control),
    Refused(SessionFault),
}

fn read(
    message: PeerMessage<'_>,
    incoming: &mut Incoming,
    outgoing: &mut OutgoingTables,
    now_ms: u64,
) -> Result<MessageEffect, SessionFault> {
    match message {
        PeerMessage::Update(update) => {
            incoming.learn(&update, now_ms)?;
            return Ok(MessageEffect::Learned);
        }
        PeerMessage::Definition(definition) => {
            if let Some((table, mismatch)) = incoming.define(&definition) {
                return Ok(MessageEffect::OtherTable(table, mismatch));
            }
        }
        PeerMessage::Switch(id) => incoming.switch(id),
        PeerMessage::Acknowledgement { table, update } => outgoing.acknowledged(table, update),
        PeerMessage::Control(control) => return Ok(MessageEffect::Control(control)),
        PeerMessage::Error(fault) => return Ok(MessageEffect::Refused(fault)),
        PeerMessage::Unknown => {}
    }
    Ok(MessageEffect::Done)
}

#[cfg(test)]
mod tests;
