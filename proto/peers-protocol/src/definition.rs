//! The definition of a table, sent before its first update.

use crate::SessionFault;
use crate::integer::{self, ByteReader};

/// The definition of a sender's table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition<'b> {
    /// The sender's number of the table.
    pub id: u64,
    /// Its name, the same on both sides.
    pub name: &'b [u8],
    /// The type of its keys.
    pub key: KeyKind,
    /// The length of a key in bytes; for strings, including one byte for their end.
    pub key_length: u32,
    /// The lifetime of an entry in milliseconds; 0 for no expiry.
    pub expire_ms: u64,
    /// The data types in each update, in order.
    pub fields: DataFields,
    /// Whether updates have tags first, then the counts and rates of each instance, each share with the instance's name.
    pub is_aggregate: bool,
}

/// The types of data in a table's updates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DataFields(Vec<DataField>);

/// One type of data of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataField {
    /// The type's number: its bit in the definition.
    pub number: u8,
    /// The number of elements; 1 unless it is an array.
    pub elements: u16,
    /// The period of rates, in milliseconds.
    pub period_ms: u32,
}

/// The type of a table's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// An integer of 32 bits.
    Integer,
    Ipv4,
    Ipv6,
    Text,
    Binary,
    Other(u64),
}

/// The encoding of a type of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataEncoding {
    Count,
    Rate,
    /// A name, or the number of a name sent before.
    Name,
    Counts,
    Rates,
}

/// The encoding of each type, by its number (manual, 11.1, in the order of `show table`).
const KINDS: [DataEncoding; 27] = {
    let mut kinds = [DataEncoding::Count; 27];
    let rates = [3, 5, 8, 10, 12, 14, 16, 18, 21, 26];
    let mut position = 0;
    while position < rates.len() {
        kinds[rates[position]] = DataEncoding::Rate;
        position += 1;
    }
    kinds[19] = DataEncoding::Name;
    kinds[22] = DataEncoding::Counts;
    kinds[23] = DataEncoding::Counts;
    kinds[24] = DataEncoding::Rates;
    kinds
};

/// Types that are neither counts nor rates: servers, tags, currently open connections.
const NO_SUMS: [u8; 5] = [0, 1, 6, 19, 22];

/// Maximum number of elements of an array.
const MAX_ELEMENTS: u64 = 100;

impl DataField {
    /// The encoding. `None` for an unknown type of a later version.
    pub fn kind(self) -> Option<DataEncoding> {
        KINDS.get(usize::from(self.number)).copied()
    }
}

impl DataFields {
    /// Sorts these types by number and leaves out unknown ones.
    pub fn new(mut fields: Vec<DataField>) -> DataFields {
        fields.retain(|field| field.kind().is_some());
        fields.sort_by_key(|field| field.number);
        fields.dedup_by_key(|field| field.number);
        DataFields(fields)
    }

    /// Splits the types into those that instances may sum, and the others.
    pub fn divided(&self) -> (DataFields, DataFields) {
        let is_sum = |field: &&DataField| !NO_SUMS.contains(&field.number);
        let (sums, others) = self.0.iter().partition::<Vec<_>, _>(is_sum);
        (DataFields(sums.into_iter().copied().collect()), DataFields(others.into_iter().copied().collect()))
    }

    /// The types, by number.
    pub fn iter(&self) -> impl Iterator<Item = DataField> + '_ {
        self.0.iter().copied()
    }
}

impl<'b> Definition<'b> {
    /// Reads the body of a message. Unknown types of data have the highest numbers, so they come last here and in updates, and are skipped.
    pub(crate) fn read(mut body: ByteReader<'b>) -> Result<Definition<'b>, SessionFault> {
        let id = body.integer()?;
        let name = body.counted_bytes()?;
        let key = KeyKind::from_code(body.integer()?);
        let key_length = body.short_integer()?;
        let bits = body.integer()?;
        let expire_ms = body.integer()?;
        let mut fields: Vec<DataField> = (0..KINDS.len() as u8)
            .filter(|number| bits >> number & 1 != 0)
            .map(|number| DataField { number, elements: 1, period_ms: 0 })
            .collect();
        read_parameters(body, &mut fields)?;
        // An array of unknown length cannot be read.
        let is_array =
            |field: &DataField| matches!(field.kind(), Some(DataEncoding::Counts | DataEncoding::Rates));
        if fields.iter().any(|field| is_array(field) && field.elements == 0) {
            return Err(SessionFault::Malformed);
        }
        Ok(Definition {
            id,
            name,
            key,
            key_length,
            expire_ms,
            fields: DataFields(fields),
            is_aggregate: false,
        })
    }

    /// Appends the body of a message.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        integer::write(self.id, out);
        integer::write(self.name.len() as u64, out);
        out.extend_from_slice(self.name);
        integer::write(self.key.code(), out);
        integer::write(self.key_length.into(), out);
        integer::write(self.fields.iter().fold(0, |bits, field| bits | 1 << field.number), out);
        integer::write(self.expire_ms, out);
        for field in self.fields.iter() {
            let kind = field.kind();
            let (is_array, is_rate) = (
                matches!(kind, Some(DataEncoding::Counts | DataEncoding::Rates)),
                matches!(kind, Some(DataEncoding::Rate | DataEncoding::Rates)),
            );
            if is_array || is_rate {
                integer::write(field.number.into(), out);
            }
            if is_array {
                integer::write(field.elements.into(), out);
            }
            if is_rate {
                integer::write(field.period_ms.into(), out);
            }
        }
    }
}

