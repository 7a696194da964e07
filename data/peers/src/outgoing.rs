//! What a peer is told of our tables: what changed, and everything if it asks.

use std::collections::VecDeque;

use weir_peer_messages::{SentNames, write};
use weir_tables::{Cursor, Position};

use crate::shared_table::SharedTable;

/// What a peer was told so far.
#[derive(Debug)]
pub(crate) struct Outgoing {
    tables: &'static [SharedTable],
    /// Which audience of the tables the peer is; none if it is told nothing but what it asks for.
    audience: Option<usize>,
    told: Vec<Told>,
    /// The table that the last definition was about.
    defined: Option<usize>,
    /// Whose turn it is.
    next: usize,
    lesson: Option<Lesson>,
    names: SentNames,
    body: Vec<u8>,
}

/// What was told of a table.
#[derive(Debug, Default)]
struct Told {
    /// The number of the last update.
    number: u32,
    /// The shard that is looked at next.
    shard: u16,
    /// What was not acknowledged: the number of the last update of each batch, and where its entries lie.
    unacknowledged: VecDeque<(u32, Vec<Position>)>,
}

/// How far we are with everything.
#[derive(Debug, Default)]
struct Lesson {
    table: usize,
    cursor: Cursor,
}

/// So many batches of a table wait to be acknowledged at most: who does not acknowledge is told nothing more.
const MOST_UNACKNOWLEDGED: usize = 32;

impl Outgoing {
    pub fn new(tables: &'static [SharedTable], audience: Option<usize>) -> Outgoing {
        Outgoing {
            tables,
            audience,
            told: tables.iter().map(|_| Told::default()).collect(),
            defined: None,
            next: 0,
            lesson: None,
            names: SentNames::default(),
            body: Vec::new(),
        }
    }

    /// Begins to tell everything, from the beginning.
    pub fn begin_lesson(&mut self) {
        if let Some(audience) = self.audience {
            self.tables.iter().for_each(|shared| shared.table.forget_changes(audience));
        }
        self.lesson = Some(Lesson::default());
    }

    /// Tells more of everything, at most `budget` entries or their empty places. True once that was all.
    pub fn teach(&mut self, budget: u32, now_ms: u64, out: &mut Vec<u8>) -> bool {
        let Some(Lesson { table: position, cursor }) = self.lesson.take() else { return false };
        let Some(shared) = self.tables.get(position) else { return true };
        let mut batch = Batch::new(self, position, out);
        let next = shared.table.walk(cursor, budget, now_ms, |_, row| {
            // Who lives as long as there is room expires nowhere.
            let expires = (shared.table.declaration().expire_ms != 0).then(|| row.expires_in_ms());
            if expires != Some(0) {
                batch.add(row, Some(expires.unwrap_or(0)));
            }
        });
        self.lesson = Some(match next {
            Some(cursor) => Lesson { table: position, cursor },
            None => Lesson { table: position + 1, cursor: Cursor::default() },
        });
        false
    }

    /// Tells what changed, at most `budget` entries. True if there may be more.
    pub fn push(&mut self, budget: usize, now_ms: u64, out: &mut Vec<u8>) -> bool {
        let Some(audience) = self.audience else { return false };
        for _ in 0..self.tables.len() {
            let position = self.next % self.tables.len();
            let shared = &self.tables[position];
            self.next = position + 1;
            if self.told[position].unacknowledged.len() >= MOST_UNACKNOWLEDGED {
                continue;
            }
            let from = self.told[position].shard;
            let mut positions = Vec::new();
            let mut batch = Batch::new(self, position, out);
            let more = shared.table.tell(audience, from, budget, now_ms, |position, row| {
                positions.push(position);
                batch.add(row, None);
            });
            let told = &mut self.told[position];
            told.shard = more.unwrap_or(0);
            if !positions.is_empty() {
                told.unacknowledged.push_back((told.number, positions));
            }
            // The shards before the first one that was looked at are looked at in the next turn.
            if more.is_some() || from > 0 {
                return true;
            }
        }
        false
    }

    /// The peer has updates of a table up to this one.
    pub fn acknowledged(&mut self, id: u64, number: u32) {
        let position = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
        let Some(told) = position.and_then(|position| self.told.get_mut(position)) else { return };
        while let Some((last, _)) = told.unacknowledged.front()
            && number.wrapping_sub(*last) as i32 >= 0
        {
            told.unacknowledged.pop_front();
        }
    }

    /// The session is over: what was not acknowledged is to be told again.
    pub fn end(&mut self) {
        let Some(audience) = self.audience else { return };
        for (told, shared) in self.told.iter_mut().zip(self.tables) {
            let batches = told.unacknowledged.drain(..);
            shared.table.tell_again(audience, batches.flat_map(|(_, positions)| positions));
        }
    }
}

/// Updates of one table that follow each other.
struct Batch<'o> {
    shared: &'static SharedTable,
    position: usize,
    /// The peer knows that it is this table which the updates are about, and the number before the next.
    follows: bool,
    defined: &'o mut Option<usize>,
    number: &'o mut u32,
    names: &'o mut SentNames,
    body: &'o mut Vec<u8>,
    out: &'o mut Vec<u8>,
}

impl<'o> Batch<'o> {
    fn new(outgoing: &'o mut Outgoing, position: usize, out: &'o mut Vec<u8>) -> Batch<'o> {
        Batch {
            shared: &outgoing.tables[position],
            position,
            follows: false,
            defined: &mut outgoing.defined,
            number: &mut outgoing.told[position].number,
            names: &mut outgoing.names,
            body: &mut outgoing.body,
            out,
        }
    }

    fn add(&mut self, row: &weir_tables::Row<'_>, expires_in_ms: Option<u32>) {
        if *self.defined != Some(self.position) {
            write::definition(&self.shared.definition(self.position as u64 + 1), self.out);
            *self.defined = Some(self.position);
        }
        *self.number = self.number.wrapping_add(1);
        self.body.clear();
        self.shared.write_entry(row, self.names, self.body);
        let number = (!self.follows).then_some(*self.number);
        self.follows = true;
        write::update(number, expires_in_ms, self.body, self.out);
    }
}
