//! A shared table: its name among peers and the encoding of its entries.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use weir_expr::Value as Sample;
use weir_expr::table::{DataType, KeyType};
use weir_peers_protocol::definition::DataFields;
use weir_peers_protocol::{
    DataEncoding, DataField, Definition, KeyBytes, KeyKind, RateData, SentNames, integer,
};
use weir_tables::{Key, LockedEntry, RateParts, Share, ShareValue, Table};
use xxhash_rust::xxh64::xxh64;

use crate::mismatch::Mismatch;

/// A table that is shared with the peers of a section.
#[derive(Debug)]
pub struct SharedTable {
    /// The table. Each peer is one of its audiences.
    pub table: Arc<Table>,
    /// The table's name among peers: `/name` for a table of a `peers` section (manual, 11.2, "table").
    pub name: Box<str>,
    /// `recv-only`: data that is only valid in one instance is also learned from peers.
    pub receive_only: bool,
    /// `write-to`: another table to which received tags and servers are also written.
    pub write_to: Option<Arc<Table>>,
    fields: DataFields,
    /// The fields, divided into those that may be aggregated and the others.
    divided: (DataFields, DataFields),
    /// The name of this instance, and the names of the others by audience.
    members: (Box<str>, Vec<Box<str>>),
}

impl SharedTable {
    /// A table and its name among peers.
    pub fn new(table: Arc<Table>, name: &str, receive_only: bool, write_to: Option<Arc<Table>>) -> Self {
        let layout = table.layout();
        let field = |data| DataField {
            number: data as u8,
            elements: layout.elements(data),
            period_ms: layout.period_ms(data),
        };
        let fields = DataFields::new(layout.stored().map(field).collect());
        let divided = fields.divided();
        SharedTable {
            table,
            name: name.into(),
            receive_only,
            write_to,
            fields,
            divided,
            members: Default::default(),
        }
    }

    /// Sets the names of this instance and of the others, by audience. On the wire, a share of a sum includes its owner's
    /// name.
    pub fn of_members(mut self, local: &str, peers: impl IntoIterator<Item = Box<str>>) -> SharedTable {
        self.members = (local.into(), peers.into_iter().collect());
        self
    }

    /// Whether the table's counts are sums of the instances' shares.
    pub(crate) fn is_aggregate(&self) -> bool {
        self.table.layout().is_aggregate()
    }

    /// The share of this owner. Our own share from a peer is from before this instance's restart.
    pub(crate) fn share_of(&self, name: &str) -> Option<Share> {
        let (local, peers) = &self.members;
        if *name == **local {
            return Some(Share::Former);
        }
        peers.iter().position(|peer| **peer == *name).map(Share::Peer)
    }

