//! Header blocks to fields (RFC 7541, 3 and 6).

use crate::huffman;
use crate::integer::{self, Integer};
use crate::static_table;
use crate::table::{DynamicTable, EntryName};
use crate::token::{Defect, Token};

/// Decodes the header blocks of one direction of a connection, in their order.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    /// The largest table size in bytes that the peer may set, as announced to it.
    limit: usize,
    /// Length limit of a name or a value on the wire, in bytes.
    max_text: usize,
    /// A field of this block was decoded, so a table size update is an error.
    in_fields: bool,
    /// Decoded names and values that were Huffman-coded.
    decoded: Vec<u8>,
}

/// A field that was decoded.
#[derive(Clone, Copy, Debug)]
pub struct DecodedField<'f> {
    /// The recognized name.
    pub token: Token,
    pub name: &'f [u8],
    pub value: &'f [u8],
    /// Set if the field is invalid in any message.
    pub defect: Option<Defect>,
    /// Whether the field must not be indexed when it is forwarded either (RFC 7541, 6.2.3).
    pub sensitive: bool,
}

/// Why a block cannot be decoded. The connection must be closed, because the tables of the two ends are out of sync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// An index beyond both tables (RFC 7541, 2.3.3).
    Index,
    /// A number that is too large (RFC 7541, 5.1).
    Integer,
    /// An invalid Huffman code (RFC 7541, 5.2).
    Huffman,
    /// A name or a value exceeds the limit.
    TooLong,
    /// A table size update above the announced size, or after a field (RFC 7541, 4.2 and 6.3).
    TableSize,
}

impl Decoder {
    /// A decoder with a table of up to `limit` bytes, for names and values of up to `max_text` bytes on the wire.
    pub fn new(limit: usize, max_text: usize) -> Decoder {
        Decoder { table: DynamicTable::new(limit), limit, max_text, in_fields: false, decoded: Vec::new() }
    }

