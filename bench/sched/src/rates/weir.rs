//! weir's scheduler, the way weir uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use weir_sched::{Class, WorkKind, Runtime, RuntimeSettings, TaskKey, Tick, current, now, spawn, wait, wake, yield_now};

static KIND: WorkKind = WorkKind::new("bench");

fn run(main: impl Future<Output = ()> + 'static) {
    weir_sched::run(main).expect("a worker");
}

pub fn switches(count: u64) {
    run(async move {
        let main = current();
        let other = spawn(&KIND, Class::Normal, async move {
            loop {
                wait(Tick::NEVER).await;
                wake(main);
            }
        });
        yield_now().await;
        for _ in 0..count / 2 {
            wake(other);
            wait(Tick::NEVER).await;
        }
    });
}

pub fn yields(count: u64) {
    run(async move {
        let main = current();
        for number in 0..100 {
            spawn(&KIND, Class::Normal, async move {
                for _ in 0..count / 100 {
                    yield_now().await;
                }
                // They take turns, so the last one to begin is the last to end.
                if number == 99 {
                    wake(main);
                }
            });
        }
        wait(Tick::NEVER).await;
    });
}

pub fn spawns(count: u64) {
    run(async move {
        let main = current();
        for _ in 0..count {
            spawn(&KIND, Class::Normal, async move { wake(main) });
            wait(Tick::NEVER).await;
        }
    });
}

pub fn timers(count: u64) {
    run(async move {
        let main = current();
        let other = spawn(&KIND, Class::Normal, async move {
            loop {
                wait(now().after(60_000)).await;
                wake(main);
            }
        });
        yield_now().await;
        for _ in 0..count / 2 {
            wake(other);
            wait(now().after(30_000)).await;
        }
    });
}

pub fn nearer_timers(count: u64) {
    run(async move {
        let main = current();
        let end = now().as_ms() + 100_000_000;
        let other = spawn(&KIND, Class::Normal, async move {
            for step in 0.. {
                wait(Tick::from_ms(end - step)).await;
                wake(main);
            }
        });
        yield_now().await;
        for step in 0..count / 2 {
            wake(other);
            wait(Tick::from_ms(end - step)).await;
        }
    });
}

/// One side of a pair.
#[derive(Default)]
struct PairSide {
    key: AtomicU64,
    raised: AtomicBool,
}

impl PairSide {
    fn raise(&self) {
        self.raised.store(true, Ordering::Release);
        wake(TaskKey::from_bits(self.key.load(Ordering::Acquire)));
    }

    async fn raised(&self) {
        while !self.raised.swap(false, Ordering::Acquire) {
            wait(Tick::NEVER).await;
        }
    }
}

pub fn across(pairs: usize, count: u64, place: super::ProcessorPlacement) {
    let sides: Arc<Vec<[PairSide; 2]>> = Arc::new((0..pairs).map(|_| Default::default()).collect());
    let rounds = count / 2 / pairs as u64;
    let (sender, receiver) = mpsc::channel();
    let processors = vec![place.processors(0), place.processors(1)];
    let settings = RuntimeSettings { threads: 2, processors, ..RuntimeSettings::default() };
    let runtime = Runtime::start(&settings, move |side| {
        for pair in 0..pairs {
            let (sides, sender) = (sides.clone(), sender.clone());
            spawn(&KIND, Class::Normal, async move {
                let [first, second] = &sides[pair];
                let mine = if side == 0 { first } else { second };
                mine.key.store(current().to_bits(), Ordering::Release);
                for _ in 0..rounds {
                    if side == 0 {
                        second.raise();
                    }
                    mine.raised().await;
                    if side == 1 {
                        first.raise();
                    }
                }
                sender.send(()).expect("the benchmark waits");
            });
        }
    })
    .expect("two threads");
    (0..2 * pairs).for_each(|_| receiver.recv().expect("all of them end"));
    runtime.stop();
    runtime.join().expect("no panic");
}
