//! `core.event_sub`, `Server.event_sub`, `Patref.event_sub`, and the class `EventSub`.

use std::sync::Arc;

use weir_lua::{LuaCall, LuaKind, LuaStack, Misuse};

use super::classes::{ClassDecl, LateClass};
use super::{ApiCall, ApiResult, servers};
use crate::events::{
    AdminFlags, CheckDetail, EventDetail, EventKinds, EventSubject, QueuedEvent, ServerEventData,
};
use crate::process::ScriptServer;
use crate::world::{NewTask, World};

pub(super) static CLASS: ClassDecl = ClassDecl::new("EventSub", &[("unsub", unsubscribe)]);

/// `core.event_sub(types, function)`.
pub(super) fn subscribe(call: &ApiCall<'_>) -> ApiResult {
    subscribe_to(call, EventSubject::Servers, 1)
}

/// Subscribes to a subject. The table of types is argument `first`, behind the object of a method.
pub(super) fn subscribe_to(call: &ApiCall<'_>, subject: EventSubject, first: i32) -> ApiResult {
    if call.count() != first + 1 {
        return Err(Misuse::text("'event_sub' needs 2 arguments"));
    }
    let kinds = kinds(call, first)?;
    call.expect_function(first + 1)?;
    if kinds.is_empty() {
        return Err(Misuse::text("event_sub: no valid event types were provided"));
    }
    let world = call.host();
    if world.tasks.borrow().len() >= super::core::MOST_NEW_TASKS {
        return Err(Misuse::text("event_sub: too many subscriptions at once"));
    }
    let subscription = world.resources.events.add(subject, kinds);
    let subscription = subscription.ok_or_else(|| Misuse::text("event_sub: too many subscriptions"))?;
    let number = subscription.number;
    call.push_value(first + 1);
    let function = call.keep();
    world.tasks.borrow_mut().push(NewTask {
        function,
        arguments: Vec::new(),
        subscription: Some(subscription),
    });
    LateClass::EventSub.push(call, number);
    call.results(1)
}

/// The types in the table of an argument.
fn kinds(call: &ApiCall<'_>, index: i32) -> Result<EventKinds, Misuse> {
    let wrong = || call.wrong_kind(index, "table of strings");
    if call.kind(index) != LuaKind::Table {
        return Err(wrong());
    }
    let mut kinds = EventKinds::default();
    call.each_pair(index, |stack| {
        if stack.kind(-1) != LuaKind::String {
            return Err(wrong());
        }
        let name = stack.bytes(-1).unwrap_or_default();
        let known = EventKinds::of_name(name).ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            Misuse::argument(index, format!("'{name}' event type is unknown"))
        })?;
        kinds = kinds.with(known);
        Ok(())
    })?;
    Ok(kinds)
}

/// `sub:unsub()`. Nothing happens if the subscription has ended.
fn unsubscribe(call: &ApiCall<'_>) -> ApiResult {
    let number = LateClass::EventSub.number(call, 1)?;
    call.host().resources.events.end(number);
    call.results(0)
}

/// Pushes the arguments of a handler: the type, the data if there are any, the subscription and the time.
pub(crate) fn push_event(call: &LuaCall<'_, World>, event: &QueuedEvent, subscription: i64) {
    call.push_bytes(event.kind.name().as_bytes());
    if let Some(data) = &event.data {
        push_data(call, data);
    }
    LateClass::EventSub.push(call, subscription);
    call.push_integer(event.at_s);
}

fn push_data(call: &ApiCall<'_>, data: &Arc<ServerEventData>) {
    call.push_table(0, 8);
    set_text(call, b"name", &data.name);
    set_integer(call, b"puid", data.id);
    set_integer(call, b"rid", data.revision);
    set_text(call, b"proxy_name", &data.proxy_name);
    set_integer(call, b"proxy_uuid", data.proxy_id);
    push_reference(call, data.server);
    call.set_field(b"reference");
    match &data.detail {
        EventDetail::None => {}
        EventDetail::Check(check) => set_check(call, check),
        EventDetail::State { is_administrative, check, cause, new, old, requeued } => {
            call.push_table(0, 6);
            set_boolean(call, b"admin", *is_administrative);
            if let Some(check) = check {
                set_check(call, check);
            }
            set_text(call, b"cause", cause);
            set_text(call, b"new_state", new);
            set_text(call, b"old_state", old);
            set_integer(call, b"requeued", *requeued);
            call.set_field(b"state");
        }
        EventDetail::Admin { cause, new, old, requeued } => {
            call.push_table(0, 4);
            set_text(call, b"cause", cause);
            set_flags(call, b"new_admin", new);
            set_flags(call, b"old_admin", old);
            set_integer(call, b"requeued", *requeued);
            call.set_field(b"admin");
        }
    }
}

/// Pushes the server, or nil if it was deleted.
fn push_reference(call: &ApiCall<'_>, server: ScriptServer) {
    let process = call.host().resources.process.get();
    let known = process.and_then(|process| process.server(server));
    servers::push_or_nil(call, known.map(|_| server));
}

fn set_check(stack: &LuaStack<'_>, check: &CheckDetail) {
    stack.push_table(0, 5);
    set_text(stack, b"result", check.result);
    set_boolean(stack, b"agent", check.is_agent);
    stack.push_integer(check.duration_ms as i64);
    stack.set_field(b"duration");
    stack.push_table(0, 3);
    set_text(stack, b"short", check.status);
    set_text(stack, b"desc", check.description);
    if let Some(code) = check.code {
        stack.push_integer(code.into());
        stack.set_field(b"code");
    }
    stack.set_field(b"reason");
    stack.push_table(0, 3);
    set_integer(stack, b"cur", check.level);
    set_integer(stack, b"rise", check.rise);
    set_integer(stack, b"fall", check.fall);
    stack.set_field(b"health");
    stack.set_field(b"check");
}

fn set_flags(stack: &LuaStack<'_>, name: &[u8], flags: &AdminFlags) {
    stack.push_table(0, flags.len());
    flags.iter().for_each(|(name, value)| set_boolean(stack, name.as_bytes(), *value));
    stack.set_field(name);
}

fn set_text(stack: &LuaStack<'_>, name: &[u8], text: &str) {
    stack.push_bytes(text.as_bytes());
    stack.set_field(name);
}

fn set_integer(stack: &LuaStack<'_>, name: &[u8], number: u32) {
    stack.push_integer(number.into());
    stack.set_field(name);
}

fn set_boolean(stack: &LuaStack<'_>, name: &[u8], value: bool) {
    stack.push_boolean(value);
    stack.set_field(name);
}
