//! The body of an update: the key and the data of a table entry.

use crate::SessionFault;
use crate::definition::{DataEncoding, DataField, DataFields, KeyKind};
use crate::integer::{self, ByteReader};
use crate::names::Mention;

/// The key of an entry, and its data. Bytes after the known data, from a later version, are skipped.
#[derive(Debug, Clone, Copy)]
pub struct EntryBody<'b> {
    pub key: KeyBytes<'b>,
    data: ByteReader<'b>,
}

/// A key as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyBytes<'b> {
    Integer(u32),
    /// The bytes of an address, of a string, or of a key of fixed length.
    Bytes(&'b [u8]),
}

/// Data of one type, or one element of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataValue<'b> {
    /// A count or a tag.
    Count(u64),
    /// Events in the current and in the previous period.
    Rate(RateData),
    Name(Mention<'b>),
}

/// A rate as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateData {
    /// Milliseconds since the current period began.
    pub age_ms: u64,
    pub current: u64,
    /// Events of the previous period.
    pub previous: u64,
}

impl<'b> EntryBody<'b> {
    /// Reads the body of an update of a table with such keys.
    ///
    /// # Errors
    /// The key is truncated.
    pub fn read(body: &'b [u8], key: KeyKind, key_length: u32) -> Result<EntryBody<'b>, SessionFault> {
        let mut data = ByteReader(body);
        let key = match key {
            KeyKind::Integer => KeyBytes::Integer(data.four_bytes()?),
            KeyKind::Text => KeyBytes::Bytes(data.counted_bytes()?),
            _ => KeyBytes::Bytes(data.bytes(key_length.into())?),
        };
        Ok(EntryBody { key, data })
    }

    /// Calls `then` with all data of the entry; for arrays, with each element.
    ///
    /// # Errors
    /// Data is missing.
    pub fn read_data(
        mut self,
        fields: &DataFields,
        then: impl FnMut(DataField, u16, DataValue<'b>),
    ) -> Result<(), SessionFault> {
        self.read_fields(fields, then)
    }

    /// Reads the name of the instance with the next share, in an entry that several instances count together. `None` at
    /// the end. [Read](Self::read_fields) the data of that share next.
    ///
    /// # Errors
    /// The name is invalid.
    pub fn take_owner(&mut self) -> Result<Option<Mention<'b>>, SessionFault> {
        if self.data.0.is_empty() {
            return Ok(None);
        }
        Mention::read(&mut self.data).map(Some)
    }

    /// Reads the data of `fields`, and passes each value to `then`.
    ///
    /// # Errors
    /// Data is missing.
    pub fn read_fields(
        &mut self,
        fields: &DataFields,
        mut then: impl FnMut(DataField, u16, DataValue<'b>),
    ) -> Result<(), SessionFault> {
        for field in fields.iter() {
            for element in 0..field.elements {
                let value = match field.kind() {
                    Some(DataEncoding::Count | DataEncoding::Counts) => {
                        DataValue::Count(self.data.integer()?)
                    }
                    Some(DataEncoding::Rate | DataEncoding::Rates) => DataValue::Rate(RateData {
                        age_ms: self.data.integer()?,
                        current: self.data.integer()?,
                        previous: self.data.integer()?,
                    }),
                    Some(DataEncoding::Name) => DataValue::Name(Mention::read(&mut self.data)?),
                    None => return Ok(()),
                };
                then(field, element, value);
            }
        }
        Ok(())
    }
}

impl KeyBytes<'_> {
    /// Appends the key in the encoding of its type.
    pub fn write(self, kind: KeyKind, out: &mut Vec<u8>) {
        match self {
            KeyBytes::Integer(number) => out.extend_from_slice(&number.to_be_bytes()),
            KeyBytes::Bytes(bytes) => {
                if kind == KeyKind::Text {
                    integer::write(bytes.len() as u64, out);
                }
                out.extend_from_slice(bytes);
            }
        }
    }
}

impl RateData {
    /// Appends the rate.
    pub fn write(self, out: &mut Vec<u8>) {
        [self.age_ms, self.current, self.previous].into_iter().for_each(|value| integer::write(value, out));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(numbers: &[(u8, u16)]) -> DataFields {
        let field =
            |(number, elements): &(u8, u16)| DataField { number: *number, elements: *elements, period_ms: 0 };
        DataFields::new(numbers.iter().map(field).collect())
    }

    fn values(entry: EntryBody<'_>, fields: &DataFields) -> Result<Vec<(u8, u16, String)>, SessionFault> {
        let mut values = Vec::new();
        entry.read_data(fields, |field, element, value| {
            values.push((field.number, element, format!("{value:?}")));
        })?;
        Ok(values)
    }

    /// As sent by HAProxy for `gpc0,http_req_rate,bytes_in_cnt,conn_cur`.
    #[test]
    fn parses_an_update_with_an_address_key_and_counters() {
        let body = [127, 0, 0, 1, 1, 1, 0, 1, 0, 0x2b];
        let entry = EntryBody::read(&body, KeyKind::Ipv4, 4).expect("an entry");
        assert_eq!(entry.key, KeyBytes::Bytes(&[127, 0, 0, 1]));
        let fields = fields(&[(10, 1), (2, 1), (13, 1), (6, 1)]);
        let values = values(entry, &fields).expect("data");
        let shown: Vec<_> = values.iter().map(|(number, _, value)| (*number, value.as_str())).collect();
        let rate = "Rate(RateData { age_ms: 0, current: 1, previous: 0 })";
        assert_eq!(shown, [(2, "Count(1)"), (6, "Count(1)"), (10, rate), (13, "Count(43)")]);
    }

    /// As sent by HAProxy for a key of a string and a server.
    #[test]
    fn parses_an_update_with_a_string_key_and_a_server() {
        let body = [6, b'/', b'f', b'i', b'r', b's', b't', 1, 4, 1, 2, b's', b'1'];
        let entry = EntryBody::read(&body, KeyKind::Text, 11).expect("an entry");
        assert_eq!(entry.key, KeyBytes::Bytes(b"/first"));
        let values = values(entry, &fields(&[(0, 1), (19, 1)])).expect("data");
        assert_eq!(values[0].2, "Count(1)");
        assert_eq!(values[1].2, format!("{:?}", DataValue::Name(Mention::New(1, b"s1"))));
    }

    #[test]
    fn every_element_of_an_array_is_visited() {
        let body = [0, 0, 0, 77, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        let entry = EntryBody::read(&body, KeyKind::Integer, 4).expect("an entry");
        assert_eq!(entry.key, KeyBytes::Integer(77));
        let fields = fields(&[(23, 3), (24, 2)]);
        let values = values(entry, &fields).expect("data");
        let places: Vec<_> = values.iter().map(|(number, element, _)| (*number, *element)).collect();
        assert_eq!(places, [(23, 0), (23, 1), (23, 2), (24, 0), (24, 1)]);
    }

    #[test]
    fn rejects_truncated_updates_and_accepts_longer_ones() {
        let fields = fields(&[(2, 1), (10, 1)]);
        let body = [127, 0, 0, 1, 1, 0, 1, 0];
        for cut in 0..body.len() {
            let read = EntryBody::read(&body[..cut], KeyKind::Ipv4, 4);
            assert!(read.and_then(|entry| values(entry, &fields)).is_err(), "{cut}");
        }
        let longer = [&body[..], &[9, 9]].concat();
        let entry = EntryBody::read(&longer, KeyKind::Ipv4, 4).expect("an entry");
        assert_eq!(values(entry, &fields).map(|values| values.len()), Ok(2));
    }

    #[test]
    fn table_keys_survive_a_round_trip() {
        let mut out = Vec::new();
        KeyBytes::Bytes(b"a\0b").write(KeyKind::Text, &mut out);
        KeyBytes::Integer(7).write(KeyKind::Integer, &mut out);
        assert_eq!(out, [3, b'a', 0, b'b', 0, 0, 0, 7]);
        let entry = EntryBody::read(&out, KeyKind::Text, 33).expect("an entry");
        assert_eq!(entry.key, KeyBytes::Bytes(b"a\0b"));
    }
}
