//! The automatic conversions between types.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{SampleType, Value};
use crate::scratch;

impl SampleType {
    /// Whether values of this type are accepted where `target` is expected. A single value may still not fit: a string that is not an
    /// address.
    pub const fn casts_to(self, target: SampleType) -> bool {
        use SampleType::{Addr, Any, Bin, Bool, Int, Ipv4, Ipv6, Method, Same, Str};
        match self {
            Any | Same => true,
            _ if matches!(target, Any | Same) => true,
            Bool => matches!(target, Bool | Int | Str | Bin),
            Int => matches!(target, Bool | Int | Addr | Ipv4 | Ipv6 | Str | Bin),
            // An address of unknown family may be an IPv4 one, which can be cast to an integer.
            Ipv4 | Addr => matches!(target, Int | Addr | Ipv4 | Ipv6 | Str | Bin),
            Ipv6 => matches!(target, Addr | Ipv4 | Ipv6 | Str | Bin),
            Str => true,
            Bin | Method => matches!(target, Bin | Method | Str),
        }
    }
}

impl<'a> Value<'a> {
    /// Casts the value to another type. None if it cannot be converted.
    #[inline]
    pub fn cast(self, target: SampleType) -> Option<Value<'a>> {
        if self.kind() == target { Some(self) } else { self.convert(target) }
    }

    fn convert(self, target: SampleType) -> Option<Value<'a>> {
        use SampleType::{Addr, Any, Bin, Bool, Int, Ipv4, Ipv6, Method, Same, Str};
        Some(match (self, target) {
            (value, Any | Same) => value,
            (value @ Value::Bool(_), Bool) => value,
            (Value::Bool(value), Int) => Value::Int(value.into()),
            (Value::Bool(value), Str) => Value::str(if value { b"1" } else { b"0" }),

            (Value::Bool(value), Bin) => owned(&i64::from(value).to_be_bytes()),

            (value @ Value::Int(_), Int) => value,
            (Value::Int(value), Bool) => Value::Bool(value != 0),
            (Value::Int(value), Addr | Ipv4) => Value::Ipv4(Ipv4Addr::from(value as u32)),
            (Value::Int(value), Ipv6) => Value::Ipv6(Ipv4Addr::from(value as u32).to_ipv6_mapped()),
            (Value::Int(value), Str) => text(format_args!("{value}")),
            (Value::Int(value), Bin) => owned(&value.to_be_bytes()),

            (value @ Value::Ipv4(_), Addr | Ipv4) => value,
            (Value::Ipv4(address), Ipv6) => Value::Ipv6(address.to_ipv6_mapped()),
            (Value::Ipv4(address), Int) => Value::Int(u32::from(address).into()),
            (Value::Ipv4(address), Str) => text(format_args!("{address}")),
            (Value::Ipv4(address), Bin) => owned(&address.octets()),

            (value @ Value::Ipv6(_), Addr | Ipv6) => value,
            (Value::Ipv6(address), Ipv4) => Value::Ipv4(embedded_ipv4(address)?),
            (Value::Ipv6(address), Str) => text(format_args!("{}", Ipv6Text(address))),
            (Value::Ipv6(address), Bin) => owned(&address.octets()),

            (value @ Value::Str(_), Str) => value,
            (Value::Str(bytes), Bin) => Value::Bin(bytes),
            (Value::Str(bytes), Method) => Value::Method(bytes),
            (Value::Str(bytes), Bool) => Value::Bool(parse_int(&bytes)? != 0),
            (Value::Str(bytes), Int) => Value::Int(parse_int(&bytes)?),
            (Value::Str(bytes), Addr) => match leading_ipv4(&bytes) {
                Some(address) => Value::Ipv4(address),
                None => Value::Ipv6(parse_ipv6(&bytes)?),
            },
            (Value::Str(bytes), Ipv4) => Value::Ipv4(match leading_ipv4(&bytes) {
                Some(address) => address,
                None => embedded_ipv4(parse_ipv6(&bytes)?)?,
            }),
            (Value::Str(bytes), Ipv6) => Value::Ipv6(match parse_ipv6(&bytes) {
                Some(address) => address,
                None => leading_ipv4(&bytes)?.to_ipv6_mapped(),
            }),

            (value @ Value::Bin(_), Bin) => value,
            (Value::Bin(bytes), Str) => Value::Str(until_nul(bytes)),
            (Value::Bin(bytes), Method) => Value::Method(bytes),

            (value @ Value::Method(_), Method) => value,
            (Value::Method(bytes), Str) => Value::Str(bytes),
            (Value::Method(bytes), Bin) => Value::Bin(bytes),
            _ => return None,
        })
    }
}

fn text(arguments: fmt::Arguments<'_>) -> Value<'static> {
    let mut buffer = scratch::take();
    let _ = buffer.write_fmt(arguments);
    Value::Str(Cow::Owned(buffer))
}

fn owned(bytes: &[u8]) -> Value<'static> {
    let mut buffer = scratch::take();
    buffer.extend_from_slice(bytes);
    Value::Bin(Cow::Owned(buffer))
}

/// An IPv6 address as inet_ntop(3) writes it. Unlike the standard library, it also writes IPv4-compatible addresses with dots
/// (`::1.2.3.4`).
pub(crate) struct Ipv6Text(pub Ipv6Addr);

impl fmt::Display for Ipv6Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.segments() {
            [0, 0, 0, 0, 0, 0, high, low] if high != 0 => {
                write!(f, "::{}", Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
            }
            _ => write!(f, "{}", self.0),
        }
    }
}

