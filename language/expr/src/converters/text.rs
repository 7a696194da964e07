//! Strings.

use std::borrow::Cow;

use super::{Converter, Run};
use crate::args::Args;
use crate::sample::SampleType::{Int, Str};
use crate::sample::Value;

pub(super) const ROWS: &[Converter] = &[
    Converter::new("length", Str, Int, Run::Pure(length), "Number of bytes"),
    Converter::new("lower", Str, Str, Run::Pure(lower), "Lower case"),
    Converter::new("upper", Str, Str, Run::Pure(upper), "Upper case"),
];

fn length<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    Some(Value::Int(value.bytes()?.len() as i64))
}

fn lower<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    map_bytes(value, |byte| byte.is_ascii_uppercase(), |bytes| bytes.make_ascii_lowercase())
}

fn upper<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    map_bytes(value, |byte| byte.is_ascii_lowercase(), |bytes| bytes.make_ascii_uppercase())
}

/// Changes bytes in place; a borrowed string that needs no change stays borrowed.
fn map_bytes<'a>(value: Value<'a>, touches: fn(&u8) -> bool, change: fn(&mut [u8])) -> Option<Value<'a>> {
    let Value::Str(bytes) = value else { return None };
    if !bytes.iter().any(touches) {
        return Some(Value::Str(bytes));
    }
    let mut bytes = into_buffer(bytes);
    change(&mut bytes);
    Some(Value::Str(Cow::Owned(bytes)))
}

/// The bytes in a buffer of their own.
pub(super) fn into_buffer(bytes: Cow<'_, [u8]>) -> Vec<u8> {
    match bytes {
        Cow::Owned(bytes) => bytes,
        Cow::Borrowed(bytes) => {
            let mut copy = crate::scratch::take();
            copy.extend_from_slice(bytes);
            copy
        }
    }
}
