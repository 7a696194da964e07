//! Scripts that compute for ever, and the bounds that end them.

mod endless;

use endless::Watchdog;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_lua::{
    CallEnd, LuaCall, LuaError, LuaErrorKind, LuaHost, LuaReference, LuaState, MemoryBudget, Misuse, Resumed,
    RunBounds, RunSlice,
};
use weir_sys::time::thread_cpu_ns;

struct Host;

impl LuaHost for Host {
    type Target = ();
    type Wait = i64;
}

type State = LuaState<Host>;

fn wait(call: &LuaCall<'_, Host>) -> Result<CallEnd, Misuse> {
    call.wait(call.expect_integer(1)?)
}

/// Blocks the thread, as a function does that waits for a lock.
fn block(call: &LuaCall<'_, Host>) -> Result<CallEnd, Misuse> {
    std::thread::sleep(Duration::from_millis(call.expect_integer(1)? as u64));
    call.results(0)
}

fn state() -> State {
    state_of(&Arc::new(MemoryBudget::new(256 << 20)))
}

fn state_of(budget: &Arc<MemoryBudget>) -> State {
    let mut state = LuaState::new(Host, Arc::clone(budget)).unwrap();
    for library in ["base", "coroutine", "table", "string", "math", "debug", "utf8", "os"] {
        assert!(state.open_library(library));
    }
    for (name, function) in [("wait", wait as weir_lua::Function<Host>), ("block", block)] {
        state.stack().push_function::<Host>(function, 0);
        state.set_global(name.as_bytes());
    }
    state
}

fn function(state: &mut State, text: &str) -> LuaReference {
    state.load(text.as_bytes(), "@test").unwrap_or_else(|error| panic!("{text}: {error}"))
}

const LIMIT: Duration = Duration::from_millis(40);
const BOUNDS: RunBounds = RunBounds { time: Some(LIMIT), slice: RunSlice::Tick { or_instructions: 1_000 } };
/// CPU time that a run may need to end: ticks of the kernel, an uninterruptible function, a traceback.
const TOLERANCE: Duration = Duration::from_millis(150);

/// The CPU time that `act` needs.
fn cpu_of<R>(act: impl FnOnce() -> R) -> (Duration, R) {
    let began = thread_cpu_ns();
    let result = act();
    (Duration::from_nanos(thread_cpu_ns() - began), result)
}

fn assert_ends(text: &'static str, bounds: RunBounds) {
    let _watchdog = Watchdog::new(text);
    let mut state = state();
    let endless = function(&mut state, text);
    let (cpu, ended) = cpu_of(|| state.call(endless, None, bounds, |_| {}, |_| ()));
    let error = ended.unwrap_err();
    assert_eq!(error.kind, LuaErrorKind::Timeout, "{text}: {error}");
    let is_reported = error.to_string().ends_with("execution timeout") && error.traceback.contains("test:");
    assert!(is_reported, "{text}: {error} {}", error.traceback);
    assert!(cpu < LIMIT + TOLERANCE, "{text}: {cpu:?}");
    assert!(cpu >= LIMIT - Duration::from_millis(15), "{text}: it ended early, {cpu:?}");
    assert_goes_on(&mut state, text);
    let (cpu, ()) = cpu_of(|| drop(state));
    assert!(cpu < TOLERANCE + LIMIT, "{text}: the state ends, {cpu:?}");
}

/// The state can be used after the end of a run.
fn assert_goes_on(state: &mut State, text: &str) {
    if text.contains("__gc") {
        // Objects that wait for their finalizer: each may use the time of a run.
        return;
    }
    let next = function(state, "local sum = 0 for i = 1, 2000 do sum = sum + #tostring(i) end return sum");
    let sum = state.call(next, None, BOUNDS, |_| {}, |results| results.integer(1));
    assert_eq!(sum, Ok(Some(6_893)), "{text}");
    let mut coroutine = state.begin(next, |_| {});
    let resumed = loop {
        match state.resume(&mut coroutine, None, BOUNDS) {
            Resumed::Interrupted => {}
            other => break other,
        }
    };
    assert_eq!(resumed, Resumed::Returned(1), "{text}");
    state.end(coroutine, BOUNDS);
}

