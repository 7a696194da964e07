//! `core`: registration, messages, waits and dates.

use std::borrow::Cow;
use std::time::Duration;

use weir_config::scripts::ServiceKind;
use weir_formats::CivilTime;
use weir_lua::{LuaKind, Misuse};
use weir_model::{RulesetSet, ScriptPrinting, ScriptSettings};

use super::classes::LateClass;
use super::{
    ApiCall, ApiMember, ApiResult, addresses, commands, concat, dates, events, expect_count, filters, maps,
    patrefs, process, proxies, queues, table,
};
use crate::registry::{FunctionKind, Registered, ruleset};
use crate::wait::ScriptWait;
use crate::world::{NewTask, ScriptState, World};

const FUNCTIONS: &[ApiMember] = &[
    ("register_action", register_action),
    ("register_fetches", |call| register(call, FunctionKind::Fetch, "register_fetches")),
    ("register_converters", |call| register(call, FunctionKind::Converter, "register_converters")),
    ("register_init", register_init),
    ("register_task", register_task),
    ("register_service", register_service),
    ("register_cli", commands::register),
    ("log", log),
    ("Debug", |call| write_one(call, 7, "debug")),
    ("Info", |call| write_one(call, 6, "info")),
    ("Warning", |call| write_one(call, 4, "warning")),
    ("Alert", |call| write_one(call, 1, "alert")),
    ("sleep", |call| sleep(call, 1_000, "sleep")),
    ("msleep", |call| sleep(call, 1, "msleep")),
    ("yield", let_others_run),
    ("wait", wait),
    ("done", |call| call.end_run()),
    ("now", now),
    ("tokenize", tokenize),
    ("tcp", super::socket::new),
    ("httpclient", super::httpclient::new),
];

/// Functions that are made when a script first uses one, so that a new state stays small.
const LATE_FUNCTIONS: &[ApiMember] = &[
    ("add_acl", maps::add_acl),
    ("asctime_date", dates::asctime_date),
    ("concat", concat::new),
    ("del_acl", maps::del_acl),
    ("del_map", maps::del_map),
    ("disable_legacy_mailers", process::disable_mailers),
    ("event_sub", events::subscribe),
    ("get_info", process::info),
    ("get_patref", patrefs::of_name),
    ("get_var", process::variable),
    ("http_date", dates::http_date),
    ("imf_date", dates::imf_date),
    ("match_addr", addresses::match_addr),
    ("parse_addr", addresses::parse_addr),
    ("queue", queues::new),
    ("register_filter", filters::register),
    ("rfc850_date", dates::rfc850_date),
    ("set_map", maps::set_map),
    ("set_nice", set_nice),
];

/// The levels of messages.
const LEVELS: &[(&str, i64)] = &[
    ("silent", -1),
    ("emerg", 0),
    ("alert", 1),
    ("crit", 2),
    ("err", 3),
    ("warning", 4),
    ("notice", 5),
    ("info", 6),
    ("debug", 7),
];

/// Makes the global `core`.
pub(super) fn install(state: &mut ScriptState, thread: u32) {
    let missing = state.with_stack(|stack| {
        stack.push_table(0, 1);
        stack.push_function::<World>(missing_member, 0);
        stack.set_field(b"__index");
        stack.keep()
    });
    let functions = state.with_stack(|stack| table(stack, FUNCTIONS));
    let stack = state.stack();
    stack.push_reference(functions);
    for (name, level) in LEVELS {
        stack.push_integer(*level);
        stack.set_field(name.as_bytes());
    }
    stack.push_integer(thread.into());
    stack.set_field(b"thread");
    stack.set_metatable(missing);
    state.set_global(b"core");
    state.forget(functions);
}

