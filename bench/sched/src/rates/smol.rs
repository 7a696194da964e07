//! smol: its executor for one thread, its reactor and its timers.

use super::signal::{self, raise, raised};
use async_executor::LocalExecutor;
use async_io::Timer;
use futures_lite::future::{or, yield_now};
use std::rc::Rc;
use std::time::{Duration, Instant};

type Executor = Rc<LocalExecutor<'static>>;

fn run<F: Future<Output = ()> + 'static>(main: impl FnOnce(Executor) -> F) {
    let executor = Rc::new(LocalExecutor::new());
    let main = executor.spawn(main(executor.clone()));
    async_io::block_on(executor.run(main));
    signal::forget();
}

pub fn switches(count: u64) {
    run(|executor| async move {
        let _other = executor.spawn(async {
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
    run(|executor| async move {
        let yielding = |_| {
            executor.spawn(async move {
                for _ in 0..count / 100 {
                    yield_now().await;
                }
            })
        };
        for task in (0..100).map(yielding).collect::<Vec<_>>() {
            task.await;
        }
    });
}

pub fn spawns(count: u64) {
    run(|executor| async move {
        for _ in 0..count {
            executor.spawn(async { raise(0) }).detach();
            raised(0).await;
        }
    });
}

async fn timeout_at(end: Instant, work: impl Future<Output = ()>) {
    or(work, async {
        Timer::at(end).await;
    })
    .await;
}

pub fn timers(count: u64) {
    run(|executor| async move {
        let _other = executor.spawn(async {
            loop {
                timeout_at(Instant::now() + Duration::from_secs(60), raised(1)).await;
                raise(0);
            }
        });
        for _ in 0..count / 2 {
            raise(1);
            timeout_at(Instant::now() + Duration::from_secs(30), raised(0)).await;
        }
    });
}

pub fn nearer_timers(count: u64) {
    run(|executor| async move {
        let end = Instant::now() + Duration::from_secs(100_000);
        let _other = executor.spawn(async move {
            for step in 0.. {
                timeout_at(end - Duration::from_millis(step), raised(1)).await;
                raise(0);
            }
        });
        for step in 0..count / 2 {
            raise(1);
            timeout_at(end - Duration::from_millis(step), raised(0)).await;
        }
    });
}

pub fn across(pairs: usize, count: u64) {
    let signals = signal::pairs(pairs);
    let rounds = count / 2 / pairs as u64;
    let side = |side: usize| {
        let signals = signals.clone();
        move || {
            let executor = LocalExecutor::new();
            let work = |pair: usize| {
                let signals = signals.clone();
                executor.spawn(async move {
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
            let tasks: Vec<_> = (0..pairs).map(work).collect();
            async_io::block_on(executor.run(async {
                for task in tasks {
                    task.await;
                }
            }));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(side(0));
        scope.spawn(side(1));
    });
}