/// The IPv4 address inside a mapped, 6to4 or compatible IPv6 address. None for other forms.
pub(crate) fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = address.octets();
    let at = |from: usize| Ipv4Addr::new(octets[from], octets[from + 1], octets[from + 2], octets[from + 3]);
    let head_is_zero = octets[..10].iter().all(|byte| *byte == 0);
    match octets[10..12] {
        [0xff, 0xff] | [0, 0] if head_is_zero => Some(at(12)),
        _ if octets[..2] == [0x20, 0x02] => Some(at(2)),
        _ => None,
    }
}

/// The integer at the beginning of a string: an optional sign, then digits. The rest is ignored. Saturates at the limits, and is zero
/// without a digit. `None` only for an empty string.
pub(crate) fn parse_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [] => return None,
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let mut value: i64 = 0;
    for byte in digits.iter().take_while(|byte| byte.is_ascii_digit()) {
        let digit = i64::from(byte - b'0');
        value = value.saturating_mul(10);
        value = if negative { value.saturating_sub(digit) } else { value.saturating_add(digit) };
    }
    Some(value)
}

/// A binary that is read as a string ends at the first zero byte (manual, 7.1.3).
fn until_nul(bytes: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let Some(end) = memchr::memchr(0, &bytes) else { return bytes };
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..end]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(end);
            Cow::Owned(bytes)
        }
    }
}

/// The address at the beginning of a string. Any byte but a digit or a dot ends it, as in HAProxy: clients may appear with their
/// ports (`10.1.2.3:80`), and rules about addresses must match the address.
fn leading_ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(bytes.len());
    parse_ipv4(&bytes[..end])
}

pub(crate) fn parse_ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

pub(crate) fn parse_ipv6(bytes: &[u8]) -> Option<Ipv6Addr> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of HAProxy.
    #[test]
    fn type_conversions_give_haproxys_results() {
        let check = |value: Value<'static>, target, expected: Option<Value<'static>>| {
            assert_eq!(value.clone().cast(target), expected, "{value:?} as {target:?}");
        };
        let v4 = |text: &str| Value::Ipv4(text.parse().unwrap());
        let v6 = |text: &str| Value::Ipv6(text.parse().unwrap());
        use SampleType::{Addr, Bin, Bool, Int, Ipv4, Ipv6, Str};
        check(Value::bin(b"a\0b\0"), Str, Some(Value::str(b"a")));
        check(Value::Bool(true), Bin, Some(Value::bin(&[0, 0, 0, 0, 0, 0, 0, 1])));
        check(Value::Bool(true), Str, Some(Value::str(b"1")));
        check(Value::Int(-1), Bin, Some(Value::bin(&[255; 8])));
        check(v4("1.2.3.4"), Int, Some(Value::Int(16_909_060)));
        check(Value::Int(16_909_060), Addr, Some(v4("1.2.3.4")));
        check(v6("::ffff:1.2.3.4"), Ipv4, Some(v4("1.2.3.4")));
        check(v6("2001:db8::1"), Ipv4, None);
        check(v6("::1.2.3.4"), Str, Some(Value::str(b"::1.2.3.4")));
        check(v6("::ffff:1.2.3.4"), Str, Some(Value::str(b"::ffff:1.2.3.4")));
        check(v6("::1"), Str, Some(Value::str(b"::1")));
        check(v6("2001:DB8::1"), Str, Some(Value::str(b"2001:db8::1")));
        check(Value::str(b"1.2"), Addr, None);
        for text in ["1.2.3.4:80", "1.2.3.4/8", "1.2.3.4, 5.6.7.8", "1.2.3.4x", "1.2.3.4"] {
            check(Value::Str(text.as_bytes().into()), Addr, Some(v4("1.2.3.4")));
            check(Value::Str(text.as_bytes().into()), Ipv4, Some(v4("1.2.3.4")));
            check(Value::Str(text.as_bytes().into()), Ipv6, Some(v6("::ffff:1.2.3.4")));
        }
        for text in ["1.2.3.4.5", "1.2.3.4.", "x1.2.3.4", "1.2.3:4", "1.2.3.256", "::1:80x", "::1/64", ""] {
            check(Value::Str(text.as_bytes().into()), Addr, None);
        }
        check(Value::str(b"true"), Bool, Some(Value::Bool(false)));
        check(Value::str(b"5"), Bool, Some(Value::Bool(true)));
        for (text, number) in [
            ("12ab", Some(12)),
            ("ab", Some(0)),
            ("-5", Some(-5)),
            ("+5", Some(5)),
            (" 5", Some(0)),
            ("0x10", Some(0)),
            ("010", Some(10)),
            ("", None),
            ("99999999999999999999", Some(i64::MAX)),
            ("-99999999999999999999", Some(i64::MIN)),
        ] {
            check(Value::str(text.as_bytes()), Int, number.map(Value::Int));
        }
    }

    #[test]
    fn values_convert_exactly_as_their_types_declare() {
        let values = [
            Value::Bool(true),
            Value::Int(5),
            Value::Ipv4(Ipv4Addr::LOCALHOST),
            Value::Ipv6(Ipv4Addr::LOCALHOST.to_ipv6_mapped()),
            Value::str(b"1.2.3.4"),
            Value::bin(b"1"),
            Value::method(b"GET"),
        ];
        for value in values {
            for target in [
                SampleType::Bool,
                SampleType::Int,
                SampleType::Addr,
                SampleType::Ipv4,
                SampleType::Ipv6,
                SampleType::Str,
                SampleType::Bin,
                SampleType::Method,
            ] {
                let expected = value.kind().casts_to(target);
                assert_eq!(value.clone().cast(target).is_some(), expected, "{value:?} as {target:?}");
            }
        }
    }
}
