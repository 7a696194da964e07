//! Blocks of another implementation are decoded, and the reverse: generated lists of fields, whole connections of them.
//!
//! The tables of both ends are compared entry by entry: after each block the other encoder names each entry that it has, and at last one more.

use httlib_hpack::{Decoder as OtherDecoder, Encoder as OtherEncoder};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_hpack::{Decoder, Encoder, Error, Indexing, Token};

type OwnedField = (Vec<u8>, Vec<u8>);
/// Name, value, and whether it must not be indexed.
type DecodedFields = Vec<(Vec<u8>, Vec<u8>, bool)>;

/// How the other encoder encodes a field: a sum of its flags.
const FLAGS: [u8; 10] = [
    0,
    OtherEncoder::HUFFMAN_NAME,
    OtherEncoder::HUFFMAN_VALUE,
    OtherEncoder::WITH_INDEXING | OtherEncoder::HUFFMAN_NAME,
    OtherEncoder::WITH_INDEXING | OtherEncoder::BEST_FORMAT,
    OtherEncoder::WITH_INDEXING | OtherEncoder::BEST_FORMAT | OtherEncoder::HUFFMAN_VALUE,
    OtherEncoder::WITH_INDEXING | OtherEncoder::BEST_FORMAT | OtherEncoder::HUFFMAN_NAME,
    OtherEncoder::NEVER_INDEXED,
    OtherEncoder::NEVER_INDEXED | OtherEncoder::HUFFMAN_NAME | OtherEncoder::HUFFMAN_VALUE,
    OtherEncoder::BEST_FORMAT | OtherEncoder::HUFFMAN_VALUE,
];

/// The rows of the static table (RFC 7541, appendix A).
const STATIC: u32 = 61;

/// Names and values that repeat, so that the tables are used, and values of any bytes and of any length up to some hundreds.
fn field() -> impl Strategy<Value = OwnedField> {
    let names = prop::sample::select(vec![
        &b":method"[..],
        b":path",
        b":status",
        b":protocol",
        b"accept-encoding",
        b"cookie",
        b"content-type",
        b"vary",
        b"x-a",
        b"x-b",
        b"x-longer-name",
        b"server",
    ]);
    let value = prop_oneof![
        4 => prop::sample::select(vec![&b"GET"[..], b"/", b"200", b"gzip, deflate", b"text/html", b"weir", b""]).prop_map(<[u8]>::to_vec),
        // Entries of every size: some fill a table to its last byte.
        2 => (0usize..80).prop_map(|length| vec![b'v'; length]),
        1 => prop::collection::vec(any::<u8>(), 0..300),
    ];
    (names.prop_map(<[u8]>::to_vec), value)
}

/// The size of a table: none, a few entries, many.
fn size() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 4 => 32u32..300, 1 => 300u32..=LIMIT]
}

/// A block: the sizes that are set before it, and its fields.
fn block<Way: Strategy>(way: Way) -> impl Strategy<Value = (Vec<u32>, Vec<(OwnedField, Way::Value)>)> {
    let sizes = prop_oneof![3 => Just(Vec::new()), 2 => prop::collection::vec(size(), 1..3)];
    (sizes, prop::collection::vec((field(), way), 0..12))
}

/// The size that decoders announce.
const LIMIT: u32 = 2000;
/// Longer than any name or value here.
const MAX_TEXT: usize = 4096;

/// The fields of a block that arrives byte by byte.
fn decode_slowly(decoder: &mut Decoder, block: &[u8]) -> Result<DecodedFields, Error> {
    let (mut found, mut waiting) = (DecodedFields::new(), Vec::new());
    for byte in block {
        waiting.push(*byte);
        let used = decoder.decode(&waiting, |field| {
            found.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
        })?;
        waiting.drain(..used);
    }
    assert!(waiting.is_empty(), "{waiting:?} is left of {block:?}");
    decoder.end_block();
    Ok(found)
}

/// The fields of a block that arrives in two pieces.
fn decode_cut(decoder: &mut Decoder, block: &[u8], cut: usize) -> Result<DecodedFields, Error> {
    let mut found = DecodedFields::new();
    let mut show = |field: weir_hpack::DecodedField<'_>| {
        found.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
    };
    let used = decoder.decode(&block[..cut.min(block.len())], &mut show)?;
    let rest = decoder.decode(&block[used..], &mut show)?;
    assert_eq!(used + rest, block.len());
    decoder.end_block();
    Ok(found)
}

/// The sizes that a block sets which does nothing else.
fn updates(block: &[u8]) -> Vec<u32> {
    let mut sizes = Vec::new();
    let mut bytes = block.iter();
    while let Some(first) = bytes.next() {
        assert_eq!(first & 0xe0, 0x20, "{block:?}");
        let mut size = u32::from(first & 0x1f);
        if size == 0x1f {
            let mut shift = 0;
            for byte in bytes.by_ref() {
                size += u32::from(byte & 0x7f) << shift;
                shift += 7;
                if *byte < 0x80 {
                    break;
                }
            }
        }
        sizes.push(size);
    }
    sizes
}

