//! Dates of the proleptic Gregorian calendar.
//!
//! The calendar repeats every 400 years (146,097 days). Within such a cycle years begin in March, so that the leap day is the
//! last day of a year. Leap seconds are ignored, as in POSIX. Second 60 is second 0 of the next minute.

use std::io;

/// A moment of the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime {
    pub seconds: i64,
    /// Microseconds within the second, less than 1,000,000.
    pub micros: u32,
}

impl WallTime {
    /// From nanoseconds since 1970, the unit of the system clock.
    pub fn from_nanos(nanos: u64) -> Self {
        Self { seconds: (nanos / 1_000_000_000) as i64, micros: (nanos % 1_000_000_000 / 1000) as u32 }
    }

    /// From microseconds since 1970.
    pub fn from_micros(micros: i64) -> Self {
        Self { seconds: micros.div_euclid(1_000_000), micros: micros.rem_euclid(1_000_000) as u32 }
    }
}

/// A date with a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CivilTime {
    /// The year, 1970 for the epoch. There is a year 0.
    pub year: i64,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub weekday: u8,
    /// Day of the year. 1 January is 0.
    pub year_day: u16,
}

impl CivilTime {
    /// The date at `seconds` since 1970, in a time zone `offset` seconds east of UTC.
    pub fn at(seconds: i64, offset: i32) -> Self {
        let local = seconds.saturating_add(i64::from(offset));
        let days = local.div_euclid(DAY);
        let of_day = local.rem_euclid(DAY);
        let from_march_0000 = days + MARCH_0000;
        let cycle = from_march_0000.div_euclid(CYCLE);
        let day_of_cycle = from_march_0000.rem_euclid(CYCLE);
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let from_march = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * from_march + 2) / 153;
        let day = (from_march - (153 * month_from_march + 2) / 5 + 1) as u8;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u8;
        let year = cycle * 400 + year_of_cycle + i64::from(month <= 2);
        let year_day = match month {
            // 1 January is 306 days after 1 March.
            1 | 2 => from_march - 306,
            _ => from_march + 59 + i64::from(is_leap(year)),
        };
        Self {
            year,
            month,
            day,
            hour: (of_day / 3600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            weekday: (days + 4).rem_euclid(7) as u8,
            year_day: year_day as u16,
        }
    }

    /// The month's English abbreviation.
    pub fn month_name(&self) -> &'static str {
        MONTHS[usize::from(self.month - 1)]
    }

    /// The weekday's English abbreviation.
    pub fn weekday_name(&self) -> &'static str {
        WEEKDAYS[usize::from(self.weekday)]
    }

    /// Writes the date as HTTP does, without the zone: `Sun, 06 Nov 1994 08:49:37` (RFC 9110, 5.6.7).
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_http_date(&self, out: &mut impl io::Write) -> io::Result<()> {
        let CivilTime { year, day, hour, minute, second, .. } = *self;
        let (weekday, month) = (self.weekday_name(), self.month_name());
        write!(out, "{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Seconds since 1970 of a date and a time of day (hour, minute, second) in UTC. Months count from 1. Days, hours, minutes and
/// seconds beyond their ranges carry over.
pub fn seconds_of(year: i64, month: u8, day: u8, [hour, minute, second]: [u8; 3]) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let cycle = year.div_euclid(400);
    let year_of_cycle = year.rem_euclid(400);
    let from_march = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_cycle = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100 + from_march;
    let days = cycle * CYCLE + day_of_cycle - MARCH_0000;
    days * DAY + i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second)
}

/// Whether a year has 366 days.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Seconds per day.
const DAY: i64 = 86_400;
/// Days in 400 years.
const CYCLE: i64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const MARCH_0000: i64 = 719_468;

/// English month names, January first.
pub const MONTH_NAMES: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// English names of weekdays, Sunday first.
pub const WEEKDAY_NAMES: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Abbreviated month names of logs, HTTP, mail and certificates, January first.
pub const MONTHS: [&str; 12] = abbreviated(MONTH_NAMES);

/// Abbreviated weekday names of HTTP and mail, Sunday first.
pub const WEEKDAYS: [&str; 7] = abbreviated(WEEKDAY_NAMES);

