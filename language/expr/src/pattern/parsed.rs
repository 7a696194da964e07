//! Parsing of one pattern into its comparable form.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::MatchMethod;
use super::delimited::strip;
use super::regex::Regex;
use crate::error::show;
use crate::literal::parse_hex;
use crate::literal::parse_ipv4_abbreviated;
use crate::location::Location;

/// A pattern in its comparable form.
#[derive(Debug, Clone)]
pub(crate) enum ComparablePattern {
    Text,
    /// Bytes that differ from the written text.
    Bytes(Box<[u8]>),
    /// A range of integers, both ends included.
    Range(i64, i64),
    Net4(Ipv4Addr, Ipv4Addr),
    /// An IPv6 network: address and prefix length.
    Net6(Ipv6Addr, u8),
    Regex(Arc<Regex>),
}

/// An operator before integers in an ACL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntOperator {
    Equal,
    GreaterOrEqual,
    Greater,
    LessOrEqual,
    Less,
}

impl IntOperator {
    pub(crate) fn parse(word: &[u8]) -> Option<IntOperator> {
        Some(match word {
            b"eq" => IntOperator::Equal,
            b"ge" => IntOperator::GreaterOrEqual,
            b"gt" => IntOperator::Greater,
            b"le" => IntOperator::LessOrEqual,
            b"lt" => IntOperator::Less,
            _ => return None,
        })
    }

    /// The range in text form that is equivalent to the operator before `text`.
    pub(crate) fn apply(self, text: &[u8]) -> Result<Vec<u8>, String> {
        let (low, high) = parse_range(text)?;
        let nothing = || format!("no number is beyond '{}'", show(text));
        let text = match self {
            IntOperator::Equal => return Ok(text.to_vec()),
            IntOperator::GreaterOrEqual => format!("{low}:"),
            IntOperator::Greater => format!("{}:", low.checked_add(1).ok_or_else(nothing)?),
            IntOperator::LessOrEqual => format!(":{high}"),
            IntOperator::Less => format!(":{}", high.checked_sub(1).ok_or_else(nothing)?),
        };
        Ok(text.into_bytes())
    }
}

impl ComparablePattern {
    /// Parses a pattern of the rule at `at`.
    pub(crate) fn parse(
        method: MatchMethod,
        ignore_case: bool,
        text: &[u8],
        at: &Location,
    ) -> Result<ComparablePattern, String> {
        Ok(match method {
            MatchMethod::Found | MatchMethod::Bool => ComparablePattern::Text,
            MatchMethod::Int | MatchMethod::Len => {
                let (low, high) = parse_range(text)?;
                ComparablePattern::Range(low, high)
            }
            MatchMethod::Ip => parse_net(text)?,
            MatchMethod::Bin => ComparablePattern::Bytes(parse_hex(text)?.into()),
            MatchMethod::Reg => {
                let text = std::str::from_utf8(text).map_err(|_| "a regex must be plain text")?;
                let regex = Regex::new(text, ignore_case, at).map_err(|error| error.to_string())?;
                ComparablePattern::Regex(Arc::new(regex))
            }
            MatchMethod::Str | MatchMethod::Beg | MatchMethod::End | MatchMethod::Sub => {
                if ignore_case && text.iter().any(u8::is_ascii_uppercase) {
                    ComparablePattern::Bytes(text.to_ascii_lowercase().into())
                } else {
                    ComparablePattern::Text
                }
            }
            MatchMethod::Dir | MatchMethod::Dom => {
                let stripped = strip(method, text);
                let key = if ignore_case { stripped.to_ascii_lowercase() } else { stripped.to_vec() };
                if key == text { ComparablePattern::Text } else { ComparablePattern::Bytes(key.into()) }
            }
        })
    }
}