/// A block by the other implementation, and its fields.
fn encoded(
    other: &mut OtherEncoder<'_>,
    sizes: Vec<u32>,
    fields: Vec<(OwnedField, u8)>,
) -> (Vec<u8>, DecodedFields) {
    let (mut block, mut want) = (Vec::new(), DecodedFields::new());
    for size in sizes {
        other.update_max_dynamic_size(size, &mut block).expect("a size");
    }
    for ((name, value), flags) in fields {
        let start = block.len();
        other.encode((name.clone(), value.clone(), flags), &mut block).expect("a field");
        want.push((name, value, block[start] & 0xf0 == 0x10));
    }
    (block, want)
}

/// The fields that the other implementation reads in a block.
fn decode_other(decoder: &mut OtherDecoder<'_>, block: &[u8]) -> DecodedFields {
    let mut found = Vec::new();
    decoder.decode(&mut block.to_vec(), &mut found).expect("a block");
    found
        .into_iter()
        .map(|(name, value, flags)| (name, value, flags & OtherDecoder::NEVER_INDEXED != 0))
        .collect()
}

fn seeded(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(7541),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(seeded(300))]

    #[test]
    fn decodes_the_blocks_of_an_independent_encoder(blocks in prop::collection::vec(block(prop::sample::select(&FLAGS[..])), 1..8)) {
        let mut other = OtherEncoder::with_dynamic_size(LIMIT);
        let mut decoder = Decoder::new(LIMIT as usize, MAX_TEXT);
        let (mut wire, mut wants) = (Vec::new(), Vec::new());
        let mut beyond = STATIC + 1;
        for (sizes, fields) in blocks {
            let (mut block, want) = encoded(&mut other, sizes, fields);
            // All that it has in its table; the fields are those that its own decoder finds.
            let mut index = STATIC + 1;
            while other.encode(index, &mut block).is_ok() {
                index += 1;
            }
            beyond = index;
            wire.push(block);
            wants.push(want);
        }
        let mut reference = OtherDecoder::with_dynamic_size(LIMIT);
        for (block, want) in wire.iter().zip(&wants) {
            let all = decode_other(&mut reference, block);
            prop_assert_eq!(&all[..want.len()], &want[..]);
            prop_assert_eq!(decode_slowly(&mut decoder, block), Ok(all));
        }
        // Two thousand bytes are not enough for an index of two bytes.
        prop_assert!(beyond < 127);
        let beyond = [0x80 | beyond as u8];
        prop_assert_eq!(decode_slowly(&mut decoder, &beyond), Err(Error::Index));
    }

    #[test]
    fn an_independent_decoder_reads_our_blocks(
        blocks in prop::collection::vec(block(prop::sample::select(vec![Indexing::Kept, Indexing::Kept, Indexing::NotKept, Indexing::Never])), 1..8),
        own_limit in prop_oneof![Just(0u32), 32u32..300, Just(LIMIT), Just(1 << 16)],
    ) {
        let mut encoder = Encoder::new(own_limit as usize);
        // Before the peer's settings arrive its table has the initial size.
        let mut other = OtherDecoder::with_dynamic_size(4096);
        let mut table = own_limit.min(4096);
        for (sizes, fields) in blocks {
            let (before, mut smallest) = (table, table);
            for size in sizes {
                encoder.set_limit(size as usize);
                other.set_max_dynamic_size(size);
                table = size.min(own_limit);
                smallest = smallest.min(table);
            }
            let (mut block, mut want) = (Vec::new(), DecodedFields::new());
            encoder.begin_block(&mut block);
            // A decoder may insist on hearing of the smallest size, and of the last one (RFC 7541, 4.2).
            let announced = updates(&block);
            prop_assert!(smallest == before || announced.contains(&smallest), "{:?} were announced, not {}", announced, smallest);
            prop_assert!(table == before || announced.last() == Some(&table), "{:?} were announced, not {}", announced, table);
            for ((name, value), indexing) in fields {
                let token = Token::of(&name);
                encoder.field(&mut block, token, &name, &value, indexing);
                want.push((name.clone(), value.clone(), indexing == Indexing::Never));
                if indexing != Indexing::Kept || name.len() + value.len() + 32 > table as usize {
                    continue;
                }
                // It is in the table now, or it was in the static one.
                let start = block.len();
                encoder.field(&mut block, token, &name, &value, Indexing::Kept);
                prop_assert!(block[start] >= 0x80 && block.len() <= start + 2, "{:?} is spelled again", block);
                want.push((name, value, false));
            }
            prop_assert_eq!(&decode_other(&mut other, &block), &want);
        }
    }
}

