//! tokio's current-thread runtime.

use super::signal::{self, raise, raised};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, timeout, timeout_at};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().expect("a runtime")
}

/// Runs `main` as a task of its own: the future of `block_on` itself takes another way.
fn run(main: impl Future<Output = ()> + Send + 'static) {
    runtime().block_on(async { tokio::spawn(main).await.expect("no panic") });
    signal::forget();
}

pub fn switches(count: u64) {
    run(async move {
        tokio::spawn(signal::answer());
        signal::request(count / 2).await;
    });
}

pub fn yields(count: u64) {
    run(async move {
        let yielding = |_| {
            tokio::spawn(async move {
                for _ in 0..count / 100 {
                    tokio::task::yield_now().await;
                }
            })
        };
        for task in (0..100).map(yielding).collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
    });
}

pub fn spawns(count: u64) {
    run(async move {
        for _ in 0..count {
            tokio::spawn(async { raise(0) });
            raised(0).await;
        }
    });
}

pub fn timers(count: u64) {
    run(async move {
        tokio::spawn(async {
            loop {
                let _ = timeout(Duration::from_secs(60), raised(1)).await;
                raise(0);
            }
        });
        for _ in 0..count / 2 {
            raise(1);
            let _ = timeout(Duration::from_secs(30), raised(0)).await;
        }
    });
}

pub fn nearer_timers(count: u64) {
    run(async move {
        let end = Instant::now() + Duration::from_secs(100_000);
        tokio::spawn(async move {
            for step in 0.. {
                let _ = timeout_at(end - Duration::from_millis(step), raised(1)).await;
                raise(0);
            }
        });
        for step in 0..count / 2 {
            raise(1);
            let _ = timeout_at(end - Duration::from_millis(step), raised(0)).await;
        }
    });
}

/// A runtime that has sockets to wait for, as a network program's has: one that sleeps does so in its poller.
pub fn across(pairs: usize, count: u64, place: super::ProcessorPlacement) {
    across_on(pairs, count, place, || Builder::new_current_thread().enable_all().build().expect("a runtime"));
}

/// One that cannot have sockets sleeps on a lock instead, which the kernel makes cheaper.
pub fn across_without_sockets(pairs: usize, count: u64, place: super::ProcessorPlacement) {
    across_on(pairs, count, place, runtime);
}

fn across_on(pairs: usize, count: u64, place: super::ProcessorPlacement, runtime: fn() -> Runtime) {
    let signals = signal::pairs(pairs);
    let rounds = count / 2 / pairs as u64;
    let live = |side: usize| {
        place.take(side);
        runtime().block_on(async {
            let tasks: Vec<_> =
                signals.iter().map(|pair| tokio::spawn(signal::play(pair.clone(), side, rounds))).collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        });
    };
    std::thread::scope(|scope| {
        scope.spawn(|| live(0));
        scope.spawn(|| live(1));
    });
}

/// Sets this many deadlines at once; returns the longest time that a yielding task waits for its next turn, in
/// nanoseconds.
pub fn storm(timers: u64) -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LEFT: AtomicU64 = AtomicU64::new(0);
    LEFT.store(timers, Ordering::Relaxed);
    runtime().block_on(async move {
        tokio::spawn(async move {
            let due = Instant::now() + Duration::from_millis(500);
            for _ in 0..timers {
                tokio::spawn(async move {
                    tokio::time::sleep_until(due).await;
                    LEFT.fetch_sub(1, Ordering::Relaxed);
                });
            }
            tokio::time::sleep_until(due - Duration::from_millis(2)).await;
            let clock = weir_sys::time::ThreadClock::of_this_thread().expect("Linux has them");
            let mut longest = 0;
            while LEFT.load(Ordering::Relaxed) > 0 {
                let start = clock.ns().unwrap_or(0);
                tokio::task::yield_now().await;
                longest = longest.max(clock.ns().unwrap_or(0) - start);
            }
            longest
        })
        .await
        .expect("no panic")
    })
}
