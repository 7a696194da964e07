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
        tokio::spawn(async {
            loop {
                raised(1).await;
                raise(0);
            }
        });
        for _ in 0..count / 2 {
            raise(1);
            raised(0).await;
        }
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

pub fn across(pairs: usize, count: u64) {
    let signals = signal::pairs(pairs);
    let rounds = count / 2 / pairs as u64;
    let side = |side: usize| {
        let signals = signals.clone();
        move || {
            runtime().block_on(async move {
                let work = |pair: usize| {
                    let signals = signals.clone();
                    tokio::spawn(async move {
                        for _ in 0..rounds {
                            if side == 0 {
                                signals[pair][1].raise();
                            }
                            signals[pair][side].raised().await;
                            if side == 1 {
                                signals[pair][0].raise();
                            }
                        }
                    })
                };
                for task in (0..pairs).map(work).collect::<Vec<_>>() {
                    task.await.expect("no panic");
                }
            });
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(side(0));
        scope.spawn(side(1));
    });
}

/// So many deadlines at once, and the longest that a task which yields waits for its next turn, in nanoseconds.
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
