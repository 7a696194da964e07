//! Scripts against a host of the test: calls, waits, errors, and the bounds of time and memory.

use std::sync::Arc;
use std::time::Duration;

use weir_lua::{
    CallEnd, Function, LuaCall, LuaErrorKind, LuaHost, LuaKind, LuaReference, LuaState, MemoryBudget, Misuse,
    Resumed, RunBounds, RunSlice, opaque_bytes, push_opaque,
};

#[derive(Debug)]
struct Counter;

impl LuaHost for Counter {
    type Target = Vec<String>;
    type Wait = i64;
}

type State = LuaState<Counter>;

fn note(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    let text = String::from_utf8_lossy(call.expect_bytes(1)?).into_owned();
    let noted = call.with_target(|notes, stack| {
        notes.push(text);
        stack.push_integer(notes.len() as i64);
    });
    call.results(noted.map_or(0, |()| 1))
}

fn sleep(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    call.wait(call.expect_integer(1)?)
}

fn fail(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    let kept = String::from("dropped before the jump");
    let _ = call.expect_bytes(1)?;
    Err(Misuse::text(format!("refused: {}", kept.len())))
}

fn panics(_: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    panic!("on purpose")
}

fn large(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    call.push_bytes(&vec![b'x'; call.expect_integer(1)? as usize]);
    call.results(1)
}

fn state() -> State {
    state_of(&Arc::new(MemoryBudget::new(MEMORY)))
}

fn state_of(budget: &Arc<MemoryBudget>) -> State {
    let mut state = LuaState::new(Counter, Arc::clone(budget)).unwrap();
    for library in ["base", "coroutine", "table", "string", "math", "debug"] {
        assert!(state.open_library(library));
    }
    assert!(!state.open_library("nothing"));
    let functions: [(&str, Function<Counter>); 7] = [
        ("note", note),
        ("sleep", sleep),
        ("fail", fail),
        ("fail_bare", |_| Err(Misuse::bare("refused"))),
        ("panics", panics),
        ("large", large),
        ("end_run", |call| call.end_run()),
    ];
    for (name, function) in functions {
        add(&mut state, name, function);
    }
    state
}

fn add(state: &mut State, name: &str, function: Function<Counter>) {
    state.stack().push_function::<Counter>(function, 7);
    state.set_global(name.as_bytes());
}

const BOUNDS: RunBounds =
    RunBounds { time: Some(Duration::from_millis(100)), slice: RunSlice::Tick { or_instructions: 1_000 } };
/// The limit of a test's states, in bytes.
const MEMORY: usize = 8 << 20;

/// Runs a text as a function that cannot wait. Returns its results as texts.
fn run(state: &mut State, text: &str) -> Result<Vec<String>, (LuaErrorKind, String)> {
    let function = state.load(text.as_bytes(), "@test").map_err(|error| (error.kind, error.to_string()))?;
    let shown = |results: &LuaCall<'_, Counter>, at| {
        // The bytes of a number make a string of it.
        let kind = results.kind(at);
        format!("{kind:?} {}", String::from_utf8_lossy(results.bytes(at).unwrap_or(b"-")))
    };
    let ended = state.call(
        function,
        None,
        BOUNDS,
        |_| {},
        |results| (1..=results.count()).map(|at| shown(results, at)).collect(),
    );
    state.forget(function);
    ended.map_err(|error| (error.kind, error.to_string()))
}

fn function(state: &mut State, text: &str) -> LuaReference {
    state.load(text.as_bytes(), "@test").unwrap()
}

#[test]
fn values_keep_their_types() {
    let mut state = state();
    let results =
        run(&mut state, "return 1, 1.5, 'a\\0b', nil, true, {}, print, coroutine.create(print)").unwrap();
    let kinds: Vec<&str> = results.iter().map(|result| result.split(' ').next().unwrap()).collect();
    assert_eq!(kinds, ["Integer", "Float", "String", "Nil", "Boolean", "Table", "Function", "Coroutine"]);
    assert_eq!(results[2], "String a\0b");
}

#[test]
fn a_run_ends_early_with_the_last_argument() {
    let mut state = state();
    for (text, result) in [
        ("end_run('a', 'b')", "String b"),
        ("local function deep() end_run(5) end deep() return 7", "Integer 5"),
        ("end_run()", "Nil -"),
        // A pair looks like an error with its traceback.
        ("end_run({'a', 'b'})", "Table -"),
        ("coroutine.wrap(function() end_run('of a coroutine') end)() return 7", "String of a coroutine"),
        (
            "local closed <close> = setmetatable({}, {__close = function() note('') end}) end_run(5)",
            "Integer 5",
        ),
    ] {
        assert_eq!(run(&mut state, text), Ok(vec![result.to_owned()]), "{text}");
    }
}