/// Lengths of arrays and periods of rates, each after the number of its type. Senders before 2.1 send none.
fn read_parameters(mut body: ByteReader<'_>, fields: &mut [DataField]) -> Result<(), SessionFault> {
    for field in fields {
        let is_array = match field.kind() {
            Some(DataEncoding::Counts | DataEncoding::Rates) => true,
            Some(DataEncoding::Rate) => false,
            _ => continue,
        };
        if is_array {
            field.elements = 0;
        }
        if body.0.is_empty() {
            continue;
        }
        if body.integer()? != u64::from(field.number) {
            return Err(SessionFault::Malformed);
        }
        if is_array {
            let elements = body.integer()?;
            if elements > MAX_ELEMENTS {
                return Err(SessionFault::Malformed);
            }
            field.elements = elements as u16;
        }
        if matches!(field.kind(), Some(DataEncoding::Rate | DataEncoding::Rates)) {
            field.period_ms = body.short_integer()?;
        }
    }
    Ok(())
}

impl KeyKind {
    fn from_code(code: u64) -> KeyKind {
        match code {
            2 => KeyKind::Integer,
            4 => KeyKind::Ipv4,
            5 => KeyKind::Ipv6,
            6 => KeyKind::Text,
            7 => KeyKind::Binary,
            other => KeyKind::Other(other),
        }
    }

    fn code(self) -> u64 {
        match self {
            KeyKind::Integer => 2,
            KeyKind::Ipv4 => 4,
            KeyKind::Ipv6 => 5,
            KeyKind::Text => 6,
            KeyKind::Binary => 7,
            KeyKind::Other(code) => code,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From HAProxy 3.2 and 2.6, for `type string len 20 expire 5m store
    /// gpc(3),gpc_rate(2,3s),gpt(2),server_key,http_fail_cnt,http_fail_rate(7s)`.
    const OF_HAPROXY: [u8; 27] = [
        0x02, 0x02, b't', b'2', 0x06, 0x15, 0xf0, 0xf1, 0xfe, 0x7c, 0xf0, 0xaf, 0x91, 0x00, 0x15, 0xf8, 0xa6,
        0x02, 0x16, 0x02, 0x17, 0x03, 0x18, 0x02, 0xf8, 0xac, 0x00,
    ];

    fn definition() -> Definition<'static> {
        let field = |number, elements, period_ms| DataField { number, elements, period_ms };
        Definition {
            id: 2,
            name: b"t2",
            key: KeyKind::Text,
            key_length: 21,
            expire_ms: 300_000,
            fields: DataFields(vec![
                field(19, 1, 0),
                field(20, 1, 0),
                field(21, 1, 7000),
                field(22, 2, 0),
                field(23, 3, 0),
                field(24, 2, 3000),
            ]),
            is_aggregate: false,
        }
    }

    #[test]
    fn table_definitions_are_read_and_written_like_in_haproxy() {
        assert_eq!(Definition::read(ByteReader(&OF_HAPROXY)), Ok(definition()));
        let mut written = Vec::new();
        definition().write(&mut written);
        assert_eq!(written, OF_HAPROXY);
    }

    #[test]
    fn a_truncated_table_definition_is_malformed_except_for_old_versions() {
        for cut in 0..OF_HAPROXY.len() {
            assert_eq!(
                Definition::read(ByteReader(&OF_HAPROXY[..cut])),
                Err(SessionFault::Malformed),
                "{cut}"
            );
        }
        // Without arrays the rest may be missing: version 2.0.
        let old = [1, 1, b'f', 4, 4, 0xf4, 0xb5, 0x03, 0];
        let old = Definition::read(ByteReader(&old)).expect("a definition");
        assert_eq!(old.fields.iter().map(|field| field.number).collect::<Vec<_>>(), [2, 6, 10, 13]);
    }

    #[test]
    fn extensions_of_a_table_definition_are_ignored() {
        let mut longer = OF_HAPROXY.to_vec();
        longer.extend_from_slice(&[0x30, 0x09]);
        assert_eq!(Definition::read(ByteReader(&longer)), Ok(definition()));
    }

    #[test]
    fn an_array_of_excessive_length_is_malformed() {
        let mut body = vec![1, 1, b'f', 4, 4];
        integer::write(1 << 23, &mut body);
        body.extend_from_slice(&[0, 23]);
        integer::write(1 << 40, &mut body);
        assert_eq!(Definition::read(ByteReader(&body)), Err(SessionFault::Malformed));
    }
}
