//! Calendar dates and their formats, without asking the system: time and time zone come as arguments.

mod strftime;
mod zone;

pub use strftime::format;
pub use zone::TimeZone;

/// A moment of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct WallTime {
    /// Seconds since 1970-01-01 00:00:00 UTC.
    pub seconds: i64,
    /// Microseconds of that second.
    pub micros: u32,
}

/// A date and time of day in some time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    /// Year.
    pub year: i64,
    /// Month, from 1.
    pub month: u8,
    /// Day of the month, from 1.
    pub day: u8,
    /// Hour.
    pub hour: u8,
    /// Minute.
    pub minute: u8,
    /// Second.
    pub second: u8,
    /// Day of the week, Sunday is 0.
    pub week_day: u8,
    /// Day of the year, from 0.
    pub year_day: u16,
    /// How far the zone is ahead of UTC, in seconds.
    pub offset: i32,
}

impl Calendar {
    /// The date of a moment, `offset` seconds ahead of UTC. Moments millions of years away are clamped.
    pub fn new(seconds: i64, offset: i32) -> Calendar {
        const LIMIT: i64 = 1 << 46;
        let local = seconds.clamp(-LIMIT, LIMIT) + i64::from(offset);
        let days = local.div_euclid(86_400);
        let of_day = local.rem_euclid(86_400);
        let (year, month, day) = civil_from_days(days);
        let year_day = days - days_from_civil(year, 1, 1);
        Calendar {
            year,
            month,
            day,
            hour: (of_day / 3_600) as u8,
            minute: (of_day / 60 % 60) as u8,
            second: (of_day % 60) as u8,
            week_day: (days + 4).rem_euclid(7) as u8,
            year_day: year_day as u16,
            offset,
        }
    }
}

/// The names of the days, from Sunday.
pub const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The names of the months.
pub const MONTHS: [&str; 12] = [
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

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
pub fn days_from_civil(year: i64, month: u8, day: u8) -> i64 {
    // Years begin in March, so that the leap day is the last one; eras have 400 years.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u8;
    let month = (if shifted < 10 { shifted + 3 } else { shifted - 9 }) as u8;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_dates() {
        let check = |seconds, offset, date: (i64, u8, u8, u8, u8, u8), week_day, year_day| {
            let c = Calendar::new(seconds, offset);
            assert_eq!((c.year, c.month, c.day, c.hour, c.minute, c.second), date);
            assert_eq!((c.week_day, c.year_day), (week_day, year_day));
        };
        check(0, 0, (1970, 1, 1, 0, 0, 0), 4, 0);
        check(-1, 0, (1969, 12, 31, 23, 59, 59), 3, 364);
        check(951_782_400, 0, (2000, 2, 29, 0, 0, 0), 2, 59);
        check(1_700_000_000, 3_600, (2023, 11, 14, 23, 13, 20), 2, 317);
        check(1_709_251_199, 0, (2024, 2, 29, 23, 59, 59), 4, 59);
        check(253_402_300_799, 0, (9999, 12, 31, 23, 59, 59), 5, 364);
        assert_eq!(Calendar::new(i64::MAX, 0), Calendar::new(1 << 46, 0));
        assert_eq!(Calendar::new(i64::MIN, 0), Calendar::new(-(1 << 46), 0));
    }

    #[test]
    fn dates_and_days_are_inverse() {
        for days in (-1_000_000..1_000_000).step_by(97) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
