//! The receiving side: a peer's updates of its tables.

use std::sync::Arc;

use weir_expr::table::DataType;
use weir_peers_protocol::definition::DataFields;
use weir_peers_protocol::{
    DataValue, Definition, EntryBody, EntryUpdate, KeyKind, LearnedNames, RateData, SessionFault, write,
};
use weir_tables::{LockedEntry, RateParts, Share, ShareValue};

use crate::mismatch::Mismatch;
use crate::shared_table::{SharedTable, data_of};
use crate::view::TableProgress;

/// The state of the tables received from a peer.
#[derive(Debug)]
pub(crate) struct Incoming {
    tables: Arc<[SharedTable]>,
    /// The peer's audience number in the tables. `None` for another process of this instance.
    audience: Option<usize>,
    /// Whether the peer supports shares of aggregated tables.
    counts_together: bool,
    /// Whether this instance still learns its own counts from before its restart.
    is_learning: bool,
    /// The peer's definition of each of our tables. `None` before it was received.
    known: Vec<Option<RemoteTable>>,
    /// The table of the following updates. `None` if this instance does not share it.
    current: Option<usize>,
    names: LearnedNames,
    /// Data of one entry, while it is parsed.
    data: Vec<DataItem>,
    /// The reported difference of each of our tables to the peer's.
    reported: Vec<Option<Mismatch>>,
}

/// A table in the peer's definition.
#[derive(Debug)]
struct RemoteTable {
    id: u64,
    key: KeyKind,
    key_length: u32,
    fields: DataFields,
    /// Bit set of the ignored types: rates with a different period.
    skipped: u64,
    /// If updates contain single shares: the fields of sums, and the other fields.
    divided: Option<(DataFields, DataFields)>,
    last: u32,
    /// Whether `last` is not acknowledged yet.
    is_news: bool,
}

/// A data item of an entry.
#[derive(Debug)]
struct DataItem {
    data: DataType,
    element: u16,
    value: LearnedValue,
}

#[derive(Debug)]
enum LearnedValue {
    Number(u64),
    Rate(RateParts),
    Name(Option<Arc<str>>),
}

impl Incoming {
    pub(crate) fn new(tables: Arc<[SharedTable]>, audience: Option<usize>) -> Incoming {
        Incoming {
            audience,
            counts_together: false,
            // Another process of this instance has our counts from before the restart.
            is_learning: audience.is_none(),
            known: tables.iter().map(|_| None).collect(),
            current: None,
            names: LearnedNames::default(),
            data: Vec::new(),
            reported: tables.iter().map(|_| None).collect(),
            tables,
        }
    }

    /// Records that the peer supports shares of aggregated tables.
    pub(crate) fn set_counts_together(&mut self) {
        self.counts_together = true;
    }

    /// Sets whether to accept our own counts from before the restart from the peer.
    pub(crate) fn set_learning(&mut self, is_learning: bool) {
        self.is_learning = is_learning;
    }

    /// Sets the table of the following updates. Returns the position of our table with this name and its difference to the
    /// peer's, if there is a new difference. A table is defined again at each switch, so each difference is reported once.
    pub(crate) fn define(&mut self, definition: &Definition<'_>) -> Option<(usize, Mismatch)> {
        self.current = None;
        let position = self.tables.iter().position(|shared| shared.name.as_bytes() == definition.name)?;
        let shared = &self.tables[position];
        let skipped = shared.other_periods(definition);
        let mismatch = if !shared.is_like(definition) {
            Some(Mismatch::Keys)
        } else if definition.is_aggregate != (shared.is_aggregate() && self.counts_together) {
            Some(Mismatch::Aggregate)
        } else {
            let period = skipped.first().map(|(data, theirs_ms, ours_ms)| Mismatch::Period {
                data: *data,
                theirs_ms: *theirs_ms,
                ours_ms: *ours_ms,
            });
            period.or_else(|| shared.other_data(definition))
        };
        let is_news = std::mem::replace(&mut self.reported[position], mismatch) != mismatch;
        let news = mismatch.filter(|_| is_news).map(|mismatch| (position, mismatch));
        if matches!(mismatch, Some(Mismatch::Keys | Mismatch::Aggregate)) {
            return news;
        }
        self.current = Some(position);
        let skipped = skipped.iter().fold(0, |bits, (data, ..)| bits | 1 << *data as u32);
        let known = &mut self.known[position];
        let (last, is_news) = known.as_ref().map_or((0, false), |known| (known.last, known.is_news));
        *known = Some(RemoteTable {
            id: definition.id,
            key: definition.key,
            key_length: definition.key_length,
            fields: definition.fields.clone(),
            skipped,
            divided: definition.is_aggregate.then(|| definition.fields.divided()),
            last,
            is_news,
        });
        news
    }