#[test]
fn a_script_catches_the_end_of_a_run() {
    let mut state = state();
    let caught = run(&mut state, "return pcall(end_run, 5)").unwrap();
    assert_eq!(caught, ["Boolean -", "Integer 5"]);
    let failed = run(&mut state, "pcall(end_run, 'caught') error('later', 0)");
    assert_eq!(failed, Err((LuaErrorKind::Runtime, "later".to_owned())));
    assert_eq!(run(&mut state, "pcall(end_run, 'caught') return 7").unwrap(), ["Integer 7"]);
    // The result of one run is not that of the next one.
    assert!(run(&mut state, "error('caught', 0)").is_err());
}

#[test]
fn a_coroutine_ends_early() {
    let mut state = state();
    for (text, result) in [("end_run(5) sleep(1)", 5), ("sleep(1) pcall(end_run, 1) end_run(6)", 6)] {
        let function = function(&mut state, text);
        let mut coroutine = state.begin(function, |_| {});
        let mut resumed = state.resume(&mut coroutine, None, BOUNDS);
        if resumed == Resumed::Waits(1) {
            state.settle(&mut coroutine, |_| Ok(()));
            resumed = state.resume(&mut coroutine, None, BOUNDS);
        }
        assert_eq!(resumed, Resumed::Returned(1), "{text}");
        assert_eq!(state.results(&coroutine, |results| results.integer(-1)), Some(result));
        state.end(coroutine, BOUNDS);
    }
}

#[test]
fn failures_have_the_position_of_the_script() {
    let mut state = state();
    let runtime = |text: &str| Err((LuaErrorKind::Runtime, text.to_owned()));
    assert_eq!(run(&mut state, "\n\nfail('x')"), runtime("test:3: refused: 23"));
    assert_eq!(run(&mut state, "fail_bare()"), runtime("refused"));
    let missing = "test:1: bad argument #1 to 'fail' (string expected, got no value)";
    assert_eq!(run(&mut state, "fail()"), runtime(missing));
    let index = "test:1: attempt to index a nil value (field 'y')";
    assert_eq!(run(&mut state, "local x = {} x.y.z = 1"), runtime(index));
    assert_eq!(run(&mut state, "error({})"), runtime("(error object is not a string)"));
    assert_eq!(run(&mut state, "panics()"), runtime("test:1: internal error"));
    assert_eq!(run(&mut state, "sleep(1)"), runtime("test:1: attempt to yield from outside a coroutine"));
    // Scripts see errors as texts.
    let text = "local ok, text = pcall(fail, 1) return ok, type(text), text:match('refused')";
    assert_eq!(run(&mut state, text).unwrap(), ["Boolean -", "String string", "String refused"]);
    let syntax = run(&mut state, "x = = 1").unwrap_err();
    assert_eq!(syntax, (LuaErrorKind::Syntax, "test:1: unexpected symbol near '='".into()));
}

#[test]
fn errors_have_a_traceback() {
    let mut state = state();
    let text = "local function inner() fail('x') end\nlocal function outer() inner() end\nouter()";
    let function = function(&mut state, text);
    let error = state.call(function, None, BOUNDS, |_| {}, |_| ()).unwrap_err();
    assert!(
        error.traceback.contains("test:1:") && error.traceback.contains("test:2:"),
        "{}",
        error.traceback
    );
    let mut coroutine = state.begin(function, |_| {});
    let Resumed::Failed(error) = state.resume(&mut coroutine, None, BOUNDS) else { panic!("it fails") };
    assert!(
        error.traceback.contains("test:1:") && error.traceback.contains("test:2:"),
        "{}",
        error.traceback
    );
    state.end(coroutine, BOUNDS);
}

#[test]
fn functions_act_on_the_target_of_the_run_only() {
    let mut state = state();
    let function = function(&mut state, "keep = keep or note return keep(...)");
    let mut notes = Vec::new();
    let mut say = |text: &str, notes: Option<&mut Vec<String>>| {
        let push = |stack: &weir_lua::LuaStack<'_>| stack.push_bytes(text.as_bytes());
        state.call(function, notes, BOUNDS, push, |results| results.integer(1)).unwrap()
    };
    assert_eq!(say("one", Some(&mut notes)), Some(1));
    assert_eq!(say("two", Some(&mut notes)), Some(2));
    // Without a target the function finds none, also after a run with one.
    assert_eq!(say("three", None), None);
    assert_eq!(notes, ["one", "two"]);
}

