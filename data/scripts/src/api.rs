//! The API that scripts see: `core`, `act`, and the classes of objects.

mod addresses;
mod applet;
mod certificates;
mod channel;
mod classes;
mod commands;
mod concat;
mod converters;
mod core;
mod dates;
mod events;
mod fetches;
mod filters;
mod http;
mod httpclient;
mod listeners;
mod lists;
mod maps;
mod messages;
mod patrefs;
mod process;
mod proxies;
mod queues;
mod regexes;
mod reply;
mod servers;
mod socket;
mod tables;
mod txn;
mod values;

use std::ops::RangeInclusive;
use std::sync::Arc;

use weir_config::scripts::ModuleKind;
use weir_lua::{CallEnd, Function, LuaCall, LuaReference, LuaStack, LuaState, Misuse};
use weir_model::ScriptSettings;

pub(crate) use self::core::print_message;
pub(crate) use applet::{push_http, push_tcp};
pub(crate) use events::push_event;
pub(crate) use filters::{FLAG_HTTP, message_classes};
pub(crate) use queues::settle_pop;
pub(crate) use txn::push_txn;
pub(crate) use values::{push_arguments, push_value, read_result};

use crate::held::ScriptMemory;
use crate::logger::ScriptLogger;
use crate::network::SharedNetwork;
use crate::resources::ScriptResources;
use crate::target::ScriptTarget;
use crate::world::{Classes, ScriptState, World};