/// `5`, `5:9`, `:9`, `5:`.
pub(crate) fn parse_range(text: &[u8]) -> Result<(i64, i64), String> {
    let shown = show(text);
    let is_symbol = [">", "<", ">=", "<=", "=", "=="].contains(&&*shown);
    let advice = if is_symbol { ": an operator is one of gt, ge, eq, le, lt" } else { "" };
    let number = |text: &str| text.parse::<i64>().map_err(|_| format!("'{shown}' is not a number{advice}"));
    let (low, high) = match shown.split_once(':') {
        None => (number(&shown)?, number(&shown)?),
        Some(("", "")) => (1, 0),
        Some(("", high)) => (i64::MIN, number(high)?),
        Some((low, "")) => (number(low)?, i64::MAX),
        Some((low, high)) => (number(low)?, number(high)?),
    };
    if low > high { Err(format!("'{shown}' is not a valid number range")) } else { Ok((low, high)) }
}

/// A range of versions as a range of numbers: `3:3.1` is `3:196609`.
pub(crate) fn undot(text: &[u8]) -> Result<Vec<u8>, String> {
    let shown = show(text);
    let number = |text: &str| match text.split_once('.') {
        None => Ok(text.to_string()),
        Some((major, minor)) => match (major.parse::<u16>(), minor.parse::<u16>()) {
            (Ok(major), Ok(minor)) => Ok((u32::from(major) << 16 | u32::from(minor)).to_string()),
            _ => Err(format!("'{shown}' is not a version")),
        },
    };
    Ok(match shown.split_once(':') {
        None => number(&shown)?,
        Some((low, high)) => format!("{}:{}", number(low)?, number(high)?),
    }
    .into_bytes())
}

/// An address or a network of either family.
pub(super) fn parse_net(text: &[u8]) -> Result<ComparablePattern, String> {
    Ok(match AddressInNetwork::parse(text)? {
        AddressInNetwork::V4(address, mask) => ComparablePattern::Net4(address & mask, mask),
        AddressInNetwork::V6(address, length) => ComparablePattern::Net6(address & mask6(length), length),
    })
}

/// An address and the network that it is in, as patterns have it: `10.1.2.3/8`. Without a network, it is the address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressInNetwork {
    /// With a mask, which may have gaps.
    V4(Ipv4Addr, Ipv4Addr),
    /// With a prefix length.
    V6(Ipv6Addr, u8),
}

impl AddressInNetwork {
    /// Parses an address, and a mask or a length after a slash.
    ///
    /// # Errors
    /// A message if the text is not an address.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let error = || format!("'{}' is not a valid IPv4 or IPv6 address", show(text));
        let text = std::str::from_utf8(text).map_err(|_| error())?;
        let (address, mask) = match text.split_once('/') {
            Some((address, mask)) => (address, Some(mask)),
            None => (text, None),
        };
        if let Some(address) = parse_ipv4_abbreviated(address) {
            let mask = match mask {
                None => Ipv4Addr::BROADCAST,
                Some(mask) => match mask.parse::<u32>() {
                    Ok(length @ 0..=32) => Ipv4Addr::from(u32::MAX.checked_shl(32 - length).unwrap_or(0)),
                    Ok(_) => return Err(format!("{}: a mask of IPv4 has 32 bits at most", error())),
                    Err(_) => mask.parse().map_err(|_| error())?,
                },
            };
            return Ok(AddressInNetwork::V4(address, mask));
        }
        let address: Ipv6Addr = address.parse().map_err(|_| error())?;
        let length = match mask {
            None => 128,
            Some(mask) => mask.parse::<u8>().ok().filter(|length| *length <= 128).ok_or_else(error)?,
        };
        Ok(AddressInNetwork::V6(address, length))
    }

    /// Whether two networks match: the wider one holds the address of the other. The bits that one network ignores have to be zero in it, or
    /// ignored by both.
    pub fn matches(self, other: Self) -> bool {
        match (self, other) {
            (AddressInNetwork::V4(one, mask), AddressInNetwork::V4(two, other)) => one & other == two & mask,
            (AddressInNetwork::V6(one, length), AddressInNetwork::V6(two, other)) => {
                one & mask6(other) == two & mask6(length)
            }
            _ => false,
        }
    }
}

