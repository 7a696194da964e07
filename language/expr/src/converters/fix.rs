//! FIX (Financial Information eXchange): whether a message is complete and valid, and the value of one of its tags.
//!
//! A message is a run of `tag=value` fields, each ended by the byte 1: BeginString, BodyLength and MsgType first,
//! CheckSum last. BodyLength counts from the byte after its own field to the CheckSum field; CheckSum is the sum of all
//! bytes before its field, modulo 256, in three digits.

use super::{Converter, Run};
use crate::args::{Arg, ArgKind, Args};
use crate::sample::SampleType::{Bin, Bool};
use crate::sample::Value;
use crate::scope::ExpressionScope;

pub(super) const ROWS: &[Converter] = &[
    Converter::new("fix_is_valid", Bin, Bool, Run::Pure(fix_is_valid), "Whether a FIX message is sound")
        .decides(),
    Converter::new(
        "fix_tag_value",
        Bin,
        Bin,
        Run::Pure(fix_tag_value),
        "The value of a tag of a FIX message",
    )
    .args(1, &[ArgKind::Str])
    .check(check_tag)
    .decides(),
];

const END: u8 = 1;
const BEGIN_STRING: u32 = 8;
const BODY_LENGTH: u32 = 9;
const CHECK_SUM: u32 = 10;
const MSG_TYPE: u32 = 35;

/// The tags that may be given by name.
const NAMES: &[(&[u8], u32)] = &[
    (b"BeginString", BEGIN_STRING),
    (b"BodyLength", BODY_LENGTH),
    (b"MsgType", MSG_TYPE),
    (b"SenderCompID", 49),
    (b"TargetCompID", 56),
    (b"CheckSum", CHECK_SUM),
];

/// The known versions; FIXT is the transport of those after 4.4.
const VERSIONS: &[&[u8]] = &[b"FIX.4.0", b"FIX.4.1", b"FIX.4.2", b"FIX.4.3", b"FIX.4.4", b"FIXT.1.1"];

/// One field: tag, value, and the offset of the next field.
struct FixField<'f> {
    tag: u32,
    value: &'f [u8],
    next: usize,
}

/// The field at an offset of the message.
enum At<'f> {
    Field(FixField<'f>),
    /// The end of the field has not arrived yet.
    Incomplete,
    /// No field: an empty or odd tag, an empty value, no `=`.
    Broken,
}

fn field_at(message: &[u8], from: usize) -> At<'_> {
    let rest = &message[from..];
    let end = rest.iter().position(|byte| *byte == END);
    let Some(equals) = rest[..end.unwrap_or(rest.len())].iter().position(|byte| *byte == b'=') else {
        return if end.is_some() { At::Broken } else { At::Incomplete };
    };
    let Some(tag) = number(&rest[..equals]) else { return At::Broken };
    match end {
        Some(end) if end > equals + 1 => {
            At::Field(FixField { tag, value: &rest[equals + 1..end], next: from + end + 1 })
        }
        Some(_) => At::Broken,
        None => At::Incomplete,
    }
}

/// Parses a tag or a length. None unless it consists only of digits and fits 32 bits.
fn number(digits: &[u8]) -> Option<u32> {
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// None while more bytes may complete the message.
fn fix_is_valid<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    validity(value.bytes()?).map(Value::Bool)
}

fn validity(message: &[u8]) -> Option<bool> {
    let (mut at, mut count, mut body) = (0, 0, 0..0);
    loop {
        let field = match field_at(message, at) {
            At::Field(field) => field,
            At::Incomplete => return None,
            At::Broken => return Some(false),
        };
        let in_place = match count {
            0 => field.tag == BEGIN_STRING && VERSIONS.contains(&field.value),
            1 => match number(field.value) {
                Some(length) if field.tag == BODY_LENGTH => {
                    body = field.next..field.next.saturating_add(length as usize);
                    true
                }
                _ => false,
            },
            2 => field.tag == MSG_TYPE,
            _ => true,
        };
        if !in_place || (count > 1 && field.tag != CHECK_SUM && field.next > body.end) {
            return Some(false);
        }
        if count > 1 && field.tag == CHECK_SUM {
            let sum = message[..at].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
            return Some(at == body.end && field.value == format!("{sum:03}").as_bytes());
        }
        (at, count) = (field.next, count + 1);
    }
}

fn check_tag(args: &mut Args, _: &ExpressionScope<'_>) -> Result<(), String> {
    let word = args.str(0).unwrap_or_default();
    let named = NAMES.iter().find(|(name, _)| *name == word).map(|(_, tag)| *tag);
    let Some(tag) = named.or_else(|| number(word).filter(|tag| *tag > 0)) else {
        return Err(format!("unknown FIX tag name '{}'", String::from_utf8_lossy(word)));
    };
    args.set(0, Arg::Int(i64::from(tag)));
    Ok(())
}

fn fix_tag_value<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    let (message, tag) = (value.bytes()?, args.int(0)?);
    let mut at = 0;
    while let At::Field(field) = field_at(message, at) {
        if i64::from(field.tag) == tag {
            return Some(Value::Bin(field.value.to_vec().into()));
        }
        at = field.next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with this body and the correct length and checksum.
    fn message(body: &str) -> Vec<u8> {
        let mut text = format!("8=FIX.4.4|9={}|{body}", body.len()).replace('|', "\x01").into_bytes();
        let sum = text.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        text.extend(format!("10={sum:03}\x01").bytes());
        text
    }

    #[test]
    fn a_fix_message_is_valid_and_its_prefixes_are_undecided() {
        let whole = message("35=A|49=CLIENT1|56=EXECUTOR|");
        assert_eq!(validity(&whole), Some(true));
        for cut in 0..whole.len() {
            assert_eq!(validity(&whole[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn malformed_fix_messages_are_invalid() {
        let check = |text: &str| {
            assert_eq!(validity(text.replace('|', "\x01").as_bytes()), Some(false), "{text}");
        };
        check("9=5|8=FIX.4.4|35=A|10=000|");
        check("8=FIX.9.9|9=5|35=A|10=000|");
        check("8=FIX.4.4|35=A|9=5|10=000|");
        check("8=FIX.4.4|9=5|49=A|10=000|");
        check("8=FIX.4.4|9=6|35=A|10=000|");
        check("8=FIX.4.4|9=5|35=A|10=000|");
        check("8=FIX.4.4|9=5|35=A|10=00|");
        check("8=FIX.4.4|9=5|=A|10=000|");
        check("8=FIX.4.4|9=5|35=|10=000|");
        check("8=FIX.4.4|9=5|35|10=000|");
        check("8=FIX.4.4|9=5|x=A|10=000|");
    }

    #[test]
    fn fix_tag_value_returns_the_value_of_a_tag() {
        let whole = message("35=A|49=CLIENT1|");
        let check = |tag: u32, expected: Option<&[u8]>| {
            let mut args = Args::default();
            args.set(0, Arg::Int(i64::from(tag)));
            let value = fix_tag_value(Value::Bin(whole.clone().into()), &args).map(Value::into_owned);
            assert_eq!(value, expected.map(|bytes| Value::Bin(bytes.to_vec().into())));
        };
        check(8, Some(b"FIX.4.4"));
        check(49, Some(b"CLIENT1"));
        check(56, None);
    }
}
