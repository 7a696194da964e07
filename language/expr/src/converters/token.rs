//! JSON Web Tokens (RFC 7519): the values in their parts. Signatures are not verified here.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::json::{check_json_query, query};
use super::{Converter, Run};
use crate::args::{ArgKind, Args};
use crate::sample::SampleType::{Any, Bin};
use crate::sample::Value;
use crate::scope::ExpressionScope;
use crate::scratch;

pub(super) const ROWS: &[Converter] = &[
    Converter::new(
        "jwt_header_query",
        Bin,
        Any,
        Run::Pure(header),
        "The header of a token, or one of its fields",
    )
    .args(0, &[ArgKind::Str, ArgKind::Str])
    .check(check),
    Converter::new(
        "jwt_payload_query",
        Bin,
        Any,
        Run::Pure(payload),
        "The payload of a token, or one of its claims",
    )
    .args(0, &[ArgKind::Str, ArgKind::Str])
    .check(check),
];

/// Without a path, the result is the whole part.
fn check(args: &mut Args, scope: &ExpressionScope<'_>) -> Result<(), String> {
    match args.str(0) {
        None => Ok(()),
        Some(_) => check_json_query(args, scope),
    }
}

fn header<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    part(value, args, 0)
}

fn payload<'a>(value: Value<'a>, args: &'a Args) -> Option<Value<'a>> {
    part(value, args, 1)
}

/// One of the parts between the dots. Their number is not checked, as in HAProxy: an encrypted token has five parts.
fn part<'a>(value: Value<'a>, args: &'a Args, index: usize) -> Option<Value<'a>> {
    let token = value.bytes()?;
    let wanted = token.split(|byte| *byte == b'.').nth(index)?;
    let mut decoded = scratch::take();
    let done = URL_SAFE_NO_PAD.decode_vec(wanted, &mut decoded).is_ok();
    scratch::recycle(value);
    if !done {
        scratch::give(decoded);
        return None;
    }
    if args.is_empty() {
        return Some(Value::Str(Cow::Owned(decoded)));
    }
    let found = query(&decoded, args);
    scratch::give(decoded);
    found
}