/// A member of `core` that is made when a script first reads it. Nil for names outside the API.
fn missing_member(call: &ApiCall<'_>) -> ApiResult {
    let name = match call.kind(2) {
        LuaKind::String => call.bytes(2).unwrap_or_default(),
        _ => b"",
    };
    if let Some((_, function)) = LATE_FUNCTIONS.iter().find(|(known, _)| known.as_bytes() == name) {
        call.push_function::<World>(*function, 0);
        keep_member(call, name);
        return call.results(1);
    }
    if let Some(side) = proxies::LISTS.iter().position(|known| known.as_bytes() == name) {
        LateClass::ProxyList.push(call, side as i64);
        keep_member(call, name);
        return call.results(1);
    }
    call.push_nil();
    call.results(1)
}

/// Makes the value at the top a member of the table in argument 1, and keeps it at the top.
fn keep_member(call: &ApiCall<'_>, name: &[u8]) {
    call.push_value(1);
    call.push_value(-2);
    call.set_field(name);
    call.push_value(-2);
}

pub(super) fn needs_loading(call: &ApiCall<'_>, name: &str) -> Result<(), Misuse> {
    match call.host().is_loading.get() {
        true => Ok(()),
        false => Err(Misuse::text(format!("{name}: not available outside of body context"))),
    }
}

/// The name of a function in argument 1.
pub(super) fn name(call: &ApiCall<'_>) -> Result<String, Misuse> {
    Ok(String::from_utf8_lossy(call.expect_bytes(1)?).into_owned())
}

/// `core.register_action(name, places, function [, arguments])`.
fn register_action(call: &ApiCall<'_>) -> ApiResult {
    if !(3..=4).contains(&call.count()) {
        return Err(Misuse::text("'register_action' needs between 3 and 4 arguments"));
    }
    needs_loading(call, "register_action")?;
    let name = name(call)?;
    if call.kind(2) != LuaKind::Table {
        return Err(Misuse::text("register_action: second argument must be a table of strings"));
    }
    call.expect_function(3)?;
    let arguments = if call.count() > 3 { call.expect_integer(4)? } else { 0 };
    let mut rulesets = RulesetSet::of(&[]);
    call.each_pair(2, |stack| {
        let place = stack.bytes(-1).unwrap_or_default();
        let Some(known) = ruleset(place) else {
            let place = String::from_utf8_lossy(place);
            return Err(Misuse::text(format!(
                "Lua action environment '{place}' is unknown. 'tcp-req', 'tcp-res', 'http-req', 'http-res' or 'http-after-res' are expected."
            )));
        };
        rulesets = rulesets.or(known);
        Ok(())
    })?;
    call.push_value(3);
    let registered =
        Registered { function: call.keep(), rulesets, arguments: usize::try_from(arguments).unwrap_or(0) };
    call.host().registry.add(FunctionKind::Action, &name, registered);
    call.results(0)
}

/// `core.register_fetches(name, function)`, `core.register_converters(name, function)`.
fn register(call: &ApiCall<'_>, kind: FunctionKind, function: &str) -> ApiResult {
    if call.count() != 2 {
        return Err(Misuse::text(format!("'{function}' needs 2 arguments")));
    }
    needs_loading(call, function)?;
    let name = name(call)?;
    call.expect_function(2)?;
    call.push_value(2);
    let registered = Registered { function: call.keep(), rulesets: RulesetSet::of(&[]), arguments: 0 };
    call.host().registry.add(kind, &name, registered);
    call.results(0)
}

/// `core.register_init(function)`.
fn register_init(call: &ApiCall<'_>) -> ApiResult {
    if call.count() != 1 {
        return Err(Misuse::text("'register_init' needs 1 arguments"));
    }
    needs_loading(call, "register_init")?;
    call.expect_function(1)?;
    call.push_value(1);
    call.host().registry.add_init(call.keep());
    call.results(0)
}

/// `core.register_service(name, "http" or "tcp", function)`.
fn register_service(call: &ApiCall<'_>) -> ApiResult {
    if call.count() != 3 {
        return Err(Misuse::text("'register_service' needs 3 arguments"));
    }
    needs_loading(call, "register_service")?;
    let (name, environment) = (name(call)?, call.expect_bytes(2)?);
    call.expect_function(3)?;
    let kinds = [ServiceKind::Http, ServiceKind::Tcp];
    let Some(kind) = kinds.iter().find(|kind| kind.name().as_bytes() == environment) else {
        let environment = String::from_utf8_lossy(environment);
        return Err(Misuse::text(format!(
            "Lua service environment '{environment}' is unknown. 'tcp' or 'http' are expected."
        )));
    };
    call.push_value(3);
    let registered = Registered { function: call.keep(), rulesets: RulesetSet::of(&[]), arguments: 0 };
    call.host().registry.add(FunctionKind::of_service(*kind), &name, registered);
    call.results(0)
}