/// The first three letters of each name.
const fn abbreviated<const N: usize>(mut names: [&'static str; N]) -> [&'static str; N] {
    let mut at = 0;
    while at < N {
        names[at] = names[at].split_at(3).0;
        at += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::OffsetDateTime;

    use super::*;

    /// Seconds in 400 years.
    const PERIOD: i64 = CYCLE * DAY;

    /// The same date from the crate `time`, which supports the years -9999 to 9999. Other years are mapped into this range by whole cycles.
    fn by_another_author(seconds: i64) -> CivilTime {
        let cycles = if seconds.abs() < 8000 * 365 * DAY { 0 } else { seconds.div_euclid(PERIOD) };
        let date =
            OffsetDateTime::from_unix_timestamp(seconds - cycles * PERIOD).expect("a year that it knows");
        CivilTime {
            year: i64::from(date.year()) + cycles * 400,
            month: u8::from(date.month()),
            day: date.day(),
            hour: date.hour(),
            minute: date.minute(),
            second: date.second(),
            weekday: date.weekday().number_days_from_sunday(),
            year_day: date.ordinal() - 1,
        }
    }

    /// Compares with the crate `time`, and converts the date back to seconds.
    #[track_caller]
    fn check(seconds: i64) {
        let date = CivilTime::at(seconds, 0);
        assert_eq!(date, by_another_author(seconds), "at {seconds}");
        let CivilTime { year, month, day, hour, minute, second, .. } = date;
        assert_eq!(seconds_of(year, month, day, [hour, minute, second]), seconds, "{date:?}");
        assert_eq!(is_leap(year), time::util::is_leap_year((year.rem_euclid(400)) as i32), "{year}");
    }

    #[test]
    fn computes_known_dates() {
        for (seconds, offset, expected) in [
            (0, 0, (1970, 1, 1, 0, 0, 0, 4, 0)),
            (951_782_399, 0, (2000, 2, 28, 23, 59, 59, 1, 58)),
            (951_782_400, 0, (2000, 2, 29, 0, 0, 0, 2, 59)),
            (1_700_000_000, 3_600, (2023, 11, 14, 23, 13, 20, 2, 317)),
            (1_709_251_199, 0, (2024, 2, 29, 23, 59, 59, 4, 59)),
            (1_795_179_905, 0, (2026, 11, 20, 13, 5, 5, 5, 323)),
            (1_795_179_905, -5 * 3600, (2026, 11, 20, 8, 5, 5, 5, 323)),
            (-1, 0, (1969, 12, 31, 23, 59, 59, 3, 364)),
            (4_107_542_400, 0, (2100, 3, 1, 0, 0, 0, 1, 59)),
            (253_402_300_799, 0, (9999, 12, 31, 23, 59, 59, 5, 364)),
        ] {
            let c = CivilTime::at(seconds, offset);
            let found = (c.year, c.month, c.day, c.hour, c.minute, c.second, c.weekday, c.year_day);
            assert_eq!(found, expected, "at {seconds}");
        }
    }

    #[test]
    fn dates_of_eight_centuries_equal_those_of_another_crate() {
        // From 1599 to 2401: leap years, centuries with and without a leap day, times before 1970.
        let (first, last) = (seconds_of(1599, 1, 1, [0; 3]), seconds_of(2401, 12, 31, [0; 3]));
        for midnight in (first..=last).step_by(DAY as usize) {
            check(midnight - 1);
            check(midnight);
        }
    }

    #[test]
    fn second_60_is_read_as_the_next_minute() {
        let last = seconds_of(2016, 12, 31, [23, 59, 60]);
        assert_eq!(last, 1_483_228_800);
        assert_eq!(last, seconds_of(2017, 1, 1, [0, 0, 0]));
        assert_eq!(CivilTime::at(last, 0).second, 0);
    }

    #[test]
    fn the_largest_and_smallest_times_do_not_overflow() {
        assert_eq!(CivilTime::at(i64::MAX, i32::MAX), CivilTime::at(i64::MAX, 0));
        assert_eq!(CivilTime::at(i64::MIN, i32::MIN), CivilTime::at(i64::MIN, 0));
    }

    #[test]
    fn month_and_weekday_names_are_in_order() {
        let march = CivilTime::at(seconds_of(2026, 3, 1, [0; 3]), 0);
        assert_eq!((march.month_name(), march.weekday_name()), ("Mar", "Sun"));
        assert_eq!(MONTHS.concat(), "JanFebMarAprMayJunJulAugSepOctNovDec");
        assert_eq!(WEEKDAYS.concat(), "SunMonTueWedThuFriSat");
    }

    proptest! {
        #[test]
        fn random_dates_equal_those_of_another_crate(seconds in -300_000_000_000i64..300_000_000_000) {
            check(seconds);
        }

        #[test]
        fn very_large_dates_equal_those_of_another_crate(seconds in any::<i64>()) {
            // Ten cycles less, so that the conversion back does not overflow.
            check(seconds / 2);
        }

        #[test]
        fn a_zone_offset_shifts_the_date(seconds in -300_000_000_000i64..300_000_000_000, offset in -86_400i32..=86_400) {
            prop_assert_eq!(CivilTime::at(seconds, offset), CivilTime::at(seconds + i64::from(offset), 0));
        }
    }
}
