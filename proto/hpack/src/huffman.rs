//! The Huffman code (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: the lengths of its codes determine it. From them the encoder's and the decoder's tables are made at
//! compile time. The decoder takes four bits at a time: no code is shorter than five, so no step yields more than one byte.

/// The code is wrong: the end symbol, or padding that is too long or not all ones (RFC 7541, 5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Invalid;

/// Length of the encoded `text` in bytes.
#[inline]
pub fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|byte| usize::from(LENGTHS[usize::from(*byte)])).sum();
    bits.div_ceil(8)
}

/// Appends `text`, encoded.
pub fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut held, mut bits) = (0u64, 0);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        held = held << length | u64::from(CODES[usize::from(byte)]);
        bits += length;
        while bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
    }
    if bits > 0 {
        let padding = 8 - bits;
        out.push((held << padding) as u8 | ((1u16 << padding) - 1) as u8);
    }
}

/// Appends the decoded `code`. The caller bounds `code`: eight bytes of it become at most twelve.
///
/// # Errors
/// When the code is invalid; the bytes appended so far are then meaningless.
#[inline]
pub fn decode(code: &[u8], out: &mut Vec<u8>) -> Result<(), Invalid> {
    let mut state = 0u8;
    let mut complete = true;
    for &byte in code {
        for nibble in [byte >> 4, byte & 0xf] {
            let step = STEPS[usize::from(state)][usize::from(nibble)];
            if step.flags & FAILS != 0 {
                return Err(Invalid);
            }
            if step.flags & GIVES != 0 {
                out.push(step.symbol);
            }
            state = step.next;
            complete = step.flags & MAY_END != 0;
        }
    }
    if complete { Ok(()) } else { Err(Invalid) }
}

/// The transition of a state by four bits.
#[derive(Clone, Copy)]
struct HuffmanTransition {
    next: u8,
    symbol: u8,
    flags: u8,
}

/// A symbol is complete.
const GIVES: u8 = 1;
/// The code may end here: the bits since the last symbol are padding.
const MAY_END: u8 = 2;
/// The end symbol, which is not allowed.
const FAILS: u8 = 4;

const SYMBOLS: usize = 257;
const END: u16 = 256;

/// The symbols in the order of their codes: by length, then by number.
const ORDER: [u16; SYMBOLS] = {
    let mut order = [0; SYMBOLS];
    let (mut count, mut length) = (0, 1);
    while length <= 30 {
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] == length {
                order[count] = symbol as u16;
                count += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    assert!(count == SYMBOLS);
    order
};

/// The code of each symbol, in its lowest bits.
const CODES: [u32; SYMBOLS] = {
    let mut codes = [0; SYMBOLS];
    let (mut code, mut length, mut at) = (0u32, 0, 0);
    while at < SYMBOLS {
        let symbol = ORDER[at] as usize;
        code <<= LENGTHS[symbol] - length;
        length = LENGTHS[symbol];
        codes[symbol] = code;
        code += 1;
        at += 1;
    }
    codes
};

/// The code as a tree: a child is another node, or [`LEAF`] and a symbol. A full tree of 257 leaves has 256 nodes.
const TREE: [[u16; 2]; 256] = {
    let mut tree = [[0; 2]; 256];
    let mut count = 1;
    let mut symbol = 0;
    while symbol < SYMBOLS {
        let (mut node, mut left) = (0, LENGTHS[symbol] as u32);
        while left > 0 {
            left -= 1;
            let bit = (CODES[symbol] >> left & 1) as usize;
            if left == 0 {
                tree[node][bit] = LEAF | symbol as u16;
            } else {
                if tree[node][bit] == 0 {
                    tree[node][bit] = count;
                    count += 1;
                }
                node = tree[node][bit] as usize;
            }
        }
        symbol += 1;
    }
    assert!(count == 256);
    tree
};

const LEAF: u16 = 1 << 15;

/// The nodes reached by up to seven one bits, which are valid padding.
const PADDING: [bool; 256] = {
    let mut padding = [false; 256];
    let (mut node, mut depth) = (0usize, 0);
    while depth < 8 {
        padding[node] = true;
        node = TREE[node][1] as usize;
        depth += 1;
    }
    padding
};

static STEPS: [[HuffmanTransition; 16]; 256] = {
    let mut steps = [[HuffmanTransition { next: 0, symbol: 0, flags: 0 }; 16]; 256];
    let mut state = 0;
    while state < 256 {
        let mut nibble = 0;
        while nibble < 16 {
            let (mut node, mut bit) = (state, 4);
            let mut step = HuffmanTransition { next: 0, symbol: 0, flags: 0 };
            while bit > 0 {
                bit -= 1;
                let child = TREE[node][nibble >> bit & 1];
                if child & LEAF == 0 {
                    node = child as usize;
                } else if child & !LEAF == END {
                    step.flags |= FAILS;
                    node = 0;
                } else {
                    step.symbol = (child & 0xff) as u8;
                    step.flags |= GIVES;
                    node = 0;
                }
            }
            step.next = node as u8;
            if PADDING[node] {
                step.flags |= MAY_END;
            }
            steps[state][nibble] = step;
            nibble += 1;
        }
        state += 1;
    }
    steps
};

/// Code length of each byte in bits. The last is the end symbol's.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6,
    6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5,
    5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23,
    24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23,
    21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21,
    21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27,
    26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_decodes_the_examples_of_rfc_7541_c_4() {
        for (text, code) in [
            (&b"www.example.com"[..], &b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..]),
            (b"no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            (b"custom-key", b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f"),
            (b"302", b"\x64\x02"),
            (
                b"Mon, 21 Oct 2013 20:13:21 GMT",
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
            ),
        ] {
            let mut encoded = Vec::new();
            encode(text, &mut encoded);
            assert_eq!(encoded, code);
            assert_eq!(encoded_len(text), code.len());
            let mut decoded = Vec::new();
            assert_eq!(decode(code, &mut decoded), Ok(()));
            assert_eq!(decoded, text);
        }
    }

    #[test]
    fn every_pair_of_bytes_survives_huffman_coding() {
        for first in 0..=255u8 {
            for second in 0..=255u8 {
                let text = [first, second, first];
                let mut code = Vec::new();
                encode(&text, &mut code);
                assert_eq!(code.len(), encoded_len(&text));
                let mut decoded = Vec::new();
                assert_eq!(decode(&code, &mut decoded), Ok(()), "{text:?}");
                assert_eq!(decoded, text);
            }
        }
    }

    #[track_caller]
    fn refused(code: &[u8]) {
        assert_eq!(decode(code, &mut Vec::new()), Err(Invalid), "{code:x?}");
    }

    #[test]
    fn huffman_padding_is_less_than_a_byte_and_all_ones() {
        // '0' is five zero bits: the rest of the byte is padding.
        assert_eq!(decode(&[0b0000_0111], &mut Vec::new()), Ok(()));
        refused(&[0b0000_0110]);
        refused(&[0b0000_0000]);
        refused(&[0b0000_0111, 0xff]);
        refused(&[0xff]);
        refused(&[0xff, 0xff, 0xff, 0xff]);
        assert_eq!(decode(&[], &mut Vec::new()), Ok(()));
    }
}
