//! The time of the next order of a certificate: by its dates, and by its authority's suggestion (RFC 9773).

use weir_formats::civil::seconds_of;

use crate::json::{Malformed, encode, object, optional_text, text};

/// When an authority wants a certificate to be renewed (RFC 9773, section 4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewalInfo {
    /// In seconds since 1970.
    pub start: i64,
    pub end: i64,
    pub explanation_url: Option<String>,
}

impl RenewalInfo {
    /// Reads renewal information. The window must not be empty.
    ///
    /// # Errors
    /// The field that is missing or wrong.
    pub fn read(body: &[u8]) -> Result<RenewalInfo, Malformed> {
        let value = object(body)?;
        let window = &value["suggestedWindow"];
        let time =
            |name: &'static str| text(window, name).and_then(|text| seconds(text).ok_or(Malformed(name)));
        let (start, end) = (time("start")?, time("end")?);
        if start >= end {
            return Err(Malformed("suggestedWindow"));
        }
        let explanation_url = optional_text(&value, "explanationURL")?.map(str::to_owned);
        Ok(RenewalInfo { start, end, explanation_url })
    }
}

/// The identifier of a certificate in renewal information: the key identifier of its authority and its serial number (section 4.1). Both are
/// the contents of their DER values, the number with the sign's zero.
pub fn certificate_id(authority_key: &[u8], serial: &[u8]) -> String {
    format!("{}.{}", encode(authority_key), encode(serial))
}

/// The URL of a certificate's renewal information.
pub fn info_url(renewal_info: &str, certificate_id: &str) -> String {
    format!("{}/{certificate_id}", renewal_info.trim_end_matches('/'))
}

/// When a certificate is due by its dates: a twelfth of its life before its end (manual, 12.8). Seconds since 1970. Without a beginning,
/// seven days before its end.
pub fn due_by_dates(not_before: Option<i64>, not_after: i64) -> i64 {
    let margin = not_before.map_or(SEVEN_DAYS, |begin| not_after.saturating_sub(begin).max(0) / 12);
    not_after.saturating_sub(margin)
}

/// The due time by the authority's suggestion: a random time in its window (section 4.2). `random` is any number.
pub fn due_by_info(info: &RenewalInfo, random: u64) -> i64 {
    let length = info.end.saturating_sub(info.start).unsigned_abs().max(1);
    info.start.saturating_add_unsigned(random % length)
}

/// How long renewal information may be used, in seconds, between a minute and a day: the authority's `Retry-After`, or six hours.
pub fn info_lifetime(retry_after: Option<u64>) -> u64 {
    retry_after.unwrap_or(6 * 3600).clamp(60, 24 * 3600)
}

/// Seconds since 1970 of a time in the form of RFC 3339. Fractions are cut off.
pub fn seconds(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let number = |range: std::ops::Range<usize>| {
        let digits = text.get(range)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<u16>().ok())?
    };
    let small = |range: std::ops::Range<usize>, most: u16| {
        u8::try_from(number(range)?).ok().filter(|number| u16::from(*number) <= most)
    };
    let separators = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let is_formed = separators.into_iter().all(|(at, byte)| bytes.get(at) == Some(&byte))
        && matches!(bytes.get(10), Some(b'T' | b't' | b' '));
    if !is_formed {
        return None;
    }
    let (year, month, day) = (number(0..4)?, small(5..7, 12)?, small(8..10, 31)?);
    let time = [small(11..13, 23)?, small(14..16, 59)?, small(17..19, 60)?];
    if month == 0 || day == 0 {
        return None;
    }
    let rest = text.get(19..)?;
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|character: char| character.is_ascii_digit());
            if zone.len() == fraction.len() {
                return None;
            }
            zone
        }
        None => rest,
    };
    Some(seconds_of(i64::from(year), month, day, time) - zone_offset(rest)?)
}