proptest! {
    #![proptest_config(seeded(24))]

    #[test]
    fn blocks_decode_the_same_when_cut_at_any_byte(blocks in prop::collection::vec(block(prop::sample::select(&FLAGS[..])), 1..4)) {
        let mut other = OtherEncoder::with_dynamic_size(LIMIT);
        let (mut wire, mut wants) = (Vec::new(), Vec::new());
        for (sizes, fields) in blocks {
            let (block, want) = encoded(&mut other, sizes, fields);
            wire.push(block);
            wants.push(want);
        }
        let longest = wire.iter().map(Vec::len).max().unwrap_or_default();
        for cut in 0..=longest {
            let mut decoder = Decoder::new(LIMIT as usize, MAX_TEXT);
            for (block, want) in wire.iter().zip(&wants) {
                prop_assert_eq!(&decode_cut(&mut decoder, block, cut).expect("a block"), want, "cut at {}", cut);
            }
        }
    }
}

proptest! {
    #![proptest_config(seeded(2000))]

    #[test]
    fn damaged_blocks_give_the_same_result_whole_and_byte_by_byte(
        fields in prop::collection::vec((field(), prop::sample::select(&FLAGS[..])), 1..6),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut block = Vec::new();
        let mut other = OtherEncoder::with_dynamic_size(LIMIT);
        for ((name, value), flags) in fields {
            other.encode((name, value, flags), &mut block).expect("a field");
        }
        for (at, byte) in damage {
            let at = at.index(block.len());
            block[at] = byte;
        }
        let decode = |piece: usize| {
            let mut decoder = Decoder::new(LIMIT as usize, 200);
            let (mut found, mut waiting) = (DecodedFields::new(), Vec::new());
            for piece in block.chunks(piece) {
                waiting.extend(piece);
                let used = decoder.decode(&waiting, |field| {
                    found.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
                });
                match used {
                    Ok(used) => drop(waiting.drain(..used)),
                    Err(error) => return (found, Err(error)),
                }
            }
            (found, Ok(waiting))
        };
        prop_assert_eq!(decode(1), decode(block.len()));
    }

    #[test]
    fn arbitrary_bytes_never_make_the_decoder_panic_or_grow(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8)) {
        let mut decoder = Decoder::new(256, 128);
        for piece in pieces {
            if decoder.decode(&piece, |field| assert!(field.name.len() + field.value.len() <= 2 * 128 * 8 / 5)).is_err() {
                break;
            }
            decoder.end_block();
        }
    }
}

#[test]
fn the_static_table_equals_that_of_an_independent_library() {
    let mut block = Vec::new();
    for index in 1..=STATIC {
        OtherEncoder::default().encode(index, &mut block).expect("a row");
    }
    let rows = decode_other(&mut OtherDecoder::default(), &block);
    assert_eq!(decode_slowly(&mut Decoder::new(0, MAX_TEXT), &block).as_ref(), Ok(&rows));
    assert_eq!(rows.len(), STATIC as usize);
    let encode = |name: &[u8], value: &[u8]| {
        let mut block = Vec::new();
        Encoder::new(4096).field(&mut block, Token::of(name), name, value, Indexing::NotKept);
        block
    };
    for (index, (name, value, _)) in (1u8..).zip(&rows) {
        if !value.is_empty() {
            assert_eq!(encode(name, value), [0x80 | index], "{}", name.escape_ascii());
        }
        // Of another value the name is an index: the index of the first row with it.
        let first = rows.iter().position(|row| row.0 == *name).map_or(0, |position| position as u8 + 1);
        let literal = encode(name, b"!");
        let named = if first < 15 { vec![first] } else { vec![15, first - 15] };
        assert_eq!(literal, [&named[..], b"\x01!"].concat(), "{}", name.escape_ascii());
    }
}

#[test]
fn each_byte_has_the_huffman_code_of_an_independent_library() {
    for byte in 0..=255 {
        // The code is longer than eight bits for most bytes, and used only where it makes the whole shorter.
        let value = [&[b'a'; 48][..], &[byte], b"e"].concat();
        let mut block = Vec::new();
        Encoder::new(4096).field(&mut block, Token::of(b"x-a"), b"x-a", &value, Indexing::Kept);
        assert!(block.len() < value.len(), "{byte}: it is not coded");
        let want = vec![(b"x-a".to_vec(), value.clone(), false)];
        assert_eq!(decode_other(&mut OtherDecoder::default(), &block), want, "{byte}");
        block.clear();
        let flags = OtherEncoder::HUFFMAN_NAME | OtherEncoder::HUFFMAN_VALUE;
        OtherEncoder::default().encode((b"x-a".to_vec(), value, flags), &mut block).expect("a field");
        assert_eq!(decode_slowly(&mut Decoder::new(0, MAX_TEXT), &block), Ok(want), "{byte}");
    }
}
