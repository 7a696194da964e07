//! A table as peers know it: what it is called, how its entries are told.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_expr::Value as Sample;
use weir_expr::table::{DataType, KeyType};
use weir_peer_messages::definition::Fields;
use weir_peer_messages::{DataKind, Definition, Field, KeyBytes, KeyKind, Rate, SentNames, integer};
use weir_tables::{Key, RateParts, Row, Table};

/// A table that is shared with the peers of a section.
#[derive(Debug)]
pub struct SharedTable {
    /// The table, one of whose audiences each peer is.
    pub table: &'static Table,
    /// What peers call it: `/name` for one of a `peers` section (manual, 11.2, "table").
    pub name: Box<str>,
    /// `recv-only`: what only the local instance knows is learned, too.
    pub receive_only: bool,
    /// `write-to`: where tags and servers that are learned are written, too.
    pub write_to: Option<&'static Table>,
    fields: Fields,
}

impl SharedTable {
    /// A table and what peers call it.
    pub fn new(
        table: &'static Table,
        name: &str,
        receive_only: bool,
        write_to: Option<&'static Table>,
    ) -> Self {
        let layout = table.layout();
        let field = |data| Field {
            number: data as u8,
            elements: layout.elements(data),
            period_ms: layout.period_ms(data),
        };
        let fields = Fields::new(layout.stored().map(field).collect());
        SharedTable { table, name: name.into(), receive_only, write_to, fields }
    }

    /// What peers are told of it before anything else.
    pub(crate) fn definition(&self, id: u64) -> Definition<'_> {
        let (key, key_length) = kind_of(self.table.declaration().key);
        Definition {
            id,
            name: self.name.as_bytes(),
            key,
            key_length,
            expire_ms: self.table.declaration().expire_ms.into(),
            fields: self.fields.clone(),
        }
    }

    /// Whether a peer means the same by this table: its keys are as ours. Strings and blocks may have other lengths.
    pub(crate) fn is_like(&self, told: &Definition<'_>) -> bool {
        let (key, key_length) = kind_of(self.table.declaration().key);
        match key {
            KeyKind::Text => told.key == key,
            _ => told.key == key && told.key_length == key_length,
        }
    }

    /// The key that a peer tells; none if it is none.
    pub(crate) fn key(&self, told: KeyBytes<'_>) -> Option<Key> {
        let kind = self.table.declaration().key;
        let sample = match (told, kind) {
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

    /// Appends key and data of an entry.
    pub(crate) fn write_entry(&self, row: &Row<'_>, names: &mut SentNames, out: &mut Vec<u8>) {
        let kind = kind_of(self.table.declaration().key).0;
        match row.key() {
            Sample::Int(number) => KeyBytes::Integer(number as u32).write(kind, out),
            Sample::Ipv4(address) => KeyBytes::Bytes(&address.octets()).write(kind, out),
            Sample::Ipv6(address) => KeyBytes::Bytes(&address.octets()).write(kind, out),
            Sample::Str(bytes) | Sample::Bin(bytes) => KeyBytes::Bytes(&bytes).write(kind, out),
            // No table has keys of other types.
            _ => {}
        }
        for field in self.fields.iter() {
            let Some(data) = data_of(field) else { continue };
            for element in 0..field.elements {
                match field.kind() {
                    Some(DataKind::Rate | DataKind::Rates) => {
                        let RateParts { age_ms, current, previous } =
                            row.rate(data, element).unwrap_or_default();
                        let [age_ms, current, previous] = [age_ms, current, previous].map(u64::from);
                        Rate { age_ms, current, previous }.write(out);
                    }
                    Some(DataKind::Name) => names.write(row.server_key().as_deref(), out),
                    _ => integer::write(row.get(data, element).unwrap_or_default(), out),
                }
            }
        }
    }
}

/// The type of data that a peer means by a number.
pub(crate) fn data_of(field: Field) -> Option<DataType> {
    DataType::ALL.get(usize::from(field.number)).copied()
}

/// What peers are told of keys. To them a string has a byte for its end.
fn kind_of(key: KeyType) -> (KeyKind, u32) {
    match key {
        KeyType::Integer => (KeyKind::Integer, 4),
        KeyType::Ipv4 => (KeyKind::Ipv4, 4),
        KeyType::Ipv6 => (KeyKind::Ipv6, 16),
        KeyType::Text(length) => (KeyKind::Text, length + 1),
        KeyType::Binary(length) => (KeyKind::Binary, length),
    }
}
