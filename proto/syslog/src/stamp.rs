//! The dates in headers: recognized by their form, kept as written.

use weir_formats::civil::MONTHS;

/// The date in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stamp<'a> {
    /// No date.
    #[default]
    None,
    /// RFC 5424's `-`: the sender does not know.
    Unknown,
    /// RFC 3164, section 4.1.2: `Nov  5 13:05:05`, without year or zone.
    Rfc3164(&'a [u8]),
    /// RFC 5424, section 6.2.3: `2026-11-20T13:05:05.007181+00:00`.
    Iso(&'a [u8]),
}

/// The length of a date of RFC 3164.
pub const RFC3164_LENGTH: usize = 15;

/// The date of RFC 3164 that `text` begins with.
pub(crate) fn rfc3164(text: &[u8]) -> Option<&[u8]> {
    let date = text.get(..RFC3164_LENGTH)?;
    let month = MONTHS.iter().any(|month| date.starts_with(month.as_bytes()));
    // `Nov 20`, `Nov  5`; `Nov 05` is wrong and common.
    let day = match (date[4], date[5]) {
        (b' ', b'1'..=b'9') => true,
        _ => number(&date[4..6]).is_some_and(|day| (1..=31).contains(&day)),
    };
    let spaces = date[3] == b' ' && date[6] == b' ';
    (month && day && spaces && is_time(&date[7..])).then_some(date)
}

/// Whether all of `text` is a date of RFC 5424.
pub(crate) fn is_iso(text: &[u8]) -> bool {
    let Some((date, rest)) = text.split_at_checked(ISO_SECONDS) else { return false };
    let within = |range: std::ops::Range<usize>, least: u32, most: u32| {
        number(&date[range]).is_some_and(|number| (least..=most).contains(&number))
    };
    let separated = date[4] == b'-' && date[7] == b'-' && date[10] == b'T';
    separated
        && within(0..4, 0, 9999)
        && within(5..7, 1, 12)
        && within(8..10, 1, 31)
        && is_time(&date[11..])
        && is_zone(after_fraction(rest))
}

fn after_fraction(text: &[u8]) -> &[u8] {
    let Some(fraction) = text.strip_prefix(b".") else { return text };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    // RFC 5424 has 1 to 6 digits; more are common.
    if digits == 0 { b"" } else { &fraction[digits..] }
}

fn is_zone(text: &[u8]) -> bool {
    match text {
        b"Z" => true,
        [b'+' | b'-', hours @ .., b':', a, b] if hours.len() == 2 => {
            number(hours).is_some_and(|hours| hours <= 23)
                && number(&[*a, *b]).is_some_and(|minutes| minutes <= 59)
        }
        _ => false,
    }
}

/// Whether this is a time of day such as `13:05:05`; a leap second (60) is accepted.
fn is_time(text: &[u8]) -> bool {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *text else { return false };
    let within = |a, b, most| number(&[a, b]).is_some_and(|number| number <= most);
    within(h1, h2, 23) && within(m1, m2, 59) && within(s1, s2, 60)
}

fn number(digits: &[u8]) -> Option<u32> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0')))
}

/// The length of `2026-11-20T13:05:05`.
const ISO_SECONDS: usize = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_dates_of_rfc3164() {
        let check =
            |text: &str, expected: bool| assert_eq!(rfc3164(text.as_bytes()).is_some(), expected, "{text}");
        check("Nov 20 13:05:05", true);
        check("Nov  5 13:05:05 rest", true);
        check("Nov 05 23:59:60", true);
        check("nov 20 13:05:05", false);
        check("Nov 20 13:05", false);
        check("Nov 32 13:05:05", false);
        check("Nov  0 13:05:05", false);
        check("Nov 20 24:05:05", false);
        check("Nov 20 13.05.05", false);
        check("2026 Nov 20 13:05:05", false);
        check("", false);
    }

    #[test]
    fn recognises_dates_of_rfc5424() {
        let check = |text: &str, expected: bool| assert_eq!(is_iso(text.as_bytes()), expected, "{text}");
        check("2026-11-20T13:05:05Z", true);
        check("2026-11-20T13:05:05.007181+00:00", true);
        check("2026-11-20T13:05:05-05:30", true);
        check("2026-11-20T13:05:05.123456789Z", true);
        check("2026-11-20T13:05:05", false);
        check("2026-11-20T13:05:05.Z", false);
        check("2026-13-20T13:05:05Z", false);
        check("2026-11-20 13:05:05Z", false);
        check("2026-11-20T13:05:05+0000", false);
        check("2026-11-20T13:05:05+24:00", false);
        check("-", false);
    }
}