    /// Makes an already defined table the current one.
    pub(crate) fn switch(&mut self, id: u64) {
        self.current = self.known.iter().position(|known| known.as_ref().is_some_and(|known| known.id == id));
    }

    /// Applies an update. Skips an update of a table that is not shared.
    pub(crate) fn learn(&mut self, update: &EntryUpdate<'_>, now_ms: u64) -> Result<(), SessionFault> {
        let Some(position) = self.current else { return Ok(()) };
        let (Some(known), shared) = (&mut self.known[position], &self.tables[position]) else {
            return Ok(());
        };
        known.last = update.number.unwrap_or(known.last.wrapping_add(1));
        known.is_news = true;
        let mut entry = EntryBody::read(update.body, known.key, known.key_length)?;
        self.data.clear();
        let (data, names) = (&mut self.data, &mut self.names);
        let mut share = None;
        match &known.divided {
            None => read(&mut entry, &known.fields, known.skipped, names, data)?,
            Some((sums, tags)) => {
                read(&mut entry, tags, known.skipped, names, data)?;
                let owner = entry.take_owner()?.and_then(|mention| names.resolve(mention));
                read(&mut entry, sums, known.skipped, names, data)?;
                share = owner.and_then(|owner| shared.share_of(&owner));
            }
        }
        let Some(key) = shared.key(entry.key) else { return Ok(()) };
        // A table without expiry sends 0, which is ignored.
        let expires_in_ms = update.expires_in_ms.filter(|left| *left > 0);
        let in_shares = known.divided.is_some();
        shared.table.learn(&key, now_ms, expires_in_ms, |row| match in_shares {
            true => self.learn_share(share, row),
            false => self.learn_all(shared, row),
        });
        if share == Some(Share::Former) && self.is_learning {
            // Sends the resulting share to the other peers.
            shared.table.look(&key, now_ms, |row| row.note_change());
        }
        if let Some(also) = &shared.write_to {
            also.learn(&key, now_ms, expires_in_ms, |row| {
                self.data
                    .iter()
                    .filter(|learned| is_no_sum(learned.data))
                    .for_each(|learned| learned.store(row));
            });
        }
        Ok(())
    }

    /// Learns an entry from a peer without shares. The last received value wins. In an aggregated table, the peer's share
    /// becomes the difference to our sum.
    fn learn_all(&self, shared: &SharedTable, row: &mut LockedEntry<'_>) {
        let rest = self.audience.map_or(Share::Former, Share::Peer);
        for learned in self.data.iter().filter(|learned| shared.receive_only || !is_local(learned.data)) {
            match shared.is_aggregate() && learned.data.is_sum() {
                true => learned.store_rest(rest, row),
                false => learned.store(row),
            }
        }
    }

    /// Learns one share. The value from its owner wins. Values from other peers only count if the share is empty.
    fn learn_share(&self, share: Option<Share>, row: &mut LockedEntry<'_>) {
        let is_news = share.is_some_and(|share| match share {
            Share::Peer(audience) => Some(audience) == self.audience || row.is_empty_share(share),
            Share::Former => self.is_learning,
            // Peers do not know our current share.
            Share::Own => false,
        });
        for learned in &self.data {
            match share.filter(|_| learned.data.is_sum()) {
                Some(share) if is_news => learned.store_share(share, row),
                None if !is_local(learned.data) && !learned.data.is_sum() => learned.store(row),
                _ => {}
            }
        }
    }

    /// The position of the table of the following updates.
    pub(crate) fn current(&self) -> Option<usize> {
        self.current
    }

    /// The progress of each table.
    pub(crate) fn progress(&self) -> impl Iterator<Item = TableProgress> {
        self.known.iter().map(|known| {
            let Some(known) = known else { return TableProgress::default() };
            let bits = known.fields.iter().map(|field| 1_u64.checked_shl(field.number.into()).unwrap_or(0));
            TableProgress {
                remote_id: known.id,
                remote_data: bits.fold(0, |all, bit| all | bit),
                learned: known.last,
                ..TableProgress::default()
            }
        })
    }

