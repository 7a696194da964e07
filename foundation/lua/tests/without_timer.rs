//! Bounds on a system without timers of CPU time: hooks count instructions.

mod endless;

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_lua::{LuaErrorKind, LuaHost, LuaState, MemoryBudget, Resumed, RunBounds, RunSlice};
use weir_sys::time::thread_cpu_ns;

struct Host;

impl LuaHost for Host {
    type Target = ();
    type Wait = ();
}

const BOUNDS: RunBounds =
    RunBounds { time: Some(Duration::from_millis(40)), slice: RunSlice::Tick { or_instructions: 100 } };

#[test]
fn a_run_without_a_timer_ends_at_its_limit() {
    // The kernel refuses timers then.
    let limit = getrlimit(Resource::Sigpending);
    setrlimit(Resource::Sigpending, Rlimit { current: Some(0), ..limit }).unwrap();
    for text in endless::everywhere() {
        let _watchdog = endless::Watchdog::new(text);
        let mut state = LuaState::new(Host, Arc::new(MemoryBudget::new(256 << 20))).unwrap();
        ["base", "coroutine", "table", "string", "math", "debug", "utf8"]
            .iter()
            .for_each(|name| assert!(state.open_library(name)));
        let endless = state.load(text.as_bytes(), "@test").unwrap();
        let began = thread_cpu_ns();
        let ended = state.call(endless, None, BOUNDS, |_| {}, |_| ());
        let used = Duration::from_nanos(thread_cpu_ns() - began);
        assert_eq!(ended.map_err(|error| error.kind), Err(LuaErrorKind::Timeout), "{text}");
        // Slow functions of C go on for a slice of instructions.
        assert!(used < Duration::from_secs(2), "{text}: {used:?}");
    }
    let mut state = LuaState::new(Host, Arc::new(MemoryBudget::unlimited())).unwrap();
    let text = "for i = 1, 10000 do end";
    let counts = state.load(text.as_bytes(), "@test").unwrap();
    let mut coroutine = state.begin(counts, |_| {});
    let mut slices = 0;
    while state.resume(&mut coroutine, None, BOUNDS) == Resumed::Interrupted {
        slices += 1;
    }
    assert!((95..=105).contains(&slices), "{slices}");
    state.end(coroutine, BOUNDS);
}
