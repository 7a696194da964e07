//! The conversions of strftime(3) in the C locale, and `%N` for fractions of a second.

use std::io::Write as _;

use weir_formats::CivilTime;
use weir_formats::civil::{MONTH_NAMES, WEEKDAY_NAMES, is_leap};

use super::{TimeZone, WallTime, date_at};

/// How deep composite conversions may nest: `%c` uses `%T`, which uses `%H`.
const MAX_DEPTH: u8 = 3;

/// The maximum width of a conversion.
const MAX_WIDTH: usize = 1024;

/// Appends a date in the given format.
///
/// `%N` writes the fraction of the second with nine digits, `%3N` with three (ms), `%6N` with six (us).
pub fn format(format: &[u8], time: WallTime, zone: &TimeZone, out: &mut Vec<u8>) {
    let local = zone.at(time.seconds);
    let date = date_at(time.seconds, local.offset);
    DateWriter { time, zone_name: &local.name, offset: local.offset, date }.run(format, out, MAX_DEPTH);
}

struct DateWriter<'z> {
    time: WallTime,
    zone_name: &'z str,
    /// Offset of the zone from UTC, in seconds.
    offset: i32,
    date: CivilTime,
}

impl DateWriter<'_> {
    fn run(&self, format: &[u8], out: &mut Vec<u8>, depth: u8) {
        let mut rest = format;
        while let Some(percent) = rest.iter().position(|byte| *byte == b'%') {
            out.extend_from_slice(&rest[..percent]);
            rest = &rest[percent + 1..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if rest.get(digits) == Some(&b'N') {
                let width = rest.first().filter(|_| digits > 0).map_or(9, |digit| usize::from(digit - b'0'));
                self.fraction(width.clamp(1, 9), out);
                rest = &rest[digits + 1..];
                continue;
            }
            let flags = rest.iter().take_while(|byte| b"_-0^#".contains(byte)).count();
            let (flags, after) = rest.split_at(flags);
            let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let width = after[..digits]
                .iter()
                .fold(0, |width, digit| MAX_WIDTH.min(width * 10 + usize::from(digit - b'0')));
            // E and O select alternative forms, which the C locale lacks.
            let skip = digits + usize::from(matches!(after.get(digits), Some(b'E' | b'O')));
            let start = out.len();
            match after.get(skip) {
                Some(conversion) if self.conversion(*conversion, out, depth) => {
                    adjust(*conversion, flags, width, out, start);
                    rest = &after[skip + 1..];
                }
                // An unknown conversion is copied unchanged.
                _ => out.push(b'%'),
            }
        }
        out.extend_from_slice(rest);
    }

    fn fraction(&self, width: usize, out: &mut Vec<u8>) {
        let nanos = u64::from(self.time.micros) * 1_000;
        let _ = write!(out, "{:0width$}", nanos / 10u64.pow(9 - width as u32));
    }

    /// Appends one conversion. False if the conversion is unknown.
    fn conversion(&self, conversion: u8, out: &mut Vec<u8>, depth: u8) -> bool {
        let c = &self.date;
        let _ = match conversion {
            b'a' => write!(out, "{}", c.weekday_name()),
            b'A' => write!(out, "{}", WEEKDAY_NAMES[usize::from(c.weekday)]),
            b'b' | b'h' => write!(out, "{}", c.month_name()),
            b'B' => write!(out, "{}", MONTH_NAMES[usize::from(c.month - 1)]),
            b'c' => return self.composite(b"%a %b %e %H:%M:%S %Y", out, depth),
            b'C' => write!(out, "{:02}", c.year.div_euclid(100)),
            b'd' => write!(out, "{:02}", c.day),
            b'D' | b'x' => return self.composite(b"%m/%d/%y", out, depth),
            b'e' => write!(out, "{:2}", c.day),
            b'F' => return self.composite(b"%Y-%m-%d", out, depth),
            b'g' => write!(out, "{:02}", self.iso_week().0.rem_euclid(100)),
            b'G' => write!(out, "{}", self.iso_week().0),
            b'H' => write!(out, "{:02}", c.hour),
            b'I' => write!(out, "{:02}", hour12(c.hour)),
            b'j' => write!(out, "{:03}", c.year_day + 1),
            b'k' => write!(out, "{:2}", c.hour),
            b'l' => write!(out, "{:2}", hour12(c.hour)),
            b'm' => write!(out, "{:02}", c.month),
            b'M' => write!(out, "{:02}", c.minute),
            b'n' => writeln!(out),
            b'p' => write!(out, "{}", if c.hour < 12 { "AM" } else { "PM" }),
            b'P' => write!(out, "{}", if c.hour < 12 { "am" } else { "pm" }),
            b'r' => return self.composite(b"%I:%M:%S %p", out, depth),
            b'R' => return self.composite(b"%H:%M", out, depth),
            b's' => write!(out, "{}", self.time.seconds),
            b'S' => write!(out, "{:02}", c.second),
            b't' => write!(out, "\t"),
            b'T' | b'X' => return self.composite(b"%H:%M:%S", out, depth),
            b'u' => write!(out, "{}", if c.weekday == 0 { 7 } else { c.weekday }),
            b'U' => write!(out, "{:02}", (c.year_day + 7 - u16::from(c.weekday)) / 7),
            b'V' => write!(out, "{:02}", self.iso_week().1),
            b'w' => write!(out, "{}", c.weekday),
            b'W' => write!(out, "{:02}", (c.year_day + 7 - u16::from((c.weekday + 6) % 7)) / 7),
            b'y' => write!(out, "{:02}", c.year.rem_euclid(100)),
            b'Y' => write!(out, "{}", c.year),
            b'z' => {
                let minutes = self.offset.unsigned_abs() / 60;
                let sign = if self.offset < 0 { '-' } else { '+' };
                write!(out, "{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            b'Z' => write!(out, "{}", self.zone_name),
            b'%' => write!(out, "%"),
            _ => return false,
        };
        true
    }

    fn composite(&self, format: &[u8], out: &mut Vec<u8>, depth: u8) -> bool {
        if depth > 0 {
            self.run(format, out, depth - 1);
        }
        true
    }

    /// The year and week of ISO 8601: weeks begin on Monday and belong to the year of their Thursday.
    fn iso_week(&self) -> (i64, i64) {
        let c = &self.date;
        let monday_based = (i64::from(c.weekday) + 6) % 7;
        let thursday = i64::from(c.year_day) - monday_based + 3;
        if thursday < 0 {
            let days = if is_leap(c.year - 1) { 366 } else { 365 };
            return (c.year - 1, (thursday + days) / 7 + 1);
        }
        let days = if is_leap(c.year) { 366 } else { 365 };
        if thursday >= days { (c.year + 1, 1) } else { (c.year, thursday / 7 + 1) }
    }
}

/// Applies the flags and the width of glibc's strftime(3) to the text that a conversion appended from `start` on.
fn adjust(conversion: u8, flags: &[u8], width: usize, out: &mut Vec<u8>, start: usize) {
    if flags.is_empty() && width == 0 {
        return;
    }
    let number = b"CdegGHIjklmMsSuUVwWyY".contains(&conversion);
    if flags.contains(&b'^') || (flags.contains(&b'#') && b"aAbBh".contains(&conversion)) {
        out[start..].make_ascii_uppercase();
    } else if flags.contains(&b'#') {
        out[start..].make_ascii_lowercase();
    }
    // The last padding flag wins.
    let padding = flags.iter().rev().find(|flag| b"_-0".contains(flag));
    let fill = match padding {
        Some(b'0') => b'0',
        None if number && !b"ekl".contains(&conversion) => b'0',
        _ => b' ',
    };
    if number && let Some(padding) = padding {
        let digits = &out[start..];
        let first = digits.iter().position(|digit| !b" 0".contains(digit)).unwrap_or(digits.len() - 1);
        match padding {
            b'-' => drop(out.drain(start..start + first)),
            _ => out[start..start + first].fill(fill),
        }
    }
    let missing = width.saturating_sub(out.len() - start);
    out.splice(start..start, std::iter::repeat_n(fill, missing));
}

fn hour12(hour: u8) -> u8 {
    match hour % 12 {
        0 => 12,
        hour => hour,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, seconds: i64, expected: &str) {
        let mut out = Vec::new();
        format(text.as_bytes(), WallTime { seconds, micros: 123_456 }, TimeZone::utc(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{text}");
    }

    #[test]
    fn formats_each_strftime_conversion() {
        let at = 1_700_000_000; // Tuesday, 14 November 2023, 22:13:20
        check("%a %A %b %B %h", at, "Tue Tuesday Nov November Nov");
        check(
            "%c|%D|%F|%r|%R|%T|%x|%X",
            at,
            "Tue Nov 14 22:13:20 2023|11/14/23|2023-11-14|10:13:20 PM|22:13|22:13:20|11/14/23|22:13:20",
        );
        check("%C %d %e %g %G %H %I %j %k %l", at, "20 14 14 23 2023 22 10 318 22 10");
        check(
            "%m %M %p %P %s %S %u %U %V %w %W %y %Y %z %Z",
            at,
            "11 13 PM pm 1700000000 20 2 46 46 2 46 23 2023 +0000 GMT",
        );
        check("%%%n%t", at, "%\n\t");
        check("%d/%b/%Y:%H:%M:%S.%3N", at, "14/Nov/2023:22:13:20.123");
        check("%6N %N %1N", at, "123456 123456000 1");
        check("%Ey %Od %q %", at, "23 14 %q %");
    }

    #[test]
    fn formats_iso_weeks_at_year_boundaries() {
        check("%G-%V", 1_104_537_600, "2004-53"); // 2005-01-01
        check("%G-%V", 1_230_681_600, "2009-01"); // 2008-12-31
        check("%G-%V", 1_262_476_799, "2009-53"); // 2010-01-02
        check("%U %W", 1_104_537_600, "00 00");
    }

    #[test]
    fn formats_negative_zone_offsets() {
        let mut out = Vec::new();
        format(b"%H:%M %z", WallTime { seconds: 0, micros: 0 }, &TimeZone::fixed(-12_600, "NST"), &mut out);
        assert_eq!(out, b"20:30 -0330");
    }
}
