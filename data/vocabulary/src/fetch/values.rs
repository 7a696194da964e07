//! Constructors of samples.

use std::borrow::Cow;
use std::net::IpAddr;

use weir_expr::{FetchResult, Sample, SampleFlags, Value, scratch};
use weir_sys::Address;

/// A constant number.
pub(super) fn number<'c>(value: impl Into<i64>) -> FetchResult<'c> {
    FetchResult::value(Value::Int(value.into()))
}

/// A number that may change before the next evaluation.
pub(super) fn gauge<'c>(value: impl Into<i64>) -> FetchResult<'c> {
    FetchResult::Sample(Sample::new(Value::Int(value.into())).with(SampleFlags::VOLATILE))
}

/// Converts to a signed number. Larger values become `i64::MAX`.
pub(super) fn amount(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A boolean.
pub(super) fn truth<'c>(value: bool) -> FetchResult<'c> {
    FetchResult::value(Value::Bool(value))
}

/// Borrowed text.
pub(super) fn text(bytes: &[u8]) -> FetchResult<'_> {
    FetchResult::value(Value::str(bytes))
}

/// Borrowed text. Missing for `None`.
pub(super) fn text_if(bytes: Option<&[u8]>) -> FetchResult<'_> {
    bytes.map_or(FetchResult::Missing, text)
}

/// A copy of text that cannot be borrowed, in a buffer of `scratch`.
pub(super) fn copied<'c>(bytes: &[u8]) -> FetchResult<'c> {
    let mut copy = scratch::take();
    copy.extend_from_slice(bytes);
    made(copy)
}

/// Owned text, built for the result in a buffer of `scratch`.
pub(super) fn made<'c>(bytes: Vec<u8>) -> FetchResult<'c> {
    FetchResult::value(Value::Str(Cow::Owned(bytes)))
}

/// Owned bytes, built for the result.
pub(super) fn made_binary<'c>(bytes: Vec<u8>) -> FetchResult<'c> {
    FetchResult::value(Value::Bin(Cow::Owned(bytes)))
}

/// The IP address of an endpoint. Missing for UNIX sockets.
pub(super) fn ip<'c>(address: Option<&Address>) -> FetchResult<'c> {
    address
        .and_then(Address::ip)
        .map_or(FetchResult::Missing, |ip: IpAddr| FetchResult::value(Value::from(ip)))
}

/// The port of an endpoint. Missing for UNIX sockets.
pub(super) fn port<'c>(address: Option<&Address>) -> FetchResult<'c> {
    address.and_then(Address::inet).map_or(FetchResult::Missing, |address| number(address.port()))
}

/// The number at the beginning of a string, with an optional minus sign. 0 if `text` does not begin with a
/// number. Saturates if out of range.
pub(super) fn leading_number(text: &[u8]) -> i64 {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let size =
        digits.fold(0i64, |size, digit| size.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    if negative { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_leading_digits_of_a_value() {
        for (text, expected) in [
            ("12", 12),
            ("12abc", 12),
            ("-5", -5),
            ("", 0),
            ("-", 0),
            ("abc", 0),
            ("1.2.3.4", 1),
            ("0x10", 0),
            ("99999999999999999999", i64::MAX),
        ] {
            assert_eq!(leading_number(text.as_bytes()), expected, "{text}");
        }
    }
}
