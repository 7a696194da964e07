//! Numbers with units: times (`us` to `d`) and sizes (`k`, `m`, `g`), and plain integers.
//!
//! Parsers return small errors. [`describe_time`](TimeError::describe) and similar methods turn them into HAProxy's messages for
//! a keyword.

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// `us`
    Microseconds,
    /// `ms`
    Milliseconds,
    /// `s`
    Seconds,
    /// `m`
    Minutes,
    /// `h`
    Hours,
    /// `d`
    Days,
}

/// Why a string is not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeError {
    Empty,
    /// More than [`MAX_TIME`] of the wanted unit.
    Overflow,
    /// A character that is neither digit nor unit, at this byte.
    Unexpected(char, usize),
}

/// Why a string is not a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizeError {
    Empty,
    /// More than the largest allowed value.
    Overflow,
    /// A character that is neither digit nor unit, at this byte.
    Unexpected(char, usize),
}

/// The largest time in the unit of the keyword: timers are signed 32-bit milliseconds.
pub const MAX_TIME: u64 = i32::MAX as u64;

/// Parses a time. `default` is the unit of a number without a unit, and of the result. The result is rounded up, so only zero
/// gives zero.
pub fn parse_time(text: &str, default: TimeUnit) -> Result<u64, TimeError> {
    let (value, length) = parse_time_prefix(text, default)?;
    match text[length..].chars().next() {
        None => Ok(value),
        Some(character) => Err(TimeError::Unexpected(character, length)),
    }
}

/// Parses a time that other characters may follow, such as `30sec`. Returns its value and its length in bytes.
pub fn parse_time_prefix(text: &str, default: TimeUnit) -> Result<(u64, usize), TimeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return Err(text.chars().next().map_or(TimeError::Empty, |first| TimeError::Unexpected(first, 0)));
    }
    let known = TimeUnit::ALL.into_iter().find(|unit| suffix.starts_with(unit.suffix()));
    let (unit, length) = match (known, suffix.chars().next()) {
        (Some(unit), _) => (unit, digits + unit.suffix().len()),
        (None, None) => (default, digits),
        (None, Some(character)) => return Err(TimeError::Unexpected(character, digits)),
    };
    let value: u128 = number.parse().map_err(|_| TimeError::Overflow)?;
    let micros = value.checked_mul(unit.microseconds().into()).ok_or(TimeError::Overflow)?;
    let result = micros.div_ceil(default.microseconds().into());
    let value = u64::try_from(result).ok().filter(|&value| value <= MAX_TIME).ok_or(TimeError::Overflow)?;
    Ok((value, length))
}

/// Parses a size in bytes (or in the unit of the setting): a number, optionally with `k`, `m` or `g` in either case, which are
/// powers of 1024.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return Err(text.chars().next().map_or(SizeError::Empty, |first| SizeError::Unexpected(first, 0)));
    }
    let shift = match suffix {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => {
            let known = usize::from(suffix.starts_with(['k', 'K', 'm', 'M', 'g', 'G']));
            let at = digits + known;
            let character = text[at..].chars().next().unwrap_or('\0');
            return Err(SizeError::Unexpected(character, at));
        }
    };
    let value: u64 = number.parse().map_err(|_| SizeError::Overflow)?;
    value.checked_mul(1 << shift).ok_or(SizeError::Overflow)
}

/// Parses a decimal integer: an optional sign and digits only.
pub fn parse_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    text.parse().ok()
}

impl TimeUnit {
    /// All units. A unit that begins like another one comes before it.
    const ALL: [TimeUnit; 6] =
        [Self::Microseconds, Self::Milliseconds, Self::Seconds, Self::Minutes, Self::Hours, Self::Days];

    /// The unit in microseconds.
    pub fn microseconds(self) -> u64 {
        match self {
            Self::Microseconds => 1,
            Self::Milliseconds => 1_000,
            Self::Seconds => 1_000_000,
            Self::Minutes => 60_000_000,
            Self::Hours => 3_600_000_000,
            Self::Days => 86_400_000_000,
        }
    }

    /// The suffix of the unit in the configuration.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
            Self::Minutes => "m",
            Self::Hours => "h",
            Self::Days => "d",
        }
    }
}

impl TimeError {
    /// The error message for the argument `text` of `keyword`, counted in `unit`.
    pub fn describe(self, keyword: &str, text: &str, unit: TimeUnit) -> String {
        match self {
            Self::Empty => format!("'{keyword}' expects a time value"),
            Self::Unexpected(character, _) => format!("unexpected character '{character}' in '{keyword}'"),
            Self::Overflow => format!(
                "timer overflow in argument '{text}' to '{keyword}' (maximum value is {MAX_TIME} {}{})",
                unit.suffix(),
                if unit == TimeUnit::Milliseconds { " or ~24.8 days" } else { "" }
            ),
        }
    }
}