/// The mask of an IPv6 prefix length.
fn mask6(length: u8) -> Ipv6Addr {
    Ipv6Addr::from(u128::MAX.checked_shl(128 - u32::from(length.min(128))).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_integer_range_patterns() {
        for (text, expected) in [
            ("5", Some((5, 5))),
            ("-5", Some((-5, -5))),
            ("1024:65535", Some((1024, 65535))),
            (":5", Some((i64::MIN, 5))),
            ("5:", Some((5, i64::MAX))),
            ("3.1", None),
            ("9:5", None),
            (":", None),
            ("", None),
            ("5x", None),
        ] {
            assert_eq!(parse_range(text.as_bytes()).ok(), expected, "{text}");
        }
    }

    #[test]
    fn networks_match_in_either_order() {
        let check = |one: &str, other: &str, expected: bool| {
            let [one, other] =
                [one, other].map(|text| AddressInNetwork::parse(text.as_bytes()).expect("a network"));
            assert_eq!((one.matches(other), other.matches(one)), (expected, expected), "{one:?} {other:?}");
        };
        check("127.0.0.1/32", "127.0.0.0/8", true);
        check("127.0.0.1", "127.0.0.2", false);
        check("0.0.0.0/0", "127.0.0.1", true);
        check("10.1.2.3/8", "10.9.9.9/8", true);
        check("10.1.2.3/8", "10.9.9.9/16", false);
        check("2001:db8::1", "2001:db8::/32", true);
        check("2001:db9::1", "2001:db8::/32", false);
        check("::/0", "::1", true);
        check("::ffff:127.0.0.1", "127.0.0.1", false);
    }

    #[test]
    fn parses_dotted_versions_as_two_numbers() {
        assert_eq!(undot(b"3.0:3.1").unwrap(), b"196608:196609");
        assert_eq!(undot(b"3.3").unwrap(), b"196611");
        assert_eq!(undot(b"5").unwrap(), b"5");
        assert!(undot(b"3.x").is_err());
    }

    #[test]
    fn integer_operators_become_ranges() {
        for (operator, expected) in [("eq", "5"), ("ge", "5:"), ("gt", "6:"), ("le", ":5"), ("lt", ":4")] {
            let operator = IntOperator::parse(operator.as_bytes()).unwrap();
            assert_eq!(operator.apply(b"5").unwrap(), expected.as_bytes());
        }
        // An operator that matches no number must not match the last one by saturation.
        assert!(IntOperator::Greater.apply(b"9223372036854775807").is_err());
        assert!(IntOperator::Less.apply(b"-9223372036854775808").is_err());
        assert_eq!(IntOperator::LessOrEqual.apply(b"9223372036854775807").unwrap(), b":9223372036854775807");
    }

    #[test]
    fn parses_network_patterns() {
        let check = |text: &str, expected: Option<&str>| {
            let shown = match parse_net(text.as_bytes()) {
                Ok(ComparablePattern::Net4(net, mask)) => Some(format!("{net}/{mask}")),
                Ok(ComparablePattern::Net6(net, length)) => Some(format!("{net}/{length}")),
                _ => None,
            };
            assert_eq!(shown.as_deref(), expected, "{text}");
        };
        check("10.1.2.3", Some("10.1.2.3/255.255.255.255"));
        check("10.1.2.3/8", Some("10.0.0.0/255.0.0.0"));
        check("192.168.1/22", Some("192.168.0.0/255.255.252.0"));
        check("127.1/0", Some("0.0.0.0/0.0.0.0"));
        check("10.0.0.9/255.0.0.255", Some("10.0.0.9/255.0.0.255"));
        check("::1", Some("::1/128"));
        check("2001:db8::5/32", Some("2001:db8::/32"));
        check("10.0.0.0/33", None);
        check("::/129", None);
        check("localhost", None);
        check("", None);
    }
}
