//! Looking for bytes, many at a time.

/// Where the first byte below 0x20 is, from `at` on; the end of `raw` if there is none.
#[inline]
pub fn find_control(raw: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    while let Some(chunk) = raw.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // The lowest marked byte is right; a borrow can only mark bytes above it.
        let below = word.wrapping_sub(ONES * 0x20) & !word & (ONES << 7);
        if below != 0 {
            return at + (below.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = raw.get(at) {
        if byte < 0x20 {
            return at;
        }
        at += 1;
    }
    at
}

/// Whether a byte may be in a token: a method, a field name (RFC 9110, 5.6.2).
#[inline]
pub fn is_token_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & TOKEN != 0
}

/// Whether a byte may be in a request target. More than RFC 3986 allows, as browsers send more; never a fragment.
#[inline]
pub fn is_target_byte(byte: u8) -> bool {
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
    let token = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < token.len() {
        classes[token[at] as usize] |= TOKEN;
        at += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_found_wherever_they_are() {
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
}