#[test]
fn finalizers_do_not_reach_the_target_that_a_function_uses() {
    fn collects(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
        call.with_target(|notes, stack| {
            // Enough for the collector to run finalizers in here.
            (0..20_000).for_each(|_| {
                stack.push_table(4, 4);
                stack.keep();
            });
            notes.push("own".into());
        });
        call.results(0)
    }
    let mut state = state_of(&Arc::new(MemoryBudget::unlimited()));
    add(&mut state, "collects", collects);
    let function = function(
        &mut state,
        "found = {}
         kept = {}
         for i = 1, 100 do kept[i] = setmetatable({}, {__gc = function() found[#found + 1] = note('gc') or 'none' end}) end
         kept = nil
         collects()
         return #found, found[1]",
    );
    let mut notes = Vec::new();
    let read = |results: &LuaCall<'_, Counter>| (results.integer(1), results.bytes(2).map(<[u8]>::to_vec));
    let found = state.call(function, Some(&mut notes), BOUNDS, |_| {}, read);
    assert_eq!(found, Ok((Some(100), Some(b"none".to_vec()))));
    assert_eq!(notes, ["own"]);
}

#[test]
fn coroutines_wait_for_their_driver() {
    let mut state = state();
    let text = "local a, b = sleep(5) note('between') local ok, text = pcall(sleep, 6) return a, b, ok, text";
    let function = function(&mut state, text);
    let mut notes = Vec::new();
    let mut coroutine = state.begin(function, |_| {});
    assert_eq!(state.resume(&mut coroutine, Some(&mut notes), BOUNDS), Resumed::Waits(5));
    state.settle(&mut coroutine, |stack| {
        stack.push_integer(1);
        stack.push_bytes(b"two");
        Ok(())
    });
    assert_eq!(state.resume(&mut coroutine, Some(&mut notes), BOUNDS), Resumed::Waits(6));
    assert_eq!(notes, ["between"]);
    state.settle(&mut coroutine, |_| Err(Misuse::text("it broke")));
    assert_eq!(state.resume(&mut coroutine, Some(&mut notes), BOUNDS), Resumed::Returned(4));
    state.results(&coroutine, |results| {
        assert_eq!((results.integer(1), results.bytes(2)), (Some(1), Some(&b"two"[..])));
        assert_eq!((results.boolean(3), results.bytes(4)), (false, Some(&b"it broke"[..])));
    });
    state.end(coroutine, BOUNDS);
}

#[test]
fn the_place_of_a_run_is_that_of_its_first_function() {
    let mut state = state();
    for levels in [0, 1, 2, 30, 61, 62, 63, 200, 1_000] {
        let down =
            "local function down(left) if left > 0 then down(left - 1) else sleep(1) end return left end";
        let function = function(&mut state, &format!("\n{down}\ndown({levels})"));
        let mut coroutine = state.begin(function, |_| {});
        assert_eq!(state.place_of_run(&coroutine).as_deref(), Some("test:0"), "{levels}");
        assert_eq!(state.resume(&mut coroutine, None, BOUNDS), Resumed::Waits(1));
        assert_eq!(state.place_of_run(&coroutine).as_deref(), Some("test:0"), "{levels}");
        state.end(coroutine, BOUNDS);
    }
}

#[test]
fn coroutines_wait_at_the_same_time() {
    let mut state = state();
    let function =
        function(&mut state, "local first = ... local got = sleep(first) return got + sleep(first)");
    let mut all: Vec<_> =
        (0..10).map(|number| state.begin(function, |stack| stack.push_integer(number))).collect();
    for _ in 0..2 {
        for (number, coroutine) in (0..).zip(&mut all) {
            assert_eq!(state.resume(coroutine, None, BOUNDS), Resumed::Waits(number));
        }
        // All are settled before the first one goes on.
        for (number, coroutine) in (0..).zip(&mut all) {
            state.settle(coroutine, |stack| {
                stack.push_integer(100 + number);
                Ok(())
            });
        }
    }
    for (number, mut coroutine) in (0..).zip(all) {
        assert_eq!(state.resume(&mut coroutine, None, BOUNDS), Resumed::Returned(1));
        assert_eq!(state.results(&coroutine, |results| results.integer(1)), Some(200 + 2 * number));
        state.end(coroutine, BOUNDS);
    }
}

#[test]
fn a_coroutine_that_ends_early_closes_its_variables_and_is_used_again() {
    let mut state = state();
    let closes = function(
        &mut state,
        "local kept <close> = setmetatable({}, {__close = function() closed = (closed or 0) + 1 end})
         sleep(1)
         never = true",
    );
    let before = state.memory_used();
    for round in 1..=1_000 {
        let mut coroutine = state.begin(closes, |_| {});
        assert_eq!(state.resume(&mut coroutine, None, BOUNDS), Resumed::Waits(1));
        state.end(coroutine, BOUNDS);
        let closed = run(&mut state, "return closed, never").unwrap();
        assert_eq!(closed, [format!("Integer {round}"), "Nil -".into()]);
    }
    state.collect(BOUNDS);
    assert!(state.memory_used() < before + 64 * 1024, "{} after {before}", state.memory_used());
}

#[test]
fn memory_is_bounded_and_the_state_goes_on() {
    for text in [
        "local t = {} while true do t[#t + 1] = {} end",
        "return string.rep('x', 2^30)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = large(100000) end",
        "return large(100000000)",
        "local t = {} while true do t[#t + 1] = coroutine.create(print) end",
        "local t = {} while true do pcall(function() t[#t + 1] = string.rep('x', 100000) .. #t end) end",
    ] {
        let mut state = state();
        let (kind, message) = run(&mut state, text).unwrap_err();
        let is_expected = matches!(kind, LuaErrorKind::Memory | LuaErrorKind::Timeout);
        assert!(is_expected || message.ends_with("not enough memory"), "{text}: {kind:?} {message}");
        state.collect(BOUNDS);
        assert!(state.memory_used() < MEMORY, "{text}");
        assert_eq!(run(&mut state, "return #string.rep('x', 1000)").unwrap(), ["Integer 1000"], "{text}");
    }
}

#[test]
fn a_stack_overflow_is_an_error() {
    let mut state = state_of(&Arc::new(MemoryBudget::unlimited()));
    for deep in [
        "local function deeper() return 1 + deeper() end return deeper()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]",
    ] {
        let deep = function(&mut state, deep);
        let bounds = RunBounds { time: None, ..BOUNDS };
        let error = state.call(deep, None, bounds, |_| {}, |_| ()).unwrap_err();
        assert!(error.kind == LuaErrorKind::Runtime && error.to_string().contains("overflow"), "{error}");
    }
}

#[test]
fn objects_cannot_be_forged() {
    let mut state = state();
    let mut class = || {
        state.with_stack(|stack| {
            stack.push_table(0, 0);
            stack.keep()
        })
    };
    let (class, other) = (class(), class());
    state.with_stack(|stack| {
        stack.push_object(class, 42, 0);
        assert_eq!((stack.object(-1, class), stack.object(-1, other)), (Some(42), None));
        stack.push_table(0, 0);
        assert_eq!(stack.object(-1, class), None);
        stack.set_metatable(class);
        assert_eq!(stack.object(-1, class), None, "it lacks a number");
        stack.push_integer(5);
        assert_eq!((stack.object(-1, class), stack.object(9, class)), (None, None));
    });
}

#[test]
fn scripts_do_not_see_the_metatable_of_a_hidden_class() {
    fn make(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
        call.push_object(*CLASS.get().unwrap(), 42, 0);
        call.results(1)
    }
    static CLASS: std::sync::OnceLock<LuaReference> = std::sync::OnceLock::new();
    let mut state = state();
    let class = state.with_stack(|stack| {
        stack.push_table(0, 1);
        stack.push_bytes(b"Thing");
        stack.set_field(b"__name");
        stack.keep()
    });
    CLASS.set(class).unwrap();
    state.with_stack(|stack| stack.hide_class(class));
    add(&mut state, "make", make);
    // A finalizer of the class would run without hooks.
    let text = "local seen = {getmetatable(make()), debug.getmetatable(make())}
         for i = 1, 2 do seen[i].__gc = function() while true do end end end
         assert(not pcall(setmetatable, make(), {}))
         for i = 1, 1000 do make() end
         collectgarbage()
         return seen[1].__name, seen[2] == seen[1]";
    assert_eq!(run(&mut state, text).unwrap(), ["String Thing", "Boolean -"]);
}

#[test]
fn pairs_are_visited_once_and_converted_keys_do_not_confuse_the_visit() {
    let mut state = state();
    let table = function(&mut state, "return {[0] = 'zero', 'one', 'two', name = 3, [1.5] = 4}");
    let visit = |results: &LuaCall<'_, Counter>| {
        let mut seen = Vec::new();
        let ended: Result<(), ()> = results.each_pair(1, |stack| {
            let text = |at| String::from_utf8_lossy(stack.bytes(at).unwrap()).into_owned();
            seen.push((text(-2), text(-1)));
            Ok(())
        });
        let left = results.each_pair(1, |_| Err("left"));
        assert_eq!((ended, left, results.count()), (Ok(()), Err("left"), 1));
        seen.sort();
        seen
    };
    let seen = state.call(table, None, BOUNDS, |_| {}, visit);
    let expected = [("0", "zero"), ("1", "one"), ("1.5", "4"), ("2", "two"), ("name", "3")];
    assert_eq!(seen.unwrap(), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
}

#[test]
fn a_state_moves_between_threads() {
    let mut state = state();
    let function = function(&mut state, "count = (count or 0) + 1 note(tostring(count)) sleep(count)");
    let mut coroutine = state.begin(function, |_| {});
    let mut notes = Vec::new();
    assert_eq!(state.resume(&mut coroutine, Some(&mut notes), BOUNDS), Resumed::Waits(1));
    for round in 2..=5 {
        let moved = std::thread::spawn(move || {
            state.settle(&mut coroutine, |_| Ok(()));
            assert_eq!(state.resume(&mut coroutine, Some(&mut notes), BOUNDS), Resumed::Returned(0));
            state.end(coroutine, BOUNDS);
            let mut next = state.begin(function, |_| {});
            assert_eq!(state.resume(&mut next, Some(&mut notes), BOUNDS), Resumed::Waits(round));
            (state, next, notes)
        });
        (state, coroutine, notes) = moved.join().unwrap();
    }
    assert_eq!(notes, ["1", "2", "3", "4", "5"]);
}

#[test]
fn calls_know_the_number_of_their_function_and_missing_arguments() {
    fn number(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
        assert_eq!(call.kind(1), LuaKind::None);
        call.push_integer(call.number_of_function());
        call.results(1)
    }
    let mut state = state();
    add(&mut state, "number", number);
    assert_eq!(run(&mut state, "return number()").unwrap(), ["Integer 7"]);
}

/// Counts the finalizers that ran.
fn finalize(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    FINALIZED.with(|count| count.set(count.get() + 1));
    call.results(0)
}

thread_local! {
    static FINALIZED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

fn collect(call: &LuaCall<'_, Counter>) -> Result<CallEnd, Misuse> {
    call.collect();
    call.results(0)
}

#[test]
fn functions_collect_objects_that_nothing_refers_to() {
    let mut state = state();
    let class = state.with_stack(|stack| {
        stack.push_table(0, 1);
        stack.push_function::<Counter>(finalize, 0);
        stack.set_field(b"__gc");
        stack.keep()
    });
    add(&mut state, "collect", collect);
    state.with_stack(|stack| (0..10).for_each(|number| stack.push_object(class, number, 0)));
    FINALIZED.set(0);
    run(&mut state, "local kept = {} collect()").unwrap();
    assert_eq!(FINALIZED.get(), 10);
}

#[test]
fn objects_have_numbers_that_functions_change() {
    let mut state = state();
    state.with_stack(|stack| {
        stack.push_table(0, 0);
        let class = stack.keep();
        stack.push_object(class, 42, 0);
        assert_eq!((stack.object(-1, class), stack.parts(-1).second()), (Some(42), None));
        stack.parts(-1).set_second(5);
        stack.parts(-1).set_first(43);
        assert_eq!((stack.object(1, class), stack.parts(1).second()), (Some(43), Some(5)));
        assert_eq!(stack.count(), 1);
    });
}

#[test]
fn opaque_bytes_come_back_only_from_their_own_values() {
    let mut state = state();
    state.open_library("io");
    state.push_global(b"io");
    let stack = state.stack();
    push_opaque(&stack, b"a\0b");
    assert_eq!((stack.kind(-1), opaque_bytes(&stack, -1)), (LuaKind::Userdata, Some(&b"a\0b"[..])));
    push_opaque(&stack, b"");
    assert_eq!(opaque_bytes(&stack, -1), Some(&b""[..]));
    // A file is a userdata of C.
    stack.push_field(1, b"stdout");
    assert_eq!((stack.kind(-1), opaque_bytes(&stack, -1)), (LuaKind::Userdata, None));
    stack.push_bytes(b"a\0b");
    assert_eq!((opaque_bytes(&stack, -1), opaque_bytes(&stack, 9)), (None, None));
}
