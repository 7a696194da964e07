//! The dates in inserted cookies: seconds in steps of four, as five base 64 digits.

/// A date. Never zero, which means no date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CookieDate(u32);

impl CookieDate {
    pub(super) fn of(wall_seconds: u64) -> Self {
        // 30 bits of 4 seconds last until 2106.
        Self(((wall_seconds >> STEP_BITS) & DIGITS_MASK) as u32)
    }

    /// Decodes five digits.
    pub(super) fn decode(text: &[u8]) -> Option<Self> {
        let text: &[u8; DIGITS] = text.try_into().ok()?;
        let date =
            text.iter().try_fold(0, |date, digit| Some(date << 6 | u32::from(digit_value(*digit)?)))?;
        (date > 0).then_some(Self(date))
    }

    pub(super) fn encode(self, text: &mut String) {
        let digits = (0..DIGITS).rev().map(|digit| ALPHABET[(self.0 >> (6 * digit)) as usize & 63]);
        text.extend(digits.map(char::from));
    }

    /// Whether the date is more than `seconds` in the past, or more than a day in the future, which exceeds clock skew.
    pub(super) fn is_out(self, now: Self, seconds: u32) -> bool {
        let age = (i64::from(now.0) - i64::from(self.0)) << STEP_BITS;
        age > i64::from(seconds) || age < -AHEAD_LIMIT_SECONDS
    }
}

const STEP_BITS: u32 = 2;
const DIGITS: usize = 5;
const DIGITS_MASK: u64 = (1 << (6 * DIGITS)) - 1;
const AHEAD_LIMIT_SECONDS: i64 = 86_400;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn digit_value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_dates_survive_encoding_and_decoding() {
        for seconds in [4, 1_795_182_572, 4 * 62, 4 * 63, (1 << 32) - 4] {
            let mut text = String::new();
            CookieDate::of(seconds).encode(&mut text);
            assert_eq!(CookieDate::decode(text.as_bytes()), Some(CookieDate::of(seconds)));
        }
        // What HAProxy 2.6 wrote at these times.
        for (seconds, expected) in [(1_795_182_572, "awBP7"), (1_795_194_564, "awB+x")] {
            let mut text = String::new();
            CookieDate::of(seconds).encode(&mut text);
            assert_eq!(text, expected);
        }
        for wrong in ["", "AAAAA", "awBP", "awBP7x", "aw P7", "awB\u{e9}", "awB-x", "awB_x"] {
            assert_eq!(CookieDate::decode(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn rejects_cookie_dates_too_old_or_too_far_ahead() {
        let now = CookieDate::of(1_000_000);
        for (seconds, out) in
            [(1_000_000, false), (998_200, false), (998_100, true), (1_086_400, false), (1_086_404, true)]
        {
            assert_eq!(CookieDate::of(seconds).is_out(now, 1_800), out, "{seconds}");
        }
    }
}
