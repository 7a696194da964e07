//! The class `Server`, and the servers of a proxy.

use weir_lua::{LuaKind, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::lists::push_iteration;
use super::process::{process, set_statistic};
use super::{ApiCall, ApiMember, ApiResult, events, proxies};
use crate::events::EventSubject;
use crate::process::{ScriptServer, ServerFacts, ServerRequest, ServerRequestError};

/// The servers of a proxy. Its number is that of the proxy.
pub(super) static LIST_CLASS: ClassDecl = ClassDecl {
    field: Some(element),
    pairs: Some(pairs),
    is_sealed: true,
    ..ClassDecl::new("ServerList", &[])
};

/// A server. Its numbers are its key and that of its proxy.
pub(super) static CLASS: ClassDecl =
    ClassDecl { fields: &["name", "puid"], field: Some(field), ..ClassDecl::new("Server", METHODS) };

const METHODS: &[ApiMember] = &[
    ("get_name", |call| text(call, |server| server.name)),
    ("get_puid", |call| text(call, |server| server.id.to_string())),
    ("get_rid", |call| text(call, |server| server.revision.to_string())),
    ("get_addr", |call| text(call, |server| server.address)),
    ("get_weight", |call| integer(call, |server| server.weight)),
    ("get_maxconn", |call| integer(call, |server| server.maximum_connections)),
    ("get_cur_sess", |call| integer(call, |server| server.sessions)),
    ("get_pend_conn", |call| integer(call, |server| server.queued)),
    ("is_draining", |call| boolean(call, |server| server.is_draining)),
    ("is_backup", |call| boolean(call, |server| server.is_backup)),
    ("is_dynamic", |call| boolean(call, |server| server.is_added)),
    ("get_stats", statistics),
    ("get_proxy", proxy),
    ("tracking", tracking),
    ("get_trackers", trackers),
    ("set_weight", |call| set(call, ServerRequest::Weight(&word(call, 2)?))),
    ("set_maxconn", |call| set(call, ServerRequest::MaximumConnections(&word(call, 2)?))),
    ("set_addr", set_addr),
    ("shut_sess", |call| change(call, ServerRequest::ShutSessions)),
    ("set_drain", |call| change(call, ServerRequest::Drain)),
    ("set_maint", |call| change(call, ServerRequest::Maintenance)),
    ("set_ready", |call| change(call, ServerRequest::Ready)),
    ("check_enable", |call| change(call, ServerRequest::Checks(true))),
    ("check_disable", |call| change(call, ServerRequest::Checks(false))),
    ("check_force_up", |call| change(call, ServerRequest::CheckUp)),
    ("check_force_nolb", |call| change(call, ServerRequest::CheckNoLoadBalancing)),
    ("check_force_down", |call| change(call, ServerRequest::CheckDown)),
    ("agent_enable", |call| change(call, ServerRequest::Agent(true))),
    ("agent_disable", |call| change(call, ServerRequest::Agent(false))),
    ("agent_force_up", |call| change(call, ServerRequest::AgentUp)),
    ("agent_force_down", |call| change(call, ServerRequest::AgentDown)),
    ("event_sub", event_sub),
];

/// The number of the proxy of the list in argument 1.
fn list(call: &ApiCall<'_>) -> Result<u32, Misuse> {
    u32::try_from(LateClass::ServerList.number(call, 1)?).map_err(|_| call.wrong_kind(1, "ServerList"))
}

fn element(call: &ApiCall<'_>, name: &[u8]) -> Result<bool, Misuse> {
    let (process, proxy) = (process(call)?, list(call)?);
    let found = std::str::from_utf8(name).ok().and_then(|name| process.server_key(proxy, name));
    push_or_nil(call, found);
    Ok(true)
}

fn pairs(call: &ApiCall<'_>) -> ApiResult {
    let proxy = list(call)?;
    let keys = process(call)?.server_keys(proxy);
    let keys: Vec<i64> = keys.into_iter().map(|server| server.key as i64).collect();
    push_iteration(call, LateClass::Server, proxy.into(), &keys)
}

/// The name of the server with these numbers. `None` if it was deleted.
pub(super) fn name_of(call: &ApiCall<'_>, proxy: i64, key: i64) -> Result<Option<String>, Misuse> {
    let Ok(proxy) = u32::try_from(proxy) else { return Ok(None) };
    let facts = process(call)?.server(ScriptServer { proxy, key: key as u64 });
    Ok(facts.map(|facts| facts.name))
}

pub(super) fn push_or_nil(call: &ApiCall<'_>, server: Option<ScriptServer>) {
    match server {
        Some(ScriptServer { proxy, key }) => {
            LateClass::Server.push(call, key as i64);
            call.parts(-1).set_second(proxy.into());
        }
        None => call.push_nil(),
    }
}

/// The server in argument 1.
fn key(call: &ApiCall<'_>) -> Result<ScriptServer, Misuse> {
    let key = LateClass::Server.number(call, 1)?;
    let proxy = call.parts(1).second().and_then(|proxy| u32::try_from(proxy).ok());
    let proxy = proxy.ok_or_else(|| call.wrong_kind(1, "Server"))?;
    Ok(ScriptServer { proxy, key: key as u64 })
}

fn gone() -> Misuse {
    Misuse::text("the server was deleted")
}

fn facts(call: &ApiCall<'_>) -> Result<ServerFacts, Misuse> {
    process(call)?.server(key(call)?).ok_or_else(gone)
}

fn field(call: &ApiCall<'_>, name: &[u8]) -> Result<bool, Misuse> {
    match name {
        b"name" => call.push_bytes(facts(call)?.name.as_bytes()),
        b"puid" => call.push_bytes(facts(call)?.id.to_string().as_bytes()),
        _ => return Ok(false),
    }
    Ok(true)
}

fn text(call: &ApiCall<'_>, text: impl FnOnce(ServerFacts) -> String) -> ApiResult {
    call.push_bytes(text(facts(call)?).as_bytes());
    call.results(1)
}

fn integer(call: &ApiCall<'_>, number: impl FnOnce(ServerFacts) -> u32) -> ApiResult {
    call.push_integer(number(facts(call)?).into());
    call.results(1)
}

fn boolean(call: &ApiCall<'_>, value: impl FnOnce(ServerFacts) -> bool) -> ApiResult {
    call.push_boolean(value(facts(call)?));
    call.results(1)
}

fn statistics(call: &ApiCall<'_>) -> ApiResult {
    let (process, server) = (process(call)?, key(call)?);
    call.push_table(0, 64);
    match process.server_statistics(server, &mut |name, value| set_statistic(call, name, value)) {
        true => call.results(1),
        false => Err(gone()),
    }
}

fn proxy(call: &ApiCall<'_>) -> ApiResult {
    facts(call)?;
    proxies::push(call, key(call)?.proxy);
    call.results(1)
}

fn tracking(call: &ApiCall<'_>) -> ApiResult {
    facts(call)?;
    push_or_nil(call, process(call)?.tracked(key(call)?));
    call.results(1)
}

fn trackers(call: &ApiCall<'_>) -> ApiResult {
    facts(call)?;
    let trackers = process(call)?.trackers(key(call)?);
    call.push_table(trackers.len(), 0);
    for (position, server) in trackers.into_iter().enumerate() {
        push_or_nil(call, Some(server));
        call.set_index(position as i64 + 1);
    }
    call.results(1)
}

/// `server:event_sub(types, function)`.
fn event_sub(call: &ApiCall<'_>) -> ApiResult {
    let server = key(call)?;
    facts(call)?;
    events::subscribe_to(call, EventSubject::Server(server), 2)
}

/// The text in an argument.
fn word(call: &ApiCall<'_>, index: i32) -> Result<String, Misuse> {
    Ok(String::from_utf8_lossy(call.expect_bytes(index)?).into_owned())
}

fn set_addr(call: &ApiCall<'_>) -> ApiResult {
    let address = word(call, 2)?;
    let port = match call.kind(3) {
        LuaKind::None | LuaKind::Nil => None,
        _ => Some(word(call, 3)?),
    };
    set(call, ServerRequest::Address(&address, port.as_deref()))
}

/// A change with a text: the sentence about it, also if it is refused, or nil.
fn set(call: &ApiCall<'_>, request: ServerRequest<'_>) -> ApiResult {
    let said = match process(call)?.change_server(key(call)?, request) {
        Err(ServerRequestError::Because(reason)) => Some(reason),
        other => other.map_err(refusal)?,
    };
    match said {
        Some(text) => call.push_bytes(text.as_bytes()),
        None => call.push_nil(),
    }
    call.results(1)
}

/// A change without a text. As in HAProxy, one that is refused does nothing.
fn change(call: &ApiCall<'_>, request: ServerRequest<'_>) -> ApiResult {
    match process(call)?.change_server(key(call)?, request) {
        Ok(_) | Err(ServerRequestError::Because(_)) => call.results(0),
        Err(error) => Err(refusal(error)),
    }
}

fn refusal(error: ServerRequestError) -> Misuse {
    match error {
        ServerRequestError::Gone => gone(),
        ServerRequestError::Because(text) => Misuse::text(text),
    }
}
