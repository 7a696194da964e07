//! `core.proxies` and its relatives, and the class `Proxy`.

use weir_lua::Misuse;

use super::classes::{ClassDecl, LateClass};
use super::lists::push_iteration;
use super::process::{process, set_statistic};
use super::{ApiCall, ApiMember, ApiResult};
use crate::process::{ListedProxies, MailSettings, ProxyChange, ProxyFacts};

/// A list of proxies. Its number is that of the side.
pub(super) static LIST_CLASS: ClassDecl = ClassDecl {
    field: Some(element),
    pairs: Some(pairs),
    is_sealed: true,
    ..ClassDecl::new("ProxyList", &[])
};

/// A proxy. Its number is that of the process.
pub(super) static CLASS: ClassDecl = ClassDecl {
    fields: &["name", "uuid", "servers", "listeners", "stktable"],
    field: Some(field),
    ..ClassDecl::new("Proxy", METHODS)
};

const METHODS: &[ApiMember] = &[
    ("get_name", |call| text(call, |proxy| proxy.name.to_string())),
    ("get_uuid", |call| text(call, |proxy| proxy.id.to_string())),
    ("get_cap", |call| text(call, |proxy| capabilities(&proxy).to_owned())),
    ("get_mode", |call| text(call, |proxy| proxy.mode.to_owned())),
    ("get_srv_act", |call| count_servers(call, 0)),
    ("get_srv_bck", |call| count_servers(call, 1)),
    ("get_stats", statistics),
    ("get_mailers", mailers),
    ("pause", |call| change(call, ProxyChange::Pause)),
    ("resume", |call| change(call, ProxyChange::Resume)),
    ("stop", |call| change(call, ProxyChange::Stop)),
    ("shut_bcksess", |call| change(call, ProxyChange::ShutBackupSessions)),
];

/// The list of a member of `core`: the names of the members.
pub(super) const LISTS: [&str; 3] = ["proxies", "frontends", "backends"];

const SIDES: [ListedProxies; 3] = [ListedProxies::Any, ListedProxies::Frontend, ListedProxies::Backend];

fn side(call: &ApiCall<'_>) -> Result<ListedProxies, Misuse> {
    let number = LateClass::ProxyList.number(call, 1)?;
    let side = usize::try_from(number).ok().and_then(|number| SIDES.get(number));
    side.copied().ok_or_else(|| call.wrong_kind(1, "ProxyList"))
}

/// `core.backends[name]`. Empty while the configuration is read.
fn element(call: &ApiCall<'_>, name: &[u8]) -> Result<bool, Misuse> {
    let (side, process) = (side(call)?, call.host().resources.process.get());
    match process.and_then(|process| process.proxy_number(side, std::str::from_utf8(name).ok()?)) {
        Some(proxy) => push(call, proxy),
        None => call.push_nil(),
    }
    Ok(true)
}

fn pairs(call: &ApiCall<'_>) -> ApiResult {
    let (side, process) = (side(call)?, call.host().resources.process.get());
    let numbers = process.map(|process| process.proxy_numbers(side)).unwrap_or_default();
    let numbers: Vec<i64> = numbers.into_iter().map(i64::from).collect();
    push_iteration(call, LateClass::Proxy, 0, &numbers)
}

/// Pushes a proxy.
pub(super) fn push(call: &ApiCall<'_>, proxy: u32) {
    LateClass::Proxy.push(call, proxy.into());
}

/// The name of the proxy with this number.
pub(super) fn name_of(call: &ApiCall<'_>, number: i64) -> Result<Option<String>, Misuse> {
    let process = process(call)?;
    let facts = u32::try_from(number).ok().and_then(|number| process.proxy(number));
    Ok(facts.map(|facts| facts.name.to_string()))
}

/// The number of the proxy in argument 1.
fn number(call: &ApiCall<'_>) -> Result<u32, Misuse> {
    u32::try_from(LateClass::Proxy.number(call, 1)?).map_err(|_| call.wrong_kind(1, "Proxy"))
}

fn facts(call: &ApiCall<'_>) -> Result<ProxyFacts, Misuse> {
    process(call)?.proxy(number(call)?).ok_or_else(|| call.wrong_kind(1, "Proxy"))
}

fn field(call: &ApiCall<'_>, name: &[u8]) -> Result<bool, Misuse> {
    let proxy = number(call)?;
    match name {
        b"name" => call.push_bytes(facts(call)?.name.as_bytes()),
        b"uuid" => call.push_bytes(facts(call)?.id.to_string().as_bytes()),
        b"servers" => LateClass::ServerList.push(call, proxy.into()),
        b"listeners" => LateClass::ListenerList.push(call, proxy.into()),
        b"stktable" => match process(call)?.table(proxy) {
            Some(_) => LateClass::StickTable.push(call, proxy.into()),
            None => call.push_nil(),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

fn text(call: &ApiCall<'_>, text: impl FnOnce(ProxyFacts) -> String) -> ApiResult {
    call.push_bytes(text(facts(call)?).as_bytes());
    call.results(1)
}

fn capabilities(proxy: &ProxyFacts) -> &'static str {
    match (proxy.is_frontend, proxy.is_backend) {
        (true, true) => "proxy",
        (true, false) => "frontend",
        _ => "backend",
    }
}

fn count_servers(call: &ApiCall<'_>, kind: usize) -> ApiResult {
    let usable = process(call)?.usable_servers(number(call)?);
    call.push_integer(usable[kind].into());
    call.results(1)
}

fn statistics(call: &ApiCall<'_>) -> ApiResult {
    let (process, proxy) = (process(call)?, number(call)?);
    call.push_table(0, 64);
    process.proxy_statistics(proxy, &mut |name, value| set_statistic(call, name, value));
    call.results(1)
}

fn change(call: &ApiCall<'_>, change: ProxyChange) -> ApiResult {
    process(call)?.change_proxy(number(call)?, change);
    call.results(0)
}

/// `proxy:get_mailers()`: a table of the settings, or nothing.
fn mailers(call: &ApiCall<'_>) -> ApiResult {
    let Some(settings) = process(call)?.mail_settings(number(call)?) else { return call.results(0) };
    let MailSettings { level, servers, timeout_ms, host_name, from, to, tracks_health } = settings;
    call.push_table(0, 7);
    let numbers = [("log_level", i64::from(level)), ("mailservers_timeout", timeout_ms as i64)];
    for (name, number) in numbers {
        call.push_integer(number);
        call.set_field(name.as_bytes());
    }
    for (name, text) in [("smtp_hostname", host_name), ("smtp_from", from), ("smtp_to", to)] {
        call.push_bytes(text.as_bytes());
        call.set_field(name.as_bytes());
    }
    call.push_boolean(tracks_health);
    call.set_field(b"track_server_health");
    call.push_table(0, servers.len());
    for (name, address) in servers {
        call.push_bytes(address.as_bytes());
        call.set_field(name.as_bytes());
    }
    call.set_field(b"mailservers");
    call.results(1)
}
