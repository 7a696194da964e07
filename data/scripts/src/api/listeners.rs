//! The class `Listener`, and the listeners of a proxy.

use weir_lua::Misuse;

use super::classes::{ClassDecl, LateClass};
use super::lists::push_iteration;
use super::process::{process, set_statistic};
use super::{ApiCall, ApiResult};

/// The listeners of a proxy. Its number is that of the proxy.
pub(super) static LIST_CLASS: ClassDecl = ClassDecl {
    field: Some(element),
    pairs: Some(pairs),
    is_sealed: true,
    ..ClassDecl::new("ListenerList", &[])
};

/// A listener. Its numbers are its position and the number of its proxy.
pub(super) static CLASS: ClassDecl = ClassDecl::new("Listener", &[("get_stats", statistics)]);

fn names(call: &ApiCall<'_>, proxy: i64) -> Result<Vec<Box<str>>, Misuse> {
    let process = process(call)?;
    Ok(u32::try_from(proxy).map(|proxy| process.listeners(proxy)).unwrap_or_default())
}

fn element(call: &ApiCall<'_>, name: &[u8]) -> Result<bool, Misuse> {
    let proxy = LateClass::ListenerList.number(call, 1)?;
    match names(call, proxy)?.iter().position(|known| known.as_bytes() == name) {
        Some(position) => {
            LateClass::Listener.push(call, position as i64);
            call.parts(-1).set_second(proxy);
        }
        None => call.push_nil(),
    }
    Ok(true)
}

fn pairs(call: &ApiCall<'_>) -> ApiResult {
    let proxy = LateClass::ListenerList.number(call, 1)?;
    let positions: Vec<i64> = (0..names(call, proxy)?.len() as i64).collect();
    push_iteration(call, LateClass::Listener, proxy, &positions)
}

/// The name of the listener with these numbers.
pub(super) fn name_of(call: &ApiCall<'_>, proxy: i64, position: i64) -> Result<Option<String>, Misuse> {
    let names = names(call, proxy)?;
    let name = usize::try_from(position).ok().and_then(|position| names.get(position));
    Ok(name.map(|name| name.to_string()))
}

fn statistics(call: &ApiCall<'_>) -> ApiResult {
    let position = LateClass::Listener.number(call, 1)?;
    let (process, proxy) =
        (process(call)?, call.parts(1).second().and_then(|proxy| u32::try_from(proxy).ok()));
    let (Some(proxy), Ok(position)) = (proxy, usize::try_from(position)) else {
        return Err(call.wrong_kind(1, "Listener"));
    };
    call.push_table(0, 32);
    process.listener_statistics(proxy, position, &mut |name, value| set_statistic(call, name, value));
    call.results(1)
}