    /// Decodes the complete fields at the front of `bytes` and passes each to `show`. Returns the number of bytes used.
    /// Pass the rest, an incomplete field, again together with the bytes that follow.
    ///
    /// # Errors
    /// When the block is invalid. The fields before the error were passed to `show`.
    pub fn decode(&mut self, bytes: &[u8], mut show: impl FnMut(DecodedField<'_>)) -> Result<usize, Error> {
        let mut at = 0;
        while let Some(&first) = bytes.get(at) {
            let rest = &bytes[at..];
            let used = match first {
                0x80.. => self.indexed(rest, &mut show)?,
                0x40..0x80 => self.literal(rest, 6, true, &mut show)?,
                0x20..0x40 => self.resize(rest)?,
                0..0x20 => self.literal(rest, 4, false, &mut show)?,
            };
            match used {
                Some(used) => at += used,
                None => break,
            }
        }
        Ok(at)
    }

    /// Ends the block: the next bytes begin another one.
    pub fn end_block(&mut self) {
        self.in_fields = false;
        // Long values are rare, so their memory is not kept.
        if self.decoded.capacity() > KEPT {
            self.decoded = Vec::new();
        }
    }

    fn indexed(
        &mut self,
        bytes: &[u8],
        show: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<Option<usize>, Error> {
        let Some((index, used)) = number(bytes, 7)? else { return Ok(None) };
        self.in_fields = true;
        show(self.field(index as usize)?);
        Ok(Some(used))
    }

    /// The field at `index` in the static or the dynamic table.
    fn field(&self, index: usize) -> Result<DecodedField<'_>, Error> {
        if let Some(row) = static_table::row(index) {
            let (name, value) = (row.name.as_bytes(), row.value.as_bytes());
            return Ok(DecodedField { token: row.token, name, value, defect: None, sensitive: false });
        }
        let position = index.checked_sub(static_table::LENGTH + 1).ok_or(Error::Index)?;
        let known = self.table.get(position).ok_or(Error::Index)?;
        Ok(DecodedField {
            token: known.token,
            name: known.name,
            value: known.value,
            defect: known.defect,
            sensitive: false,
        })
    }

    /// Decodes a literal field: its name is text or an index with a prefix of `bits` bits, its value is text.
    fn literal(
        &mut self,
        bytes: &[u8],
        bits: u32,
        enters: bool,
        show: &mut impl FnMut(DecodedField<'_>),
    ) -> Result<Option<usize>, Error> {
        let Some((index, mut at)) = number(bytes, bits)? else { return Ok(None) };
        let index = index as usize;
        let mut spelled = None;
        if index == 0 {
            let Some((text, used)) = self.text(&bytes[at..])? else { return Ok(None) };
            spelled = Some((at, text));
            at += used;
        }
        let Some((value, used)) = self.text(&bytes[at..])? else { return Ok(None) };
        let value_at = at;
        at += used;
        self.in_fields = true;
        // Huffman decoding starts only when the field is complete, so that no byte is decoded twice.
        self.decoded.clear();
        let mut decoded = std::mem::take(&mut self.decoded);
        let name_end = match spelled {
            Some((from, text)) => text.decode(&bytes[from..], &mut decoded)?,
            None => 0,
        };
        value.decode(&bytes[value_at..], &mut decoded)?;
        let value = value.of(&bytes[value_at..], &decoded[name_end..]);
        let (token, name, defect) = match spelled {
            Some((from, text)) => {
                let name = text.of(&bytes[from..], &decoded[..name_end]);
                let token = Token::of(name);
                (token, name, Defect::of_name(name, token))
            }
            None => {
                let known = self.field(index)?;
                // A defect of the indexed value does not apply to this one.
                (known.token, known.name, known.defect.filter(|defect| *defect != Defect::Value))
            }
        };
        let defect = defect.or_else(|| Defect::of_value(value));
        let sensitive = !enters && bytes[0] & 0x10 != 0;
        show(DecodedField { token, name, value, defect, sensitive });
        if enters {
            let name = match (spelled, static_table::row(index)) {
                (Some((from, text)), _) => EntryName::Text(text.of(&bytes[from..], &decoded[..name_end])),
                (None, Some(row)) => EntryName::Text(row.name.as_bytes()),
                (None, None) => EntryName::Of(index - static_table::LENGTH - 1),
            };
            self.table.insert(token, name, value, defect);
        }
        self.decoded = decoded;
        Ok(Some(at))
    }

    fn resize(&mut self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        let Some((size, used)) = number(bytes, 5)? else { return Ok(None) };
        if self.in_fields || size as usize > self.limit {
            return Err(Error::TableSize);
        }
        self.table.set_limit(size as usize);
        Ok(Some(used))
    }

    /// The text at the front of `bytes` and the number of its bytes. `None` if it is incomplete.
    fn text(&self, bytes: &[u8]) -> Result<Option<(WireText, usize)>, Error> {
        let Some(text) = text(bytes)? else { return Ok(None) };
        if text.length > self.max_text {
            return Err(Error::TooLong);
        }
        let end = text.start + text.length;
        Ok((end <= bytes.len()).then_some((text, end)))
    }
}

/// A name or a value on the wire.
#[derive(Clone, Copy)]
struct WireText {
    start: usize,
    length: usize,
    huffman: bool,
}

impl WireText {
    /// Appends the decoded text to `decoded` if it is Huffman-coded. Returns the end offset in `decoded`.
    fn decode(self, bytes: &[u8], decoded: &mut Vec<u8>) -> Result<usize, Error> {
        if self.huffman {
            let code = &bytes[self.start..self.start + self.length];
            huffman::decode(code, decoded).map_err(|_| Error::Huffman)?;
        }
        Ok(decoded.len())
    }

    /// The bytes of the text: from the block, or from `decoded`.
    fn of<'t>(self, bytes: &'t [u8], decoded: &'t [u8]) -> &'t [u8] {
        if self.huffman { decoded } else { &bytes[self.start..self.start + self.length] }
    }
}

/// The range of a string literal. `None` while its length is incomplete.
fn text(bytes: &[u8]) -> Result<Option<WireText>, Error> {
    let Some((length, start)) = number(bytes, 7)? else { return Ok(None) };
    Ok(Some(WireText { start, length: length as usize, huffman: bytes[0] & 0x80 != 0 }))
}

/// The integer at the front and the number of its bytes. `None` while it is incomplete.
#[inline]
fn number(bytes: &[u8], bits: u32) -> Result<Option<(u32, usize)>, Error> {
    match integer::read(bytes, bits) {
        Integer::Whole(value, used) => Ok(Some((value, used))),
        Integer::Short => Ok(None),
        Integer::TooLarge => Err(Error::Integer),
    }
}

/// Bytes of the buffer for decoded strings that are kept between blocks: most cookies fit.
const KEPT: usize = 1024;

#[cfg(test)]
mod tests;
