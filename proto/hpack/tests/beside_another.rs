//! Blocks of another implementation are decoded, and the reverse: generated lists of fields, whole connections of them.

use httlib_hpack::{Decoder as OtherDecoder, Encoder as OtherEncoder};
use proptest::prelude::*;
use weir_hpack::{Decoder, Encoder, Indexing, Token};

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// Names and values that repeat, so that the tables are used.
fn field() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let names = prop::sample::select(vec![
        &b":method"[..],
        b":path",
        b":status",
        b"cookie",
        b"content-type",
        b"x-a",
        b"x-b",
        b"x-longer-name",
        b"server",
    ]);
    let value = prop_oneof![
        3 => prop::sample::select(vec![&b"GET"[..], b"/", b"200", b"text/html", b"weir", b""]).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..200),
    ];
    (names.prop_map(<[u8]>::to_vec), value)
}

fn connection() -> impl Strategy<Value = Vec<Fields>> {
    prop::collection::vec(prop::collection::vec(field(), 0..12), 1..8)
}

proptest! {
    #[test]
    fn what_another_encodes_is_decoded(blocks in connection(), flags in prop::collection::vec(0u8..32, 1..16), cut in 0usize..300) {
        let mut other = OtherEncoder::with_dynamic_size(256);
        let mut decoder = Decoder::new(4096, 4096);
        let mut flags = flags.iter().cycle();
        for fields in blocks {
            let mut block = Vec::new();
            for (name, value) in &fields {
                // Its flags: 0x02 to keep, 0x04 never to keep, 0x08 and 0x10 for the Huffman code of name and value.
                let flag = *flags.next().unwrap_or(&0) & !0x01;
                let flag = if flag & 0x06 == 0x06 { flag & !0x04 } else { flag };
                other.encode((name.clone(), value.clone(), flag), &mut block).expect("a field");
            }
            let mut found = Fields::new();
            let mut show = |field: weir_hpack::Field<'_>| found.push((field.name.to_vec(), field.value.to_vec()));
            let used = decoder.decode(&block[..cut.min(block.len())], &mut show).expect("the first piece");
            let rest = decoder.decode(&block[used..], &mut show).expect("the rest");
            decoder.end_block();
            prop_assert_eq!(used + rest, block.len());
            prop_assert_eq!(found, fields);
        }
    }

    #[test]
    fn what_is_encoded_another_decodes(blocks in connection(), ways in prop::collection::vec(0u8..3, 1..16), limits in prop::collection::vec(0usize..2048, 8)) {
        let mut encoder = Encoder::new(1024);
        let mut other = OtherDecoder::with_dynamic_size(4096);
        let mut ways = ways.iter().cycle();
        for (fields, limit) in blocks.into_iter().zip(limits) {
            encoder.set_limit(limit);
            let mut block = Vec::new();
            encoder.begin_block(&mut block);
            for (name, value) in &fields {
                let indexing = match ways.next() {
                    Some(0) => Indexing::Kept,
                    Some(1) => Indexing::NotKept,
                    _ => Indexing::Never,
                };
                encoder.field(&mut block, Token::of(name), name, value, indexing);
            }
            let mut found = Vec::new();
            other.decode(&mut block, &mut found).expect("a block");
            let found: Fields = found.into_iter().map(|(name, value, _)| (name, value)).collect();
            prop_assert_eq!(found, fields);
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_grow(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..8)) {
        let mut decoder = Decoder::new(256, 128);
        for piece in pieces {
            if decoder.decode(&piece, |field| assert!(field.name.len() + field.value.len() <= 2 * 128 * 8 / 5)).is_err() {
                break;
            }
            decoder.end_block();
        }
    }
}
