//! Results of certificate checks.

use super::{Converter, Run};
use crate::args::Args;
use crate::sample::SampleType::{Int, Str};
use crate::sample::Value;
use crate::scratch;
use crate::x509_errors;

pub(super) const ROWS: &[Converter] = &[Converter::new(
    "x509_v_err_str",
    Int,
    Str,
    Run::Pure(name),
    "OpenSSL's name for the number of a certificate's error",
)];

/// A number without a name stays a number, as in HAProxy 3.2.
fn name<'a>(value: Value<'a>, _: &'a Args) -> Option<Value<'a>> {
    let Value::Int(code) = value else { return None };
    let mut out = scratch::take();
    match x509_errors::name(code) {
        Some(name) => out.extend_from_slice(name.as_bytes()),
        None => out.extend_from_slice((code as u64).to_string().as_bytes()),
    }
    Some(Value::Str(out.into()))
}