#[test]
fn a_call_that_computes_for_ever_ends_at_its_limit() {
    endless::everywhere().for_each(|text| assert_ends(text, BOUNDS));
}

#[test]
fn a_function_of_c_that_calls_another_one_ends_at_its_limit() {
    // A number that grows.
    assert_ends("load(os.time)", BOUNDS);
}

#[test]
fn a_call_with_counted_slices_ends_at_its_limit() {
    let counted = RunBounds { slice: RunSlice::Instructions(1_000), ..BOUNDS };
    endless::everywhere().step_by(3).for_each(|text| assert_ends(text, counted));
}

/// Resumes a coroutine for as long as its driver lets it compute. Returns its slices, and the error that ended it before.
fn drive(state: &mut State, text: &'static str, bounds: RunBounds) -> (u32, Option<LuaError>) {
    let _watchdog = Watchdog::new(text);
    let endless = function(state, text);
    let mut coroutine = state.begin(endless, |_| {});
    let (mut slices, mut computed) = (0, Duration::ZERO);
    let error = loop {
        let left = RunBounds { time: Some(LIMIT.saturating_sub(computed)), ..bounds };
        let (cpu, resumed) = cpu_of(|| state.resume(&mut coroutine, None, left));
        computed += state.computed();
        assert!(cpu < LIMIT + TOLERANCE, "{text}: {cpu:?} in one slice");
        match resumed {
            Resumed::Interrupted => slices += 1,
            Resumed::Failed(error) => break Some(error),
            other => panic!("{text}: {other:?}"),
        }
        assert!(computed < LIMIT + TOLERANCE, "{text}: {computed:?}");
    };
    let (cpu, ()) = cpu_of(|| state.end(coroutine, BOUNDS));
    assert!(cpu < LIMIT + TOLERANCE, "{text}: its end takes {cpu:?}");
    (slices, error)
}

#[test]
fn a_coroutine_that_computes_for_ever_ends_at_its_limit() {
    for text in endless::everywhere() {
        let mut state = state();
        let (cpu, (_, error)) = cpu_of(|| drive(&mut state, text, BOUNDS));
        assert_eq!(error.map(|error| error.kind), Some(LuaErrorKind::Timeout), "{text}");
        // Variables that are to be closed have a limit of their own.
        assert!(cpu < 2 * LIMIT + TOLERANCE, "{text}: {cpu:?}");
        assert_goes_on(&mut state, text);
    }
}

#[test]
fn a_coroutine_lets_others_run_after_each_slice() {
    for text in endless::YIELDING {
        let mut state = state();
        let (slices, error) = drive(&mut state, text, BOUNDS);
        // A tick takes at most 10 ms, and more on a busy machine.
        assert!(slices >= 2, "{text}: {slices} slices");
        assert_eq!(error.map(|error| error.kind), Some(LuaErrorKind::Timeout), "{text}");
        let counted = RunBounds { slice: RunSlice::Instructions(100), ..BOUNDS };
        let (more, _) = drive(&mut state, text, counted);
        assert!(more > slices && more >= 20, "{text}: {more} slices");
    }
}

#[test]
fn counted_slices_have_their_number_of_instructions() {
    let mut state = state();
    let count = function(&mut state, "count = 0 for i = 1, 100000 do count = i end");
    let mut coroutine = state.begin(count, |_| {});
    let bounds = RunBounds { slice: RunSlice::Instructions(10_000), ..BOUNDS };
    let mut counts = vec![0];
    while state.resume(&mut coroutine, None, bounds) == Resumed::Interrupted {
        state.push_global(b"count");
        counts.push(state.with_stack(|stack| stack.integer(-1)).unwrap());
        state.stack().remove(-1);
    }
    // Two instructions in each round. A tick ends a slice early.
    let usual = counts.windows(2).filter(|pair| (4_990..=5_010).contains(&(pair[1] - pair[0]))).count();
    assert!(counts.len() >= 20 && usual >= counts.len() / 2, "{counts:?}");
}