impl SizeError {
    /// The error message for the argument `text` of `keyword`.
    pub fn describe(self, keyword: &str, text: &str) -> String {
        match self {
            Self::Empty => format!("'{keyword}' expects a size"),
            Self::Unexpected(character, _) => {
                format!("unexpected character '{character}' in size argument '{text}' of '{keyword}'")
            }
            Self::Overflow => format!("size overflow in argument '{text}' to '{keyword}'"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_time(text: &str, expected: Result<u64, TimeError>) {
        assert_eq!(parse_time(text, TimeUnit::Milliseconds), expected, "{text}");
    }

    #[test]
    fn parses_times_in_milliseconds() {
        check_time("10", Ok(10));
        check_time("10ms", Ok(10));
        check_time("10s", Ok(10_000));
        check_time("2m", Ok(120_000));
        check_time("1h", Ok(3_600_000));
        check_time("1d", Ok(86_400_000));
        check_time("0us", Ok(0));
        check_time("1us", Ok(1));
        check_time("1001us", Ok(2));
        check_time("2147483647", Ok(MAX_TIME));
        for text in ["2147483648", "25d", "597h", "18446744073709551617", &"9".repeat(50)] {
            check_time(text, Err(TimeError::Overflow));
        }
        check_time("", Err(TimeError::Empty));
        check_time("-1", Err(TimeError::Unexpected('-', 0)));
        check_time("1.5s", Err(TimeError::Unexpected('.', 1)));
        check_time("10S", Err(TimeError::Unexpected('S', 2)));
        check_time("10sx", Err(TimeError::Unexpected('x', 3)));
        check_time("10ms1", Err(TimeError::Unexpected('1', 4)));
        check_time("10 s", Err(TimeError::Unexpected(' ', 2)));
    }

    #[test]
    fn parses_a_time_prefix() {
        let read = |text| parse_time_prefix(text, TimeUnit::Milliseconds);
        assert_eq!(read("30sec"), Ok((30_000, 3)));
        assert_eq!(read("15min"), Ok((900_000, 3)));
        assert_eq!(read("10msec"), Ok((10, 4)));
        assert_eq!(read("10usx"), Ok((1, 4)));
        assert_eq!(read("10"), Ok((10, 2)));
        assert_eq!(read("10x"), Err(TimeError::Unexpected('x', 2)));
        assert_eq!(read("10u"), Err(TimeError::Unexpected('u', 2)));
        assert_eq!(read("25days"), Err(TimeError::Overflow));
    }

    #[test]
    fn the_default_unit_of_a_time_is_also_its_result_unit() {
        assert_eq!(parse_time("5", TimeUnit::Seconds), Ok(5));
        assert_eq!(parse_time("1m", TimeUnit::Seconds), Ok(60));
        assert_eq!(parse_time("1500ms", TimeUnit::Seconds), Ok(2));
        assert_eq!(parse_time("1", TimeUnit::Microseconds), Ok(1));
    }

    #[test]
    fn parses_sizes() {
        assert_eq!(parse_size("16384"), Ok(16384));
        assert_eq!(parse_size("16k"), Ok(16384));
        assert_eq!(parse_size("1M"), Ok(1 << 20));
        assert_eq!(parse_size("4g"), Ok(4 << 30));
        assert_eq!(parse_size(""), Err(SizeError::Empty));
        assert_eq!(parse_size("1.5k"), Err(SizeError::Unexpected('.', 1)));
        assert_eq!(parse_size("16kB"), Err(SizeError::Unexpected('B', 3)));
        assert_eq!(parse_size("99999999999999999999"), Err(SizeError::Overflow));
        assert_eq!(parse_size("18446744073709551615g"), Err(SizeError::Overflow));
    }

    #[test]
    fn parses_integers() {
        assert_eq!(parse_integer("-12"), Some(-12));
        assert_eq!(parse_integer("+0"), Some(0));
        for text in ["", "-", "2x", " 1", "1 ", "1.5", "99999999999999999999"] {
            assert_eq!(parse_integer(text), None, "{text}");
        }
    }

    #[test]
    fn time_and_size_errors_have_haproxys_messages() {
        let overflow = TimeError::Overflow.describe("timeout client", "25d", TimeUnit::Milliseconds);
        assert_eq!(
            overflow,
            "timer overflow in argument '25d' to 'timeout client' (maximum value is 2147483647 ms or ~24.8 days)"
        );
        let unexpected =
            TimeError::Unexpected('y', 2).describe("timeout client", "10y", TimeUnit::Milliseconds);
        assert_eq!(unexpected, "unexpected character 'y' in 'timeout client'");
    }
}
