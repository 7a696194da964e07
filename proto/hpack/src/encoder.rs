//! Encoder of header blocks (RFC 7541, 6).

use crate::huffman;
use crate::integer;
use crate::static_table;
use crate::table::{DynamicTable, EntryName};
use crate::token::Token;

/// Encodes the header blocks of one direction of a connection, in their order.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    /// Limit of the table size in bytes, even if the peer allows more.
    own_limit: usize,
    /// Pending table size updates for the start of the next block: the smallest size since the last block, and the latest size.
    resized: Option<(usize, usize)>,
}

/// Whether the peer adds a field to its dynamic table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Indexing {
    /// The field is added to the table, and is sent as an index the next time. For fields that repeat.
    Kept,
    /// The field is not added to the table.
    NotKept,
    /// The field is never added to a table, also at later hops, so that probing a table cannot reveal it (RFC 7541, 7.1.3).
    Never,
}

/// The initial size of a table in bytes (RFC 9113, 6.5.2).
const INITIAL: usize = 4096;

impl Encoder {
    /// An encoder with a table of at most `own_limit` bytes.
    pub fn new(own_limit: usize) -> Encoder {
        let resized = (own_limit < INITIAL).then_some((own_limit, own_limit));
        Encoder { table: DynamicTable::new(own_limit.min(INITIAL)), own_limit, resized }
    }

    /// Sets the table size that the peer allows (SETTINGS_HEADER_TABLE_SIZE).
    pub fn set_limit(&mut self, limit: usize) {
        let limit = limit.min(self.own_limit);
        if limit == self.table.limit() {
            return;
        }
        self.table.set_limit(limit);
        let smallest = self.resized.map_or(limit, |(smallest, _)| smallest.min(limit));
        self.resized = Some((smallest, limit));
    }

    /// Begins a block with the pending table size updates (RFC 7541, 4.2).
    pub fn begin_block(&mut self, out: &mut Vec<u8>) {
        let Some((smallest, last)) = self.resized.take() else { return };
        if smallest < last {
            integer::write(out, 0x20, 5, smallest as u32);
        }
        integer::write(out, 0x20, 5, last as u32);
    }

    /// Appends `:status`. Codes outside 100..=999 are clamped to it.
    #[inline]
    pub fn status(&mut self, out: &mut Vec<u8>, status: u16) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => {
                let status = status.clamp(100, 999);
                let digits = [status / 100, status / 10 % 10, status % 10].map(|digit| b'0' + digit as u8);
                self.field(out, Token::Status, b":status", &digits, Indexing::NotKept);
                return;
            }
        };
        out.push(0x80 | index);
    }

    /// Appends a field. The name must be in lower case.
    pub fn field(&mut self, out: &mut Vec<u8>, token: Token, name: &[u8], value: &[u8], indexing: Indexing) {
        let known = static_table::index_of_name(token, name);
        if let Some(index) = known.and_then(|first| static_table::index_of_value(first, value))
            && indexing != Indexing::Never
        {
            integer::write(out, 0x80, 7, index as u32);
            return;
        }
        match indexing {
            Indexing::Kept => self.kept(out, token, name, value, known),
            Indexing::NotKept => literal(out, 0, 4, known, name, value, plain),
            Indexing::Never => literal(out, 0x10, 4, known, name, value, plain),
        }
    }

    /// Appends a field that is added to the table, in its shortest form.
    fn kept(&mut self, out: &mut Vec<u8>, token: Token, name: &[u8], value: &[u8], known: Option<usize>) {
        let (same, named) = self.table.find(token, name, value);
        let index = |position: usize| position + static_table::LENGTH + 1;
        if let Some(position) = same {
            integer::write(out, 0x80, 7, index(position) as u32);
            return;
        }
        literal(out, 0x40, 6, known.or(named.map(index)), name, value, shortest);
        let name = named.map_or(EntryName::Text(name), EntryName::Of);
        self.table.insert(token, name, value, None);
    }
}