#[test]
fn short_runs_are_not_interrupted() {
    let mut state = state();
    let short = function(&mut state, "local sum = 0 for i = 1, 300 do sum = sum + i end return sum");
    let began = thread_cpu_ns();
    // Some dozens of ticks.
    while thread_cpu_ns() - began < 300_000_000 {
        for _ in 0..100 {
            let mut coroutine = state.begin(short, |_| {});
            assert_eq!(state.resume(&mut coroutine, None, BOUNDS), Resumed::Returned(1));
            state.end(coroutine, BOUNDS);
        }
    }
}

#[test]
fn waits_for_other_threads_are_not_computation() {
    let mut state = state();
    let text = "for i = 1, 10 do block(50) local x = 0 for i = 1, 200000 do x = x + i end end return 'done'";
    let waits = function(&mut state, text);
    let bounds = RunBounds { time: Some(Duration::from_millis(300)), ..BOUNDS };
    let ended = state.call(waits, None, bounds, |_| {}, |results| results.bytes(1).map(<[u8]>::to_vec));
    assert_eq!(ended, Ok(Some(b"done".to_vec())));
    assert!(state.computed() < Duration::from_millis(300), "{:?}", state.computed());
    // In a coroutine, too, and for the sum of its slices.
    let mut coroutine = state.begin(waits, |_| {});
    let (began, mut computed) = (Instant::now(), Duration::ZERO);
    while state.resume(&mut coroutine, None, bounds) == Resumed::Interrupted {
        computed += state.computed();
    }
    assert!(
        began.elapsed() >= Duration::from_millis(500) && computed < Duration::from_millis(300),
        "{computed:?}"
    );
    state.end(coroutine, BOUNDS);
}

#[test]
fn a_run_goes_on_in_another_thread() {
    let mut state = state();
    let text = "local x = 0 while true do x = x + 1 if x % 1000000 == 0 then wait(x) end end";
    let computes = function(&mut state, text);
    let mut coroutine = state.begin(computes, |_| {});
    let mut slices = 0;
    for _ in 0..4 {
        let moved = std::thread::spawn(move || {
            let mut slices = 0;
            loop {
                match state.resume(&mut coroutine, None, BOUNDS) {
                    Resumed::Interrupted => slices += 1,
                    Resumed::Waits(_) => state.settle(&mut coroutine, |_| Ok(())),
                    other => panic!("{other:?}"),
                }
                if slices == 3 {
                    return (state, coroutine, slices);
                }
            }
        });
        let more;
        (state, coroutine, more) = moved.join().unwrap();
        slices += more;
    }
    assert_eq!(slices, 12);
    state.end(coroutine, BOUNDS);
    assert_goes_on(&mut state, text);
}

