//! Formats dates for logs. The caller passes the wall-clock time.
//!
//! Formatting a date costs more than the rest of a log line, and many lines have the same second. Therefore a
//! [`DateCache`] keeps the strings of the current second. The offset from UTC is an argument (see [`ZoneOffset`]), so
//! this module does not make system calls.

use std::fmt;
use std::sync::Arc;

use weir_formats::{CivilTime, WallTime};

/// Returns the local offset from UTC in seconds east, for a time in seconds since 1970. Called once per second of log time.
pub type ZoneOffset = Arc<dyn Fn(i64) -> i32 + Send + Sync>;

/// The [`ZoneOffset`] of UTC.
pub fn utc() -> ZoneOffset {
    Arc::new(|_| 0)
}

/// The date strings of one second.
pub struct DateCache {
    zone: ZoneOffset,
    second: Option<i64>,
    /// `Nov 20 13:05:05`.
    rfc3164: Vec<u8>,
    /// `2026-11-20T13:05:05`.
    iso: Vec<u8>,
    /// `+00:00`.
    offset: Vec<u8>,
}

impl fmt::Debug for DateCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DateCache").field("second", &self.second).finish_non_exhaustive()
    }
}

impl DateCache {
    /// An empty cache for dates in `zone`.
    pub fn new(zone: ZoneOffset) -> Self {
        Self { zone, second: None, rfc3164: Vec::new(), iso: Vec::new(), offset: Vec::new() }
    }

    /// Appends the date of RFC 3164, section 4.1.2: `Nov  5 13:05:05`, local time.
    pub fn write_rfc3164(&mut self, time: WallTime, out: &mut Vec<u8>) {
        self.refresh(time.seconds);
        out.extend_from_slice(&self.rfc3164);
    }

    /// Appends the date of RFC 5424, section 6.2.3, to the microsecond: `2026-11-20T13:05:05.007181+00:00`.
    pub fn write_iso(&mut self, time: WallTime, out: &mut Vec<u8>) {
        self.refresh(time.seconds);
        out.extend_from_slice(&self.iso);
        out.push(b'.');
        push_padded(out, u64::from(time.micros), 6);
        out.extend_from_slice(&self.offset);
    }

    /// The year of a date in `month` without a year, received at `time`. Near the turn of the year it may be the next or the previous year.
    pub fn year_of(&self, time: WallTime, month: u8) -> u64 {
        let now = CivilTime::at(time.seconds, (self.zone)(time.seconds));
        let year = match (now.month, month) {
            (1, 12) => now.year - 1,
            (12, 1) => now.year + 1,
            _ => now.year,
        };
        year.unsigned_abs()
    }

    fn refresh(&mut self, second: i64) {
        if self.second == Some(second) {
            return;
        }
        self.second = Some(second);
        let offset = (self.zone)(second);
        let civil = CivilTime::at(second, offset);
        self.rfc3164.clear();
        self.rfc3164.extend_from_slice(civil.month_name().as_bytes());
        self.rfc3164.push(b' ');
        self.rfc3164.push(if civil.day < 10 { b' ' } else { b'0' + civil.day / 10 });
        self.rfc3164.push(b'0' + civil.day % 10);
        self.rfc3164.push(b' ');
        push_time_of_day(&mut self.rfc3164, &civil);
        self.iso.clear();
        push_padded(&mut self.iso, civil.year.unsigned_abs(), 4);
        self.iso.push(b'-');
        push_padded(&mut self.iso, u64::from(civil.month), 2);
        self.iso.push(b'-');
        push_padded(&mut self.iso, u64::from(civil.day), 2);
        self.iso.push(b'T');
        push_time_of_day(&mut self.iso, &civil);
        self.offset.clear();
        self.offset.push(if offset < 0 { b'-' } else { b'+' });
        let minutes = u64::from(offset.unsigned_abs()) / 60;
        push_padded(&mut self.offset, minutes / 60, 2);
        self.offset.push(b':');
        push_padded(&mut self.offset, minutes % 60, 2);
    }
}

fn push_time_of_day(out: &mut Vec<u8>, civil: &CivilTime) {
    push_padded(out, u64::from(civil.hour), 2);
    out.push(b':');
    push_padded(out, u64::from(civil.minute), 2);
    out.push(b':');
    push_padded(out, u64::from(civil.second), 2);
}

/// Appends `value` in decimal, zero-padded to `width` digits.
pub(crate) fn push_padded(out: &mut Vec<u8>, value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    let mut rest = value;
    while rest > 0 {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    out.extend_from_slice(&digits[at.min(digits.len() - width)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_dates_as_rfc3164_and_iso_8601() {
        let mut cache = DateCache::new(Arc::new(|_| 5 * 3600 + 1800));
        let mut out = Vec::new();
        for micros in [1_793_836_805_000_042, 1_793_836_806_999_999] {
            let time = WallTime::from_micros(micros);
            cache.write_rfc3164(time, &mut out);
            out.push(b'|');
            cache.write_iso(time, &mut out);
            out.push(b'\n');
        }
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Nov  5 05:30:05|2026-11-05T05:30:05.000042+05:30\nNov  5 05:30:06|2026-11-05T05:30:06.999999+05:30\n"
        );
    }

    #[test]
    fn numbers_are_padded_but_never_truncated() {
        let mut out = Vec::new();
        push_padded(&mut out, 0, 1);
        push_padded(&mut out, 12, 4);
        push_padded(&mut out, u64::MAX, 2);
        assert_eq!(out, b"0001218446744073709551615");
    }
}
