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
    /// The peer's audience number in the tables. `None` if it only receives lessons (full transfers).
    audience: Option<usize>,
    /// The key partition that the peer gets, and the number of partitions. `None` for all keys.
    part: Option<(u32, u32)>,
    /// Whether the peer supports shares of aggregated tables. `None` before its first message.
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

/// The progress of the updates of a table.
#[derive(Debug, Default)]
struct SentTable {
    /// The number of the last update.
    number: u32,
    /// The last update that the peer acknowledged.
    acknowledged: u32,
    /// The next shard to examine.
    shard: u16,
    /// Unacknowledged batches: the number of the last update and the positions of the entries.
    unacknowledged: VecDeque<(u32, Vec<EntryPosition>)>,
}

/// The position in a lesson.
#[derive(Debug, Default)]
struct Lesson {
    table: usize,
    cursor: TableCursor,
}

/// The limit of unacknowledged batches per table. Sending pauses at it.
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

    /// Restricts the peer to partition `shard` of `shards` partitions of the keys.
    pub(crate) fn limit_to_part(&mut self, shard: u32, shards: u32) {
        self.part = Some((shard, shards));
    }

    /// Sets whether the peer supports shares, which its first message reveals.
    pub(crate) fn set_counts_together(&mut self, counts_together: bool) {
        self.counts_together = Some(counts_together);
    }

    /// Whether any table is aggregated, with counts that are sums of shares.
    pub(crate) fn has_aggregates(&self) -> bool {
        self.tables.iter().any(SharedTable::is_aggregate)
    }

    /// Whether the peer has sent its first message.
    pub(crate) fn knows_peer(&self) -> bool {
        self.counts_together.is_some()
    }

    /// Schedules the shares of all aggregated tables for a peer that has lost them.
    pub(crate) fn schedule_shares(&mut self) {
        let Some(audience) = self.audience else { return };
        let aggregates = self.tables.iter().filter(|shared| shared.is_aggregate());
        aggregates.for_each(|shared| shared.table.mark_all_unsent(audience));
    }

    /// Begins a lesson: all entries of all tables.
    pub(crate) fn begin_lesson(&mut self) {
        if let Some(audience) = self.audience {
            // Changes of sums are still pushed, because a lesson omits our shares until our own resync is complete.
            let plain = self.tables.iter().filter(|shared| !shared.is_aggregate());
            plain.for_each(|shared| shared.table.forget_changes(audience));
        }
        self.lesson = Some(Lesson::default());
    }

    /// Continues the lesson with at most `budget` entries or empty slots. True once it is complete. `is_complete`: our
    /// counts from before the restart are known. Until then, our shares are sent only to another process of this instance,
    /// because other peers would send them back as the counts from before the restart.
    pub(crate) fn teach(&mut self, budget: u32, is_complete: bool, now_ms: u64, out: &mut Vec<u8>) -> bool {
        let Some(Lesson { table: position, cursor }) = self.lesson.take() else { return false };
        let tables = Arc::clone(&self.tables);
        let Some(shared) = tables.get(position) else { return true };
        let part = self.part;
        let with_own = is_complete || self.audience.is_none();
        let mut batch = UpdateBatch::new(self, position, out);
        let next = shared.table.walk(cursor, budget, now_ms, |_, row| {
            // An entry of a table without expiry does not expire at peers either.
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

    /// Sends changes, at most `budget` entries. True if there may be more. `is_complete`: our counts from before the
    /// restart are known. Until then, our shares are not sent.
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
            // Shards before the first examined one are left for the next round.
            if more.is_some() || from > 0 {
                return true;
            }
        }
        false
    }

    /// Applies the peer's acknowledgement of a table's updates up to this one.
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

    /// The numbers of the last sent and the last acknowledged update of each table.
    pub(crate) fn progress(&self) -> impl Iterator<Item = (u32, u32)> {
        self.sent.iter().map(|sent| (sent.number, sent.acknowledged))
    }

    /// Names sent to the peer, with their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter()
    }

    /// Ends the session. Marks unacknowledged updates to be sent again.
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
    /// Whether the peer receives shares.
    in_shares: bool,
    /// Whether the table and the update number follow from the previous update.
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

    /// Sends a local change.
    fn push(&mut self, row: &LockedEntry<'_>) {
        let own = self.shared.shares().next().filter(|_| self.in_shares);
        self.add(row, own, None);
    }

    /// Sends a whole entry, with each known share of sums.
    fn teach(&mut self, row: &LockedEntry<'_>, with_own: bool, expires_in_ms: u32) {
        if !self.in_shares {
            return self.add(row, None, Some(expires_in_ms));
        }
        for (share, owner) in self.shared.shares() {
            // The own share is sent even if empty, because it includes the tags.
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
