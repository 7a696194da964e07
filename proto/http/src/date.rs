//! HTTP dates (RFC 9110, 5.6.7). Time comes in as seconds since 1970; nothing here reads a clock.

/// The length of a date in the preferred form: `Sun, 06 Nov 1994 08:49:37 GMT`.
pub const LENGTH: usize = 29;

/// A calendar date and time of day, in UTC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Civil {
    /// The year.
    pub year: i64,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Civil {
    /// The date this many seconds after 1970. The calendar repeats every 400 years, or 146097 days.
    pub fn from_unix(seconds: i64) -> Civil {
        let days = seconds.div_euclid(86400);
        let rest = seconds.rem_euclid(86400);
        // Counting years from March makes the leap day the last one.
        let shifted = days + 719_468;
        let period = shifted.div_euclid(146_097);
        let day_of_period = shifted.rem_euclid(146_097);
        let year_of_period =
            (day_of_period - day_of_period / 1460 + day_of_period / 36524 - day_of_period / 146_096) / 365;
        let day_of_year = day_of_period - (365 * year_of_period + year_of_period / 4 - year_of_period / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Civil {
            year: year_of_period + period * 400 + i64::from(month <= 2),
            month: month as u8,
            day: (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
            hour: (rest / 3600) as u8,
            minute: (rest / 60 % 60) as u8,
            second: (rest % 60) as u8,
        }
    }

    /// Seconds since 1970. The weekday is ignored.
    pub fn to_unix(self) -> i64 {
        let (month, day) = (i64::from(self.month), i64::from(self.day));
        let year = if month <= 2 { self.year - 1 } else { self.year };
        let period = year.div_euclid(400);
        let year_of_period = year.rem_euclid(400);
        let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let day_of_period = year_of_period * 365 + year_of_period / 4 - year_of_period / 100 + day_of_year;
        let days = period * 146_097 + day_of_period - 719_468;
        days * 86400 + i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second)
    }
}

/// A date in the preferred form. Years beyond 9999 are written as 9999.
pub fn format(seconds: i64) -> [u8; LENGTH] {
    let date = Civil::from_unix(seconds);
    let mut out = *b"Sun, 00 Jan 0000 00:00:00 GMT";
    out[..3].copy_from_slice(WEEKDAYS[usize::from(date.weekday)].as_bytes());
    two_digits(&mut out[5..7], date.day);
    out[8..11].copy_from_slice(MONTHS[usize::from(date.month - 1)].as_bytes());
    let year = date.year.clamp(0, 9999);
    two_digits(&mut out[12..14], (year / 100) as u8);
    two_digits(&mut out[14..16], (year % 100) as u8);
    two_digits(&mut out[17..19], date.hour);
    two_digits(&mut out[20..22], date.minute);
    two_digits(&mut out[23..25], date.second);
    out
}

/// Reads a date in any of the three forms that must be understood. `now` resolves the two-digit years of the second one:
/// they are at most 50 years ahead.
pub fn parse(text: &[u8], now: i64) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let parts: Vec<&str> = text.split([' ', '-']).filter(|part| !part.is_empty()).take(7).collect();
    let (day, month, year, time) = match *parts.as_slice() {
        [weekday, day, month, year, time, "GMT"] if weekday.ends_with(',') => (day, month, year, time),
        [_, month, day, time, year] => (day, month, year, time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u8 + 1;
    let day = number(day, 2)? as u8;
    let mut year_number = number(year, 4)?;
    if year.len() == 2 {
        let this_year = Civil::from_unix(now).year;
        year_number += this_year - this_year.rem_euclid(100);
        if year_number > this_year + 50 {
            year_number -= 100;
        }
    }
    let mut clock = time.split(':');
    let mut next = || clock.next().and_then(|digits| number(digits, 2)).map(|value| value as u8);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let fits = (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60 && clock.next().is_none();
    let date = Civil { year: year_number, month, day, weekday: 0, hour, minute, second };
    fits.then(|| date.to_unix())
}

fn number(digits: &str, most: usize) -> Option<i64> {
    let fits = !digits.is_empty() && digits.len() <= most && digits.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| digits.parse().ok()).flatten()
}

fn two_digits(place: &mut [u8], value: u8) {
    place.copy_from_slice(&[b'0' + value / 10 % 10, b'0' + value % 10]);
}

/// Names of weekdays, Sunday first.
pub const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/// Names of months.
pub const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(seconds: i64, want: &str) {
        assert_eq!(std::str::from_utf8(&format(seconds)).unwrap(), want);
        assert_eq!(parse(want.as_bytes(), 0), Some(seconds));
    }

    #[test]
    fn dates_both_ways() {
        check(784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT");
        check(0, "Thu, 01 Jan 1970 00:00:00 GMT");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT");
        check(-1, "Wed, 31 Dec 1969 23:59:59 GMT");
    }

    #[test]
    fn old_forms_are_read() {
        let now = 1_700_000_000;
        assert_eq!(parse(b"Sunday, 06-Nov-94 08:49:37 GMT", now), Some(784_111_777));
        assert_eq!(parse(b"Sun Nov  6 08:49:37 1994", now), Some(784_111_777));
        for bad in [
            "",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "a b c d e",
        ] {
            assert_eq!(parse(bad.as_bytes(), now), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_second_has_a_name(seconds in -2_000_000_000i64..253_402_300_799) {
            prop_assert_eq!(Civil::from_unix(seconds).to_unix(), seconds);
        }
    }
}