#[test]
fn states_of_several_threads_compute_at_once() {
    let threads: Vec<_> = (0..4)
        .map(|_| {
            std::thread::spawn(|| {
                ["while true do end", "while true do pcall(string.rep, 'x', 100000) end"]
                    .iter()
                    .for_each(|text| assert_ends(text, BOUNDS));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn finalizers_outside_of_runs_wait_for_the_next_run() {
    let mut state = state();
    let text = "for i = 1, 100 do setmetatable({}, {__gc = function() count = (count or 0) + 1 end}) end";
    let makes = function(&mut state, text);
    let counts = function(&mut state, "return count or 0");
    let count =
        |state: &mut State| state.call(counts, None, BOUNDS, |_| {}, |results| results.integer(1)).unwrap();
    state.call(makes, None, BOUNDS, |_| {}, |_| ()).unwrap();
    let before = count(&mut state);
    // Enough for a whole collection, outside of runs.
    state.with_stack(|stack| {
        for _ in 0..200_000 {
            stack.push_table(4, 4);
            stack.pop(1);
        }
    });
    assert!(before < Some(100) && count(&mut state) == before, "{before:?}");
    state.collect(BOUNDS);
    assert_eq!(count(&mut state), Some(100));
}

#[test]
fn finalizers_of_a_state_that_ends_are_bounded() {
    let mut state = state();
    let text = "for i = 1, 3 do setmetatable({}, {__gc = function() while true do end end}) end";
    let makes = function(&mut state, text);
    state.call(makes, None, BOUNDS, |_| {}, |_| ()).unwrap();
    let (cpu, ()) = cpu_of(|| drop(state));
    assert!(cpu < LIMIT + TOLERANCE, "{cpu:?}");
}

#[test]
fn finalizers_that_a_late_run_skips_run_later() {
    let mut state = state();
    let text = "count = 0
        for i = 1, 100 do setmetatable({}, {__gc = function() count = count + 1 end}) end
        while true do pcall(function() while true do end end) end";
    let endless = function(&mut state, text);
    assert!(state.call(endless, None, BOUNDS, |_| {}, |_| ()).is_err());
    state.collect(BOUNDS);
    let counts = function(&mut state, "return count");
    assert_eq!(state.call(counts, None, BOUNDS, |_| {}, |results| results.integer(1)), Ok(Some(100)));
}

#[test]
fn states_share_their_memory() {
    const LIMIT: usize = 8 << 20;
    let budget = Arc::new(MemoryBudget::new(LIMIT));
    let mut states = [(); 4].map(|()| state_of(&budget));
    let text = "kept = kept or {} for i = 1, 3000 do kept[#kept + 1] = ('x'):rep(100) .. #kept end";
    let frees = function(&mut states[0], "kept = nil collectgarbage()");
    let large = function(&mut states[1], "return #('x'):rep(500000)");
    let grows = states.each_mut().map(|state| function(state, text));
    let mut failed = 0;
    for _ in 0..40 {
        for (state, grows) in states.iter_mut().zip(&grows) {
            failed += usize::from(state.call(*grows, None, RunBounds::NONE, |_| {}, |_| ()).is_err());
            assert!(budget.taken() <= LIMIT + (64 << 10), "{}", budget.taken());
        }
    }
    assert!(failed > 10 && budget.taken() > LIMIT / 2, "{failed} {}", budget.taken());
    let used: usize = states.iter().map(State::memory_used).sum();
    assert!(used <= budget.taken() && budget.taken() <= used + 4 * (32 << 10), "{used} {}", budget.taken());
    // One that frees gives to the others.
    states[0].call(frees, None, RunBounds::NONE, |_| {}, |_| ()).unwrap();
    let length = states[1].call(large, None, RunBounds::NONE, |_| {}, |results| results.integer(1));
    assert_eq!(length, Ok(Some(500_000)));
    drop(states);
    assert_eq!(budget.taken(), 0);
}

/// The traceback of the library takes more than a second of computing for such a stack, which no hook ends.
#[test]
fn the_traceback_of_a_deep_stack_has_its_innermost_levels() {
    let mut state = state();
    let deep = function(&mut state, "local function f() return 1 + f() end\nreturn f()");
    let error = state.call(deep, None, RunBounds::NONE, |_| {}, |_| ()).unwrap_err();
    let lines: Vec<&str> = error.traceback.lines().collect();
    assert_eq!(lines.last(), Some(&"\t...\t(skipping the other levels)"), "{lines:?}");
    assert_eq!(lines.len(), 24, "{lines:?}");
    assert!(lines[1..23].iter().all(|line| *line == "\ttest:1: in upvalue 'f'"), "{lines:?}");
    let own = function(
        &mut state,
        "local function f() return 1 + f() end
         local _, text = xpcall(f, debug.traceback)
         return text, debug.traceback({}) ~= nil, debug.traceback('m'), debug.traceback(), debug.traceback(coroutine.create(f), 5)",
    );
    let shown = state.call(
        own,
        None,
        RunBounds::NONE,
        |_| {},
        |results| {
            [1, 3, 4, 5]
                .map(|index| String::from_utf8_lossy(results.bytes(index).unwrap_or_default()).into_owned())
        },
    );
    let [deep, message, plain, other] = shown.unwrap();
    assert!(
        deep.starts_with("test:1: stack overflow") && deep.ends_with("(skipping the other levels)"),
        "{deep}"
    );
    assert_eq!(message, "m\nstack traceback:\n\ttest:3: in main chunk");
    assert_eq!(plain, "stack traceback:\n\ttest:3: in main chunk");
    assert_eq!(other, "5\nstack traceback:");
}
