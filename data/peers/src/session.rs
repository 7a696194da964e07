//! One conversation with a peer, after the greeting.
//!
//! ```text
//!                      ┌───────────────────────────────────────────┐
//!   bytes ──receive──► │ messages ──► incoming ──► tables          │
//!                      │     │            │ acknowledgements       │ ──produce──► bytes
//!   time  ───────────► │     └► lessons, outgoing ◄── changes      │
//!                      └───────────────────────────────────────────┘
//! ```

use weir_peer_messages::{Control, Fault, Message, message, next, write};

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;
use crate::shared_table::SharedTable;

/// A conversation with a peer.
#[derive(Debug)]
pub struct Session {
    incoming: Incoming,
    outgoing: Outgoing,
    /// What arrived and is no message yet: less than one of the longest, and what came with it.
    held: Vec<u8>,
    /// How far a lesson is that the peer asked for.
    lesson: LessonState,
    /// How many messages of which a session tells itself it is alive were sent and came.
    heartbeats: (u64, u64),
    /// Entries that the peer told.
    told: u64,
}

/// A lesson for the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LessonState {
    /// Nobody asked for one, or it is over.
    None,
    /// It is being given.
    Teaching,
    /// All was told; the peer is to confirm.
    AwaitsConfirm,
}

/// What a peer said that is not about entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// What we asked for is complete.
    Finished,
    /// It is all that the peer knows, and others may know more.
    Partial,
    /// The lesson that we gave arrived.
    Confirmed,
    /// A table of the peer is not like ours of that name.
    OtherTable,
    /// The peer ends the session for what we said.
    Refused(Fault),
}

/// So many messages are read in one turn at most.
const MESSAGES_PER_TURN: usize = 200;

impl Session {
    /// A conversation about these tables. `audience` is which of their audiences the peer is; none for one that only learns from us
    /// what it asks for.
    pub fn new(tables: &'static [SharedTable], audience: Option<usize>) -> Session {
        Session {
            incoming: Incoming::new(tables),
            outgoing: Outgoing::new(tables, audience),
            held: Vec::new(),
            lesson: LessonState::None,
            heartbeats: (0, 0),
            told: 0,
        }
    }

    /// Takes bytes that came, if there [is room](Self::has_room).
    pub fn hold(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Whether more bytes may be taken: what is held is read first.
    pub fn has_room(&self) -> bool {
        self.held.len() < message::MAX_LENGTH
    }

    /// Reads messages, a limited number. `out` gets what they need as an answer. False when more bytes must come first.
    ///
    /// # Errors
    /// What the peer says is no message: the session ends, and `out` says why.
    pub fn receive(
        &mut self,
        now_ms: u64,
        out: &mut Vec<u8>,
        mut hear: impl FnMut(Heard),
    ) -> Result<bool, Fault> {
        let mut used = 0;
        let mut result = Ok(true);
        for _ in 0..MESSAGES_PER_TURN {
            let step = match next(&self.held[used..]) {
                Ok(Some((message, length))) => {
                    used += length;
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

    fn obey(&mut self, step: Step, out: &mut Vec<u8>) -> Option<Heard> {
        match step {
            Step::Done => None,
            Step::Learned => {
                self.told += 1;
                None
            }
            Step::OtherTable => Some(Heard::OtherTable),
            Step::Refused(fault) => Some(Heard::Refused(fault)),
            Step::Control(Control::ResyncRequest) => {
                self.teach();
                None
            }
            Step::Control(Control::ResyncConfirm) => {
                let was_taught = self.lesson == LessonState::AwaitsConfirm;
                self.lesson = LessonState::None;
                was_taught.then_some(Heard::Confirmed)
            }
            Step::Control(end @ (Control::ResyncFinished | Control::ResyncPartial)) => {
                write::control(Control::ResyncConfirm, out);
                Some(if end == Control::ResyncFinished { Heard::Finished } else { Heard::Partial })
            }
            Step::Control(Control::Heartbeat) => {
                self.heartbeats.1 += 1;
                None
            }
        }
    }

    /// Begins to tell everything.
    pub fn teach(&mut self) {
        self.outgoing.begin_lesson();
        self.lesson = LessonState::Teaching;
    }

    /// Asks the peer for everything.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        write::control(Control::ResyncRequest, out);
    }

    /// Says nothing but that we are there.
    pub fn beat(&mut self, out: &mut Vec<u8>) {
        self.heartbeats.0 += 1;
        write::control(Control::Heartbeat, out);
    }

    /// Entries that the peer told so far, of tables that we do not have too.
    pub fn told(&self) -> u64 {
        self.told
    }

    /// Heartbeats that were sent and that came.
    pub fn heartbeats(&self) -> (u64, u64) {
        self.heartbeats
    }

    /// Appends what the peer is to be told: at most `budget` entries. `is_complete` says whether we know everything that there is to
    /// know. True if there may be more at once.
    pub fn produce(&mut self, budget: usize, is_complete: bool, now_ms: u64, out: &mut Vec<u8>) -> bool {
        if self.lesson != LessonState::Teaching {
            return self.outgoing.push(budget, now_ms, out);
        }
        let budget = u32::try_from(budget).unwrap_or(u32::MAX);
        if self.outgoing.teach(budget, now_ms, out) {
            self.lesson = LessonState::AwaitsConfirm;
            let end = if is_complete { Control::ResyncFinished } else { Control::ResyncPartial };
            write::control(end, out);
        }
        true
    }

    /// The session is over: what the peer did not acknowledge is told again in the next one.
    pub fn end(&mut self) {
        self.outgoing.end();
    }
}

/// What a message asks of the session.
enum Step {
    Done,
    /// An entry was told.
    Learned,
    OtherTable,
    Control(Control),
    Refused(Fault),
}

fn read(
    message: Message<'_>,
    incoming: &mut Incoming,
    outgoing: &mut Outgoing,
    now_ms: u64,
) -> Result<Step, Fault> {
    match message {
        Message::Update(update) => {
            incoming.learn(&update, now_ms)?;
            return Ok(Step::Learned);
        }
        Message::Definition(told) => {
            if !incoming.define(&told) {
                return Ok(Step::OtherTable);
            }
        }
        Message::Switch(id) => incoming.switch(id),
        Message::Acknowledgement { table, update } => outgoing.acknowledged(table, update),
        Message::Control(control) => return Ok(Step::Control(control)),
        Message::Error(fault) => return Ok(Step::Refused(fault)),
        Message::Unknown => {}
    }
    Ok(Step::Done)
}

#[cfg(test)]
mod tests;
