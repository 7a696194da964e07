//! Dates of HTTP as seconds: `core.http_date` and its relatives.

use weir_formats::civil::{MONTH_NAMES, WEEKDAY_NAMES, seconds_of};

use super::{ApiCall, ApiResult};

/// A reader of one format.
type DateReader = fn(&[u8]) -> Option<i64>;

/// `core.http_date(text)`: a date in any of the three formats of HTTP (RFC 9110, 5.6.7).
pub(super) fn http_date(call: &ApiCall<'_>) -> ApiResult {
    date(call, |text| imf(text).or_else(|| rfc850(text)).or_else(|| asctime(text)))
}

pub(super) fn imf_date(call: &ApiCall<'_>) -> ApiResult {
    date(call, imf)
}

pub(super) fn rfc850_date(call: &ApiCall<'_>) -> ApiResult {
    date(call, rfc850)
}

pub(super) fn asctime_date(call: &ApiCall<'_>) -> ApiResult {
    date(call, asctime)
}

fn date(call: &ApiCall<'_>, read: DateReader) -> ApiResult {
    match read(call.expect_bytes(1)?) {
        Some(seconds) => call.push_integer(seconds),
        None => call.push_nil(),
    }
    call.results(1)
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`. As in HAProxy, the weekday need not fit, numbers carry over, and text may follow.
fn imf(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    reader.weekday(3)?;
    reader.skip(b", ")?;
    let day = reader.digits(2)?;
    reader.skip(b" ")?;
    let month = reader.month()?;
    reader.skip(b" ")?;
    let year = reader.digits(4)?;
    reader.skip(b" ")?;
    let time = reader.time()?;
    reader.skip(b" GMT")?;
    Some(seconds_of(i64::from(year), month, day as u8, time))
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`. Two digits below 60 are a year of this century.
fn rfc850(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    reader.weekday(usize::MAX)?;
    reader.skip(b", ")?;
    let day = reader.digits(2)?;
    reader.skip(b"-")?;
    let month = reader.month()?;
    reader.skip(b"-")?;
    let year = match (reader.digits(4), reader.digits(2)) {
        (Some(year), _) => year,
        (None, Some(short @ 0..60)) => 2000 + short,
        (None, short) => 1900 + short?,
    };
    reader.skip(b" ")?;
    let time = reader.time()?;
    reader.skip(b" GMT")?;
    Some(seconds_of(i64::from(year), month, day as u8, time))
}

/// `Sun Nov  6 08:49:37 1994`.
fn asctime(text: &[u8]) -> Option<i64> {
    let mut reader = Reader(text);
    reader.weekday(3)?;
    reader.skip(b" ")?;
    let month = reader.month()?;
    reader.skip(b" ")?;
    let day = match reader.skip(b" ") {
        Some(()) => reader.digits(1)?,
        None => reader.digits(2)?,
    };
    reader.skip(b" ")?;
    let time = reader.time()?;
    reader.skip(b" ")?;
    let year = reader.digits(4)?;
    Some(seconds_of(i64::from(year), month, day as u8, time))
}

/// The rest of a date. A step that does not fit changes nothing.
struct Reader<'t>(&'t [u8]);

impl Reader<'_> {
    fn skip(&mut self, expected: &[u8]) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }

    /// Exactly so many digits.
    fn digits(&mut self, count: usize) -> Option<u16> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        self.0 = rest;
        Some(digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0')))
    }

    /// The position of a name. At most `length` letters count.
    fn name(&mut self, names: &[&str], length: usize) -> Option<usize> {
        let found =
            names.iter().position(|name| self.0.starts_with(&name.as_bytes()[..length.min(name.len())]));
        self.0 = &self.0[length.min(names[found?].len())..];
        found
    }

    fn weekday(&mut self, length: usize) -> Option<usize> {
        self.name(&WEEKDAY_NAMES, length)
    }

    /// An abbreviated month, from 1.
    fn month(&mut self) -> Option<u8> {
        self.name(&MONTH_NAMES, 3).map(|position| position as u8 + 1)
    }

    /// `08:49:37`.
    fn time(&mut self) -> Option<[u8; 3]> {
        let hour = self.digits(2)?;
        self.skip(b":")?;
        let minute = self.digits(2)?;
        self.skip(b":")?;
        let second = self.digits(2)?;
        Some([hour as u8, minute as u8, second as u8])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(read: DateReader, text: &str, expected: Option<i64>) {
        assert_eq!(read(text.as_bytes()), expected, "{text}");
    }

    #[test]
    fn dates_are_read_in_three_formats() {
        let at = Some(784_111_777);
        check(imf, "Sun, 06 Nov 1994 08:49:37 GMT", at);
        check(rfc850, "Sunday, 06-Nov-94 08:49:37 GMT", at);
        check(asctime, "Sun Nov  6 08:49:37 1994", at);
        check(asctime, "Sun Nov 06 08:49:37 1994", at);
        check(imf, "Fri, 31 Dec 9999 23:59:59 GMT", Some(253_402_300_799));
        check(imf, "Wed, 31 Dec 1969 23:59:59 GMT", Some(-1));
        for text in [
            "",
            "Sun",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
        ] {
            check(imf, text, None);
        }
        check(rfc850, "Sun, 06-Nov-94 08:49:37 GMT", None);
        check(asctime, "Sun Nov 6 08:49:37 1994", None);
    }

    #[test]
    fn short_years_are_of_this_century_below_60() {
        check(rfc850, "Sunday, 06-Nov-59 08:49:37 GMT", Some(2_835_334_177));
        check(rfc850, "Sunday, 06-Nov-60 08:49:37 GMT", Some(-288_803_423));
        check(rfc850, "Sunday, 06-Nov-1994 08:49:37 GMT", Some(784_111_777));
    }

    #[test]
    fn numbers_beyond_their_ranges_carry_over() {
        check(imf, "Sun, 99 Nov 1994 08:49:37 GMT", Some(792_146_977));
        check(imf, "Sun, 06 Nov 1994 99:49:37 GMT", Some(784_439_377));
        check(imf, "Sun, 06 Nov 1994 08:49:99 GMT and more", Some(784_111_839));
    }
}
