//! `Concat`: texts that a script joins later.

use weir_lua::Misuse;

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult};

pub(super) static CLASS: ClassDecl = ClassDecl::new("Concat", &[("add", add), ("dump", dump)]);

/// `core.concat()`. The texts are the elements of the object, its number is that of their bytes.
pub(super) fn new(call: &ApiCall<'_>) -> ApiResult {
    LateClass::Concat.push(call, 0);
    call.results(1)
}

fn add(call: &ApiCall<'_>) -> ApiResult {
    let bytes = LateClass::Concat.number(call, 1)?;
    // A number becomes a text.
    let bytes = bytes.saturating_add(call.expect_bytes(2)?.len() as i64);
    call.parts(1).set_first(bytes);
    let last = call.length(1) as i64 + 1;
    call.push_value(1);
    call.push_value(2);
    call.set_index(last);
    call.results(0)
}

fn dump(call: &ApiCall<'_>) -> ApiResult {
    let bytes = LateClass::Concat.number(call, 1)?;
    if bytes > longest(call) {
        return Err(Misuse::text("not enough memory"));
    }
    let mut joined = Vec::with_capacity(bytes.max(0) as usize);
    for position in 1..=call.length(1) as i64 {
        call.with_index(1, position, |stack| joined.extend_from_slice(stack.bytes(-1).unwrap_or_default()));
        if joined.len() as i64 > bytes {
            return Err(Misuse::text("the object has elements that it did not add"));
        }
    }
    call.push_bytes(&joined);
    call.results(1)
}

/// The longest text: that of the state's memory, or [`LONGEST`].
fn longest(call: &ApiCall<'_>) -> i64 {
    match call.host().settings.megabytes {
        0 => LONGEST,
        megabytes => i64::from(megabytes) << 20,
    }
}

/// The longest text of a state without a limit of memory, in bytes.
const LONGEST: i64 = 1 << 30;