/// `core.register_task(function [, up to four arguments])`.
fn register_task(call: &ApiCall<'_>) -> ApiResult {
    if call.count() == 0 {
        return Err(Misuse::text("register_task: <func> argument is required"));
    }
    call.expect_function(1)?;
    if call.count() > 5 {
        return Err(Misuse::text("register_task: no more that 4 optional arguments may be provided"));
    }
    if call.host().tasks.borrow().len() >= MOST_NEW_TASKS {
        return Err(Misuse::text("register_task: too many tasks at once"));
    }
    let keep = |index: i32| {
        call.push_value(index);
        call.keep()
    };
    let arguments = (2..=call.count()).map(|index| (!call.is_nil(index)).then(|| keep(index))).collect();
    let task = NewTask { function: keep(1), arguments, subscription: None };
    call.host().tasks.borrow_mut().push(task);
    call.results(0)
}

/// The level of a message in an argument.
pub(super) fn level_of(call: &ApiCall<'_>, index: i32) -> Result<u8, Misuse> {
    let level = call.expect_integer(index)?;
    let known = u8::try_from(level).ok().filter(|level| *level <= 7);
    known.ok_or_else(|| Misuse::argument(index, "Invalid loglevel."))
}

fn log(call: &ApiCall<'_>) -> ApiResult {
    expect_count(call, 2..=2, "log")?;
    let level = level_of(call, 1)?;
    write_message(call, level, 2)
}

/// `core.Debug(text)` and the others of one level. `name` is that of messages about the number of arguments.
fn write_one(call: &ApiCall<'_>, level: u8, name: &str) -> ApiResult {
    expect_count(call, 1..=1, name)?;
    write_message(call, level, 1)
}

fn write_message(call: &ApiCall<'_>, level: u8, index: i32) -> ApiResult {
    let text = String::from_utf8_lossy(call.expect_bytes(index)?).into_owned();
    write_message_of(call.host(), level, &text);
    call.results(0)
}

/// Logs and prints a message.
pub(super) fn write_message_of(world: &World, level: u8, text: &str) {
    let World { settings, logger, .. } = world;
    let has_logger = settings.logs && logger.log(level, &in_one_line(text));
    print_message(settings, level, text, has_logger);
}

/// A text as a part of a log line: control characters are dots, as in HAProxy. Texts of requests cannot forge another line. So are bytes that
/// are not UTF-8, which the text has as U+FFFD.
pub(super) fn in_one_line(text: &str) -> Cow<'_, str> {
    let is_replaced = |char: char| char.is_control() || char == char::REPLACEMENT_CHARACTER;
    match text.contains(is_replaced) {
        true => text.replace(is_replaced, ".").into(),
        false => text.into(),
    }
}

/// Prints a message of a script to the error output, where the settings want it.
pub(crate) fn print_message(settings: &ScriptSettings, level: u8, text: &str, has_logger: bool) {
    let prints = match settings.prints {
        ScriptPrinting::On => true,
        ScriptPrinting::Off => false,
        ScriptPrinting::Auto => !settings.logs || !has_logger,
    };
    // Messages for debugging are not for the terminal of an operator.
    if !prints || level > 6 {
        return;
    }
    let name = LEVELS.iter().find(|(_, known)| *known == i64::from(level)).map_or("debug", |(name, _)| name);
    let now = CivilTime::at((weir_sched::wall_us() / 1_000_000) as i64, 0);
    let day = now.year_day;
    let (hour, minute, second) = (now.hour, now.minute, now.second);
    let id = std::process::id();
    let line = format!("[{name}] {day:03}/{hour:02}{minute:02}{second:02} ({id}) : {text}\n");
    weir_sys::standard_error::write(line.as_bytes(), PATIENCE_MS);
}

