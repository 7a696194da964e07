//! The sending side: changes of our tables, and all entries on request.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_peers_protocol::{SentNames, write};
use weir_tables::{EntryPosition, LockedEntry, Share, TableCursor};

use crate::shared_table::SharedTable;

/// The state of the tables sent to a peer.
#[derive(Debug)]
pub(crate) struct OutgoingTables {
    tables: Arc<[SharedTable]>,
    /// The peer's index among the tables' audiences; `None` if it only receives lessons.
    audience: Option<usize>,
    /// The part of all keys that the peer gets, and the number of parts; `None` for all keys.
    part: Option<(u32, u32)>,
    /// Whether the peer has shares of sums, as we have; `None` before its first message.
    counts_together: Option<bool>,
    sent: Vec<SentTable>,
    /// The table of the last definition.
    defined: Option<usize>,
    /// The table to examine next.
    next: usize,
    lesson: Option<Lesson>,
    names: SentNames,
    body: Vec<u8>,
}

/// The updates sent of a table.
#[derive(Debug, Default)]
struct SentTable {
    /// The number of the last update.
    number: u32,
    /// The last update that the peer acknowledged.
    acknowledged: u32,
    /// The next shard to examine.
    shard: u16,
    /// Updates that were not acknowledged: the number of the last update of each batch, and the positions of its entries.
    unacknowledged: VecDeque<(u32, Vec<EntryPosition>)>,
}

/// The position in a lesson.
#[derive(Debug, Default)]
struct Lesson {
    table: usize,
    cursor: TableCursor,
}

/// How many batches of a table may be unacknowledged: sending pauses at that number.
const MOST_UNACKNOWLEDGED: usize = 32;

impl OutgoingTables {
    pub(crate) fn new(tables: Arc<[SharedTable]>, audience: Option<usize>) -> OutgoingTables {
        OutgoingTables {
            audience,
            part: None,
            counts_together: None,
            sent: tables.iter().map(|_| SentTable::default()).collect(),
            defined: None,
            next: 0,
            lesson: None,
            names: SentNames::default(),
            body: Vec::new(),
            tables,
        }
    }

    /// Restricts the peer to part `shard` of `shards` parts of all keys.
    pub(crate) fn limit_to_part(&mut self, shard: u32, shards: u32) {
        self.part = Some((shard, shards));
    }

    /// The first message of the peer revealed whether it has shares of sums.
    pub(crate) fn set_counts_together(&mut self, counts_together: bool) {
        self.counts_together = Some(counts_together);
    }

    /// Whether any table is an aggregate: its counts are sums of shares.
    pub(crate) fn has_aggregates(&self) -> bool {
        self.tables.iter().any(SharedTable::is_aggregate)
    }

    /// Whether the peer has sent its first message.
    pub(crate) fn knows_peer(&self) -> bool {
        self.counts_together.is_some()
    }

    /// Schedules all shares of sums for a peer that has lost them.
    pub(crate) fn schedule_shares(&mut self) {
        let Some(audience) = self.audience else { return };
        let aggregates = self.tables.iter().filter(|shared| shared.is_aggregate());
        aggregates.for_each(|shared| shared.table.mark_all_unsent(audience));
    }

    /// Begins a lesson: all entries of all tables.
    pub(crate) fn begin_lesson(&mut self) {
        if let Some(audience) = self.audience {
            // Changes of sums are still pushed: a lesson leaves out our shares until our own resync is complete.
            let plain = self.tables.iter().filter(|shared| !shared.is_aggregate());
            plain.for_each(|shared| shared.table.forget_changes(audience));
        }
        self.lesson = Some(Lesson::default());
    }

    /// Continues the lesson with at most `budget` entries or empty places. True once it is complete. `is_complete`: we
    /// know our counts of a former life. Before, our shares are sent only to another process of this instance: other
    /// peers would send them back as those of the former life.
    pub(crate) fn teach(&mut self, budget: u32, is_complete: bool, now_ms: u64, out: &mut Vec<u8>) -> bool {
        let Some(Lesson { table: position, cursor }) = self.lesson.take() else { return false };
        let tables = Arc::clone(&self.tables);
        let Some(shared) = tables.get(position) else { return true };
        let part = self.part;
        let with_own = is_complete || self.audience.is_none();
        let mut batch = UpdateBatch::new(self, position, out);
        let next = shared.table.walk(cursor, budget, now_ms, |_, row| {
            // An entry of a table without expiry expires nowhere.
            let expires = (shared.table.declaration().expire_ms != 0).then(|| row.expires_in_ms());
            if expires != Some(0) && is_in(part, row) {
                batch.teach(row, with_own, expires.unwrap_or(0));
            }
        });
        self.lesson = Some(match next {
            Some(cursor) => Lesson { table: position, cursor },
            None => Lesson { table: position + 1, cursor: TableCursor::default() },
        });
        false
    }

