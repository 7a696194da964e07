//! Searches for bytes, eight at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = ONES << 7;

/// Offset of the first byte below 0x20 from `at` on; the length of `raw` if not found.
#[inline]
pub(crate) fn find_control(raw: &[u8], at: usize) -> usize {
    find(raw, at, |word| word.wrapping_sub(ONES * 0x20) & !word & TOPS, |byte| byte < 0x20)
}

/// Offset of the first colon from `at` on; the length of `raw` if not found.
#[inline]
pub(crate) fn find_colon(raw: &[u8], at: usize) -> usize {
    find(raw, at, |word| mark_equal(word, b':'), |byte| byte == b':')
}

/// Offset of the first byte from `at` on that a request target must not contain (RFC 9112, 3.2); the length of `raw` if none.
#[inline]
pub(crate) fn find_target_end(raw: &[u8], at: usize) -> usize {
    find(
        raw,
        at,
        |word| {
            let below = word.wrapping_sub(ONES * 0x21) & !word & TOPS;
            let above = (word | word.wrapping_add(ONES)) & TOPS;
            below | above | mark_equal(word, b'#')
        },
        |byte| !is_target_byte(byte),
    )
}

/// Searches eight bytes at a time: `marks` sets the top bit of every wanted byte of a word. Only the lowest mark
/// must be right: carries and borrows may falsify the ones above it.
#[inline]
fn find(raw: &[u8], mut at: usize, marks: impl Fn(u64) -> u64, is_wanted: impl Fn(u8) -> bool) -> usize {
    let Some(mut rest) = raw.get(at..) else { return raw.len() };
    while let Some((chunk, after)) = rest.split_first_chunk::<8>() {
        let marked = marks(u64::from_le_bytes(*chunk));
        if marked != 0 {
            return at + (marked.trailing_zeros() / 8) as usize;
        }
        at += 8;
        rest = after;
    }
    for &byte in rest {
        if is_wanted(byte) {
            return at;
        }
        at += 1;
    }
    at
}

/// Marks the bytes equal to `byte`.
#[inline]
fn mark_equal(word: u64, byte: u8) -> u64 {
    let zero_where_equal = word ^ (ONES * byte as u64);
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & TOPS
}

/// Whether a byte may be in a token: a method, a field name (RFC 9110, 5.6.2).
#[inline]
pub(crate) fn is_token_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

/// Whether a byte may be in a request target. More bytes than RFC 3986 allows, as browsers send more; never `#`.
#[inline]
pub(crate) fn is_target_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TARGET != 0
}

const TOKEN: u8 = 1;
const TARGET: u8 = 2;

const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0x21;
    while byte < 0x7f {
        classes[byte] = TARGET;
        byte += 1;
    }
    classes[b'#' as usize] = 0;
    let mut at = 0;
    while at < classes.len() {
        if weir_http::name::is_token_byte(at as u8) {
            classes[at] |= TOKEN;
        }
        at += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_control_finds_control_characters_at_any_position() {
        for length in 0..40 {
            for place in 0..length {
                for around in [b' ', b'a', 0x7f, 0x80, 0xff] {
                    let mut bytes = vec![around; length];
                    assert_eq!(find_control(&bytes, 0), length);
                    bytes[place] = 0x1f;
                    assert_eq!(find_control(&bytes, 0), place);
                    assert_eq!(find_control(&bytes, place), place);
                    assert_eq!(find_control(&bytes, place + 1), length);
                }
            }
        }
    }

    #[test]
    fn each_vectorized_search_equals_a_bytewise_search() {
        for wanted in 0..=255u8 {
            for around in [b'!', b'a', b'~', b':', b'#', 0x7f, 0x80, 0xff, 0x1f, b' '] {
                for place in 0..18 {
                    let mut bytes = [around; 18];
                    bytes[place] = wanted;
                    let first =
                        |is: &dyn Fn(u8) -> bool| bytes.iter().position(|byte| is(*byte)).unwrap_or(18);
                    assert_eq!(find_control(&bytes, 0), first(&|byte| byte < 0x20));
                    assert_eq!(find_colon(&bytes, 0), first(&|byte| byte == b':'));
                    assert_eq!(find_target_end(&bytes, 0), first(&|byte| !is_target_byte(byte)));
                }
            }
        }
        assert_eq!(find_colon(b"a", 7), 1);
    }
}