    /// All shares that an entry may have, with their owners.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (Share, &str)> {
        let (local, peers) = &self.members;
        let others = peers.iter().enumerate().map(|(audience, name)| (Share::Peer(audience), &**name));
        std::iter::once((Share::Own, &**local)).chain(others)
    }

    /// The table definition that peers receive first.
    pub(crate) fn definition(&self, id: u64, is_aggregate: bool) -> Definition<'_> {
        let (key, key_length) = kind_of(self.table.declaration().key);
        Definition {
            id,
            name: self.name.as_bytes(),
            key,
            key_length,
            expire_ms: self.table.declaration().expire_ms.into(),
            fields: self.fields.clone(),
            is_aggregate,
        }
    }

    /// Whether a peer's definition is compatible: its key type equals ours. Lengths of strings and blocks may differ.
    pub(crate) fn is_like(&self, definition: &Definition<'_>) -> bool {
        let (key, key_length) = kind_of(self.table.declaration().key);
        match key {
            KeyKind::Text => definition.key == key,
            _ => definition.key == key && definition.key_length == key_length,
        }
    }

    /// The rates with a different period in a peer's definition: its and our period, in milliseconds. A rate without a period
    /// has ours.
    pub(crate) fn other_periods(&self, definition: &Definition<'_>) -> Vec<(DataType, u32, u32)> {
        let ours = |number| self.fields.iter().find(|own| own.number == number);
        let differs = |field: DataField| {
            let own =
                ours(field.number).filter(|own| field.period_ms > 0 && own.period_ms != field.period_ms)?;
            Some((data_of(field)?, field.period_ms, own.period_ms))
        };
        definition.fields.iter().filter_map(differs).collect()
    }

    /// The data types that only one definition stores, or else the first array with a different length.
    pub(crate) fn other_data(&self, definition: &Definition<'_>) -> Option<Mismatch> {
        let layout = self.table.layout();
        let bits = |fields: &DataFields| {
            let known = fields.iter().filter_map(data_of);
            known.fold(0_u32, |bits, data| bits | 1 << data as u32)
        };
        let (theirs, ours) = (bits(&definition.fields), bits(&self.fields));
        let has_no_place = |data: &DataType| theirs & 1 << *data as u32 != 0 && !layout.has_place(*data);
        let only_theirs = DataType::ALL.iter().filter(|data| has_no_place(data));
        let only_theirs = only_theirs.fold(0, |bits, data| bits | 1 << *data as u32);
        if only_theirs | ours & !theirs != 0 {
            return Some(Mismatch::Data { only_theirs, only_ours: ours & !theirs });
        }
        let longer = |field: DataField| {
            let data = data_of(field)?;
            let (theirs, ours) = (field.elements, layout.elements(data));
            (data.is_array() && theirs != ours).then_some(Mismatch::Elements { data, theirs, ours })
        };
        definition.fields.iter().find_map(longer)
    }

    /// A key from a peer. `None` if it is invalid.
    pub(crate) fn key(&self, received: KeyBytes<'_>) -> Option<Key> {
        let kind = self.table.declaration().key;
        let sample = match (received, kind) {
            (KeyBytes::Integer(number), KeyType::Integer) => Sample::Int(number.into()),
            (KeyBytes::Bytes(bytes), KeyType::Ipv4) => {
                Sample::Ipv4(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))
            }
            (KeyBytes::Bytes(bytes), KeyType::Ipv6) => {
                Sample::Ipv6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?))
            }
            (KeyBytes::Bytes(bytes), KeyType::Text(_)) => Sample::str(bytes),
            (KeyBytes::Bytes(bytes), KeyType::Binary(_)) => Sample::bin(bytes),
            _ => return None,
        };
        Key::of(sample, kind)
    }

    /// The partition of `shards` partitions that an entry's key belongs to, from 1. It is the same in every instance.
    pub(crate) fn shard_of(row: &LockedEntry<'_>, shards: u32) -> u32 {
        let hash = match row.key() {
            Sample::Int(number) => xxh64(&(number as u32).to_be_bytes(), 0),
            Sample::Ipv4(address) => xxh64(&address.octets(), 0),
            Sample::Ipv6(address) => xxh64(&address.octets(), 0),
            Sample::Str(bytes) | Sample::Bin(bytes) => xxh64(&bytes, 0),
            // No other key types exist.
            _ => 0,
        };
        // The remainder is less than `shards`, so it fits in 32 bits.
        (hash % u64::from(shards.max(1))) as u32 + 1
    }

    /// Appends the key and data of an entry.
    pub(crate) fn write_entry(&self, row: &LockedEntry<'_>, names: &mut SentNames, out: &mut Vec<u8>) {
        self.write_key(row, out);
        write_fields(&self.fields, row, names, out);
    }

    /// Appends an entry's key, tags and one share of its counts and rates.
    pub(crate) fn write_share(
        &self,
        row: &LockedEntry<'_>,
        (share, owner): (Share, &str),
        names: &mut SentNames,
        out: &mut Vec<u8>,
    ) {
        let (sums, tags) = &self.divided;
        self.write_key(row, out);
        write_fields(tags, row, names, out);
        names.write(Some(owner), out);
        for field in sums.iter() {
            let Some(data) = data_of(field) else { continue };
            for element in 0..field.elements {
                match row.share(share, data, element) {
                    Some(ShareValue::Rate(parts)) => write_rate(parts, out),
                    Some(ShareValue::Count(count)) => integer::write(count, out),
                    // Unreachable: the table stores all fields of its layout.
                    None => {}
                }
            }
        }
    }

    fn write_key(&self, row: &LockedEntry<'_>, out: &mut Vec<u8>) {
        let kind = kind_of(self.table.declaration().key).0;
        match row.key() {
            Sample::Int(number) => KeyBytes::Integer(number as u32).write(kind, out),
            Sample::Ipv4(address) => KeyBytes::Bytes(&address.octets()).write(kind, out),
            Sample::Ipv6(address) => KeyBytes::Bytes(&address.octets()).write(kind, out),
            Sample::Str(bytes) | Sample::Bin(bytes) => KeyBytes::Bytes(&bytes).write(kind, out),
            // No other key types exist.
            _ => {}
        }
    }
}

fn write_fields(fields: &DataFields, row: &LockedEntry<'_>, names: &mut SentNames, out: &mut Vec<u8>) {
    for field in fields.iter() {
        let Some(data) = data_of(field) else { continue };
        for element in 0..field.elements {
            match field.kind() {
                Some(DataEncoding::Rate | DataEncoding::Rates) => {
                    write_rate(row.rate(data, element).unwrap_or_default(), out);
                }
                Some(DataEncoding::Name) => names.write(row.server_key().as_deref(), out),
                _ => integer::write(row.get(data, element).unwrap_or_default(), out),
            }
        }
    }
}

fn write_rate(RateParts { age_ms, current, previous }: RateParts, out: &mut Vec<u8>) {
    let [age_ms, current, previous] = [age_ms, current, previous].map(u64::from);
    RateData { age_ms, current, previous }.write(out);
}

/// The data type with the peer's field number.
pub(crate) fn data_of(field: DataField) -> Option<DataType> {
    DataType::ALL.get(usize::from(field.number)).copied()
}

/// The key type and length for peers. Strings have one more byte for the terminator.
fn kind_of(key: KeyType) -> (KeyKind, u32) {
    match key {
        KeyType::Integer => (KeyKind::Integer, 4),
        KeyType::Ipv4 => (KeyKind::Ipv4, 4),
        KeyType::Ipv6 => (KeyKind::Ipv6, 16),
        KeyType::Text(length) => (KeyKind::Text, length + 1),
        KeyType::Binary(length) => (KeyKind::Binary, length),
    }
}