fn sleep(call: &ApiCall<'_>, unit_ms: u64, name: &str) -> ApiResult {
    expect_count(call, 1..=1, name)?;
    let count = u64::try_from(call.expect_integer(1)?).unwrap_or(0);
    let time = Duration::from_millis(count.saturating_mul(unit_ms));
    if call.host().is_loading.get() {
        return sleep_while_loading(call, time);
    }
    call.wait(ScriptWait::Sleep(time))
}

/// A wait in the body of a script or in a function of `core.register_init`. The process serves nothing yet, so its thread waits.
fn sleep_while_loading(call: &ApiCall<'_>, time: Duration) -> ApiResult {
    std::thread::sleep(time);
    call.results(0)
}

/// `core.wait([milliseconds])`: until something wakes the task, as an item of a queue (`Queue.alarm`) or bytes of the client, or for so long.
fn wait(call: &ApiCall<'_>) -> ApiResult {
    let time = if call.is_nil(1) { None } else { Some(call.expect_integer(1)?) };
    let time = time.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
    if call.host().is_loading.get() {
        // Nothing can wake the script, so it waits for its time only.
        return sleep_while_loading(call, time.unwrap_or_default());
    }
    call.wait(ScriptWait::Event(time))
}

/// `core.set_nice(nice)`: the order of the running task among those of its worker, from -1024 (early) to 1024. Before the process serves,
/// nothing changes.
fn set_nice(call: &ApiCall<'_>) -> ApiResult {
    if call.count() != 1 {
        return Err(Misuse::text("'set_nice' needs 1 arguments"));
    }
    let nice = call.expect_integer(1)?.clamp(-1024, 1024) as i16;
    if !call.host().is_loading.get() {
        weir_sched::set_nice(nice);
    }
    call.results(0)
}

/// `act.wake_time(milliseconds)`, also as a method: when an action that returns `act.YIELD` runs again.
pub(super) fn wake_time(call: &ApiCall<'_>) -> ApiResult {
    let index = if call.kind(1) == LuaKind::Table { 2 } else { 1 };
    expect_count(call, index..=index, "wake_time")?;
    let ms = call.expect_integer(index)?;
    call.host().wake_ms.set(u64::try_from(ms).ok().filter(|ms| *ms > 0));
    call.results(0)
}

/// `core.yield()`. Without effect in a place that cannot wait, as in HAProxy.
fn let_others_run(call: &ApiCall<'_>) -> ApiResult {
    if call.can_wait() { call.wait(ScriptWait::Others) } else { call.results(0) }
}

/// `core.now()`: a table with `sec` and `usec`.
fn now(call: &ApiCall<'_>) -> ApiResult {
    let now_us = weir_sched::wall_us() as i64;
    call.push_table(0, 2);
    call.push_integer(now_us / 1_000_000);
    call.set_field(b"sec");
    call.push_integer(now_us % 1_000_000);
    call.set_field(b"usec");
    call.results(1)
}

/// `core.tokenize(text, separators [, no_empty])`: the parts of a text.
fn tokenize(call: &ApiCall<'_>) -> ApiResult {
    let (text, separators) = (call.expect_bytes(1)?, call.expect_bytes(2)?);
    let skips_empty = match call.kind(3) {
        LuaKind::None => false,
        LuaKind::Boolean => call.boolean(3),
        _ => return Err(Misuse::argument(3, "boolean expected")),
    };
    call.push_table(4, 0);
    let mut position = 0;
    for part in text.split(|byte| separators.contains(byte)) {
        if part.is_empty() && skips_empty {
            continue;
        }
        position += 1;
        call.push_bytes(part);
        call.set_index(position);
    }
    call.results(1)
}

/// How long a stalled reader of the error output may hold up a message, in milliseconds.
const PATIENCE_MS: u32 = 0;
/// The most tasks that one run, or the reading of the configuration, may register.
pub(super) const MOST_NEW_TASKS: usize = 10_000;
