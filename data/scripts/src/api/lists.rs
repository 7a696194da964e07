//! Lists of objects by name: `core.proxies`, the servers of a proxy, its listeners.

use weir_lua::Misuse;

use super::classes::LateClass;
use super::{ApiCall, ApiResult, listeners, proxies, servers};
use crate::world::World;

/// Pushes the iterator of `pairs`: a function, its state, and nil. The state has the class of the elements, the number of their proxy, the
/// elements that were given, and their keys.
pub(super) fn push_iteration(call: &ApiCall<'_>, class: LateClass, proxy: i64, keys: &[i64]) -> ApiResult {
    call.push_function::<World>(next, class as i64);
    call.push_table(keys.len() + 2, 0);
    for (position, number) in [proxy, 0].iter().chain(keys).enumerate() {
        call.push_integer(*number);
        call.set_index(position as i64 + 1);
    }
    call.push_nil();
    call.results(3)
}

/// The next element: its name and its object. Elements that were deleted meanwhile are left out.
fn next(call: &ApiCall<'_>) -> ApiResult {
    call.expect_table(1)?;
    let number = |position| call.with_index(1, position, |stack| stack.integer(-1));
    let wrong = || Misuse::argument(1, "the state of an iteration expected");
    let class = LateClass::of_function(call)?;
    let (proxy, mut given) = (number(1).ok_or_else(wrong)?, number(2).ok_or_else(wrong)?);
    let name = loop {
        given = given.saturating_add(1);
        let Some(key) = given.checked_add(2).and_then(number) else {
            call.push_nil();
            return call.results(1);
        };
        let name = match class {
            LateClass::Server => servers::name_of(call, proxy, key)?,
            LateClass::Listener => listeners::name_of(call, proxy, key)?,
            _ => proxies::name_of(call, key)?,
        };
        if let Some(name) = name {
            break (key, name);
        }
    };
    call.push_value(1);
    call.push_integer(given);
    call.set_index(2);
    let (key, name) = name;
    call.push_bytes(name.as_bytes());
    class.push(call, key);
    if class != LateClass::Proxy {
        call.parts(-1).set_second(proxy);
    }
    call.results(2)
}