    /// Sends changes, at most `budget` entries. True if there may be more. `is_complete`: we know our counts of a
    /// former life. Before, our shares are not sent.
    pub(crate) fn push(&mut self, budget: usize, is_complete: bool, now_ms: u64, out: &mut Vec<u8>) -> bool {
        let Some(audience) = self.audience else { return false };
        let tables = Arc::clone(&self.tables);
        for _ in 0..tables.len() {
            let position = self.next % tables.len();
            let shared = &tables[position];
            self.next = position + 1;
            let may_send = !shared.is_aggregate() || (is_complete && self.knows_peer());
            if self.sent[position].unacknowledged.len() >= MOST_UNACKNOWLEDGED || !may_send {
                continue;
            }
            let (from, part) = (self.sent[position].shard, self.part);
            let mut positions = Vec::new();
            let mut batch = UpdateBatch::new(self, position, out);
            let more = shared.table.send_changes(audience, from, budget, now_ms, |position, row| {
                if is_in(part, row) {
                    positions.push(position);
                    batch.push(row);
                }
            });
            let sent = &mut self.sent[position];
            sent.shard = more.unwrap_or(0);
            if !positions.is_empty() {
                sent.unacknowledged.push_back((sent.number, positions));
            }
            // The shards before the first one that was examined come in the next turn.
            if more.is_some() || from > 0 {
                return true;
            }
        }
        false
    }

    /// The peer acknowledged updates of a table up to this one.
    pub(crate) fn acknowledged(&mut self, id: u64, number: u32) {
        let position = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let Some(sent) = position.and_then(|position| self.sent.get_mut(position)) else { return };
        while let Some((last, _)) = sent.unacknowledged.front()
            && number.wrapping_sub(*last) as i32 >= 0
        {
            sent.acknowledged = *last;
            sent.unacknowledged.pop_front();
        }
    }

    /// The index of the table of the last definition.
    pub(crate) fn defined(&self) -> Option<usize> {
        self.defined
    }

    /// The number of the last update of each table, and of the last one acknowledged.
    pub(crate) fn progress(&self) -> impl Iterator<Item = (u32, u32)> {
        self.sent.iter().map(|sent| (sent.number, sent.acknowledged))
    }

    /// Names that the peer was sent, with their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter()
    }

    /// The session is over: updates that were not acknowledged are to be sent again.
    pub(crate) fn end(&mut self) {
        let Some(audience) = self.audience else { return };
        for (sent, shared) in self.sent.iter_mut().zip(&*self.tables) {
            let batches = sent.unacknowledged.drain(..);
            shared.table.mark_unsent(audience, batches.flat_map(|(_, positions)| positions));
        }
    }
}

fn is_in(part: Option<(u32, u32)>, row: &LockedEntry<'_>) -> bool {
    part.is_none_or(|(shard, shards)| SharedTable::shard_of(row, shards) == shard)
}

/// Consecutive updates of one table.
struct UpdateBatch<'o> {
    shared: &'o SharedTable,
    position: usize,
    /// The peer receives shares.
    in_shares: bool,
    /// The peer knows from the previous update which table this is, and the next number.
    follows: bool,
    defined: &'o mut Option<usize>,
    number: &'o mut u32,
    names: &'o mut SentNames,
    body: &'o mut Vec<u8>,
    out: &'o mut Vec<u8>,
}

impl<'o> UpdateBatch<'o> {
    fn new(outgoing: &'o mut OutgoingTables, position: usize, out: &'o mut Vec<u8>) -> UpdateBatch<'o> {
        let shared = &outgoing.tables[position];
        UpdateBatch {
            shared,
            position,
            in_shares: shared.is_aggregate() && outgoing.counts_together == Some(true),
            follows: false,
            defined: &mut outgoing.defined,
            number: &mut outgoing.sent[position].number,
            names: &mut outgoing.names,
            body: &mut outgoing.body,
            out,
        }
    }

    /// Reports a change here.
    fn push(&mut self, row: &LockedEntry<'_>) {
        let own = self.shared.shares().next().filter(|_| self.in_shares);
        self.add(row, own, None);
    }

    /// Sends all of an entry: for sums, each known share.
    fn teach(&mut self, row: &LockedEntry<'_>, with_own: bool, expires_in_ms: u32) {
        if !self.in_shares {
            return self.add(row, None, Some(expires_in_ms));
        }
        for (share, owner) in self.shared.shares() {
            // The own one comes although it is empty, as tags come with it.
            let is_sent = if share == Share::Own { with_own } else { !row.is_empty_share(share) };
            if is_sent {
                self.add(row, Some((share, owner)), Some(expires_in_ms));
            }
        }
    }

    fn add(&mut self, row: &LockedEntry<'_>, share: Option<(Share, &str)>, expires_in_ms: Option<u32>) {
        if *self.defined != Some(self.position) {
            let definition = self.shared.definition(self.position as u64 + 1, self.in_shares);
            write::definition(&definition, self.out);
            *self.defined = Some(self.position);
        }
        *self.number = self.number.wrapping_add(1);
        self.body.clear();
        match share {
            Some(share) => self.shared.write_share(row, share, self.names, self.body),
            None => self.shared.write_entry(row, self.names, self.body),
        }
        let number = (!self.follows).then_some(*self.number);
        self.follows = true;
        write::update(number, expires_in_ms, self.body, self.out);
    }
}