fn literal(
    out: &mut Vec<u8>,
    pattern: u8,
    bits: u32,
    index: Option<usize>,
    name: &[u8],
    value: &[u8],
    text: fn(&mut Vec<u8>, &[u8]),
) {
    integer::write(out, pattern, bits, index.unwrap_or(0) as u32);
    if index.is_none() {
        text(out, name);
    }
    text(out, value);
}

/// Appends a string without Huffman code. The string is sent once, so coding is not worth the time.
fn plain(out: &mut Vec<u8>, text: &[u8]) {
    integer::write(out, 0, 7, text.len() as u32);
    out.extend_from_slice(text);
}

/// Appends a string in Huffman code, or without it if that is not longer.
fn shortest(out: &mut Vec<u8>, text: &[u8]) {
    let length = huffman::encoded_len(text);
    if length >= text.len() {
        return plain(out, text);
    }
    integer::write(out, 0x80, 7, length as u32);
    huffman::encode(text, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::Decoder;

    const FIELDS: [(&str, &str, Indexing); 8] = [
        ("server", "weir", Indexing::Kept),
        ("content-type", "text/html; charset=utf-8", Indexing::Kept),
        ("x-mine", "again and again", Indexing::Kept),
        ("content-length", "1234", Indexing::NotKept),
        ("set-cookie", "secret=1", Indexing::Never),
        ("x-once", "", Indexing::NotKept),
        ("accept-encoding", "gzip, deflate", Indexing::NotKept),
        ("accept-encoding", "gzip, deflate", Indexing::Never),
    ];

    /// Encodes a block of these fields and checks that a decoder returns them; returns the block's length.
    fn round(encoder: &mut Encoder, decoder: &mut Decoder, status: u16) -> usize {
        let mut block = Vec::new();
        encoder.begin_block(&mut block);
        encoder.status(&mut block, status);
        for (name, value, indexing) in FIELDS {
            encoder.field(
                &mut block,
                Token::of(name.as_bytes()),
                name.as_bytes(),
                value.as_bytes(),
                indexing,
            );
        }
        let mut found = Vec::new();
        let used = decoder.decode(&block, |field| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.push((text(field.name), text(field.value), field.sensitive));
        });
        assert_eq!(used, Ok(block.len()));
        decoder.end_block();
        assert_eq!(found[0], (":status".to_owned(), status.to_string(), false));
        for (found, (name, value, indexing)) in found[1..].iter().zip(FIELDS) {
            let want = (name.to_owned(), value.to_owned(), indexing == Indexing::Never);
            assert_eq!(*found, want);
        }
        block.len()
    }

    #[test]
    fn encoded_blocks_survive_a_round_trip_and_index_repeated_fields() {
        let (mut encoder, mut decoder) = (Encoder::new(1024), Decoder::new(4096, 4096));
        let first = round(&mut encoder, &mut decoder, 200);
        let second = round(&mut encoder, &mut decoder, 200);
        assert!(second + 40 < first, "{first} bytes, then {second}");
        for status in [100, 204, 206, 304, 307, 400, 404, 500, 503, 999] {
            round(&mut encoder, &mut decoder, status);
        }
    }

    #[test]
    fn announces_the_lowest_and_last_table_size_rfc_7541_4_2() {
        let (mut encoder, mut decoder) = (Encoder::new(1024), Decoder::new(4096, 4096));
        round(&mut encoder, &mut decoder, 200);
        encoder.set_limit(0);
        encoder.set_limit(512);
        let mut block = Vec::new();
        encoder.begin_block(&mut block);
        assert_eq!(block, [0x20, 0x3f, 0xe1, 0x03]);
        assert_eq!(decoder.decode(&block, |_| ()), Ok(4));
        round(&mut encoder, &mut decoder, 200);
        encoder.set_limit(0);
        for _ in 0..3 {
            round(&mut encoder, &mut decoder, 200);
        }
        encoder.set_limit(1 << 20);
        let mut block = Vec::new();
        encoder.begin_block(&mut block);
        assert_eq!(block, [0x3f, 0xe1, 0x07], "no more than it takes itself");
    }
}
