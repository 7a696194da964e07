//! Dates in the formats of strftime(3), without system calls: time and time zone are arguments.

mod strftime;
mod zone;

pub use strftime::format;
pub use weir_formats::WallTime;
pub use zone::TimeZone;

use weir_formats::CivilTime;

/// The date of a time, `offset` seconds ahead of UTC. Times millions of years away are clamped.
pub(crate) fn date_at(seconds: i64, offset: i32) -> CivilTime {
    const LIMIT: i64 = 1 << 46;
    CivilTime::at(seconds.clamp(-LIMIT, LIMIT), offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_large_times_are_clamped() {
        assert_eq!(date_at(i64::MAX, 0), CivilTime::at(1 << 46, 0));
        assert_eq!(date_at(i64::MIN, 3_600), CivilTime::at(-(1 << 46), 3_600));
        assert_eq!(date_at(-1, 0), CivilTime::at(-1, 0));
    }
}