/// The call of an API function.
type ApiCall<'c> = LuaCall<'c, World>;
/// The end of an API function.
type ApiResult = Result<CallEnd, Misuse>;
/// A method or function of the API: its name, and its code.
type ApiMember = (&'static str, Function<World>);

/// A state with the standard libraries of the settings, and the API.
pub(crate) fn new_state(
    thread: u32,
    settings: &ScriptSettings,
    resources: &Arc<ScriptResources>,
    logger: &Arc<ScriptLogger>,
    memory: &ScriptMemory,
    network: &SharedNetwork,
) -> Result<ScriptState, String> {
    let world = World {
        thread,
        settings: settings.clone(),
        resources: Arc::clone(resources),
        logger: Arc::clone(logger),
        network: Arc::clone(network),
        held: Arc::clone(&memory.held),
        registry: Default::default(),
        classes: Default::default(),
        private: Default::default(),
        wake_ms: Default::default(),
        waiter: Default::default(),
        alarms: Default::default(),
        tasks: Default::default(),
        filters: Default::default(),
        is_loading: true.into(),
        expressions: Default::default(),
        late_classes: Default::default(),
        regexes: Default::default(),
        maps: Default::default(),
        fetches: resources.registry.fetches().iter().map(|decl| (decl.name, decl.args)).collect(),
        converters: weir_expr::converters::all().iter().map(|row| (row.name, row.args)).collect(),
    };
    let mut state = LuaState::new(world, Arc::clone(&memory.states)).map_err(|error| error.to_string())?;
    for library in ["base", "coroutine"].into_iter().chain(settings.libraries.iter().copied()) {
        state.open_library(library);
    }
    let [txn_methods, applet_http_methods, applet_tcp_methods] =
        [txn::METHODS, applet::HTTP_METHODS, applet::TCP_METHODS]
            .map(|methods| state.with_stack(|stack| table(stack, methods)));
    let [fetches, string_fetches] = fetches::classes(&mut state);
    let [converters, string_converters] = converters::classes(&mut state);
    let classes = Classes {
        txn_methods,
        txn: indexed_class(&mut state, "TXN", txn::index, txn_methods),
        fetches,
        string_fetches,
        converters,
        string_converters,
        http: class(&mut state, "HTTP", http::METHODS),
        applet_http: indexed_class(&mut state, "AppletHTTP", applet::index, applet_http_methods),
        applet_tcp: indexed_class(&mut state, "AppletTCP", applet::index, applet_tcp_methods),
        applet_http_methods,
        applet_tcp_methods,
        reply: class(&mut state, "Reply", reply::METHODS),
        request_channel: class(&mut state, "Channel", channel::METHODS),
        response_channel: class(&mut state, "Channel", channel::METHODS),
        socket: socket::class(&mut state),
        httpclient: class(&mut state, "HTTPClient", httpclient::METHODS),
    };
    let _ = state.host().classes.set(classes);
    core::install(&mut state, thread);
    regexes::install(&mut state);
    maps::install(&mut state);
    certificates::install(&mut state);
    install_constants(&mut state, b"act", ACT, &[("wake_time", core::wake_time)]);
    install_constants(&mut state, b"filter", filters::CONSTANTS, filters::FUNCTIONS);
    Ok(state)
}

/// The results of actions.
const ACT: &[(&str, i64)] = &[
    ("CONTINUE", 0),
    ("STOP", 1),
    ("YIELD", 2),
    ("ERROR", 3),
    ("DONE", 4),
    ("DENY", 5),
    ("ABORT", 6),
    ("INVALID", 7),
];

fn install_constants(
    state: &mut ScriptState,
    name: &[u8],
    constants: &[(&str, i64)],
    functions: &[ApiMember],
) {
    let stack = state.stack();
    push_functions(&stack, functions);
    for (name, value) in constants {
        stack.push_integer(*value);
        stack.set_field(name.as_bytes());
    }
    state.set_global(name);
}

/// Keeps a table of functions.
fn table(stack: &LuaStack<'_>, members: &[ApiMember]) -> LuaReference {
    push_functions(stack, members);
    stack.keep()
}

fn push_functions(stack: &LuaStack<'_>, members: &[ApiMember]) {
    stack.push_table(0, members.len());
    for (name, function) in members {
        stack.push_function::<World>(*function, 0);
        stack.set_field(name.as_bytes());
    }
}

/// The metatable of a class with these methods.
fn class(state: &mut ScriptState, name: &'static str, methods: &[ApiMember]) -> LuaReference {
    state.with_stack(|stack| {
        stack.push_table(0, 3);
        push_functions(stack, methods);
        stack.set_field(b"__index");
        keep_class(stack, name)
    })
}

/// The metatable of a class with a function for its members. Scripts that look at it see the methods.
fn indexed_class(
    state: &mut ScriptState,
    name: &'static str,
    index: Function<World>,
    methods: LuaReference,
) -> LuaReference {
    state.with_stack(|stack| {
        stack.push_table(0, 3);
        stack.push_function::<World>(index, 0);
        stack.set_field(b"__index");
        let class = keep_class(stack, name);
        stack.push_reference(class);
        stack.push_field(-1, b"__metatable");
        stack.push_reference(methods);
        stack.set_field(b"__index");
        stack.pop(2);
        class
    })
}

/// Keeps the metatable at the top as that of a class. `tostring` shows its name, and scripts cannot change it.
fn keep_class(stack: &LuaStack<'_>, name: &'static str) -> LuaReference {
    stack.push_bytes(name.as_bytes());
    stack.set_field(b"__name");
    stack.push_function::<World>(text_of_object, 0);
    stack.set_field(b"__tostring");
    let class = stack.keep();
    stack.hide_class(class);
    class
}

/// `tostring(object)`: `HAProxy class` and its name.
fn text_of_object(call: &ApiCall<'_>) -> ApiResult {
    call.push_class_name(1);
    let name = String::from_utf8_lossy(call.bytes(-1).unwrap_or_default()).into_owned();
    call.push_bytes(format!("HAProxy class {name}").as_bytes());
    call.results(1)
}

/// Checks the number of arguments of a function. A method has its object among them.
fn expect_count(call: &ApiCall<'_>, allowed: RangeInclusive<i32>, name: &str) -> Result<(), Misuse> {
    if allowed.contains(&call.arguments()) {
        return Ok(());
    }
    let (least, most) = (allowed.start(), allowed.end());
    Err(Misuse::text(match least == most {
        true => format!("'{name}' needs {least} arguments"),
        false => format!("'{name}' needs between {least} and {most} arguments"),
    }))
}

/// Runs `act` with the stream of the run, if it is the one with this number.
fn on_stream<'c, R>(
    call: &ApiCall<'c>,
    number: i64,
    act: impl FnOnce(&mut dyn ScriptTarget, &LuaStack<'c>) -> Result<R, Misuse>,
) -> Result<R, Misuse> {
    let acted = call.with_target(|target, stack| match target.number() == number {
        true => act(target, stack),
        false => Err(Misuse::text("the object belongs to a stream that has ended")),
    });
    acted.unwrap_or_else(|| Err(Misuse::text("there is no stream here")))
}

/// Puts a pattern in front of `package.path` or `package.cpath`.
pub(crate) fn prepend_path(state: &mut ScriptState, pattern: &str, kind: ModuleKind) {
    let field: &[u8] = if kind == ModuleKind::Lua { b"path" } else { b"cpath" };
    state.push_global(b"package");
    let mut stack = state.stack();
    if stack.kind(-1) == weir_lua::LuaKind::Table {
        stack.push_field(-1, field);
        let path = [pattern.as_bytes(), b";", stack.bytes(-1).unwrap_or_default()].concat();
        stack.push_bytes(&path);
        stack.remove(-2);
        stack.set_field(field);
    }
    stack.remove(-1);
}