    /// Names defined by the peer, with their numbers.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter()
    }

    /// Appends acknowledgements of the updates received since the last call.
    pub(crate) fn acknowledge(&mut self, out: &mut Vec<u8>) {
        for known in self.known.iter_mut().flatten().filter(|known| known.is_news) {
            known.is_news = false;
            write::acknowledgement(known.id, known.last, out);
        }
    }
}

/// Reads the data of some fields, except those in the bit set.
fn read(
    entry: &mut EntryBody<'_>,
    fields: &DataFields,
    skipped: u64,
    names: &mut LearnedNames,
    data: &mut Vec<DataItem>,
) -> Result<(), SessionFault> {
    entry.read_fields(fields, |field, element, value| {
        // A name keeps its number from now on, even if the entry is not learned.
        let value = match value {
            DataValue::Count(number) => LearnedValue::Number(number),
            DataValue::Rate(rate) => LearnedValue::Rate(parts(rate)),
            DataValue::Name(mention) => LearnedValue::Name(names.resolve(mention)),
        };
        if let Some(of) = data_of(field).filter(|_| skipped >> field.number & 1 == 0) {
            data.push(DataItem { data: of, element, value });
        }
    })
}

/// Whether the data is only valid in the instance that counts it (manual, 11.1, "conn_cur").
fn is_local(data: DataType) -> bool {
    data == DataType::ConnectionsCurrent
}

/// Whether the data may be written to the `write-to` table, which must not include counts of peers (manual, 11.1,
/// "write-to").
fn is_no_sum(data: DataType) -> bool {
    matches!(data, DataType::ServerId | DataType::ServerKey | DataType::Gpt | DataType::Gpt0)
}

impl DataItem {
    fn store(&self, row: &mut LockedEntry<'_>) {
        match &self.value {
            LearnedValue::Number(number) => _ = row.set(self.data, self.element, *number),
            LearnedValue::Rate(parts) => row.set_rate(self.data, self.element, *parts),
            LearnedValue::Name(Some(name)) => row.set_server_key(name),
            LearnedValue::Name(None) => {}
        }
    }

    fn store_share(&self, share: Share, row: &mut LockedEntry<'_>) {
        if let Some(value) = self.share_value() {
            row.set_share(share, self.data, self.element, value);
        }
    }

    fn store_rest(&self, share: Share, row: &mut LockedEntry<'_>) {
        if let Some(value) = self.share_value() {
            row.set_rest(share, self.data, self.element, value);
        }
    }

    fn share_value(&self) -> Option<ShareValue> {
        match &self.value {
            LearnedValue::Number(number) => Some(ShareValue::Count(*number)),
            LearnedValue::Rate(parts) => Some(ShareValue::Rate(*parts)),
            LearnedValue::Name(_) => None,
        }
    }
}

/// The parts of a rate from a peer. Clocks of threads differ slightly, so a period may begin after now. Its age is then a
/// negative 32-bit number. A period that began longer ago than the field can hold is empty by now.
fn parts(rate: RateData) -> RateParts {
    let age_ms = u32::try_from(rate.age_ms).map_or(rate.age_ms as i64, |age_ms| i64::from(age_ms as i32));
    if !(-CLOCKS_DIFFER_MS..=i64::from(i32::MAX)).contains(&age_ms) {
        return RateParts::default();
    }
    RateParts {
        age_ms: age_ms.max(0) as u32,
        current: rate.current.min(u32::MAX.into()) as u32,
        previous: rate.previous.min(u32::MAX.into()) as u32,
    }
}

/// The limit of clock differences, in milliseconds. A period that begins further in the future is invalid.
const CLOCKS_DIFFER_MS: i64 = 60_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slightly_negative_rate_age_is_zero_and_an_excessive_one_drops_the_rate() {
        let age_of = |age_ms: u64| parts(RateData { age_ms, current: 7, previous: 0 });
        for (sent, learned) in
            [(0, 0), (5, 5), (0xffff_ffff, 0), (u64::MAX, 0), (i32::MAX as u64, i32::MAX as u32)]
        {
            assert_eq!((age_of(sent).age_ms, age_of(sent).current), (learned, 7), "{sent:x}");
        }
        for nonsense in [1 << 31, 1 << 32, 1 << 63, 0xffff_0000] {
            assert_eq!(age_of(nonsense).current, 0, "{nonsense:x}");
        }
    }
}