/// The offset of a zone to UTC in seconds: `Z`, `+02:00`.
fn zone_offset(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "z") {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone.get(1..)?.split_once(':')?;
    let number = |digits: &str, most: i64| {
        let is_number = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<i64>().ok())?.filter(|number| *number <= most)
    };
    Some(sign * (number(hours, 23)? * 3600 + number(minutes, 59)? * 60))
}

const SEVEN_DAYS: i64 = 7 * 24 * 3600;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn renewal_windows_are_not_empty() {
        let read = |start: &str, end: &str| {
            RenewalInfo::read(json!({"suggestedWindow": {"start": start, "end": end}}).to_string().as_bytes())
        };
        let info = read("2025-01-02T04:00:00Z", "2025-01-03T04:00:00Z").expect("it is valid");
        assert_eq!((info.start, info.end), (1_735_790_400, 1_735_876_800));
        assert_eq!(read("2025-01-02T04:00:00Z", "2025-01-02T04:00:00Z"), Err(Malformed("suggestedWindow")));
        assert_eq!(read("soon", "2025-01-02T04:00:00Z"), Err(Malformed("start")));
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_none(text in "([0-9+:TZ.-]{0,30}|\\PC{0,30})") {
            if let Some(time) = seconds(&text) {
                prop_assert!((-62_200_000_000..=253_500_000_000).contains(&time), "{}", time);
            }
        }
    }

    #[test]
    fn reads_times_with_fractions_and_zones() {
        let at = |text| seconds(text);
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("2025-01-02T04:00:00Z"), Some(1_735_790_400));
        assert_eq!(at("2025-01-02T06:00:00.123456+02:00"), Some(1_735_790_400));
        assert_eq!(at("2025-01-02 00:30:00-03:30"), Some(1_735_790_400));
        for wrong in [
            "",
            "2025-01-02",
            "2025-01-02T04:00:00",
            "2025-13-02T04:00:00Z",
            "2025-01-32T04:00:00Z",
            "2025-00-02T04:00:00Z",
            "2025-01-02T24:00:00Z",
            "2025-01-02T04:00:00.Z",
            "2025-01-02T04:00:00+2:00",
            "2025-01-02T04:00:00+02:60",
            "+025-01-02T04:00:00Z",
            "2025-01-02T04:00:00Zulu",
            "2025-01-02T04:00:00\u{e9}",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_certificate_is_due_a_twelfth_of_its_life_before_its_end() {
        let day = 86_400;
        assert_eq!(due_by_dates(Some(0), 90 * day), 90 * day - 90 * day / 12);
        assert_eq!(due_by_dates(Some(0), 6 * day), 6 * day - day / 2);
        assert_eq!(due_by_dates(None, 90 * day), 83 * day);
        assert_eq!(due_by_dates(Some(9), 5), 5, "dates that cross");
        assert_eq!(due_by_dates(Some(i64::MIN), i64::MAX), i64::MAX - i64::MAX / 12);
    }

    #[test]
    fn suggested_times_are_spread_over_the_window() {
        let info = RenewalInfo { start: 1_000, end: 2_000, explanation_url: None };
        assert_eq!(
            [0, 999, 1_000, u64::MAX].map(|random| due_by_info(&info, random)),
            [1_000, 1_999, 1_000, 1_615]
        );
        assert_eq!(
            [None, Some(0), Some(7_200), Some(u64::MAX)].map(info_lifetime),
            [21_600, 60, 7_200, 86_400]
        );
    }

    /// The example of RFC 9773, section 4.1.
    #[test]
    fn identifies_certificates_as_in_rfc_9773() {
        let authority = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0, 0xae, 0x2c,
            0xde, 0x01, 0xc8, 0xd4,
        ];
        let id = certificate_id(&authority, &[0x00, 0x87, 0x65, 0x43, 0x21]);
        assert_eq!(id, "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
        assert_eq!(info_url("https://a/info/", &id), format!("https://a/info/{id}"));
    }
}
