//! How long a task switch takes: nanoseconds for each of the moves that the scheduler makes.
//!
//! `cargo run --profile bench --example switch`. Numbers to compare two builds on one quiet machine, not to quote.
//! `valgrind --tool=callgrind target/release/examples/switch simulated` counts instructions: fewer rounds, virtual time.

use std::io::Write;
use std::time::Instant;
use weir_sched::{Class, Tick, WorkKind, current, now, spawn, wait, wake, yield_now};

static KIND: WorkKind = WorkKind::new("switch");

fn main() -> std::io::Result<()> {
    report("wake and run, two tasks in turn", ping_pong)?;
    report("yield, one task (with a look at the poller)", || yielding(1))?;
    report("yield, 100 tasks", || yielding(100))?;
    report("yield, 10000 tasks", || yielding(10_000))?;
    report("spawn and end", spawning)?;
    report("wait with a deadline that moves on, woken before", deadlines)
}

fn report(name: &str, work: fn() -> (u64, f64)) -> std::io::Result<()> {
    // The first round warms up; the best of the others is the least disturbed.
    let rounds = if is_simulated() { 1..2 } else { 0..5 };
    let best = rounds
        .map(|_| work())
        .skip(usize::from(!is_simulated()))
        .map(|(count, ns)| ns / count as f64)
        .fold(f64::MAX, f64::min);
    writeln!(std::io::stdout(), "{best:8.1} ns  {name}")
}

/// With the argument `profiled` everything is measured as `profiling.tasks on` does.
fn measure_if_requested() {
    if std::env::args().any(|word| word == "profiled") {
        let settings =
            weir_sched::ProfileSettings { mode: weir_sched::ProfileMode::On, ..Default::default() };
        weir_sched::set_profiling(settings);
    }
}

fn timed(count: u64, work: impl Future<Output = ()> + 'static) -> (u64, f64) {
    let start = Instant::now();
    let measured = async {
        measure_if_requested();
        yield_now().await;
        work.await;
    };
    if is_simulated() {
        weir_sched::simulate::run(1, measured).expect("a worker");
    } else {
        weir_sched::run(measured).expect("a worker");
    }
    (count, start.elapsed().as_nanos() as f64)
}

fn ping_pong() -> (u64, f64) {
    timed(2 * ROUNDS, async {
        let main = current();
        let other = spawn(&KIND, Class::Normal, async move {
            loop {
                wait(Tick::NEVER).await;
                wake(main);
            }
        });
        yield_now().await;
        for _ in 0..ROUNDS {
            wake(other);
            wait(Tick::NEVER).await;
        }
    })
}

fn yielding(tasks: u64) -> (u64, f64) {
    timed(ROUNDS, async move {
        let main = current();
        for number in 0..tasks {
            spawn(&KIND, Class::Normal, async move {
                for _ in 0..ROUNDS / tasks {
                    yield_now().await;
                }
                if number == 0 {
                    wake(main);
                }
            });
        }
        wait(Tick::NEVER).await;
    })
}

fn spawning() -> (u64, f64) {
    timed(ROUNDS, async {
        let main = current();
        for _ in 0..ROUNDS {
            spawn(&KIND, Class::Normal, async move { wake(main) });
            wait(Tick::NEVER).await;
        }
    })
}

fn deadlines() -> (u64, f64) {
    timed(2 * ROUNDS, async {
        let main = current();
        let other = spawn(&KIND, Class::Normal, async move {
            loop {
                wait(now().after(60_000)).await;
                wake(main);
            }
        });
        yield_now().await;
        for _ in 0..ROUNDS {
            wake(other);
            wait(now().after(30_000)).await;
        }
    })
}

fn is_simulated() -> bool {
    std::env::args().nth(1).is_some_and(|mode| mode == "simulated")
}

const ROUNDS: u64 = 1_000_000;
