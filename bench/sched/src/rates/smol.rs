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
        let _other = executor.spawn(signal::answer());
        signal::request(count / 2).await;
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

pub fn across(pairs: usize, count: u64, place: super::ProcessorPlacement) {
    let signals = signal::pairs(pairs);
    let rounds = count / 2 / pairs as u64;
    let live = |side: usize| {
        place.take(side);
        let executor = LocalExecutor::new();
        let tasks: Vec<_> =
            signals.iter().map(|pair| executor.spawn(signal::play(pair.clone(), side, rounds))).collect();
        async_io::block_on(executor.run(async {
            for task in tasks {
                task.await;
            }
        }));
    };
    std::thread::scope(|scope| {
        scope.spawn(|| live(0));
        scope.spawn(|| live(1));
    });
}
